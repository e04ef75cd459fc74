"""Commands that write are killed, interrupted, or find a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

import qsdp
from campaigns._processes import LAST, contents, ended, in_turn, started
from campaigns._record import Outcome

Files = dict[str, bytes]
_FIT = "fit TABLE --target label --refine none --force --output"

#: Every command that writes, where MODEL, BITS and TABLE are what commands before have left: what it writes, and
#: arguments.
COMMANDS = {
    "fit": ("MODEL", f"{_FIT} MODEL"),
    "fit, thresholds": ("BITS", f"{_FIT} BITS --encoding thresholds"),
    "predict": ("PREDICTED.csv", "predict MODEL TABLE --output PREDICTED.csv --force"),
    "certify": ("CERTIFICATE", "certify MODEL TABLE --output CERTIFICATE --force"),
    "report": ("PAGE.html", "report MODEL TABLE --output PAGE.html --force"),
    "export, c": ("SOURCE.c SOURCE.h", "export --force MODEL --to c --output SOURCE.c"),
    "export, onnx": ("SOURCE.onnx", "export --force MODEL --to onnx --output SOURCE.onnx"),
    "export, verilog": ("SOURCE.v", "export --force BITS --to verilog --output SOURCE.v"),
}


def command(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Kill or interrupt a command at any moment of its run."""
    name = in_turn(COMMANDS, turn)
    before, seconds = _ran(name)
    stop = signal.SIGKILL if rng.random() < 0.5 else signal.SIGINT
    outcome.count("command", f"{name}, {stop.name}")
    with tempfile.TemporaryDirectory() as place:
        process = _begun(name, folder := Path(place), before)
        try:
            process.wait(timeout=float(rng.uniform(0.2, 1.1)) * seconds[name])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, stop)
        if (said := ended(process, outcome, of=name)) is None:
            return
        code, errors = process.returncode, said[1][-300:]
        outcome.count("stopped", f"{name}: {'at its end' if code == 0 else stop.name}")
        if code not in (0, 130, -stop):
            outcome.wrong("another status", of=name, by=stop.name, code=code, errors=errors)
        changed = _changed(before, contents(folder))
        # What a killed command was about to write it cannot take away.
        changed -= {file for file in changed if file.endswith(".tmp") and stop is signal.SIGKILL}
        if changed - set(COMMANDS[name][0].split()):
            outcome.wrong("other files changed", of=name, by=stop.name, files=sorted(changed))
        if code != 0:
            _check_whole(name, folder, changed, outcome)


def full_disk(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Let files of a command grow to a random size only, less than the largest that it writes."""
    name = in_turn(COMMANDS, turn)
    before, _ = _ran(name)
    written = COMMANDS[name][0].split()
    outcome.count("full disk of a command", name)
    # Lengths of files with seconds in them differ.
    size = int(rng.integers(0, max(1, int(0.9 * max(len(before[file]) for file in written)))))
    with tempfile.TemporaryDirectory() as place:
        process = _begun(name, folder := Path(place), before, size)
        errors = process.communicate(timeout=LAST)[1]
        if process.returncode == 0:
            outcome.wrong("no error on a full disk", of=name)
        if "Traceback" in errors or "too large" not in errors:
            outcome.wrong("an error that does not say it", of=name, errors=errors[-300:])
        changed = _changed(before, contents(folder))
        if changed:
            outcome.wrong("a full disk changed files", of=name, files=sorted(changed))
        _check_whole(name, folder, changed, outcome)


def _begun(name: str, folder: Path, files: Files, size: int | None = None) -> subprocess.Popen[str]:
    """Return the process of a command in a folder of files."""
    for file, held in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(held)
    return started("-m", "qsdp", *COMMANDS[name][1].split(), folder=folder, size=size)


def _changed(before: Files, after: Files) -> set[str]:
    """Return the files that differ."""
    return {file for file in after.keys() | before.keys() if after.get(file) != before.get(file)}


def _check_whole(name: str, folder: Path, changed: set[str], outcome: Outcome) -> None:
    for file in changed.intersection(COMMANDS[name][0].split()):
        if not (folder / file).is_file() or not _readable(folder / file):
            outcome.wrong("torn file", of=name, file=file)


def _readable(path: Path) -> bool:
    """Return whether a file of a command is whole, though it is not the one of before: times are part of it."""
    held = path.read_bytes()
    try:
        if path.suffix == ".html":
            return held.rstrip().endswith(b"</html>")
        if path.suffix:
            return False  # the same model is the same file
        qsdp.load_certificate(path) if path.name == "CERTIFICATE" else qsdp.load(path)
    except (qsdp.QSDPError, ValueError):
        return False
    return True


@cache
def _ran(name: str) -> tuple[Files, dict[str, float]]:
    """Return the files of a folder in which a command and all before it have run, and the seconds of each."""
    names = list(COMMANDS)
    place = names.index(name)
    files, seconds = _ran(names[place - 1]) if place else ({"TABLE": _table()}, {})
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        errors = _begun(name, Path(folder), files).communicate()[1]
        seconds, files = {**seconds, name: time.monotonic() - start}, contents(Path(folder))
    if not files.keys() >= set(COMMANDS[name][0].split()):
        raise RuntimeError(f"qsdp {name} has failed: {errors[-500:]}")
    return files, seconds


def _table() -> bytes:
    rows = np.random.default_rng(0).standard_normal((60, 2))
    return "".join(["a,b,label\n", *(f"{a:.3f},{b:.3f},{'yes' if a * b > 0 else 'no'}\n" for a, b in rows)]).encode()
