"""Coverage-guided fuzzing of both readers of certificates: `PYTHONPATH=tests python -m campaigns.fuzz --seconds 600`.

Needs atheris, which is no dependency of the project (`pip install atheris`). What atheris makes of its corpus is given
to `qsdp-check` and to `qsdp.load_certificate` as a file, as one behind a right digest, or as one array of a valid file,
behind right digests of all. What counts as wrong is what the campaign of the checker says: any error but those that are
named, more than 5 seconds or 64 MiB, and a certificate that is accepted and not true. The record is written every few
seconds, since libFuzzer ends the process itself.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Annotated

import atheris
import typer

with atheris.instrument_imports(include=["qsdp_check", "qsdp.certificates"]):
    import qsdp_check  # noqa: F401 (instrumented here, used by the campaign)
    from campaigns import checker
    from campaigns._certificates import body_of, samples, with_digest
    from campaigns._record import Outcome, Record

RECORD = Path(__file__).resolve().parent / "records" / "fuzz.json"
WAYS = ("file", "digest", "array")


def main(seconds: Annotated[int, typer.Option()] = 600, out: Annotated[Path, typer.Option()] = RECORD) -> None:
    """Fuzz for so many seconds."""
    record, folder = Record("fuzz", 0), Path(tempfile.mkdtemp())
    for k, sample in enumerate(samples()):
        body = body_of(sample.contents)
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            seeds = (sample.contents, body, bytes([0]) + archive.read(archive.namelist()[0]))
        for way, contents in enumerate(seeds):
            (folder / f"{k}-{way}").write_bytes(bytes([way, k]) + contents)
    (path := Path(tempfile.mkdtemp()) / "one.qsdp").touch()
    began = saved = time.monotonic()

    def read(data: bytes) -> None:
        nonlocal saved
        if len(data) < 3:
            return
        way, sample, outcome = WAYS[data[0] % len(WAYS)], samples()[data[1] % len(samples())], Outcome()
        outcome.count("attack", way)
        checker.given(path, _file(way, sample.contents, data[2:]), sample, way, outcome)
        record.add(outcome)
        if time.monotonic() - saved > 5.0 or outcome.violations:
            saved = time.monotonic()
            record.seconds = saved - began
            record.save(out)
        if outcome.violations:
            raise AssertionError(outcome.violations)

    limits = [f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=4096", "-max_len=20000"]
    atheris.Setup([sys.argv[0], *limits, str(folder)], read)
    atheris.Fuzz()


def _file(way: str, contents: bytes, data: bytes) -> bytes:
    if way == "file":
        return data
    if way == "digest":
        return with_digest(data)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body_of(contents))) as valid, zipfile.ZipFile(packed, "w") as archive:
        names = valid.namelist()
        for name in names:
            archive.writestr(name, data[1:] if name == names[data[0] % len(names)] else valid.read(name))
    return with_digest(packed.getvalue())


if __name__ == "__main__":
    typer.run(main)
