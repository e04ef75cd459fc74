"""Files of estimators of tables in which any field or array is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import KINDS, replaced, trained, write

import qsdp
from qsdp.exceptions import StorageError
from qsdp.networks.storage import ESTIMATOR_KIND, read_archive, write_archive

WRONG = [None, True, -1, 1.5, "x", "\ud800", [], {}, ["a"], [1.0], float("nan"), float("inf"), -1.0]


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Any:
    return trained(request.param)


def parts_of(model: Any, path: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    model.save(path)
    kind, header, arrays = read_archive(path, ESTIMATOR_KIND)
    return kind, header, dict(arrays)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a header."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def distinct_places(header: Any) -> list[tuple[Any, ...]]:
    """Return the places, at most two of those that differ only in their numbers in lists."""
    alike: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for place in places(header)[1:]:
        alike.setdefault(tuple("*" if isinstance(one, int) else one for one in place), []).append(place)
    return [place for group in alike.values() for place in group[:2]]


def test_every_field_of_the_header_is_checked(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    kind, header, arrays = parts_of(model, path)
    accepted, messages = [], set()
    for place in distinct_places(header):
        for value in WRONG:
            try:
                write_archive(path, kind, replaced(header, place, value), arrays)
            except (ValueError, UnicodeEncodeError):  # cannot be written either
                continue
            try:
                qsdp.load(path)
            except StorageError as error:
                messages.add(str(error).split(":", 1)[0])
            else:
                accepted.append((place, value))
    assert messages == {f"{str(path)!r} is not a valid estimator"}
    for place, value in accepted:
        assert replaced(header, place, value) == header or is_another(place, value), (place, value)


def is_another(place: tuple[Any, ...], value: Any) -> bool:
    """Whether a value is of the kind that a place in a header may hold."""
    *_, field = place
    if place[0] == "parameters":
        # What refitting would use; an old file without a parameter has its default.
        return len(place) == 2 or value == {}
    if place[0] == "provenance":
        return isinstance(value, str) or value == {}
    if place[:2] == ("table", "missing"):
        return isinstance(value, str) or value in ([], ["a"])
    if "categories" in place:
        # The first of two categories, which no expression names.
        return field == 0 and value is not None
    texts = {("table", "target"), ("table", "weights"), ("labels", "labels", 1), ("labels", "labels", 2)}
    absent = {("certificate", "objective"), ("table",), ("table", "digest")}
    positive = {("constant",), ("relaxation", "beta"), ("encoder", "parameters", "cut")}
    return (
        (value == "x" and place in texts)
        or (value is None and (place in absent or field in {"cut", "thousands"}))
        or (value == 1.5 and (place in positive or field == "scale"))
        or (type(value) is float and field in {"fill", "center", "low", "high"})
        or (value == {} and place in {("encoder", "dropped"), ("encoder", "parameters")})
    )


def test_fields_that_contradict_each_other(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    kind, header, arrays = parts_of(model, path)
    classes, columns = header["labels"] is not None, header["encoder"]["encoding"]["columns"]
    place, bound = ("encoder", "encoding", "columns"), header["certificate"]["lower_bound"]
    contradictions = [
        replaced(header, ("certificate", "lower_bound"), header["certificate"]["objective"] * 1.1),
        replaced(header, ("certificate", "lower_bound"), 0.5 * bound),
        replaced(header, ("table", "target"), columns[0]["name"]),
        replaced(header, ("table", "weights"), columns[0]["name"]),
        replaced(header, ("table", "weights"), header["table"]["target"]),
        replaced(header, ("table", "kind"), "number" if classes else None),
        replaced(header, ("table", "test_size"), 1.0),
        replaced(header, ("table", "seed"), -1),
        replaced(header, ("table", "digest"), "0" * 63),
        replaced(header, ("feature_names",), None),
        replaced(header, ("feature_names",), [column["name"] for column in columns[::-1]]),
        replaced(header, ("n_features",), 4),
        replaced(header, place, [*columns, columns[0]]),
        replaced(header, place, columns[:-1]),
        replaced(header, (*place, 0, "name"), "other"),
        replaced(header, ("encoder", "parameters", "categorical_features"), "from_dtype"),
        replaced(header, ("parameters", "encoding"), "none"),
        replaced(header, ("parameters", "activation"), "quadratic"),
        replaced(header, ("several",), True),
        replaced(header, ("relaxation",), None),
        replaced(header, ("relaxation", "lower_bound"), 0.0),
        replaced(header, ("relaxation", "improved_bound"), bound),
        replaced(header, ("relaxation", "improved_bound"), 1.01 * bound),
        replaced(header, ("relaxation", "levels"), 129),
        replaced(header, ("relaxation", "activation"), [0.0, 0.0, 0.0]),
        replaced(header, ("relaxation", "activation"), [1.0, 0.0, 0.0]),
        replaced(header, ("network", "activation"), "linear_quadratic"),
        replaced(header, ("labels",), {"type": "|O", "labels": ["a", "b", "c", "d"]}),
        replaced(header, ("labels",), {"type": "|O", "labels": ["b", "a"]}),
        replaced(header, ("estimator",), f"QuantizedNetwork{'Regressor' if classes else 'Classifier'}"),
        {**header, "more": 1},
        *({key: value for key, value in header.items() if key != left_out} for left_out in header),
    ]
    if classes:
        contradictions.append(replaced(header, ("labels", "labels"), ["1", "1"]))
    else:
        contradictions += [replaced(header, ("parameters", "loss"), loss) for loss in ("logistic", "cross_entropy")]
    for contradiction in contradictions:
        write_archive(path, kind, contradiction, arrays)
        with pytest.raises(StorageError, match="not a valid estimator"):
            qsdp.load(path)


def test_arrays_that_do_not_fit(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    kind, header, arrays = parts_of(model, path)
    Z, V, rho, weights = (arrays[f"relaxation.{name}"] for name in ("Z", "V", "rho", "weights"))
    U, W = arrays["network.U"], arrays["network.V"]
    indefinite, too_large, asymmetric, unequal, broken = (array.copy() for array in (Z, Z, Z, V, V))
    # With magnitudes that correlations have, of signs that they cannot have together.
    indefinite[0, :3, :3] = 0.9 * rho[0] * np.array([[0, 1, 1], [1, 0, -1], [1, -1, 0]])
    too_large[0, 0, 1] = too_large[0, 1, 0] = 3.0 * rho[0]
    asymmetric[0, 0, 1] += 1e-3 * rho[0]
    unequal[0, 0, 0] *= 1.0 + 1e-5
    broken[0, 0, 0] = math.nan
    changes: list[dict[str, Any]] = [
        *({"relaxation.Z": wrong} for wrong in (indefinite, too_large, asymmetric, Z[:, :-1], Z.astype(np.float32))),
        *({"relaxation.V": wrong} for wrong in (unequal, broken, V[0], np.zeros_like(V))),
        *({"relaxation.rho": wrong} for wrong in (-rho, 0.0 * rho, 2.0 * rho, np.append(rho, 1.0), rho + math.inf)),
        *({"relaxation.weights": wrong} for wrong in (-weights, weights[:, :-1], weights * math.nan)),
        {"network.U": U[:-1]},
        {"network.U": U.astype(np.int8)},
        {"network.V": np.hstack([W] * 2)},
        {"network.U": np.full_like(U, 255)},
        {"network.U": U[:0], "network.V": W[:0]},
        {"network.alpha": np.zeros(3)},
        {"network.alpha": np.array([math.inf])},
        {"network.alpha": np.array([1], dtype=np.int64)},
        {"network.alpha": np.ones((len(U), 7))},
        {"scaling.offset": arrays["scaling.offset"] * math.nan},
        {"scaling.centre": arrays["scaling.offset"] * math.nan},
        {"scaling.centre": np.ones(7)},
        {"scaling.scale": -arrays["scaling.scale"]},
        {"scaling.scale": np.ones(7)},
        {"ranges.low": arrays["ranges.low"][:-1]},
        {"ranges.high": arrays["ranges.high"] + math.inf},
        {"ranges.scores": np.ones(7)},
        {"importances": np.ones(7)},
        {"class_factors": np.ones(7)},
        {"extra": np.zeros(1)},
        {"relaxation.extra": np.zeros(1)},
        {"network.extra": np.zeros(1)},
    ]
    for change in changes:
        write_archive(path, kind, header, {**arrays, **change})
        with pytest.raises(StorageError, match="not a valid estimator"):
            qsdp.load(path)
    for missing in arrays:
        if missing.startswith(("importances", "calibration", "ranges.scores")):
            continue
        write_archive(path, kind, header, {name: arrays[name] for name in arrays if name != missing})
        with pytest.raises(StorageError, match="not a valid estimator"):
            qsdp.load(path)


def test_damaged_and_foreign_files(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:cut] for cut in (0, 4, 100, len(content) // 2, len(content) - 1)]
    for position in rng.integers(0, len(content), 40):
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(StorageError):
            qsdp.load(path)
    with pytest.raises(StorageError, match="not a qsdp file"):
        qsdp.load(write(tmp_path, "a,b\n1,2\n"))
