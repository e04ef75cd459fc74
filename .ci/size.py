"""Print the lines of the library by package: the core, what goes around it, and the methods to compare with.

    python .ci/size.py

Counts physical lines of the .py files of `qsdp/`; templates and other data do not count.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "qsdp"
AROUND = {"cli", "datasets", "encoding", "estimators", "export", "plotting", "report", "tables", "__main__"}
GROUPS = ("core", "around the core", "baselines")


def lines_by_package() -> Counter[str]:
    """Return the number of lines of every package and module directly below `qsdp`."""
    lines: Counter[str] = Counter()
    for path in ROOT.rglob("*.py"):
        package = path.relative_to(ROOT).parts[0].removesuffix(".py")
        lines[package] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def main() -> None:
    """Print a table for each group, largest package first, with its total."""
    lines = lines_by_package()
    for group in GROUPS:
        names = [name for name in lines if group == _group(name)]
        for name in sorted(names, key=lambda name: -lines[name]):
            print(f"{name:24}{lines[name]:8,}")
        print(f"{group + ', total':24}{sum(lines[name] for name in names):8,}\n")


def _group(name: str) -> str:
    return name if name == "baselines" else GROUPS[name in AROUND]


if __name__ == "__main__":
    main()
