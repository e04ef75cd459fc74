"""
Add a constraint
================

The relaxation is a CVXPY problem, to which constraints can be added. Suppose
that a rule forbids any interaction of age and sex in a model of diabetes. The
product of columns i and j has the coefficient 2 (Z[i, j] + Z[j, i]).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import qsdp

data = qsdp.datasets.load_bundled("diabetes")
X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
X = np.column_stack([X, np.ones(len(X))])
y = (data.y - data.y.mean()) / data.y.std()
problem = qsdp.TrainingProblem(X, y, beta=10.0)

program = qsdp.paper.two_block_program(problem)
objective, constraints = (
    program.problem.objective,
    program.problem.constraints,
)
Z = program.variables["Z"]
rule = Z[0, 1] + Z[1, 0] == 0
cp.Problem(objective, [*constraints, rule]).solve("CLARABEL")
free, ruled = qsdp.solve_relaxation(problem), program.relaxation()

_, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
networks = []
for ax, relaxation in zip(axes, (free, ruled), strict=True):
    covariance = qsdp.shape_covariance(relaxation)
    networks.append(
        qsdp.sample_network(covariance, 100_000, random_state=0)
    )
    S = networks[-1].to_quadratic_form().S[:-1, :-1]
    ax.imshow(S - np.diag(np.diag(S)), "RdBu_r", vmin=-0.15, vmax=0.15)
    ax.set_xticks(range(10), data.feature_names)
    ax.set_yticks(range(10), data.feature_names)
    ax.set_title(f"coefficient of age and sex: {2 * S[0, 1]:.3f}")

# %%
# The pictures show the products of columns in two sampled networks, without and
# with the rule. It holds on average over the neurons, so a large sample has
# nearly a zero there, and the other products change little. What the rule costs
# is the difference of the two relaxations:

print(f"objective of the relaxation: {free.objective:.2f}")
print(f"with the rule:               {ruled.objective:.2f}")
print(qsdp.certify(networks[1], problem, free))
