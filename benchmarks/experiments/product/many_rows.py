"""More rows than memory: statistics of 5e7 rows, of files and by Dask; other losses fitted on 1e5 and certified on 1e7.

    generated            statistics of 5e7 rows x 30 columns that are made as they are read, and the network from them
    parquet              the same of 1e7 rows in a folder of Parquet files, written first if it is not there
    parquet-dask-1, -2   the same files by one and by two workers of Dask, processes of one thread
    costs                seconds and bytes of statistics against rows and columns, for the model of the page
    logistic, hinge      fitted on 1e5 rows, certified on 1e7, by one and by three passes and in verified arithmetic
    logistic-all, hinge-all   fitted on 1e5 and certified on 1e6 rows, beside fitted on all 1e6
    generated-dask-2     5e7 rows made by two workers

Rows are those of a planted quadratic function with noise; making or reading them is timed apart, but by Dask. Seconds
are the processor's, on one thread, and those by Dask the clock's. The peak of matrix products is that of two square
matrices, right before. A row counts as q^2 operations, q being the side of the triangle: the products that are
computed, no more. Of losses, `gap` is that of the network on all rows, `relaxed gap` what is left without its distance
from the relaxation of the first rows. Every case has a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import pickle
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import TARGET, Records, clock_step, experiment_in, measured
from benchmarks.experiments._process import in_own_process, peak
from benchmarks.experiments.product._many_rows_model import quoted, side
from qsdp.bench import Claim, exact
from qsdp.tabular import file_batches

Batch = tuple[np.ndarray, np.ndarray]
Measured = dict[str, Any]

KEYS = ("columns", "rows", "passes")
COLUMNS, LOSS_COLUMNS, NEURONS = 30, 20, 300
BATCH = 10**5
#: The part of the few rows on which the second layer is chosen: with kinks that takes minutes on all.
REFITTED = 10
#: Share of beta_max; of regularisation by which networks of both losses have some neurons' worth of structure left.
SHARE = 0.1
#: By how many times quick cases have fewer rows, batches of them included, and which those are.
QUICK, FEW = 1000, ("generated", "costs", "logistic")
#: Where files of rows are written.
FOLDER = Path(tempfile.gettempdir()) / "qsdp-many-rows"
#: MiB of statistics.
MEMORY = 2048.0

#: Rows and columns of the case `costs`; operations of each number of columns, about five seconds.
COST_COLUMNS, COST_OPERATIONS, COST_ROWS, SOLVED_COLUMNS = (5, 10, 20, 30, 50, 70, 100), 10**11, (3, 4, 5, 6), 50

SMALL = (TARGET, "Statistics of any number of rows x 30 columns take less than 2 GiB of memory a process.")
BOUNDED = (TARGET, "No bound of many rows is above the objective of its network.")


def cases(quick: bool) -> list[dict[str, Any]]:
    return [{"job": job, "part": QUICK if quick else 1} for job in (FEW if quick else JOBS)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    return JOBS[case["job"]][0](part=case["part"])


# -- rows -------------------------------------------------------------------------------------------------------


class Planted:
    """Batches of a planted quadratic function; the same ones whenever they are read."""

    def __init__(self, n_rows: int, d: int, loss: str, size: int = BATCH) -> None:
        rng = np.random.default_rng(0)
        U, V = rng.choice([-1.0, 1.0], (2, 6, d))
        S = (U.T * rng.standard_normal(6)) @ V
        self.S, self.n_rows, self.loss, self.size = 0.5 * (S + S.T) / np.linalg.norm(S), n_rows, loss, size

    def batch(self, number: int, n: int | None = None) -> Batch:
        """Return rows that the number determines."""
        rng = np.random.Generator(np.random.SFC64([1, number]))
        X = rng.standard_normal((n or self.size, len(self.S)), dtype=np.float32).astype(np.float64)
        f = np.einsum("ij,ij->i", X @ self.S, X)
        noise = rng.standard_normal(len(X))
        y = f + noise if self.loss == "squared" else np.where(f + 0.5 * noise > 0.0, 1.0, -1.0)
        return X, y

    def __len__(self) -> int:
        return self.n_rows // self.size

    def __iter__(self) -> Iterator[Batch]:
        """Yield all rows."""
        return map(self.batch, range(len(self)))


class Timed:
    """A stream whose own processor seconds are counted."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self.stream, self.seconds = stream, 0.0

    def __iter__(self) -> Iterator[Any]:
        """Yield what the stream has."""
        batches = iter(self.stream)
        while True:
            start = time.process_time()
            batch = next(batches, None)
            self.seconds += time.process_time() - start
            if batch is None:
                return
            yield batch


def timed(function: Callable[[], Any], *streams: Timed) -> tuple[Any, float]:
    """Return a result and its processor seconds, less those of streams; never zero."""
    before, start = sum(one.seconds for one in streams), time.process_time()
    result = function()
    seconds = time.process_time() - start - sum(one.seconds for one in streams) + before
    return result, max(seconds, clock_step(time.process_time))


def parquet_files(folder: Path, planted: Planted) -> Path:
    """Return a folder of Parquet files with the rows, one a batch, float32; written if it is not there."""
    import pyarrow as pa
    from pyarrow import parquet

    path = folder / f"{planted.n_rows}-rows"
    if not path.exists():
        part = path.with_name(path.name + ".part")
        part.mkdir(parents=True, exist_ok=True)
        for number, (X, y) in enumerate(planted):
            columns = {f"x{k:02}": x for k, x in enumerate(X.T.astype(np.float32))} | {"y": y}
            parquet.write_table(pa.table(columns), part / f"{number:05}.parquet")
        part.rename(path)
    return path


# -- statistics -------------------------------------------------------------------------------------------------


def product_peak() -> float:
    """Return the operations a second of products of matrices of side 2000, the best of three."""
    A = np.random.default_rng(0).standard_normal((2000, 2000))
    return max(2 * 2000.0**3 / timed(lambda: A @ A)[1] for _ in range(3))


def streamed(source: str, *, part: int) -> Measured:
    """Return what one process takes for statistics of many rows, made or read, and for the network from them."""
    planted = Planted(JOBS[source][1] // part, COLUMNS, "squared", BATCH // part)
    stream = Timed(planted if source == "generated" else file_batches(parquet_files(FOLDER, planted), "y"))
    operations, began = product_peak(), time.monotonic()
    found, seconds = timed(lambda: qsdp.SufficientStatistics.from_batches(stream, keep=2000), stream)
    row = described(found, seconds, time.monotonic() - began, operations, peak_mib())
    return {**row, "reading_seconds": stream.seconds, **trained(found)}


def peak_mib() -> float:
    return peak() / 2**20


def by_dask(source: str, workers: int, *, part: int) -> Measured:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from qsdp.distributed import statistics_of_dask

    planted = Planted(JOBS[f"{source}-dask-{workers}"][1] // part, COLUMNS, "squared", BATCH // part)
    if source == "generated":
        pairs = [dask.delayed(planted.batch, nout=2)(number) for number in range(len(planted))]
        shapes = (planted.size, COLUMNS), (planted.size,)
        X, y = (
            da.concatenate([da.from_delayed(pair[k], shape, dtype=float) for pair in pairs])
            for k, shape in enumerate(shapes)
        )
    else:
        frame = dd.read_parquet(parquet_files(FOLDER, planted))
        X, y = frame[[name for name in frame.columns if name != "y"]], frame["y"]
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        peaks, began = client.run(product_peak), time.monotonic()
        found = statistics_of_dask(X, y, keep=2000)
        clock = time.monotonic() - began
        resident = max(client.run(peak_mib).values())
    row = described(found, clock, clock, sum(peaks.values()), resident)
    return {**row, "workers": workers, "resident_mib_here": peak_mib(), **trained(found)}


def described(found: Any, seconds: float, clock: float, operations: float, resident: float) -> Measured:
    rows, d = found.n_samples_seen_, found.n_features_in_
    return {
        "rows": rows,
        "columns": d,
        "seconds": seconds,
        "clock_seconds": clock,
        "rows_a_second": rows / seconds,
        "share_of_peak": rows * side(d) ** 2 / seconds / operations,
        "peak_gigaflops": operations / 1e9,
        "resident_mib": resident,
    }


def trained(found: Any) -> Measured:
    """Return what the network from statistics takes, how good it is, and one that is polished on the rows kept."""
    problem = qsdp.TrainingProblem.from_statistics(found, beta=1.0)
    problem = problem.with_beta(SHARE * qsdp.beta_max(problem))
    relaxation, solve = timed(lambda: qsdp.solve_relaxation(problem))
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 500, random_state=0)
    network, refit = timed(lambda: qsdp.refit(network, problem))
    small = qsdp.sample_network(qsdp.shape_covariance(relaxation), 50, random_state=0)
    polished, polish = timed(lambda: qsdp.polish(small, found.kept_problem(beta=problem.beta), random_state=0))
    certificate = qsdp.certify(network, problem, relaxation)
    return {
        "solve_seconds": solve,
        "refit_seconds": refit,
        "polish_seconds": polish,
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "relative_gap": certificate.relative_gap,
        "objective_of_50_sampled": problem.objective(small),
        "objective_of_50_polished_on_rows_kept": problem.objective(polished),
    }


def costs(*, part: int) -> Measured:
    """Return the seconds and bytes of statistics against columns and against rows."""
    operations, columns = product_peak(), []
    for d in COST_COLUMNS:
        rows = int(np.clip(COST_OPERATIONS // side(d) ** 2, 2**12, 2**20)) // part
        found, seconds = sums_of(max(rows, 50), d)
        other = sums_of(50, d)[0]
        problem, reduced = timed(lambda: qsdp.TrainingProblem.from_statistics(found, beta=1.0))  # noqa: B023
        row = {"columns": d, "rows": found.n_samples_seen_, "seconds": seconds, "reduce_seconds": reduced}
        row["merge_seconds"] = min(timed(lambda: found.merge(other))[1] for _ in range(3))  # noqa: B023
        row |= {"bytes_sent": len(pickle.dumps(found)), "bytes": qsdp.SufficientStatistics.memory(d)}
        if d <= SOLVED_COLUMNS and part == 1:
            problem = problem.with_beta(SHARE * qsdp.beta_max(problem))
            row["solve_seconds"] = timed(lambda: qsdp.solve_relaxation(problem, tol=1e-3))[1]  # noqa: B023
        columns.append(row)
    lengths = [
        {"columns": d, "rows": 10**digits, "seconds": sums_of(10**digits, d)[1]}
        for d in (10, 30)
        for digits in COST_ROWS[: len(COST_ROWS) if part == 1 else 2]
    ]
    row = {"rows": JOBS["costs"][1] // part, "peak_gigaflops": operations / 1e9, "resident_mib": peak_mib()}
    return row | {"against_columns": columns, "against_rows": lengths}


def sums_of(rows: int, d: int) -> tuple[qsdp.SufficientStatistics, float]:
    """Return the statistics of so many rows, in batches, and their seconds."""
    planted = Timed(Planted(rows, d, "squared", min(rows, 2**14)))
    return timed(lambda: qsdp.SufficientStatistics.from_batches(planted), planted)


# -- other losses -----------------------------------------------------------------------------------------------


def fitted(name: str, loss: str, part: int) -> tuple[Planted, qsdp.Relaxation, qsdp.BilinearNetwork, Measured]:
    """Return rows of a loss, the relaxation of few of them, a network from it, and what both took."""
    planted = Planted(JOBS[name][1] // part, LOSS_COLUMNS, loss, BATCH // part)
    few = qsdp.TrainingProblem(*planted.batch(10**9, BATCH // part), beta=1.0, loss=loss)
    relaxation, network, took = solved(few.with_beta(SHARE * qsdp.beta_max(few)), few.n_samples // REFITTED)
    sizes = {"rows": planted.n_rows, "fitted_rows": few.n_samples, "columns": LOSS_COLUMNS}
    return planted, relaxation, network, {**sizes, **took}


def solved(problem: qsdp.TrainingProblem, refitted: int) -> tuple[qsdp.Relaxation, qsdp.BilinearNetwork, Measured]:
    """Return the relaxation of a problem and a network from it, refitted on some rows, with what both took."""
    relaxation, solve = timed(lambda: qsdp.solve_relaxation(problem, tol=1e-3))
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), NEURONS, random_state=0)
    share = refitted / problem.n_samples
    least = problem.take(np.arange(refitted)).with_beta(problem.beta * share)
    network, refit = timed(lambda: qsdp.refit(network, least))
    return relaxation, network, {"solve_seconds": solve, "refit_seconds": refit, "solved_gap": relaxation.relative_gap}


def certified(
    network: Any, planted: Planted, relaxation: qsdp.Relaxation, excess: float, passes: int, arithmetic: str
) -> Measured:
    """Return the certificate of a network on all rows and what it took."""
    stream = Timed(planted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        certificate, seconds = timed(
            lambda: qsdp.certify(network, stream, relaxation, passes=passes, arithmetic=arithmetic), stream
        )
    return {
        "passes": passes,
        "arithmetic": arithmetic,
        "seconds": seconds,
        "rows_a_second": passes * planted.n_rows / seconds,
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "relative_gap": certificate.relative_gap,
        "relaxed_gap": 1.0 - certificate.lower_bound * excess / certificate.objective,
    }


def certificates(loss: str, *, part: int) -> Measured:
    """Return the bounds on all rows that a fit of few has, by passes over all."""
    planted, relaxation, network, row = fitted(loss, loss, part)
    own = relaxation.problem.objective(network)
    found = [
        certified(network, planted, relaxation, own / relaxation.objective, passes, arithmetic)
        for passes, arithmetic in ((1, "float"), (3, "float"), (1, "verified"))
    ]
    row |= {"beta_share": SHARE, "gap_on_fitted_rows": 1.0 - relaxation.lower_bound / own}
    return row | {"certificates": found, "resident_mib": peak_mib()}


def beside_all(loss: str, *, part: int) -> Measured:
    """Return objective and bound of a fit of few rows, by passes, beside those of a fit of all rows."""
    planted, relaxation, network, row = fitted(f"{loss}-all", loss, part)
    few = relaxation.problem
    excess = few.objective(network) / relaxation.objective
    row |= {"certificates": [certified(network, planted, relaxation, excess, 3, "float")], "resident_mib": peak_mib()}
    X, y = (np.concatenate(parts) for parts in zip(*planted, strict=True))
    problem = qsdp.TrainingProblem(X, y, beta=few.beta * len(y) / few.n_samples, loss=loss)
    whole, better, took = solved(problem, few.n_samples // REFITTED)
    row |= {f"{key}_of_all": value for key, value in took.items()}
    row |= {"objective": problem.objective(better), "lower_bound": whole.lower_bound}
    return row | {"resident_mib_of_all": peak_mib()}


#: What measures a case, and the rows that it has.
JOBS: dict[str, tuple[Callable[..., Measured], int]] = {
    "generated": (partial(streamed, "generated"), 5 * 10**7),
    "parquet": (partial(streamed, "parquet"), 10**7),
    "parquet-dask-1": (partial(by_dask, "parquet", 1), 10**7),
    "parquet-dask-2": (partial(by_dask, "parquet", 2), 10**7),
    "costs": (costs, 10**6),
    "logistic": (partial(certificates, "logistic"), 10**7),
    "hinge": (partial(certificates, "hinge"), 10**7),
    "logistic-all": (partial(beside_all, "logistic"), 10**6),
    "hinge-all": (partial(beside_all, "hinge"), 10**6),
    "generated-dask-2": (partial(by_dask, "generated", 2), 5 * 10**7),
}


# -- report -----------------------------------------------------------------------------------------------------


def claims(records: Records) -> list[Claim]:
    streams = {r.case["job"]: r for r in records if "share_of_peak" in r.measured}
    small = {job: r.measured["resident_mib"] <= MEMORY for job, r in streams.items()}
    rows = [(r.case["job"], one) for r in records for one in (r.measured, *(measured(r, "certificates") or ()))]
    holds = {
        f"{job}, {number}": one["lower_bound"] <= one["objective"]
        for number, (job, one) in enumerate(rows)
        if "lower_bound" in one
    }
    return [exact(*SMALL, small), exact(*BOUNDED, holds)]


def quotes(records: Records) -> dict[str, str]:
    """Return the model of the page on the costs of many rows, and statistics of most rows for README."""
    report = {record.case["job"]: record.measured for record in records}
    return quoted(report) if {"costs", "parquet", "generated"} <= set(report) else {}


EXPERIMENT = experiment_in(__name__, "More rows than memory", "Targets of the package: statistics in one pass")
