"""Writing of files: all or none, and errors that name the path of the user."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from qsdp._utils.atomic_files import write_together, write_whole


def test_folders_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for path in ("", ".", "models"):
        with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
            write_whole(path, b"new")
    with pytest.raises(IsADirectoryError):
        write_together({Path("first"): b"new", Path("models"): b"new"})
    assert [one.name for one in tmp_path.iterdir()] == ["models"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_pipes_are_written_to_and_stay(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"new")
    reader.join(timeout=60.0)
    assert read == [b"new"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    there, link = tmp_path / "folder" / "file", tmp_path / "link"
    there.write_bytes(b"old")
    link.symlink_to(there)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert there.read_bytes() == link.read_bytes() == b"new"
