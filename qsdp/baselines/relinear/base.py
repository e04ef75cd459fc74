"""What the two estimators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray
from qsdp.baselines._estimator import Baseline
from qsdp.baselines._history import History
from qsdp.baselines._layers import TrainedLayer
from qsdp.baselines._torch import require_torch

__all__ = ["ReLinearEstimator"]


@dataclass(eq=False, repr=False, kw_only=True)
class ReLinearEstimator(Baseline):
    """What classifier and regressor share: parameters, training, outputs."""

    #: Losses of the estimator; the first one is the default.
    _losses: ClassVar[tuple[str, ...]]

    hidden: int | Sequence[int] = field(default=(32,), kw_only=False)
    family: str | Sequence[str] = "fan"
    activation: str = "relu"
    loss: str | None = None
    variant: str = "sg"
    gamma_r: float = 0.01
    gamma_g: float | None = None
    gamma_b: float | None = None
    alpha_g: float | None = None
    alpha_b: float | None = None
    beta_g: float | None = None
    beta_b: float | None = None
    shrink: str = "weights"
    start: str = "relinear"
    start_scale: float | None = 0.1
    transfer: int | Sequence[Any] | None = None
    rezero: bool = False
    optimizer: str = "adam"
    momentum: float = 0.9
    weight_decay: float = 0.0
    decay: str = "linear"
    batch_size: int | None = 64
    steps_per_epoch: int | None = None
    n_epochs: int = 100
    milestones: Sequence[int] = ()
    drop: float = 0.1
    validation_fraction: float = 0.0
    dtype: str = "float64"
    device: str | None = None

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        require_torch()
        from qsdp.baselines.relinear.fitting import fit_network
        from qsdp.baselines.relinear.settings import check_settings

        n_outputs = 1 if targets.ndim == 1 else targets.shape[1]
        settings = check_settings(self, X.shape[1], n_outputs, self._losses)
        self._flat = targets.ndim == 1
        self.network_, self.transfer_history_, self.best_epoch_ = fit_network(
            settings,
            X,
            targets,
            history,
            rng,
            validation_fraction=self.validation_fraction,
            callback=self.callback,
            verbose=self.verbose,
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
