"""Faults at random moments: killed processes, full disks, interrupts, threads.

* A process that saves one object over another, again and again, is killed: the file is the old one or the new one.
* The same where files may hold a few bytes only, as on a full disk: an error, the old file, and no other one.
* A command that writes is killed, or interrupted, at any moment: the same, and what it wrote before can be read.
* A long function is interrupted as by Ctrl-C: it ends within seconds with a valid result, or with KeyboardInterrupt,
  and leaves no child process.
* A worker of joblib or of Dask is killed: the result of an undisturbed run or one error, and no process is left.
* Two calls in threads, and two in processes, give the results of one after the other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

import qsdp
from benchmarks.campaigns._processes import BEGIN, END, child, group_lives
from benchmarks.campaigns._record import Outcome
from benchmarks.campaigns._workers import dask_worker, joblib_worker, processes
from qsdp.certificates import load_certificate
from qsdp.tabular import load_model

__all__ = ["tested"]

#: Every kind of file: what makes one from a random generator, to be saved as `save(path)`.
KINDS = {
    "network": "U, V = rng.choice([-1, 1], (2, m, 9)); save = qsdp.BilinearNetwork(U, V, rng.random(m)).save",
    "statistics": "save = qsdp.SufficientStatistics().partial_fit(rng.random((m, 9)), rng.random(m)).save",
    "certificate": (
        "p = qsdp.TrainingProblem(rng.random((m, 9)), rng.random(m), beta=0.1);"
        "n = qsdp.BilinearNetwork(rng.choice([-1, 1], (9, 9)), rng.choice([-1, 1], (9, 9)), rng.random(9));"
        "save = qsdp.certify(n, p, qsdp.solve_relaxation(p, max_iter=1)).save"
    ),
    "polynomial": ("save = qsdp.PolynomialNetwork(rng.choice([-1, 1], (m, 9)), rng.random(m), (1.0, 1.0, 0.5)).save"),
}
_SAVING = """
import sys, warnings
import numpy as np
import qsdp
warnings.simplefilter("ignore")
saves = []
for seed in (1, 2):
    rng, m = np.random.default_rng(seed), 400
    {making}
    saves.append(save)
for number, save in enumerate(saves):
    save(sys.argv[1] + str(number))
saves[0](sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while True:
    for save in saves:
        {saving}
"""

#: Long functions, as a process runs them.
CALLS = {
    "solve_relaxation": "print(qsdp.solve_relaxation(problem, tol=1e-12, solver='splitting', max_iter=10**7).status)",
    "column_generation": "print(qsdp.column_generation(problem, tol=1e-14, time_limit=None).status)",
    "polish": "qsdp.polish(network, problem, restarts=10**7)",
    "train_fixed_width": "qsdp.train_fixed_width(problem, 8, restarts=10**7)",
    "relaxation_path": "qsdp.relaxation_path(problem, 10**4, tol=1e-10)",
    "maxcut_bound": "print(qsdp.maxcut_bound(rng.standard_normal((1500, 1500)), tol=1e-14, max_iter=10**6).status)",
    "certify": "qsdp.certify(network, problem, bound_type='exact')",
}
_CALLING = """
import warnings
import numpy as np
import qsdp
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 44))
problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1] + rng.standard_normal(300), beta=1.0, loss="huber")
network = qsdp.BilinearNetwork(rng.choice([-1, 1], (30, 44)), rng.choice([-1, 1], (30, 44)), rng.random(30))
print("ready", flush=True)
try:
    {call}
    print("finished")
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


def tested(seed: int, index: int) -> Outcome:
    """Return what one case found."""
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    fault = list(FAULTS)[index % len(FAULTS)]
    outcome.count("fault", fault)
    FAULTS[fault](rng, outcome)
    return outcome


def _killed(rng: np.random.Generator, outcome: Outcome) -> None:
    kind = str(rng.choice(list(KINDS)))
    outcome.count("kill", kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.h"
        process = child(_SAVING.format(making=KINDS[kind], saving="save(sys.argv[1])"), str(path))
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(float(rng.uniform(0.0, 0.3)))
        process.kill()
        process.communicate()
        wanted = [_contents(folder, f"file.h{number}") for number in range(2)]
        if _contents(folder, "file.h") not in wanted:
            outcome.wrong("torn file", of=kind)


def _contents(folder: str, name: str) -> bytes:
    return (Path(folder) / name).read_bytes().replace(name.encode(), b"")


def _full(rng: np.random.Generator, outcome: Outcome) -> None:
    """Let files grow to a random size only, which the old one, made before, already has."""
    kind = str(rng.choice(list(KINDS)))
    outcome.count("full disk", kind)
    saving = (
        "limit(int(sys.argv[2]))\n        try:\n            save(sys.argv[1])\n        except OSError as error:\n"
        "            print('OSError', flush=True)\n            sys.exit(3)\n        sys.exit(0)"
    )
    script = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))\n"
    ) + _SAVING.format(making=KINDS[kind], saving=saving)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.h"
        process = child(script, str(path), str(int(rng.integers(0, 2000))))
        assert process.stdin is not None
        files, before = sorted(os.listdir(folder)), _contents(folder, "file.h")
        said, errors = process.communicate("\n", timeout=BEGIN)
        if process.returncode != 3 or "OSError" not in said:
            outcome.wrong("no error on a full disk", of=kind, code=process.returncode, errors=errors[-200:])
        if sorted(os.listdir(folder)) != files or _contents(folder, "file.h") != before:
            outcome.wrong("a full disk changed files", of=kind)


def _interrupted(rng: np.random.Generator, outcome: Outcome) -> None:
    call = str(rng.choice(list(CALLS)))
    outcome.count("interrupt", call)
    process = child(_CALLING.format(call=CALLS[call]))
    time.sleep(float(rng.uniform(0.0, 3.0)))
    os.killpg(process.pid, signal.SIGINT)
    start = time.monotonic()
    try:
        said, errors = process.communicate(timeout=END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        outcome.wrong("not interrupted", of=call, seconds=END)
        return
    outcome.count("interrupted", f"{call}: {(said.split() or ['nothing said'])[0]}")
    outcome.distances.append(("seconds after an interrupt / 20", (time.monotonic() - start) / END))
    if process.returncode != 0:
        outcome.wrong("interrupted with an error", of=call, code=process.returncode, errors=errors[-300:])
    if group_lives(process.pid):
        outcome.wrong("a process was left", of=call)


#: Commands that write, where MODEL and TABLE are what a `qsdp fit` before has left: what they write, and arguments.
COMMANDS = {
    "fit": ("MODEL", ["fit", "TABLE", "--target", "label", "--output", "MODEL", "--force"]),
    "resample": ("NEW", ["resample", "MODEL", "--neurons", "40", "--output", "NEW", "--force"]),
    "certify": ("CERTIFICATE", ["certify", "MODEL", "TABLE", "--output", "CERTIFICATE", "--force"]),
    "report": ("PAGE.html", ["report", "MODEL", "TABLE", "--output", "PAGE.html", "--force"]),
    "export": ("SOURCE.onnx", ["export", "MODEL", "--to", "onnx", "--output", "SOURCE.onnx", "--force"]),
}


@cache
def _files() -> dict[str, bytes]:
    """Return the files of a folder in which every command has run."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'yes' if a * b > 0 else 'no'}" for a, b in rng.standard_normal((60, 2))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "TABLE").write_text("a,b,label\n" + "\n".join(rows))
        for command, (written, arguments) in COMMANDS.items():
            done = subprocess.run([sys.executable, "-m", "qsdp.cli", *arguments], cwd=folder, capture_output=True)
            if done.returncode or not (folder / written).is_file():
                raise RuntimeError(f"qsdp {command} has failed: {done.stderr.decode()[-500:]}")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def _command(rng: np.random.Generator, outcome: Outcome) -> None:
    command = str(rng.choice(list(COMMANDS)))
    stop = signal.SIGKILL if rng.random() < 0.5 else signal.SIGINT
    written, arguments = COMMANDS[command]
    outcome.count("command", f"{command}, {stop.name}")
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), _files()
        for file, contents in before.items():
            (folder / file).write_bytes(contents)
        process = subprocess.Popen(
            [sys.executable, "-m", "qsdp.cli", *arguments],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=float(rng.uniform(0.5, 8.0)))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, stop)
            process.wait(timeout=END)
        outcome.count("stopped", f"{command}: {'at its end' if process.returncode == 0 else stop.name}")
        after = {path.name: path.read_bytes() for path in folder.iterdir()}
        others = {file for file in after.keys() | before.keys() if after.get(file) != before.get(file)} - {written}
        left = {file for file in others if file.endswith(".tmp")}
        if others - left or (left and stop is signal.SIGINT):
            outcome.wrong("other files changed", of=command, files=sorted(others))
        whole = after[written] == before[written] or process.returncode == 0
        if not whole and not _readable(folder / written):
            outcome.wrong("torn file", of=command, by=stop.name)


def _readable(path: Path) -> bool:
    """Whether a file of a command is whole, though it is not the one of before: times are part of it."""
    contents = path.read_bytes()
    if path.suffix == ".html":
        return contents.rstrip().endswith(b"</html>")
    if path.suffix == ".onnx":
        return False  # the same model is the same file
    try:
        load_certificate(path) if path.name == "CERTIFICATE" else load_model(path)
    except qsdp.QSDPError:
        return False
    return True


@cache
def _problems() -> list[qsdp.TrainingProblem]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    targets = {"squared": X[:, 0] * X[:, 1], "logistic": np.sign(X[:, 0] * X[:, 1] + 0.1), "absolute": X[:, 2]}
    return [qsdp.TrainingProblem(X, y, beta=0.5, loss=loss) for loss, y in targets.items()]


def _threads(rng: np.random.Generator, outcome: Outcome) -> None:
    """Compare calls in threads, of different problems at once, with the same one after the other."""
    problems = _problems()
    chosen = [problems[k] for k in rng.permutation(len(problems))]
    seed = int(rng.integers(1000))

    def run(problem: qsdp.TrainingProblem) -> list[bytes]:
        network = qsdp.solve_and_sample(
            problem.X, problem.y, n_neurons=12, beta=problem.beta, loss=problem.loss, refine="polish", random_state=seed
        ).network
        result = qsdp.column_generation(problem, random_state=seed, time_limit=None)
        numbers = np.array([result.objective, result.lower_bound])
        return [array.tobytes() for array in (network.U, network.V, network.alpha, result.network.U, numbers)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [run(problem) for problem in chosen]
        with ThreadPoolExecutor(len(chosen)) as pool:
            together = list(pool.map(run, chosen))
    if alone != together:
        outcome.wrong("threads differ", seed_of_calls=seed)


FAULTS = {
    "kill": _killed,
    "full disk": _full,
    "interrupt": _interrupted,
    "threads": _threads,
    "command": _command,
    "joblib worker": joblib_worker,
    "dask worker": dask_worker,
    "processes": processes,
}
