"""The page "What was tried against it", made of the records of the campaigns and nothing by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.campaigns._record import Record

__all__ = ["RECORDS", "TARGET", "page"]

RECORDS = Path(__file__).resolve().parent / "records"
_RESULTS = Path(__file__).resolve().parents[1] / "results"
_VERSIONS = _RESULTS / "determinism.json"
TARGET = Path(__file__).resolve().parents[2] / "docs" / "tried.md"

_HEAD = """\
# What was tried against it

Made by `python -m benchmarks.campaigns page` from the records of the campaigns, nothing by hand. A campaign tries random cases, each made
from a seed and a number; `--only NUMBER` tries one again, `--resume --out RECORD` goes on. What a campaign finds is mended in its cause, and
the record begins anew, or says what was mended: a record with violations is one of an open fault.
"""  # noqa: E501

_INTRODUCTIONS = {
    "soundness": """\
## Bounds and proofs

Small problems over all losses, levels and activations, several outputs, sample weights, rows and columns of sizes 1e-8 to 1e8 and data of
1e-95 to 1e95, integers, duplicates, zeros and subnormal numbers, beta from 1e-6 of the largest useful one up, and of 1e-305 and 1e290. The
optimum over *all* neurons is found by enumeration and Clarabel, and evaluated in extended precision from the definitions. Compared with it are
relaxations of all solvers, early stops among them, certificates in float and verified arithmetic, of batches of rows as well, column
generation, and the files of all these, as `qsdp-check` and the library read them.
""",  # noqa: E501
    "checker": """\
## The checker, and files

Valid certificates of every kind, of which a field, some fields, the data, the problem, the claims, the tree or the cuts are changed, most
behind a digest that is right; and bytes. What `qsdp-check` still accepts must be true of the problem in the file, by enumeration. Networks,
statistics and models are damaged as well: their readers raise the library's own errors, or return an object. Of each file a reading may take
5 seconds, and 64 MiB more than before, else it counts as a violation; what takes longer by its nature, a tree of up to 2^40 vectors, ends at the
`--time-limit` of `qsdp-check`.
""",  # noqa: E501
    "faults": """\
## Faults

Processes that save are killed, or may write some bytes only, as on a full disk; every command that writes is killed and interrupted at any
moment, and finds a full disk; every long function is interrupted, and threads that it leaves are looked for; workers of joblib (cross-validation) and of Dask (statistics) are killed; and calls in threads and in processes
are compared with the same ones alone. No process is left behind by any of these.
""",  # noqa: E501
}

_NAMES = {
    "loss": "Loss",
    "levels": "Levels",
    "outputs": "Outputs",
    "activation": "Activation",
    "data": "Data",
    "scales": "Sizes far apart",
    "weights": "Sample weights",
    "beta": "Beta",
    "target": "Targets",
    "step": "What was run",
    "bounds": "Lower bounds compared",
    "objectives": "Objectives recomputed",
    "column generation": "Column generation ended",
    "solver": "Relaxations ended",
    "time ended": "Time ended at a look at the clock",
    "files": "Files",
    "optimum": "The best bound reaches the optimum",
    "kind": "Files of",
    "attack": "Attack",
    "verdict": "Verdict of the checker",
    "accepted": "What was accepted",
    "read": "Readers",
    "fault": "Fault",
    "kill": "Killed while saving",
    "full disk": "Full disk while saving",
    "command": "Commands",
    "stopped": "How commands ended",
    "full disk of a command": "Commands on a full disk",
    "together": "In threads at once",
    "interrupt": "Interrupted",
    "interrupted": "How it ended",
    "worker killed": "Workers killed, and what came of it",
    "processes": "Processes",
}

_FUZZING = """\
## Coverage-guided fuzzing

Atheris, no dependency of the project, gives both readers of certificates, `qsdp-check` and the library's, what its corpus of valid files leads to
(`python -m benchmarks.campaigns.fuzz`): as a file, behind a digest that is right, or as one array of a valid file. Hypothesis does the same with
fields and bytes in `tests/certificates/test_qsdp_check.py`.
"""  # noqa: E501

_TAIL = """\
## What was found and mended

The first 14,300 cases of the soundness campaign and 10,200 of the checker's (19,000 corruptions of bytes among them), on the versions before
these records, found

* column generation "optimal" where its certificate left a gap: the loop did not allow for the rounding that the certificate allows for;
* networks whose weights cancel so far that floats have no digit of their objective: none is returned now if having no neurons is better, none is
  called optimal, and no certificate of one is saved;
* bounds of a dual vector that a projection, or scaling, moved by more than they allowed for (cross-entropy with multipliers of 1e-10; rows that
  cancel), and of batches, whose multipliers others compute again from the scores;
* divisions by zero, overflows and infinities at sizes of 1e50 and beyond, in five places;
* a certificate with a penalty beyond floats, which `qsdp-check` accepted with any objective: an infinite objective has an infinite tolerance;
* a certificate of column generation whose time was long over, refused by `qsdp-check`: where rows are of 1e9, moving a dual vector into its domain
  moved the matrix of its tree by three times the largest value, and the tree was not evaluated anew (found by ending the time at every look at
  the clock);
* exceptions of `qsdp-check` and of the reader of statistics at entries of wrong kinds.

No lower bound was above the optimum by more than `qsdp-check` allows for rounding, and no verified bound at all.

Seconds and memory of calls beside their limits are on pages of their own: [time limits](results/time_limits.md), [memory](results/memory.md).

## Determinism

What a seed means, and where it is tested:

| | promised | tested in |
|---|---|---|
| same machine | the same bits | `tests/test_pipeline.py`, `tests/column_generation`, scikit-learn's checks of estimators |
| calls in several threads, or processes, at once | the results of one after the other, bit for bit | `tests/test_faults.py`, the campaign of faults |
| threads of `n_jobs` | the results of one, bit for bit | `tests/test_sampling.py`, `tests/refinement/test_polish.py` |
| other processors (OpenBLAS kernels Prescott, Haswell, SkylakeX) | less than 1 % of the sampled signs differ, second layers to 1e-4 | `tests/test_seeds.py` |
| other versions of Python, with the same NumPy and SciPy | the same bits | measured, see below |
| other versions of NumPy and SciPy | bounds hold; bits may differ | not promised; measured, see below |
| another BLAS, as MKL | bounds hold; bits may differ | not promised, not measured: wheels with MKL exist of NumPy 1.21 and SciPy 1.7 only, which are too old |
| files: the same object | the same bytes | `tests/networks/test_storage.py`, `tests/certificates` |
| files of earlier versions | read for ever | `tests/fixtures/test_compatibility.py` |
"""  # noqa: E501


def page(folder: Path = RECORDS) -> str:
    """Return the page of the records in a folder."""
    return "\n".join([_HEAD, *_parts(folder), *_fuzzed(folder), _TAIL, *_versions()])


def _fuzzed(folder: Path) -> Iterator[str]:
    """Yield what coverage-guided fuzzing has tried."""
    record = json.loads((folder / "fuzz.json").read_text(encoding="utf-8"))
    violations = f"**{len(record['violations'])} violations**" if record["violations"] else "no violation"
    ways = record["ways"]
    yield _FUZZING
    minutes = f"{record['seconds'] / 60:.0f} minutes"
    kinds = f"files {ways['file']:,}, digests made right {ways['digest']:,}, arrays {ways['array']:,}"
    yield f"**{record['executions']:,} executions** of both readers ({minutes}; {kinds}): {violations}."
    yield ""


def _versions() -> Iterator[str]:
    """Yield what one seed gave with several versions, kernels and threads."""
    yield "One seed on one machine (`python benchmarks/determinism.py` with each of these): digests of all weights, of"
    yield "the first-layer signs in brackets, and the certified bound, of an estimator with its defaults and of 200"
    yield "sampled neurons. Where signs are equal and weights are not, second layers differ in their last digits."
    yield ""
    yield "| Python | NumPy | SciPy | kernels of OpenBLAS | threads | estimator | bound | sample | bound |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in json.loads(_VERSIONS.read_text(encoding="utf-8"))["rows"]:
        cells = [row[name] for name in ("python", "numpy", "scipy", "kernels", "threads")]
        for fit in ("estimator", "sample"):
            cells += [f"`{row[fit]}` (`{row[f'{fit}_signs']}`)", f"{row[f'{fit}_bound']:.10g}"]
        yield "| " + " | ".join(map(str, cells)).replace("openblas ", "") + " |"
    yield ""


def _parts(folder: Path) -> Iterator[str]:
    for name, introduction in _INTRODUCTIONS.items():
        path = folder / f"{name}.json"
        if path.is_file():
            yield introduction
            yield "\n".join(_figures(Record.load(path)))


def _figures(record: Record) -> Iterator[str]:
    violations = "no violation" if not record.n_violations else f"**{record.n_violations} violations**"
    minutes = f"{record.seconds / 60:.0f} minutes of processor"
    yield f"**{record.cases:,} cases** (seed {record.seed}, {minutes}): {violations}."
    if record.mended:
        causes = Counter(f"{one.get('step', one.get('of'))}, {one.get('error', one['what'])}" for one in record.mended)
        yield "Mended on the way, in the library or the campaign, and gone when tried again: "
        yield "; ".join(f"{cause} ({count})" for cause, count in causes.items()) + "."
    yield ""
    yield "| | |"
    yield "|---|---|"
    for kind, counts in record.counts.items():
        if kind in _NAMES:
            yield f"| {_NAMES[kind]} | {_listed(counts)} |"
    for kind in ("refused", "above by rounding"):
        if kind in record.counts:
            total = sum(record.counts[kind].values())
            name = "Refused with an error" if kind == "refused" else "Above the optimum, within rounding"
            yield f"| {name} | {total:,} |"
    yield ""
    if record.distances and record.campaign == "soundness":
        yield from _tightness(record)


def _listed(counts: dict[str, int]) -> str:
    return "; ".join(f"{name.replace(': ', ', ')}: {count:,}" for name, count in counts.items())


def _tightness(record: Record) -> Iterator[str]:
    """Yield the table of how far below the optimum bounds were, as a share of it; counts add up from left to right."""
    edges = list(next(iter(record.distances.values())))
    yield "How far bounds were below the best objective known, as a share of it: how many of them at most so far."
    yield ""
    yield "| bound | " + " | ".join(edges) + " |"
    yield "|---|" + "---|" * len(edges)
    for kind, classes in sorted(record.distances.items()):
        sums = [sum(list(classes.values())[: k + 1]) for k in range(len(edges))]
        yield f"| {kind} | " + " | ".join(f"{value:,}" for value in sums) + " |"
    yield ""
