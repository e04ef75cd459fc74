"""Files that are no models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qsdp.tabular import TabularModel, load_model
from tabular_data import replaced

from qsdp.exceptions import StorageError
from qsdp.networks.storage import read_archive, write_archive

WRONG = [None, True, -1, 1.5, "x", "\ud800", [], {}, ["a"], [1.0], float("nan"), float("inf"), -1.0]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a header."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


#: Fields that are None in some model.
MAY_BE_NONE = {
    "notation",
    "activation",
    "improved_bound",
    "column",
    "class_weight",
    "fill",
    "categories",
    "value",
    "low",
    "high",
}


def test_every_field_of_the_header_is_checked(model: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    _, header, arrays = read_archive(path, "tabular-model")
    header["provenance"] = {"random_state": "0"}
    accepted, messages = [], set()
    for place in places(header)[1:]:
        for value in WRONG:
            try:
                write_archive(path, "tabular-model", replaced(header, place, value), arrays)
            except (ValueError, UnicodeEncodeError):  # cannot be written either
                continue
            try:
                load_model(path)
            except StorageError as error:
                messages.add(str(error).split(":", 1)[0])
            else:
                accepted.append(("markers" if "markers" in place else place[-1], value))
    assert messages == {f"{str(path)!r} is not a valid model"}
    # What remains are other texts where any text is right, and other numbers where any number is.
    texts, any_number = {"name", "column", "digest", "random_state", 0, 1, 2, None}, {"fill", "center", "low", "high"}
    not_negative = {"scale", "beta", "objective"}
    for field, value in accepted:
        allowed = (
            (isinstance(value, str) and field in texts)
            or (type(value) is float and field in any_number)
            or (value == 1.5 and field in not_negative)
            or (value is None and field in {1, 2, "objective", "classes"})
            # What was there already.
            or (value is None and field in MAY_BE_NONE)
            # The first of two categories, which no expression names.
            or (type(value) in {int, float, bool} and field == 0)
            or (value == {} and field in {"dropped", "provenance"})
            # Any numbers, and none for zeros.
            or (value in ([], [1.0]) and field == "offset")
            or (field == "markers" and (isinstance(value, str) or value in ([], ["a"])))
            or (type(value) is float and field in {0, 1, 2})
        )
        assert allowed, (field, value)


def test_fields_that_contradict_each_other(model: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    _, header, arrays = read_archive(path, "tabular-model")
    columns = header["encoder"]["columns"]
    contradictions = [
        replaced(header, ("lower_bound",), header["objective"] * 1.1),
        replaced(header, ("target", "name"), columns[0]["name"]),
        replaced(header, ("encoder", "columns"), [*columns, columns[0]]),
        replaced(header, ("encoder", "columns"), columns[:-1]),
        replaced(header, ("encoder", "dropped"), {columns[0]["name"]: "constant"}),
        replaced(header, ("target", "classes"), ["1", "1.0"]),
        replaced(header, ("target", "scale"), -2.0),
        replaced(header, ("relaxation", "lower_bound"), 0.0),
        replaced(header, ("relaxation", "improved_bound"), header["lower_bound"]),
        replaced(header, ("relaxation", "improved_bound"), 1.01 * header["lower_bound"]),
        replaced(header, ("relaxation", "levels"), 129),
        replaced(header, ("relaxation", "activation"), [0.0, 0.0, 0.0]),
        replaced(header, ("relaxation", "activation"), [1.0, 0.0, 0.0]),
        replaced(header, ("network", "activation"), "linear_quadratic"),
        replaced(header, ("target", "classes"), ["a", "b", "c", "d"]),
        {**header, "more": 1},
        {key: value for key, value in header.items() if key != "beta"},
    ]
    if model.target.classes is None:
        contradictions += [replaced(header, ("loss",), loss) for loss in ("logistic", "cross_entropy")]
    else:
        contradictions.append(replaced(header, ("target", "mean"), 0.5))
    for contradiction in contradictions:
        write_archive(path, "tabular-model", contradiction, arrays)
        with pytest.raises(StorageError, match="not a valid model"):
            load_model(path)


def test_arrays_that_do_not_fit(model: TabularModel, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    model.save(path)
    _, header, arrays = read_archive(path, "tabular-model")
    Z, V, rho, weights = (arrays[f"relaxation.{name}"] for name in ("Z", "V", "rho", "weights"))
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
        {"U": arrays["U"][:-1]},
        {"U": arrays["U"].astype(np.int8)},
        {"V": np.hstack([arrays["V"]] * 2)},
        {"U": np.full_like(arrays["U"], 255)},
        {"U": arrays["U"][:0], "V": arrays["V"][:0]},
        {"alpha": np.zeros(3)},
        {"alpha": np.array([math.inf])},
        {"alpha": np.array([1], dtype=np.int64)},
        {"alpha": np.ones((len(arrays["U"]), 7))},
        {"extra": np.zeros(1)},
    ]
    for change in changes:
        write_archive(path, "tabular-model", header, {**arrays, **change})
        with pytest.raises(StorageError, match="not a valid model"):
            load_model(path)
    for missing in arrays:
        write_archive(path, "tabular-model", header, {name: arrays[name] for name in arrays if name != missing})
        with pytest.raises(StorageError, match="not a valid model"):
            load_model(path)


def test_damaged_and_foreign_files(model: TabularModel, csv_file: Path, tmp_path: Path) -> None:
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
            load_model(path)
    model.network.save(path)
    with pytest.raises(StorageError, match="expected a 'tabular-model'"):
        load_model(path)
    with pytest.raises(StorageError):
        load_model(csv_file)
