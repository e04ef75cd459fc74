"""
Compare solvers
===============

The package has three solvers of its own and calls conic solvers through CVXPY.
All of them are judged in the same way: their point is repaired to a feasible
one, and the lower bound is computed from the data and a dual vector alone.
"""

import matplotlib.pyplot as plt

import qsdp

X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
X = (X - X.mean(axis=0)) / X.std(axis=0)
problem = qsdp.TrainingProblem(X, y, beta=10.0)

_, ax = plt.subplots(layout="constrained")
for solver, style in (("interior", "o-"), ("splitting", "s--")):
    progress = []
    qsdp.solve_relaxation(
        problem, solver=solver, callback=progress.append
    )
    gaps = [report.relative_gap for report in progress]
    ax.semilogy([report.iteration for report in progress], gaps, style)
    ax.annotate(f"  {solver}", (progress[-1].iteration, gaps[-1]))
ax.set(
    xlabel="iteration", ylabel="certified relative gap", xlim=(-2, 60)
)

# %%
# The interior-point method needs few iterations, each of which solves a linear
# system; operator splitting needs many cheap ones. A gap is certified at every
# point of both curves, so a solver may be stopped anywhere: the lower bound
# holds for every network, whatever the solver has reached.

for solver in ("interior", "splitting", "low-rank", "scs", "clarabel"):
    one = qsdp.solve_relaxation(problem, solver=solver, tol=1e-5)
    print(
        f"{solver:9} objective {one.objective:.2f} >= "
        f"{one.lower_bound:.2f}"
    )

# %%
# Without ``solver=``, the package chooses. :func:`qsdp.available_solvers` says
# what each of them lacks on this machine.
