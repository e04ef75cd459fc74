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
# # The relaxation, and why its constant matters
#
# The lower bound comes from a semidefinite program. The paper prints its regulariser with half of the right factor.
# This notebook shows what the program relaxes, and measures the effect of the factor of two against optima that are
# known exactly. In two dimensions, the relaxed value (orange) stays between the exact one and $K$ times that (blue).
#
# *Needs:* `pip install -e ".[notebooks]"`; no download and no GPU.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import SelectionSlider, interact

import qsdp

plt.rcParams["figure.figsize"] = (6, 3.8)
K = np.pi / (2 * np.log(1 + np.sqrt(2)))

angles = np.linspace(0, 2 * np.pi, 241)
signs = [
    np.array(pair) for pair in itertools.product((-1, 1), repeat=2)
]
matrices = [
    np.array([[np.cos(t), np.sin(t)], [np.sin(t), -np.cos(t)]])
    for t in angles
]

exact = np.array(
    [max(u @ M @ v for u in signs for v in signs) for M in matrices]
)
relaxed = np.array(
    [float(qsdp.grothendieck_bound(M)) for M in matrices]
)

figure, ax = plt.subplots(
    subplot_kw={"projection": "polar"},
    figsize=(6, 4),
    layout="constrained",
)
ax.plot(angles, exact, color="#0072B2", label=r"exact $\tau$")
ax.plot(
    angles, K * exact, color="#0072B2", linestyle=":", label=r"$K \tau$"
)
ax.plot(angles, relaxed, color="#D55E00", label=r"relaxed $\hat\tau$")
ax.plot(
    angles,
    2 * relaxed,
    color="#666666",
    linestyle="--",
    label=r"as printed, $2 \hat\tau$",
)
ax.fill(angles, exact, color="#0072B2", alpha=0.15)
ax.set(xticks=np.arange(4) * np.pi / 2, yticks=[1, 2, 3, 4])
ax.legend(loc="upper left", bbox_to_anchor=(1.1, 1), frameon=False)
plt.show()

print(
    f"relaxed / exact: {np.min(relaxed / exact):.3f} to "
    f"{np.max(relaxed / exact):.3f}, at most {K:.3f}"
)

# %% [markdown]
# ## What a neuron can be worth
#
# Any vector $\nu$ with one number per sample proves a lower bound, provided that no neuron is worth more than its price
# $\beta D$:
#
# $$ \tau(\nu) = \max_{u, v \in \{\pm 1\}^D} u^T M_\nu v \le \beta D, \qquad M_\nu = \sum_i \nu_i x_i x_i^T . $$
#
# The maximum over signs is the hard part. The relaxation replaces the signs by unit vectors. By Grothendieck's
# inequality, this adds a factor of at most $K$: $\tau \le \hat\tau \le K \tau$. The picture shows all three for two
# columns and the matrices
# $M_\theta = \begin{bmatrix} \cos\theta & \sin\theta \\ \sin\theta & -\cos\theta \end{bmatrix}$.
#
# The orange line stays between the two blue ones, as it must. Equation (51) of the paper has twice the orange value, so
# its constraint is twice as strict as necessary. The program then has the regulariser $\beta D \rho$ instead of
# $2 \beta D \rho$:
#
# $$ d(\beta) = \min\; \ell\big(2 x_i^T Z x_i, y\big) + 2 \beta D \rho \quad\text{s.t.}\quad
# \begin{bmatrix} V & Z \\ Z^T & V \end{bmatrix} \succeq 0,\; V_{jj} = \rho . $$
#
# ## Real data, known optima
#
# The data are two species of iris, four measurements and a constant. $D = 5$ is so small that *all* neurons can be
# listed. The sign of a whole side does not matter, so there are $2^4 \cdot 2^4$ neurons. Finding the best second layer
# over all of them at once is a convex problem, whose solution is the global optimum.

# %%
X, species = qsdp.datasets.load_bundled("iris")
X, y = X[50:], np.where(species[50:] == 1, -1.0, 1.0)
X = np.column_stack(
    [(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))]
)

sides = np.array(
    [(1, *rest) for rest in itertools.product((-1, 1), repeat=4)]
)
everything = qsdp.BilinearNetwork(
    np.repeat(sides, 16, axis=0), np.tile(sides, (16, 1)), np.zeros(256)
)

problem = qsdp.TrainingProblem(X, y, beta=5.0)
best = qsdp.refit(everything, problem)
print(best)
print(f"best of all networks {problem.objective(best):.4f}")
print(
    "column generation    "
    f"{qsdp.column_generation(problem).objective:.4f}"
)
relaxation = qsdp.solve_relaxation(problem)
print(f"tight lower bound    {relaxation.lower_bound:.4f}")
as_printed = qsdp.paper.full_program(problem)
as_printed.problem.solve(solver="CLARABEL")
print(f"printed value (25)   {as_printed.problem.value:.4f}")

# %% [markdown]
# ## For every β
#
# Every solve starts from the solution for the previous β. The four curves are divided by the true optimum
# $p^\star(\beta)$: the optimum itself, the tight bound, the printed bound and, on top, $d(K\beta)$, which is never
# below the optimum. From `beta_max` on, d is the objective of the zero network.


# %%
def along(betas):
    """Solve for betas in descending order."""
    path, last = [], None
    for beta in betas:
        last = qsdp.solve_relaxation(
            problem.with_beta(beta), start=last
        )
        path.append(last)
    return path


largest = qsdp.beta_max(problem)
betas = np.geomspace(0.999 * largest, 0.2, 25)
tight = along(betas)
bounds = np.array([one.lower_bound for one in tight])
printed = np.array(
    [
        qsdp.paper.full_program(problem.with_beta(beta)).problem.solve(
            solver="CLARABEL"
        )
        for beta in betas
    ]
)
below = along([K * beta for beta in betas if K * beta < largest])
above = np.array(
    [float(y @ y)] * (len(betas) - len(below))
    + [one.objective for one in below]
)
optima = np.array(
    [
        qsdp.column_generation(problem.with_beta(beta)).objective
        for beta in betas
    ]
)

_, ax = plt.subplots(layout="constrained")
ax.plot(
    betas,
    above / optima,
    color="#666666",
    linestyle=":",
    label=r"$d(K \beta)$, an upper bound",
)
ax.axhline(1, color="black", label=r"optimum $p^\star$")
ax.plot(
    betas,
    bounds / optima,
    color="#D55E00",
    label=r"$2 \beta D \rho$, right",
)
ax.plot(
    betas,
    printed / optima,
    color="#0072B2",
    linestyle="--",
    label=r"$\beta D \rho$, as printed",
)
ax.set(
    xscale="log",
    xlabel=r"$\beta$",
    ylabel="relative to the optimum",
    ylim=(0.5, 1.6),
)
ax.legend(frameon=False, fontsize=9)
ax.grid(alpha=0.3)
plt.show()

print(
    f"tight bound:   {100 * np.min(bounds / optima):.1f} % "
    "of the optimum at worst"
)
print(f"printed bound: {100 * np.min(printed / optima):.1f} %")

# %% [markdown]
# As a bound, the printed form is not wrong. It is the right form for $\beta/2$, with the same solution:

# %%
half = qsdp.solve_relaxation(problem.with_beta(2.5))
value = as_printed.problem.value
print(f"objectives {half.objective:.5f} and {value:.5f}")
difference = half.predict(X) - as_printed.variables["yhat"].value
print(
    "largest difference of the predictions "
    f"{np.abs(difference).max():.1e}"
)

# %% [markdown]
# ## Walk along the path
#
# The plot shows the effect of β on the solution and on m neurons drawn from it. Everything was solved above: the
# sliders take the solution for their β from the path and sample it.


# %%
def draw(beta=betas[12], m=1000):
    step = list(betas).index(beta)
    relaxation, this = tight[step], problem.with_beta(beta)
    network = qsdp.sample_network(
        qsdp.shape_covariance(relaxation), m, random_state=0
    )
    outputs = network.predict(X)
    _, (left, right) = plt.subplots(
        1,
        2,
        figsize=(8, 3.4),
        layout="constrained",
        width_ratios=(3, 2),
    )
    bins = np.linspace(-2, 2, 33)
    for label, colour in ((-1, "#0072B2"), (1, "#D55E00")):
        left.hist(
            np.clip(outputs[y == label], -2, 2),
            bins,
            color=colour,
            alpha=0.6,
            label=f"class {label:+d}",
        )
    left.set(
        xlabel="output of the network",
        ylabel="samples",
        title=rf"$\beta$ = {beta:.3g}, m = {m}",
    )
    left.legend(frameon=False)
    regulariser = 2 * beta * problem.dimension * relaxation.rho[0, 0]
    loss = this.loss.value(outputs, y)
    parts = {
        "loss": (relaxation.objective - regulariser, loss),
        "regulariser": (regulariser, this.objective(network) - loss),
    }
    base = np.zeros(2)
    for (name, heights), colour in zip(
        parts.items(), ("#009E73", "#CC79A7"), strict=True
    ):
        right.bar(
            ["solution", "network"],
            heights,
            bottom=base,
            color=colour,
            label=name,
        )
        base += heights
    right.axhline(optima[step], color="black", linewidth=1)
    right.set(
        ylim=(0, max(105, 1.1 * base.max())),
        title=f"bound {relaxation.lower_bound:.2f}, "
        f"optimum {optima[step]:.2f}",
    )
    right.legend(frameon=False)
    plt.show()


draw()

# %%
_ = interact(
    draw,
    beta=SelectionSlider(
        options=[(f"{beta:.3g}", beta) for beta in betas],
        value=betas[12],
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
# Is the relaxation as good on other data? Choose a data set, the number of columns and β. With up to about twenty
# columns, the exact optimum takes seconds. Can you find data for which the tight bound is below nine tenths of the
# optimum?

# %%
name, columns, beta = "wine", 6, 2.0

given, target = qsdp.datasets.load_bundled(name)
given, target = (
    given[:, :columns],
    np.where(target == target[0], 1.0, -1.0),
)
given = np.column_stack(
    [
        (given - given.mean(axis=0)) / given.std(axis=0),
        np.ones(len(given)),
    ]
)
mine = qsdp.TrainingProblem(given, target, beta=beta)
optimum = qsdp.column_generation(mine)
bounds = {
    "tight": qsdp.solve_relaxation(mine).lower_bound,
    "printed": qsdp.paper.full_program(mine).problem.solve("CLARABEL"),
}
for kind, bound in bounds.items():
    print(
        f"{kind:>7}: {bound:8.3f}, "
        f"{bound / optimum.objective:.1%} of the optimum "
        f"{optimum.objective:.3f}"
    )
