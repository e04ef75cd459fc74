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
# # Proving global optimality
#
# Which quantized network is the best of all, of any width and with any weights? With a few dozen columns, the answer
# can be found, and proven so that others can check it. Below, the best network and the best bound meet.
#
# *Needs:* `pip install -e ".[notebooks]"`; no download and no GPU.

# %%
import itertools
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import SelectionSlider, interact

import qsdp
import qsdp_check

plt.rcParams["figure.figsize"] = (6, 3.8)
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
optimum = qsdp.column_generation(problem, relaxation=relaxation)

rounds = [one.number for one in optimum.history]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8.4, 3.6), layout="constrained"
)
left.plot(
    rounds,
    [one.objective for one in optimum.history],
    "o-",
    color="#D55E00",
    markersize=4,
    label="best network",
)
left.plot(
    rounds,
    [one.lower_bound for one in optimum.history],
    "s-",
    color="#0072B2",
    markersize=4,
    label="best bound",
)
left.set(xlabel="round", ylabel="objective")
left.legend(frameon=False)
left.grid(alpha=0.3)
gaps = [max(one.relative_gap, 1e-16) for one in optimum.history]
right.step(
    [one.seconds for one in optimum.history],
    gaps,
    where="post",
    color="#0072B2",
)
right.set(xlabel="seconds", ylabel="relative gap", yscale="log")
right.grid(alpha=0.3)
plt.show()

# %% [markdown]
# ## The gap, from above
#
# The relaxation gives a bound, and the objective of a network sampled from it is somewhat higher. Better bits, a better
# second layer or a better choice of neurons lower it. The certificate says how much lower it can be at most.

# %%
covariance = qsdp.shape_covariance(relaxation)
sampled = qsdp.sample_network(covariance, 1000, random_state=0)
closed_form = qsdp.sample_network(
    qsdp.shape_covariance(relaxation, method="krivine"),
    1000,
    random_state=0,
)
twenty = [
    qsdp.polish(
        qsdp.sample_network(covariance, 20, random_state=seed),
        problem,
        random_state=0,
    )
    for seed in range(50)
]
networks = {
    "closed form, 1000 neurons": closed_form,
    "sampled, 1000 neurons": sampled,
    "polished, 1000 neurons": qsdp.polish(
        sampled, problem, random_state=0
    ),
    "refitted": qsdp.refit(sampled, problem),
    "best of 20 neurons": min(twenty, key=problem.objective),
}
for name, network in networks.items():
    c = qsdp.certify(network, problem, relaxation)
    print(
        f"{name:>25}: objective {c.objective:8.3f}, relative gap "
        f"{c.relative_gap:6.2%}, {network.n_bits:6,} bits"
    )

# %% [markdown]
# ## From both sides
#
# If every possible neuron ($4^{11}$ of them) has a weight, training is convex. Column generation solves this problem
# over a few neurons at a time. The dual vector $\nu$ says what any other neuron is worth, $|u^T M_\nu v|$. Neurons that
# are worth more than their price $\beta D$ are added. When none is left, the network is optimal. In the picture above,
# the first bound is the relaxation's; from then on, neurons are priced exactly.

# %%
print(
    f"status: {optimum.status} after {optimum.rounds} rounds in "
    f"{optimum.seconds:.2f} s"
)
print(optimum.network)
print(optimum.certificate)

# %% [markdown]
# ## Why this is a proof
#
# For given $u$, the most valuable $v$ is the sign of $M_\nu u$, so the best neuron with that $u$ is worth
# $\|M_\nu u\|_1$. Up to their sign there are $2^{10}$ vectors $u$, few enough to check all of them. No neuron is worth
# more than its price, and the network's own neurons are worth it exactly.

# %%
M = problem.adjoint(optimum.certificate.nu)
price = problem.beta * problem.dimension
every = np.array(
    [(1, *rest) for rest in itertools.product((-1, 1), repeat=10)]
)
worth = np.abs(every @ M).sum(axis=1)
used = np.abs(
    np.einsum(
        "ij,jk,ik->i",
        optimum.network.U.astype(float),
        M,
        optimum.network.V,
    )
)

_, ax = plt.subplots(layout="constrained")
ax.hist(
    worth / price,
    60,
    color="#56B4E9",
    label=f"the best neuron of each of {len(every)} vectors u",
)
ax.axvline(1, color="black", linewidth=1, label=r"price $\beta D$")
heights = np.linspace(5, 95, len(used))
label = f"the network's {len(used)} neurons (at any height)"
ax.plot(
    used / price,
    heights,
    "o",
    markersize=4,
    color="#D55E00",
    label=label,
)
ax.set(
    xlabel="worth of a neuron as a fraction of its price",
    ylabel="number of vectors u",
    xlim=(0.5, 1.03),
)
ax.legend(frameon=False)
plt.show()
print(
    f"worth / price: {worth.max() / price:.12f} at most, "
    f"{used.min() / price:.6f} at least of the network's neurons"
)

# %% [markdown]
# As $\nu$ is feasible, $-\ell^*(-\nu)$ is a lower bound on the objective of every network. For the squared loss it is
# $\sum_i \nu_i (y_i - \nu_i / 4)$. The certificate has this $\nu$:

# %%
nu = optimum.certificate.nu
print(
    f"bound from the dual vector alone: {np.sum(nu * (y - nu / 4)):.6f}"
)
print(f"objective of the network:         {optimum.objective:.6f}")

# %% [markdown]
# ## For somebody who does not trust us
#
# The file holds data, network, dual vector and the proof that bounds all prices; no rounding makes the
# bound wrong. `qsdp-check` is one file that needs only NumPy and imports nothing from the library.

# %%
file = tempfile.mkdtemp() + "/diabetes.cert"
proven = qsdp.certify(
    optimum.network, problem, relaxation, bound_type="exact"
)
proven.save(file)
code = qsdp_check.main([file])

# %% [markdown]
# ## The optimum for every β
#
# Twelve proven optima and their relaxations are computed once. The pictures show weights: the symmetric matrix
# $S = \sum_j \alpha_j u_j v_j^T$ of a network's quadratic function $x^T S x$. One is of the optimal network, the other
# of a network of m neurons, sampled anew for every position of the sliders.

# %%
betas = np.geomspace(0.95 * qsdp.beta_max(problem), 1, 12)
optima = [
    qsdp.column_generation(problem.with_beta(beta)) for beta in betas
]
path, last = [], None
for beta in betas:
    last = qsdp.solve_relaxation(problem.with_beta(beta), start=last)
    path.append(last)
names = [*data.feature_names, "one"]


def draw(beta=betas[7], m=1000):
    step = list(betas).index(beta)
    one = optima[step]
    drawn = qsdp.sample_network(
        qsdp.shape_covariance(path[step]), m, random_state=0
    )
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11, 3.7), layout="constrained"
    )
    pictures = [
        network.to_quadratic_form().S
        for network in (one.network, drawn)
    ]
    limit = np.abs(pictures[0]).max()
    above = problem.with_beta(beta).objective(drawn) / one.objective - 1
    titles = (
        f"optimal, {one.network.n_neurons} neurons",
        f"sampled, {m} neurons: {above:.1%} above",
    )
    for ax, S, title in zip(
        (left, middle), pictures, titles, strict=True
    ):
        image = ax.imshow(S, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set(
            xticks=range(11),
            yticks=range(11),
            xticklabels=names,
            yticklabels=names,
        )
        ax.set_title(title, fontsize=10)
        ax.tick_params(axis="x", rotation=90)
    figure.colorbar(image, ax=middle, shrink=0.8)
    right.plot(
        betas,
        [other.network.n_neurons for other in optima],
        "o-",
        color="#0072B2",
        markersize=4,
    )
    right.plot(
        beta, one.network.n_neurons, "*", color="#D55E00", markersize=14
    )
    right.set(
        xscale="log",
        xlabel=r"$\beta$",
        ylabel="neurons of the optimal network",
    )
    right.grid(alpha=0.3)
    title = rf"$\beta$ = {beta:.3g}: objective {one.objective:.2f}, "
    title += f"proven to {one.relative_gap:.0e}"
    figure.suptitle(title, fontsize=11)
    plt.show()


draw()

# %%
_ = interact(
    draw,
    beta=SelectionSlider(
        options=[(f"{beta:.3g}", beta) for beta in betas],
        value=betas[7],
        continuous_update=False,
    ),
    m=SelectionSlider(
        options=[30, 100, 300, 1000, 3000, 10_000, 30_000],
        value=1000,
        continuous_update=False,
    ),
)

# %% [markdown]
# ## Change it
#
# The proof works for every loss; `"absolute"` and `"huber"` are robust to outliers. Try other data: how many columns of
# `"wine"` or `"breast-cancer-wisconsin"` can you use before a proof takes more than a minute? When time runs out, the
# result still has a valid bound.

# %%
loss = "huber"
beta = 10.0
time_limit = 20.0

mine = qsdp.column_generation(
    qsdp.TrainingProblem(X, y, beta=beta, loss=loss),
    time_limit=time_limit,
)
print(f"{mine.status} in {mine.seconds:.1f} s:", mine.certificate)
