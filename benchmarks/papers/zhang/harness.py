"""Comparison of optimisers from the same initial parameters, on the same minibatches and loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.methods.torch_training import mean_loss, state_of
from benchmarks.papers.zhang.optimizer import RLS
from benchmarks.papers.zhang.settings import SUGGESTION
from qsdp._utils.validation import check_choice, check_integer
from qsdp.baselines._history import Callback, History, train_epochs
from qsdp.baselines._torch import evaluate, minibatches, training_epoch
from qsdp.exceptions import InvalidInputError

__all__ = ["LOSSES", "METHODS", "Data", "Method", "compare_optimizers", "squared_loss", "train_network"]

#: Number of samples that are evaluated at a time.
_BLOCK = 1000


def squared_loss(outputs: Tensor, targets: Tensor, batch_dim: int = 0) -> Tensor:
    r"""Return :math:`\frac{1}{2M} \|Z - Z^*\|_F^2`: half the sum over outputs and time steps, averaged over samples.

    Parameters
    ----------
    outputs, targets : Tensor of shape (M, ...)
        Linear outputs and desired linear outputs.
    batch_dim : int, default=0
        Dimension of the M samples.

    Notes
    -----
    Zhang et al. (2021), equations (57) and (87). `torch.nn.MSELoss` is 2 / n_outputs times this loss.
    """
    return torch.sum((outputs - targets) ** 2) / (2 * outputs.shape[batch_dim])


#: Losses of the linear outputs, normalised as in `loss_and_gradient`, and the mean over elements for comparisons.
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "squared": squared_loss,
    **{name: mean_loss(name) for name in ("cross_entropy", "absolute", "huber")},
    "mean_squared": nn.functional.mse_loss,
}


@dataclass(frozen=True)
class Method:
    """Method to train a model.

    Attributes
    ----------
    make : callable
        ``make(model, **options)`` returns the optimiser.
    squared_only : bool
        Whether the output layer is trained by recursive least squares, whose derivation covers no other loss.
    clips : bool
        Whether the optimiser clips the gradients itself.
    """

    make: Callable[..., torch.optim.Optimizer]
    squared_only: bool = False
    clips: bool = False


def _on_parameters(kind: Any, **defaults: Any) -> Method:
    return Method(lambda model, **options: kind(model.parameters(), **{**defaults, **options}))


def _rls(**defaults: Any) -> Method:
    return Method(lambda model, **options: RLS(model, **{**defaults, **options}), squared_only=True, clips=True)


def _hrls(**defaults: Any) -> Method:
    def make(model: nn.Module, **options: Any) -> RLS:
        return RLS(model, exclude=_last_linear(model), rest="adam", **{**defaults, **options})

    return Method(make, clips=True)


_M, _R = {"momentum": 0.5}, {"l1": 1e-5}
_IMPROVEMENTS: dict[str, dict[str, Any]] = {"": {}, "+m": _M, "+r": _R, "+m+r": {**_M, **_R}}

#: Optimisers by name, with the paper's settings, or PyTorch's if the paper has none.
METHODS: dict[str, Method] = {
    "sgd": _on_parameters(torch.optim.SGD, lr=0.1),
    "nag": _on_parameters(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    "adagrad": _on_parameters(torch.optim.Adagrad),
    "adam": _on_parameters(torch.optim.Adam),
    **{f"rls{name}": _rls(**options) for name, options in _IMPROVEMENTS.items()},
    **{f"hrls{name}": _hrls(**options) for name, options in _IMPROVEMENTS.items()},
}


def _last_linear(model: nn.Module) -> str:
    names: list[str] = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise InvalidInputError("the hybrid leaves the last Linear module to Adam; the model has none")
    return names[-1]


@dataclass(frozen=True)
class Data:
    """Inputs and targets for training and for testing.

    Attributes
    ----------
    X, targets : Tensor
        The linear outputs are compared with the targets: rows, such as one-hot rows, or class numbers for the
        cross-entropy, which takes either.
    X_test, targets_test : Tensor
    score : callable
        ``score(outputs, targets)``, recorded for both parts.
    """

    X: Tensor
    targets: Tensor
    X_test: Tensor
    targets_test: Tensor
    score: Callable[[Tensor, Tensor], float] = field(default=lambda outputs, targets: classification(outputs, targets))


def classification(outputs: Tensor, targets: Tensor) -> float:
    """Return the fraction of samples whose largest output is that of their class."""
    codes = targets.argmax(dim=-1) if targets.is_floating_point() else targets
    return float((outputs.argmax(dim=-1) == codes).double().mean())


def train_network(
    make_model: Callable[[], nn.Module],
    data: Data,
    method: str | Method,
    *,
    loss: str = "squared",
    n_epochs: int = 100,
    batch_size: int = 128,
    clip: float | None = 5.0,
    seed: int = 0,
    callback: Callback | None = None,
    verbose: bool | int = False,
    name: str | None = None,
    **options: Any,
) -> History:
    """Train a model by one method, and record its history.

    Parameters
    ----------
    make_model : callable
        Function that returns a new model; PyTorch's generator is seeded with `seed` before the call.
    data : Data
    method : str or Method
        One of `METHODS`.
    loss : {"squared", "cross_entropy", "absolute", "huber", "mean_squared"}, default="squared"
        "squared" is `squared_loss`; "mean_squared" is `torch.nn.MSELoss`.
    n_epochs, batch_size : int
    clip : float or None, default=5.0
        Largest norm of all gradients together, for every method.
    seed : int
        Seed of the initial parameters and minibatches, whatever the method.
    callback, verbose, name
        See `train_epochs`.
    **options
        Options of the optimiser.

    Returns
    -------
    History
        Training loss and score. ``extra["test"]`` is the score on the test part, ``extra["test_loss"]`` its loss, and
        ``extra["cpu_seconds"]`` the CPU time of an epoch's training, over all threads.

    Raises
    ------
    InvalidInputError
        The method's derivation excludes the loss.
    """
    if isinstance(method, str):
        name, method = name or method, METHODS[check_choice("method", method, METHODS)]
    check_choice("loss", loss, LOSSES)
    if method.squared_only and loss not in {"squared", "mean_squared"}:
        raise InvalidInputError(
            f"loss {loss!r} is excluded by the derivation of {name or 'the method'!r} for the output layer, which "
            "solves a least-squares problem in the linear outputs; use 'squared', or the hybrid 'hrls'"
        )
    n_epochs = check_integer("n_epochs", n_epochs, minimum=1)
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    torch.manual_seed(check_integer("seed", seed, minimum=0))
    model = make_model()
    optimizer = method.make(model, **({"clip": clip} if method.clips else {}), **options)
    generator = torch.Generator().manual_seed(seed)
    function = LOSSES[loss]
    cpu_seconds = 0.0

    steps = training_epoch(
        optimizer,
        lambda rows: torch.autograd.backward(function(model(data.X[rows]), data.targets[rows])),
        lambda: minibatches(len(data.X), batch_size, generator),
        clipped=(list(model.parameters()), None if method.clips else clip),
    )

    def train(epoch: int) -> None:
        nonlocal cpu_seconds
        start = time.process_time()
        model.train()
        steps(epoch)
        cpu_seconds = time.process_time() - start

    def measure() -> Mapping[str, float]:
        outputs, tested = (evaluate(model, X, _BLOCK) for X in (data.X, data.X_test))
        return {
            "loss": float(function(outputs, data.targets)),
            "score": data.score(outputs, data.targets),
            "test": data.score(tested, data.targets_test),
            "test_loss": float(function(tested, data.targets_test)),
            "cpu_seconds": cpu_seconds,
        }

    return train_epochs(
        train,
        measure,
        n_epochs,
        get_state=lambda: state_of(model),
        set_state=model.load_state_dict,
        history=History(),
        suggestion=SUGGESTION if method.clips else "a smaller lr",
        callback=callback,
        verbose=verbose,
        name=name or "training",
    )


def compare_optimizers(
    make_model: Callable[[], nn.Module],
    data: Data,
    methods: Iterable[str] | Mapping[str, Method],
    **options: Any,
) -> dict[str, History]:
    """Train a model by each of several methods, from the same initial parameters on the same minibatches.

    Parameters
    ----------
    make_model, data, **options
        See `train_network`.
    methods : iterable of str, or dict of str to Method

    Returns
    -------
    dict of str to History
        Loss and scores against epochs, and against ``seconds`` or ``extra["cpu_seconds"]``.

    Examples
    --------
    >>> import torch
    >>> from benchmarks.papers.zhang.harness import Data, compare_optimizers
    >>> X = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    >>> targets = torch.eye(2)[(X[:, 0] > X[:, 1]).long()]
    >>> data = Data(X[:200], targets[:200], X[200:], targets[200:])
    >>> curves = compare_optimizers(lambda: torch.nn.Linear(4, 2), data, ["adam", "rls"], n_epochs=5, batch_size=32)
    >>> curves["rls"].loss[-1] < curves["adam"].loss[-1]
    True
    """
    if not isinstance(methods, Mapping):
        methods = {name: METHODS[check_choice("method", name, METHODS)] for name in methods}
    return {name: train_network(make_model, data, method, name=name, **options) for name, method in methods.items()}
