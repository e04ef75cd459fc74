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
# # From covariance to neurons
#
# The semidefinite program says how much every two weights should agree (left). But weights are signs: which Gaussian
# (right) has signs with these correlations? This notebook follows Krivine's argument in pictures.
#
# *Needs:* `pip install -e ".[notebooks]"`; no download and no GPU.

# %%
import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import SelectionSlider, ToggleButtons, interact

import qsdp

plt.rcParams["figure.figsize"] = (6, 3.8)
rng = np.random.default_rng(0)

data = qsdp.datasets.load_bundled("diabetes")
X = np.column_stack(
    [
        (data.X - data.X.mean(axis=0)) / data.X.std(axis=0),
        np.ones(len(data.X)),
    ]
)
y = (data.y - data.y.mean()) / data.y.std()

problem = qsdp.TrainingProblem(X, y, beta=10)
relaxation = qsdp.solve_relaxation(problem)
rho = relaxation.rho[0, 0]
Z, V = relaxation.Z[0][0] / rho, relaxation.V[0][0] / rho
covariance = qsdp.shape_covariance(relaxation, method="krivine")

before = np.block([[V, Z], [Z.T, V]])
_, axes = plt.subplots(1, 2, figsize=(8.4, 4), layout="constrained")
for ax, matrix, title in zip(
    axes,
    (before, covariance.Q),
    (r"relaxation / $\rho$", "covariance Q"),
    strict=True,
):
    image = ax.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    ax.set(title=title, xticks=[], yticks=[])
plt.colorbar(image, ax=axes)
plt.show()

# %% [markdown]
# ## A solution
#
# The diabetes data have 442 patients, ten columns and a constant. The target is disease progression. The solution is a
# matrix $Z$ with a scale $\rho$; the entries of $Z_s = Z / \rho$ are between -1 and 1. The left picture shows it in the
# off-diagonal blocks, beside a second matrix, $V_s$, whose diagonal is one.

# %%
print(relaxation)

# %% [markdown]
# ## Signs of a Gaussian
#
# If two standard Gaussians have correlation $q$, their signs have correlation $\frac{2}{\pi} \arcsin q$ (Grothendieck's
# identity): a random line separates two vectors with a probability proportional to the angle between them. A
# simulation:

# %%
q = np.linspace(-1, 1, 41)
g, h = rng.standard_normal((2, 20_000, 1))
measured = np.mean(
    np.sign(g) * np.sign(q * g + np.sqrt(1 - q**2) * h), axis=0
)

_, ax = plt.subplots(layout="constrained")
ax.plot(
    q,
    2 / np.pi * np.arcsin(q),
    color="black",
    label=r"$\frac{2}{\pi} \arcsin q$",
)
ax.plot(
    q,
    measured,
    "o",
    markersize=4,
    color="#0072B2",
    label="20000 pairs of signs",
)
ax.plot(q, q, color="#666666", linestyle=":", label="equal")
ax.set(
    xlabel="correlation q of the Gaussians",
    ylabel="correlation of their signs",
)
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %% [markdown]
# So Gaussians with covariance $Z_s$ do not work: the arcsine distorts the correlations. We invert it *before* drawing:
# with correlations $\sin(c Z_s)$, the signs have correlations $\frac{2}{\pi} \arcsin \sin(c Z_s) = \frac{2c}{\pi} Z_s$,
# exactly proportional to $Z_s$. The plots show both cases for $c = 1$ and all 121 pairs of weights.

# %%
gaussian = np.linspace(-1, 1, 200)
figure, axes = plt.subplots(
    1, 2, figsize=(8, 3.6), layout="constrained", sharey=True
)
for ax, correlations, title in (
    (axes[0], Z, r"Gaussians with $Z_s$"),
    (axes[1], np.sin(Z), r"with $\sin(Z_s)$"),
):
    ax.plot(
        Z.ravel(),
        2 / np.pi * np.arcsin(correlations).ravel(),
        "o",
        markersize=4,
        color="#0072B2",
    )
    ax.plot(
        gaussian,
        2 / np.pi * gaussian,
        color="#D55E00",
        label=r"proportional, $\frac{2}{\pi} Z_s$",
    )
    ax.set(xlabel=r"wanted, $Z_s$", title=title)
    ax.grid(alpha=0.3)
axes[0].set_ylabel("correlation of the signs")
axes[0].legend(frameon=False)
plt.show()

# %% [markdown]
# ## Is there such a Gaussian?
#
# $\sin(c Z_s)$ is only one block of a covariance. The other blocks must make the whole matrix positive semidefinite,
# with a diagonal of ones. Krivine found that for $c = \gamma = \ln(1 + \sqrt 2)$ such blocks always exist:
#
# $$ Q = \begin{bmatrix} \sinh(\gamma V_s) & \sin(\gamma Z_s) \\ \sin(\gamma Z_s)^T & \sinh(\gamma V_s) \end{bmatrix} $$
#
# Sine and hyperbolic sine have the same Taylor coefficients up to signs, so $Q$ is a Gram matrix. Its diagonal is one
# because $\sinh \gamma = 1$.

# %%
gamma = np.log(1 + np.sqrt(2))
Q = np.block(
    [
        [np.sinh(gamma * V), np.sin(gamma * Z)],
        [np.sin(gamma * Z).T, np.sinh(gamma * V)],
    ]
)

print(
    f"diagonal of Q: {Q.diagonal().min():.12f} to "
    f"{Q.diagonal().max():.12f}"
)
print(f"smallest eigenvalue: {np.linalg.eigvalsh(Q).min():.2e}")
print(
    "difference from shape_covariance: "
    f"{np.abs(Q - covariance.Q).max():.1e}"
)

# %% [markdown]
# $Q$ is the right picture at the top. The eigenvalues of the left matrix there are those of $A$ and $B$. Half of them
# vanish, so few directions matter. The eigenvalues of $Q$ do not, because the powers of the entries in the two series
# have directions of their own.

# %%
_, ax = plt.subplots(layout="constrained")
for matrix, label, marker in (
    (V + Z, "$A = V_s + Z_s$", "o"),
    (V - Z, "$B = V_s - Z_s$", "s"),
    (Q, "$Q$", "^"),
):
    eigenvalues = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 1e-9)
    ax.semilogy(
        np.arange(1, len(matrix) + 1),
        eigenvalues,
        marker=marker,
        markersize=4,
        label=label,
    )
ax.set(xlabel="rank", ylabel="eigenvalue")
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## Neurons
#
# Now draw $[u_j; v_j] = \mathrm{sign}(\mathcal{N}(0, Q))$ for $j = 1, \dots, m$, all with the same weight
# $\alpha = \rho \pi / (c m)$. Then $\sum_j \alpha u_j v_j^T$ is $2Z$ on average. The left plot compares every entry of
# $2Z$ with the network's, the right plot the predictions.


# %%
def draw(m=1000, shaping="krivine", seed=0):
    shaped = qsdp.shape_covariance(relaxation, method=shaping)
    network = qsdp.sample_network(shaped, m, random_state=seed)
    S = network.alpha[0] * network.U.T.astype(float) @ network.V
    certificate = qsdp.certify(network, problem, relaxation)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8, 3.8), layout="constrained"
    )
    left.plot(
        2 * relaxation.Z[0].ravel(),
        S.ravel(),
        "o",
        markersize=4,
        color="#0072B2",
    )
    right.plot(
        relaxation.predict(X),
        network.predict(X),
        "o",
        markersize=3,
        alpha=0.5,
        color="#0072B2",
    )
    for ax, size, what in (
        (left, 0.16, r"entries of $2Z$"),
        (right, 2.5, "predictions"),
    ):
        ax.axline((0, 0), slope=1, color="#D55E00")
        ax.set(
            xlim=(-size, size),
            ylim=(-size, size),
            xlabel=f"{what} of the solution",
            ylabel="of the network",
        )
        ax.grid(alpha=0.3)
    title = f"{shaping}, c = {shaped.constant:.3f}, m = {m}: "
    title += f"objective {certificate.objective:.1f}"
    figure.suptitle(title, fontsize=11)
    plt.show()


draw()

# %%
_ = interact(
    draw,
    m=SelectionSlider(
        options=[10, 30, 100, 300, 1000, 3000, 10_000, 100_000],
        value=1000,
        continuous_update=False,
    ),
    shaping=ToggleButtons(options=["krivine", "adaptive"]),
    seed=(0, 9),
)

# %% [markdown]
# ## A larger constant
#
# The larger $c$, the stronger the correlations and the smaller the noise. Krivine's $c = 0.88$ is for the worst
# possible $Z_s$. `"adaptive"`, the default, finds the largest $c$ for this one, up to $\pi/2 = 1.57$. This also lowers
# the sum of the weights, $\rho \pi / c$, and with it the limit of the objective.

# %%
sizes = [30, 100, 300, 1000, 3000, 10_000]
_, ax = plt.subplots(layout="constrained")
for method, colour, marker in (
    ("krivine", "#0072B2", "o"),
    ("adaptive", "#009E73", "^"),
):
    shaped = qsdp.shape_covariance(relaxation, method=method)
    means = []
    for m in sizes:
        networks = [
            qsdp.sample_network(shaped, m, random_state=seed)
            for seed in range(20)
        ]
        means.append(
            np.mean(
                [problem.objective(network) for network in networks]
            )
        )
    ax.plot(
        sizes,
        means,
        color=colour,
        marker=marker,
        label=f"{method}, c = {shaped.constant:.3f}",
    )
ax.axhline(relaxation.lower_bound, color="black", label="lower bound")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="number of neurons m",
    ylabel="mean objective of 20 networks",
)
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## Change it
#
# From `beta_max` on, the solution is zero. Just below it, $Z$ is nearly one outer product of signs, and $c$ is nearly
# $\pi/2$. How fast does $c$ fall as β decreases? Try other fractions or other data.

# %%
largest = qsdp.beta_max(problem)
for fraction in (0.99, 0.97, 0.9, 0.5, 0.1, 0.01, 0.001):
    one = qsdp.solve_relaxation(problem.with_beta(fraction * largest))
    c = qsdp.shape_covariance(one).constant
    print(f"beta {fraction * largest:8.3f}: c = {c:.3f}")
