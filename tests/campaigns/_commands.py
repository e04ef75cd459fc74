"""Commands that write are killed, interrupted, or find a full disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import qsdp
from campaigns._processes import END, ended, in_turn, interruptible
from campaigns._record import Outcome
from qsdp.certificates import load_certificate
from qsdp.tabular import load_model

__all__ = ["COMMANDS", "command", "full_disk"]

_FIT = ("fit", "TABLE", "--target", "label", "--refine", "none", "--force", "--output")
_EXPORT = ("export", "--force")

#: Every command that writes, where MODEL, BITS and TABLE are what commands before have left: what it writes, and
#: arguments. `qsdp export` to QONNX writes as ONNX does, and takes no model of a command.
COMMANDS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "fit": (["MODEL"], [*_FIT, "MODEL"]),
    "fit, thresholds": (["BITS"], [*_FIT, "BITS", "--encoding", "thresholds"]),
    "fit, streamed": (["STREAMED"], [*_FIT, "STREAMED", "--memory", "1e-12"]),
    "fit, streamed, logistic": (["BATCHES"], [*_FIT, "BATCHES", "--memory", "1e-12", "--loss", "logistic"]),
    "predict": (["PREDICTED.csv"], ["predict", "MODEL", "TABLE", "--output", "PREDICTED.csv", "--force"]),
    "resample": (["NEW"], ["resample", "MODEL", "--neurons", "40", "--output", "NEW", "--force"]),
    "certify": (["CERTIFICATE"], ["certify", "MODEL", "TABLE", "--output", "CERTIFICATE", "--force"]),
    "report": (
        ["PAGE.html", "CARD.md"],
        ["report", "MODEL", "TABLE", "--output", "PAGE.html", "--output", "CARD.md", "--force"],
    ),
    "export, c": (["SOURCE.c", "SOURCE.h"], [*_EXPORT, "MODEL", "--to", "c", "--output", "SOURCE.c"]),
    "export, onnx": (["SOURCE.onnx"], [*_EXPORT, "MODEL", "--to", "onnx", "--output", "SOURCE.onnx"]),
    "export, verilog": (["SOURCE.v"], [*_EXPORT, "BITS", "--to", "verilog", "--output", "SOURCE.v"]),
    "bench": (
        ["BENCH/uci-quick.json", "BENCH/uci-quick.md"],
        ["bench", "--quick", "--sets", "breast-cancer", "--methods", "qsdp-polish", "--seeds", "1", "--out", "BENCH"],
    ),
}

#: Seconds in which a command has to end once it is stopped, on a busy machine.
_LAST = 6 * END


@dataclass(frozen=True)
class _Ran:
    """A folder in which every command has run: its files, and the seconds of each command."""

    files: dict[str, bytes]
    seconds: dict[str, float]

    def laid_out(self, folder: Path) -> None:
        """Write the files."""
        for name, contents in self.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(contents)


def command(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Kill or interrupt a command at any moment of its run."""
    name, ran = in_turn(COMMANDS, turn), _ran()
    stop = signal.SIGKILL if rng.random() < 0.5 else signal.SIGINT
    written, _ = COMMANDS[name]
    outcome.count("command", f"{name}, {stop.name}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ran.laid_out(folder)
        process = _started(name, folder)
        try:
            process.wait(timeout=float(rng.uniform(0.2, 1.1)) * ran.seconds[name])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, stop)
        if (answer := ended(process, _LAST)) is None:
            outcome.wrong("not interrupted", of=name, seconds=_LAST)
            return
        _, errors = answer
        outcome.count("stopped", f"{name}: {'at its end' if process.returncode == 0 else stop.name}")
        if process.returncode not in (0, 130, -stop):
            outcome.wrong("another status", of=name, by=stop.name, code=process.returncode, errors=errors[-300:])
        changed = _changed(ran.files, _contents(folder))
        # What a killed command was about to write it cannot take away.
        left = {file for file in changed if file.endswith(".tmp") and stop is signal.SIGKILL}
        if changed - left - set(written):
            outcome.wrong("other files changed", of=name, by=stop.name, files=sorted(changed))
        if process.returncode != 0:
            _check_whole(name, folder, ran.files, changed, outcome)


def _changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """Return the files that differ, but for those from which `qsdp fit` goes on streaming: progress that is kept."""
    files = {file for file in after.keys() | before.keys() if not file.endswith(".checkpoint")}
    return {file for file in files if after.get(file) != before.get(file)}


def full_disk(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Let files of a command grow to a random size only, less than the largest that it writes."""
    name, ran = in_turn(COMMANDS, turn), _ran()
    written, _ = COMMANDS[name]
    outcome.count("full disk of a command", name)
    largest = max(len(ran.files[file]) for file in written)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ran.laid_out(folder)
        for file in written if name == "bench" else ():
            # It goes on from what it has measured.
            (folder / file).unlink()
        before = _contents(folder)
        # Lengths of files with seconds in them differ.
        process = _started(name, folder, size=int(rng.integers(0, max(1, int(0.9 * largest)))))
        _, errors = process.communicate(timeout=_LAST)
        if process.returncode == 0:
            outcome.wrong("no error on a full disk", of=name)
        if "Traceback" in errors or "too large" not in errors:
            outcome.wrong("an error that does not say it", of=name, errors=errors[-300:])
        changed = _changed(before, _contents(folder))
        if name != "bench" and changed:
            outcome.wrong("a full disk changed files", of=name, files=sorted(changed))
        _check_whole(name, folder, before, changed, outcome)


def _check_whole(name: str, folder: Path, before: Mapping[str, bytes], changed: set[str], outcome: Outcome) -> None:
    for file in changed.intersection(COMMANDS[name][0]):
        if not (folder / file).is_file() or not _readable(folder / file, before.get(file)):
            outcome.wrong("torn file", of=name, file=file)


def _readable(path: Path, before: bytes | None) -> bool:
    """Return whether a file of a command is whole, though it is not the one of before: times are part of it."""
    contents = path.read_bytes()
    try:
        if path.suffix == ".html":
            return contents.rstrip().endswith(b"</html>")
        if path.suffix == ".md":
            return before is None or contents.splitlines()[-1] == before.splitlines()[-1]
        if path.suffix == ".json":
            return bool(json.loads(contents))
        if path.suffix:
            return False  # the same model is the same file
        load_certificate(path) if path.name == "CERTIFICATE" else load_model(path)
    except (qsdp.QSDPError, ValueError):
        return False
    return True


def _started(name: str, folder: Path, size: int | None = None) -> subprocess.Popen[str]:
    def limit() -> None:
        interruptible()
        if size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return subprocess.Popen(
        [sys.executable, "-m", "qsdp.cli", *COMMANDS[name][1]],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    )


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@cache
def _ran() -> _Ran:
    rng, seconds = np.random.default_rng(0), {}
    rows = [f"{a:.3f},{b:.3f},{'yes' if a * b > 0 else 'no'}" for a, b in rng.standard_normal((60, 2))]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "TABLE").write_text("a,b,label\n" + "\n".join(rows))
        for name, (written, _) in COMMANDS.items():
            start = time.monotonic()
            process = _started(name, folder)
            errors = process.communicate()[1]
            seconds[name] = time.monotonic() - start
            missing = [file for file in written if not (folder / file).is_file()]
            if process.returncode or missing:
                raise RuntimeError(f"qsdp {name} has failed: {missing} {errors[-500:]}")
        return _Ran(_contents(folder), seconds)
