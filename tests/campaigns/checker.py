"""Nothing wrong is accepted by `qsdp-check`, and no file makes it or a reader of the library fail otherwise than named.

A case takes a valid file of some kind (`_certificates`) and changes it: a field, several fields so that they still fit
together, the claims, or bytes. Digests are made right again but for a third of the byte corruptions, so that what is
behind them is tested. What `qsdp-check` accepts must be true of the problem in the file: the objective is the
network's, and the lower bound is no larger than the optimum over all neurons, both to the 1e-9 that it promises
(`_optimum`). What is not even a problem of the library counts as unknown.

Other cases corrupt files of networks, statistics and models, and read them: the library's own error, or an object.
"""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import qsdp
import qsdp_check
from campaigns._certificates import Arrays, Sample, body_of, file_of, samples, truth, with_digest
from campaigns._record import Outcome, one_thread
from qsdp import cli
from qsdp.networks.storage import read_archive, write_archive
from qsdp.tabular import load_model

__all__ = ["tested"]

#: Largest time and growth of memory that a small file may cost.
SECONDS, MEBIBYTES = 5.0, 64
TOLERANCE = 1e-9
#: Corruptions of bytes in one case.
CORRUPTIONS = 25
NAMED = (qsdp.QSDPError, FileNotFoundError, IsADirectoryError, PermissionError)


def tested(seed: int, index: int) -> Outcome:
    one_thread()
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if rng.random() < 0.25:
            _other_file(rng, outcome)
        else:
            _certificate(rng, outcome)
    return outcome


# -- certificates ---------------------------------------------------------------------------------------------------


def _certificate(rng: np.random.Generator, outcome: Outcome) -> None:
    known = samples()
    sample = known[rng.integers(len(known))]
    attack = str(rng.choice([*ATTACKS, "bytes"]))
    outcome.count("kind", sample.kind)
    if attack == "bytes":
        _byte_corruptions(sample, rng, outcome)
        return
    outcome.count("attack", attack)
    arrays = ATTACKS[attack](dict(sample.arrays), rng)
    if attack == BEHIND:
        contents = with_digest(_corrupted(body_of(sample.contents), rng))
    else:
        contents = file_of({name: array for name, array in arrays.items() if array is not _GONE})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.qsdp"
        path.write_bytes(contents)
        arguments = [str(path)]
        if sample.data is not None and rng.random() < 0.9:
            data = Path(folder) / "data.npz"
            given = _other_data(dict(sample.data), rng) if attack == "other data" else sample.data
            np.savez(data, **given)  # type: ignore[arg-type]
            arguments += ["--data", str(data)]
        code = _checked(arguments, outcome, sample, attack)
        if code == 0:
            _judge(arguments, contents, sample, attack, outcome)
        _read(lambda: qsdp.load_certificate(path), "certificate", outcome)


def _byte_corruptions(sample: Sample, rng: np.random.Generator, outcome: Outcome) -> None:
    """Corrupt the file as it is, many times: none may be accepted, or read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.qsdp"
        for _ in range(CORRUPTIONS):
            contents = _corrupted(sample.contents, rng)
            outcome.count("attack", "bytes")
            if contents == sample.contents:
                continue
            path.write_bytes(contents)
            code = _checked([str(path)], outcome, sample, "bytes")
            read = _read(lambda: qsdp.load_certificate(path), "certificate", outcome)
            if code == 0 or read is not None:
                outcome.wrong("accepted", of=sample.kind, attack="bytes")


def _checked(arguments: list[str], outcome: Outcome, sample: Sample, attack: str) -> int | None:
    """Return the exit code of the checker; anything but 0, 1 and 2 is wrong, and so is much time or memory."""
    said = io.StringIO()
    code = None
    with _watched(outcome, of=sample.kind, attack=attack):
        try:
            with redirect_stdout(said), redirect_stderr(said):
                code = qsdp_check.main(arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome.crashed("crash", error, of=sample.kind, attack=attack)
    outcome.count("verdict", {0: "yes", 1: "no", 2: "not to be read"}.get(code if code is not None else -1, "crash"))
    return code


@contextmanager
def _watched(outcome: Outcome, **of: str) -> Iterator[None]:
    """Find much time or memory wrong."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    seconds, grown = time.monotonic() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if seconds > SECONDS or grown > MEBIBYTES:
        outcome.wrong("time or memory", **of, seconds=seconds, mebibytes=grown)


def _judge(arguments: list[str], contents: bytes, sample: Sample, attack: str, outcome: Outcome) -> None:
    """Compare what was accepted with the truth."""
    if contents == sample.contents:
        outcome.count("accepted", "unchanged")
        return
    f, _ = qsdp_check.read(arguments[0], arguments[2] if len(arguments) > 1 else None)
    try:
        objective, error, optimum = truth(f)
    except (qsdp.QSDPError, ValueError, IndexError, OverflowError) as reason:
        outcome.count("accepted", f"{attack}: unknown, {type(reason).__name__}")
        return
    claimed, bound = float(f["objective"]), float(f["lower_bound"])
    allowed = TOLERANCE * max(objective, 1e-6 * optimum) * 1.01 + error
    if abs(claimed - objective) > allowed or bound > optimum + allowed:
        figures = {"claimed": [bound, claimed], "true": [optimum, objective]}
        outcome.wrong("accepted", of=sample.kind, attack=attack, **figures)
    outcome.count("accepted", f"{attack}: true")


# -- attacks --------------------------------------------------------------------------------------------------------


#: In place of a field: it is left out.
_GONE = np.zeros(0)


def _field(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    name = str(rng.choice(list(arrays)))
    return arrays | {name: _changed(arrays[name], rng)}


def _changed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    way = int(rng.integers(10))
    if way == 0:
        return _GONE
    if way == 1:
        return np.asarray(array[..., None] if rng.random() < 0.5 or not array.ndim else array[:-1])
    if way == 2:
        return array.astype(str) if rng.random() < 0.5 or array.dtype.kind == "U" else array.astype(np.float32)
    if way == 3 and array.ndim:
        return np.concatenate([array, array])
    if array.dtype.kind not in "fiub":
        return np.array("".join(chr(int(c)) for c in rng.integers(32, 127, int(rng.integers(0, 12)))))
    if not array.size:
        return np.array([float(rng.standard_normal())]) if array.dtype.kind == "f" else array
    changed = array.astype(float) if array.dtype.kind == "f" else array.copy()
    place = np.unravel_index(int(rng.integers(changed.size)), changed.shape)
    if array.dtype.kind == "f":
        return _changed_floats(changed, place, rng)
    if array.dtype.kind == "b":
        changed[place] = not changed[place]
    else:
        info = np.iinfo(changed.dtype)
        options = [-changed[place], changed[place] + 1, 0, info.max, info.min, int(rng.integers(-5, 6))]
        changed[place] = np.clip(options[rng.integers(len(options))], info.min, info.max)
    return changed


def _changed_floats(changed: np.ndarray, place: Any, rng: np.random.Generator) -> np.ndarray:
    kind = int(rng.integers(4))
    if kind == 0:
        return changed * rng.choice([0.0, -1.0, 0.5, 2.0, 1 + 1e-6, 1 - 1e-6, 1e-300, 1e300])
    if kind == 1:
        changed[place] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 5e-324, 1e308])
    elif kind == 2:
        changed[place] += rng.standard_normal() * 10.0 ** rng.uniform(-12, 2)
    else:
        changed += rng.standard_normal(changed.shape) * 10.0 ** rng.uniform(-14, 0)
    return changed


def _several(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    for name in rng.choice(list(arrays), size=int(rng.integers(2, 5)), replace=False):
        changed = _changed(arrays[str(name)], rng)
        if changed is not _GONE:
            arrays[str(name)] = changed
    return arrays


def _claims(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Claim more than is proven, by anything from rounding to a factor, or another objective."""
    share = 10.0 ** rng.uniform(-11, 0)
    if rng.random() < 0.7:
        arrays["lower_bound"] = np.array(float(arrays["lower_bound"]) * (1.0 + share))
    if rng.random() < 0.4:
        arrays["objective"] = np.array(float(arrays["objective"]) * (1.0 + float(rng.choice([-1.0, 1.0])) * share))
    if rng.random() < 0.3:
        arrays["bound_type"], arrays["arithmetic"] = np.array("exact"), np.array("verified")
    return arrays


def _other_data(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Give the proof other data: fewer rows, other units, other rows, other order."""
    name = "forms" if "forms" in arrays else "X"
    if name not in arrays:
        return arrays
    rows = [one for one in (name, "y", "sample_weight", "nu") if one in arrays and arrays[one].ndim]
    way = int(rng.integers(5))
    if way == 0:
        kept = np.delete(np.arange(len(arrays["y"])), int(rng.integers(len(arrays["y"]))))
        arrays |= {one: arrays[one][kept] for one in rows}
    elif way == 1:
        unit = float(rng.choice([0.5, 2.0, 1e-3, 1e3]))
        arrays[name] = arrays[name] * unit
        if rng.random() < 0.5 and str(arrays.get("loss", "")) in ("squared", "absolute", "huber"):
            arrays["y"] = arrays["y"] * unit**2
    elif way == 2:
        arrays[name] = arrays[name] + 10.0 ** rng.uniform(-12, 0) * rng.standard_normal(arrays[name].shape)
    elif way == 3:
        order = rng.permutation(len(arrays["y"]))
        arrays |= {one: arrays[one][order] for one in rows if rng.random() < 0.7}
    else:
        arrays["y"] = -arrays["y"]
    return arrays


def _problem(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Claim the same of another problem: beta, loss, levels, activation, weights."""
    way = int(rng.integers(5))
    if way == 0:
        arrays["beta"] = np.array(float(arrays["beta"]) * 10.0 ** rng.uniform(-1, 1))
    elif way == 1:
        arrays["loss"] = np.array(str(rng.choice(qsdp_check.LOSSES)))
        arrays["parameters"] = np.array([float(10.0 ** rng.uniform(-1, 1))])
        arrays |= {"interval": np.array([-1.0, 1.0]), "inverse_curvature": np.array(0.5), "label": np.array("mine")}
    elif way == 2:
        arrays["levels"] = np.int64(rng.integers(2, 6)) + np.zeros((), dtype=np.int64)
    elif way == 3:
        arrays["activation"] = rng.standard_normal(3) * (rng.random(3) < 0.7)
    else:
        arrays["sample_weight"] = 10.0 ** rng.uniform(-2, 2, len(arrays["y"])) if "y" in arrays else np.ones(3)
    return arrays


def _holes(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Leave a part of a tree out, take one twice, or make leaves of it that do not cover it."""
    lengths, signs = arrays["lengths"].tolist(), arrays["signs"].tolist()
    shifts, shifted = arrays["shifts"].tolist(), arrays["shifted"].tolist()
    N = arrays["order"].shape[1]
    leaves = []
    for k, has in zip(lengths, shifted, strict=True):
        own, signs = signs[:k], signs[k:]
        size = 1 + 2 * N - k if has else 0
        leaves.append((own, has, shifts[:size]))
        shifts = shifts[size:]
    place = int(rng.integers(len(leaves)))
    way = int(rng.integers(6))
    own, has, z = leaves[place]
    if way == 0 and len(leaves) > 1:
        leaves.pop(place)
    elif way == 1:
        leaves.append(leaves[place])
    elif way == 2 and own:
        flip = int(rng.integers(len(own)))
        leaves[place] = ([-s if i == flip else s for i, s in enumerate(own)], has, z)
    elif way == 3 and len(own) < N:
        leaves[place] = ([*own, 1] if own else [1, 1][: min(2, N)], False, [])
    elif way == 4 and z:
        leaves[place] = (own, True, (np.array(z) * rng.uniform(0.1, 1.0)).tolist())
    else:
        leaves[place] = (own, False, [])
    counts = arrays["leaves"].copy()
    counts[-1] += len(leaves) - len(lengths)
    arrays |= {
        "leaves": counts,
        "lengths": np.array([len(leaf[0]) for leaf in leaves], dtype=np.int64),
        "signs": np.array([s for leaf in leaves for s in leaf[0]], dtype=np.int8),
        "shifted": np.array([leaf[1] for leaf in leaves], dtype=bool),
        "shifts": np.array([v for leaf in leaves for v in leaf[2]], dtype=float),
    }
    if rng.random() < 0.3:
        arrays["order"] = rng.permuted(arrays["order"], axis=1)
    return arrays


def _cuts(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    N, lengths = arrays["order"].shape[1], arrays["lengths"]
    if "cuts" not in arrays:
        count = int(rng.integers(1, 4))
        entries = [int(rng.integers(1, min(4, N) + 1)) for _ in range(count)]
        size = 1 + 2 * N - int(lengths[0])
        return arrays | {
            "cuts": np.array([count] + [0] * (len(lengths) - 1)),
            "cut_lengths": np.array(entries),
            "cut_nodes": np.concatenate([rng.choice(size, size=k, replace=False) for k in entries]).astype(np.int32),
            "cut_values": rng.choice([-1, 1, 2], size=sum(entries)).astype(np.int8),
            "cut_weights": rng.exponential(size=count) * 10.0 ** rng.uniform(-6, 0),
        }
    name = str(rng.choice(["cut_weights", "cut_values", "cut_nodes", "cut_lengths", "cuts"]))
    changed = _changed(arrays[name], rng)
    if name == "cut_weights" and rng.random() < 0.5:
        changed = arrays[name] * 10.0 ** rng.uniform(-2, 2)
    return arrays | {name: changed}


#: The attack that changes bytes, of which the digest is made right again.
BEHIND = "bytes behind the digest"
#: What makes other arrays of those of a file.
ATTACKS: dict[str, Callable[[Arrays, np.random.Generator], Arrays]] = {
    "field": _field,
    "several fields": _several,
    "claims": _claims,
    "other data": _other_data,
    "other problem": _problem,
    "holes": _holes,
    "cuts": _cuts,
    BEHIND: lambda arrays, rng: arrays,
}


def _corrupted(contents: bytes, rng: np.random.Generator) -> bytes:
    data = bytearray(contents)
    way = int(rng.integers(5))
    start = int(rng.integers(len(data)))
    if way == 0:
        return bytes(data[:start])
    if way == 1:
        stop = min(len(data), start + int(rng.integers(1, 65)))
        data[start:stop] = rng.bytes(stop - start)
    elif way == 2:
        data[start:start] = rng.bytes(int(rng.integers(1, 65)))
    elif way == 3:
        del data[start : start + int(rng.integers(1, 65))]
    else:
        for place in rng.integers(len(data), size=int(rng.integers(1, 4))):
            data[place] ^= 1 << int(rng.integers(8))
    return bytes(data)


# -- other files ----------------------------------------------------------------------------------------------------


@cache
def _others() -> list[tuple[str, bytes, Callable[[Path], Any]]]:
    """Return files of the other kinds, and their readers."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    problem = qsdp.TrainingProblem(X, y, beta=0.5)
    network = qsdp.column_generation(problem).network
    statistics = qsdp.SufficientStatistics(keep=4, random_state=0).partial_fit(X, y)
    readers: dict[str, Callable[[Path], Any]] = dict.fromkeys(("bilinear", "integers", "polynomial"), qsdp.load_network)
    readers |= {"statistics": qsdp.SufficientStatistics.load, "model": load_model}
    rows = [f"{v:.3f},{'uv'[i % 2]},{'no' if v < 0 else 'yes'}" for i, v in enumerate(X[:, 0])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network.save(folder / "bilinear")
        shared = qsdp.BilinearNetwork([[1, 1, -1], [1, -1, 1]], [[1, 1, 1], [-1, 1, 1]], [0.5, 0.5])
        shared.save(folder / "integers", form="integers")
        qsdp.column_generation(problem, neurons="polynomial").network.save(folder / "polynomial")
        statistics.save(folder / "statistics")
        (folder / "table.csv").write_text("\n".join(["a,b,label", *rows]))
        fit = f"fit {folder / 'table.csv'} --target label --output {folder / 'model'} --beta 0.1"
        result = CliRunner().invoke(cli.app, fit)
        if result.exit_code:
            raise RuntimeError(f"qsdp fit has failed: {result.output}")
        return [(kind, (folder / kind).read_bytes(), reader) for kind, reader in readers.items()]


def _other_file(rng: np.random.Generator, outcome: Outcome) -> None:
    known = _others()
    kind, contents, reader = known[rng.integers(len(known))]
    outcome.count("kind", kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one"
        path.write_bytes(contents)
        if rng.random() < 0.5:
            path.write_bytes(changed := _corrupted(contents, rng))
            outcome.count("attack", "bytes")
            read = _read(lambda: reader(path), kind, outcome)
            if read is not None and changed != contents:
                outcome.wrong("accepted", of=kind, attack="bytes")
            return
        kinds = ("bilinear-network", "polynomial-network", "integer-form", "sufficient statistics", "tabular-model")
        stored, header, arrays = read_archive(path, *kinds)
        if rng.random() < 0.5 and arrays:
            name = str(rng.choice(list(arrays)))
            changed_array = _changed(arrays[name], rng)
            arrays = {**arrays, name: changed_array} if changed_array.dtype.kind in "fiub" else arrays
            outcome.count("attack", "array of an archive")
        else:
            header = _changed_header(header, rng)
            outcome.count("attack", "header of an archive")
        try:
            write_archive(path, stored, header, arrays)
        except (ValueError, TypeError, KeyError):
            return
        read = _read(lambda: reader(path), kind, outcome)
        if read is not None:
            _read(lambda: _used(read), f"use of a {kind}", outcome)


def _used(read: Any) -> Any:
    if isinstance(read, qsdp.SufficientStatistics):
        return qsdp.TrainingProblem.from_statistics(read, beta=1.0).objective
    network = getattr(read, "network", read)
    return network.predict(np.ones((2, network.n_inputs)))


def _changed_header(header: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return a header with one value changed, however deep."""
    copied = json.loads(json.dumps(header))
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    visit(copied)
    if not places:
        return copied
    node, key = places[rng.integers(len(places))]
    options = [None, True, -1, 0, 2**70, 1.5, -2.5, 1e308, "", "x", [], {}, [1], {"a": 1}, [[]], 10**9, "\ud800"]
    node[key] = options[rng.integers(len(options))]
    return dict(copied)


def _read(reader: Callable[[], Any], kind: str, outcome: Outcome) -> Any:
    """Return what is read, or None after an error that is named."""
    read = None
    with _watched(outcome, of=kind):
        try:
            read = reader()
            outcome.count("read", f"{kind}: read")
        except NAMED:
            outcome.count("read", f"{kind}: refused")
        except Exception as error:
            outcome.crashed("error", error, of=kind)
    return read
