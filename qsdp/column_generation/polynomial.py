"""Column generation of polynomial neurons, on the objective (12) itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.parallel import few_threads
from qsdp._utils.validation import FloatArray
from qsdp.activations import PolynomialActivation
from qsdp.certificates import Certificate
from qsdp.column_generation.atoms import Atoms
from qsdp.column_generation.loop import ATOMS, Outcome, PricingResult, Round, generate
from qsdp.column_generation.master import Master
from qsdp.column_generation.result import ColumnGenerationResult, settled_network, settled_status
from qsdp.networks.polynomial import QUADRATIC, PolynomialNetwork
from qsdp.pricing import PolynomialOracle
from qsdp.problem import TrainingProblem
from qsdp.relaxation.bounds import best_scale, entry_rounding
from qsdp.relaxation.instance import Instance

__all__ = ["polynomial_result"]


def polynomial_result(
    problem: TrainingProblem,
    tol: float,
    rng: np.random.Generator,
    history: list[Round],
    report: Callable[[Round], None],
) -> ColumnGenerationResult:
    """Train a network of polynomial neurons on the objective (12)."""
    d, M = problem.n_features, problem.levels - 1
    # The dual radius of an instance is half its penalty.
    master = Master(Instance(problem.weight_map, problem.data_fit, 2.0 * problem.beta * (d * M)))
    oracle = PolynomialOracle(d, problem.levels, problem.lifted)

    def pricing(master: Master, gap: float) -> PricingResult:
        K = problem.weight_map.adjoint(master.nu[:, 0])
        used = np.argsort(-master.weights)[:ATOMS]
        found = oracle.search(
            K,
            threshold=master.instance.dual_radius,
            starts=master.atoms.U[used].astype(np.float64) if len(used) else None,
            n_starts=ATOMS,
            max_atoms=ATOMS,
            rng=rng,
        )
        # A proof is attempted only if it is expected to halve the gap.
        if master.gap(found.value) > max(0.5 * gap, tol) or deadline.over():
            return PricingResult.of([found])
        proven = oracle.prove(
            K,
            threshold=master.instance.dual_radius,
            max_atoms=ATOMS,
            incumbent=found.value,
        )
        return PricingResult.of([proven])

    with few_threads(small=master.small):
        outcome = generate(master, pricing, tol=tol, report=report)
        atoms, weights = master.support(outcome.accuracy)
    network = settled_network(_polynomial_network(problem, atoms, weights), problem)
    objective = network.objective(problem)
    bound = _polynomial_bound(problem, master.instance, outcome)
    certificate = Certificate(
        lower_bound=min(bound, objective),
        objective=objective,
        bound_type="exact" if outcome.priced and outcome.priced.exact else "sdp",
    )
    status = settled_status(outcome.status, certificate, problem.objective_rounding(network), tol)
    return ColumnGenerationResult(network, certificate, problem, status, history, deadline.elapsed())


def _polynomial_bound(problem: TrainingProblem, instance: Instance, outcome: Outcome) -> float:
    """Recompute the bound of a priced dual vector from the data, less an allowance for rounding."""
    if outcome.proof is None or outcome.priced is None:
        return 0.0
    nu = outcome.proof.nu
    rounding = float(entry_rounding(problem.weight_map.of_scaled_data(problem.levels - 1.0), nu)[0])
    upper = outcome.proof.largest(outcome.priced.upper) + rounding
    scale = best_scale(instance.fit, nu, instance.dual_radius / upper if upper > 0.0 else np.inf)
    return max(0.0, instance.guarded_dual_value(scale * nu))


def _polynomial_network(problem: TrainingProblem, atoms: Atoms, weights: FloatArray) -> PolynomialNetwork:
    activation: PolynomialActivation = problem.activation or QUADRATIC
    Q = atoms.U[:, : problem.n_features]
    if not len(atoms):
        return PolynomialNetwork(np.full((1, problem.n_features), problem.levels - 1), np.zeros(1), activation)
    # The search may orient a lifted neuron so that its last entry is -1.
    if problem.lifted:
        Q = Q * atoms.U[:, -1:]
    return PolynomialNetwork(Q, atoms.signs * weights, activation)
