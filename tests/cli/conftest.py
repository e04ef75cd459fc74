"""A current folder, and trained models."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from cli_program import flowers, messy, run

# The search for doctests imports all files, and conftest is the name of another one already.
collect_ignore = ["conftest.py"]


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "QSDP_DEBUG", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    # A slow machine would print lines of progress.
    monkeypatch.setattr("qsdp._utils.progress._LINE_SECONDS", math.inf)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with messy.csv and models of its label and its price, and iris.csv with a model of its kind."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "messy.csv").write_bytes(messy())
    for target, other in (("label", "price"), ("price", "label")):
        result = run(
            "fit", folder / "messy.csv", "--encoding", "standard", "--target", target, "--drop", other, "--drop", "id",
            "--output", folder / f"{target}.qsdp", "--neurons", 200, "--refine", "none", "--beta", 1,
            "--activation", "bilinear", "--tol", 1e-6,
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
    (folder / "iris.csv").write_text(flowers())
    result = run(
        "fit", folder / "iris.csv", "--encoding", "standard",
        "--target", "kind", "--output", folder / "kind.qsdp", "--levels", 3,
        "--loss", "cross_entropy", "--neurons", 1000, "--refine", "none", "--beta", 1, "--tol", 1e-6,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return folder
