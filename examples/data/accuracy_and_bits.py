"""
Accuracy and bits, beside logistic regression
=============================================

One solve gives networks of every size, so the accuracy that a budget of bits
buys can be read off a curve. Before using a network, see whether logistic
regression with weights of eight bits, the star, does the same job.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp.plotting import BitsDisplay

cancer = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
digits = load_digits()
pixels = digits.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
tasks = {
    "breast cancer, 30 columns": (cancer.X, cancer.y),
    "odd digits, 16 pixels": (pixels.reshape(-1, 16), digits.target % 2),
}
_, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for (name, (X, y)), ax in zip(tasks.items(), axes, strict=True):
    last = len(X) * 3 // 4
    X = StandardScaler().fit(X[:last]).transform(X)
    model = qsdp.QuantizedNetworkClassifier(
        encoding="standard", beta="2%", random_state=0
    )
    model.fit(X[:last], y[:last])
    BitsDisplay.from_estimator(
        model, X[last:], y[last:], sizes=[2, 4, 8, 16, 32], n_draws=3, ax=ax
    )
    linear = LogisticRegression().fit(X[:last], y[:last])
    unit = np.abs(linear.coef_).max() / 127
    for weights in (linear.coef_, linear.intercept_):
        weights[:] = unit * np.round(weights / unit)
    score = linear.score(X[last:], y[last:])
    ax.plot(8 * X.shape[1] + 8, score, "k*", ms=12)
    ax.set_title(f"{name}: {score:.1%} by a linear model")

# %%
# On the left, all models differ by at most two of 143 rows: the linear one has
# as few bits as any and is the one to take. On the right, products of pixels
# matter. A linear model cannot express them, and 600 bits of signs gain five
# points over it.
