"""The program as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


def process(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "qsdp", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", **options,
    )  # fmt: skip


def test_a_real_process_prints_plain_unfolded_lines() -> None:
    name = "no such file, and a long name to go with it, well beyond forty.qsdp"
    code = f"""
import sys
from qsdp.cli import main
for arguments in (["datasets"], ["predict", {name!r}, "rows.csv"]):
    sys.argv = ["qsdp", *arguments]
    try:
        main()
    except SystemExit as ended:
        print("code", ended.code)
"""
    narrow = {**os.environ, "COLUMNS": "40"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=narrow)
    *listing, refused = done.stdout.splitlines()
    assert [line for line in listing if line.startswith("code")] in ([], ["code 0"])
    assert len([line for line in listing if not line.startswith("code")]) == 6
    assert all(line == line.rstrip() for line in listing)
    assert refused == "code 2"
    # A slow machine prints lines of progress before.
    assert done.stderr.splitlines()[-1].startswith(f"Error: '{name}")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_real_interrupt(here: Path) -> None:
    os.mkfifo(here / "slow.csv")
    # A shell's background jobs ignore the signal, and what they start inherits that.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    running = process("fit", "slow.csv", "--target", "y", **heeding)
    # Opening for writing returns as soon as the command reads: it is then inside its work.
    with open(here / "slow.csv", "w"):
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=30)
    assert (running.returncode, stdout, stderr) == (130, "", "Interrupted\n")
    assert [path.name for path in here.iterdir()] == ["slow.csv"]


@pytest.mark.parametrize("package", ["qsdp", "typer"])
def test_an_interrupt_while_the_program_is_imported_is_quiet(package: str) -> None:
    code = f"""
import sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == {package!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
import qsdp_command
qsdp_command.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
