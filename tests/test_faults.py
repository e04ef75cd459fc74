"""Faults on purpose: killed processes, full disks, calls in threads and processes, and no network.

More of each, at random moments, in `tests/campaigns`.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

import qsdp

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of Linux: signals, limits, /proc")

FIT = ("fit", "rows.csv", "--target", "y", "--encoding", "standard", "--refine", "none", "--beta", "20%", "--force")

#: `qsdp` with the renaming of what it wrote put off for ever.
STUCK = """
import os, sys, time
def replace(source, target):
    print("written", flush=True)
    time.sleep(600)
os.replace = replace
from qsdp.cli import app
sys.argv[0] = "qsdp"
app()
"""

FITTED = """
import hashlib, warnings
import numpy as np
import qsdp
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((60, 4))
network = qsdp.solve_and_sample(X, X[:, 0] * X[:, 1], 12, "20%", refine="polish", tol=0.1, random_state=0).network
print(hashlib.sha256(network.U.tobytes() + network.V.tobytes() + network.alpha.tobytes()).hexdigest())
"""

#: Every use of a socket ends the process.
OFFLINE = """
import os, sys
def refuse(event, arguments):
    if event.startswith("socket.") and event != "socket.gethostname":
        os.write(2, f"{event} {arguments}".encode())
        os._exit(7)
sys.addaudithook(refuse)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a table and the file of an older model."""
    rows = np.random.default_rng(0).standard_normal((40, 2)).round(3)
    lines = [f"{a},{b},{'yes' if a * b > 0 else 'no'}" for a, b in rows.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines]))
    qsdp.BilinearNetwork(np.ones((500, 40)), np.ones((500, 40)), np.ones(500)).save(tmp_path / "rows.qsdp")
    return tmp_path


def command(folder: Path, *arguments: str, program: tuple[str, ...] = ("-m", "qsdp"), **options: Any) -> Any:
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def test_killed_while_it_writes(folder: Path) -> None:
    before = (folder / "rows.qsdp").read_bytes()
    with command(folder, *FIT, program=("-c", STUCK)) as running:
        assert running.stdout.readline() == "written\n"
        running.send_signal(signal.SIGKILL)
    assert (folder / "rows.qsdp").read_bytes() == before
    (left,) = set(os.listdir(folder)) - {"rows.csv", "rows.qsdp"}
    assert qsdp.load(folder / left).table_.target == "y"


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (folder / "rows.qsdp").read_bytes()
    monkeypatch.chdir(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        done = run(*FIT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.exit_code == 2
    assert len([line for line in done.stderr.splitlines() if line.startswith("Error")]) == 1
    assert "'rows.qsdp': File too large" in done.stderr
    assert sorted(os.listdir(folder)) == ["rows.csv", "rows.qsdp"]
    assert (folder / "rows.qsdp").read_bytes() == before


def test_two_fits_at_once_are_one_after_the_other() -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))

    def fitted(_: int) -> str:
        result = qsdp.solve_and_sample(X, X[:, 0] * X[:, 1], 12, "20%", refine="polish", tol=0.1, random_state=0)
        network = result.network
        return hashlib.sha256(network.U.tobytes() + network.V.tobytes() + network.alpha.tobytes()).hexdigest()

    alone, threads = fitted(0), set(threading.enumerate())
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(fitted, range(2))) == {alone}
    # No thread is left behind.
    assert set(threading.enumerate()) == threads
    # Another process finds the same. Nor does import, fit or export use a network: every use of a socket would end it.
    estimator = "qsdp.QuantizedNetworkRegressor(9, beta='20%', encoding='none', refine='none').fit(X, X[:, 0])"
    offline = f"{OFFLINE}\nimport qsdp.cli, qsdp.export\n{FITTED}\nqsdp.export.to_c({estimator})"
    running = command(Path.cwd(), "-c", offline, program=())
    assert (running.communicate()[0].strip(), running.returncode) == (alone, 0)


def test_the_guard_of_sockets_sees_them() -> None:
    program = f"{OFFLINE}\nimport socket\nsocket.create_connection(('localhost', 9))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 7
