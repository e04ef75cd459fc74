"""More rows than memory: statistics of 5e7 rows, of files and by Dask; other losses fitted on 1e5 and certified on 1e7.

    generated            statistics of 5e7 rows x 30 columns, generated as they are read, and the network from them
    parquet              the same for 1e7 rows in a folder of Parquet files, which is written first if it is missing
    parquet-dask-1, -2   the same files by one and by two Dask workers, which are processes with one thread
    costs                seconds and bytes of statistics against the number of columns
    logistic, hinge      fitted on 1e5 rows, certified on 1e7 with one pass and with three

Rows come from a planted quadratic function with noise. Generating or reading them is timed separately, except by Dask.
Seconds are CPU time of one thread, and wall time by Dask. For the losses, `gap` is that of the network on all rows, and
`relaxed gap` is what remains of it without the distance of the network from the relaxation of the first rows. Every
case has its own process, and so its own peak memory.

Columns are standard normal and no column is appended; nothing is held out. Beta is a tenth of the smallest value that
makes the zero network optimal, scaled with the number of rows.
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
from benchmarks.machinery.common import TARGET, Records, experiment_in, table_row, timed
from benchmarks.machinery.process import in_own_process, peak
from benchmarks.machinery.verdicts import Claim, exact
from qsdp.tables import table_chunks

Batch = tuple[np.ndarray, np.ndarray]
Measured = dict[str, Any]

KEYS = ("columns", "rows", "passes")
COLUMNS, LOSS_COLUMNS, NEURONS = 30, 20, 300
BATCH = 10**5
#: The second layer is refitted to a tenth of the few rows: for losses with kinks, all of them would take minutes.
REFITTED = 10
#: Share of beta_max; with this regularisation, networks of both losses still need several neurons.
SHARE = 0.1
#: Divisor of the rows, and of the batch size, in quick runs, and the cases of a quick run.
QUICK, FEW = 1000, ("generated", "costs", "logistic")
#: Folder of the Parquet files.
FOLDER = Path(tempfile.gettempdir()) / "qsdp-many-rows"
#: Memory limit in MiB; columns of the case `costs`, and operations for each of them, about five seconds.
MEMORY, COST_COLUMNS, COST_OPERATIONS = 2048.0, (5, 10, 20, 30, 50, 70, 100), 10**11

SMALL = (TARGET, "Statistics of any number of rows x 30 columns take less than 2 GiB of memory a process.")
BOUNDED = (TARGET, "No bound of many rows is above the objective of its network.")


def cases(quick: bool) -> list[dict[str, Any]]:
    return [{"job": job, "part": QUICK if quick else 1} for job in (FEW if quick else JOBS)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    work, rows = JOBS[case["job"]]
    return {**work(rows // case["part"], case["part"]), "resident_mib": peak() / 2**20}


# -- rows -------------------------------------------------------------------------------------------------------


class Planted:
    """Batches of a planted quadratic function, the same whenever they are read."""

    def __init__(self, n_rows: int, d: int, loss: str, size: int = BATCH) -> None:
        rng = np.random.default_rng(0)
        U, V = rng.choice([-1.0, 1.0], (2, 6, d))
        S = (U.T * rng.standard_normal(6)) @ V
        self.S, self.n_rows, self.loss, self.size = 0.5 * (S + S.T) / np.linalg.norm(S), n_rows, loss, size

    def batch(self, number: int) -> Batch:
        """Return the batch with this number, which determines its rows."""
        rng = np.random.Generator(np.random.SFC64([1, number]))
        X = rng.standard_normal((self.size, len(self.S)), dtype=np.float32).astype(np.float64)
        f = np.einsum("ij,ij->i", X @ self.S, X)
        noise = rng.standard_normal(len(X))
        y = f + noise if self.loss == "squared" else np.where(f + 0.5 * noise > 0.0, 1.0, -1.0)
        return X, y

    def __iter__(self) -> Iterator[Batch]:
        """Yield all batches."""
        return map(self.batch, range(self.n_rows // self.size))


class Timed:
    """A stream that counts the CPU time of its own batches."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self.stream, self.seconds = stream, 0.0

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the stream."""
        batches = iter(self.stream)
        while True:
            batch, seconds = timed(partial(next, batches, None))
            self.seconds += seconds
            if batch is None:
                return
            yield batch

    def beside(self, function: Callable[[], Any]) -> tuple[Any, float]:
        """Return the result of a function that reads the stream, and its CPU time without that of the stream."""
        before = self.seconds
        found, seconds = timed(function)
        return found, max(seconds - self.seconds + before, 1e-9)


def parquet_files(planted: Planted) -> Path:
    """Return a folder of Parquet files with the rows in float32, one file per batch; write it if missing."""
    import pyarrow as pa
    from pyarrow import parquet

    path = FOLDER / f"{planted.n_rows}-rows"
    if not path.exists():
        part = path.with_name(path.name + ".part")
        part.mkdir(parents=True, exist_ok=True)
        for number, (X, y) in enumerate(planted):
            columns = {f"x{k:02}": x for k, x in enumerate(X.T.astype(np.float32))} | {"y": y}
            parquet.write_table(pa.table(columns), part / f"{number:05}.parquet")
        part.rename(path)
    return path


# -- statistics -------------------------------------------------------------------------------------------------


def streamed(source: str, rows: int, part: int) -> Measured:
    """Return the cost of statistics of many generated or read rows in one process, and that of their network."""
    planted = Planted(rows, COLUMNS, "squared", BATCH // part)
    stream = Timed(planted if source == "generated" else read(parquet_files(planted)))
    found, seconds = stream.beside(lambda: qsdp.SufficientStatistics.from_batches(stream))
    return {**described(found, seconds), "reading_seconds": stream.seconds, **trained(found)}


def read(path: Path) -> Iterator[Batch]:
    for part in table_chunks(path):
        yield part.drop(columns="y").to_numpy(), part["y"].to_numpy()


def by_dask(workers: int, rows: int, part: int) -> Measured:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    frame = dd.read_parquet(parquet_files(Planted(rows, COLUMNS, "squared", BATCH // part)))
    X, y = frame[[name for name in frame.columns if name != "y"]], frame["y"]
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        found, clock = timed(lambda: qsdp.SufficientStatistics.from_batches((X, y)), time.monotonic)
        resident = max(client.run(peak).values()) / 2**20
    return {**described(found, clock), "workers": workers, "resident_mib_of_workers": resident, **trained(found)}


def described(found: Any, seconds: float) -> Measured:
    rows = found.n_samples_seen_
    return {"rows": rows, "columns": found.n_features_in_, "seconds": seconds, "rows_a_second": rows / seconds}


def trained(found: Any) -> Measured:
    """Return the cost of training the network from statistics, and its quality."""
    problem = qsdp.TrainingProblem.from_statistics(found, beta=1.0)
    problem = problem.with_beta(SHARE * qsdp.beta_max(problem))
    relaxation, solve = timed(lambda: qsdp.solve_relaxation(problem))
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 500, random_state=0)
    network, refit = timed(lambda: qsdp.refit(network, problem))
    return {"solve_seconds": solve, "refit_seconds": refit, **quality(qsdp.certify(network, problem, relaxation))}


def quality(certificate: qsdp.Certificate) -> Measured:
    return {name: getattr(certificate, name) for name in ("objective", "lower_bound", "relative_gap")}


def costs(rows: int, part: int) -> Measured:
    """Return the seconds and bytes of statistics for each number of columns."""
    columns = []
    for d in COST_COLUMNS:
        n = max(int(np.clip(COST_OPERATIONS // side(d) ** 2, 2**12, 2**20)) // part, 50)
        stream = Timed(Planted(n, d, "squared", min(n, 2**14)))
        found, seconds = stream.beside(partial(qsdp.SufficientStatistics.from_batches, stream))
        other = qsdp.SufficientStatistics.from_batches(Planted(50, d, "squared", 50))
        _, reduced = timed(partial(qsdp.TrainingProblem.from_statistics, found, beta=1.0))
        row = {"columns": d, "rows": found.n_samples_seen_, "seconds": seconds, "reduce_seconds": reduced}
        row["merge_seconds"] = min(timed(partial(found.merge, other))[1] for _ in range(3))
        columns.append({**row, "bytes_sent": len(pickle.dumps(found))})
    return {"against_columns": columns}


# -- other losses -----------------------------------------------------------------------------------------------


def certificates(loss: str, rows: int, part: int) -> Measured:
    """Return the bounds on all rows for a network fitted to a few of them, by the number of passes."""
    planted = Planted(rows, LOSS_COLUMNS, loss, BATCH // part)
    few = qsdp.TrainingProblem(*planted.batch(10**9), beta=1.0, loss=loss)
    few = few.with_beta(SHARE * qsdp.beta_max(few))
    relaxation, solve = timed(lambda: qsdp.solve_relaxation(few, tol=1e-3))
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), NEURONS, random_state=0)
    least = few.take(np.arange(few.n_samples // REFITTED)).with_beta(few.beta / REFITTED)
    network, refit = timed(lambda: qsdp.refit(network, least))
    own, found = few.objective(network), []
    for passes in (1, 3):
        stream = Timed(planted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", qsdp.QSDPWarning)
            certify = partial(qsdp.certify_stream, network, stream, relaxation, passes=passes)
            certificate, seconds = stream.beside(certify)
        relaxed = 1.0 - certificate.lower_bound * own / relaxation.objective / certificate.objective
        one = {"passes": passes, "seconds": seconds, "rows_a_second": passes * rows / seconds, **quality(certificate)}
        found.append({**one, "relaxed_gap": relaxed})
    row = {"rows": rows, "fitted_rows": few.n_samples, "columns": LOSS_COLUMNS, "solve_seconds": solve}
    row |= {"refit_seconds": refit, "gap_on_fitted_rows": 1.0 - relaxation.lower_bound / own}
    return {**row, "certificates": found}


#: Function that measures each job, and its number of rows.
JOBS: dict[str, tuple[Callable[[int, int], Measured], int]] = {
    "generated": (partial(streamed, "generated"), 5 * 10**7),
    "parquet": (partial(streamed, "parquet"), 10**7),
    "parquet-dask-1": (partial(by_dask, 1), 10**7),
    "parquet-dask-2": (partial(by_dask, 2), 10**7),
    "costs": (costs, 0),
    "logistic": (partial(certificates, "logistic"), 10**7),
    "hinge": (partial(certificates, "hinge"), 10**7),
}


def claims(records: Records) -> list[Claim]:
    streams = {
        r.case["job"]: r.measured for r in records if "columns" in r.measured and "fitted_rows" not in r.measured
    }
    small = {job: max(m["resident_mib"], m.get("resident_mib_of_workers", 0.0)) <= MEMORY for job, m in streams.items()}
    found = [m for r in records for m in (r.measured, *r.measured.get("certificates", ())) if "lower_bound" in m]
    holds = [m["lower_bound"] <= m["objective"] for m in found]
    return [exact(*SMALL, small), exact(*BOUNDED, holds)]


def side(d: float) -> float:
    """Return the side of the triangle for d columns and a target."""
    return (d + 1) * (d + 2) / 2 + 1


def quotes(records: Records) -> dict[str, str]:
    """Return the statistics of most rows, for the README."""
    report = {record.case["job"]: record.measured for record in records}
    if "generated" not in report:
        return {}
    made = report["generated"]
    after = made["solve_seconds"] + made["refit_seconds"]
    what = f"{made['rows'] / 1e6:.0f} million rows of {made['columns']} columns"
    shown = (
        f"{made['seconds']:.0f} s of one core, {made['resident_mib']:.0f} MiB; relaxation, second layer and "
        f"certificate of a network then {after:.1g} s, gap {100 * made['relative_gap']:.1f} %"
    )
    return {
        "generated": table_row(f"{what}, squared loss, read once", shown),
        "statistics": f"{what}, they take {shown}",
    }


#: The answer on top of the page.
ANSWER = """\
For the squared loss, statistics of rows that are read once are enough; of {many_rows.statistics}. Memory stays below
2 GiB a process in {many_rows: Statistics of any number} cases, from files and by Dask, too. Networks of the logistic
and the hinge loss are fitted to 10^5 rows and certified on 10^7. No bound is above the objective of its network in
{many_rows: No bound of many rows} cases.
"""


#: Methods whose versions are stored with the records.
MEASURED = ("statistics", "relaxation", "sampling", "adaptive", "refinement", "moments", "certificates")
EXPERIMENT = experiment_in(__name__, "More rows than memory", "Targets of the package: statistics in one pass")
