"""The recipe in the user guide, with MAPIE itself."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mapie", minversion="1.6", reason="MAPIE 1.6 is not installed")

GUIDE = Path(__file__).parent.parent / "docs" / "user-guide.md"


def test_a_path_of_csvms_is_a_predict_function():
    (recipe,) = re.findall(r"```py\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    names = {}
    exec(compile(recipe, str(GUIDE), "exec"), names)
    controller, y = names["controller"], names["y_new"]
    model, shift = controller.best_predict_param
    said = controller.predict(names["X_new"])
    assert np.array_equal(said, names["predict"](names["X_new"], model, shift))
    assert len(controller.valid_predict_params) > 1
    assert said[y].mean() > 0.75 and said[~y].mean() < 0.25
