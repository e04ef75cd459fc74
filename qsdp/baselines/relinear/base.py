"""What the two estimators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, RandomState
from qsdp.baselines._estimator import Baseline
from qsdp.baselines._history import Callback, History
from qsdp.baselines._layers import TrainedLayer
from qsdp.baselines._torch import require_torch

if TYPE_CHECKING:
    from qsdp.baselines.relinear.networks import ReLinearNetwork

__all__ = ["ReLinearEstimator"]


class ReLinearEstimator(Baseline):
    """What classifier and regressor share: parameters, training, outputs."""

    network_: ReLinearNetwork
    transfer_history_: History | None
    best_epoch_: int

    #: Losses of the estimator; the first one is the default.
    _losses: tuple[str, ...]

    def __init__(
        self,
        hidden: int | Sequence[int] = (32,),
        *,
        family: str | Sequence[str] = "fan",
        activation: str = "relu",
        loss: str | None = None,
        variant: str = "sg",
        gamma_r: float = 0.01,
        gamma_g: float | None = None,
        gamma_b: float | None = None,
        alpha_g: float | None = None,
        alpha_b: float | None = None,
        beta_g: float | None = None,
        beta_b: float | None = None,
        shrink: str = "weights",
        start: str = "relinear",
        start_scale: float | None = 0.1,
        transfer: int | Sequence[Any] | None = None,
        rezero: bool = False,
        optimizer: str = "adam",
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        decay: str = "linear",
        batch_size: int | None = 64,
        steps_per_epoch: int | None = None,
        n_epochs: int = 100,
        milestones: Sequence[int] = (),
        drop: float = 0.1,
        validation_fraction: float = 0.0,
        dtype: str = "float64",
        device: str | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
        callback: Callback | None = None,
    ) -> None:
        self.hidden = hidden
        self.family = family
        self.activation = activation
        self.loss = loss
        self.variant = variant
        self.gamma_r = gamma_r
        self.gamma_g = gamma_g
        self.gamma_b = gamma_b
        self.alpha_g = alpha_g
        self.alpha_b = alpha_b
        self.beta_g = beta_g
        self.beta_b = beta_b
        self.shrink = shrink
        self.start = start
        self.start_scale = start_scale
        self.transfer = transfer
        self.rezero = rezero
        self.optimizer = optimizer
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.decay = decay
        self.batch_size = batch_size
        self.steps_per_epoch = steps_per_epoch
        self.n_epochs = n_epochs
        self.milestones = milestones
        self.drop = drop
        self.validation_fraction = validation_fraction
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        require_torch()
        from qsdp.baselines.relinear.fitting import fit_network
        from qsdp.baselines.relinear.settings import check_settings

        n_outputs = 1 if targets.ndim == 1 else targets.shape[1]
        settings = check_settings(self, len(X), X.shape[1], n_outputs, self._losses)
        self._flat = targets.ndim == 1
        self.network_, self.transfer_history_, self.best_epoch_ = fit_network(
            settings, X, targets, history, rng, callback=self.callback, verbose=self.verbose
        )

    def _outputs(self, X: FloatArray) -> FloatArray:
        from qsdp.baselines.relinear.fitting import predict

        outputs = predict(self.network_, X)
        return outputs[:, 0] if self._flat else outputs

    @property
    def layers_(self) -> list[TrainedLayer]:
        """Every layer as quadratic functions and an activation."""
        check_is_fitted(self)
        return self.network_.trained_layers()
