import dataclasses
import hashlib
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from qsdp.datasets import _fetch
from qsdp.exceptions import DatasetError

CONTENT = b"g,1.5,x\nb,?,y\n"
REMOTE = "/tiny-there/tiny.data"
FILE = _fetch.RawFile("uci/tiny/tiny.data", (f"http://127.0.0.1:1{REMOTE}",), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    path = tmp_path / FILE.local
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return tmp_path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder in use, and no QSDP_DATA."""
    path = tmp_path / "cache"
    monkeypatch.delenv("QSDP_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: path)
    monkeypatch.setattr(_fetch, "failed_downloads", None)
    return path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path != REMOTE:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.server.length or len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    """A server on this machine that serves `content` as the tiny file, `file`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.length, server.requests = CONTENT, None, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.file = dataclasses.replace(FILE, urls=(f"http://127.0.0.1:{server.server_port}{REMOTE}",))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_folder_is_read(folder):
    assert _fetch.read_raw(FILE) == (folder / FILE.local, CONTENT)


@pytest.mark.parametrize("damaged", [CONTENT[:-3], CONTENT + b"\n", b"", CONTENT.replace(b"x", b"z")])
def test_folder_with_a_damaged_file(folder, damaged):
    (folder / FILE.local).write_bytes(damaged)
    with pytest.raises(DatasetError, match="damaged") as caught:
        _fetch.read_raw(FILE)
    message = str(caught.value)
    assert str(folder / FILE.local) in message
    assert FILE.sha256 in message
    assert hashlib.sha256(damaged).hexdigest() in message
    assert (folder / FILE.local).read_bytes() == damaged  # the user's files are never touched


def test_folder_without_the_file_is_not_filled_by_a_download(folder, server):
    (folder / FILE.local).unlink()
    with pytest.raises(DatasetError, match="not found") as caught:
        _fetch.read_raw(server.file)
    for part in (str(folder / FILE.local), "QSDP_DATA", server.file.urls[0]):
        assert part in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize("empty", [None, ""])
def test_download_once(cache, server, capfd, monkeypatch, empty):
    said, handler = [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    monkeypatch.setattr(pooch.get_logger(), "handlers", [handler])
    if empty is not None:
        monkeypatch.setenv("QSDP_DATA", empty)
    for _ in range(2):
        assert _fetch.read_raw(server.file) == (cache / FILE.local, CONTENT)
    assert server.requests == [REMOTE]
    assert files_in(cache) == [FILE.local]
    assert capfd.readouterr() == ("", "")
    # pooch says what it downloads, once.
    assert [server.file.urls[0] in line for line in said] == [True]


def test_damaged_cache_is_replaced(cache, server):
    (cache / FILE.local).parent.mkdir(parents=True)
    (cache / FILE.local).write_bytes(CONTENT[:5])
    assert _fetch.read_raw(server.file)[1] == CONTENT
    assert (cache / FILE.local).read_bytes() == CONTENT
    assert files_in(cache) == [FILE.local]


def refused(cache, file):
    """The message of the one error, after checking that it left no folder."""
    with pytest.raises(DatasetError, match="cannot download") as caught:
        _fetch.read_raw(file)
    message = str(caught.value)
    for part in (file.urls[0], str(cache / FILE.local), "QSDP_DATA", FILE.local):
        assert part in message
    assert not cache.is_dir()
    return message


def test_download_with_a_wrong_checksum_leaves_nothing(cache, server):
    server.content = CONTENT.replace(b"x", b"z")
    assert FILE.sha256 in refused(cache, server.file)


def test_a_long_run_tries_a_file_once(cache, server, monkeypatch):
    server.content = b""
    monkeypatch.setattr(_fetch, "failed_downloads", {})
    assert refused(cache, server.file) == refused(cache, server.file)
    assert server.requests == [REMOTE]
    _fetch.failed_downloads = None
    refused(cache, server.file)
    assert server.requests == [REMOTE, REMOTE]


def test_download_that_breaks_off_leaves_nothing(cache, server):
    server.content, server.length = CONTENT[:5], len(CONTENT)
    refused(cache, server.file)
