"""Coverage-guided fuzzing of both readers of certificates: `PYTHONPATH=tests python -m campaigns.fuzz --seconds 600`.

Needs atheris, which is no dependency of the project (`pip install atheris`). What atheris makes of its corpus is given
to `qsdp-check` and to `qsdp.load_certificate` as a file, as one behind a right digest, or as one array of a valid file,
behind right digests of all. What counts as wrong is what the campaign of the checker says: any error but those that are
named, more than 5 seconds or 64 MiB, and a certificate that is accepted and not true. The record holds the number of
executions, and is written every few seconds, since libFuzzer ends the process itself.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["qsdp_check", "qsdp.certificates"]):
    import qsdp
    import qsdp_check  # noqa: F401 (instrumented here, used by the campaign)
    from campaigns import checker
    from campaigns._certificates import body_of, samples, with_digest
    from campaigns._record import Outcome
    from qsdp._utils.files import write_whole

RECORD = Path(__file__).resolve().parent / "records" / "fuzz.json"
WAYS = ("file", "digest", "array")
#: Seconds between two writes of the record.
_PAUSE = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    for k in range(len(samples())):
        for way in range(len(WAYS)):
            (folder / f"{k}-{way}").write_bytes(bytes([way, k]) + _seed(k, way))
    limits = [f"-max_total_time={options.seconds}", "-timeout=60", "-rss_limit_mb=4096", "-max_len=20000"]
    atheris.Setup([sys.argv[0], *limits, str(folder)], _Fuzzer(options.out))
    atheris.Fuzz()


def _seed(k: int, way: int) -> bytes:
    sample = samples()[k]
    if WAYS[way] == "file":
        return sample.contents
    if WAYS[way] == "digest":
        return body_of(sample.contents)
    with zipfile.ZipFile(io.BytesIO(body_of(sample.contents))) as archive:
        return bytes([0]) + archive.read(archive.namelist()[0])


class _Fuzzer:
    """Reads what it is given, and counts."""

    def __init__(self, out: Path) -> None:
        self.out, self.began, self.saved = out, time.monotonic(), 0.0
        self.counts, self.verdicts = Counter[str](), Counter[str]()
        self.path = Path(tempfile.mkdtemp()) / "one.qsdp"

    def __call__(self, data: bytes) -> None:
        if len(data) < 3:
            return
        way, sample = WAYS[data[0] % len(WAYS)], samples()[data[1] % len(samples())]
        contents = self._file(way, sample.contents, data[2:])
        self.path.write_bytes(contents)
        outcome = Outcome()
        code = checker._checked([str(self.path)], outcome, sample, way)
        if code == 0:
            checker._judge([str(self.path)], contents, sample, way, outcome)
        checker._read(lambda: qsdp.load_certificate(self.path), "certificate", outcome)
        self.counts[way] += 1
        self.verdicts.update(f"{kind}: {name}" for kind, name in outcome.counts)
        if time.monotonic() - self.saved > _PAUSE or outcome.violations:
            self._save(outcome)
        if outcome.violations:
            raise AssertionError(outcome.violations)

    @staticmethod
    def _file(way: str, contents: bytes, data: bytes) -> bytes:
        if way == "file":
            return data
        if way == "digest":
            return with_digest(data)
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(body_of(contents))) as valid, zipfile.ZipFile(packed, "w") as archive:
            names = valid.namelist()
            chosen = names[data[0] % len(names)]
            for name in names:
                archive.writestr(name, data[1:] if name == chosen else valid.read(name))
        return with_digest(packed.getvalue())

    def _save(self, outcome: Outcome) -> None:
        self.saved = time.monotonic()
        record = {
            "seconds": round(self.saved - self.began),
            "executions": self.counts.total(),
            "ways": {way: self.counts[way] for way in WAYS},
            "counts": dict(sorted(self.verdicts.items())),
            "violations": outcome.violations,
        }
        write_whole(self.out, (json.dumps(record, indent=1, default=str) + "\n").encode())


if __name__ == "__main__":
    main()
