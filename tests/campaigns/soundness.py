"""No bound is above the optimum, no objective other than its network's, and no proof is claimed that is none.

Small random problems (`_problems`), the optimum of each over all neurons (`_optimum`), and everything that the library
claims about it: relaxations of every solver, early stops among them; certificates in float and verified arithmetic,
also over batches of rows; column generation of bilinear and polynomial neurons; files, as `qsdp-check` reads them;
calls whose time ends at any of their looks at the clock. A case is made from the seed and its index, nothing else; time
limits are of processor time.

What counts as wrong, with p the smallest objective of any network that was found, rounded up:

* a lower bound above p, by more than what `qsdp-check` allows for rounding (1e-9 of it, or 1e-15 of the objective of no
  network), or at all where the arithmetic is verified;
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
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import qsdp
import qsdp_check
from campaigns._optimum import Enumeration, network_value, polynomial_value
from campaigns._problems import draw, random_network
from campaigns._record import Outcome, one_thread
from qsdp.certificates.verification import verified_bound
from qsdp.column_generation import bilinear

__all__ = ["tested"]

OWN = ("auto", "interior", "splitting", "low-rank")
BOUND_TYPES = ("sdp", "exact")
FOREIGN = ("scs", "clarabel", "cvxopt")
#: Shares of the cases, and of the certificates, that have a step; those of the first five are drawn until there is one.
SHARES = {
    "relaxation": 0.25,
    "foreign relaxation": 0.01,
    "column generation": 0.4,
    "certify": 0.25,
    "batches": 0.01,
    "polynomial": 0.02,
    "wide": 0.15,
    "file": 0.25,
    "stopped": 0.05,
}
#: Time limits of the steps of a case, by how often they are drawn: a stalled step takes all of it.
SECONDS = {0.02: 0.5, 0.04: 0.42, 0.2: 0.08}
TOLERANCE = 1e-9
#: The time limit that the clock ends, in its seconds, and looks at most that a call has before.
LIMIT, LOOKS = 1.0, 1000

#: Seconds by which the clock goes on with every look after that: work that must follow the end is done, or is left.
_STEPS = {"just over": 1e-3, "long over": 1e3}


def tested(seed: int, index: int) -> Outcome:
    one_thread()
    outcome = Outcome()
    rng = np.random.default_rng([seed, index])
    with warnings.catch_warnings(), np.errstate(all="ignore"), processor_clock():
        warnings.simplefilter("ignore")
        try:
            drawn = draw(rng)
        except qsdp.QSDPError as error:
            outcome.count("refused", f"problem: {_kind(error)}")
            return outcome
        for kind, name in drawn.facts.items():
            outcome.count(kind, name)
        _Case(drawn.problem, rng, outcome).run()
    return outcome


def _kind(error: Exception) -> str:
    return f"{type(error).__name__} {str(error).split(' must ')[0][:40]}"


class _Case:
    """Everything that is claimed about a problem, beside what is true of it."""

    def __init__(self, problem: qsdp.TrainingProblem, rng: np.random.Generator, outcome: Outcome) -> None:
        self.problem, self.rng, self.outcome = problem, rng, outcome
        # Of its own, so that all other steps are those of earlier records.
        self.stops = rng.spawn(1)[0]
        self.optimum = Enumeration.of(problem, corners=rng.random() < 0.97)
        self.best = self.optimum.upper
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
            taken = [name for name in steps if self.rng.random() < SHARES[name]]
        for name in taken:
            self._attempt(name, steps[name])
        if self.stops.random() < SHARES["stopped"]:
            self._attempt("stopped", self._stop)
        self._compare(self.bounds, self.best)
        if not self.problem.vector and self.rng.random() < SHARES["polynomial"]:
            self._attempt("polynomial column generation", self._generate_polynomial)

    def _attempt(self, name: str, step: Callable[[], None]) -> None:
        start = time.monotonic()
        try:
            step()
        except qsdp.QSDPError as error:
            self.outcome.count("refused", f"{name}: {_kind(error)}")
        except Exception as error:
            self.outcome.crashed("error", error, step=name)
        self.outcome.count("step", name)
        if time.monotonic() - start > 2 * self.seconds + 0.5:
            self.outcome.count("slow", name)

    # -- claims -----------------------------------------------------------------------------------------------

    def _limits(self) -> dict[str, Any]:
        """Return options that stop early, now and then."""
        early = self.rng.random() < 0.15
        return {"time_limit": float(10.0 ** self.rng.uniform(-5, -2)) if early else self.seconds}

    def _relax(self, solver: str) -> None:
        options = self._limits()
        options["tol"] = float(10.0 ** self.rng.uniform(-9, -1))
        if self.rng.random() < 0.2:
            options["max_iter"] = int(self.rng.integers(1, 20))
        relaxation = qsdp.solve_relaxation(self.problem, solver=solver, **options)
        self.outcome.count("solver", f"{solver}, {relaxation.status}")
        self._bound(f"relaxation, {solver}", relaxation.lower_bound)
        self._below(f"relaxation, {solver}", relaxation.lower_bound, relaxation.objective)
        self.relaxation = relaxation

    def _generate(self) -> None:
        tol = float(10.0 ** self.rng.uniform(-8, -2))
        start = self.network if self.rng.random() < 0.2 else None
        relaxation = self.relaxation if self.rng.random() < 0.3 else None
        with _wide(self.rng.random() < SHARES["wide"]):
            options = {"start": start, "relaxation": relaxation, "random_state": int(self.rng.integers(2**31))}
            result = qsdp.column_generation(self.problem, tol=tol, **options, **self._limits())
        self._ended("", result, tol)
        self.network = result.network
        self._certificate("column generation", result.certificate)
        if result.status == "optimal":
            objective = sum(network_value(self.problem, result.network)[:2])
            if not objective - self.best <= (tol + TOLERANCE) * objective + self._allowed(objective):
                self._wrong("not optimal", objective=objective, best=self.best, tol=tol)

    def _certify(self) -> None:
        network = self.network if self.rng.random() < 0.5 else random_network(self.rng, self.problem, 3)
        bound_type = str(self.rng.choice(BOUND_TYPES))
        arithmetic = str(self.rng.choice(["float", "verified"]))
        options = {"bound_type": bound_type, "arithmetic": arithmetic, **self._limits()}
        certificate = qsdp.certify(network, self.problem, self.relaxation, **options)
        self._certificate(f"certify {bound_type}", certificate, network)

    def _certify_batches(self) -> None:
        problem, n = self.problem, self.problem.n_samples
        relaxation = self.relaxation or qsdp.solve_relaxation(problem, **self._limits())
        cut = int(self.rng.integers(0, n + 1))
        parts = [slice(0, cut), slice(cut, n)] if 0 < cut < n else [slice(0, n)]
        w = np.ones(n) if problem.sample_weight is None else problem.sample_weight
        batches = [(problem.X[part], problem.y[part], w[part]) for part in parts]
        arithmetic = str(self.rng.choice(["float", "verified"]))
        passes, bound_type = int(self.rng.integers(1, 4)), str(self.rng.choice(BOUND_TYPES))
        options = {"passes": passes, "bound_type": bound_type, "arithmetic": arithmetic, **self._limits()}
        certificate = qsdp.certify(self.network, batches, relaxation, beta=problem.beta, **options)
        self._bound("batches", certificate.lower_bound, strict=arithmetic == "verified")
        self._objective("batches", certificate.objective, self.network)
        self._file("batches", certificate, batches)

    def _stop(self) -> None:
        """Make a call whose time ends at one of its looks at the clock, whichever."""
        calls = {
            **{solver: partial(self._relax_at, solver) for solver in OWN},
            "column generation": self._generate_at,
            "certify": self._certify_at,
        }
        name, end = str(self.stops.choice(list(calls))), str(self.stops.choice(["just over", "long over"]))
        with _wide(name == "column generation" and self.stops.random() < SHARES["wide"]):
            seed = int(self.stops.integers(2**31))
            with ended_at(LOOKS) as clock:
                calls[name](seed)
            looks = int(self.stops.integers(0, min(clock.looks, LOOKS) + 1))
            with ended_at(looks, end):
                claim = calls[name](seed)
        self.outcome.count("time ended", f"{name}, {end}")
        claim()

    def _relax_at(self, solver: str, seed: int) -> Callable[[], None]:
        found = qsdp.solve_relaxation(self.problem, solver=solver, tol=1e-7, max_iter=40, time_limit=LIMIT)

        def claim() -> None:
            self._bound(f"stopped, {solver}", found.lower_bound)
            self._below(f"stopped, {solver}", found.lower_bound, found.objective)

        return claim

    def _generate_at(self, seed: int) -> Callable[[], None]:
        result = qsdp.column_generation(self.problem, tol=1e-7, random_state=seed, time_limit=LIMIT)
        return partial(self._certificate, "stopped, column generation", result.certificate, result.network, filed=True)

    def _certify_at(self, seed: int) -> Callable[[], None]:
        bound_type = BOUND_TYPES[seed % 2]
        certificate = qsdp.certify(self.network, self.problem, bound_type=bound_type, time_limit=LIMIT)
        return partial(self._certificate, "stopped, certify", certificate, self.network, filed=True)

    def _certificate(
        self, name: str, certificate: qsdp.Certificate, network: Any = None, *, filed: bool = False
    ) -> None:
        verified = certificate.arithmetic == "verified"
        name = f"{name}, {certificate.bound_type}, {certificate.arithmetic}"
        self._bound(name, certificate.lower_bound, strict=verified)
        self._objective(name, certificate.objective, network or self.network)
        proof = certificate.proof
        if proof is not None and not verified:
            self._bound("verified_bound", verified_bound(self.problem, proof.nu, proof.trees), strict=True)
        if filed or self.rng.random() < SHARES["file"]:
            self._file(name, certificate)

    def _generate_polynomial(self) -> None:
        tol = float(10.0 ** self.rng.uniform(-8, -2))
        result = qsdp.column_generation(self.problem, neurons="polynomial", tol=tol, **self._limits())
        optimum = Enumeration.of(self.problem, polynomial=True)
        value, error, rounding = polynomial_value(self.problem, result.network)
        name = f"polynomial, {result.certificate.bound_type}"
        self._ended("polynomial, ", result, tol)
        self._same(name, result.objective, value, rounding)
        self._compare([(name, result.lower_bound, False)], min(optimum.upper, value + error))

    def _ended(self, of: str, result: Any, tol: float) -> None:
        self.outcome.count("column generation", f"{of}{result.status}, {result.certificate.bound_type}")
        if result.status == "optimal" and not result.relative_gap <= 1.001 * tol + 1e-12:
            self._wrong("optimal with a gap", tol=tol, gap=result.relative_gap, of=of)

    # -- what is true -------------------------------------------------------------------------------------------

    def _bound(self, name: str, value: float, *, strict: bool = False) -> None:
        self.bounds.append((name, value, strict))

    def _allowed(self, value: float) -> float:
        return TOLERANCE * max(value, 1e-6 * self.optimum.zero)

    def _compare(self, bounds: list[tuple[str, float, bool]], best: float) -> None:
        tightest = 0.0
        for name, value, strict in bounds:
            self.outcome.count("bounds", name)
            if not 0.0 <= value < np.inf or value > best + (0.0 if strict else self._allowed(best)):
                self._wrong("bound above an objective", bound=name, value=value, best=best, strict=strict)
            elif value > best:
                self.outcome.count("above by rounding", name)
            distance = (best - value) / best if best > 0.0 else 0.0
            self.outcome.distances.append((name, max(0.0, distance)))
            tightest = max(tightest, value)
        closed = best <= 0.0 or tightest >= (1.0 - 1e-6) * best
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

    def _below(self, name: str, bound: float, objective: float) -> None:
        if not bound <= objective + self._allowed(objective):
            self._wrong("bound above the relaxation's objective", of=name, bound=bound, objective=objective)

    def _wrong(self, what: str, **details: Any) -> None:
        self.outcome.wrong(what, **details, problem=repr(self.problem))

    def _file(self, name: str, certificate: qsdp.Certificate, batches: Any = None) -> None:
        """Save a certificate, have it checked, and read it again."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "one.qsdp"
            certificate.save(path)
            arguments = [str(path)]
            if batches is not None:
                data = Path(folder) / "data.npz"
                X, y, w = (np.concatenate(parts) for parts in zip(*batches, strict=True))
                np.savez(data, X=X, y=y, sample_weight=w)
                arguments += ["--data", str(data)]
            said = io.StringIO()
            with redirect_stdout(said):
                code = qsdp_check.main(arguments)
            self.outcome.count("files", f"{name}: {'accepted' if code == 0 else 'refused'}")
            if code != 0:
                reason = said.getvalue().strip().splitlines()[-1:]
                self._wrong("file refused", of=name, said=" ".join(reason)[:200])
            if qsdp.load_certificate(path) != certificate:
                self._wrong("file read otherwise", of=name)


def _wide(apply: bool) -> Any:
    """Treat problems as too wide for exact pricing in every round: searches, branch and bound, cutting planes."""
    return mock.patch.object(bilinear, "_CHEAP", 1 if apply else bilinear._CHEAP)


@contextmanager
def processor_clock() -> Iterator[None]:
    """Let time limits count seconds of processor."""
    with mock.patch.multiple(time, monotonic=time.process_time, perf_counter=time.process_time):
        yield


# -- a clock that ends every time limit at a given look at it ---------------------------------------------------


class Clock:
    """It stands still for so many looks; then the limit is over."""

    def __init__(self, looks: int, step: float) -> None:
        self.looks, self._last, self._step = 0, looks, step

    def __call__(self) -> float:
        """Return the seconds."""
        self.looks += 1
        after = self.looks - self._last
        return 0.0 if after <= 0 else LIMIT + after * self._step


@contextmanager
def ended_at(looks: int, end: str = "just over") -> Iterator[Clock]:
    """Have time limits of `LIMIT` seconds end after so many looks at the clock."""
    clock = Clock(looks, _STEPS[end])
    with mock.patch.object(time, "monotonic", clock):
        yield clock
