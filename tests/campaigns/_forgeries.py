"""Forgeries of certificates and of the data of users, by kind, with the answer where it is known beforehand.

Every forger takes a valid certificate with the bound that is proven, and returns a file, the archive of a user, and
whether this must be accepted: yes where nothing changes but the notation, no where the page about the format says so,
and None where the answer depends on the numbers.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from campaigns._certificates import body_of, file_of, with_digest
from campaigns._exact import TYPES, Arrays, Statement, used
from campaigns._valid import data_in, draw, without_data

Random = np.random.Generator


@dataclass(frozen=True, eq=False)
class Valid:
    """A valid certificate: its fields, with the bound that is proven, and the data of a user, if there are any."""

    kind: str
    fields: Arrays
    data: Arrays | None

    @property
    def contents(self) -> bytes:
        return file_of(self.fields)

    @cached_property
    def well_known(self) -> bool:
        """Whether floats know the objective: numbers that are far apart, and tiny losses, may be differences."""
        statement = Statement(used(self.fields, self.data))
        return not self.kind.endswith("extreme") and statement.objective > statement.zero / 1000


class Forged(NamedTuple):
    """A file, the archive of a user, and whether they must be accepted, or None."""

    contents: bytes
    data: Arrays | bytes | None
    accepted: bool | None


def valid(rng: Random, fixed: list[tuple[str, Arrays, Arrays | None]]) -> Valid:
    """Return a random certificate, or one of those that are fixed, with its data in the file, apart, or in both."""
    extreme = rng.random() < 0.15
    kind, f, data = fixed[rng.integers(len(fixed))] if rng.random() < 0.2 else draw(rng, extreme)
    if data is None and rng.random() < 0.6 and ("X" in f or "forms" in f):
        data = data_in(f)
    if data is not None and data_in(f) and "gram" not in f and rng.random() < 0.6:
        f = without_data(f, data)
    return Valid(f"{kind}, extreme" if extreme else kind, f, data)


def _forged(f: Arrays, data: Arrays | bytes | None, accepted: bool | None = None) -> Forged:
    return Forged(file_of(f), data, accepted)


def _picked(rng: Random, names: Any) -> str:
    return str(rng.choice(sorted(names)))


# -- whose data -----------------------------------------------------------------------------------------------------


def _user(rng: Random, v: Valid) -> Forged:
    """Let file and archive differ in what the data are."""
    f, data = v.fields, dict(v.data or data_in(v.fields) or draw(rng)[1])
    if not {"X", "forms", "images"} & set(data):
        data = data_in(draw(rng)[1])
    name, way = _picked(rng, data), int(rng.integers(9))
    if way == 0:
        # Something is missing; weights and the number of samples may be.
        needed = name != "sample_weight"
        return _forged(f, {other: array for other, array in data.items() if other != name}, False if needed else None)
    if way == 1:
        strange = str(rng.choice(["x", "Y", "weights", "gram", "products", "squares", "nu", "alpha", "X.npy", "beta"]))
        return _forged(f, data | {strange: data[name]}, False)
    if way == 2:
        renamed = str(rng.choice(["X ", "labels", "targets", "sample_weights", "x"]))
        return _forged(f, {renamed if other == name else other: array for other, array in data.items()}, False)
    if way == 3:
        # Two fields change places.
        other = _picked(rng, data)
        return _forged(f, data | {name: data[other], other: data[name]})
    if way == 4:
        # Another data set, whose digest is in the file.
        _, g, other = draw(rng)
        other = other or data_in(g)
        return _forged(_digested(f, other), other)
    if way == 5:
        # The file has data beside those of the user, and their digest.
        _, g, _ = draw(rng)
        return _forged({**_digested(f, data), **data_in(g)}, data)
    if way == 6:
        # One field of data in the file that is not among those of the user.
        _, g, _ = draw(rng)
        field = _picked(rng, data_in(g) or ["n_samples"])
        return _forged(f | {field: data_in(g).get(field, np.array(7))}, data)
    if way == 7:
        # Weights in the file and none in the archive, or the other way round.
        n = len(data.get("y", np.zeros(1)))  # sums have none
        weights = {"sample_weight": rng.integers(0, 4, n) / 2.0}
        if rng.random() < 0.5 and "forms" not in data:
            return _forged(_digested(f, data | weights), data | weights)
        return _forged(f | {"sample_weight": np.full(n, 100.0)}, data)
    return _forged(f, data | {name: _moved(rng, data[name])})


def _digested(f: Arrays, data: Arrays) -> Arrays:
    """Return a file with the digest of other data, if they have one."""
    try:
        return without_data(f, data)
    except (ValueError, KeyError, IndexError, OverflowError):
        return f


def _moved(rng: Random, array: np.ndarray) -> np.ndarray:
    """Return an array with one entry changed, rows exchanged, or a row less."""
    array, way = array.copy(), int(rng.integers(4))
    if way == 0 and array.ndim:
        return rng.permutation(array)
    if way == 1 and array.ndim:
        return array[1:]
    if way == 2 and array.ndim > 1:
        return np.ascontiguousarray(array.T)
    if array.size:
        where = np.unravel_index(int(rng.integers(array.size)), array.shape)
        step = rng.choice([1e-15, 1e-9, 1e-3, 1.0]) if array.dtype.kind == "f" else 1
        with np.errstate(all="ignore"):
            array[where] = array[where] * (1 + step) if array.dtype.kind == "f" else not array[where]
    return array


# -- types and shapes -----------------------------------------------------------------------------------------------

_DTYPES = ["?", *"bhilq", *"BHILQ", "f2", "f4", "f8", "g", "F", "D", "O", "U", "S", "M8[s]", "V8"]


def _types(rng: Random, v: Valid) -> Forged:
    """Write an array in another type, byte order or order of entries."""
    of_user = v.data is not None and rng.random() < 0.5
    arrays = v.data if of_user and v.data is not None else v.fields
    if "X" in arrays and rng.random() < 0.1:
        # Integers that are not floats, which no other error refuses.
        whole = np.rint(arrays["X"]).astype(str(rng.choice(["i8", "u8"])))
        whole.flat[int(rng.integers(whole.size))] = rng.choice([2**53 + 1, 2**60 + 1, 2**63 - 1])
        data = None if v.data is None else v.data | {"X": whole} if of_user else {**v.data, "X": whole.astype(float)}
        f = dict(v.fields) if of_user else v.fields | {"X": whole}
        f = {**f, **_true_claims(rng, f, data), "lower_bound": np.array(0.0)}
        return _forged(_digested(f, data) if of_user and data is not None else f, data, False)
    name = _picked(rng, arrays)
    array, order = arrays[name], str(rng.choice(["C", "F"]))
    dtypes = [np.dtype(name).newbyteorder(end) for name in _DTYPES for end in "<>"]
    if array.dtype.kind == "U":
        dtypes += [array.dtype.newbyteorder(">")] * len(dtypes)
    tried = [_cast(array, dtypes[i], order) for i in rng.permutation(len(dtypes))]
    # Half of them types that change no value.
    unchanged = [pair for pair in tried if pair[1] and pair[0].dtype != array.dtype]
    other, same = (unchanged if unchanged and rng.random() < 0.5 else tried)[0]
    kind, size = other.dtype.kind, other.dtype.itemsize
    real = kind in "biu" or (kind == "f" and size in (4, 8))
    if of_user:
        allowed = kind in "iu" if name in ("images", "patches") else real
    else:
        allowed = {
            "real": real,
            "float": kind == "f" and size == 8,
            "int": kind == "i",
            "bool": kind == "b",
            "text": kind == "U",
        }[TYPES[name]]
        allowed = allowed and other.dtype.isnative and other.flags.c_contiguous
    accepted = same or None if allowed else False
    if of_user:
        return _forged(v.fields, arrays | {name: other}, accepted)
    return _forged(arrays | {name: other}, v.data, accepted)


def _cast(array: np.ndarray, dtype: np.dtype[Any], order: Any) -> tuple[np.ndarray, bool]:
    """Return an array of another type, if there is one, and whether all entries are the same."""
    try:
        with np.errstate(all="ignore"):
            other = np.array(array.astype(dtype), order=order)
    except (ValueError, TypeError, OverflowError):
        return array, True
    return other, other.dtype.kind in "biufU" and bool(other.tolist() == array.tolist())


def _shapes(rng: Random, v: Valid) -> Forged:
    """Write an array with another number of axes, or without entries."""
    of_user = v.data is not None and rng.random() < 0.3
    arrays = v.data if of_user and v.data is not None else v.fields
    name = _picked(rng, arrays)
    array, way = arrays[name], int(rng.integers(5))
    scalar = not array.ndim
    if way == 0:
        other = array[None]
    elif way == 1:
        other = array[..., None]
    elif way == 2 and not scalar:
        other = array[:0]
    elif way == 3 and not scalar:
        other = array.ravel()[0] if array.size else array[None]
    elif array.ndim == 1:
        other = array[:-1] if rng.random() < 0.5 else np.concatenate([array, array[:1]])
    else:
        other = array.ravel()
    changed = arrays | {name: np.asarray(other)}
    accepted = False if scalar else None
    return _forged(v.fields, changed, accepted) if of_user else _forged(changed, v.data, accepted)


# -- archives -------------------------------------------------------------------------------------------------------


def _entries(rng: Random, v: Valid) -> Forged:
    """Write another archive of the same arrays: entries twice, aliased, compressed, or with other headers."""
    members = {f"{name}.npy": _entry(array) for name, array in v.fields.items()}
    name, way = _picked(rng, members), int(rng.integers(12))
    other = f"{_picked(rng, v.fields)}.npy"
    if way == 0:
        order = rng.permutation(sorted(members)).tolist()
        return Forged(with_digest(_archive([(one, members[one]) for one in order])), v.data, True)
    if way == 1:
        # Twice, with the entries of the same array or of another one, in any order.
        pairs = [*members.items(), (name, members[other])]
        return Forged(with_digest(_archive([pairs[i] for i in rng.permutation(len(pairs))])), v.data, False)
    if way == 2:
        strange = str(
            rng.choice([name.removesuffix(".npy"), f"a/{name}", f"{name}.npy", "", "note.npy", f"{name} ", "ü"])
        )
        return Forged(with_digest(_archive([*members.items(), (strange, members[name])])), v.data, False)
    if way == 3:
        method = int(rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
        return Forged(with_digest(_archive(list(members.items()), {name: method})), v.data, False)
    if way == 4 and name != other:
        # One local header for two names: that of a removed entry is an alias.
        members.pop(other)
        return Forged(with_digest(_archive(list(members.items()), alias=(other, name))), v.data, False)
    if way == 5:
        # An entry within the bytes of another one.
        return Forged(with_digest(_nested(members, name, other)), v.data, False)
    if way == 6:
        array = v.fields[name.removesuffix(".npy")]
        shape = (*array.shape[1:], *array.shape[:1]) if array.ndim > 1 else array.shape
        entry = str(rng.choice(["2.0", "3.0", "longer", "shorter", "more", "huge", "negative", "axes", "pickle"]))
        shapes = {"longer": (2**40,), "huge": (2**62, 2**62), "negative": (-1,), "axes": (1,) * 70, "more": (0, 2**40)}
        header = _header(array, shapes.get(entry, shape), 1 if entry[0] not in "23" else int(entry[0]))
        contents = header + (array.tobytes() if entry != "shorter" else array.tobytes()[:-1])
        members[name] = b"\x80\x04N." if entry == "pickle" else contents
        # Empty arrays have no byte less, and arrays of another shape may be another problem.
        known = entry not in ("shorter",) or bool(array.size)
        return Forged(with_digest(_archive(list(members.items()))), v.data, False if known else None)
    if way == 7:
        members[name] += rng.bytes(int(rng.integers(1, 9)))
        return Forged(with_digest(_archive(list(members.items()))), v.data, False)
    if way == 8:
        body, where = bytearray(body_of(v.contents)), int(rng.integers(4))
        start = body.rindex(b"PK\x01\x02")
        # Flags, method, checksum or size of the last entry of the directory.
        struct.pack_into("<H" if where < 2 else "<I", body, start + (8, 10, 16, 20)[where], int(rng.integers(1, 2**16)))
        return Forged(with_digest(bytes(body)), v.data, None)
    if way == 9:
        body = body_of(v.contents)
        added = rng.bytes(int(rng.integers(1, 99)))
        return Forged(with_digest(added + body if rng.random() < 0.5 else body + added), v.data, None)
    if way == 10 and v.data is not None:
        return Forged(v.contents, *_user_archive(rng, v.data))
    contents = v.contents
    line = contents.index(b"\n") + 1 + int(rng.integers(64))
    changed = contents[:line] + bytes([contents[line] ^ 1 << int(rng.integers(8))]) + contents[line + 1 :]
    return Forged(changed, v.data, False)


def _user_archive(rng: Random, data: Arrays) -> tuple[bytes, bool | None]:
    """Return the data of a user in another archive, and whether it must be accepted."""
    members, way = [(f"{name}.npy", _entry(array)) for name, array in data.items()], int(rng.integers(6))
    if way < 3:
        method = (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[way]
        return _archive(members, dict.fromkeys(dict(members), method)), way == 0
    if way == 3:
        return members[0][1], False
    if way == 4:
        return rng.bytes(200), False
    return _archive([*members, ("y.npy", _entry(data["y"] * 2.0))]), None


def _entry(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def _header(array: np.ndarray, shape: tuple[int, ...], version: int) -> bytes:
    text = f"{{'descr': {array.dtype.str!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text


def _archive(
    members: list[tuple[str, bytes]], methods: dict[str, int] | None = None, alias: tuple[str, str] | None = None
) -> bytes:
    """Return an archive, of which some entries are compressed, or one has the place of another."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, contents in members:
            archive.writestr(zipfile.ZipInfo(name), contents, (methods or {}).get(name, zipfile.ZIP_STORED))
        if alias is not None:
            info = zipfile.ZipInfo(alias[0])
            first = archive.getinfo(alias[1])
            for field in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(info, field, getattr(first, field))
            archive.filelist.append(info)
    return stream.getvalue()


def _nested(members: dict[str, bytes], outer: str, inner: str) -> bytes:
    """Return an archive where an entry lies in the extra field of another one."""
    name, contents = inner.encode(), members[inner]
    sizes = (zlib.crc32(contents), len(contents), len(contents), len(name), 0)
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, *sizes) + name + contents
    extra = struct.pack("<2H", 0xCAFE, len(local)) + local
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for other, entry in members.items():
            if other != inner:
                info = zipfile.ZipInfo(other)
                info.extra = extra if other == outer else b""
                archive.writestr(info, entry)
        if outer != inner:
            holder = archive.getinfo(outer)
            info = zipfile.ZipInfo(inner)
            info.header_offset = holder.header_offset + 30 + len(outer) + 4
            info.CRC, info.compress_size, info.file_size = sizes[:3]
            holder.extra = b""
            archive.filelist.append(info)
    return stream.getvalue()


# -- numbers --------------------------------------------------------------------------------------------------------

#: Exponents of the largest magnitude that is allowed, of fields without and with packed rows.
_RANGES = {"X": (100, 200), "y": (100, 200), "sample_weight": (100, 100), "activation": (100, 100)}
_RANGES |= {"beta": (300, 300), "alpha": (300, 300), "omega": (100, 100), "parameters": (100, 100), "forms": (200, 200)}


def _ranges(rng: Random, v: Valid) -> Forged:
    """Give a field the largest magnitude of any exponent, and claim what is true of it, and a bound."""
    f = dict(v.fields)
    names = [name for name in _RANGES if name in f and np.any(f[name]) and f[name].dtype.kind in "fiu"]
    name = str(rng.choice(names))
    limit = _RANGES[name]["sizes" in f or "forms" in f]
    e = float(rng.choice([-limit, limit]) + rng.uniform(-3, 3)) if rng.random() < 0.6 else float(rng.uniform(-320, 308))
    top = np.abs(f[name].astype(float)).max()
    with np.errstate(all="ignore"):
        f[name] = f[name] / top * 10.0 ** min(e, 308)
    if not np.all(np.isfinite(f[name])):
        return Forged(v.contents, v.data, True)
    largest = float(np.abs(f[name]).max())
    inside = largest == 0 or 10.0**-limit <= largest <= 10.0**limit
    # Huber's delta, beta and factors are positive.
    inside = inside and not (largest == 0 and name in ("beta", "omega", "parameters"))
    only_huber = name == "parameters" and str(f["loss"]) != "huber"
    data = None if v.data is None else {n: f.get(n, array) for n, array in v.data.items()}
    f = _digested(f, data) if data is not None and "data_sha256" in f else f
    f |= _true_claims(rng, f, data)
    return _forged(f, data, None if inside or only_huber else False)


def _extremes(rng: Random, v: Valid) -> Forged:
    """Make some entries so large or small that sums overflow, products underflow or terms cancel, and claim a bound."""
    f, n = dict(v.fields), int(rng.integers(1, 3))
    f |= _true_claims(rng, f, v.data)
    # What is printed is false, too, if too much is proven: no claim need be.
    f["lower_bound"] = np.asarray(f["objective"] * float(rng.choice([0.0, 1.0])))
    if "X" in f and v.data is None and f["X"].shape[1] > 1 and "sizes" not in f and rng.random() < 0.3:
        # Two columns cancel in all neurons: floats may find the predictions of the network without neurons.
        x, last = f["X"].astype(float), f["X"].shape[1] - 1
        x[:, 0] = 10.0 ** rng.integers(6, 18)
        x[:, last] = -x[:, 0]
        f["X"] = x
        for name in ("U", "V"):
            f[name] = f[name].copy()
            f[name][:, last] = f[name][:, 0]
        statement = Statement(f)
        claimed = statement.zero + statement.penalty * statement.magnitudes
        return _forged(f | {"objective": np.array(float(claimed)), "lower_bound": np.array(0.0)}, None)
    for name in rng.choice(["nu", "scores", "shifts", "cut_weights", "form_sizes", "table", "steps", "mixture"], n):
        if name in f and f[name].size:
            f[name] = f[name].copy()
            some = rng.random(f[name].shape) < rng.random()
            f[name][some] = rng.choice([1e308, -1e308, 1e300, 1e154, 5e-324, 1e-300, np.inf, np.nan, 0.0], some.sum())
    return _forged(f, v.data)


def _true_claims(rng: Random, f: Arrays, data: Arrays | None) -> Arrays:
    """Return the objective of a network, and a bound between zero and it."""
    try:
        objective = float(Statement(used(f, data)).objective)
    except (ValueError, KeyError, IndexError, OverflowError, ZeroDivisionError):
        return {}
    share = float(rng.choice([0.0, 1e-12, 1e-3, 1.0]))
    return {"objective": np.array(objective), "lower_bound": np.array(objective * share)}


def _claims(rng: Random, v: Valid) -> Forged:
    """Claim more than is proven, or another objective, by steps of a tenth of what is allowed, or by factors."""
    f = dict(v.fields)
    statement = Statement(used(f, v.data))
    objective, zero, b = statement.objective, statement.zero, Fraction(float(f["lower_bound"]))
    if objective > 10**300:
        return Forged(v.contents, v.data, None)
    steps = Fraction(int(rng.choice([-9, -5, 5, 9, 11, 20, 100, 10**6])), 10)
    if rng.random() < 0.5:
        claimed = objective + steps / 10**9 * max(objective, zero / 10**6)
        f["objective"] = np.array(float(claimed))
    else:
        claimed = b + steps / 10**9 * min(objective, zero)
        f["lower_bound"] = np.array(float(claimed))
    # The bound is known to twelve digits.
    known = False if steps > 1 else True if abs(steps) < 1 else None
    return _forged(f, v.data, claimed >= 0 and known if v.well_known else None)


def _weights(rng: Random, v: Valid) -> Forged:
    """Give a first-layer weight a value that is not a level, or a neuron a block that there is not."""
    f = dict(v.fields)
    name = str(rng.choice(["U", "V"] + ["block"] * ("block" in f)))
    array, L = f[name].astype(np.int64), int(f["levels"]) - 1
    j, *column = (int(i) for i in np.unravel_index(int(rng.integers(array.size)), array.shape))
    if name == "block":
        values, levels = [-1, len(f["sizes"]), 2**62, -(2**63), 256, 2**32], set()
    elif "sizes" in f:
        r = int(f["block"][j])
        inside = column[0] < f["sizes"][r] and not (name == "V" and f["linear"][r])
        values, levels = [0, 1, -1, 2, -2, 3, -3, 2**62, -(2**63), 255, 257], {-1, 1} if inside else {0}
    else:
        lift = int(np.any(f["activation"][1:]))
        levels = {-1, 1} if column[0] >= array.shape[1] - lift else set(range(-L, L + 1, 2))
        values = [L + 1, -L - 1, L + 2, -L - 2, L - 1, 1 - L, 0, 2**62, -(2**63), 2**63 - 1, 256 + L, 2**32 - L]
    array[(j, *column)] = rng.choice(sorted(set(values) - levels))
    f |= {name: array, "lower_bound": np.array(0.0)}
    if name != "block":
        # What would be true if the weight were allowed.
        f |= {field: array for field, array in _true_claims(rng, f, v.data).items() if field == "objective"}
    return _forged(f, v.data, False)


def _dual(rng: Random, v: Valid) -> Forged:
    """Move the dual vector a little or far, so that it may leave its domain, and claim more."""
    f = dict(v.fields)
    name = "nu" if "nu" in f else "scores"
    nu, way = f[name].copy(), int(rng.integers(5))
    if way == 0:
        nu *= 1 + 10.0 ** rng.uniform(-15, 0.3)
    elif way == 1 and nu.size:
        nu.flat[int(rng.integers(nu.size))] += float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-17, 1))
    elif way == 2:
        nu = -nu
    elif way == 3:
        nu = rng.permuted(nu)
    else:
        nu = np.nextafter(nu, rng.choice([-np.inf, np.inf], nu.shape))
    f[name] = nu
    for other in {"steps", "mixture"} & set(f) if rng.random() < 0.3 else ():
        f[other] = -f[other]
    if rng.random() < 0.4:
        f["lower_bound"] = np.array(float(f["objective"]) * float(rng.choice([1.0, 1 - 1e-10, 0.999])))
    return _forged(f, v.data)


def _cut_vectors(rng: Random, v: Valid) -> Forged:
    """Give cuts negative weights, even sums, other coordinates or more weight."""
    if "cuts" not in v.fields or not v.fields["cut_weights"].size:
        return _dual(rng, v)
    f = v.fields | {"lower_bound": np.array(0.0)}
    name = str(rng.choice(["cut_weights", "cut_values", "cut_nodes"]))
    if name == "cut_weights":
        return _forged(f | {name: f[name] * float(rng.choice([-1.0, -100.0, 0.0, 100.0, np.inf]))}, v.data)
    if name == "cut_values":
        return _forged(f | {name: f[name] * int(rng.choice([0, 2, 3, -1]))}, v.data)
    return _forged(f | {name: f[name] + int(rng.integers(-3, 4))}, v.data)


def _problem(rng: Random, v: Valid) -> Forged:
    """Claim the same of another problem, with the objective that the network has there."""
    f, way = dict(v.fields), int(rng.integers(6))
    if way == 0:
        f["beta"] = f["beta"] * 10.0 ** rng.uniform(-2, 2)
    elif way == 1:
        f["loss"], f["parameters"] = np.array(str(rng.choice(list(_TERMS)))), rng.random(int(rng.integers(0, 2)))
    elif way == 2:
        f["levels"] = np.array(rng.choice([1, 2, 3, 5, 128, 129, -1, 2**62]))
    elif way == 3:
        f["activation"] = rng.integers(-2, 3, 3) / 2.0
    elif way == 4 and "omega" in f:
        f["omega"] = f["omega"] * rng.choice([0.5, 0.999999, 2.0], f["omega"].shape)
    elif "linear" in f:
        f["linear"] = ~f["linear"]
    f |= {name: array for name, array in _true_claims(rng, f, v.data).items() if name == "objective"}
    return _forged(f, v.data)


_TERMS = ("squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy", "pinball", "")


def _stated(rng: Random, v: Valid) -> Forged:
    """Change what the file states of sums and statistics, or sums themselves."""
    names = {"gram", "products", "squares", "rounding", "n_samples", "table", "form_sizes", "target_ratio", "forms"}
    f, present = dict(v.fields), names & set(v.fields)
    if not present:
        return _dual(rng, v)
    name = _picked(rng, present)
    factor = float(rng.choice([0.0, -1.0, 0.5, 1 - 1e-12, 1 + 1e-12, 1.5, 1e150, 1e-150, np.inf, np.nan]))
    with np.errstate(all="ignore"):
        if name == "n_samples":
            f[name] = np.array(rng.choice([0, -1, 1, 2**62]))
        elif f[name].ndim and rng.random() < 0.7:
            f[name] = f[name].copy()
            f[name].flat[int(rng.integers(f[name].size))] *= factor
        else:
            f[name] = f[name] * factor
    data = v.data if v.data is None or rng.random() < 0.5 else {n: f.get(n, array) for n, array in v.data.items()}
    if rng.random() < 0.5:
        f |= _true_claims(rng, f, data)
    return _forged(f, data)


FORGERS: dict[str, Callable[[Random, Valid], Forged]] = {
    "data of a user": _user,
    "types": _types,
    "shapes": _shapes,
    "entries": _entries,
    "ranges": _ranges,
    "extremes": _extremes,
    "steps of claims": _claims,
    "first-layer weights": _weights,
    "dual vector": _dual,
    "vectors of cuts": _cut_vectors,
    "another problem": _problem,
    "sums and statistics": _stated,
}
