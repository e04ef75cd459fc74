"""The estimators as scikit-learn sees them, and what they refuse."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from benchmarks.papers.tomic import BPLSClassifier, BPLSRegressor, BPLSReport, training
from qsdp import QSDPWarning
from qsdp.baselines import History
from qsdp.datasets import load_mnist
from qsdp.exceptions import DatasetError, InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
LINEAR = X @ [1.0, -2.0, 0.5] + 0.3
CODES = np.digitize(LINEAR, [-1.0, 1.5])

both = pytest.mark.parametrize("kind", [BPLSClassifier, BPLSRegressor], ids=["classifier", "regressor"])


def target(kind: type) -> np.ndarray:
    return CODES if kind is BPLSClassifier else LINEAR


@both
def test_check_estimator(kind: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = check_estimator(kind(), on_skip=None, on_fail=None)
    failed = [f"{o['check_name']}: {o['exception']!r}" for o in outcomes if o["status"] not in {"passed", "skipped"}]
    assert not failed, "\n".join(failed)
    assert {o["check_name"] for o in outcomes if o["status"] == "skipped"} <= {"check_array_api_input"}
    assert len([o for o in outcomes if o["status"] == "passed"]) >= 50


def test_probabilities() -> None:
    model = BPLSClassifier((10,), random_state=0).fit(X, CODES)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(
        np.log(probabilities[:, 0] / probabilities[:, 1]),
        np.diff(-model.decision_function(X)[:, :2], axis=1)[:, 0],
        atol=1e-9,
    )
    with pytest.raises(NotFittedError):
        BPLSClassifier().predict_proba(X)
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'"):
        BPLSClassifier(output_activation="sigmoid").fit(X, CODES).predict_proba(X)


# -- what is refused, before any work -----------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"hidden": 2.5},
        "hidden must be the width of one hidden layer, or a sequence of widths, one for each layer; got 2.5",
    ),
    ({"hidden": "50"}, "hidden must be the width of one hidden layer, or a sequence of widths"),
    (
        {"hidden": (3, 3), "activation": ["tanh"]},
        r"activation must be one value or 2, one for each hidden layer; got \['tanh'\]",
    ),
    ({"activation": "softminus"}, "activation must be invertible.*the paper names it and defines it nowhere"),
    ({"activation": "sigmod"}, "did you mean 'sigmoid'"),
    ({"output_activation": "sign"}, "output_activation must be invertible.*takes two values"),
    ({"hidden_target": "jacobi"}, "hidden_target must be one of 'damped', 'first'.*got 'jacobi'"),
    ({"ridge": -1e-3}, "ridge must be a finite number >= 0; got -0.001"),
    ({"eps_target": 0.0, "output_activation": "sigmoid"}, "eps_target must be a finite number > 0; got 0.0"),
    ({"eps_hidden": 0.5}, "eps_hidden must be > 0 and < 0.5 for sigmoid; got 0.5"),
    ({"keep_best": "yes"}, "keep_best must be True or False; got 'yes'"),
    ({"bias": "hidden"}, "bias must be one of 'all', 'input', 'none'; got 'hidden'"),
    ({"literal": 1}, "literal must be True or False; got 1"),
    ({"references": "all"}, "references must be True or False"),
    ({"verbose": "yes"}, "verbose must be True, False or an integer >= 0"),
    ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0"),
    ({"callback": 3}, "callback must be callable or None; got 3"),
    ({"random_state": -1}, "random_state must be an integer >= 0; got -1"),
]


@pytest.fixture
def no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise AssertionError("a pass started")

    monkeypatch.setattr(training, "backward_pass", explode)


@both
@pytest.mark.usefixtures("no_pass")
@pytest.mark.parametrize(("options", "message"), BAD, ids=str)
def test_bad_parameters(kind: type, options: dict[str, Any], message: str) -> None:
    model = kind(**options)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, target(kind))
    assert not hasattr(model, "network_")


# -- divergence, interrupts, callbacks ----------------------------------------------------------------


@pytest.mark.parametrize("keep_best", [False, True])
def test_divergence_keeps_the_history(keep_best: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.backward_pass
    calls: list[int] = []

    def failing(*args: Any, **options: Any) -> Any:
        calls.append(1)
        weights, reports = whole(*args, **options)
        return ([np.full_like(W, np.nan) for W in weights] if len(calls) == 3 else weights), reports

    options = {"stop": "none", "tau_max": 9, "keep_best": keep_best, "random_state": 0}
    unharmed = BPLSClassifier((5,), **{**options, "tau_max": 1}).fit(X, CODES)
    monkeypatch.setattr(training, "backward_pass", failing)
    model = BPLSClassifier((5,), **options)
    with pytest.warns(QSDPWarning, match="diverged in epoch 3 .* after 2 epochs; try a larger ridge"):
        model.fit(X, CODES)
    assert model.history_.diverged == 3
    assert model.history_.extra["misses"] == unharmed.history_.extra["misses"]
    np.testing.assert_array_equal(model.decision_function(X), unharmed.decision_function(X))
    assert len(model.report_.passes) == 3
    assert np.isnan(model.report_.passes[2].loss)


def test_interrupt_keeps_the_passes_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(history: History) -> None:
        if history.n_epochs == 2:
            raise KeyboardInterrupt

    options = {"stop": "none", "keep_best": False, "random_state": 0}
    with pytest.warns(QSDPWarning, match="interrupted: the parameters are those after 2 of 10 epochs"):
        model = BPLSClassifier((5,), tau_max=9, callback=interrupt, **options).fit(X, CODES)
    two = BPLSClassifier((5,), tau_max=1, **options).fit(X, CODES)
    np.testing.assert_array_equal(model.decision_function(X), two.decision_function(X))


def test_notebooks_show_the_passes_and_what_they_are_compared_with() -> None:
    report = BPLSRegressor((4,), passes=3, references=True, random_state=0).fit(X, LINEAR).report_
    summary = report._repr_mimebundle_()["text/plain"]
    assert "3 in " in summary
    assert all(name in summary for name in ("layer 2", *report.references))
    assert "0 in " in BPLSReport()._repr_mimebundle_()["text/plain"]


# -- images -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("uci_available")
def test_a13_images() -> None:
    # 4000 of the paper's 40 000 images; the figures of the whole are those of the experiment.
    try:
        images, labels = load_mnist("train")
    except DatasetError:
        pytest.skip("MNIST not found in QSDP_DATA")
    model = BPLSClassifier(random_state=0).fit(images[:4000] / 255, labels[:4000])
    # Constant pixels: less than full rank.
    design = model.report_.passes[0].layers[0].designs[0]
    assert design.n_columns == 785
    assert design.rank < 720
    images, labels = load_mnist("test")
    assert model.score(images / 255, labels) > 0.82
    assert sum(W.nbytes for W in model.network_.weights) == 8 * (785 * 50 + 50 * 10)
    # The first layer as a chain holds its own numbers only.
    form = model.layers_[0].form
    assert sum(array.nbytes for array in vars(form).values()) == 8 * 785 * 50
