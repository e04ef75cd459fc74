# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A first network
#
# Train a network whose first-layer weights are all -1 or +1 on real data, read the proof of how good it is, and
# draw networks of other sizes from the same solution. No network of this kind gets below the black line.
#
# *Needs:* `pip install -e ".[notebooks]"`; no download and no GPU.

# %%
import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import IntSlider, SelectionSlider, interact

import qsdp
from qsdp.plotting import ObjectiveDisplay

plt.rcParams["figure.figsize"] = (6, 3.8)

data = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
X_train, X_test, y_train, y_test = data.split()
model = qsdp.QuantizedNetworkClassifier(
    encoding="standard", random_state=0
).fit(X_train, y_train)
result = model.result_

ObjectiveDisplay.from_result(result, n_draws=5, refine="none")
plt.show()

# %% [markdown]
# ## Neurons alone
#
# The data are 569 tumours, measured in 30 columns; +1 is malignant. With `encoding="standard"`, the estimator
# standardises the columns, derives the regularisation β from a regression on held-out rows, and polishes as many
# neurons as match the relaxation.

# %%
print(f"accuracy on training rows: {model.score(X_train, y_train):.1%}")
print(f"accuracy on test rows:     {model.score(X_test, y_test):.1%}")

# %% [markdown]
# The network is $f(x) = \sum_j \alpha_j\, \tilde u_j^T \mathcal{X} \tilde v_j$: a quadratic function of the inputs,
# built from sign vectors $u_j, v_j$, with one number $|\alpha|$ for all neurons. Each weight takes one bit. The
# function itself is a quadratic form whose entries are integers times $|\alpha|$; for few neurons, the form takes more
# bits.

# %%
network = model.network_
print(network)
print(
    "weights that occur:", np.unique(np.vstack([network.U, network.V]))
)
print(
    f"{network.n_bits:,} bits; as an integer form "
    f"{network.to_integer_form().n_bits:,}"
)

# %% [markdown]
# ## The certificate
#
# Training minimises $\sum_i (f(x_i) - y_i)^2 + \beta D \sum_j |\alpha_j|$. Finding the best network of all is a
# combinatorial problem. But a semidefinite program gives a lower bound: a number that **no** network of this kind can
# beat, of any width and with any weights.

# %%
certificate = result.certificate
print(certificate)
print(
    "so the smallest possible objective is between "
    f"{certificate.lower_bound:.1f} and {certificate.objective:.1f}"
)

# %% [markdown]
# ## One solve for every size
#
# Networks are *sampled* from the solution, so the number of neurons $m$ is chosen only now. Each sampled network in the
# picture was drawn in milliseconds, without polishing. On average, the excess over the dashed line falls like $1/m$.
# Polishing, at the end, removes the noise. What do the bits buy? This is the accuracy of polished networks of other
# sizes on the test rows:

# %%
for m in (1, 4, 16, 64, 256):
    drawn = result.resample(m, random_state=0)
    outputs = model.target_scaling_.decode(
        drawn.predict(model.encoder_.transform(X_test))
    )
    accuracy = np.mean(np.where(outputs > 0, 1, -1) == y_test)
    print(
        f"{m:3d} neurons: {drawn.network.n_bits:6,} bits, accuracy "
        f"{accuracy:.1%}"
    )

# %% [markdown]
# ## Resample by hand
#
# The outputs of a sampled network scatter around those of the solution. The function draws one network and shows by how
# much. The network takes encoded rows, and its outputs are for a centred target; `target_scaling_` decodes them.


# %%
def draw(m=300, seed=0):
    drawn = result.resample(m, random_state=seed, refine="none")
    inputs = model.encoder_.transform(X_test)
    ideal, outputs = (
        model.target_scaling_.decode(one.predict(inputs))
        for one in (drawn.relaxation, drawn)
    )
    _, ax = plt.subplots(figsize=(5.2, 4), layout="constrained")
    for label, colour, marker in (
        (-1, "#0072B2", "o"),
        (1, "#D55E00", "^"),
    ):
        rows = y_test == label
        ax.scatter(
            ideal[rows],
            outputs[rows],
            color=colour,
            marker=marker,
            s=18,
            alpha=0.7,
            label=f"class {label:+d}",
        )
    ax.axline((0, 0), slope=1, color="#666666", linewidth=1)
    ax.axhline(0, color="black", linewidth=0.8)
    accuracy = np.mean(np.where(outputs > 0, 1, -1) == y_test)
    ax.set(
        xlabel="output of the solution",
        ylabel="output of the network",
        ylim=(-3, 3),
    )
    ax.set_title(
        f"m = {m}: {drawn.network.n_bits:,} bits, accuracy "
        f"{accuracy:.1%}",
        fontsize=10,
    )
    ax.legend(frameon=False, loc="upper left")
    plt.show()


draw()

# %% [markdown]
# In a live notebook, move the sliders: nothing is solved again.

# %%
_ = interact(
    draw,
    m=SelectionSlider(
        options=[30, 100, 300, 1000, 3000, 10_000, 30_000],
        value=300,
        continuous_update=False,
    ),
    seed=IntSlider(0, 0, 20, continuous_update=False),
)

# %% [markdown]
# ## Less noise, fewer neurons
#
# A new second layer (`refit`) keeps only the neurons that are worth their price. Alternatively, `polish` improves the
# bits at equal storage. The relative gap is the fraction of the objective that is not proven to be necessary.

# %%
for refine, m in (("none", 2500), ("refit", 2500), ("polish", 100)):
    other = result.resample(m, random_state=0, refine=refine)
    gap = other.certificate.relative_gap
    print(
        f"{refine:>6}: {other.network.n_neurons:5d} neurons, "
        f"{other.network.n_bits:7,} bits, relative gap {gap:6.1%}"
    )

# %% [markdown]
# ## Where it wins, and where not
#
# By default, the estimators add a few real weights on the columns to such neurons. On the diabetes data, this predicts
# new rows as well as ridge regression, and clearly better than boosted trees (R²). On the tumours, logistic regression
# is at least as accurate, in fewer bits: use it there.

# %%
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

comparison = {
    "diabetes": (
        qsdp.QuantizedNetworkRegressor(random_state=0),
        RidgeCV(np.geomspace(0.1, 1000, 13)),
        HistGradientBoostingRegressor(random_state=0),
    ),
    "breast-cancer-wisconsin": (
        qsdp.QuantizedNetworkClassifier(random_state=0),
        LogisticRegression(),
        HistGradientBoostingClassifier(random_state=0),
    ),
}
for name, models in comparison.items():
    X, y = qsdp.datasets.load_bundled(name)
    scores = [
        cross_val_score(
            make_pipeline(StandardScaler(), each), X, y, cv=5
        ).mean()
        for each in models
    ]
    bits = models[0].fit(X, y).network_.n_bits
    print(
        f"{name}: network {scores[0]:.3f} ({bits} bits), linear "
        f"{scores[1]:.3f} ({8 * (X.shape[1] + 1)} bits), boosted trees "
        f"{scores[2]:.3f}"
    )

# %% [markdown]
# ## Change it
#
# Try another data set, β or loss: change the first three lines and run the cell. `"wine"`, `"digits"` and `"iris"` have
# more than two classes, which `loss="cross_entropy"` couples. β is `"auto"`, a fraction of the largest useful β such as
# `"5%"`, or a number. Which choice gives the best test accuracy? Which gives the smallest gap?

# %%
name = "wine"
beta = "auto"
loss = "auto"

X_fit, X_held, y_fit, y_held = qsdp.datasets.load_bundled(name).split()
mine = qsdp.QuantizedNetworkClassifier(
    beta=beta, loss=loss, random_state=0
).fit(X_fit, y_fit)
chosen = mine.result_.problem.beta
print(
    f"{name}: β = {chosen:.3g}, test accuracy "
    f"{mine.score(X_held, y_held):.1%};",
    mine.certificate_,
)
