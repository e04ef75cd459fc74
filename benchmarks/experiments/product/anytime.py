"""What there is after so many seconds: certified gaps of relaxations, and polished networks, with time limits.

Every clock counts seconds of the processor, of one thread, so that other work on the machine takes no time from a
limit. Relaxations: one solve of ten seconds a method, to 1e-6, whose callback tells the best point and bound so far;
the last gap is that of what it returns. Networks: ten neurons an output (fifty of one output), sampled and polished by
`solve_and_sample`; means of three seeds. The relaxation has half of a limit at most.

Problems of a squared loss unless said: a planted network with noise; targets that are noise, of more inputs than
samples; signs of a quadratic function with noise and the logistic loss; letters with five thresholds a column, 26
outputs; MNIST pooled to 14 x 14 pixels, ten outputs. Betas are 1 (planted) and 0.01 `beta_max`.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments import draw
from benchmarks.experiments._common import TARGET, Records, experiment_in, grid, grouped, timed, where
from benchmarks.experiments._data import images, pooled, targets_of, with_constant
from benchmarks.experiments._process import in_own_process, processor_clock
from qsdp.bench import Claim, exact
from qsdp.encoding import ThresholdEncoder

SOLVERS = ("auto", "interior", "splitting", "low-rank")
LIMITS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CURVE, SEEDS, ROWS = 10.0, 3, 5000

BETTER = (TARGET, "The network of a time limit is no worse than that of a tenth of it, but for the scatter of seeds.")
TIGHTER = (TARGET, "The relaxation's certified gap with a time limit is no larger than with a tenth of it.")
POINTS = (TARGET, "The relaxed point is never worse than zero.")
JOINED = (TARGET, "From limits of 10 s on, the relaxed point is never worse than the network.")
AUTO = (TARGET, "After 1 and 10 s the certified gap of 'auto' is at most twice that of the best method.")

#: Of the claim, in processor seconds; and the factor.
MOMENTS, FACTOR = (1.0, 10.0), 2.0


def planted() -> qsdp.TrainingProblem:
    data = qsdp.datasets.make_planted(1000, 60, noise=10.0, random_state=0)
    return qsdp.TrainingProblem(data.X, data.y / data.y.std(), beta=1.0)


def noise() -> qsdp.TrainingProblem:
    rng = np.random.default_rng(0)
    return _at_share(rng.standard_normal((200, 500)), rng.standard_normal(200))


def signs() -> qsdp.TrainingProblem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 60))
    score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + 0.5 * rng.standard_normal(ROWS)
    return _at_share(X, np.where(score > 0.0, 1.0, -1.0), "logistic")


def letters() -> qsdp.TrainingProblem:
    X, _, y, _ = qsdp.datasets.load_uci("letter").split(random_state=0)
    (X,) = with_constant(ThresholdEncoder(n_thresholds=5).fit(X[:ROWS]).transform(X[:ROWS]))
    return _at_share(X, 2.0 * targets_of(y[:ROWS].astype(int)) - 1.0)


def digits() -> qsdp.TrainingProblem:
    X, _, y, _ = images("mnist", ROWS)
    (X,) = with_constant(pooled(X, 14))
    return _at_share(X, 2.0 * targets_of(y) - 1.0)


def _at_share(X: np.ndarray, y: np.ndarray, loss: str = "squared") -> qsdp.TrainingProblem:
    problem = qsdp.TrainingProblem(X, y, beta=1.0, loss=loss)
    return problem.with_beta(0.01 * qsdp.beta_max(problem))


PROBLEMS: dict[str, Callable[[], qsdp.TrainingProblem]] = {
    "planted 1000 x 60": planted,
    "noise 200 x 500": noise,
    "logistic 5000 x 60": signs,
    "letters 5000 x 81 x 26": letters,
    "MNIST 5000 x 197 x 10": digits,
}


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        first = next(iter(PROBLEMS))
        curves = grid(problem=first, solver=SOLVERS[1:3], limit=0.3)
        return curves + grid(problem=first, limit=(0.03, 0.3), seeds=1)
    curves = grid(problem=tuple(PROBLEMS), solver=SOLVERS, limit=CURVE)
    return curves + grid(problem=tuple(PROBLEMS), limit=LIMITS, seeds=SEEDS)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in a process of its own, of one thread, whose clocks count seconds of the processor."""
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    # That a gap is large is what is measured.
    warnings.simplefilter("ignore", qsdp.QSDPWarning)
    problem = PROBLEMS[case["problem"]]()
    warm = np.random.default_rng(0).standard_normal((20, 3))
    with processor_clock():
        # Modules are loaded, and the speed of the machine is measured.
        qsdp.solve_and_sample(warm, warm[:, 0], n_neurons=5, refine="polish", time_limit=1.0)
        return curve(problem, case) if "solver" in case else networks(problem, case)


def curve(problem: qsdp.TrainingProblem, case: dict[str, Any]) -> dict[str, Any]:
    """Return seconds, best objective and best bound at every report of a solve, and in the end."""
    told: list[tuple[float, float, float]] = []
    start = time.process_time()

    def report(progress: Any) -> bool:
        told.append((time.process_time() - start, progress.objective, progress.lower_bound))
        return False

    found = qsdp.solve_relaxation(problem, case["solver"], time_limit=case["limit"], callback=report)
    told.append((time.process_time() - start, found.objective, found.lower_bound))
    return {"curve": told, "status": found.status, "solver": found.solver, "gap": found.relative_gap}


def networks(problem: qsdp.TrainingProblem, case: dict[str, Any]) -> dict[str, Any]:
    neurons = (10 if problem.vector else 50) * problem.n_outputs
    options = {"beta": problem.beta, "loss": problem.loss, "refine": "polish", "time_limit": case["limit"]}

    def trained(seed: int) -> qsdp.QSDPResult:
        return qsdp.solve_and_sample(problem.X, problem.y, neurons, random_state=seed, **options)

    runs = [timed(functools.partial(trained, seed)) for seed in range(case["seeds"])]
    relaxations, certificates = [r.relaxation for r, _ in runs], [r.certificate for r, _ in runs]
    return {
        "seconds": [seconds for _, seconds in runs],
        "zero": problem.data_fit.value_at_zero,
        "relaxed": [relaxation.objective for relaxation in relaxations],
        "relaxed_gap": [relaxation.relative_gap for relaxation in relaxations],
        "objective": [certificate.objective for certificate in certificates],
        "gap": [certificate.relative_gap for certificate in certificates],
        "solvers": sorted({relaxation.solver for relaxation in relaxations}),
    }


def gaps(record: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of a curve, and the relative gap of the best point and the best bound until then."""
    seconds, objective, bound = np.array(record.measured["curve"]).T
    objective, bound = np.minimum.accumulate(objective), np.maximum.accumulate(bound)
    return seconds, np.maximum(objective - bound, 0.0) / objective


def gap_at(record: Any, moment: float) -> float:
    """Return the gap after so many seconds, 1 before there is any."""
    seconds, gap = gaps(record)
    known = gap[seconds <= moment]
    # What a solve that the limit ends returns comes a little later.
    ended = moment >= record.case["limit"]
    return float(gap[-1] if ended else known[-1] if len(known) else 1.0)


def split(records: Records) -> tuple[Records, Records]:
    return [r for r in records if "solver" in r.case], [r for r in records if "solver" not in r.case]


def claims(records: Records) -> list[Claim]:
    """Compare every limit with a tenth of it, points with zero and networks, and "auto" with the best method."""
    curves, trained = split(records)
    better, tighter, points, joined = {}, {}, {}, {}
    for record in trained:
        problem, limit, m = record.case["problem"], record.case["limit"], record.measured
        name, relaxed, objective = f"{problem}, {limit:g} s", np.array(m["relaxed"]), np.array(m["objective"])
        points[name] = bool(np.all(relaxed <= (1.0 + 1e-12) * m["zero"]))
        if limit >= 10.0:
            joined[name] = bool(np.all(relaxed <= (1.0 + 1e-9) * objective))
        for earlier in where(trained, problem=problem, limit=round(limit / 10.0, 6)):
            first = np.array(earlier.measured["objective"])
            error = np.sqrt(sum(part.var(ddof=min(1, len(part) - 1)) / len(part) for part in (first, objective)))
            better[name] = bool(objective.mean() <= first.mean() + 2.0 * error + 1e-9 * first.mean())
            tighter[name] = max(m["relaxed_gap"]) <= max(*earlier.measured["relaxed_gap"], 1e-6)
    pairs = sum(round(limit / 10.0, 6) in LIMITS for limit in LIMITS) * len(PROBLEMS)
    late = sum(limit >= 10.0 for limit in LIMITS) * len(PROBLEMS)
    near = {}
    for (problem,), group in grouped(curves, "problem").items():
        if len(group) == len(SOLVERS):
            for moment in MOMENTS:
                own = {r.case["solver"]: max(gap_at(r, moment), 1e-6) for r in group}
                near[f"{problem}, {moment:g} s"] = own["auto"] <= FACTOR * min(own.values())
    return [
        exact(*BETTER, better, needed=pairs),
        exact(*TIGHTER, tighter, needed=pairs),
        exact(*POINTS, points, needed=len(PROBLEMS) * len(LIMITS)),
        exact(*JOINED, joined, needed=late),
        exact(*AUTO, near, needed=len(PROBLEMS) * len(MOMENTS)),
    ]


def plot(records: Records) -> Any:
    """Draw the gap of every method against seconds, and networks and relaxed points against limits."""
    curves, trained = split(records)
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for r in curves:
        points = zip(*gaps(r), strict=True)
        lines = panels.setdefault(f"{r.case['problem']}: gap", {})
        lines[r.case["solver"]] = {seconds: max(gap, 1e-8) for seconds, gap in points}
    for r in trained:
        lines = panels.setdefault(f"{r.case['problem']}: objective", {"relaxed point": {}, "network": {}})
        for line, what in zip(lines.values(), ("relaxed", "objective"), strict=True):
            line[r.case["limit"]] = np.mean(r.measured[what])
    return draw.curves(panels, "processor seconds, or their limit", "certified gap, or objective", "xy", height=3.0)


EXPERIMENT = experiment_in(__name__, "At any time", "Targets of the package: something usable in time")
