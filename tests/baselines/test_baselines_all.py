"""Every training system of the package: what they share, and what quantization makes of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.preprocessing import StandardScaler

import qsdp
import qsdp.baselines as baselines
from qsdp.baselines import History
from qsdp.datasets import load_bundled

#: Name and parameters with which a system trains in a second.
SYSTEMS: dict[str, dict[str, Any]] = {
    "BackpropClassifier": {"n_epochs": 20},
    "BackpropRegressor": {"n_epochs": 15},
    "StraightThroughClassifier": {"n_epochs": 20},
    "StraightThroughRegressor": {"n_epochs": 15},
    "ReLUNetworkClassifier": {"n_epochs": 20},
    "ReLUNetworkRegressor": {"n_epochs": 15},
}


def data(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_bundled("iris" if is_classifier(estimator) else "diabetes")
    return StandardScaler().fit_transform(X), y if is_classifier(estimator) else (y - y.mean()) / y.std()


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {}


@pytest.fixture(params=SYSTEMS)
def model(request: pytest.FixtureRequest, fitted: dict[str, Any]) -> Any:
    name = request.param
    if name not in fitted:
        estimator = getattr(baselines, name)(random_state=0, **SYSTEMS[name])
        fitted[name] = estimator.fit(*data(estimator))
    return fitted[name]


def test_every_estimator_is_listed_here() -> None:
    found = {name for name in baselines.__all__ if hasattr(getattr(baselines, name), "fit")}
    assert found == set(SYSTEMS)
    assert set(dir(baselines)) == set(baselines.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Perceptron'"):
        baselines.Perceptron  # noqa: B018


def test_neither_the_package_nor_its_baselines_import_torch_by_themselves() -> None:
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n            raise ImportError('no torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "import qsdp, qsdp.baselines as b\n"
        "from benchmarks.papers.tomic import BPLSClassifier\n"
        "from benchmarks.papers.noel import QuadraticNetworkClassifier\n"
        "import benchmarks.papers.zhang as z\n"
        "z.RLSNetworkClassifier(2, n_epochs=2).fit([[0.0], [1.0]], [0, 1])\n"
        "for call in (lambda: b.BackpropClassifier().fit([[0.0], [1.0]], [0, 1]), lambda: z.RLS):\n"
        "    try:\n        call()\n"
        "    except qsdp.QSDPError as error:\n        print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == 2 * ["this baseline needs PyTorch: pip install torch"]


def test_history_has_an_entry_for_every_epoch(model: Any) -> None:
    history = model.history_
    assert isinstance(history, History)
    assert history.n_epochs == len(history.loss) == len(history.score) == len(history.seconds) > 0
    assert history.measure == ("accuracy" if is_classifier(model) else "r2")
    assert np.all(np.isfinite(history.loss))
    assert min(history.seconds) > 0.0
    assert history.diverged is None
    X, y = data(model)
    assert model.score(X, y) > (0.8 if is_classifier(model) else 0.2)


def test_layers_are_the_network(model: Any) -> None:
    X, _ = data(model)
    H = X
    for layer in model.layers_:
        H = layer.predict(H)
        H = H if H.ndim == 2 else H[:, None]
    if is_classifier(model):
        outputs = model.decision_function(X)
        decided = outputs.argmax(axis=1) if outputs.ndim == 2 else outputs > 0
        assert np.array_equal(decided, H.argmax(axis=1) if H.shape[1] > 1 else H[:, 0] > 0)
    else:
        np.testing.assert_allclose(H[:, 0], model.predict(X), rtol=0, atol=1e-8 * np.abs(H).max())


def test_what_was_trained_is_matched_by_quantized_weights(model: Any) -> None:
    X, _ = data(model)
    chain = model.distill(X, 1500, random_state=0, tol=1e-3)
    assert len(chain.matches) == len(model.layers_)
    assert all(set(np.unique(match.network.U)) <= {-1, 1} for match in chain.matches)
    assert all(match.certificate.lower_bound <= match.certificate.objective for match in chain.matches)
    assert chain.n_bits == sum(match.network.n_bits for match in chain.matches)
    outputs = chain.predict(X)
    if is_classifier(model):
        agreement = np.mean(outputs.argmax(axis=1) == np.searchsorted(model.classes_, model.predict(X)))
        assert agreement > 0.8
    else:
        residual = np.ravel(outputs) - model.predict(X)
        assert np.mean(residual**2) < 0.5 * np.var(model.predict(X))


def test_models_of_one_layer_go_straight_to_quantize(model: Any) -> None:
    X, _ = data(model)
    if len(model.layers_) > 1:
        assert not hasattr(model, "to_quadratic_form")
        return
    match = qsdp.distill(model, X, 4000, tol=1e-3, random_state=0)
    form = model.to_quadratic_form()
    np.testing.assert_array_equal(match.problem.y, form.predict(X))
    assert np.linalg.norm(match.relaxation.predict(X) - form.predict(X)) < 0.2 * np.linalg.norm(form.predict(X))
