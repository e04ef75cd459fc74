"""Writing of files: all or none, and errors that name the path of the user."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import qsdp

NETWORK = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5])


def test_folders_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for path in ("", ".", "models"):
        with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
            NETWORK.save(path)
    assert [one.name for one in tmp_path.iterdir()] == ["models"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_pipes_are_written_to_and_stay(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    NETWORK.save(pipe)
    reader.join(timeout=60.0)
    NETWORK.save(tmp_path / "file")
    assert read == [(tmp_path / "file").read_bytes()]
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file", pipe]


def test_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    there, link = tmp_path / "folder" / "file", tmp_path / "link"
    there.write_bytes(b"old")
    link.symlink_to(there)
    NETWORK.save(link)
    assert link.is_symlink()
    np.testing.assert_array_equal(qsdp.load_network(there).U, NETWORK.U)
