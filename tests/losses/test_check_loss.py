"""The check of losses: it accepts all losses of the package, and names what is wrong with others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from brute_force import Pinball

from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import LOSSES, Absolute, CrossEntropy, Curvature, Huber, Logistic, check_loss


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_the_table_are_consistent(name: str, seed: int) -> None:
    """A new entry of the table is checked here without another edit."""
    loss = LOSSES[name]()
    assert loss.name == name
    check_loss(loss, random_state=seed)


@pytest.mark.parametrize("loss", [Huber(0.01), Huber(30.0), Pinball(0.1), Pinball(0.9)], ids=repr)
def test_parameters_and_losses_from_outside(loss: Any) -> None:
    check_loss(loss, n_samples=1000, random_state=np.random.default_rng(1))


def spoilt(kind: type = Absolute, **members: Any) -> Any:
    """Return a loss with one thing wrong."""
    return type("Spoilt", (kind,), members)()


WRONG = {
    "values are below zero": spoilt(values=lambda self, t, y: np.abs(t - y) - 7.0),
    "values have shape": spoilt(values=lambda self, t, y: np.abs(t - y).sum()),
    "values and conjugates": spoilt(values=lambda self, t, y: np.abs(t - y) + 7.0),
    "values are not convex": spoilt(values=lambda self, t, y: np.sqrt(np.abs(t - y))),
    "gradient is not a subgradient": spoilt(gradient=lambda self, t, y: -np.sign(t - y)),
    "project_dual moves the gradient": spoilt(project_dual=lambda self, u, y: np.clip(u, -0.5, 0.5)),
    "project_dual moves a point": spoilt(
        project_dual=lambda self, u, y: np.where(np.abs(u) == 1.0, u, 0.5 * np.clip(u, -1.0, 1.0))
    ),
    "bounded_dual is True with lipschitz inf": spoilt(lipschitz=math.inf),
    "prox is not the minimiser|prox leads off": spoilt(prox=lambda self, p, y, s: y.copy()),
    "expression is not the weighted": spoilt(
        expression=lambda self, t, y, w=1.0: 2.0 * Absolute.expression(self, t, y, w)
    ),
    "weighted sum of values": spoilt(expression=lambda self, t, y, w=1.0: Absolute.expression(self, t, y)),
    "expression is not convex": spoilt(expression=lambda self, t, y, w=1.0: -Absolute.expression(self, t, y, w)),
    "curvature is not": spoilt(has_curvature=True, curvature=lambda self, t, y: Curvature(np.ones_like(t))),
    "verified_values are not minus": spoilt(verified_values=lambda self, nu, y, w=None: (2.0 * nu * y, 1, 0.0)),
    "verified_values refuse": spoilt(verified_values=lambda self, nu, y, w=None: None),
    "verified_values are finite outside": spoilt(verified_values=lambda self, nu, y, w=None: (nu * y, 1, 0.0)),
    "rescaled is another": spoilt(rescaled=lambda self, c: (self, c * c)),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_named(message: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"loss Spoilt\(\) contradicts itself: .*({message})"):
        check_loss(WRONG[message])


@pytest.mark.parametrize("shift", [-1.0, 1.0])
@pytest.mark.parametrize("kind", LOSSES.values())
def test_wrong_conjugates_of_any_loss_are_found(kind: Any, shift: float) -> None:
    def conjugates(self: Any, dual: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.asarray(kind.conjugates(self, dual, target) + shift)

    with pytest.raises(InvalidInputError, match="values and conjugates are not equal"):
        check_loss(spoilt(kind, conjugates=conjugates))


@pytest.mark.parametrize("kind", [Logistic, CrossEntropy])
@pytest.mark.parametrize("member", ["values", "gradient", "prox", "curvature", "expression"])
def test_coupled_losses_are_checked_too(kind: Any, member: str) -> None:
    def changed(self: Any, *arguments: Any) -> Any:
        result = getattr(kind, member)(self, *arguments)
        return Curvature(1.1 * result.diagonal, result.coupling) if member == "curvature" else 1.1 * result

    with pytest.raises(InvalidInputError, match="contradicts itself"):
        check_loss(spoilt(kind, **{member: changed}))


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidTypeError, match=r"loss must be an instance of .*Loss; got 'huber'"):
        check_loss("huber")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="n_samples must be an integer >= 10"):
        check_loss(Huber(), n_samples=2)
