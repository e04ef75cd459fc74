"""Recursive least squares as a PyTorch optimiser."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.papers.zhang.collector import Collector
from benchmarks.papers.zhang.maps import (
    LinearMap,
    Mean,
    check_maps,
    excluded_names,
    layers_of,
    learning_rates,
    make_rest,
)
from benchmarks.papers.zhang.settings import SUGGESTION, RLSSettings
from qsdp._utils.validation import _show, check_flag, check_integer, check_real, warn
from qsdp.baselines._history import DivergedError
from qsdp.exceptions import InvalidInputError, InvalidTypeError, StorageError

__all__ = ["RLS"]

#: Maximum number of bytes of the largest P by default: 11585 rows in single precision.
_MEMORY_LIMIT = 2**29


class RLS(torch.optim.Optimizer):
    r"""Optimiser that trains the layers of a model by recursive least squares with the average approximation.

    Every linear map with parameters :math:`\Theta`, weights over bias, keeps an approximate inverse P of its inputs'
    autocorrelation. Its step is a gradient descent step with the matrix :math:`\frac{\eta}{h} P` as the learning
    rate:

    .. math::

        u &= P_{s-1} \bar x, \qquad h = \lambda + k T\, \bar x^T u, \\
        \Omega_s &= \alpha \Omega_{s-1} - \tfrac{\eta}{h} P_{s-1} G, \qquad
        P_s = \tfrac{1}{\lambda} P_{s-1} - \tfrac{k T}{\lambda h} u u^T, \\
        \Theta_s &= \Theta_{s-1} + \Omega_s - \gamma P_s \operatorname{sgn}(\Theta_{s-1}),

    where G is the gradient, :math:`\bar x` the mean of the map's inputs with a 1 for the bias, and T the number of
    time steps (1 without time).

    The output layer must be linear with the loss :math:`\frac{1}{2M} \|Z - f^{-1}(Y^*)\|_F^2`, summed over outputs. Use
    `squared_loss`, not `torch.nn.MSELoss`: its mean over outputs divides the steps by the number of outputs. For any
    other loss, exclude the output layer: ``RLS(model, exclude=["output"], rest="adam")`` is the hybrid.

    Parameters
    ----------
    model : torch.nn.Module
        Model whose `Linear`, `Conv2d`, `RNN` and `LSTM` modules are trained. Each stacked recurrent layer must be a
        separate module. Mean inputs come from forward passes in training mode whose outputs are then differentiated,
        over all such passes between two steps (gradient accumulation). Other passes have no effect.
    lr : float or dict of str to float, default=1.0
        Learning rate :math:`\eta`, for all layers or by module name. The recurrent layer "a" has the maps "a.input" and
        "a.recurrent". Missing names have 1. Learning-rate schedulers can change it.
    forgetting, ratio, momentum, l1, initial_inverse, trace_guard, regularize_bias
        :math:`\lambda`, k, :math:`\alpha`, :math:`\gamma`, :math:`p_0` and more, see `RLSSettings`. They can be set for
        each map in `param_groups`.
    clip : float or None, default=5.0
        Largest norm of all gradients together, including those of `rest`; the paper has 1 for LSTMs.
    scale_ratio_by_time : bool, default=True
        Whether k is multiplied by T.
    exclude : str or iterable of str, default=()
        Names of modules that are left to `rest`, with all their submodules.
    rest : {"adam", "sgd"} or callable, optional
        Optimiser of all other parameters, with its default rate (0.1 for "sgd"), or a callable that returns an
        optimiser for a list of parameters.
    memory_limit : int, default=2**29
        Maximum number of bytes of the largest P.
    batch_first : bool, optional
        Whether the batch dimension of sequences that enter `Linear` modules comes before the time dimension. By
        default, as in the recurrent modules.

    Attributes
    ----------
    rest : torch.optim.Optimizer or None
    n_steps, n_clipped : int
        Number of steps, and of steps whose gradient was clipped, since the optimiser was created.

    Raises
    ------
    InvalidInputError
        A parameter is not allowed, a layer is not covered, or its P is too large.

    Notes
    -----
    Zhang, Song, Zhou, Ou, Deng, Yang: Revisiting recursive least squares for training deep neural networks (2021),
    algorithms 1-3 and section V. With ``ratio=0`` this is `torch.optim.SGD`. For `forgetting` below 1, the default
    ``trace_guard=True`` changes the printed update: P is scaled before a step whenever its mean eigenvalue exceeds
    `initial_inverse`. ``trace_guard=False`` is the update as printed.

    Examples
    --------
    >>> import torch
    >>> from benchmarks.papers.zhang import RLS, squared_loss
    >>> model = torch.nn.Linear(2, 1).double()
    >>> for parameter in model.parameters():
    ...     _ = torch.nn.init.zeros_(parameter)
    >>> optimizer = RLS(model)
    >>> X, targets = torch.tensor([[1.0, 2.0], [3.0, 0.0]]).double(), torch.tensor([[1.0], [0.0]]).double()
    >>> optimizer.zero_grad(); squared_loss(model(X), targets).backward(); optimizer.step()
    >>> model.weight.tolist(), model.bias.tolist()
    ([[0.3125, 0.625]], [0.3125])
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float | Mapping[str, float] = 1.0,
        *,
        forgetting: float = 1.0,
        ratio: float = 0.1,
        momentum: float = 0.0,
        l1: float = 0.0,
        initial_inverse: float = 1.0,
        trace_guard: bool = True,
        regularize_bias: bool = True,
        clip: float | None = 5.0,
        scale_ratio_by_time: bool = True,
        exclude: str | Iterable[str] = (),
        rest: str | Callable[[list[nn.Parameter]], torch.optim.Optimizer] | None = None,
        memory_limit: int = _MEMORY_LIMIT,
        batch_first: bool | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InvalidTypeError(f"model must be a torch.nn.Module; got {_show(model)}")
        settings = RLSSettings.from_parameters(locals())
        self.clip = None if clip is None else check_real("clip", clip, strict=True)
        self.scale_ratio_by_time = check_flag("scale_ratio_by_time", scale_ratio_by_time)
        memory_limit = check_integer("memory_limit", memory_limit, minimum=1)
        if batch_first is None:
            batch_first = all(m.batch_first for m in model.modules() if isinstance(m, (nn.RNN, nn.LSTM)))
        layers = layers_of(model, excluded_names(exclude, model), check_flag("batch_first", batch_first))
        maps = [one for layer in layers for one in layer.maps]
        check_maps(maps, memory_limit)
        rates = learning_rates(lr, layers)
        covered = {id(parameter) for one in maps for parameter in one.parameters}
        others = [(n, p) for n, p in model.named_parameters() if p.requires_grad and id(p) not in covered]
        self.rest = make_rest(rest, others)
        self._maps = maps
        groups = [
            {"params": one.parameters, "name": one.name, "lr": rates[one.name], **asdict(settings)} for one in maps
        ]
        self.n_steps = self.n_clipped = 0
        self._ready = False
        super().__init__(groups, {"lr": 1.0, **asdict(settings)})
        self._ready = True
        for one, group in zip(self._maps, self.param_groups, strict=True):
            P = torch.eye(one.side, dtype=one.weight.dtype, device=one.weight.device)
            self.state[one.weight] = {"step": 0, "resets": 0, "P": P.mul_(group["initial_inverse"])}
        self._collector = Collector()
        weakref.finalize(self, _remove, self._collector.watch(layers))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raise an error, since the groups are the maps of the model."""
        if getattr(self, "_ready", False):
            raise InvalidInputError("RLS takes its parameters from the model; create a new optimiser to add more")
        super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear all gradients and the mean inputs that belong to them."""
        super().zero_grad(set_to_none)
        if self.rest is not None:
            self.rest.zero_grad(set_to_none)
        self._collector.clear()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Clip all gradients, then update every map by recursive least squares and other parameters by `rest`.

        Parameters
        ----------
        closure : callable, optional
            Function that computes gradients and returns the loss, which `step` then returns.

        Raises
        ------
        DivergedError
            A gradient or a step is not finite. Parameters and P are as before the step.
        InvalidInputError
            A map has a gradient but no mean input: its module was in evaluation mode, or was not called directly.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        pairs = zip(self._maps, self.param_groups, strict=True)
        active = [(one, group) for one, group in pairs if one.weight.grad is not None]
        means = [self._mean(one) for one, _ in active]
        norm = self._clip()
        by_time = self.scale_ratio_by_time
        steps = [
            _Step(one, group, self.state[one.weight], mean, mean.rows / mean.samples if by_time else 1.0)
            for (one, group), mean in zip(active, means, strict=True)
        ]
        self._check(steps, norm)
        for step in steps:
            step.finish()
        if self.rest is not None:
            self.rest.step()
        self._collector.clear()
        self.n_steps += 1
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return P, velocities, step counters and settings, and the state of `rest`."""
        state = super().state_dict()
        return state if self.rest is None else {**state, "rest": self.rest.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved state, which does not include the parameters of the model.

        Raises
        ------
        StorageError
            The state belongs to another model, or to other options `exclude` and `rest`.
        """
        state = dict(state_dict)
        rest = state.pop("rest", None)
        names = [group.get("name") for group in state.get("param_groups", [])]
        if names != [one.name for one in self._maps] or (rest is None) != (self.rest is None):
            raise StorageError(
                f"the state is that of an optimiser of the maps {names}, {'with' if rest else 'without'} a rest; this "
                f"one has {[one.name for one in self._maps]}, {'with' if self.rest else 'without'} a rest"
            )
        sides = [saved["P"].shape[0] for _, saved in sorted(state["state"].items())]
        if sides != [one.side for one in self._maps]:
            raise StorageError(f"the state has P of {sides} rows; this model needs {[one.side for one in self._maps]}")
        super().load_state_dict(state)
        for kept in self.state.values():
            # P and velocity change in place; the saved ones must not change with them.
            kept.update({name: value.clone() for name, value in kept.items() if isinstance(value, Tensor)})
        if self.rest is not None:
            self.rest.load_state_dict(rest)

    def _mean(self, one: LinearMap) -> Mean:
        mean = self._collector.mean(one)
        if mean is None:
            raise InvalidInputError(
                f"{one.name!r} has a gradient but no mean input: run its module forward and backward in training "
                "mode, after the optimiser was made and zero_grad was called, or exclude it"
            )
        return mean

    def _clip(self) -> Tensor:
        """Clip all gradients, and return their norm before clipping."""
        groups = self.param_groups + ([] if self.rest is None else self.rest.param_groups)
        parameters = [parameter for group in groups for parameter in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, math.inf if self.clip is None else self.clip)

    def _check(self, steps: list[_Step], norm: Tensor) -> None:
        """Raise an error unless all steps are finite, and reset each indefinite P; one transfer serves all maps."""
        flags = [norm] + [flag for step in steps for flag in (step.excitation, step.total)]
        size, *numbers = torch.stack([flag.to(norm.device, norm.dtype) for flag in flags]).tolist()
        if not math.isfinite(size):
            raise DivergedError(f"the gradient is not finite; try {SUGGESTION}")
        for step, excitation, total in zip(steps, numbers[::2], numbers[1::2], strict=True):
            if not (math.isfinite(excitation) and math.isfinite(total)):
                raise DivergedError(
                    f"the step of {step.map.name!r} is not finite after {step.state['step']} steps; try {SUGGESTION}"
                )
        self.n_clipped += self.clip is not None and size + 1e-6 > self.clip
        for step, excitation in zip(steps, numbers[::2], strict=True):
            step.h = step.group["forgetting"] + step.gain * excitation
            if excitation < 0.0:
                step.reset()


class _Step:
    """One step of one map: `__init__` computes the product with P, and `finish` applies the update if it is finite."""

    def __init__(self, one: LinearMap, group: dict[str, Any], state: dict[str, Any], mean: Mean, times: float) -> None:
        self.map, self.group, self.state, self.gain = one, group, state, group["ratio"] * times
        self.mean = mean.value if one.bias is None else torch.cat([mean.value, mean.value.new_ones(1)])
        self.h = math.nan
        self.scale: Tensor | None = None
        if group["forgetting"] != 1.0 and group["trace_guard"]:
            allowed = one.side * group["initial_inverse"]
            trace = state["P"].diagonal().sum()
            self.scale = torch.where(trace > allowed, allowed / trace, torch.ones_like(trace))
        self._multiply()

    def _multiply(self) -> None:
        one = self.map
        parts = [one.gradient(), self.mean[None]]
        self.signs = None
        if self.group["l1"]:
            self.signs = one.matrix().sign_()
            if one.bias is not None and not self.group["regularize_bias"]:
                self.signs[:, -1] = 0.0
            parts.append(self.signs)
        self.product = torch.cat(parts) @ self.state["P"]
        if self.scale is not None:
            self.product.mul_(self.scale)
        self.u = self.product[one.n_out]
        self.excitation = self.u @ self.mean
        self.total = self.product.sum()

    def reset(self) -> None:
        """Reset P to its initial value, because rounding errors have made it indefinite."""
        name, count = self.map.name, self.state["step"]
        warn(f"P of {name!r} was not positive definite after {count} steps: reset to its initial value")
        self.state["P"].zero_().fill_diagonal_(self.group["initial_inverse"])
        self.state["resets"] += 1
        self.scale = None
        self._multiply()
        self.h = self.group["forgetting"] + self.gain * float(self.excitation)

    def finish(self) -> None:
        """Update P, velocity and parameters."""
        group, n_out, forgetting = self.group, self.map.n_out, self.group["forgetting"]
        change = self.product[:n_out] * (-group["lr"] / self.h)
        if group["momentum"]:
            velocity = self.state.get("velocity")
            if velocity is not None:
                change.add_(velocity, alpha=group["momentum"])
            self.state["velocity"] = change
        if self.signs is not None:
            # The shrinkage uses the new P and the signs of the old parameters.
            shrinkage = self.product[n_out + 1 :].addr(self.signs @ self.u, self.u, alpha=-self.gain / self.h)
            change = change.add(shrinkage, alpha=-group["l1"] / forgetting)
        if self.scale is not None:
            self.state["P"].mul_(self.scale)
        # One vector times itself keeps P exactly symmetric.
        v = self.u * math.sqrt(self.gain / (forgetting * self.h))
        self.state["P"].addr_(v, v, beta=1.0 / forgetting, alpha=-1.0)
        self.map.add(change)
        self.state["step"] += 1


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
