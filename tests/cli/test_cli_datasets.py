"""`qsdp datasets`."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize("name", ["breast-cancer-wisconsin", "diabetes", "iris"])
def test_a_data_set_is_written_as_csv(name: str) -> None:
    data = qsdp.datasets.load_dataset(name)
    heading, *rows = csv.reader(run("datasets", name).stdout.splitlines())
    assert heading == [*data.feature_names, "target"]
    np.testing.assert_array_equal(np.array([row[:-1] for row in rows], dtype=float), data.X)
    targets = [row[-1] for row in rows]
    if data.task == "regression":
        np.testing.assert_array_equal(np.array(targets, dtype=float), data.y)
    else:
        codes = np.unique(data.y, return_inverse=True)[1]
        assert targets == [data.target_names[code] for code in codes]


def test_an_unknown_data_set_is_refused() -> None:
    result = run("datasets", "iri")
    assert result.exit_code == 2
    assert "'iri'" in result.stderr
