"""What is exported of networks, estimators, pipelines and files equals the models themselves."""

import pickle

import numpy as np
import pandas as pd
import pytest
from fast_options import FAST, NUMBERS
from mixed_table import mixed_table
from scipy.special import expit, softmax
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from table_files import fit_to

import qsdp
from qsdp import QuantizedNetworkClassifier, QuantizedNetworkRegressor
from qsdp.encoding import TableEncoder
from qsdp.exceptions import ExportError, InvalidTypeError, StorageError
from qsdp.export import describe, onnx_inputs, to_c, to_onnx, to_verilog
from qsdp.tables import read_table

pytestmark = pytest.mark.filterwarnings("ignore:the certified gap:qsdp.QSDPWarning")


@pytest.fixture(scope="module")
def mixed():
    return mixed_table()


def probabilities(description, scores):
    if description.link == "softmax":
        return softmax(scores, axis=1)
    each = expit(scores)
    return np.hstack([1.0 - each, each]) if description.link == "logistic" else each / each.sum(axis=1, keepdims=True)


def check(model, X, *, rel=1e-9):
    """Compare a description with the model it was made of; return it."""
    description = describe(model)
    scores = description.scores(description.columns(X))
    own = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    compared = scores[:, 1] - scores[:, 0] if own.ndim == 1 and scores.shape[1] == 2 else scores.reshape(own.shape)
    np.testing.assert_allclose(compared, own, rtol=rel, atol=rel * np.abs(own).max())
    if description.decision != "none":
        np.testing.assert_array_equal(description.predictions(description.decide(scores)), model.predict(X))
        assert (description.link != "none") == hasattr(model, "predict_proba")
    if description.link != "none":
        np.testing.assert_allclose(probabilities(description, scores), model.predict_proba(X), rtol=1e-7, atol=1e-9)
    return description


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("activation", ["relu_like", None])
def test_classifiers(iris, loss, n_classes, activation):
    X, y = (part[iris[1] < n_classes] for part in iris)
    model = QuantizedNetworkClassifier(activation=activation, **{**FAST, "loss": loss}).fit(X, y)
    description = check(model, X)
    assert description.classes == tuple(range(n_classes))
    assert (description.constant is None) == (activation == "relu_like")


@pytest.mark.parametrize("encoding", ["standard", "thresholds", "both", "none", MinMaxScaler()])
def test_encodings(iris, encoding):
    description = check(QuantizedNetworkClassifier(**{**FAST, "encoding": encoding}).fit(*iris), iris[0])
    assert description.decision == "argmax"


def test_regressors_of_several_outputs(iris):
    X, _ = iris
    description = check(QuantizedNetworkRegressor(**NUMBERS).fit(X[:, :2], X[:, 2:] * [1.0, 50.0]), X[:, :2])
    assert description.decision == "none"
    check(QuantizedNetworkRegressor(**NUMBERS).fit(X[:, :2], X[:, 3]), X[:, :2])


@pytest.mark.parametrize(
    ("loss", "encoding"),
    [("squared", "none"), ("logistic", "standard"), ("squared", "thresholds"), ("logistic", MinMaxScaler())],
)
def test_classifiers_of_dask_arrays(iris, loss, encoding):
    """Statistics of all rows, on which a squared loss trains, hold no row, and exports need none."""
    da = pytest.importorskip("dask.array")
    X, y = iris
    options = {**FAST, "loss": loss, "encoding": encoding}
    model = QuantizedNetworkClassifier(**options).fit(da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50))
    check_exports(check(model, X), X, model.predict(X), bits=encoding == "thresholds")


def test_regressors_of_dask_collections(mixed, iris):
    dd = pytest.importorskip("dask.dataframe")
    da = pytest.importorskip("dask.array")
    frame, _ = mixed
    parts = dd.from_pandas(frame.assign(target=2.0 * frame["rate"] + 1.0), npartitions=3)
    model = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "thresholds"}).fit(parts[list(frame)], parts["target"])
    check_exports(check(model, frame), frame, model.predict(frame), bits=True)
    blocks = da.from_array(iris[0], chunks=(50, 4))
    for target in (blocks[:, 2:], blocks[:, 3]):
        model = QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "none"}).fit(blocks[:, :2], target)
        X = iris[0][:, :2]
        check_exports(check(model, X), X, model.predict(X), bits=False)


@pytest.mark.parametrize("encoding", ["none", "standard"])
def test_ranges_are_those_of_the_rows(iris, encoding):
    da = pytest.importorskip("dask.array")
    X, y = iris
    options = {**NUMBERS, "encoding": encoding}
    here = describe(QuantizedNetworkRegressor(**options).fit(X, y))
    there = describe(QuantizedNetworkRegressor(**options).fit(da.from_array(X, chunks=(50, 4)), da.from_array(y, 50)))
    inputs = here.encoding.encode(list(X.T))
    for low, high in (here.ranges, there.ranges):
        np.testing.assert_allclose(low, inputs.min(axis=0), rtol=1e-12)
        np.testing.assert_allclose(high, inputs.max(axis=0), rtol=1e-12)


def check_exports(description, X, expected, *, bits):
    """Export to every format and compare what can run here."""
    code = to_c(description)
    scores, found = description.scores(description.columns(X)), code.model.outputs(code.model.columns(X))
    assert np.all(np.abs(code.model.scores(found) - scores) <= code.rounding_error + 1e-9)
    assert code.files(example=True)
    if bits:
        verilog = to_verilog(description)
        assert np.all(
            np.abs(verilog.model.scores(verilog.model.outputs(verilog.model.bits(X))) - scores) <= verilog.error
        )
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(description).SerializeToString())
    outputs = dict(zip([one.name for one in session.get_outputs()], session.run(None, onnx_inputs(description, X)),
                       strict=True))  # fmt: skip
    if "label" in outputs:
        np.testing.assert_array_equal(outputs["label"], expected)
    else:
        np.testing.assert_allclose(outputs["predictions"].reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)


def test_exports_need_no_rows(iris):
    """A pickled estimator does not hold the rows that it was fitted to."""
    X, y = iris
    for model in (QuantizedNetworkClassifier(**FAST), QuantizedNetworkRegressor(**{**NUMBERS, "encoding": "none"})):
        model.fit(X, y)
        before = to_c(model).header, to_c(model).source
        model = pickle.loads(pickle.dumps(model))
        assert not hasattr(model, "result_")
        assert (to_c(model).header, to_c(model).source) == before
        check_exports(describe(model), X, model.predict(X), bits=False)


def test_frames_with_categories_and_holes(mixed):
    frame, label = mixed
    description = check(QuantizedNetworkClassifier(**{**FAST, "encoding": "both"}).fit(frame, label), frame)
    assert [column.name for column in description.encoding.columns] == list(frame)
    assert description.classes == ("no", "yes")


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [MinMaxScaler(clip=True), RobustScaler()],
        [SimpleImputer(strategy="median"), MaxAbsScaler()],
        [StandardScaler(), TableEncoder("thresholds", n_thresholds=2)],
        ["passthrough", VarianceThreshold(0.3), TableEncoder("both")],
        [make_pipeline(StandardScaler(with_mean=False), None)],
    ],
    ids=str,
)
@pytest.mark.parametrize("encoding", ["none", "standard"])
def test_pipelines(iris, steps, encoding):
    X, y = iris
    if encoding == "standard" and any(isinstance(s, (TableEncoder, MinMaxScaler)) for s in steps):
        encoding = "none"
    model = make_pipeline(*steps, QuantizedNetworkClassifier(**{**FAST, "encoding": encoding})).fit(X, y)
    assert check(model, X + 0.01).n_columns == 4


def test_files(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["x", "y", "z"])[y])
    frame.to_csv(tmp_path / "iris.csv", index=False)
    table = read_table(tmp_path / "iris.csv")
    options = {**FAST, "loss": "cross_entropy", "encoding": "standard", "activation": None}
    model = fit_to(QuantizedNetworkClassifier(**options), table, "kind")
    model.save(tmp_path / "model.qsdp")
    description = check(qsdp.load(tmp_path / "model.qsdp"), frame[list("abcd")])
    assert [column.name for column in description.encoding.columns] == list("abcd")
    # From the typed columns as from the text of the file.
    scores = description.scores(description.columns(frame[list("abcd")]))
    np.testing.assert_array_equal(description.scores(description.columns(table[list("abcd")])), scores)
    np.testing.assert_array_equal(
        description.predictions(description.decide(scores)), model.predict(table[list("abcd")])
    )
    model.network_.save(tmp_path / "network.qsdp")
    alone = describe(qsdp.load(tmp_path / "network.qsdp"))
    assert (alone.encoding, alone.decision, alone.n_columns) == (None, "argmax", 5)
    (tmp_path / "other.qsdp").write_text("x")
    with pytest.raises(StorageError, match="not a qsdp file"):
        qsdp.load(tmp_path / "other.qsdp")


def test_what_cannot_be_exported(iris):
    X, y = iris
    with pytest.raises(ExportError, match="PCA cannot be exported"):
        describe(make_pipeline(PCA(2), QuantizedNetworkClassifier(**FAST)).fit(X, y))
    with pytest.raises(InvalidTypeError, match="model must be a network"):
        describe(StandardScaler().fit(X))
    with pytest.raises(InvalidTypeError, match="model must be a network"):
        describe("model.qsdp")
