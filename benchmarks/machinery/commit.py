"""The git commit of the sources, which is stored with new records."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def commit() -> str:
    """Return the commit of the sources, with a plus if they have changed since; empty outside a repository."""

    def output_of(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # `git describe --dirty` would lock the index, and leave the lock behind if it is killed.
        changed = output_of("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
        return output_of("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""
