"""Encrypted inputs: parameters, what comes back, and that the secret stays."""

from __future__ import annotations

import builtins
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError, MissingPackageError
from qsdp.export import EncryptedClient, EncryptedNetwork, encrypted
from qsdp.export._encrypted import _MOST_BITS, _lifted

EXAMPLE = Path(__file__).parents[2] / "docs" / "guide" / "encrypted_inputs.py"


def network(d: int = 31, m: int = 74, n_outputs: int = 1, **options: Any) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(0)
    U, V = (rng.choice([-1, 1], size=(m, d + bool(options))) for _ in range(2))
    alpha = np.full(m, 0.1) if n_outputs == 1 else np.eye(n_outputs)[np.arange(m) % n_outputs] * 0.1
    return qsdp.BilinearNetwork(U, V, alpha, **options)


LIFTED = {"activation": qsdp.PolynomialActivation(0.0937, 0.5, 0.4688)}


@pytest.mark.parametrize("model", [network(), network(n_outputs=3), network(**LIFTED), network(100, 20)])
def test_parameters(model: qsdp.BilinearNetwork) -> None:
    X = np.random.default_rng(1).uniform(-2.0, 2.0, (50, model.n_inputs))
    found = encrypted(model, bound=2.0)
    np.testing.assert_allclose(_lifted(X) @ found.weights.T, model.predict(X).reshape(50, -1), rtol=1e-9, atol=1e-9)
    parameters = found.parameters
    reach = (np.abs(found.weights) @ _lifted(np.full((1, model.n_inputs), 2.0))[0]).max()
    assert parameters.error <= 1e-4 * reach
    assert sum(parameters.moduli) <= _MOST_BITS[parameters.degree]
    # The result fits below its modulus.
    assert reach * 2.0**parameters.scale < 2.0 ** (parameters.moduli[0] - 1)
    assert encrypted(model, bound=2.0, error=1e-6).parameters.scale > parameters.scale
    assert f"{parameters.scale} bits" in parameters._repr_html_()


@pytest.mark.parametrize("model", [network(), network(3, 5, n_outputs=2, **LIFTED), network(100, 20)])
def test_outputs_are_within_the_error(model: qsdp.BilinearNetwork) -> None:
    pytest.importorskip("tenseal")
    rng = np.random.default_rng(2)
    d = model.n_inputs
    X = np.vstack([rng.uniform(-3.0, 3.0, (2, d)), 3.0 * model.U[:1, :d], rng.choice([-3.0, 3.0], (1, d))])
    evaluated = encrypted(model, bound=3.0)
    client = EncryptedClient(evaluated.parameters)
    outputs = client.decrypt(evaluated.evaluate(client.public, client.encrypt(X)))
    assert outputs.shape == (4, model.n_outputs)
    error = np.abs(outputs - model.predict(X).reshape(4, -1)).max()
    assert error <= evaluated.parameters.error
    if d == 31:
        with pytest.raises(InvalidInputError, match="X must be within 3, the bound"):
            client.encrypt(X * 1.01)
        with pytest.raises(InvalidInputError, match="a row must be 1 ciphertexts; got 2"):
            evaluated.evaluate(client.public, [client.encrypt(X[:1])[0] * 2])
        with pytest.raises(InvalidInputError, match="must not hold the secret key"):
            evaluated.evaluate(client._context.serialize(save_secret_key=True), [])


def test_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tenseal")
    # The other process imports the example by its name.
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    import encrypted_inputs  # type: ignore[import-not-found]

    try:
        assert encrypted_inputs.main() <= 1.0
    finally:
        sys.modules.pop("encrypted_inputs")


def test_the_example_compiles() -> None:
    assert callable(runpy.run_path(str(EXAMPLE))["evaluate"])


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidTypeError, match="network must have to_quadratic_form; got int"):
        encrypted(3)
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(InvalidTypeError, match="got QuantizedNetworkRegressor; take its network_"):
        encrypted(qsdp.QuantizedNetworkRegressor(random_state=0).fit(X, X[:, 0]))
    for options in ({"bound": 0.0}, {"error": 0.0}, {"bound": np.inf}):
        with pytest.raises(InvalidInputError, match=next(iter(options))):
            encrypted(network(), **options)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="no parameters of 128 bits of security"):
        encrypted(network(), error=1e-15)
    evaluated = encrypted(network())
    assert isinstance(evaluated, EncryptedNetwork)
    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "tenseal":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match="encrypted inputs need tenseal"):
        EncryptedClient(evaluated.parameters)
    with pytest.raises(MissingPackageError, match="encrypted inputs need tenseal"):
        evaluated.evaluate(b"", [])
