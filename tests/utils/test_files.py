"""Writing of files: all or none, and errors that name the path of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from qsdp._utils.files import write_together, write_whole


def test_folders_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for path in ("", ".", "models"):
        with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
            write_whole(path, b"new")
    with pytest.raises(IsADirectoryError):
        write_together({Path("first"): b"new", Path("models"): b"new"})
    assert [one.name for one in tmp_path.iterdir()] == ["models"]
