"""`qsdp datasets`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_program import run

import qsdp


def test_datasets_without_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    (tmp_path / "uci" / "ionosphere").mkdir(parents=True)
    (tmp_path / "uci" / "ionosphere" / "ionosphere.data").write_text("")
    lines = run("datasets").stdout.splitlines()
    assert lines[0].split() == ["name", "rows", "columns", "task", "source", "offline"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert list(rows) == [info.name for info in qsdp.datasets.list_datasets()]
    assert rows["digits"] == ["1797", "64", "multiclass", "scikit-learn", "yes"]
    assert rows["ionosphere"][-1] == "yes"
    assert rows["vehicle"][-1] == "no"
    monkeypatch.setenv("QSDP_DATA", "")
    monkeypatch.setattr("qsdp.datasets._fetch._cache_folder", lambda: tmp_path)
    assert {line.split()[0] for line in run("datasets").stdout.splitlines() if line.endswith("yes")} == {
        "breast-cancer-wisconsin", "diabetes", "iris", "wine", "digits", "ionosphere",
    }  # fmt: skip
