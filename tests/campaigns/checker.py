"""Nothing wrong is accepted by `qsdp-check`, and no file makes it or a reader of the library fail otherwise than named.

Half of the cases make a valid certificate (`_valid`), which must be accepted, and forge it (`_forgeries`), where the
answer is often known beforehand. A quarter takes a file of the library of some kind (`_certificates`) and changes it:
a field, several fields so that they still fit together, the claims, or bytes. Digests are made right again but for a
third of the byte corruptions, so that what is behind them is tested. Of what `qsdp-check` accepts, every number that
it prints is compared with one in fractions (`_exact`, `_printed`), and the lower bound with a dual value that is
computed exactly. Where the dual vector follows from rows, it is compared with the optimum over all neurons
(`_optimum`).

Other cases corrupt files of networks, statistics and models, and read them: the library's own error, or an object.
"""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import qsdp
import qsdp_check
from campaigns._certificates import Arrays, Sample, body_of, file_of, samples, simple_blocks, truth, with_digest
from campaigns._exact import arrays_of, used
from campaigns._forgeries import FORGERS, valid
from campaigns._printed import differences, lines_of
from campaigns._record import Outcome, one_thread
from qsdp import cli
from qsdp.networks import NETWORK_KINDS
from qsdp.networks.storage import read_archive, write_archive

#: Largest time and growth of memory that a small file may cost.
SECONDS, MEBIBYTES = 5.0, 64
#: Corruptions of bytes in one case.
CORRUPTIONS = 25
NAMED = (qsdp.QSDPError, FileNotFoundError, IsADirectoryError, PermissionError)
Random = np.random.Generator


def tested(seed: int, index: int) -> Outcome:
    one_thread()
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    with warnings.catch_warnings(), np.errstate(all="ignore"), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        path = Path(folder) / "one.qsdp"
        # Half of the cases are new certificates, a quarter changes those of the library, and a quarter other files.
        rng.choice([_forgeries, _forgeries, _certificate, _other_file])(path, rng, outcome)
    return outcome


# -- certificates ---------------------------------------------------------------------------------------------------


def _forgeries(path: Path, rng: Random, outcome: Outcome) -> None:
    """Check a valid certificate, claim the bound that is proven, and try three forgeries of it."""
    made = valid(rng, [(sample.kind, sample.arrays, sample.data) for sample in samples()])
    outcome.count("kind", made.kind)
    code, said = checked(path, made.contents, outcome, made.kind, "none", made.data, made.well_known or None)
    if code != 0:
        return
    bound = float(dict(lines_of(said, str(_data_path(path))))["lower"][0])
    made = replace(made, fields=made.fields | {"lower_bound": np.array(bound)})
    for attack in rng.choice(list(FORGERS), 3, replace=False).tolist():
        forged = FORGERS[attack](rng, made)
        outcome.count("attack", attack)
        outcome.count("known beforehand", {True: "yes", False: "no", None: "by numbers"}[forged.accepted])
        checked(path, forged.contents, outcome, made.kind, attack, forged.data, forged.accepted)
        if rng.random() < 0.3:
            _read(lambda: qsdp.load_certificate(path), "certificate", outcome)


def _certificate(path: Path, rng: Random, outcome: Outcome) -> None:
    sample = samples()[rng.integers(len(samples()))]
    attack = str(rng.choice([*ATTACKS, BEHIND, "bytes"]))
    outcome.count("kind", sample.kind)
    if attack == "bytes":
        # The file as it is, corrupted many times: none may be accepted, or read.
        for _ in range(CORRUPTIONS):
            contents = _corrupted(sample.contents, rng)
            outcome.count("attack", attack)
            if contents != sample.contents and any(given(path, contents, sample, attack, outcome)):
                outcome.wrong("accepted", of=sample.kind, attack=attack)
        return
    outcome.count("attack", attack)
    if attack == BEHIND:
        contents = with_digest(_corrupted(body_of(sample.contents), rng))
    else:
        arrays = ATTACKS[attack](dict(sample.arrays), rng)
        arrays = _stretched(arrays, rng) if rng.random() < 0.5 else arrays
        contents = file_of({name: array for name, array in arrays.items() if array is not _GONE})
    data = sample.data if sample.data is not None and rng.random() < 0.9 else None
    if data is not None and attack == "other data":
        data = _other_data(dict(data), rng)
    given(path, contents, sample, attack, outcome, data)


def given(
    path: Path, contents: bytes, sample: Sample, attack: str, outcome: Outcome, data: Arrays | None = None
) -> tuple[bool, bool]:
    """Give a file to both readers, and compare with the truth what is accepted; return whether they take it."""
    code, _ = checked(path, contents, outcome, sample.kind, attack, data)
    return code == 0, _read(lambda: qsdp.load_certificate(path), "certificate", outcome) is not None


def _data_path(path: Path) -> Path:
    return path.with_name("data.npz")


def checked(
    path: Path,
    contents: bytes,
    outcome: Outcome,
    kind: str,
    attack: str,
    data: Arrays | bytes | None = None,
    expected: bool | None = None,
) -> tuple[int | None, str]:
    """Let `qsdp-check` answer, and compare what it accepts with the truth; return its status and what it prints."""
    path.write_bytes(contents)
    arguments, code, said = [str(path)], None, io.StringIO()
    if data is not None:
        if isinstance(data, bytes):
            _data_path(path).write_bytes(data)
        else:
            np.savez(_data_path(path), **data)  # type: ignore[arg-type]
        arguments += ["--data", str(_data_path(path))]
    with _watched(outcome, of=kind, attack=attack), redirect_stdout(said), redirect_stderr(said):
        try:
            code = qsdp_check.main(arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome.crashed("crash", error, of=kind, attack=attack)
    # Anything but these is wrong.
    outcome.count("verdict", {0: "yes", 1: "no", 2: "not to be read", None: "crash"}[code])
    if expected is not None and expected != (code == 0):
        word = "refused" if expected else "accepted"
        outcome.wrong(f"{word} against the format", of=kind, attack=attack, said=said.getvalue()[:200])
    if code == 0:
        _judge(path, data is not None, contents, kind, attack, said.getvalue(), outcome)
    elif len(said.getvalue().splitlines()) != 1 or len(said.getvalue()) > 300:
        outcome.wrong("a refusal of several lines", of=kind, attack=attack, said=said.getvalue()[:500])
    return code, said.getvalue()


@contextmanager
def _watched(outcome: Outcome, **of: str) -> Iterator[None]:
    """Find much time or memory wrong."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    seconds, grown = time.monotonic() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if seconds > SECONDS or grown > MEBIBYTES:
        outcome.wrong("time or memory", **of, seconds=seconds, mebibytes=grown)


def _judge(path: Path, apart: bool, contents: bytes, kind: str, attack: str, said: str, outcome: Outcome) -> None:
    """Compare everything that is said of an accepted file with the truth."""
    data = None
    try:
        if apart:
            with np.load(_data_path(path), allow_pickle=False) as archive:
                data = dict(archive)
        f, limit = used(arrays_of(contents), data), None
        if "nu" not in f and "gram" not in f:
            try:
                _, error, optimum = truth(f)
                limit = optimum + error
            except (qsdp.QSDPError, ValueError, IndexError, OverflowError) as reason:
                outcome.count("accepted", f"{attack}: unknown, {type(reason).__name__}")
                return
        wrong, far = differences(said, f, str(_data_path(path)), limit)
    except Exception as error:
        outcome.crashed("accepted, and is no certificate", error, of=kind, attack=attack)
        return
    if wrong:
        outcome.wrong("false", of=kind, attack=attack, differences=wrong)
    outcome.distances.extend(far.items())
    outcome.count("accepted", f"{attack}: {'false' if wrong else 'true'}")


def _read(reader: Callable[[], Any], kind: str, outcome: Outcome) -> Any:
    """Return what is read, or None after an error that is named."""
    with _watched(outcome, of=kind):
        try:
            read = reader()
            outcome.count("read", f"{kind}: read")
            return read
        except NAMED:
            outcome.count("read", f"{kind}: refused")
        except Exception as error:
            outcome.crashed("error", error, of=kind)
    return None


# -- attacks --------------------------------------------------------------------------------------------------------

#: In place of a field: it is left out.
_GONE = np.zeros(0)
#: The attack that changes bytes, of which the digest is made right again.
BEHIND = "bytes behind the digest"


def _field(arrays: Arrays, rng: Random) -> Arrays:
    name = str(rng.choice(list(arrays)))
    return arrays | {name: _changed(arrays[name], rng)}


def _several(arrays: Arrays, rng: Random) -> Arrays:
    names = rng.choice(list(arrays), size=int(rng.integers(2, 5)), replace=False).tolist()
    changed = {name: _changed(arrays[name], rng) for name in names}
    return arrays | {name: array for name, array in changed.items() if array is not _GONE}


def _changed(array: np.ndarray, rng: Random) -> np.ndarray:
    """Leave an array out, or change its shape, its type, an entry or all of them."""
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
        kind = int(rng.integers(4))
        if kind == 0:
            return changed * rng.choice([0.0, -1.0, 0.5, 2.0, 1 + 1e-6, 1 - 1e-6, 1e-300, 1e300])
        if kind == 1:
            changed[place] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 5e-324, 1e308])
        elif kind == 2:
            changed[place] += rng.standard_normal() * 10.0 ** rng.uniform(-12, 2)
        else:
            changed += rng.standard_normal(changed.shape) * 10.0 ** rng.uniform(-14, 0)
    elif array.dtype.kind == "b":
        changed[place] = not changed[place]
    else:
        info = np.iinfo(changed.dtype)
        options = [-changed[place], changed[place] + 1, 0, info.max, info.min, int(rng.integers(-5, 6))]
        changed[place] = np.clip(options[rng.integers(len(options))], info.min, info.max)
    return changed


def _claims(arrays: Arrays, rng: Random) -> Arrays:
    """Claim more than is proven, by anything from rounding to a factor, or another objective."""
    share = 10.0 ** rng.uniform(-11, 0)
    if rng.random() < 0.7:
        arrays["lower_bound"] = np.array(float(arrays["lower_bound"]) * (1.0 + share))
    if rng.random() < 0.4:
        arrays["objective"] = np.array(float(arrays["objective"]) * (1.0 + float(rng.choice([-1.0, 1.0])) * share))
    if rng.random() < 0.3:
        arrays["bound_type"] = np.array("exact")
    return arrays


def _stretched(arrays: Arrays, rng: Random) -> Arrays:
    """Claim the bound of a longer dual vector, feasible only where the checker overlooks what limits it."""
    share, names = 10.0 ** rng.uniform(-3, 0), {"nu", "lower_bound"} & arrays.keys()
    if all(arrays[name].dtype.kind == "f" and arrays[name] is not _GONE for name in names):
        arrays |= {name: arrays[name] * (1.0 + share * (1.0 if name == "nu" else rng.random())) for name in names}
    return arrays


def _other_data(arrays: Arrays, rng: Random) -> Arrays:
    """Give the proof other data: fewer rows, other units, other rows, other order, other signs."""
    name = "forms" if "forms" in arrays else "X"
    if name not in arrays:
        return arrays
    rows = [one for one in (name, "y", "sample_weight", "nu") if one in arrays and arrays[one].ndim]
    n, way = len(arrays["y"]), int(rng.integers(5))
    if way == 0:
        kept = np.delete(np.arange(n), int(rng.integers(n)))
        return arrays | {one: arrays[one][kept] for one in rows}
    if way == 1:
        unit = float(rng.choice([0.5, 2.0, 1e-3, 1e3]))
        arrays[name] = arrays[name] * unit
        if rng.random() < 0.5 and str(arrays.get("loss", "")) in ("squared", "absolute", "huber"):
            arrays["y"] = arrays["y"] * unit**2
        return arrays
    if way == 2:
        noise = 10.0 ** rng.uniform(-12, 0) * rng.standard_normal(arrays[name].shape)
        return arrays | {name: arrays[name] + noise}
    if way == 3:
        order = rng.permutation(n)
        return arrays | {one: arrays[one][order] for one in rows if rng.random() < 0.7}
    return arrays | {"y": -arrays["y"]}


def _other_problem(arrays: Arrays, rng: Random) -> Arrays:
    """Claim the same of another problem: beta, loss, levels, activation, weights."""
    way = int(rng.integers(5))
    if way == 0:
        return arrays | {"beta": np.array(float(arrays["beta"]) * 10.0 ** rng.uniform(-1, 1))}
    if way == 1:
        loss, parameter = np.array(str(rng.choice(qsdp_check.LOSSES))), np.array([float(10.0 ** rng.uniform(-1, 1))])
        return arrays | {"loss": loss, "parameters": parameter}
    if way == 2:
        return arrays | {"levels": np.array(rng.integers(2, 6), dtype=np.int64)}
    if way == 3:
        return arrays | {"activation": rng.standard_normal(3) * (rng.random(3) < 0.7)}
    return arrays | {"sample_weight": 10.0 ** rng.uniform(-2, 2, len(arrays["y"])) if "y" in arrays else np.ones(3)}


def _blocks(arrays: Arrays, rng: Random) -> Arrays:
    """Claim the same of other blocks: exchanged, of another kind, side or price, entries that count once."""
    if "sizes" not in arrays:
        return _several(arrays, rng)
    if "weight_blocks" in arrays and rng.random() < 0.7:
        return _real_weights(arrays, rng)
    way, R = int(rng.integers(7)), len(arrays["sizes"])
    order = rng.permutation(R)
    if way == 0:
        names = [name for name in ("sizes", "linear", "omega") if rng.random() < 0.8]
        return arrays | {name: arrays[name][order] for name in names}
    if way == 1:
        return arrays | {"block": order[arrays["block"]]}
    if way == 2:
        return arrays | {"omega": arrays["omega"] * np.where(rng.random(R) < 0.5, 10.0 ** rng.uniform(-1, 1, R), 1.0)}
    if way == 3:
        return arrays | {"linear": arrays["linear"] ^ (rng.random(R) < 0.5)}
    if way == 4:
        return arrays | {"sizes": np.array([6, 2, 2]), "linear": np.array([True, True, False])}
    if way == 5 and "X" in arrays and "weight_blocks" not in arrays:
        counts = [2.0 if not flat and i != j else 1.0 for N, flat in zip(arrays["sizes"], arrays["linear"], strict=True)
                  for i in range(N) for j in (range(i, N) if not flat else (i,))]  # fmt: skip
        return arrays | {"X": arrays["X"] / np.array(counts)}
    if way == 6 and "gram" in arrays:
        name = str(rng.choice(["gram", "products", "squares"]))
        return arrays | {name: arrays[name] * (1 + 10.0 ** rng.uniform(-12, -1) * rng.standard_normal())}
    return arrays | {name: np.repeat(arrays[name], 2, axis=0) for name in ("order", "leaves", "lengths", "shifted")}


def _real_weights(arrays: Arrays, rng: Random) -> Arrays:
    """Claim the same of other real weights: prices, positions, numbers of columns, or none at all."""
    way, prices, pairs = int(rng.integers(6)), arrays["weight_omega"], arrays["weight_blocks"]
    some = rng.random(len(prices)) < 0.5
    if way == 0:
        return arrays | {"weight_omega": prices * np.where(some, 10.0 ** rng.uniform(-1, 1, len(prices)), 1.0)}
    if way == 1:
        return arrays | {"weight_omega": np.where(some, rng.choice([0.0, -1.0, np.inf, np.nan, 1e300]), prices)}
    if way == 2:
        return arrays | {"weight_blocks": pairs + rng.integers(-1, 2, pairs.shape)}
    if way == 3:
        return arrays | {"weight_omega": prices[rng.permutation(len(prices))[: int(rng.integers(len(prices) + 1))]]}
    if way == 4:
        return arrays | {"weights": arrays["weights"] * 10.0 ** rng.uniform(-1, 1)}
    gone = {"weight_omega", "weight_blocks", "weights"} if rng.random() < 0.5 else {"weights"}
    return {name: array for name, array in arrays.items() if name not in gone}


def _holes(arrays: Arrays, rng: Random) -> Arrays:
    """Leave a part of a tree out, take one twice, or make leaves of it that do not cover it."""
    N, signs, shifts = arrays["order"].shape[1], arrays["signs"].tolist(), arrays["shifts"].tolist()
    leaves = []
    for k, has in zip(arrays["lengths"].tolist(), arrays["shifted"].tolist(), strict=True):
        size = 1 + 2 * N - k if has else 0
        leaves.append((signs[:k], has, shifts[:size]))
        signs, shifts = signs[k:], shifts[size:]
    place, way = int(rng.integers(len(leaves))), int(rng.integers(6))
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
    counts[-1] += len(leaves) - len(arrays["lengths"])
    arrays |= {
        "leaves": counts,
        "lengths": np.array([len(leaf[0]) for leaf in leaves], dtype=np.int64),
        "signs": np.array([s for leaf in leaves for s in leaf[0]], dtype=np.int8),
        "shifted": np.array([leaf[1] for leaf in leaves], dtype=bool),
        "shifts": np.array([v for leaf in leaves for v in leaf[2]], dtype=float),
    }
    return arrays | ({"order": rng.permuted(arrays["order"], axis=1)} if rng.random() < 0.3 else {})


def _cuts(arrays: Arrays, rng: Random) -> Arrays:
    N, lengths = arrays["order"].shape[1], arrays["lengths"]
    if "cuts" not in arrays:
        number = int(rng.integers(1, 4))
        entries = [int(rng.integers(1, min(4, N) + 1)) for _ in range(number)]
        size = 1 + 2 * N - int(lengths[0])
        return arrays | {
            "cuts": np.array([number] + [0] * (len(lengths) - 1)),
            "cut_lengths": np.array(entries),
            "cut_nodes": np.concatenate([rng.choice(size, size=k, replace=False) for k in entries]).astype(np.int32),
            "cut_values": rng.choice([-1, 1, 2], size=sum(entries)).astype(np.int8),
            "cut_weights": rng.exponential(size=number) * 10.0 ** rng.uniform(-6, 0),
        }
    name = str(rng.choice(["cut_weights", "cut_values", "cut_nodes", "cut_lengths", "cuts"]))
    changed = _changed(arrays[name], rng)
    if name == "cut_weights" and rng.random() < 0.5:
        changed = arrays[name] * 10.0 ** rng.uniform(-2, 2)
    return arrays | {name: changed}


#: What makes other arrays of those of a file.
ATTACKS: dict[str, Callable[[Arrays, Random], Arrays]] = {
    "field": _field,
    "several fields": _several,
    "claims": _claims,
    "other data": _other_data,
    "other problem": _other_problem,
    "blocks": _blocks,
    "holes": _holes,
    "cuts": _cuts,
}


def _corrupted(contents: bytes, rng: Random) -> bytes:
    """Cut bytes off, replace, insert or delete some, or flip bits."""
    data, way = bytearray(contents), int(rng.integers(5))
    start = int(rng.integers(len(data)))
    if way == 0:
        del data[start:]
    elif way == 1:
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
    shared = qsdp.BilinearNetwork([[1, 1, -1], [1, -1, 1]], [[1, 1, 1], [-1, 1, 1]], [0.5, 0.5])
    rows = [f"{v:.3f},{'uv'[i % 2]},{'no' if v < 0 else 'yes'}" for i, v in enumerate(X[:, 0])]
    readers = [qsdp.load] * 4 + [qsdp.SufficientStatistics.load, qsdp.load]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        qsdp.column_generation(problem).network.save(folder / "bilinear")
        shared.to_polynomial().save(folder / "polynomial")
        qsdp.SufficientStatistics(keep=4, random_state=0).partial_fit(X, y).save(folder / "statistics")
        (folder / "table.csv").write_text("\n".join(["a,b,label", *rows]))
        fit = f"fit {folder / 'table.csv'} --target label --output {folder / 'model'} --beta 0.1"
        CliRunner().invoke(cli.app, fit, catch_exceptions=False)
        qsdp.column_generation(simple_blocks("squared", 2)).network.save(folder / "blocks")
        compact = qsdp.BilinearNetwork([[1, 1, -1], [1, -1, 0]], [[1, 1, 1], [-1, 1, 0]], [0.5, 1.0], [0, 1], [3, 2])
        compact.save(folder / "compact")
        kinds = ("bilinear", "compact", "polynomial", "blocks", "statistics", "model")
        return [(kind, (folder / kind).read_bytes(), reader) for kind, reader in zip(kinds, readers, strict=True)]


def _other_file(path: Path, rng: Random, outcome: Outcome) -> None:
    kind, contents, reader = _others()[rng.integers(len(_others()))]
    outcome.count("kind", kind)
    path.write_bytes(contents)
    if rng.random() < 0.5:
        path.write_bytes(changed := _corrupted(contents, rng))
        outcome.count("attack", "bytes")
        read = _read(lambda: reader(path), kind, outcome)
        # Models may differ in what says nothing of them, such as the time of a member.
        if read is not None and changed != contents and (kind != "model" or _used(read).tolist() != _of_model()):
            outcome.wrong("accepted", of=kind, attack="bytes")
        return
    if kind == "model":
        _forge_model(path, contents, rng, outcome)
        read = _read(lambda: reader(path), kind, outcome)
        if read is not None:
            _read(lambda: _used(read), f"use of a {kind}", outcome)
        return
    if kind == "compact":
        # Changed contents with the digest that belongs to them.
        body = _corrupted(contents[:-4], rng)
        path.write_bytes(body + zlib.crc32(body).to_bytes(4, "little"))
        outcome.count("attack", "contents of a compact file")
        read = _read(lambda: reader(path), kind, outcome)
        if read is not None:
            _read(lambda: _used(read), f"use of a {kind}", outcome)
        return
    stored, header, arrays = read_archive(path, *NETWORK_KINDS, "sufficient statistics")
    if rng.random() < 0.5 and arrays:
        name = str(rng.choice(list(arrays)))
        other = _changed(arrays[name], rng)
        arrays = arrays | ({name: other} if other.dtype.kind in "fiub" else {})
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


@cache
def _of_model() -> list[Any]:
    """Return the predictions of the model among the other files."""
    ((contents, reader),) = [(contents, reader) for kind, contents, reader in _others() if kind == "model"]
    with tempfile.TemporaryDirectory() as name:
        (path := Path(name) / "model").write_bytes(contents)
        predictions: list[Any] = _used(reader(path)).tolist()
    return predictions


def _forge_model(path: Path, contents: bytes, rng: Random, outcome: Outcome) -> None:
    """Write a model with one array changed, or one value of its schema."""
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if rng.random() < 0.5:
        name = str(rng.choice([name for name in members if name.endswith(".npy")]))
        other = _changed(np.load(io.BytesIO(members.pop(name))), rng)
        if other is not _GONE:
            np.save(stream := io.BytesIO(), other)
            members[name] = stream.getvalue()
        outcome.count("attack", "array of a model")
    else:
        members["schema.json"] = json.dumps(_changed_header(json.loads(members["schema.json"]), rng)).encode()
        outcome.count("attack", "schema of a model")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)


def _used(read: Any) -> Any:
    if isinstance(read, qsdp.SufficientStatistics):
        return qsdp.TrainingProblem.from_statistics(read, beta=1.0).objective
    if hasattr(read, "feature_names_in_"):
        import pandas as pd

        # The columns of the table, under the names that the file gives them.
        return read.predict(pd.DataFrame([[0.5, "u"], [None, "w"]], columns=read.feature_names_in_))
    if isinstance(read, qsdp.BilinearNetwork) and read.blocks is not None:
        rows = np.ones((2, read.n_inputs))
        return read.predict(qsdp.Blocks(rows, read.sizes, read.kinds))
    return read.predict(np.ones((2, read.n_inputs)))


def _changed_header(header: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Return a header with one value changed, however deep."""
    copied = json.loads(json.dumps(header))
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    visit(copied)
    if places:
        node, key = places[rng.integers(len(places))]
        options = [None, True, -1, 0, 2**70, 1.5, -2.5, 1e308, "", "x", [], {}, [1], {"a": 1}, [[]], 10**9, "\ud800"]
        node[key] = options[rng.integers(len(options))]
    return dict(copied)
