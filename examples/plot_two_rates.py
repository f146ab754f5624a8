"""
Two rates at once
=================

Find nine in ten of the malignant tumours *and* leave eight in ten of the benign ones alone, from
two measurements. A constrained SVM is asked for both; an SVM is asked for neither.
"""

# %%
# Data and split. The rates are asked of *anchors*, half of the points that a rate is about, which
# the SVM is not trained on.

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import csvm

data = load_breast_cancer()
X, y = data.data[:, :2], 1 - data.target  # mean radius and mean texture; 1 is malignant
X_fit, X_new, y_fit, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
scaler = StandardScaler().fit(X_fit)
X_fit, X_new = scaler.transform(X_fit), scaler.transform(X_new)

# %%
# The fit ends with a proof: no classifier of larger margin has these rates on the anchors.

asked = ["tpr>=0.9", "tnr>=0.8"]
model = csvm.CSVM(constraints=asked, threshold="none", random_state=0).fit(X_fit, y_fit)
print(model.result_)
for rate in model.rates_:
    print(f"{rate.rate}: asked {rate.asked}, required {rate.required:g} of {rate.total:g} anchors, "
          f"has {rate.counted:g}")

# %%
# The points that the classifier was made with. Anchors are large; those given up are crossed out.

ax = csvm.plots.decision_regions(model, X_fit, y_fit)
ax.set(xlabel="mean radius", ylabel="mean texture")

# %%
# Do they hold on tumours that the fit has not seen? An exact test answers.

print(csvm.certify(model, X_new, y_new, asked))

# %%
# Where each method works on the new points, with 95 % intervals of both rates. The shaded corner is
# what was asked.

methods = {
    "CSVM": model,
    "SVC": SVC().fit(X_fit, y_fit),
    "SVC, balanced": SVC(class_weight="balanced").fit(X_fit, y_fit),
}
csvm.plots.operating_points(methods, X_new, y_new, constraints=asked)
