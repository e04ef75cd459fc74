"""Training by column generation: networks that are proven to be globally optimal, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.gap import Gap
from qsdp._utils.progress import progress
from qsdp._utils.summary import Summarized, Summary, format_seconds
from qsdp._utils.tuning import FIRST_TRY, ROUGH
from qsdp._utils.validation import FloatArray, RandomState, check_random_state, check_real, check_verbose
from qsdp.certificates import Certificate, certificate_of, check_fits, check_relaxation
from qsdp.column_generation._packed_program import suits_packed
from qsdp.column_generation._row_program import SharedSums
from qsdp.column_generation.generator import Part, WarmStart, bilinear_part, is_cheap, network_of, precompute_sums
from qsdp.column_generation.loop import Round
from qsdp.column_generation.restricted import check_solvable
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork
from qsdp.pricing.atoms import Atoms
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solve import check_memory

__all__ = ["ColumnGenerationResult", "column_generation", "verified_network", "verified_status"]

_Network = TypeVar("_Network", bound="BilinearNetwork")


@dataclass(frozen=True, eq=False, repr=False)
class ColumnGenerationResult(Summarized, Gap):
    """Result of column generation: the best network and the best proven bound.

    Attributes
    ----------
    network : BilinearNetwork
    certificate : Certificate
        Its bound type is "exact" if the largest pricing values behind the bound were computed exactly. The
        certificate of a bilinear network can be saved and checked by others.
    problem : TrainingProblem
    status : {"optimal", "time limit", "interrupted", "stalled"}
        Why the loop ended. "optimal": the relative gap, recomputed from the data, and the relative rounding error of
        the objective are at most `tol`.
    history : list of Round
        Objective, bound, gap, columns, neurons and seconds after every round, and the output that it was for.
    seconds : float
    """

    network: Any
    certificate: Certificate
    problem: TrainingProblem
    status: str
    history: list[Round]
    seconds: float

    @property
    def objective(self) -> float:  # type: ignore[override]
        """Objective of the network."""
        return self.certificate.objective

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        """Lower bound on the objective of every network, of any width and with any weights."""
        return self.certificate.lower_bound

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.history)

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network."""
        prediction: FloatArray = self.network.predict(X)
        return prediction

    def __repr__(self) -> str:
        return (
            f"ColumnGenerationResult({self.network!r}; {self.problem.settings_text()}; {self.certificate}; "
            f"status={self.status!r}, "
            f"rounds={self.rounds}, seconds={self.seconds:.3g})"
        )

    def _summary(self) -> Summary:
        rows = [
            *self.certificate._summary().rows,
            ("status", self.status),
            *self.network._summary().rows,
            ("rounds", f"{self.rounds} in {format_seconds(self.seconds)}"),
        ]
        return Summary("ColumnGenerationResult", rows)


def verified_network(network: _Network, problem: TrainingProblem) -> _Network:
    """Return the network, or the zero network if the objective may not be smaller in view of rounding."""
    largest = network.objective(problem) + problem.objective_rounding(network)
    if largest <= problem.data_fit.value_at_zero or not (np.any(network.alpha) or np.any(network.weights)):
        return network
    return replace(network, alpha=np.zeros_like(network.alpha), weights=np.zeros_like(network.weights))


def verified_status(status: str, certificate: Certificate, rounding: float, tol: float) -> str:
    """Decide the final status: "optimal" only if the certificate attains the gap in spite of rounding."""
    closed = certificate.relative_gap <= tol and rounding <= tol * certificate.objective
    return "stalled" if status == "optimal" and not closed else status


def column_generation(
    problem: TrainingProblem,
    *,
    tol: float = 1e-6,
    time_limit: float | None = None,
    relaxation: Relaxation | None = None,
    start: BilinearNetwork | ColumnGenerationResult | None = None,
    random_state: RandomState = 0,
    verbose: bool | int = False,
    callback: Callable[[Round], None] | None = None,
) -> ColumnGenerationResult:
    r"""Train to a proven global optimum over all widths.

    With a weight for each of the exponentially many neurons, the problem is convex. A restricted problem over the
    current neurons is solved exactly. Its dual vector :math:`\nu` gives any other neuron the pricing value
    :math:`|u^T M_\nu v|` with :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`. Neurons whose pricing value exceeds their
    penalty :math:`\beta D` are added. When even the largest pricing value does not, the network is optimal.

    Parameters
    ----------
    problem : TrainingProblem
        If the loss adds up over outputs, they are trained one after the other.
    tol : float, default=1e-6
        Relative gap at which to stop, > 0.
    time_limit : float, optional
        Seconds, > 0, checked between steps of every round; the current step is finished, then the certificate of the
        best network with the best bound is computed. Without it, Ctrl-C ends the search in the same way.
    relaxation : Relaxation, optional
        Relaxation of the same problem. The first neurons are sampled from it, and its bound is the first one. By
        default, it is solved here beyond 28 columns, in at most a quarter of the time.
    start : BilinearNetwork or ColumnGenerationResult, optional
        A network whose neurons are tried first. The result of an earlier call, for a problem that may differ in
        `beta`, also contributes the dual vector of its certificate. With the same `beta`, neither objective nor bound
        is worse than before.
    random_state : int, Generator, RandomState or None, default=0
        For the starts of the searches.
    verbose : bool or int, default=False
        Show objective and gap after every round, on standard error or in the notebook.
    callback : callable, optional
        Called with a `Round` after each round. Raising KeyboardInterrupt ends the loop cleanly.

    Returns
    -------
    ColumnGenerationResult
        Also after an interrupt with Ctrl-C.

    Raises
    ------
    InvalidInputError
        An argument is not allowed.
    SolverError
        The loss is not a `PiecewiseQuadratic` and has no curvature.

    Notes
    -----
    See sections 5 and 6 of the theory. The neurons of an optimal network of M + 1 levels only have the weights -M
    and M, because the pricing value is bilinear and its maximum lies at corners. Sign alternation from many starts
    finds the maximum. Enumeration, or branch and bound beyond 30 columns, proves it. If such a
    proof is too expensive, cutting planes raise the bound of the relaxation instead.

    With data in blocks, every block has its own pricing problem, and small ones are enumerated together. A smooth loss
    with more samples than packed entries is minimised in these entries: the squared loss through their Gram matrix,
    computed once for all outputs, others in passes over the samples. Those start with the neurons that are optimal, to
    a gap of a hundredth, for the quadratic model of the loss at zero.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> result = qsdp.column_generation(qsdp.TrainingProblem(X, y, beta=0.1))
    >>> result.status, result.certificate.bound_type, result.relative_gap <= 1e-6
    ('optimal', 'exact', True)
    """
    _check(problem, tol, relaxation, start, verbose, callback)
    check_memory(problem, proven=True)
    rng = check_random_state(random_state)
    history: list[Round] = []
    stopped = False
    with deadline.after(time_limit) as limit, progress(verbose) as stages:
        if relaxation is None and not is_cheap(problem):
            with deadline.fraction(FIRST_TRY):
                relaxation = solve_relaxation(problem, verbose=verbose)
            if stopped := relaxation.interrupted:
                limit.expire()
        if start is None and not problem.loss.quadratic and suits_packed(Instance.from_problem(problem)):
            with deadline.fraction(FIRST_TRY):
                first = column_generation(_quadratic_model(problem), tol=ROUGH, verbose=verbose)
            start = first.network
            if first.status == "interrupted":
                limit.expire()
        with stages.stage("exact", tol) as bar:
            parts, ones = [], problem.parts

            def report(state: Round, part: int) -> None:
                """Record and show a round of a part, numbered across all parts, and call the callback."""
                history.append(replace(state, number=len(history) + 1, output=part))
                bar.gap(history[-1], part, len(ones))
                if callback is not None:
                    callback(history[-1])

            known = _known(problem, relaxation, start)
            shared = SharedSums(problem.targets)
            if len(ones) > 1:
                precompute_sums(problem, shared)
            for number in range(len(ones)):
                k = number if len(ones) > 1 else None
                with deadline.fraction(1.0 / (len(ones) - number)):
                    rounds = partial(report, part=number)
                    parts.append(bilinear_part(problem, k, known, tol, rng, rounds, shared))
                if parts[-1].status == "interrupted":
                    limit.expire()
        result = _joined(problem, parts, known, history, tol)
    return replace(result, status="interrupted") if stopped and result.status != "optimal" else result


def _check(problem: Any, tol: Any, relaxation: Any, start: Any, verbose: Any, callback: Any) -> None:
    check_problem(problem)
    check_real("tol", tol, strict=True)
    check_verbose(verbose)
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback must be callable; got {type(callback).__name__}")
    check_solvable(problem.loss)
    if relaxation is not None:
        check_relaxation(relaxation, problem)
    if isinstance(start, ColumnGenerationResult):
        if start.problem.with_beta(problem.beta) != problem:
            raise InvalidInputError("start must be the result of a call on the same data, targets and loss")
    elif start is not None:
        check_fits(start, problem, "start")


def _quadratic_model(problem: TrainingProblem) -> TrainingProblem:
    """Return the squared loss with the gradient of a problem's loss at zero: as large a `beta_max`, and soon solved."""
    slopes, weights = problem.data_fit.zero_dual, problem.sample_weight
    targets = 0.5 * (slopes if weights is None else slopes / weights[:, None])
    return TrainingProblem(problem.X, problem.squeezed(targets), beta=problem.beta, sample_weight=weights)


def _known(
    problem: TrainingProblem,
    relaxation: Relaxation | None,
    start: BilinearNetwork | ColumnGenerationResult | None,
) -> WarmStart:
    """Gather what a call starts from; the certificate of a result for another beta is computed anew for this one."""
    if not isinstance(start, ColumnGenerationResult):
        return WarmStart(relaxation, start)
    certificate = start.certificate
    if start.problem != problem:
        proof: Any = certificate.proof
        uppers = [Instance.from_problem(start.problem).dual_radius] * len(proof.trees)
        certificate = certificate_of(problem, start.network, proof.nu, proof.trees, certificate.bound_type, uppers)
    return WarmStart(relaxation, start.network, certificate)


def _joined(
    problem: TrainingProblem, parts: Sequence[Part], known: WarmStart, history: list[Round], tol: float
) -> ColumnGenerationResult:
    """Build the result of all parts; network and proof are those from before if these are better."""
    atoms = parts[0].atoms if len(parts) == 1 else Atoms.of_outputs([part.atoms for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    bounds = [part.bound for part in parts]
    nu = np.concatenate([bound.nu for bound in bounds], axis=1)
    network: Any = verified_network(network_of(problem, atoms, weights), problem)
    before = known.certificate
    if before is not None and before.objective < network.objective(problem):
        network = known.network
    trees = [tree for bound in bounds for tree in bound.trees]
    uppers = [upper for bound in bounds for upper in bound.uppers]
    bound_type = "exact" if all(bound.exact for bound in bounds) else "sdp"
    certificate = certificate_of(problem, network, nu, trees, bound_type, uppers)
    if before is not None and before.lower_bound > certificate.lower_bound:
        old: Any = before.proof
        lower_bound = min(before.lower_bound, certificate.objective)
        proof = replace(old, problem=problem, network=network)
        certificate = replace(before, lower_bound=lower_bound, objective=certificate.objective, proof=proof)
    statuses = [part.status for part in parts]
    status = next((bad for bad in ("interrupted", "time limit", "stalled") if bad in statuses), "optimal")
    status = verified_status(status, certificate, problem.objective_rounding(network), tol)
    return ColumnGenerationResult(network, certificate, problem, status, history, deadline.elapsed())
