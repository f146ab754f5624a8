"""
The best subset of columns
==========================

Which k columns explain y best? Not those that a greedy method or the lasso happens to find: the
best ones, proven.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoLars, LinearRegression
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bnb

X, y = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(PolynomialFeatures(2, include_bias=False).fit_transform(X))
print(X.shape)  # 65 columns: ten measurements, their squares and products

# %%
# One search for each size, with criteria to choose between them.

sizes = range(1, 7)
path = bnb.best_subset(X, y, sizes, time_limit=20)
print("proven:", all(result.optimal for result in path))
print("columns by BIC:", int(path.k[path.bic.argmin()]))

# %%
# Next to the columns that the lasso takes first, fitted again without shrinkage:


def squares(columns):
    fitted = LinearRegression().fit(X[:, columns], y)
    return float(((y - fitted.predict(X[:, columns])) ** 2).sum())


order = [j for j in LassoLars(alpha=0.0, max_iter=12).fit(X, y).active_][: len(sizes)]
lasso = [squares(order[:k]) for k in sizes]
best = [result.objective for result in path]

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].plot(sizes, lasso, "s--", color="#0072B2", label="first columns of the lasso")
axes[0].plot(sizes, best, "o-", color="#D55E00", label="best subset, proven")
axes[0].set(xlabel="columns", ylabel="sum of squares")
axes[0].legend()
path.plot(axes[1])

# %%
# As a scikit-learn estimator:

model = bnb.BestSubsetRegressor(k=4).fit(X, y)
print(np.flatnonzero(model.support_), model.result_)
