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
# # Levels and activations
#
# First-layer weights may have more than two values, and neurons may have an activation like ReLU. Neither makes the
# semidefinite program larger. This notebook shows the effect of both in two dimensions: the petals of iris.
#
# *Needs:* `pip install -e ".[notebooks]"`; no download and no GPU.

# %%
import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import IntSlider, SelectionSlider, interact
from matplotlib.colors import ListedColormap

import qsdp

plt.rcParams["figure.figsize"] = (6, 3.8)
data = qsdp.datasets.load_bundled("iris")
X, y = data.X[:, 2:], data.y

sampled = {
    "beta": "1%",
    "encoding": "standard",
    "refine": "none",
    "random_state": 0,
}
network = qsdp.QuantizedNetworkClassifier(
    2000, levels=3, **sampled
).fit(X, y)
result = network.result_


def regions(model, title):
    colours = ListedColormap(["#0072B2", "#D55E00", "#009E73"])
    _, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    x0, x1 = np.meshgrid(
        np.linspace(0.5, 7.5, 150), np.linspace(0, 2.8, 150)
    )
    species = model.predict(
        np.column_stack([x0.ravel(), x1.ravel()])
    ).reshape(x0.shape)
    ax.pcolormesh(
        x0,
        x1,
        species,
        cmap=colours,
        alpha=0.3,
        linewidth=0,
        rasterized=True,
    )
    ax.scatter(*X.T, c=y, cmap=colours, s=18, edgecolors="white")
    ax.set(xlabel="petal length, cm", ylabel="petal width, cm")
    ax.set_title(title, fontsize=10)
    plt.show()


regions(network, f"3 levels, accuracy {network.score(X, y):.1%}")

# %% [markdown]
# ## A polynomial like ReLU
#
# The method needs activations $\sigma(t) = a t^2 + b t + c$. The best one on an interval is a least-squares fit.
# `activation="relu_like"`, which the estimators use for neurons alone, is the fit to ReLU on $[-5, 5]$, to four digits.

# %%
relu = qsdp.PolynomialActivation.fit_to(
    lambda t: np.maximum(t, 0), (-5, 5)
)
tanh = qsdp.PolynomialActivation.fit_to(np.tanh, (-2, 2))
t = np.linspace(-6, 6, 200)

_, ax = plt.subplots(layout="constrained")
curves = [
    ("ReLU", np.maximum(t, 0), relu, "#0072B2"),
    ("tanh", np.tanh(t), tanh, "#D55E00"),
]
for name, values, fitted, colour in curves:
    ax.plot(t, values, color=colour, label=name)
    ax.plot(
        t,
        fitted(t),
        color=colour,
        linestyle="--",
        label=f"polynomial like {name}",
    )
ax.set(xlabel="t", ylim=(-2.5, 6))
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()
print("ReLU:", relu)

# %% [markdown]
# The best quadratic polynomial for an odd function is a straight line: tanh does not gain from the square.
#
# ## More levels from one solve
#
# The $M + 1$ levels are $-M, -M + 2, \dots, M$. A weight is then a sum of $M$ signs, which would make the program $M$
# times as wide. But the wide program has a solution that is the same for all $M$ signs of a weight, so it reduces to
# the small program on columns multiplied by $M$. Thus one solution serves every number of levels. The networks here are
# sampled and not polished (`refine="none"`), to show what sampling does.

# %%
print(network.network_)
print(result.certificate)

# %%
figure, axes = plt.subplots(
    1, 3, figsize=(8.4, 2.8), layout="constrained", sharey=True
)
for ax, levels in zip(axes, (2, 3, 6), strict=True):
    drawn = result.resample(2000, random_state=0, levels=levels).network
    for weights, colour, shift in (
        (drawn.U, "#0072B2", -0.2),
        (drawn.V, "#D55E00", 0.2),
    ):
        values, counts = np.unique(weights[:, :-1], return_counts=True)
        ax.bar(
            values + shift,
            counts / counts.sum(),
            width=0.4,
            color=colour,
        )
    ax.set(
        title=f"{levels} levels",
        ylabel="fraction of the weights" if levels == 2 else "",
    )
plt.show()

# %% [markdown]
# Blue bars are weights of $u$, orange bars of $v$. Inner levels occur because the $M$ signs of a weight disagree: the
# covariance gives them a correlation just large enough.
#
# ## On the plane
#
# Draw a network of $m$ neurons with a given number of levels, and look at its class regions. Few neurons are noisy.


# %%
def draw(m=1000, levels=3, seed=0):
    drawn = network.resample(m, random_state=seed, levels=levels)
    regions(
        drawn,
        f"m = {m}, {levels} levels, {drawn.network_.n_bits:,} bits: "
        f"accuracy {drawn.score(X, y):.1%}",
    )


draw()

# %% [markdown]
# In a live notebook:

# %%
_ = interact(
    draw,
    m=SelectionSlider(
        options=[10, 30, 100, 300, 1000, 3000, 10_000],
        value=1000,
        continuous_update=False,
    ),
    levels=IntSlider(3, 2, 9, continuous_update=False),
    seed=IntSlider(0, 0, 9, continuous_update=False),
)

# %% [markdown]
# ## Are more levels worth their bits?
#
# A fair comparison counts bits, not neurons: $M + 1$ levels take $\lceil \log_2(M + 1) \rceil$ bits per weight. With
# all four columns, on held-out rows:

# %%
X_train, X_test, y_train, y_test = data.split()
full = qsdp.QuantizedNetworkClassifier(1000, **sampled).fit(
    X_train, y_train
)
inputs, targets = full.encoder_.transform(X_test), full.target_scaling_
_, ax = plt.subplots(layout="constrained")
for levels, marker in ((2, "o"), (4, "s"), (8, "^")):
    bits, accuracy = [], []
    for m in (10, 30, 100, 300, 1000, 3000):
        drawn = [
            full.result_.resample(m, random_state=seed, levels=levels)
            for seed in range(20)
        ]
        right = [
            targets.decode(one.predict(inputs)).argmax(axis=1) == y_test
            for one in drawn
        ]
        bits.append(drawn[0].network.n_bits)
        accuracy.append(np.mean(right))
    ax.semilogx(bits, accuracy, marker=marker, label=f"{levels} levels")
ax.set(xlabel="bits of the network", ylabel="accuracy")
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %% [markdown]
# Each point is the mean of twenty networks. Here the answer is no: up to about 6 kbit, more neurons with two levels do
# better than fewer with more; beyond 20 kbit they are about equal. At small sizes, accuracy is lost to sampling noise,
# which falls with the number of neurons.
#
# ## The same function as an ordinary network
#
# Training works with pairs of weight vectors, $\tilde u^T \mathcal{X} \tilde v$. Each pair equals three ordinary
# neurons exactly: $2 \sigma(x^T \frac{u + v}{2}) - \frac12 \sigma(x^T u) - \frac12 \sigma(x^T v)$. So the result is a
# network $\sum_j \alpha_j \sigma(x^T q_j)$ with integer weights, which can be written out. Its inputs are the encoded
# columns: standardised, times a power of two. Its outputs lack the frequency of each species, which was subtracted from
# the targets: `network.target_scaling_.offset`.

# %%
small = result.resample(200, random_state=0)
polynomial = small.network.to_polynomial()
print(polynomial)
print("weights that occur:", np.unique(polynomial.Q))
inputs = network.encoder_.transform(X)
difference = polynomial.predict(inputs) - small.predict(inputs)
print(
    f"largest difference of the outputs: {np.abs(difference).max():.1e}"
)
for species, formula in zip(
    data.target_names,
    polynomial.to_expression(["length", "width"], digits=2),
    strict=True,
):
    print(f"{species:>10} = {formula}")

# %% [markdown]
# ## Change it
#
# Try other activations, as $(a, b, c)$, levels or losses. `activation=None` is the bilinear network. With `"quadratic"`
# alone, the network is even: $f(-x) = f(x)$. Why does the estimator still tell the species apart? (It appends a column
# of ones.) What happens with `constant_column=False`?

# %%
activation = "quadratic"
levels = 2

mine = qsdp.QuantizedNetworkClassifier(
    activation=activation,
    levels=levels,
    encoding="standard",
    random_state=0,
).fit(X, y)
regions(
    mine,
    f"accuracy {mine.score(X, y):.1%}, relative gap "
    f"{mine.certificate_.relative_gap:.1%}",
)
