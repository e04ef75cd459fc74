r"""ReLinear's update rules for any PyTorch optimiser: groups of learning rates, and decoupled shrinkage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.papers.fan.neurons import QuadraticNeurons
from qsdp._utils.validation import check_choice, check_real
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["VARIANTS", "ReLinear", "parameter_groups", "quadratic_parameters"]

#: Regular training, smaller rates for quadratic parameters, and three ways of shrinking weights; see `ReLinear`.
VARIANTS = ("none", "sg", "sw-l1", "sw-l2", "sw-soft")

#: Default shrinkage, the paper's value for Runge's function.
SHRINKAGE = 1e-4

#: Groups of quadratic parameters.
_QUADRATIC = ("g", "b")


def quadratic_parameters(model: nn.Module) -> Iterator[tuple[str, str, Tensor, float]]:
    """Yield role ("g" or "b"), name, tensor and conventional value of every quadratic parameter."""
    for module in model.modules():
        if isinstance(module, QuadraticNeurons):
            for name, reference in module.start.items():
                yield module.roles[name], name, getattr(module, name), reference


def parameter_groups(
    model: nn.Module,
    gamma_r: float,
    gamma_g: float | None = None,
    gamma_b: float | None = None,
    *,
    weight_decay: float = 0.0,
    decay: str = "linear",
) -> list[dict[str, Any]]:
    r"""Return parameter groups for a PyTorch optimiser, with three learning rates.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that contains layers of this package.
    gamma_r : float
        Rate :math:`\gamma_r` of conventional weights and of all other parameters of the model.
    gamma_g, gamma_b : float, optional
        Rates :math:`\gamma_g` of the second factors and :math:`\gamma_b` of the powers; `gamma_r` by default.
    weight_decay : float, default=0
        The optimiser's own weight decay, which most optimisers add to the gradients.
    decay : {"linear", "all"}, default="linear"
        Whether it applies only to the conventional weights, or to all parameters. "all" also pulls ``bg`` to zero,
        which removes the linear path.

    Returns
    -------
    list of dict
        Besides PyTorch's own entries, a group has ``role`` ("r", "g" or "b") and, in the order of its parameters,
        ``are_weights`` (weights, not biases) and ``references`` (conventional values).

    Notes
    -----
    Rates are scaled instead of gradients, because scaled gradients have no effect on Adam. A PyTorch schedule
    multiplies the three rates alike.
    """
    gamma_r = check_real("gamma_r", gamma_r)
    rates = {
        "r": gamma_r,
        "g": gamma_r if gamma_g is None else check_real("gamma_g", gamma_g),
        "b": gamma_r if gamma_b is None else check_real("gamma_b", gamma_b),
    }
    weight_decay = check_real("weight_decay", weight_decay)
    everywhere = check_choice("decay", decay, ["linear", "all"]) == "all"
    members: dict[tuple[str, bool], list[tuple[Tensor, bool, float]]] = {}
    seen: set[int] = set()

    def add(role: str, tensor: Tensor, is_weight: bool, reference: float) -> None:
        decayed = weight_decay > 0.0 and (everywhere or (role == "r" and is_weight))
        members.setdefault((role, decayed), []).append((tensor, is_weight, reference))
        seen.add(id(tensor))

    for role, name, tensor, reference in quadratic_parameters(model):
        add(role, tensor, name.startswith("w"), reference)
    for tensor in model.parameters():
        if id(tensor) not in seen:
            add("r", tensor, tensor.ndim > 1, 0.0)
    return [
        {
            "params": [tensor for tensor, _, _ in entries],
            "lr": rates[role],
            "weight_decay": weight_decay if decayed else 0.0,
            "role": role,
            "are_weights": [is_weight for _, is_weight, _ in entries],
            "references": [reference for _, _, reference in entries],
        }
        for (role, decayed), entries in sorted(members.items(), key=lambda item: "rgb".index(item[0][0]))
    ]


class ReLinear:
    r"""A PyTorch optimiser whose steps also shrink the quadratic weights, decoupled from the gradient.

    For :math:`P \in \{W^g, W^b\}`, the optimiser's direction :math:`d`, and :math:`s` the shrinkage of P's group:

    ===========  ==================================================================
    ``none``     :math:`P \leftarrow P - \gamma_r d`
    ``sg``       :math:`P \leftarrow P - \gamma_{g,b} d`
    ``sw-l1``    :math:`P \leftarrow P - \alpha_{g,b}\,\mathrm{sgn}(P) - \gamma_r d`
    ``sw-l2``    :math:`P \leftarrow (1 - \beta_{g,b}) P - \gamma_r d`
    ``sw-soft``  :math:`T = P - \gamma_r d,\; P \leftarrow \mathrm{sgn}(T)\max(|T| - \alpha_{g,b}, 0)`
    ===========  ==================================================================

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Optimiser made from `parameter_groups`.
    variant : {"none", "sg", "sw-l1", "sw-l2", "sw-soft"}, default="sg"
        The rates of ``none`` and ``sg`` are those of the optimiser's groups; this class then only checks them.
    alpha_g, alpha_b : float, optional
        Amounts for ``sw-l1`` and ``sw-soft``; 1e-4 by default.
    beta_g, beta_b : float, optional
        Factors in [0, 1] for ``sw-l2``; 1e-4 by default. At 1, weights are one gradient step and jitter around 0.
    shrink : {"weights", "all"}, default="weights"
        Whether biases also shrink: ``c`` to 0, and ``bg`` to the conventional 1. Shrinking ``bg`` to 0, as in a
        footnote of the paper, would remove the linear path.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
        The given optimiser, for learning-rate schedules.

    Notes
    -----
    Fan et al., Table I. As printed, ``sw-l1`` makes entries below its amount change sign at every step; ``sw-soft``
    makes them zero.

    Examples
    --------
    >>> import torch
    >>> from benchmarks.papers.fan import FanLinear, ReLinear, parameter_groups
    >>> model = torch.nn.Sequential(FanLinear(4, 8), torch.nn.ReLU(), FanLinear(8, 1))
    >>> optimizer = torch.optim.SGD(parameter_groups(model, gamma_r=0.1, gamma_g=1e-4, gamma_b=1e-4), momentum=0.9)
    >>> rule = ReLinear(optimizer, "sg")
    >>> loss = model(torch.randn(10, 4)).square().mean()
    >>> loss.backward()
    >>> rule.step()
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        variant: str = "sg",
        *,
        alpha_g: float | None = None,
        alpha_b: float | None = None,
        beta_g: float | None = None,
        beta_b: float | None = None,
        shrink: str = "weights",
    ) -> None:
        self.variant, self._amounts = check_shrinkage(variant, alpha_g, alpha_b, beta_g, beta_b)
        everything = check_choice("shrink", shrink, ["weights", "all"]) == "all"
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidTypeError(f"optimizer must be a PyTorch optimizer; got {type(optimizer).__name__}")
        if any("role" not in group for group in optimizer.param_groups):
            raise InvalidInputError("optimizer must be made from parameter_groups(model, ...): its groups have no role")
        self.optimizer = optimizer
        self._check_rates()
        self._shrunk: list[tuple[Tensor, float, float]] = []
        if variant.startswith("sw"):
            for group in optimizer.param_groups:
                if group["role"] in _QUADRATIC:
                    entries = zip(group["params"], group["are_weights"], group["references"], strict=True)
                    amount = self._amounts[group["role"]]
                    self._shrunk += [
                        (tensor, value, amount) for tensor, weight, value in entries if weight or everything
                    ]

    def _check_rates(self) -> None:
        """Raise an error if the rates do not fit the variant."""
        base = max((group["lr"] for group in self.optimizer.param_groups if group["role"] == "r"), default=math.inf)
        for group in self.optimizer.param_groups:
            if group["role"] in _QUADRATIC:
                name, rate = f"gamma_{group['role']}", group["lr"]
                if self.variant == "sg" and rate > base:
                    raise InvalidInputError(f"{name} must be at most gamma_r = {base:g} with 'sg'; got {rate:g}")
                if self.variant != "sg" and rate != base < math.inf:
                    raise InvalidInputError(
                        f"{name} must be gamma_r = {base:g} in variant {self.variant!r}; got {rate:g}: free in 'sg'"
                    )

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        """Make the optimiser's step, and shrink the weights."""
        if self.variant == "sw-soft":
            self.optimizer.step()
            for tensor, reference, amount in self._shrunk:
                away = tensor - reference
                tensor.copy_(reference + torch.sign(away) * (away.abs() - amount).clamp_(min=0.0))
            return
        # Like the direction, the subtracted shrinkage is computed from the parameters before the step.
        pulls = [self._pull(*entry) for entry in self._shrunk]
        self.optimizer.step()
        for (tensor, _, _), pull in zip(self._shrunk, pulls, strict=True):
            tensor.sub_(pull)

    def _pull(self, tensor: Tensor, reference: float, amount: float) -> Tensor:
        away = tensor - reference
        return (torch.sign(away) if self.variant == "sw-l1" else away).mul_(amount)


def check_shrinkage(
    variant: object, alpha_g: object, alpha_b: object, beta_g: object, beta_b: object
) -> tuple[str, dict[str, float]]:
    """Return the variant and the shrinkage of groups "g" and "b"; parameters it does not use must be None."""
    variant = check_choice("variant", variant, VARIANTS)
    used = {"sw-l1": "alpha", "sw-soft": "alpha", "sw-l2": "beta"}.get(variant)
    given = {"alpha_g": alpha_g, "alpha_b": alpha_b, "beta_g": beta_g, "beta_b": beta_b}
    amounts = {}
    for name, value in given.items():
        kind, role = name.split("_")
        if kind != used:
            _refuse_unused(name, value, variant, ["sw-l1", "sw-soft"] if kind == "alpha" else ["sw-l2"])
            continue
        amounts[role] = SHRINKAGE if value is None else check_real(name, value)
        if kind == "beta" and amounts[role] > 1.0:
            raise InvalidInputError(f"{name} must be from 0 to 1; got {value!r}")
    return variant, amounts


def check_rates(variant: str, gamma_r: object, gamma_g: object, gamma_b: object) -> tuple[float, float, float]:
    """Return the three rates of a variant; those that it does not use must be None."""
    rate = check_real("gamma_r", gamma_r)
    if variant != "sg":
        for name, value in (("gamma_g", gamma_g), ("gamma_b", gamma_b)):
            _refuse_unused(name, value, variant, ["sg"])
        return rate, rate, rate
    first = 0.1 * rate if gamma_g is None else check_real("gamma_g", gamma_g)
    second = first if gamma_b is None else check_real("gamma_b", gamma_b)
    for name, value in (("gamma_g", first), ("gamma_b", second)):
        if value > rate:
            raise InvalidInputError(f"{name} must be at most gamma_r = {rate:g} with 'sg'; got {value:g}")
    return rate, first, second


def _refuse_unused(name: str, value: object, variant: str, users: Iterable[str]) -> None:
    if value is not None:
        listing = " and ".join(repr(user) for user in users)
        raise InvalidInputError(f"{name} must be None in variant {variant!r}: it belongs to {listing}; got {value!r}")
