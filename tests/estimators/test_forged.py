"""Forged and damaged files of estimators: one clear error, no code that runs, and no more memory than the file pays."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import tempfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import KINDS, rows_table, trained, write

import qsdp
from qsdp.encoding import Patches
from qsdp.estimators.saving import TRUSTED
from qsdp.exceptions import StorageError
from qsdp.tables.training_tables import inputs_of

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.exceptions.QSDPWarning")

Parts = tuple[dict[str, Any], dict[str, bytes]]


@cache
def contents(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        model = of_images() if kind == "images" else trained(kind)
        model.save(path := Path(folder) / "model.qsdp")
        return path.read_bytes()


@cache
def of_images() -> Any:
    rng = np.random.default_rng(0)
    images, labels = rng.random((40, 5, 5)), rng.choice(["a", "b", "c"], 40)
    return qsdp.QuantizedNetworkClassifier(
        20, encoding=Patches(regions=1), activation=None, beta=0.5, random_state=0
    ).fit(images, labels)


def parts(kind: str) -> Parts:
    """Return the schema and the other members of a file."""
    with zipfile.ZipFile(io.BytesIO(contents(kind))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("schema.json")), members


def forge(path: Path, schema: Any, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("schema.json", schema if isinstance(schema, (str, bytes)) else json.dumps(schema))
        for name, member in members.items():
            archive.writestr(name, member)


def refuse(path: Path, message: str = "is not a model of qsdp or is damaged: .") -> str:
    """Check that a file is refused in one line, and return the line."""
    with pytest.raises(StorageError, match=message) as caught:
        qsdp.load(path)
    line = str(caught.value)
    assert line.count("\n") == 0
    assert len(line) < 400 + len(str(path))
    return line


def attributes(schema: Any) -> dict[str, Any]:
    """Return the nodes of the attributes of the estimator."""
    nodes: dict[str, Any] = schema["content"]["content"]
    return nodes


def stored(value: Any) -> dict[str, Any]:
    """Return the node of a value without arrays."""
    if isinstance(value, dict):
        keys = stored([])
        keys["content"] = [node("TypeNode", "builtins", "str") for _ in value]
        return node(
            "DictNode", "builtins", "dict", content={key: stored(one) for key, one in value.items()}, key_types=keys
        )
    if isinstance(value, (list, tuple)):
        loader = "ListNode" if isinstance(value, list) else "TupleNode"
        return node(loader, "builtins", type(value).__name__, content=[stored(one) for one in value])
    return node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)


def node(loader: str, module: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"__class__": name, "__module__": module, "__loader__": loader, **fields}


CALL = stored(["touch ran"])
UNTRUSTED: dict[str, dict[str, Any]] = {
    "function": node("FunctionNode", "os", "system"),
    "function of NumPy": node("FunctionNode", "numpy", "tanh"),
    "function of SciPy": node("FunctionNode", "scipy.special._ufuncs", "expit"),
    "reducer": node("ConstructorFromReduceNode", "os", "system", content=stored(("touch ran",))),
    "process": node("ConstructorFromReduceNode", "subprocess", "Popen", content=stored((["touch", "ran"],))),
    "object": node("ObjectNode", "subprocess", "Popen", content=stored({"args": ["touch", "ran"]})),
    "built-in": node("TypeNode", "builtins", "eval"),
    "import": node("TypeNode", "antigravity", "fly"),
    "partial": node(
        "PartialNode", "functools", "partial",
        content={
            "func": node("FunctionNode", "os", "system"), "args": stored(("touch ran",)), "kwds": stored({}),
            "namespace": stored({}),
        },
    ),
    "method": node(
        "MethodNode", "qsdp.losses._piecewise", "Huber",
        content={"func": "scaled", "obj": node("ObjectNode", "qsdp.losses._piecewise", "Huber", content=stored({}))},
    ),
    "operator": node("OperatorFuncNode", "operator", "methodcaller", attrs=stored(("save", "ran"))),
    "generator": node(
        "RandomGeneratorNode", "numpy.random._generator", "Generator",
        content={"bit_generator": stored({"bit_generator": "seed"}), "seed_seq": stored({})},
    ),
    "random state": node("RandomStateNode", "numpy.random.mtrand", "RandomState", content=stored({})),
    "masked array": node(
        "MaskedArrayNode", "numpy.ma", "MaskedArray", content={"data": stored([]), "mask": stored([])}
    ),
    "sparse": node("SparseMatrixNode", "scipy.sparse", "csr_matrix", type="scipy", file="0.npy"),
    "tree": node("TreeNode", "sklearn.tree._tree", "Tree", content=stored({})),
    "default dictionary": node(
        "DefaultDictNode", "collections", "defaultdict",
        content={"main": stored({}), "default_factory": node("TypeNode", "builtins", "list")},
    ),
    "ordered dictionary": node("DictNode", "collections", "OrderedDict", content={}, key_types=stored([])),
    "set": node("SetNode", "builtins", "set", content=[]),
    "named tuple": node("TupleNode", "qsdp.estimators.calibration", "Lines", content=[stored(1.0), stored(2.0)]),
    "bytes": node("BytesNode", "builtins", "bytes", file="0.npy"),
    "cached": node("CachedNode", "builtins", "dict", __id__=1),
    "other estimator": node("ObjectNode", "sklearn.tree._classes", "DecisionTreeClassifier", content=stored({})),
    "other object of qsdp": node("ObjectNode", "qsdp.problem", "TrainingProblem", content=stored({})),
    "trusted by another loader": node("ConstructorFromReduceNode", "builtins", "str", content=stored(("x",))),
    "array of another type": node("NdArrayNode", "os", "system", type="numpy", file="0.npy"),
    "unknown loader": node("Loader", "builtins", "str", content="1"),
    "loader that is no text": node([], "builtins", "str", content="1"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("attack", UNTRUSTED)
@pytest.mark.parametrize("place", ["beta", "loss", "encoder_", "target_scaling_", "nested"])
def test_types_that_are_not_on_the_list_are_refused(
    attack: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    schema, members = parts("label")
    if place == "nested":
        attributes(schema)["certificate_"]["content"]["bound_type"] = node(
            "ListNode", "builtins", "list", content=[stored(1), UNTRUSTED[attack]]
        )
    else:
        attributes(schema)[place] = UNTRUSTED[attack]
    forge(tmp_path / "forged", schema, members)
    line = refuse(tmp_path / "forged")
    if attack != "loader that is no text":
        forged = UNTRUSTED[attack]
        assert f"type {forged['__module__']}.{forged['__class__']} ({forged['__loader__']})" in line
    assert sorted(os.listdir(tmp_path)) == ["forged"]


def test_the_root_is_an_estimator(tmp_path: Path) -> None:
    schema, members = parts("label")
    for root in (stored({}), stored([1]), schema["content"], node("ObjectNode", "qsdp.losses._piecewise", "Huber")):
        forge(tmp_path / "forged", {**root, "protocol": schema["protocol"]}, members)
        refuse(tmp_path / "forged")


def test_the_list_has_no_functions_and_is_not_taken_from_the_file(tmp_path: Path) -> None:
    assert not {loader for loader in TRUSTED if "Func" in loader or loader in {"MethodNode", "PartialNode"}}
    assert all(type(names) is frozenset for names in TRUSTED.values())
    schema, members = parts("label")
    attributes(schema)["loss"] = UNTRUSTED["function"]
    forge(tmp_path / "forged", schema | {"trusted": ["os.system"], "TRUSTED": True}, members)
    refuse(tmp_path / "forged", r"os\.system")


@pytest.mark.parametrize("protocol", [None, True, -1, 10**6, "2", 0, 1])
def test_protocols(protocol: Any, tmp_path: Path) -> None:
    """An older protocol of skops has other loaders; none of them makes what is not on the list."""
    schema, members = parts("label")
    attributes(schema)["beta"] = UNTRUSTED["function"]
    forge(tmp_path / "forged", {**schema, "protocol": protocol}, members)
    refuse(tmp_path / "forged")


@pytest.mark.parametrize(
    "name", ["../0.npy", "/tmp/0.npy", "folder/0.npy", "C:\\0.npy", "..\\0.npy", "0.npy/", "0.npy\n", ".npy", "a.npy"]
)
@pytest.mark.parametrize("referenced", [False, True])
def test_names_of_members(name: str, referenced: bool, tmp_path: Path) -> None:
    schema, members = parts("label")
    if referenced:
        text = json.dumps(schema).replace('"0.npy"', json.dumps(name))
        forge(tmp_path / "forged", text, {name if one == "0.npy" else one: data for one, data in members.items()})
    else:
        forge(tmp_path / "forged", schema, {**members, name: members["0.npy"]})
    refuse(tmp_path / "forged", "its members are not those of a model")
    assert sorted(os.listdir(tmp_path)) == ["forged"]


def test_members_are_those_of_the_schema(tmp_path: Path) -> None:
    schema, members = parts("label")
    path = tmp_path / "forged"
    forge(path, schema, {**members, "99.npy": members["0.npy"]})
    refuse(path, "its arrays are not those of its schema")
    forge(path, schema, {name: data for name, data in members.items() if name != "0.npy"})
    refuse(path, "its arrays are not those of its schema")
    forge(path, json.dumps(schema).replace('"0.npy"', '"1.npy"'), members)
    refuse(path, "its arrays are not those of its schema")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in [("schema.json", json.dumps(schema)), *members.items(), ("0.npy", members["1.npy"])]:
                archive.writestr(name, data)
    refuse(path, "its members are not those of a model")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.json", json.dumps(schema))
    refuse(path)
    link = zipfile.ZipInfo("0.npy")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
        archive.writestr(link, "/etc/passwd")
        for name in members.keys() - {"0.npy"}:
            archive.writestr(name, members[name])
    refuse(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(compression: int, tmp_path: Path) -> None:
    forge(tmp_path / "forged", *parts("label"), compression)
    refuse(tmp_path / "forged", "compressed in another way than by deflation")


def header_of(shape: str, dtype: str = "'<f8'") -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def nested(depth: int) -> str:
    inner = json.dumps(node("ListNode", "builtins", "list", content=[]))
    before, after = inner.split("[]")
    return before + "[" + (before + "[") * depth + ("]" + after) * depth + "]" + after


def bombs() -> dict[str, Callable[[Path], None]]:
    """Return writers of files of at most a few megabytes that stand for more."""
    schema, members = parts("label")

    def zeros(path: Path) -> None:
        forge(path, schema, {**members, "0.npy": header_of("(100000000,)", "'|i1'") + bytes(10**8)})

    def long_schema(path: Path) -> None:
        forge(path, json.dumps(schema) + " " * 10**8, members)

    def lying(path: Path) -> None:
        """A member of 100 MB that says that it has 152 bytes."""
        zeros(path)
        data = bytearray(path.read_bytes())
        size = (10**8 + 128).to_bytes(4, "little")
        assert data.count(size) == 2
        path.write_bytes(bytes(data).replace(size, (152).to_bytes(4, "little")))

    def many(path: Path) -> None:
        forge(path, schema, {**members, **{f"{k}.npy": b"" for k in range(100, 6_000)}})

    def array(contents: bytes) -> Callable[[Path], None]:
        return lambda path: forge(path, schema, {**members, "0.npy": contents})

    def deep(depth: int) -> Callable[[Path], None]:
        text = json.dumps(schema).replace(json.dumps(attributes(schema)["beta"]), nested(depth), 1)
        return lambda path: forge(path, text, members)

    def deep_json(path: Path) -> None:
        changed = copy.deepcopy(schema)
        attributes(changed)["beta"]["content"] = "[" * 100_000 + "]" * 100_000
        forge(path, changed, members)

    def aliased(path: Path) -> None:
        """Lists of two equal lists each, which would print as 2^60 entries."""
        inner = stored([])
        for k in range(60):
            inner = node(
                "ListNode", "builtins", "list", content=[inner, node("ListNode", "builtins", "list", content=[])]
            )
            inner["content"][1]["__id__"] = inner["content"][0]["__id__"] = k + 1
        changed = copy.deepcopy(schema)
        attributes(changed)["beta"] = inner
        forge(path, changed, members)

    return {
        "zeros": zeros,
        "long schema": long_schema,
        "lying member": lying,
        "many members": many,
        "huge array": array(header_of("(10000000000000,)")),
        "huge array of nothing": array(header_of("(10000000000000,)", "'<U0'")),
        "negative array": array(header_of("(-1, -1)")),
        "overflowing array": array(header_of("(4294967296, 4294967296)")),
        "many axes": array(header_of("(" + "1, " * 2000 + ")")),
        "array of objects": array(header_of("(1,)", "'|O'") + b"\x80\x04N."),
        "array of records": array(header_of("(1,)", "[('a', '<f8')]") + bytes(8)),
        "array of times": array(header_of("(1,)", "'<M8[s]'") + bytes(8)),
        "pickle": array(b"\x80\x04cos\nsystem\n(X\x09\x00\x00\x00touch rantR."),
        "archive of arrays": array(contents("label")),
        "deep": deep(70),
        "deeper": deep(5000),
        "deepest": deep(50_000),
        "deep JSON": deep_json,
        "aliased": aliased,
    }


@pytest.mark.parametrize("name", bombs())
def test_bombs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bombs()[name](tmp_path / "bomb")
    qsdp.load(write(tmp_path, contents("label"), "model"))
    tracemalloc.start()
    try:
        refuse(tmp_path / "bomb")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = (tmp_path / "bomb").stat().st_size
    assert peak < 2**23 + 30 * size, (peak, size)
    assert sorted(os.listdir(tmp_path)) == ["bomb", "model"]


@pytest.mark.parametrize("kind", [*KINDS, "images"])
def test_truncated_and_flipped_files(kind: str, tmp_path: Path) -> None:
    whole, path = contents(kind), tmp_path / "model"
    path.write_bytes(whole)
    expected = answers(qsdp.load(path))
    for cut in (0, 1, 4, 5, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(StorageError):
            qsdp.load(path)
    rng = np.random.default_rng(0)
    refused = 0
    for position in rng.integers(0, len(whole), 80):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(flipped))
        try:
            loaded = qsdp.load(path)
        except StorageError:
            refused += 1
        else:
            # Such as a bit of the time of a member.
            np.testing.assert_array_equal(answers(loaded), expected)
    assert refused > 50
    with pytest.raises(StorageError, match="not a qsdp file"):
        qsdp.load(write(tmp_path, "a,b\n1,2\n"))


def answers(model: Any) -> Any:
    """Ask a model for all that it answers; return its predictions."""
    rows = np.random.default_rng(1).random((9, 5, 5)) if model.n_features_in_ == 25 else inputs_of(model, rows_table())
    model.get_params()
    str(model.certificate_), repr(model)
    if hasattr(model, "predict_proba"):
        model.predict_proba(rows)
    if model.n_features_in_ != 25:
        model.effects(rows), model.to_expression(), getattr(model, "feature_importances_", None)
    return model.predict(rows)


WRONG = [None, True, -1, 0, 2**70, 1.5, "x", "\ud800", [], {}, ["a"], [1.0], float("nan"), float("inf"), -1.0, 1e308]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the places of all nodes below one."""
    yield path
    content = node.get("content")
    if node["__loader__"] == "ObjectNode":
        yield from places(content, (*path, "content"))
    elif node["__loader__"] != "JsonNode":
        for key, child in content.items() if isinstance(content, dict) else enumerate(content or []):
            yield from places(child, (*path, "content", key))


def replaced(schema: Any, place: tuple[Any, ...], change: Any) -> Any:
    changed = copy.deepcopy(schema)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if change is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = change
    return changed


@pytest.mark.parametrize("kind", ["label", "price", "images"])
def test_every_value_is_checked(kind: str, tmp_path: Path) -> None:
    """Whatever value is replaced: one error when the file is loaded, or a model that answers."""
    schema, members = parts(kind)
    path, accepted, refused = tmp_path / "forged", set(), list[str]()
    rng = np.random.default_rng(0)
    for place in list(places(schema))[1:]:
        arrays = {entry["file"] for entry in _arrays_below(_at(schema, place))}
        rest = {name: data for name, data in members.items() if name not in arrays}
        for change in [None, stored(WRONG[rng.integers(len(WRONG))])]:
            if change == _at(schema, place):
                continue
            forge(path, replaced(schema, place, change), rest, zipfile.ZIP_STORED)
            try:
                loaded = qsdp.load(path)
            except StorageError as error:
                refused.append(str(error))
                continue
            accepted.add(place)
            # Columns may have other names than those of the table.
            with contextlib.suppress(qsdp.QSDPError):
                answers(loaded)
    assert all(line.startswith(f"{str(path)!r} is not a model of qsdp or is damaged: ") for line in refused)
    fitted = {"network_", "target_scaling_", "_input_ranges", "encoder_", "classes_"}
    top = {place[2] for place in accepted if len(place) == 3}
    assert not top & (fitted - {"encoder_"} if kind == "images" else fitted), top & fitted


def _at(schema: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        schema = schema[key]
    return schema


def _arrays_below(node: Any) -> Iterator[Any]:
    for place in places(node):
        found = _at(node, place)
        if found["__loader__"] == "NdArrayNode" and found["type"] == "numpy":
            yield found


@pytest.mark.parametrize("kind", ["label", "entropy", "images"])
def test_every_array_is_checked(kind: str, tmp_path: Path) -> None:
    schema, members = parts(kind)
    path = tmp_path / "forged"
    for name, data in members.items():
        array = np.load(io.BytesIO(data))
        others = [array[:-1], np.append(array, array), array[None], np.zeros(0), np.full(array.shape, "x")]
        if array.dtype.kind != "U":
            others += [array.astype(kind) for kind in ("f4", "c16", ">f8", "u8")]
        if array.dtype.kind == "f":
            others += [array * np.nan, array + np.inf]
        for other in others:
            if other.dtype == array.dtype and np.array_equal(other, array):
                continue
            stream = io.BytesIO()
            np.save(stream, other)
            forge(path, schema, {**members, name: stream.getvalue()}, zipfile.ZIP_STORED)
            try:
                loaded = qsdp.load(path)
            except StorageError:
                continue
            answers(loaded)


def test_values_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "forged"
    for kind in KINDS:
        schema, members = parts(kind)
        classes = "classes_" in attributes(schema)
        changes: dict[str, dict[str, Any]] = {
            "n_features_in_": {"n_features_in_": stored(4)},
            "encoding": {"encoding": stored("none")},
            "activation": {"activation": stored("quadratic")},
            "names": {"feature_names_in_": stored(["a", "b", "c"])},
            "no names": {"feature_names_in_": stored(None)},
            "names of others": {"feature_names_in_": stored(["colour", "size", "smooth"])},
            "bound": {"certificate_": stored({
                "lower_bound": 2.0, "objective": 1.0, "bound_type": "sdp"
            })},
            "refined": {"_refined": stored("best")},
            "beta": {"_trained_beta": stored(0.0)},
            "other": {"other_": stored(1)},
            "batches": {"_in_batches": stored(1)},
            "loss": {"loss": stored("best" if kind == "entropy" else "cross_entropy")},
            "method": {"predict": stored(1)},
        }  # fmt: skip
        if kind in {"label", "price"}:
            changes["constant"] = {"constant_column": stored(False)}
        if classes:
            changes |= {
                "fewer labels": {"classes_": stored(["a"])},
                "factors": {"_class_factors": stored([1.0])},
            }
        for change in changes.values():
            changed = copy.deepcopy(schema)
            attributes(changed).update(change)
            dictionary = changed["content"]
            dictionary["key_types"]["content"] = [node("TypeNode", "builtins", "str") for _ in dictionary["content"]]
            arrays = {entry["file"] for entry in _arrays_below(changed)}
            forge(path, changed, {one: data for one, data in members.items() if one in arrays})
            refuse(path)
    # The same attributes as another estimator.
    schema, members = parts("price")
    forge(
        path,
        json.dumps(schema).replace("regressor.Q", "classifier.Q").replace("orkRegressor", "orkClassifier"),
        members,
    )
    refuse(path)
