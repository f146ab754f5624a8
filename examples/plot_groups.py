"""
Rates in every group
====================

An SVM that is right on the whole may be wrong about a group. Here two measurements of breast
tumours are used, and the groups are large and small tumours: the size says so much that an SVM
misses small malignant tumours and suspects large benign ones.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import csvm

data = load_breast_cancer()
columns = [list(data.feature_names).index(name) for name in ("mean area", "mean concavity")]
X = StandardScaler().fit_transform(data.data[:, columns])
y = 1 - data.target  # 1 is malignant
size = np.where(X[:, 0] > np.median(X[:, 0]), "large", "small")

# %%
# ``"tpr[*]>=0.65"`` asks for the rate in every group by itself. Predicting needs no group.

model = csvm.CSVM(
    kernel="linear", constraints=["tpr[*]>=0.65", "tnr[*]>=0.65"], threshold="none", random_state=0,
    time_limit=20,
).fit(X, y, sensitive_features=size)
plain = SVC(kernel="linear", class_weight="balanced").fit(X, y)
print(model.result_)
for rate in model.rates_:
    print(f"{rate.rate:10} asked {rate.asked}, achieved {rate.achieved:.2f}")

# %%
# One hyperplane each: that of the CSVM is turned, which no threshold of the SVM can do.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(3, 2))
for label, mark, colour in ((0, "o", "#0072B2"), (1, "^", "#D55E00")):
    of = y == label
    axes[0].scatter(*X[of].T, s=12, marker=mark, c=colour, alpha=0.6,
                    label="malignant" if label else "benign")
across = np.array([X[:, 0].min(), X[:, 0].max()])
for name, fitted, line in (("SVM", plain, "dotted"), ("CSVM", model, "solid")):
    w, b = fitted.coef_[0], fitted.intercept_[0]
    axes[0].plot(across, -(w[0] * across + b) / w[1], color="#222222", linestyle=line, label=name)
axes[0].axvline(np.median(X[:, 0]), color="#999999", linewidth=0.8)
axes[0].set(xlabel="area (small left of the line, large right)", ylabel="concavity",
            ylim=(X[:, 1].min() - 0.2, X[:, 1].max() + 0.2))
axes[0].legend(fontsize="small")
kinds = [(group, label) for group in ("large", "small") for label in (1, 0)]
for place, (name, fitted) in enumerate((("SVM", plain), ("CSVM", model))):
    right = fitted.predict(X) == y
    shares = [right[(size == group) & (y == label)].mean() for group, label in kinds]
    axes[1].barh(np.arange(4) + 0.4 * place, shares, 0.38, color=("#bbbbbb", "#D55E00")[place],
                 label=name)
axes[1].axvline(0.65, color="#009E73", linestyle="dashed")
axes[1].set(yticks=np.arange(4) + 0.2, xlim=(0, 1), xlabel="share that is right",
            yticklabels=[f"{g}, {'malignant' if k else 'benign'}" for g, k in kinds])
axes[1].legend(fontsize="small", loc="lower left")
