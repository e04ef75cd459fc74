"""Statistics of Dask collections: those of the rows, wherever they lie and whoever is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_devices import DEVICE, devices_of_products, needs_torch

import qsdp
from qsdp import SufficientStatistics, TrainingProblem
from qsdp.exceptions import InvalidInputError, InvalidTypeError, SolverError, UnavailableSolverError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

N_ROWS = 600


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = qsdp.datasets.make_planted(n=N_ROWS, d=5, n_neurons=3, random_state=0)
    return X + np.array([0.0, 0.0, 5.0, 0.0, 0.0]), y + rng.standard_normal(N_ROWS), rng.integers(1, 4, N_ROWS) * 0.5


def statistics_of(*collections: Any, **options: Any) -> SufficientStatistics:
    return SufficientStatistics.from_batches(collections, **options)


def agree(one: SufficientStatistics, other: SufficientStatistics) -> bool:
    """Return whether both have the same problem, to 1e-10."""
    assert (one.n_samples_seen_, one.total_weight_) == (other.n_samples_seen_, pytest.approx(other.total_weight_))
    problems = [TrainingProblem.from_statistics(s, beta=50.0) for s in (one, other)]
    network = qsdp.BilinearNetwork([[1, 1, -1, 1, -1]], [[1, -1, 1, 1, 1]], [0.3])
    objectives = [problem.objective(network) for problem in problems]
    bounds = [qsdp.beta_max(problem) for problem in problems]
    return objectives[0] == pytest.approx(objectives[1], rel=1e-10) and bounds[0] == pytest.approx(bounds[1], rel=1e-6)


def test_arrays_of_known_and_unknown_chunks() -> None:
    X, y, w = rows()
    whole = SufficientStatistics().partial_fit(X, y, w)
    arrays = [da.from_array(part, chunks=(47, *[2] * (part.ndim - 1))) for part in (X, y, w)]
    assert agree(statistics_of(*arrays), whole)
    known = da.from_array(np.ones(N_ROWS, dtype=bool), chunks=47)
    one_column = da.from_array(X, chunks=(47, 5))
    unknown = [part[known] for part in (one_column, *arrays[1:])]
    assert np.isnan(unknown[0].chunks[0][0])
    assert agree(statistics_of(*unknown), whole)


def test_frames_keep_their_columns() -> None:
    X, y, _ = rows()
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    parts = dd.from_pandas(frame, npartitions=4)
    statistics = SufficientStatistics.from_batches((parts[list("abcde")], parts["y"]), keep=50)
    assert statistics.feature_names_in_ == tuple("abcde")
    assert agree(statistics, SufficientStatistics().partial_fit(frame[list("abcde")], y))
    assert statistics.sample_problem(beta=1.0).n_samples == 50
    few = parts[parts["a"] > 100.0]
    with pytest.raises(InvalidInputError, match="only empty chunks"):
        SufficientStatistics.from_batches((few[["a"]], few["y"]))


def test_bad_chunks_are_numbered() -> None:
    X, y, _ = rows()
    X[130, 2] = np.nan
    arrays = [da.from_array(part, chunks=(50, *part.shape[1:])) for part in (X, y)]
    with pytest.raises(InvalidInputError, match="chunk 2 of rows: X must be finite; NaN or infinity in row 30"):
        statistics_of(*arrays)
    with pytest.raises(InvalidInputError, match="y must have as many chunks of rows as X, 12; got 1"):
        statistics_of(arrays[0], da.from_array(y, chunks=N_ROWS))
    with pytest.raises(InvalidTypeError, match="y must be a Dask array or data frame; got ndarray"):
        statistics_of(arrays[0], y)
    with pytest.raises(InvalidTypeError, match="for Dask collections; got a tuple of 1"):
        statistics_of(arrays[0])
    with pytest.raises(InvalidTypeError, match="or a tuple of Dask collections; got Array"):
        SufficientStatistics.from_batches(arrays[0])
    with pytest.raises(SolverError, match="Dask stopped with ZeroDivisionError"):
        statistics_of(arrays[0].map_blocks(lambda block: block / (1 // 0), dtype=float), arrays[1])


@needs_torch
def test_products_of_chunks_run_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, w = rows()
    devices = devices_of_products(monkeypatch)
    arrays = [da.from_array(part, chunks=(100, *part.shape[1:])) for part in (X, y, w)]
    found = statistics_of(*arrays, device=DEVICE)
    assert devices == [DEVICE] * 6
    assert found.device is None
    assert agree(found, SufficientStatistics().partial_fit(X, y, w))


def test_a_device_that_workers_lack_is_refused_before_any_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(rows: np.ndarray) -> np.ndarray:
        raise AssertionError("a chunk was asked for")

    X = da.from_array(rows()[0], chunks=(100, 5)).map_blocks(unwanted, meta=np.empty((0, 5)))
    y = da.from_array(rows()[1], chunks=100)
    with pytest.raises(InvalidTypeError, match=r"^device must be a string or None; got int"):
        statistics_of(X, y, device=0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableSolverError, match=r"^device='cuda' needs torch: pip install torch"):
        statistics_of(X, y, device="cuda")


def test_chunks_are_certified() -> None:
    X, y, _ = rows()
    few = TrainingProblem(X[:200], y[:200], beta=10.0)
    relaxation = qsdp.solve_relaxation(few)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 50, random_state=0)
    arrays = [da.from_array(part, chunks=(100, *part.shape[1:])) for part in (X, y)]
    certificate = qsdp.certify_stream(network, tuple(arrays), relaxation, passes=2)
    assert certificate.objective == pytest.approx(TrainingProblem(X, y, beta=30.0).objective(network), rel=1e-12)
    assert 0.0 < certificate.lower_bound < certificate.objective


SCHEDULER = """
import sys
from distributed import LocalCluster
options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None, "protocol": "tcp://"}
print(LocalCluster(n_workers=1, **options).scheduler_address, flush=True)
sys.stdin.read()
"""


def _killed_in_the_pass(program: subprocess.Popen[str], folder: Path) -> tuple[Any, list[Any]]:
    """Return arrays whose sums take a while, and a thread that kills a program once some of their chunks are read."""

    def kill() -> None:
        while len(list(folder.iterdir())) < 4:
            time.sleep(0.01)
        program.kill()

    def slowly(block: np.ndarray) -> np.ndarray:
        time.sleep(0.05)
        (folder / f"{block.flat[:1]}").touch()
        return block

    X, y, _ = rows()
    arrays = [da.from_array(part, chunks=(50, *part.shape[1:])) for part in (X, y)]
    slow = arrays[0].map_blocks(slowly, dtype=float, meta=np.empty((0, 5)))
    return threading.Thread(target=kill, daemon=True), [slow, arrays[1]]


def test_a_cluster_loses_a_worker(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "threads_per_worker": 1, "protocol": "tcp://"}
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard", "--nthreads", "1"]
    with (
        distributed.LocalCluster(n_workers=1, dashboard_address=None, **options) as cluster,
        distributed.Client(cluster) as client,
        subprocess.Popen([*worker, cluster.scheduler_address], text=True, stderr=subprocess.DEVNULL) as other,
    ):
        client.wait_for_workers(2, timeout=60)
        thread, arrays = _killed_in_the_pass(other, tmp_path)
        thread.start()
        statistics = statistics_of(*arrays)
        thread.join(timeout=10)
    assert agree(statistics, SufficientStatistics().partial_fit(*rows()[:2]))


def test_the_scheduler_goes_away(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    arguments = [sys.executable, "-c", SCHEDULER]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(arguments, text=True, **pipes) as scheduler:
        assert scheduler.stdout is not None
        thread, arrays = _killed_in_the_pass(scheduler, tmp_path)
        with distributed.Client(scheduler.stdout.readline().strip()):
            thread.start()
            with pytest.raises(SolverError, match="Dask stopped with"):
                statistics_of(*arrays)
        thread.join(timeout=10)
