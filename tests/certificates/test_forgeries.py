"""Forged certificates: each says something false, and is refused for it, in the field that says it."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qsdp
import qsdp_check

rng = np.random.default_rng(0)
X, Y = rng.integers(-3, 4, (12, 3)).astype(float), rng.integers(-4, 5, 12).astype(float)
PROBLEM = qsdp.TrainingProblem(X, Y, beta=0.5)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Return the fields of a valid certificate."""
    path = tmp_path_factory.mktemp("valid") / "c"
    qsdp.column_generation(PROBLEM).certificate.save(path)
    with np.load(io.BytesIO(path.read_bytes()[len(qsdp_check.MAGIC) + 65 :])) as archive:
        return dict(archive)


def with_digest(body: bytes) -> bytes:
    return qsdp_check.MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def file_of(arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return with_digest(stream.getvalue())


def answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], contents: bytes, data: dict[str, Any] | None = None, *more: str
) -> tuple[int, str]:
    (tmp_path / "c").write_bytes(contents)
    arguments = [str(tmp_path / "c"), *more]
    if data is not None:
        np.savez(tmp_path / "data.npz", **data)
        arguments += ["--data", str(tmp_path / "data.npz")]
    code = qsdp_check.main(arguments)
    said = capsys.readouterr()
    return code, said.out + said.err


DATA = ("X", "y")


def digest_only(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the digest of the data in place of the data."""
    rest = {name: array for name, array in fields.items() if name not in DATA}
    return rest | {"data_sha256": np.array(qsdp_check.digest_of({"X": X, "y": Y}))}


# -- whose data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i1", ">i2", "<i4", ">i8", "u1", ">u4", "u8", "<f4", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_users_are_cast_exactly(
    dtype: str, order: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.abs(X) % 2 if dtype == "?" else np.abs(X) if "u" in dtype else X
    problem = qsdp.TrainingProblem(rows, Y, beta=0.5)
    qsdp.column_generation(problem).certificate.save(tmp_path / "valid", include_data=False)
    data = {"X": np.array(rows, dtype, order=order), "y": Y.astype(">i2")}
    code, said = answer(tmp_path, capsys, (tmp_path / "valid").read_bytes(), data)
    assert code == 0, said
    assert f"X and y from {tmp_path / 'data.npz'}, all sample weights one" in said
    assert qsdp_check.digest_of({"X": rows, "y": Y}) in said


@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("entries", [np.float16, np.longdouble, complex, str])
def test_arrays_of_users_of_other_types_are_refused(
    name: str, entries: Any, fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"X": X, "y": Y}
    code, said = answer(tmp_path, capsys, file_of(digest_only(fields)), data | {name: data[name].astype(entries)})
    assert code != 0
    assert f"{name}: entries of type" in said


def test_integers_that_are_no_floats_are_refused(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for large in (2**53 + 1, 2**63 - 1, -(2**53) - 1):
        data = {"X": np.where(X[0, 0] == X, large, X.astype(np.int64)), "y": Y}
        code, said = answer(tmp_path, capsys, file_of(digest_only(fields)), data)
        assert (code, "X: an integer is not a float64" in said) == (1, True)


def test_weights_and_statistics_of_the_file_do_not_join_the_data(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file beside the digest of the user's data may not bring weights, forms or sums of its own."""
    heavy = qsdp.TrainingProblem(X, Y, beta=0.5, sample_weight=np.full(12, 100.0))
    qsdp.column_generation(heavy).certificate.save(tmp_path / "heavy")
    with np.load(io.BytesIO((tmp_path / "heavy").read_bytes()[len(qsdp_check.MAGIC) + 65 :])) as archive:
        forged = dict(archive)
    del forged["X"]
    forged["data_sha256"] = digest_only(fields)["data_sha256"]
    code, said = answer(tmp_path, capsys, file_of(forged), {"X": X, "y": Y})
    assert (code, said.startswith("no: objective: ")) == (1, True)
    zero = {"forms": np.zeros((12, 6)), "n_samples": np.int64(12), "rounding": np.array(1e-14), "table": np.eye(12)[
        np.triu_indices(12)], "form_sizes": np.full(6, 1e-100), "target_ratio": np.array(1.0)}  # fmt: skip
    high = {"nu": 2 * Y, "lower_bound": np.array(float(Y @ Y)), "objective": np.array(float(Y @ Y))}
    network = {"U": np.ones((1, 3), int), "V": np.ones((1, 3), int), "alpha": np.zeros(1)}
    code, said = answer(tmp_path, capsys, file_of(digest_only(fields) | zero | high | network), {"X": X, "y": Y})
    assert (code, said.startswith("no: lower_bound: ")) == (1, True)


@pytest.mark.parametrize("weights", [{}, {"sample_weight": np.ones(12, np.int8)}])
def test_weights_of_one_are_none(
    weights: dict[str, Any], fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_of(fields | {"sample_weight": np.ones(12)})
    code, said = answer(tmp_path, capsys, file, {"X": X, "y": Y} | weights)
    assert (code, "all sample weights one" in said) == (0, True), said
    assert qsdp_check.digest_of({"X": X, "y": Y}) in said


def test_archives_of_users_are_complete_and_have_no_other_names(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_of(digest_only(fields))
    for data, reason in (
        ({"X": X}, "y: "),
        ({"y": Y}, "X: "),
        ({"X": X, "y": Y, "weights": Y}, "'weights': "),
        ({"X": X, "y": Y, "gram": Y}, "'gram': "),
        ({"X": X, "forms": X, "y": Y}, "X: "),
        ({"images": np.ones((12, 2, 2), int), "y": Y}, "patches: "),
        ({"X": X, "y": Y, "sample_weight": -np.ones(12)}, "sample_weight: "),
    ):
        code, said = answer(tmp_path, capsys, file, data)
        assert (code, said.startswith(f"no: {reason}")) == (1, True), said


@pytest.mark.parametrize("name", ["data_sha256", "rows_sha256"])
def test_digests_of_other_data_are_not_printed(
    name: str, fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(tmp_path, capsys, file_of(fields | {name: np.array("0" * 64)}))
    assert (code, said.startswith(f"no: {name}: ")) == (1, True)


# -- one type of numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shifts", "nu", "alpha", "beta", "objective", "lower_bound", "y"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.longdouble])
def test_numbers_of_a_certificate_have_one_type(
    name: str, dtype: Any, fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(tmp_path, capsys, file_of(fields | {name: fields[name].astype(dtype)}))
    assert (code, said.startswith(f"no: {name}: ")) == (1, True)


@pytest.mark.parametrize("name", ["loss", "bound_type"])
def test_texts_of_a_certificate_are_little_endian(
    name: str, fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = fields[name].astype(fields[name].dtype.newbyteorder(">"))
    code, said = answer(tmp_path, capsys, file_of(fields | {name: other}))
    assert (code, said.startswith(f"no: {name}: ")) == (1, True)


def test_networks_have_neurons(fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = {name: fields[name][:0] for name in ("U", "V", "alpha")} | claims(float(Y @ Y), 0.0)
    code, said = answer(tmp_path, capsys, file_of(fields | empty))
    assert (code, said.startswith("no: alpha: the network has no neurons")) == (1, True)


@pytest.mark.parametrize("name", ["U", "V"])
@pytest.mark.parametrize("weight", [-(2**63), 2**62, 3, 0, -2])
def test_weights_are_levels(
    name: str, weight: int, fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = fields[name].astype(np.int64)
    wrong[0] = weight
    code, said = answer(tmp_path, capsys, file_of(fields | {name: wrong}))
    assert (code, said.startswith(f"no: {name}: ")) == (1, True)


def test_other_names_and_twice_the_same_are_refused(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(tmp_path, capsys, file_of(fields | {"note": np.zeros(1)}))
    assert (code, "'note.npy': there is no such field" in said) == (1, True)
    body = io.BytesIO(file_of(fields)[len(qsdp_check.MAGIC) + 65 :])
    with zipfile.ZipFile(body, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("alpha.npy", archive.read("alpha.npy"))
    code, said = answer(tmp_path, capsys, with_digest(body.getvalue()))
    assert (code, "two entries of the archive have one name" in said) == (1, True)


def test_archives_begin_with_an_entry(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NumPy takes a file that begins with other bytes for a pickle."""
    body = file_of(fields)[len(qsdp_check.MAGIC) + 65 :]
    code, said = answer(tmp_path, capsys, with_digest(b"\x80\x04N." + body))
    assert (code, said) == (1, "no: the archive begins with other bytes\n")


def test_headers_agree_with_their_sizes(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No array is made of the size that a header claims, and no loop is as long."""
    rest = file_of({name: array for name, array in fields.items() if name != "X"})
    for shape in ("(1000000000000, 3)", "(11, 3)", "(17592186044416, 0)", "(-12, 3)"):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
        header += " " * (117 - len(header)) + "\n"
        array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + X.tobytes()
        body = io.BytesIO(rest[len(qsdp_check.MAGIC) + 65 :])
        with zipfile.ZipFile(body, "a") as archive:
            archive.writestr("X.npy", array)
        code, said = answer(tmp_path, capsys, with_digest(body.getvalue()))
        assert (code, said.startswith("no: X: it")) in ((1, True), (1, said.startswith("no: X: its"))), said


# -- rounding --------------------------------------------------------------------------------------------


def claims(objective: float, bound: float) -> dict[str, Any]:
    return {"objective": np.array(objective), "lower_bound": np.array(bound)}


def single(alpha: float, d: int = 3) -> dict[str, Any]:
    return {"U": np.ones((1, d), int), "V": np.ones((1, d), int), "alpha": np.array([alpha])}


def test_predictions_that_cancel_are_computed_in_twice_the_precision(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, y = np.array([[1e17, 1.0, -1e17], [1e17, 3.0, -1e17]]), np.full(2, 0.25)
    forged = fields | {"X": rows, "y": y, "nu": np.zeros(2), "beta": np.array(1e-3)} | single(0.5)
    false = (0 - 0.25) ** 2 * 2 + 1e-3 * 3 * 0.5
    true = (0.5 - 0.25) ** 2 + (4.5 - 0.25) ** 2 + 1e-3 * 3 * 0.5
    code, said = answer(tmp_path, capsys, file_of(forged | claims(false, 0.0)))
    assert (code, said.startswith(f"no: objective: it is {true:.12g}, ")) == (1, True)
    assert answer(tmp_path, capsys, file_of(forged | claims(true, 0.0)))[0] == 0


def test_a_bad_network_buys_no_tolerance_for_the_bound(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alpha = 1e8
    objective = float(np.sum((alpha * X.sum(axis=1) ** 2 - Y) ** 2)) + 0.5 * 3 * alpha
    code, said = answer(tmp_path, capsys, file_of(fields | single(alpha) | claims(objective, float(Y @ Y) + 1.0)))
    assert (code, said.startswith("no: lower_bound: ")) == (1, True)


def test_sums_that_overflow_are_refused(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for changes in (
        {"X": np.where(X == 0, 1e100, X), "activation": np.array([1e100, 0.0, 0.0]), "nu": np.full(12, 1e110)},
        {"nu": np.full(12, 1e308)},
        {"shifted": np.ones(1, bool), "shifts": np.full(7, 1e308)},
        {"y": np.where(Y[0] == Y, 1e100, Y), "nu": np.where(Y[0] == Y, 1e300, 0.0)},
    ):
        code, said = answer(tmp_path, capsys, file_of(fields | single(0.0) | claims(float(Y @ Y), 1.0) | changes))
        assert code == 1, said


def test_products_that_underflow_count(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of 1e-100 have products whose sums are zero in floats, but not in truth."""
    y = np.full(12, 1e-100)
    forged = fields | {"X": np.full((12, 3), 1e-100), "y": y, "nu": 2 * y, "beta": np.array(1e-300)} | single(0.0)
    zero = float(y @ y)
    # One neuron of alpha = 1e-100 / (3e-100)^2 fits, so that the optimum is just below its price, 3e-300 alpha.
    price = 3e-300 / 9e-200 * 1e-100
    assert answer(tmp_path, capsys, file_of(forged | claims(zero, 0.99 * price)))[0] == 0
    for bound in (zero, 1.01 * price):
        code, said = answer(tmp_path, capsys, file_of(forged | claims(zero, bound)))
        assert (code, said.startswith("no: lower_bound: ")) == (1, True)


@pytest.mark.parametrize("beta", [1e305, 5e-324, -1.0, np.nan, np.inf])
def test_the_penalty_is_in_its_range(
    beta: float, fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(tmp_path, capsys, file_of(fields | {"beta": np.array(beta)}))
    assert (code, said.startswith("no: beta: ")) == (1, True)


# -- cost ------------------------------------------------------------------------------------------------


def test_many_linear_blocks_cost_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Matrices of their side would be 2 MB each."""
    side, R = 500, 4
    blocks = qsdp.Blocks(np.ones((2, side * R)), [side] * R, ["linear"] * R)
    problem = qsdp.TrainingProblem(blocks, np.array([1.0, 2.0]), beta=1e4)
    network = qsdp.BilinearNetwork(np.ones((1, side)), np.zeros((1, side)), [0.0], [0], [side] * R, ["linear"] * R)
    qsdp.certify(network, problem, bound_type="exact").save(tmp_path / "c")
    size = (tmp_path / "c").stat().st_size
    tracemalloc.start()
    code = qsdp_check.main([str(tmp_path / "c")])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 0, capsys.readouterr().out
    assert peak < 16 * size


def test_the_time_limit_covers_reading(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(tmp_path, capsys, file_of(fields), None, "--time-limit", "0")
    assert (code, "not decided in 0 seconds" in said) == (2, True)
