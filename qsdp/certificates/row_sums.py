r"""Sums over rows from which a certificate over any number of rows is computed, in one pass.

The multiplier :math:`\nu_i` of a row follows from that row alone through scores, the predictions of some relaxation or
network. For any scores, :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i` is a sum over rows, and so are the conjugates of
multiples of :math:`\nu`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from qsdp._utils.numeric import EPS, MARGIN
from qsdp._utils.parallel import CACHE_FLOATS, chunks
from qsdp._utils.validation import FloatArray
from qsdp.data_map import DataMap
from qsdp.exceptions import InvalidInputError
from qsdp.lifting import QuadraticMap
from qsdp.losses import DataFit, Loss, PiecewiseQuadratic
from qsdp.networks import BilinearNetwork
from qsdp.pricing import BoundTree
from qsdp.relaxation.bounds import entry_size, pricing_roundings
from qsdp.relaxation.instance import LinearInstance
from qsdp.roundoff import gamma
from qsdp.statistics.batches import has_weight
from qsdp.statistics.sample import check_finite
from qsdp.training_data import counting_rows, quadratic_map

__all__ = ["SCALES", "RowSums", "RowsProof", "Scores", "Totals"]

#: Multiples of the dual vector whose values are summed. Concavity allows values between them to be interpolated.
SCALES = (0.25, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class Scores:
    r"""Scores of rows, which determine their multipliers.

    Attributes
    ----------
    forms : ndarray of shape (C, N, N)
        Matrices S of the predictions :math:`\langle \mathcal{X}_i, S \rangle`, for weights of true levels.
    step : float
        Multipliers are minus the gradient of the loss at the predictions or, for a positive step, of its Moreau
        envelope, because the gradient jumps at the kinks of a loss.
    """

    forms: FloatArray
    step: float

    def predictions(self, data: DataMap) -> FloatArray:
        """Compute predictions of shape (n, C)."""
        return np.stack([data.forward(S) for S in self.forms], axis=1)

    def multipliers(self, prediction: FloatArray, fit: DataFit) -> FloatArray:
        """Compute the dual vectors (n, C) of predictions, inside the conjugate's domain up to rounding."""
        if self.step == 0.0:
            return -fit.gradient(prediction)
        if isinstance(fit.loss, PiecewiseQuadratic):
            # This avoids the difference of a point and its prox, which would keep few digits for a small step.
            unit = (prediction - fit.target) / (fit.loss.inverse_curvature + self.step)
            return -fit.weighted(fit.loss.project_dual(unit, fit.target))
        return fit.weighted((fit.loss.prox(prediction, fit.target, self.step) - prediction) / self.step)

    def slopes(self, prediction: FloatArray, fit: DataFit) -> FloatArray:
        """Compute minus the derivatives of the multipliers in the predictions, separately for each output."""
        if self.step == 0.0:
            defined = fit.loss.has_curvature
            return fit.curvature(prediction).diagonal if defined else fit.typical_curvature(prediction, 0.0)
        change = 0.25 * self.step
        ends = [self.multipliers(prediction + sign * change, fit) for sign in (-1.0, 1.0)]
        return np.maximum(ends[0] - ends[1], 0.0) / (2.0 * change)


@dataclass(frozen=True, eq=False)
class Totals:
    r"""Sums of a pass for one set of scores.

    Attributes
    ----------
    scores : Scores
    matrices : ndarray of shape (C, N, N)
        :math:`M_\nu` for data scaled by the levels.
    roundings : ndarray of shape (C,)
        Bounds on how much pricing values may exceed those of `matrices`.
    values : ndarray of shape (P, len(SCALES))
        Lower bounds on :math:`-\ell^*(-s \nu)` for the multiples of `SCALES` and each of P parts: single outputs if
        they do not interact, else all.
    """

    scores: Scores
    matrices: FloatArray
    roundings: FloatArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class RowsProof:
    r"""Everything needed to recompute a certificate's bound, except the rows themselves.

    The dual vector is :math:`\nu_i = \sum_k m_{kp}\, \nu_i(S_k)`, for scores :math:`S_k` and each part p of the outputs
    (single outputs if they do not interact, else all). It is in the domain of the conjugate.

    Attributes
    ----------
    network : BilinearNetwork
    loss : Loss
    beta : float
    n_samples : int
    digest : str
        SHA-256 of the rows, see `RowSums`.
    scores : tuple of Scores
    mixture : ndarray of shape (K, P)
        Nonnegative; columns add up to one at most.
    trees : tuple of BoundTree
        Trees that bound the pricing values of the mixture's matrices, one for each output.
    objective_rounding : float
        Bound on how much the objective may depend on the order of sums.
    """

    network: BilinearNetwork
    loss: Loss
    beta: float
    n_samples: int
    digest: str
    scores: tuple[Scores, ...]
    mixture: FloatArray
    trees: tuple[BoundTree, ...]
    objective_rounding: float = 0.0

    @property
    def size(self) -> int:
        """Side N of the matrices."""
        return int(self.scores[0].forms.shape[-1])

    @property
    def scalar(self) -> bool:
        """Whether outputs have the shape (n,)."""
        return not self.network.output_shape


class RowSums:
    """Sums over rows that certify a network, computed block by block.

    Parameters
    ----------
    network : BilinearNetwork
    loss : Loss
    scores : Scores
    """

    def __init__(self, network: BilinearNetwork, loss: Loss, scores: Scores) -> None:
        self.n_samples, self.objective_rounding = 0, 0.0
        self._network, self._loss, self._scores = network, loss, scores
        C, N = network.n_outputs, scores.forms.shape[-1]
        self._matrices, self._sizes, self._roundings = np.zeros((C, N, N)), np.zeros(C), np.zeros(C)
        self._losses: list[float] = []
        self._weights: list[float] = []
        self._values: list[FloatArray] = []
        self._digest = hashlib.sha256()

    @property
    def loss_value(self) -> float:
        """Loss of the network."""
        return math.fsum(self._losses)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return math.fsum(self._weights)

    @property
    def digest(self) -> str:
        """SHA-256 of the rows (x, y, and the weight if there are any), as little-endian float64."""
        return self._digest.hexdigest()

    def totals(self) -> Totals:
        """Return the sums of all rows so far."""
        values = np.array(self._values)
        summed = np.array([[math.fsum(values[:, p, s]) for s in range(len(SCALES))] for p in range(values.shape[1])])
        # Adding blocks rounds once more for each block; `fsum` rounds only once.
        roundings = MARGIN * self._roundings + gamma(len(self._values) + 2) * self._sizes
        return Totals(self._scores, self._matrices.copy(), roundings, np.nextafter(summed, -np.inf))

    def add(self, X: object, y: object, sample_weight: object = None) -> None:
        """Add the rows of a batch whose weight is positive.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            An argument is incompatible with the network or the loss. Labels and classes may be missing from a batch.
        """
        if not has_weight(X, y, sample_weight):
            return
        X, fit = self._read(X, y, sample_weight)
        # Overflow proves nothing, and shows as infinity or NaN.
        with np.errstate(all="ignore"):
            for rows in chunks(len(X), X.shape[1], work=CACHE_FLOATS):
                self._add(X[rows], fit.rows(rows))
        self.n_samples += len(X)
        self._weights.append(fit.total_weight)

    def _read(self, X: object, y: object, sample_weight: object) -> tuple[FloatArray, DataFit]:
        check_finite("X", X)
        check_finite("y", y)
        network, loss = self._network, self._loss
        data, target, weights = counting_rows(X, y, sample_weight, partial(_encoded, loss, network), network.n_inputs)
        return data, DataFit(loss, target, weights)

    def _add(self, X: FloatArray, fit: DataFit) -> None:
        data = quadratic_map(X, self._network.activation)
        scaled = data.of_scaled_data(self._network.levels - 1.0)
        outputs = self._network.outputs(X)
        self._losses.append(fit.value(outputs))
        terms = EPS * (self._network.n_neurons + 2 * data.size + 16) * float(np.abs(self._network.alpha).sum(0).max())
        self.objective_rounding += fit.rounding(outputs, terms * scaled.absolute_sums[:, 0])
        predictions = self._scores.predictions(data)
        nu = fit.project(self._scores.multipliers(predictions, fit))
        matrices = scaled.adjoints(nu)
        changes = self._changes(data, fit, predictions)
        roundings = pricing_roundings(LinearInstance(scaled, fit, 0.0), nu) + entry_size(scaled, changes)
        self._matrices += matrices
        self._sizes += np.abs(matrices).sum(axis=(1, 2))
        self._roundings += roundings
        # The slope of a dual value is a prediction, or the target itself.
        slopes = changes * np.maximum(np.abs(predictions), np.abs(fit.target))
        parts = fit.parts
        duals, lost = (np.split(array, len(parts), axis=1) for array in (nu, slopes))
        values = [
            [part.safe_dual_value(s * dual) - changed.sum() for s in SCALES]
            for part, dual, changed in zip(parts, duals, lost, strict=True)
        ]
        self._values.append(np.array(values))
        columns = [X, fit.target] + ([] if fit.weights is None else [fit.weights[:, None]])
        self._digest.update(np.ascontiguousarray(np.hstack(columns) + 0.0, dtype="<f8").data)

    def _changes(self, data: QuadraticMap, fit: DataFit, predictions: FloatArray) -> FloatArray:
        """Bound the change of multipliers if predictions are recomputed from the scores with different rounding."""
        largest = np.abs(self._scores.forms).max(axis=(1, 2))
        errors = EPS * (2 * data.size + 16) * data.absolute_sums * largest
        ends = [self._scores.multipliers(predictions + sign * errors, fit) for sign in (-1.0, 1.0)]
        return np.abs(ends[1] - ends[0])


def _encoded(loss: Loss, network: BilinearNetwork, target: FloatArray) -> FloatArray:
    if loss.coupled:
        target = _one_hot(target, loss.name, network.n_outputs)
    if target.shape[1:] != network.output_shape:
        outputs = f"(n, {network.n_outputs})" if network.output_shape else "(n,)"
        raise InvalidInputError(f"y must have shape {outputs}, as the network's outputs; got {target.shape}")
    if loss.labels and not np.all(np.abs(target) == 1.0):
        raise InvalidInputError(f"y must hold the labels -1 and +1 only for the {loss.name} loss")
    return target.reshape(len(target), -1)


def _one_hot(target: FloatArray, loss: str, n_classes: int) -> FloatArray:
    if target.ndim == 1:
        if not np.all(np.isin(target, np.arange(n_classes))):
            raise InvalidInputError(
                f"y must hold class numbers 0 .. {n_classes - 1} for the {loss} loss of this network"
            )
        return np.eye(n_classes)[target.astype(np.intp)]
    if not (np.all((target == 0.0) | (target == 1.0)) and np.all(target.sum(axis=1) == 1.0)):
        raise InvalidInputError(f"y must have one-hot rows or class numbers for the {loss} loss")
    return target
