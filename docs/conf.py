"""Sphinx: `python -m sphinx -W -b html docs results/docs` after `pip install -e ".[docs]"`."""

import os
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # this tree, not another one that may be installed
os.environ["MPLBACKEND"] = "Agg"

project = "csvm"
author = "The csvm developers"
release = version = metadata.version("csvm")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["gallery/*.py", "gallery/*.ipynb", "gallery/*.zip", "gallery/*.json"]
default_role = "obj"

myst_heading_anchors = 3
numpydoc_show_class_members = False
autosummary_generate = True
autodoc_default_options = {
    "members": True,
    # scikit-learn puts these on every estimator; its own pages explain them.
    "exclude-members": "set_fit_request, set_score_request, set_predict_request",
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it

_ORDER = (
    "two_rates", "groups", "chosen_cases", "portfolio", "best_subset", "own_problem",
    "log_and_tree",
)


def in_this_order(file: str) -> int:
    """Place of an example in the gallery; a new one comes first and is seen to be missing here."""
    name = Path(file).stem.removeprefix("plot_")
    return _ORDER.index(name) if name in _ORDER else -1


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "reference_url": {"csvm": None, "bnb": None},
    "nested_sections": False,
    "within_subsection_order": "conf.in_this_order",
}
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings are not worth a pickle

html_theme = "pydata_sphinx_theme"
html_title = "csvm"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "tutorial": [], "coming-from": []}
