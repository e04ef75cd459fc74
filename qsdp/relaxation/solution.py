"""The solved relaxation: a feasible point and a lower bound recomputed from the data, and warnings of their gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.gap import Gap, relative
from qsdp._utils.numeric import HALF_DIGITS
from qsdp._utils.parallel import count_jobs
from qsdp._utils.summary import Rows, Summarized, Summary, first_few, format_numbers, format_seconds, gap_rows
from qsdp._utils.tuning import FAR, INNER
from qsdp._utils.validation import FloatArray, check_matrix, read_only, warn
from qsdp.blocks import check_blocks
from qsdp.data_map import COLUMNS
from qsdp.problem import TrainingProblem
from qsdp.relaxation.bounds import DualBound, instance_bound
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.repair import repair
from qsdp.relaxation.scaled import RawSolution, ScaledProblem
from qsdp.training_data import check_levels

__all__ = [
    "CHANGED",
    "PRINTED",
    "Relaxation",
    "falls_short",
    "finish",
    "join_outputs",
    "ratio_of_scales",
    "warn_of_choices",
    "warn_of_shortfall",
]

#: Status of the solver of a point from a CVXPY program that a user has changed.
CHANGED = "from a changed program; the bound is that of the program without the change"

#: Status of the solver of a point from the program as printed in the paper, whose optimum is that of half the beta.
PRINTED = "from the program with half the regulariser; objective and bound are those with all of it"


@dataclass(frozen=True, eq=False, repr=False)
class Relaxation(Summarized, Gap):
    r"""A feasible point of the semidefinite relaxation and a lower bound that holds for every network.

    ``lower_bound <= p_b*`` whatever the solver did. ``objective`` is that of the point stored here, which is
    exactly feasible. The true value of the relaxation lies between the two.

    Attributes
    ----------
    problem : TrainingProblem
    Z, V, W : list of ndarray of shape (C, N_r, N_r)
        For each block, of which data of columns are one, the matrices of all outputs: those of output k are
        ``Z[0][k]``. ``[[V, Z], [Z', W]]`` is positive semidefinite with constant diagonal `rho`. The data matrices are
        symmetric, so Z is symmetric and W equals V. For M + 1 levels, they belong to data scaled by M. A linear block
        has vectors, of shape (C, N_r), and so has a block of real weights: Z holds the weights themselves, V and W
        their absolute values.
    rho : ndarray of shape (C, R)
        Diagonal entry for each output and block with neurons.
    weights : ndarray of shape (p, C)
        Real weights of the columns of all blocks of weights, in the shape of `BilinearNetwork.weights`.
    Z_stack, V_stack, rho_stack : ndarray of shape (K, N, N) or (K,)
        The same as stacks of K = C R matrices, the blocks of an output one after the other. With `Blocks`, those of
        block r are multiplied by :math:`\omega_r D_r`, see `TrainingProblem.dimension`.
    priced_weights : ndarray of shape (C, p)
        Real weights times their prices :math:`\omega_k`.
    objective : float
        Loss of the predictions :math:`2 \langle \mathcal{X}_i, Z \rangle` plus :math:`2 \beta D \rho`, summed over
        outputs. Real weights w add to the predictions, and :math:`\beta \sum_k \omega_k |w_k|` to the penalty.
    lower_bound : float
        Bound on the global optimum :math:`p_b^*` over all networks of any width.
    bound : DualBound
        Proof of the lower bound, with `nu` of shape (n, C) and `z` of shape (C, N); `dual` is the same, squeezed.
    status : {"optimal", "inaccurate", "failed"}
        Judged by `relative_gap`, not by the solver. "optimal": the gap is at most `tol` (``100 tol`` for external
        solvers). "failed": the solver returned no usable point.
    solver, solver_status : str
        Back end, and the status that it reports.
    objectives, lower_bounds : ndarray of shape (C,) or (1,)
        One per output if the loss adds up over outputs, for every beta; otherwise only the sums.
    residuals : dict of str to float
        Infeasibility of the solver's point: "asymmetry" and "negative_eigenvalue" (relative to the largest
        entry) and "diagonal" (its relative spread). Empty if the solver left no point, and for this package's
        solvers, whose points are feasible by construction.
    compile_time, solve_time : float
        Seconds, summed over outputs that were solved separately.
    tol : float
        Requested accuracy.
    origin : Relaxation or None
        The relaxation that was solved, if this is its point carried over to another number of levels.
    """

    problem: TrainingProblem
    Z_stack: FloatArray
    V_stack: FloatArray
    rho_stack: FloatArray
    priced_weights: FloatArray
    objective: float
    lower_bound: float
    bound: DualBound
    status: str
    solver: str
    solver_status: str
    iterations: int | None
    objectives: FloatArray
    lower_bounds: FloatArray
    residuals: dict[str, float]
    compile_time: float
    solve_time: float
    tol: float
    origin: Relaxation | None = None

    @property
    def Z(self) -> list[FloatArray]:  # noqa: N802 (the paper's name)
        """Off-diagonal block Z: a list over blocks of arrays (C, N_r, N_r), or (C, N_r) for vectors and weights."""
        return self._over_blocks(self.Z_stack, self.priced_weights)

    @property
    def V(self) -> list[FloatArray]:  # noqa: N802
        """Upper diagonal block V, in the shapes of `Z`."""
        return self._over_blocks(self.V_stack, np.abs(self.priced_weights))

    @property
    def W(self) -> list[FloatArray]:  # noqa: N802
        """Lower diagonal block W, equal to `V`."""
        return self.V

    @property
    def rho(self) -> FloatArray:
        """Common diagonal entry for each output and block, of shape (C, R)."""
        prices = self.problem.prices
        return read_only(self.rho_stack.reshape(self.problem.n_outputs, len(prices)) / prices)

    @property
    def weights(self) -> FloatArray:
        """Real weights of shape (p, C)."""
        return read_only((self.priced_weights / self.problem.map.layout.weight_omega).T)

    @property
    def fitted(self) -> FloatArray:
        """Predictions for the data of the problem, of shape (n, C)."""
        return self.problem.relaxed_predictions(self.Z_stack, self.priced_weights)

    def _over_blocks(self, stack: FloatArray, weights: FloatArray) -> list[FloatArray]:
        layout = self.problem.map.layout
        prices = np.tile(self.problem.prices, self.problem.n_outputs)[:, None, None]
        parts = layout.unstack(stack / prices, weights / layout.weight_omega)
        return [read_only(part) for part in parts]

    @property
    def dual(self) -> DualBound:
        """Proof of the bound, for scalar targets with `nu` of shape (n,) and `z` of shape (N,)."""
        return self.bound.squeezed(self.problem)

    def predict(self, X: Any) -> FloatArray:
        r"""Return the predictions :math:`2 \langle \mathcal{X}, Z \rangle`, shape (n,) or (n, C), for data (n, d)."""
        layout = self.problem.blocks
        data = check_matrix("X", X, n_columns=self.problem.n_features) if layout is None else check_blocks(X, layout)
        return self.problem.squeezed(self.outputs(data))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the prediction at one sample: () or (C,)."""
        return self.problem.output_shape

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` for checked data, always of shape (n, C), using `n_jobs` threads, like a network."""
        data = self.problem.map_of(X)
        if data.layout.weights:
            return data.values(2.0 * self.Z_stack, self.priced_weights)
        return 2.0 * data.forwards(self.Z_stack, count_jobs(n_jobs))

    def with_levels(self, levels: int) -> Relaxation:
        r"""Return a feasible point and a bound for the problem with another number of levels, without a solve.

        The point is rescaled to the new columns, so predictions stay the same. The bound is recomputed from the
        same dual vector. Both are valid, but in general no longer optimal. They are always those of the relaxation that
        was solved, since a point that is carried over again and again would become worse every time.
        """
        if check_levels(levels) == self.problem.levels:
            return self
        if self.origin is not None:
            return self.origin.with_levels(levels)
        scaled = ScaledProblem.from_problem(self.problem.with_levels(levels))
        # Dividing the entries by the factors of the columns keeps the predictions.
        columns = np.ones(self.problem.size)
        columns[: self.problem.n_features] = (self.problem.levels - 1.0) / (levels - 1.0)
        stretched = np.outer(columns, columns)
        Z, V, z = stretched * self.Z_stack, stretched * self.V_stack, self.bound.z / columns**2
        raw = replace(scaled.inside(Z, V, self.bound.nu, z), status="carried over")
        return replace(finish(scaled, raw, solver=self.solver, tol=self.tol, stretch=False), origin=self)

    def __repr__(self) -> str:
        radii = self.rho.ravel().tolist()
        rho = f"{radii[0]:.6g}" if len(radii) == 1 else f"[{first_few([f'{r:.3g}' for r in radii])}]"
        note = f"; {self.solver_status}" if self.solver_status in {CHANGED, PRINTED} else ""
        return (
            f"Relaxation(objective={self.objective:.6g}, lower_bound={self.lower_bound:.6g}, "
            f"relative_gap={self.relative_gap:.2g}, rho={rho}, status={self.status!r}, "
            f"solver={self.solver!r}, solve_time={self.solve_time:.3g}{note})"
        )

    def _summary(self) -> Summary:
        real = self.weights
        rows: Rows = [
            *gap_rows(self, "of the relaxed point"),
            ("status", self.status),
            ("solver", self._course()),
            ("rho", format_numbers(np.ravel(self.rho).tolist())),
            *([("real weights", f"{np.count_nonzero(real):,} of {real.size:,} are not zero")] if real.size else []),
            ("side of the matrices", str(self.problem.size)),
        ]
        return Summary("Relaxation", rows)

    @property
    def interrupted(self) -> bool:
        """Whether a keyboard interrupt stopped the solve."""
        return self.solver_status == "interrupted"

    def _course(self) -> str:
        """Describe solver, status, iterations and time as text."""
        steps = "" if self.iterations is None else f", {self.iterations} iterations"
        return f"{self.solver} ({self.solver_status}){steps}, {format_seconds(self.compile_time + self.solve_time)}"


def finish(
    scaled: ScaledProblem,
    raw: RawSolution,
    *,
    solver: str,
    tol: float,
    stretch: bool = True,
    certified: bool = False,
) -> Relaxation:
    """Repair the solver's point and recompute everything from the data, separately for outputs that do not interact.

    Bounds with separate scales are tighter. Unless `stretch` is False, the point may be rescaled (see `repair`) and is
    replaced by zero if that is better. The gap of `certified` candidates, from this package's solvers, is recomputed,
    too, but further candidates are tried only if it is larger than `tol`.
    """
    # A point is certified even after a time limit.
    with deadline.unlimited():
        parts = [
            _finish_part(part, solved, solver, tol, stretch=stretch, certified=certified)
            for part, solved in zip(scaled.parts, scaled.divided(raw), strict=True)
        ]
    if scaled.parts == [scaled]:
        return parts[0]
    return replace(join_outputs(scaled.problem, parts, certified=certified), iterations=raw.iterations)


def _finish_part(
    scaled: ScaledProblem, raw: RawSolution, solver: str, tol: float, *, stretch: bool, certified: bool
) -> Relaxation:
    instance, units = scaled.instance, scaled.units
    point = _feasible(instance, raw, stretch=stretch, certified=certified)
    dual = _best_dual(instance, raw, point, tol, certified=certified)
    Z, V, weights = point.Z, point.V, units.weight * point.weights
    usable = raw.Z is not None and point.moved
    if point.moved:
        # In place, because every matrix counts if the data are wide.
        Z *= units.weight
        V *= units.weight
    objective, bound = units.value * point.objective, units.value * dual.value
    return Relaxation(
        problem=scaled.problem,
        Z_stack=read_only(Z),
        V_stack=read_only(V),
        rho_stack=read_only(units.weight * point.rho),
        priced_weights=read_only(weights),
        objective=objective,
        lower_bound=bound,
        bound=DualBound(bound, dual.nu * (units.value / units.prediction), dual.z * (units.value / units.weight)),
        status=verdict(relative(objective - bound, objective), tol, usable, certified=certified),
        solver=solver,
        solver_status=raw.status,
        iterations=raw.iterations,
        objectives=read_only(np.array([objective])),
        lower_bounds=read_only(np.array([bound])),
        residuals=_residuals(raw) if usable and not certified else {},
        compile_time=float(raw.timings.get("compile", 0.0)),
        solve_time=float(raw.timings.get("solve", 0.0)),
        tol=tol,
    )


class _Feasible(NamedTuple):
    """Feasible point with its predictions and objective, in the units of the instance."""

    Z: FloatArray
    V: FloatArray
    rho: FloatArray
    weights: FloatArray
    prediction: FloatArray
    objective: float
    #: Whether the point differs from zero.
    moved: bool


def _feasible(instance: Instance, raw: RawSolution, *, stretch: bool, certified: bool) -> _Feasible:
    """Repair the point of a solver; unless `stretch` is False, replace it by zero if that is better."""
    Z, V, rho, weights = repair(instance, raw, stretch=stretch and not certified)
    moved = bool((rho > 0.0).any()) or bool(weights.any())
    prediction = instance.predictions(Z, weights) if moved else np.zeros_like(instance.target)
    objective = instance.fit.value(prediction) + instance.cost(rho, weights)
    if stretch and not objective <= instance.fit.value_at_zero:
        # Rounding misled the solver because the sizes of the data are too far apart.
        Z, V, rho, weights, prediction = (np.zeros_like(array) for array in (Z, V, rho, weights, prediction))
        objective, moved = instance.fit.value_at_zero, False
    return _Feasible(Z, V, rho, weights, prediction, objective, moved)


def _best_dual(instance: Instance, raw: RawSolution, point: _Feasible, tol: float, *, certified: bool) -> DualBound:
    """Compute the better bound of the solver's dual vector and of minus the gradient at its point.

    A built-in method has already evaluated its dual vector, which suffices if the gap is at most `tol`. After a time
    limit, each dual vector takes one decomposition per output; otherwise, the best weights are searched for.
    """
    in_time = raw.status != "time limit"
    if certified or not in_time:
        dual = instance_bound(instance, [raw.nu], [raw.z], exhaustive=False)
        if certified and relative(point.objective - dual.value, point.objective) <= tol:
            return dual
    minus_gradient = -instance.fit.gradient(point.prediction)
    if in_time:
        return instance_bound(instance, [raw.nu, minus_gradient], [raw.z])
    # A solver's bound rises late: the gradient at its last point often proves a bound several times as high. The
    # weights of the solver belong to another dual vector.
    return max(dual, instance_bound(instance, [minus_gradient], exhaustive=False), key=lambda bound: bound.value)


def join_outputs(problem: TrainingProblem, parts: Sequence[Relaxation], *, certified: bool = False) -> Relaxation:
    """Join one relaxation per output to the relaxation of a vector problem with independent outputs."""
    first = parts[0]
    objective = sum(part.objective for part in parts)
    bound = sum(part.lower_bound for part in parts)
    usable = any(part.status != "failed" for part in parts)
    iterations = [part.iterations for part in parts if part.iterations is not None]
    names = {name for part in parts for name in part.residuals}
    nu = np.concatenate([part.bound.nu for part in parts], axis=1)
    return Relaxation(
        problem=problem,
        Z_stack=read_only(np.concatenate([part.Z_stack for part in parts])),
        V_stack=read_only(np.concatenate([part.V_stack for part in parts])),
        rho_stack=read_only(np.concatenate([part.rho_stack for part in parts])),
        priced_weights=read_only(np.concatenate([part.priced_weights for part in parts])),
        objective=objective,
        lower_bound=bound,
        bound=DualBound(bound, nu, np.concatenate([part.bound.z for part in parts])),
        status=verdict(relative(objective - bound, objective), first.tol, usable, certified=certified),
        solver=", ".join(sorted({part.solver for part in parts})),
        solver_status=", ".join(sorted({part.solver_status for part in parts})),
        iterations=sum(iterations) if iterations else None,
        objectives=read_only(np.array([part.objective for part in parts])),
        lower_bounds=read_only(np.array([part.lower_bound for part in parts])),
        residuals={name: max(part.residuals.get(name, 0.0) for part in parts) for name in sorted(names)},
        compile_time=sum(part.compile_time for part in parts),
        solve_time=sum(part.solve_time for part in parts),
        tol=first.tol,
    )


def verdict(gap: float, tol: float, usable: bool, *, certified: bool) -> str:
    """Return the status of a solution; a conic solver that does not certify its gap may exceed `tol` by far."""
    largest = tol if certified else FAR * tol
    return "optimal" if gap <= largest else "inaccurate" if usable else "failed"


def _residuals(raw: RawSolution) -> dict[str, float]:
    assert raw.Z is not None
    assert raw.V is not None
    assert raw.W is not None
    worst = {"asymmetry": 0.0, "negative_eigenvalue": 0.0, "diagonal": 0.0}
    for Z, V, W in zip(raw.Z, raw.V, raw.W, strict=True):
        K = np.block([[V, Z], [Z.T, W]])
        largest = float(np.abs(K).max()) or 1.0
        diagonal = K.diagonal()
        violations = {
            "asymmetry": float(np.abs(K - K.T).max()),
            "negative_eigenvalue": max(0.0, -float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])),
            "diagonal": float(diagonal.max() - diagonal.min()),
        }
        worst = {name: max(worst[name], violations[name] / largest) for name in worst}
    return worst


def falls_short(relaxation: Relaxation, tol: float) -> bool:
    """Whether the certified gap is so much larger than the tolerance that a warning is due."""
    return relaxation.status != "optimal" and INNER * relaxation.relative_gap > tol


def warn_of_shortfall(relaxation: Relaxation, tol: float, solver: str) -> None:
    """Warn if a relaxation falls short of the tolerance, unless the user's callback stopped the solve.

    Parameters
    ----------
    relaxation : Relaxation
    tol : float
    solver : str
        The solver as requested, which may be "auto".
    """
    if not falls_short(relaxation, tol) or relaxation.solver_status == "stopped by the callback":
        return
    warn(
        f"the certified relative gap of the relaxation is {relaxation.relative_gap:.2g}, above tol={tol:g}, though its "
        f"lower bound is valid: {_cause(relaxation, solver)}"
    )


def warn_of_choices() -> None:
    """Warn about searches that the time limit ended early, unless a warning about the relaxation named them."""
    if stages := deadline.ended():
        warn(
            f"the time limit ended {_listed(stages)}: certificate and predictions are valid, but a longer search "
            "may give a better result; allow more time with time_limit"
        )


def _cause(relaxation: Relaxation, solver: str) -> str:
    """Explain the cause of a gap and what to do about it."""
    name, status, problem = relaxation.solver, relaxation.solver_status, relaxation.problem
    if relaxation.interrupted:
        return "the solve was interrupted"
    if status == "time limit":
        stages = [*deadline.ended(), "the solve"]
        return f"the time limit ended {_listed(stages)}; allow more time with time_limit"
    # A solver that stalls or takes too many iterations is then a symptom.
    ratio = ratio_of_scales(problem.X) if COLUMNS in problem.map.offers else 1.0
    if ratio > FAR:
        return f"the columns of X differ in scale by a factor of {ratio:.0f}; standardise them"
    if status == "iteration limit":
        more = f"allow more with max_iter of qsdp.solve_relaxation, or try {_other(name, solver)}"
        return f"solver {name!r} reached its iteration limit; {more}"
    reason = "cannot improve it in floating point" if status == "stalled" else f"ended with status {status!r}"
    return f"solver {name!r} {reason}; try {_other(name, solver)}"


def _listed(stages: Sequence[str]) -> str:
    *others, last = stages
    return f"{', '.join(others)} and {last}" if others else last


def _other(name: str, solver: str) -> str:
    """Return the argument that selects another solver, as text for a message."""
    return f"solver={'auto' if solver != 'auto' else 'splitting' if name != 'splitting' else 'scs'!r}"


def ratio_of_scales(X: FloatArray) -> float:
    """Compute the largest ratio of the standard deviations of two non-constant columns, or one."""
    # Divide first, so that squares of extreme values stay finite; later checks refuse such values.
    largest = float(np.abs(X).max()) or 1.0
    varying = X.max(axis=0) > X.min(axis=0)
    deviations = np.std(X[:, varying] / largest, axis=0)
    # A scaler turns a constant column into rounding errors, which do not count as a column of small scale.
    deviations = deviations[deviations > HALF_DIGITS * np.abs(X[:, varying] / largest).max(axis=0, initial=0.0)]
    return float(deviations.max() / deviations.min()) if deviations.size else 1.0
