"""No bound of a problem on blocks is above the optimum: of any dual vector, relaxation or sums, however degenerate.

Small random problems on blocks of all kinds, real weights among them, with duplicated and zero columns, scales of 1e-8
to 1e8 and far beyond, integers, single precision, and weights of penalties and samples; the optimum of each over all
neurons (`_optimum`). A case is made from the seed and its index, nothing else. What counts as wrong:

* a lower bound above the optimum by more than `qsdp-check` allows for rounding, as in the campaign of soundness, or at
  all for a certificate of rows; bounds from sums are no exception;
* an objective that is not the one of the network; "optimal" with a gap above the tolerance, claimed or true; a file
  that `qsdp-check` refuses, or that is read as something else;
* a dual vector of a bound at which a neuron has a pricing value above its penalty;
* sums of integers that are not exact, or bounds from them that are no bounds for the rows;
* any error but the library's own.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
import qsdp_check
from campaigns import _problems
from campaigns._optimum import Extended, features_of_blocks, network_value, optimum_of_blocks, with_columns
from campaigns._problems import KINDS, LOSSES
from campaigns._record import Outcome, one_thread
from qsdp.data_map import SAMPLES
from qsdp.relaxation.bounds import DualBound, best_dual_bound

#: Half of the cases have the squared loss, which is the one that statistics have.
SQUARED = 0.5
#: Allowed for rounding: a share of the optimum or, at most, of the objective of no network.
TOLERANCE, OF_ZERO = 1e-9, 1e-15
#: Allowed for the rounding of sums of products: a share of the sum of the magnitudes of what is added.
OF_SUMS = 1e-13
#: Kinds of weights of penalties, types of rows, solvers, and limits of a relaxation.
OMEGA = {"none": 4, "near one": 4, "many orders": 2}
TYPES = {"double": 6, "single": 2, "integers": 2}
SOLVERS = {"auto": 4, "interior": 6, "splitting": 6, "clarabel": 1}
STOPS = {"none": 2, "iterations": 1, "time": 1}
#: Share of the problems that have a block of real weights, and at most so many columns in it.
REAL, COLUMNS = 0.4, 6
#: Bounds of certificates.
CERTIFICATES = {"sdp": 1, "exact": 1}
#: Shares of the problems that have a certificate, column generation, and of these results those with a file.
CERTIFIED, GENERATED, FILE = 0.3, 0.3, 0.3


def tested(seed: int, index: int) -> Outcome:
    one_thread()
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            problem, facts = draw(rng)
        except qsdp.QSDPError as error:
            outcome.refused("problem", error)
            return outcome
        outcome.counts += [(kind, str(name)) for kind, name in facts.items()]
        try:
            _Case(problem, rng, outcome).run()
        except Exception as error:
            outcome.crashed("error", error, problem=repr(problem))
    return outcome


def draw(rng: np.random.Generator) -> tuple[qsdp.TrainingProblem, dict[str, Any]]:
    """Return a random problem on blocks, and how it was drawn; a `QSDPError` says that what was drawn is refused."""
    loss = "squared" if rng.random() < SQUARED else str(rng.choice(LOSSES))
    n, R = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    outputs = int(rng.integers(2, 4)) if loss == "cross_entropy" or rng.random() < 0.3 else 0
    facts: dict[str, Any] = {"loss": loss, "outputs": outputs or 1, "blocks": R}
    for kind, shares in (KINDS | {"omega": OMEGA, "type": TYPES}).items():
        facts[kind] = _chosen(rng, shares)
    sizes = rng.integers(1, 5, R).tolist()
    kinds = rng.choice(["quadratic", "linear"], R, p=[0.7, 0.3]).tolist()
    facts["weights of columns"] = real = bool(rng.random() < REAL)
    position, columns = int(rng.integers(0, R + 1)), int(rng.integers(1, COLUMNS + 1))
    if real:
        sizes.insert(position, columns)
        kinds.insert(position, "weights")
    P = sum(N * (N + 1) // 2 if kind == "quadratic" else N for N, kind in zip(sizes, kinds, strict=True))
    rows = _problems.data(rng, n, P, facts["data"], facts["scales"])
    if facts["type"] == "single":
        rows = rows.astype(np.float32)
    if facts["type"] == "integers":
        rows = rng.integers(0, 256, (n, P)).astype(rng.choice(["u1", "i2", "u4", "f4"]))
    omega = None
    if facts["omega"] != "none":
        wide = facts["omega"] == "many orders"
        lengths = [N if kind == "weights" else None for N, kind in zip(sizes, kinds, strict=True)]
        omega = [10.0 ** rng.uniform(-8, 8, N) if wide else rng.uniform(0.5, 2.0, N) for N in lengths]
    blocks = qsdp.Blocks(rows, sizes, kinds, omega)
    roots = np.sign(rows.astype(float)) * np.sqrt(np.abs(rows.astype(float)))
    y = _problems.target(rng, roots, outputs, facts)
    weights = _problems.sample_weights(rng, n, facts["weights"])
    if facts["type"] == "integers" and loss == "squared" and rng.random() < 0.5:
        y, weights = rng.integers(-9, 10, y.shape), None
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss=loss, sample_weight=weights)
    return problem.with_beta(_problems.penalty(rng, problem, facts["beta"])), facts


def _chosen(rng: np.random.Generator, shares: dict[Any, int]) -> Any:
    return list(shares)[int(rng.choice(len(shares), p=np.array(list(shares.values())) / sum(shares.values())))]


class _Case:
    """Bounds of a problem on blocks, beside what is true of it."""

    def __init__(self, problem: qsdp.TrainingProblem, rng: np.random.Generator, outcome: Outcome) -> None:
        self.problem, self.rng, self.outcome = problem, rng, outcome
        self.best, self.zero, self.predictions = optimum_of_blocks(problem)
        self.networks = [self._network() for _ in range(2)]
        for network in self.networks:
            self.best = min(self.best, sum(network_value(problem, network)[:2]))

    def run(self) -> None:
        """Compare bounds of many dual vectors, of a relaxation and of statistics with the optimum."""
        predictions = self.predictions.reshape(self.problem.targets.shape).astype(float)
        sharp = ("gradient at the optimum", -self.problem.data_fit.gradient(predictions))
        for name, nu in (sharp, *self._duals(self.problem)):
            weights = [self._weights() for _ in range(int(self.rng.integers(0, 3)))]
            self._bound(name, best_dual_bound(self.problem, [nu], weights), self.problem)
        relaxation = self._relaxation(self.problem)
        if relaxation is not None:
            self._bound("relaxation's dual vector", best_dual_bound(self.problem, [relaxation.bound.nu]), self.problem)
        self._prove(self.problem, relaxation)
        if self.problem.loss.quadratic:
            self._statistics()

    def _network(self) -> qsdp.BilinearNetwork:
        layout, m = self.problem.blocks, int(self.rng.integers(1, 5))
        U, V = self.rng.choice([-1, 1], (2, m, layout.side))
        alpha = self.rng.standard_normal((m, *self.problem.output_shape)) * 10.0 ** self.rng.uniform(-6, 1)
        block, weights = self.rng.integers(0, layout.n_blocks, m), None
        if layout.weights:
            shape = (layout.n_weights, *self.problem.output_shape)
            weights = self.rng.standard_normal(shape) * 10.0 ** self.rng.uniform(-6, 1)
        return qsdp.BilinearNetwork.on_blocks(layout, U, V, alpha, block, weights)

    def _duals(self, problem: qsdp.TrainingProblem) -> list[tuple[str, Any]]:
        """Return vectors of all sizes, gradients at networks, and such gradients with errors."""
        rng, shape = self.rng, problem.targets.shape
        duals: list[tuple[str, Any]] = [("random", rng.standard_normal(shape) * 10.0 ** rng.uniform(-8, 8))]
        for network in self.networks:
            duals.append(("gradient", gradient := -problem.data_fit.gradient(problem.outputs(network))))
            error = rng.standard_normal(shape) * 10.0 ** rng.uniform(-12, 0) * np.abs(gradient).max()
            duals.append(("gradient with errors", gradient + error))
        return duals

    def _weights(self) -> Any:
        """Return positive weights of any sizes, a few of them zero or negative, for every output and block."""
        problem, layout = self.problem, self.problem.blocks
        shape = (problem.n_outputs * layout.n_blocks, layout.side)
        z = 10.0 ** self.rng.uniform(-8, 8, shape) if self.rng.random() < 0.5 else self.rng.uniform(0.5, 2.0, shape)
        z[self.rng.random(shape) < 0.1] = self.rng.choice([0.0, -1.0])
        return z

    def _relaxation(self, problem: qsdp.TrainingProblem) -> qsdp.Relaxation | None:
        stop = _chosen(self.rng, STOPS)
        options: dict[str, Any] = {"time_limit": float(10.0 ** self.rng.uniform(-4, -1.5)) if stop == "time" else 2.0}
        if stop == "iterations":
            options["max_iter"] = int(self.rng.integers(1, 12))
        try:
            solver, tol = _chosen(self.rng, SOLVERS), float(10.0 ** self.rng.uniform(-8, -2))
            relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=tol, **options)
        except qsdp.QSDPError as error:
            self.outcome.refused("relaxation", error)
            return None
        self.outcome.count("relaxation", f"{solver}, {stop}, {relaxation.status}")
        if not relaxation.lower_bound <= relaxation.objective + self._allowed(relaxation.objective):
            self._wrong("bound above the relaxation's objective", bound=relaxation.lower_bound)
        self._compare("relaxation", relaxation.lower_bound)
        return relaxation

    def _prove(self, problem: qsdp.TrainingProblem, relaxation: qsdp.Relaxation | None) -> None:
        for share, step in ((CERTIFIED, self._certify), (GENERATED, self._generate)):
            try:
                if self.rng.random() < share:
                    step(problem, relaxation)
            except qsdp.QSDPError as error:
                self.outcome.refused(step.__name__, error)

    def _certify(self, problem: qsdp.TrainingProblem, relaxation: qsdp.Relaxation | None) -> None:
        options: dict[str, Any] = {"bound_type": _chosen(self.rng, CERTIFICATES), "time_limit": 2.0}
        certificate = qsdp.certify(self.networks[0], problem, relaxation, **options)
        self._claim("certify", certificate, self.networks[0], problem)

    def _generate(self, problem: qsdp.TrainingProblem, relaxation: qsdp.Relaxation | None) -> None:
        tol, seed = float(10.0 ** self.rng.uniform(-8, -2)), int(self.rng.integers(2**31))
        options: dict[str, Any] = {"relaxation": relaxation if self.rng.random() < 0.3 else None, "random_state": seed}
        options["time_limit"] = float(10.0 ** self.rng.uniform(-4, -1.5)) if self.rng.random() < 0.15 else 0.5
        result = qsdp.column_generation(problem, tol=tol, **options)
        self.outcome.count("column generation", f"{result.status}, {result.certificate.bound_type}")
        objective, rounding = self._claim("column generation", result.certificate, result.network, problem)
        if result.status == "optimal":
            if not result.relative_gap <= 1.001 * tol + 1e-12:
                self._wrong("optimal with a gap", tol=tol, gap=result.relative_gap)
            if not objective - self.best <= (tol + TOLERANCE) * objective + self._allowed(objective) + rounding:
                self._wrong("not optimal", objective=objective, best=self.best, tol=tol)

    def _claim(
        self, name: str, certificate: qsdp.Certificate, network: qsdp.BilinearNetwork, problem: qsdp.TrainingProblem
    ) -> tuple[float, float]:
        """Compare a certificate with the network and the optimum; return the objective and the rounding of sums."""
        value, error, rounding = network_value(self.problem, network)
        of_rows = SAMPLES in problem.weight_map.offers
        lost = 0.0 if of_rows else self._rounding_of_sums(network)
        self.best = min(self.best, value + error)
        self._compare(f"{name}, {certificate.bound_type}", certificate.lower_bound, of_rows)
        if not abs(certificate.objective - value) <= rounding + self._allowed(value) + lost:
            self._wrong("wrong objective", of=name, claimed=certificate.objective, value=value)
        if self.rng.random() < FILE:
            self._file(name, certificate, rounding, problem)
        return value + error, lost

    def _rounding_of_sums(self, network: qsdp.BilinearNetwork) -> float:
        """Return what sums do not tell of the objective of a network whose predictions, or the samples, cancel."""
        F, _ = with_columns(self.problem, *features_of_blocks(self.problem, network.U, network.V, network.block))
        alpha = np.concatenate([network.output_weights, network.column_weights])
        sizes = np.abs(self.problem.targets) + np.abs(F) @ np.abs(alpha)
        weights = 1.0 if self.problem.sample_weight is None else self.problem.sample_weight[:, None]
        return OF_SUMS * float((weights * sizes**2).sum())

    def _file(self, name: str, certificate: qsdp.Certificate, rounding: float, problem: qsdp.TrainingProblem) -> None:
        """Save a certificate, have it checked, and read it again; `rounding` is that of the objective."""
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
            path = Path(folder) / "one.qsdp"
            certificate.save(path)
            code, read = qsdp_check.main([str(path)]), qsdp.load_certificate(path)
        self.outcome.count("files", f"{name}: {'accepted' if code == 0 else 'refused'}")
        # Of predictions that cancel to the last digit, nobody can confirm an objective.
        if code and not (rounding > self._allowed(certificate.objective) and "the objective is" in said.getvalue()):
            self._wrong("file refused", of=name, said=said.getvalue().strip()[-200:])
        if read != certificate:
            self._wrong("file read otherwise", of=name)
        if problem.loss.quadratic and problem.beta:
            self._sums(name, certificate)

    def _sums(self, name: str, certificate: qsdp.Certificate) -> None:
        """Compare the bound of a file of sums with the optimum, and have it checked."""
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
            path = Path(folder) / "one.qsdp"
            certificate.save(path, include_data="sums")
            code, read = qsdp_check.main([str(path)]), qsdp.load_certificate(path)
        self.outcome.count("files", f"{name}, sums: {'accepted' if code == 0 else 'refused'}")
        self._compare(f"{name}, sums", read.lower_bound)
        if code:
            self._wrong("file of sums refused", of=name, said=said.getvalue().strip()[-200:])

    def _statistics(self) -> None:
        """Compare sums of two batches, in either order, and the bounds of their problem with those of the rows."""
        problem, layout = self.problem, self.problem.blocks
        n, w = problem.n_samples, problem.sample_weight
        cut, parts = int(self.rng.integers(0, n + 1)), []
        for some in (slice(cut), slice(cut, n)):
            if len(problem.y[some]):
                one = qsdp.SufficientStatistics()
                try:
                    one.partial_fit(problem.X[some], problem.y[some], None if w is None else w[some])
                except qsdp.QSDPError as error:
                    self.outcome.refused("statistics", error)
                    return
                parts.append(one)
        total = qsdp.SufficientStatistics()
        for part in parts if self.rng.random() < 0.5 else parts[::-1]:
            total.merge(part)
        table = np.hstack([problem.X.rows.astype(Extended), problem.targets.astype(Extended)])
        sums = table.T @ (table if w is None else w[:, None] * table)
        found = np.tril(total._sums.triangle())
        roots = np.sqrt(np.maximum(np.diag(sums), 1e-300))
        exact = w is None and bool(np.all(table == np.rint(table))) and np.abs(table).max() <= 2**24
        off = np.abs(found - np.tril(sums)) / np.outer(roots, roots)
        self.outcome.count("sums", "exact" if exact else "rounded")
        if off.max() > (0.0 if exact else OF_SUMS):
            self._wrong("sums that are wrong", by=float(off.max()), exact=exact)
        reduced = qsdp.TrainingProblem.from_statistics(total, beta=problem.beta)
        if reduced.blocks != layout or reduced.n_samples != n:
            self._wrong("other blocks of statistics")
        for name, nu in self._duals(reduced):
            self._compare(f"statistics, {name}", best_dual_bound(reduced, [nu], [self._weights()]).value)
        self._prove(reduced, self._relaxation(reduced))

    # -- what is claimed, and what is true ----------------------------------------------------------------------

    def _bound(self, name: str, bound: DualBound, problem: qsdp.TrainingProblem) -> None:
        """Compare a bound with the optimum, and its dual vector with the penalties of neurons."""
        self._compare(name, bound.value)
        if not problem.beta:
            return
        F, prices = self._features
        reached = np.abs(F.T @ bound.nu.reshape(problem.targets.shape)).max(axis=1) / prices
        if not reached.max() <= 1.0 + TOLERANCE:
            self._wrong("infeasible dual vector", of=name, excess=float(reached.max()) - 1.0)

    @property
    def _features(self) -> tuple[np.ndarray, np.ndarray]:
        layout = self.problem.blocks
        signs = 2 * ((np.arange(2**layout.side)[:, None] >> np.arange(layout.side)) & 1) - 1
        first, second = np.triu_indices(len(signs))
        block = np.repeat(np.arange(layout.n_blocks), len(first))
        U, V = (np.tile(signs[part], (layout.n_blocks, 1)) for part in (first, second))
        inside = layout.used[block]
        return with_columns(self.problem, *features_of_blocks(self.problem, U * inside, V * inside, block))

    def _compare(self, name: str, value: float, strict: bool = False) -> None:
        """Compare a bound with the optimum."""
        self.outcome.count("bounds", name)
        if not 0.0 <= value < np.inf or value > self.best + (0.0 if strict else self._allowed(self.best)):
            self._wrong("bound above an objective", bound=name, value=value, best=self.best)
        elif value > self.best:
            self.outcome.count("above by rounding", name)
        distance = max(0.0, (self.best - value) / self.best if self.best > 0.0 else 0.0)
        self.outcome.distances.append((name, distance))

    def _allowed(self, value: float) -> float:
        return max(TOLERANCE * value, OF_ZERO * self.zero)

    def _wrong(self, what: str, **details: Any) -> None:
        self.outcome.wrong(what, **details, problem=repr(self.problem))
