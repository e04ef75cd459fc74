"""No bound is above the optimum, no objective other than its network's, and no proof is claimed that is none.

Small random problems (`_problems`), the optimum of each over all neurons (`_optimum`), and everything that the library
claims about it: relaxations of every solver, early stops among them; certificates, also over
batches of rows; column generation; files, as `qsdp-check` reads them;
calls whose time ends at any of their looks at the clock. A case is made from the seed and its index, nothing else; time
limits are of processor time.

What counts as wrong, with p the smallest objective of any network that was found, rounded up:

* a lower bound above p, by more than what `qsdp-check` allows for rounding (1e-9 of it, or 1e-15 of the objective of no
  network), or at all for a certificate of rows in memory;
* an objective that is not the one of the network, by more than that and the rounding of an evaluation in floats;
* "optimal" with a gap above the tolerance asked for, between these very numbers or the true ones;
* a file that was saved and that `qsdp-check` refuses, or that is read as something else;
* any error but the library's own.
"""

from __future__ import annotations

import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import qsdp
import qsdp_check
from campaigns._optimum import network_value, optimum
from campaigns._problems import draw, random_network
from campaigns._record import Outcome, one_thread
from qsdp.column_generation import generator

OWN = ("auto", "interior", "splitting", "low-rank")
FOREIGN = ("scs", "clarabel")
BOUND_TYPES = ("sdp", "exact")
#: Shares of the cases that have a step, which are drawn until there is one.
STEPS = {"relaxation": 0.25, "foreign relaxation": 0.01, "column generation": 0.4, "certify": 0.25, "batches": 0.01}
#: Shares of the cases, of column generation and of the certificates that have something beside.
STOPPED, WIDE, FILE = 0.05, 0.15, 0.25
#: Time limits of the steps of a case, by how often they are drawn: a stalled step takes all of it.
SECONDS = {0.02: 0.5, 0.04: 0.42, 0.2: 0.08}
TOLERANCE = 1e-9
#: The time limit that the clock ends, and looks at the clock at most that a call has before.
LIMIT, LOOKS = 1.0, 1000
#: Seconds by which that clock goes on with every look after: work that must follow the end is done, or is left.
ENDS = {"just over": 1e-3, "long over": 1e3}


def tested(seed: int, index: int) -> Outcome:
    one_thread()
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    # Time limits count seconds of processor.
    clock = mock.patch.multiple(time, monotonic=time.process_time, perf_counter=time.process_time)
    with warnings.catch_warnings(), np.errstate(all="ignore"), clock:
        warnings.simplefilter("ignore")
        try:
            problem, facts = draw(rng)
        except qsdp.QSDPError as error:
            outcome.refused("problem", error)
            return outcome
        outcome.counts += [(kind, str(name)) for kind, name in facts.items()]
        _Case(problem, rng, outcome).run()
    return outcome


class _Case:
    """Everything that is claimed about a problem, beside what is true of it."""

    def __init__(self, problem: qsdp.TrainingProblem, rng: np.random.Generator, outcome: Outcome) -> None:
        self.problem, self.rng, self.outcome = problem, rng, outcome
        # Of its own, so that all other steps are those of earlier records.
        self.stops = rng.spawn(1)[0]
        self.best, self.zero = optimum(problem, corners=rng.random() < 0.97)
        self.bounds: list[tuple[str, float, bool]] = []
        self.relaxation: qsdp.Relaxation | None = None
        self.network = random_network(rng, problem, int(rng.integers(1, 5)))
        self.seconds = float(rng.choice(list(SECONDS), p=list(SECONDS.values())))

    def run(self) -> None:
        """Make all claims, then compare them with the best network of all."""
        steps: dict[str, Callable[[], None]] = {
            "relaxation": lambda: self._relax(str(self.rng.choice(OWN))),
            "foreign relaxation": lambda: self._relax(str(self.rng.choice(FOREIGN))),
            "column generation": self._generate,
            "certify": self._certify,
            "batches": self._certify_batches,
        }
        taken: list[str] = []
        while not taken:
            taken = [name for name, share in STEPS.items() if self.rng.random() < share]
        for name in taken:
            self._attempt(name, steps[name])
        if self.stops.random() < STOPPED:
            self._attempt("stopped", self._stop)
        self._compare(self.bounds, self.best)

    def _attempt(self, name: str, step: Callable[[], None]) -> None:
        start = time.monotonic()
        try:
            step()
        except qsdp.QSDPError as error:
            self.outcome.refused(name, error)
        except Exception as error:
            self.outcome.crashed("error", error, step=name)
        self.outcome.count("step", name)
        if time.monotonic() - start > 2 * self.seconds + 0.5:
            self.outcome.count("slow", name)

    # -- steps --------------------------------------------------------------------------------------------------

    def _power(self, low: float, high: float) -> float:
        return float(10.0 ** self.rng.uniform(low, high))

    def _limits(self) -> dict[str, Any]:
        """Return options that stop early, now and then."""
        return {"time_limit": self._power(-5, -2) if self.rng.random() < 0.15 else self.seconds}

    def _relax(self, solver: str) -> None:
        options = self._limits() | {"tol": self._power(-9, -1)}
        if self.rng.random() < 0.2:
            options["max_iter"] = int(self.rng.integers(1, 20))
        self.relaxation = qsdp.solve_relaxation(self.problem, solver=solver, **options)
        self.outcome.count("solver", f"{solver}, {self.relaxation.status}")
        self._claim(f"relaxation, {solver}", self.relaxation)

    def _generate(self) -> None:
        tol = self._power(-8, -2)
        start = self.network if self.rng.random() < 0.2 else None
        relaxation = self.relaxation if self.rng.random() < 0.3 else None
        with _wide(self.rng.random() < WIDE):
            options = {"start": start, "relaxation": relaxation, "random_state": int(self.rng.integers(2**31))}
            result = qsdp.column_generation(self.problem, tol=tol, **options, **self._limits())
        self._ended("", result, tol)
        self.network = result.network
        self._claim("column generation", result.certificate, result.network)
        if result.status == "optimal":
            objective = sum(network_value(self.problem, result.network)[:2])
            if not objective - self.best <= (tol + TOLERANCE) * objective + self._allowed(objective):
                self._wrong("not optimal", objective=objective, best=self.best, tol=tol)

    def _certify(self) -> None:
        network = self.network if self.rng.random() < 0.5 else random_network(self.rng, self.problem, 3)
        options = {"bound_type": str(self.rng.choice(BOUND_TYPES))}
        certificate = qsdp.certify(network, self.problem, self.relaxation, **options, **self._limits())
        self._claim(f"certify {options['bound_type']}", certificate, network)

    def _certify_batches(self) -> None:
        problem, n = self.problem, self.problem.n_samples
        relaxation = self.relaxation or qsdp.solve_relaxation(problem, **self._limits())
        w = np.ones(n) if problem.sample_weight is None else problem.sample_weight
        cut = int(self.rng.integers(0, n + 1))
        batches = [(problem.X[:cut], problem.y[:cut], w[:cut]), (problem.X[cut:], problem.y[cut:], w[cut:])]
        options = {"passes": int(self.rng.integers(1, 4)), "beta": problem.beta}
        certificate = qsdp.certify_stream(self.network, batches, relaxation, **options)
        self.bounds.append(("batches", certificate.lower_bound, False))
        self._objective("batches", certificate.objective, self.network)
        self._file("batches", certificate, {"X": problem.X, "y": problem.y, "sample_weight": w})

    def _stop(self) -> None:
        """Make a call whose time ends at one of its looks at the clock, whichever."""
        relax = partial(qsdp.solve_relaxation, self.problem, tol=1e-7, max_iter=40, time_limit=LIMIT)
        calls: dict[str, Callable[[int], Any]] = {
            **{solver: lambda seed, solver=solver: relax(solver=solver) for solver in OWN},
            "column generation": lambda seed: qsdp.column_generation(
                self.problem, tol=1e-7, random_state=seed, time_limit=LIMIT
            ),
            "certify": lambda seed: qsdp.certify(
                self.network, self.problem, bound_type=BOUND_TYPES[seed % 2], time_limit=LIMIT
            ),
        }
        name, end = str(self.stops.choice(list(calls))), str(self.stops.choice(list(ENDS)))
        with _wide(name == "column generation" and self.stops.random() < WIDE):
            seed = int(self.stops.integers(2**31))
            with ended_at(LOOKS) as looks:
                calls[name](seed)
            last = int(self.stops.integers(0, min(next(looks), LOOKS) + 1))
            with ended_at(last, ENDS[end]):
                found = calls[name](seed)
        self.outcome.count("time ended", f"{name}, {end}")
        if name == "column generation":
            self._claim(f"stopped, {name}", found.certificate, found.network, filed=True)
        else:
            self._claim(f"stopped, {name}", found, self.network, filed=True)

    # -- what is claimed, and what is true ----------------------------------------------------------------------

    def _claim(self, name: str, found: Any, network: Any = None, *, filed: bool = False) -> None:
        """Compare a relaxation, or a certificate of a network."""
        if isinstance(found, qsdp.Relaxation):
            self.bounds.append((name, found.lower_bound, False))
            if not found.lower_bound <= found.objective + self._allowed(found.objective):
                figures = {"bound": found.lower_bound, "objective": found.objective}
                self._wrong("bound above the relaxation's objective", of=name, **figures)
            return
        name = f"{name}, {found.bound_type}"
        self.bounds.append((name, found.lower_bound, True))
        self._objective(name, found.objective, network)
        if filed or self.rng.random() < FILE:
            self._file(name, found)

    def _ended(self, of: str, result: Any, tol: float) -> None:
        self.outcome.count("column generation", f"{of}{result.status}, {result.certificate.bound_type}")
        if result.status == "optimal" and not result.relative_gap <= 1.001 * tol + 1e-12:
            self._wrong("optimal with a gap", tol=tol, gap=result.relative_gap, of=of)

    def _allowed(self, value: float) -> float:
        return TOLERANCE * max(value, 1e-6 * self.zero)

    def _compare(self, bounds: list[tuple[str, float, bool]], best: float) -> None:
        for name, value, strict in bounds:
            self.outcome.count("bounds", name)
            if not 0.0 <= value < np.inf or value > best + (0.0 if strict else self._allowed(best)):
                self._wrong("bound above an objective", bound=name, value=value, best=best, strict=strict)
            elif value > best:
                self.outcome.count("above by rounding", name)
            self.outcome.distances.append((name, max(0.0, (best - value) / best if best > 0.0 else 0.0)))
        closed = best <= 0.0 or max((value for _, value, _ in bounds), default=0.0) >= (1.0 - 1e-6) * best
        self.outcome.count("optimum", "confirmed to 1e-6" if closed else "not confirmed")

    def _objective(self, name: str, claimed: float, network: qsdp.BilinearNetwork) -> None:
        value, error, rounding = network_value(self.problem, network)
        self.best = min(self.best, value + error)
        self._same(name, claimed, value, rounding)

    def _same(self, name: str, claimed: float, value: float, rounding: float) -> None:
        self.outcome.count("objectives", name)
        if rounding > self._allowed(value):
            self.outcome.count("objectives in floats", name)
        if claimed != value and not abs(claimed - value) <= rounding + self._allowed(value):
            self._wrong("wrong objective", of=name, claimed=claimed, value=value)

    def _wrong(self, what: str, **details: Any) -> None:
        self.outcome.wrong(what, **details, problem=repr(self.problem))

    def _file(self, name: str, certificate: qsdp.Certificate, rows: dict[str, np.ndarray] | None = None) -> None:
        """Save a certificate, have it checked, and read it again."""
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
            path, data = Path(folder) / "one.qsdp", Path(folder) / "data.npz"
            certificate.save(path)
            if rows is not None:
                np.savez(data, **rows)  # type: ignore[arg-type]
            code = qsdp_check.main([str(path), *(["--data", str(data)] if rows is not None else [])])
            self.outcome.count("files", f"{name}: {'accepted' if code == 0 else 'refused'}")
            if code != 0:
                self._wrong("file refused", of=name, said=said.getvalue().strip()[-200:])
            if qsdp.load_certificate(path) != certificate:
                self._wrong("file read otherwise", of=name)


def _wide(apply: bool) -> Any:
    """Treat problems as too wide for exact pricing in every round: searches, branch and bound, cutting planes."""
    return mock.patch.object(generator, "_CHEAP", 1 if apply else generator._CHEAP)


@contextmanager
def ended_at(looks: int, step: float = 1e-3) -> Iterator[Iterator[int]]:
    """Have time limits of `LIMIT` seconds end after so many looks at the clock, which stands still before."""
    seen = count()

    def clock() -> float:
        after = next(seen) + 1 - looks
        return LIMIT + after * step if after > 0 else 0.0

    with mock.patch.object(time, "monotonic", clock):
        yield seen
