"""Outputs have an axis inside the package, and the public face omits it for scalar functions only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qsdp import BilinearNetwork, QuadraticForm, TrainingProblem
from qsdp._utils.outputs import outputs_text, squeezed

U, V = np.array([[1, 1], [1, -1], [-1, 1]]), np.array([[1, -1], [1, 1], [1, 1]])
ALPHA = np.array([[0.5, 1.0], [-2.0, 0.0], [0.25, 3.0]])
X = np.array([[3.0, 1.0], [0.0, -2.0], [1.5, 1.0], [2.0, 2.0]])


def functions(alpha: np.ndarray) -> list[Any]:
    """Return one function as a network, a polynomial network, a form, and an integer form if alpha is shared."""
    network = BilinearNetwork(U, V, alpha)
    shared = [network.to_integer_form()] if network.shared_alpha else []
    return [network, network.to_polynomial(), network.to_quadratic_form(), *shared]


@pytest.mark.parametrize("kind", range(4))
def test_a_scalar_function_is_the_only_output_of_a_vector(kind: int) -> None:
    alpha = np.full(3, 0.5) if kind == 3 else ALPHA[:, 0]
    scalar, vector = functions(alpha)[kind], functions(alpha[:, None])[kind]
    assert (scalar.output_shape, vector.output_shape) == ((), (1,))
    assert scalar.n_outputs == vector.n_outputs == 1
    np.testing.assert_array_equal(scalar.outputs(X), vector.outputs(X))
    np.testing.assert_array_equal(vector.predict(X), vector.outputs(X))
    np.testing.assert_array_equal(scalar.predict(X), scalar.outputs(X)[:, 0])
    assert scalar.predict(X).shape == (4,)


def test_weights_and_forms_have_an_axis_of_outputs() -> None:
    for alpha in (ALPHA, ALPHA[:, :1], ALPHA[:, 0]):
        network = BilinearNetwork(U, V, alpha)
        np.testing.assert_array_equal(network.output_weights, alpha.reshape(3, -1))
        assert network.forms.shape == (alpha.size // 3, 2, 2)
        np.testing.assert_array_equal(network.forms.reshape(network.quadratic_form.shape), network.quadratic_form)
        assert network.to_polynomial().output_weights.shape[1] == alpha.size // 3
        with pytest.raises(ValueError, match="read-only"):
            network.output_weights[0] = 1.0


def test_parts_of_forms_have_an_axis_of_outputs() -> None:
    S = np.array([[1.0, 0.5], [0.5, 0.0]])
    for form in (QuadraticForm(S, [0.0, -2.0], 3.0), QuadraticForm(S[None], [[0.0, -2.0]], [3.0])):
        assert [part.shape for part in form.parts] == [(1, 2, 2), (1, 2), (1,)]
        scaled = form.rescaled(np.array(1.0), np.array(-2.0))
        assert scaled.output_shape == form.output_shape
        np.testing.assert_allclose(scaled.predict(X), 1.0 - 2.0 * form.predict(X), rtol=1e-14)


@pytest.mark.parametrize("C", [None, 1, 2])
def test_problems_have_the_shape_of_their_targets(C: int | None) -> None:
    y = X @ np.ones((2, C or 1))
    problem = TrainingProblem(X, y[:, 0] if C is None else y, beta=0.1)
    assert problem.output_shape == (() if C is None else (C,))


def test_squeezed() -> None:
    values = np.arange(4.0)[:, None]
    np.testing.assert_array_equal(squeezed(values, (), axis=1), np.arange(4.0))
    assert squeezed(values, (1,), axis=1) is values
    assert (squeezed(["a"], ()), squeezed(["a"], (1,)), squeezed(["a", "b"], (2,))) == ("a", ["a"], ["a", "b"])
    assert (outputs_text(()), outputs_text((3,))) == ("", ", n_outputs=3")
