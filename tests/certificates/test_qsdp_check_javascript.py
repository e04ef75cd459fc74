"""The checker in JavaScript gives the answers of `qsdp_check`: to valid files, to attacks, to every changed byte."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns._certificates import Arrays, Sample, body_of, file_of, samples, simple_blocks, with_digest
from campaigns.checker import _GONE, ATTACKS, _corrupted, _stretched
from export.javascript_engines import needs
from sklearn.datasets import load_digits
from test_block_files import FORGERIES, contents_of
from test_block_files import saved as saved

import qsdp
import qsdp_check

pytestmark = needs("node")

CHECKER = Path(__file__).parents[2] / "docs" / "playground" / "qsdp_check.js"
#: Kinds of files of the campaign that the checker reads.
KINDS = ("blocks, rows", "blocks, hinge", "blocks, cross-entropy")
MAIN = """
import { readFileSync, writeFileSync } from "node:fs";
import { check } from "./qsdp_check.mjs";
const bytes = (path) => path && new Uint8Array(readFileSync(path));
const jobs = JSON.parse(readFileSync("jobs.json"));
writeFileSync("answers.json", JSON.stringify(jobs.map(([file, data]) => check(bytes(file), bytes(data)))));
"""


def answers(jobs: list[tuple[Path, Path | None]], folder: Path) -> list[dict[str, Any]]:
    """Return the answers of the checker in JavaScript to files and their data."""
    (folder / "qsdp_check.mjs").write_bytes(CHECKER.read_bytes())
    (folder / "main.mjs").write_text(MAIN)
    (folder / "jobs.json").write_text(json.dumps([[str(file), data and str(data)] for file, data in jobs]))
    subprocess.run(["node", "main.mjs"], cwd=folder, check=True, timeout=300)
    found: list[dict[str, Any]] = json.loads((folder / "answers.json").read_text())
    return found


def python_answer(file: Path, data: Path | None) -> tuple[str, str]:
    """Return the verdict of `qsdp_check` and what it says."""
    said = io.StringIO()
    with redirect_stdout(said), np.errstate(all="ignore"):
        code = qsdp_check.main([str(file), *(() if data is None else ("--data", str(data)))])
    return {0: "yes", 1: "no", 2: "undecided"}[code], said.getvalue()


def without_names(text: str) -> str:
    """Return a message without its numbers and names, which both write in their own way or in another order."""
    text = re.sub(r"(the loss|the entries of) .* (is unknown|have)", r"\1 # \2", text)
    return re.sub(r"-?(\d[\d.e+-]*|inf(inity)?|nan)", "#", text, flags=re.IGNORECASE)


def compare(jobs: list[tuple[Path, Path | None]], folder: Path) -> list[str]:
    """Compare all answers and return the reasons of the checker in JavaScript, empty after a yes."""
    reasons = []
    for (file, data), found in zip(jobs, answers(jobs, folder), strict=True):
        verdict, said = python_answer(file, data)
        reasons.append(found.get("reason", ""))
        if "by qsdp-check only" in reasons[-1]:
            # What it does not know is named, whatever the file is worth.
            assert {"sizes", "gram"} & set(contents_of(file)) != {"sizes"}
            continue
        assert found["verdict"] == verdict, (said, found)
        malformed = "the file is malformed"
        if verdict == "no" and malformed not in said and malformed not in found["reason"]:
            expected = said.removeprefix("no: ").strip().replace(str(data), "the data given")
            assert without_names(found["reason"]) == without_names(expected)
        if verdict == "yes":
            bound = float(re.search(r"lower bound  ([\d.e+-]+)", said)[1])
            assert found["bound"] == pytest.approx(bound, rel=1e-11, abs=1e-15)
            assert found["digest"] in said
    return reasons


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A file of 60 images of three digits, which holds a digest of the images only."""
    images, labels = load_digits(n_class=3, return_X_y=True)
    images, labels = images[:60].reshape(-1, 8, 8).astype(np.uint8), labels[:60]
    blocks = qsdp.encoding.Patches(2, regions=2, downsample=1).fit_transform(images)
    problem = qsdp.TrainingProblem(blocks, labels, beta=1.0, loss="cross_entropy")
    certificate = qsdp.column_generation(problem.with_beta(0.05 * qsdp.beta_max(problem))).certificate
    path = tmp_path_factory.mktemp("digits") / "c"
    certificate.save(path, include_data=False)
    return Sample("images", path.read_bytes(), contents_of(path), {"images": images, "y": labels})


@pytest.fixture(scope="module")
def known(digits: Sample) -> list[Sample]:
    return [*(sample for sample in samples() if sample.kind in KINDS), digits]


def written(folder: Path, contents: bytes, data: Arrays | None = None, name: str = "c") -> tuple[Path, Path | None]:
    (folder / name).write_bytes(contents)
    if data is None:
        return folder / name, None
    np.savez(folder / f"{name}.npz", **data)  # type: ignore[arg-type]
    return folder / name, folder / f"{name}.npz"


def test_valid_files(known: list[Sample], tmp_path: Path) -> None:
    jobs = [written(tmp_path, one.contents, one.data, str(i)) for i, one in enumerate(known)]
    jobs += [written(tmp_path, file_of(one.arrays), one.data, f"again {i}") for i, one in enumerate(known)]
    assert compare(jobs, tmp_path) == [""] * 8


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_of_the_campaign(known: list[Sample], attack: str, tmp_path: Path) -> None:
    rng, jobs = np.random.default_rng(len(attack)), []
    for i in range(40):
        sample = known[i % len(known)]
        arrays = ATTACKS[attack](dict(sample.arrays), rng)
        arrays = _stretched(arrays, rng) if rng.random() < 0.5 else arrays
        contents = file_of({name: array for name, array in arrays.items() if array is not _GONE})
        jobs.append(written(tmp_path, contents, sample.data, str(i)))
    reasons = compare(jobs, tmp_path)
    assert sum(bool(one) for one in reasons) > 10


def test_shifts_that_are_the_mean_of_others(tmp_path: Path) -> None:
    """What v gains and u loses cancels in the mean of a proof and its mirror image; what both lose does not."""
    problem = simple_blocks("squared", 0)
    network = qsdp.column_generation(problem).network
    qsdp.certify(network, problem, qsdp.solve_relaxation(problem, tol=1e-9)).save(tmp_path / "c")
    arrays = contents_of(tmp_path / "c")
    # The first block has the largest side, and a leaf of a shift, in (1, v, u).
    N = int(arrays["sizes"].max())
    assert arrays["lengths"][0] == 0
    assert arrays["shifted"][0]
    change = np.zeros(arrays["shifts"].size)
    change[1 : 1 + N], change[1 + N : 1 + 2 * N] = 0.1 * arrays["shifts"].max(), -0.1 * arrays["shifts"].max()
    lower = np.where(change < 0.0, change, 0.0)
    jobs = [
        written(tmp_path, file_of(arrays | {"shifts": arrays["shifts"] + moved}), None, str(i))
        for i, moved in enumerate((change, -change, lower))
    ]
    reasons = compare(jobs, tmp_path)
    assert reasons[:2] == ["", ""]
    assert "is proven, not" in reasons[2]


def test_other_images_are_refused(digits: Sample, tmp_path: Path) -> None:
    images, y = digits.data["images"], digits.data["y"]
    moved, labels = images.copy(), y.copy()
    moved[3, 4, 4] ^= 1
    labels[5] = (labels[5] + 1) % 3
    others = [{"images": moved, "y": y}, {"images": images, "y": labels}, {"images": images[:-1], "y": y[:-1]}]
    others += [{"images": images.astype(float), "y": y}, {"images": images.reshape(-1, 4, 16), "y": y}, {"y": y}]
    others += [{"images": images, "y": y, "sample_weight": np.r_[np.full(59, 1.0), 2.0]}]
    jobs = [written(tmp_path, digits.contents, one, str(i)) for i, one in enumerate(others)]
    assert all(compare([*jobs, written(tmp_path, digits.contents, None, "none")], tmp_path))
    weights = {**digits.data, "sample_weight": np.ones(60)}
    assert compare([written(tmp_path, digits.contents, weights, "ones")], tmp_path) == [""]


def test_forgeries(saved: tuple[Path, Path, str, float], tmp_path: Path) -> None:
    jobs = []
    for forgery in FORGERIES:
        arrays = contents_of(saved[0])
        arrays["lower_bound"] = np.array(qsdp_check.check(arrays)[1])
        forgery(arrays)
        contents = file_of({name: array for name, array in arrays.items() if array is not None})
        jobs.append(written(tmp_path, contents, name=forgery.__name__))
    assert all(compare(jobs, tmp_path))


def test_no_byte_can_be_changed(known: list[Sample], tmp_path: Path) -> None:
    rng, jobs = np.random.default_rng(0), []
    for i in range(100):
        sample = known[i % len(known)]
        contents = _corrupted(sample.contents, rng)
        while contents == sample.contents:
            contents = _corrupted(sample.contents, rng)
        jobs.append(written(tmp_path, contents, sample.data, str(i)))
    assert all(one["verdict"] != "yes" for one in answers(jobs, tmp_path))


def test_bytes_behind_the_digest(known: list[Sample], tmp_path: Path) -> None:
    """What it accepts, `qsdp_check` accepts; it may be stricter with damaged archives."""
    rng, jobs = np.random.default_rng(1), []
    for i in range(300):
        sample = known[i % len(known)]
        jobs.append(written(tmp_path, with_digest(_corrupted(body_of(sample.contents), rng)), sample.data, str(i)))
    for job, found in zip(jobs, answers(jobs, tmp_path), strict=True):
        if found["verdict"] == "yes":
            assert python_answer(*job)[0] == "yes"


def test_what_it_does_not_read_is_named(tmp_path: Path) -> None:
    kinds = {sample.kind: sample for sample in samples()}
    named = {
        "squared": "data without blocks", "blocks, sums": "files of sums", "statistics": "files of statistics",
        "batches, hinge": "files of batches", "tree": "data without blocks",
    }  # fmt: skip
    jobs = [written(tmp_path, kinds[kind].contents, name=str(i)) for i, kind in enumerate(named)]
    found = answers(jobs, tmp_path)
    assert [one["reason"] for one in found] == [f"{what} are checked by qsdp-check only" for what in named.values()]
    assert {one["verdict"] for one in found} == {"undecided"}
    (tmp_path / "text").write_text("no certificate")
    assert answers([(tmp_path / "text", None)], tmp_path)[0]["reason"] == "it is not a certificate of qsdp, version 2"


PARTS = """
import { writeFileSync, readFileSync } from "node:fs";
import { exactSum, sha256, packedRows } from "./qsdp_check.mjs";
const { sums, texts, images, patches } = JSON.parse(readFileSync("given.json"));
const rows = patches.map((one) => [...packedRows({ ...images, values: Float64Array.from(images.values) }, one).values]);
const digests = texts.map((text) => sha256(new TextEncoder().encode(text)));
writeFileSync("found.json", JSON.stringify({ sums: sums.map((own) => exactSum(own.map(Number))), rows, digests }));
"""


def test_sums_digests_and_rows_are_those_of_python(tmp_path: Path) -> None:
    import math

    from test_block_files import PATCHES

    rng = np.random.default_rng(0)
    sums = [(rng.normal(size=k) * 10.0 ** rng.uniform(-20, 20, k)).tolist() for k in range(40) for _ in range(5)]
    sums += [[1.0, 2.0**-53, 2.0**-106], [1.0, 2.0**-53], [1e308, 1.0, -1e308], [1.0, 1e100, 1.0, -1e100], []]
    sums += [[*own, *(-np.array(own[::-1]))] for own in sums[-40:]]
    texts = ["", "abc", *("x" * k for k in (55, 56, 63, 64, 65, 1000))]
    images = rng.integers(0, 256, (3, 9, 8, 2))
    given = {"sums": sums, "texts": texts, "patches": PATCHES,
             "images": {"shape": images.shape, "kind": "i", "values": images.ravel().tolist()}}  # fmt: skip
    (tmp_path / "given.json").write_text(json.dumps(given))
    (tmp_path / "qsdp_check.mjs").write_bytes(CHECKER.read_bytes())
    (tmp_path / "parts.mjs").write_text(PARTS)
    subprocess.run(["node", "parts.mjs"], cwd=tmp_path, check=True, timeout=100)
    found = json.loads((tmp_path / "found.json").read_text())
    assert [float(own) for own in found["sums"]] == [math.fsum(own) for own in sums]
    assert found["digests"] == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    for own, patches in zip(found["rows"], PATCHES, strict=True):
        assert own == qsdp_check.packed_rows(images, list(patches)).astype(float).ravel().tolist()
