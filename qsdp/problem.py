"""The training problem: data, loss and regulariser, and the objective of networks and relaxed points."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from qsdp._utils.numeric import EPS
from qsdp._utils.outputs import squeezed
from qsdp._utils.summary import Summarized, Summary, first_few, format_number
from qsdp._utils.validation import (
    FloatArray,
    ReadOnlyArrays,
    check_choice,
    check_integer,
    check_magnitude,
    check_matrix,
    check_numbers,
    check_real,
    check_sample_weight,
    check_targets,
    equal_weights,
    own,
    read_only,
)
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.blocks import Blocks, Layout
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.forms import FormMap, no_rows
from qsdp.lifting import DataMap, QuadraticMap
from qsdp.losses import DataFit, Loss, get_loss

__all__ = ["REGULARIZATIONS", "TrainingProblem", "check_problem"]

#: Factor of ``beta * D * rho`` in the relaxation: the correct factor, and the factor printed in (25).
REGULARIZATIONS: dict[str, float] = {"tight": 2.0, "paper": 1.0}

#: Largest number of levels of an int8 weight, -127 .. 127 in steps of two.
_MAX_LEVELS = 128


class SecondLayer(Protocol):
    """Interface of networks that the objective requires."""

    @property
    def alpha(self) -> FloatArray:
        """Second-layer weights."""

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network."""


@runtime_checkable
class Statistics(Protocol):
    """Interface of `qsdp.SufficientStatistics` that a problem requires."""

    def reduced(self, activation: PolynomialActivation | None) -> tuple[FormMap, FloatArray]:
        """Return a few rows and targets that have the same squared loss as all samples."""


class TrainingProblem(Summarized, ReadOnlyArrays):
    r"""Training problem of a two-layer network with quantized first-layer weights.

    .. math::

        \min_{m,\; u_j, v_j,\; \alpha_j}\;
        \sum_{i=1}^n w_i\, \ell\Big(\sum_{j=1}^m \alpha_j\, u_j^T \mathcal{X}_i v_j,\, y_i\Big)
        + \beta D \sum_{j=1}^m \|\alpha_j\|_1

    For the bilinear activation, :math:`\mathcal{X} = x x^T` and the entries of :math:`u_j, v_j` are levels
    -M, -M + 2, ..., M. For a polynomial activation, :math:`\mathcal{X}` is the lift of x (see `QuadraticMap`); if it
    has a linear or constant part, :math:`u_j, v_j` have one more, binary entry. The loss is a sum over the samples,
    not a mean. The optimal value over all widths ``m`` is called :math:`p_b^*` throughout.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Data, one sample per row; finite and dense, with at least one row and one column. The entries are all zero,
        or the largest magnitude is within 1e-100 .. 1e100.
    y : array-like of shape (n,) or (n, C)
        Targets. Losses for labels (logistic, hinge, squared hinge) take -1 and +1, both present. The cross-entropy
        takes class numbers 0 .. C - 1, each present, or one-hot rows.
    beta : float
        Regularisation strength, finite and >= 0.
    loss : str or Loss, default="squared"
        A name in `qsdp.losses.LOSSES` or a loss object such as ``Huber(delta=0.5)``.
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None is the bilinear activation; otherwise :math:`\sigma(t) = a t^2 + b t + c`.
    levels : int, default=2
        Number M + 1 of values of a first-layer weight, 2 .. 128; 2 is binary. For the bilinear activation, M + 1 levels
        at beta are the binary problem at beta / M, as optimal neurons only use -M and M. Levels are useful for
        activations with a linear or constant part, where they act like columns multiplied by M, and for a fixed number
        of neurons.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`w_i` >= 0 of the samples, finite and not all zero; None gives every sample weight one. A row of
        weight k counts as k equal rows. `X`, `y` and `n_samples` do not include rows of weight zero.

    Attributes
    ----------
    n_samples, n_features, n_outputs : int
        n, d, C (1 for scalar targets).
    dimension : int
        Number ``D`` of binary weights on one side of a neuron: d M, plus one if lifted.
    size : int
        Side N of the matrices of the relaxation: d, plus one if lifted, for every M.

    Raises
    ------
    InvalidInputError
        An argument is not allowed; the message names it, its value and what is allowed.

    Notes
    -----
    Equations (24), (57) and Theorem 1 of Bartan and Pilanci. The arrays are copied and read-only, so a
    relaxation or certificate computed from a problem stays valid.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    >>> problem = qsdp.TrainingProblem(X, [2.0, -0.5, 0.1], beta=0.1)
    >>> network = qsdp.BilinearNetwork(U=[[1, 1]], V=[[-1, 1]], alpha=[0.5])
    >>> round(problem.objective(network), 6)
    5.525625
    """

    #: Number of rows that each sample stands for when rows are held out, if it is not the weight.
    repetitions: FloatArray | None = None

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        beta: float,
        loss: str | Loss = "squared",
        activation: str | Sequence[float] | PolynomialActivation | None = None,
        levels: int = 2,
        sample_weight: Any = None,
    ) -> None:
        self.activation = get_activation(activation)
        self.levels = check_levels(levels)
        self.loss: Loss = get_loss(loss)
        self.beta: float = check_real("beta", beta)
        read = self._from_statistics if isinstance(X, Statistics) else self._from_rows
        #: The data as a map of :math:`\sum_j \alpha_j u_j v_j^T`, for weights at their true levels.
        self.weight_map: DataMap
        #: Targets of shape (n, C), also for one output; everything inside has this shape.
        self.targets: FloatArray
        #: Positive weights of the samples, or None if all are one.
        self.sample_weight: FloatArray | None
        #: Whether `y` and the outputs of networks have the shape (n,).
        self.scalar: bool
        self.weight_map, self.targets, self.sample_weight, self.scalar = read(X, y, sample_weight)

    def _from_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[DataMap, FloatArray, FloatArray | None, bool]:
        blocks = isinstance(X, Blocks)
        if blocks:
            self._check_blocks()
        data: Any = X if blocks else check_matrix("X", X)
        passed = check_targets("y", y, length=data.shape[0])
        target = self.loss.encode_target(passed).reshape(len(passed), -1)
        weights = check_sample_weight(sample_weight, data.shape[0])
        if weights is not None and not np.all(weights > 0.0):
            kept = weights > 0.0
            data, target, weights = data[kept], target[kept], weights[kept]
        check_magnitude("X", data.rows if blocks else data, "rescale its columns, for instance with StandardScaler")
        check_magnitude("y", target, "rescale it")
        self.loss.check_target(target)
        weights = None if weights is None or np.all(weights == 1.0) else own(weights)
        scalar = passed.ndim == 1 and not self.loss.coupled
        # The packed entries of blocks may be most of the memory, or more than it holds.
        weight_map = FormMap.of_blocks(data) if blocks else quadratic_map(own(data), self.activation)
        return weight_map, own(target), weights, scalar

    def _check_blocks(self) -> None:
        if self.levels > 2 or self.activation is not None:
            raise InvalidInputError(
                "levels must be 2 and activation None for blocks: an encoder can lift the data before it packs them"
            )

    def _from_statistics(
        self, statistics: Statistics, y: Any, sample_weight: Any
    ) -> tuple[DataMap, FloatArray, FloatArray | None, bool]:
        if y is not None or sample_weight is not None:
            raise InvalidInputError("y and sample_weight must be None for statistics, which include them")
        if not self.loss.quadratic:
            raise InvalidInputError(
                f"loss must be 'squared' for a problem from statistics; got {self.loss!r}, which needs the rows"
            )
        data, target = statistics.reduced(self.activation)
        if data.units is not None:
            self._check_blocks()
        # There may be no rows at all, so the number of outputs does not follow from the size.
        columns = target[:, None] if target.ndim == 1 else target
        return data, read_only(columns), None, target.ndim == 1

    @classmethod
    def from_statistics(
        cls,
        statistics: Any,
        *,
        beta: float,
        loss: str | Loss = "squared",
        activation: str | Sequence[float] | PolynomialActivation | None = None,
        levels: int = 2,
    ) -> TrainingProblem:
        """Create the squared-loss problem of all samples that statistics summarise.

        The problem has no rows. Its targets `y` belong to at most (d + 1)(d + 2)/2 + C rows of a factor, on which every
        network has the same objective as on the data, up to the rounding of the statistics. Dual vectors have the shape
        of `y`. Operations that need the samples, such as `train_fixed_width` or verified bounds, raise an error.

        Parameters
        ----------
        statistics : qsdp.SufficientStatistics
            Statistics of at least one row, or of blocks.
        beta, activation, levels
            Same as for a problem with rows.
        loss : str or Loss, default="squared"
            Only the squared loss depends on the data through these statistics alone.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            An argument is not allowed; the message names it, its value and what is allowed.

        Examples
        --------
        >>> import qsdp
        >>> X, y = qsdp.datasets.make_planted(n=200, d=5, n_neurons=3, random_state=0)
        >>> statistics = qsdp.SufficientStatistics().partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
        >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem.from_statistics(statistics, beta=1.0))
        >>> other = qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=1.0))
        >>> abs(relaxation.lower_bound - other.lower_bound) < 1e-5 * other.objective
        True
        """
        if not isinstance(statistics, Statistics):
            raise InvalidTypeError(f"statistics must be SufficientStatistics; got {type(statistics).__name__}")
        return cls(statistics, None, beta=beta, loss=loss, activation=activation, levels=levels)

    def require_rows(self, what: str) -> None:
        """Raise `InvalidInputError` if the problem has no rows of data."""
        if not self.weight_map.has_rows:
            raise no_rows(what)

    def require_columns(self, what: str) -> None:
        """Raise `InvalidInputError` unless the problem has rows of columns."""
        if self.blocks is not None:
            raise InvalidInputError(f"{what} needs data of columns; the problem has blocks")
        self.require_rows(what)

    @property
    def X(self) -> Any:  # noqa: N802 (the name of data in scikit-learn)
        """Data of shape (n, d), read-only, or blocks; a problem from statistics has none."""
        return self.weight_map.X

    @property
    def n_samples(self) -> int:
        """Number of samples ``n``."""
        return self.weight_map.n_samples

    @property
    def n_features(self) -> int:
        """Number of columns ``d`` of the data."""
        return self.weight_map.n_features

    @property
    def y(self) -> FloatArray:
        """Targets of shape (n,) or (n, C), as they were passed; read-only."""
        return self.squeezed(self.targets)

    def squeezed(self, array: FloatArray) -> FloatArray:
        """Remove the axis of outputs of an array (.., C) if y is scalar, as in the public interface."""
        result: FloatArray = squeezed(array, self.output_shape, axis=1)
        return result

    def columns(self, array: Any) -> Any:
        """Reshape an array in the shape of `y` to one column per output; arrays of other shapes are unchanged."""
        return np.reshape(array, self.targets.shape) if np.shape(array) == self.y.shape else array

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the value of a network at one sample: () or (C,)."""
        return () if self.scalar else (self.n_outputs,)

    @property
    def parts(self) -> list[TrainingProblem]:
        """Problems that do not interact: this one if the loss couples the outputs, else one for each output."""
        n_parts = self.data_fit.n_parts
        return [self] if n_parts == 1 else [self.output(k) for k in range(n_parts)]

    @property
    def n_outputs(self) -> int:
        """Number of outputs ``C``; 1 for scalar targets."""
        return int(self.targets.shape[1])

    @property
    def lifted(self) -> bool:
        """Whether neurons have a last, binary entry for the activation's linear and constant part."""
        return self.activation is not None and self.activation.lifted

    @property
    def size(self) -> int:
        """Side ``N`` of the matrices of the relaxation; of the largest, for blocks."""
        return self.weight_map.size

    @property
    def blocks(self) -> Layout | None:
        """Sides, kinds and weights of the blocks of a sample; None for data with one row a sample."""
        return self.weight_map.layout if self.weight_map.units is not None else None

    @property
    def dimension(self) -> int:
        r"""Number ``D`` of binary weights on one side of a neuron; 1 for blocks, which are divided by theirs.

        With blocks, `map` and the relaxation refer to block r divided by :math:`\omega_r D_r`.
        """
        return 1 if self.blocks is not None else self.n_features * (self.levels - 1) + self.lifted

    def __repr__(self) -> str:
        outputs = "" if self.scalar else f"n_outputs={self.n_outputs}, "
        activation = f", activation={self.activation.coefficients}" if self.activation else ""
        levels = f", levels={self.levels}" if self.levels > 2 else ""
        weighted = ", weighted" if self.sample_weight is not None else ""
        return (
            f"TrainingProblem(n_samples={self.n_samples}, n_features={self.n_features}, {outputs}"
            f"beta={self.beta:g}, loss={self.loss!r}{activation}{levels}{weighted})"
        )

    def _summary(self) -> Summary:
        outputs = "" if self.scalar else f", {self.n_outputs} outputs"
        kind = "bilinear" if self.activation is None else f"polynomial {self.activation.coefficients}"
        fit = self.data_fit
        weighted = "" if fit.weights is None else f", of total weight {format_number(fit.total_weight)}"
        columns, side = "columns", f"D = {self.dimension}"
        if self.blocks is not None:
            columns, side = "packed entries", f"sides {first_few([str(size) for size in self.blocks.sizes])}"
        rows = [
            ("data", f"{self.n_samples:,} samples, {self.n_features} {columns}{outputs}{weighted}"),
            ("loss", repr(self.loss)),
            ("beta", format_number(self.beta)),
            ("network", f"{kind}, {self.levels} levels, {side}"),
            ("zero network", f"objective {format_number(fit.value_at_zero)}"),
        ]
        return Summary("TrainingProblem", rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TrainingProblem):
            return NotImplemented
        return self is other or (
            (self.beta, self.loss, self.activation, self.levels)
            == (other.beta, other.loss, other.activation, other.levels)
            and self.scalar == other.scalar
            and np.array_equal(self.targets, other.targets)
            and self.weight_map.equals(other.weight_map)
            and equal_weights(self.sample_weight, other.sample_weight)
        )

    __hash__ = None  # type: ignore[assignment]  # compares arrays by value

    def with_levels(self, levels: int) -> TrainingProblem:
        """Return the same problem for another number of levels; the arrays are shared."""
        other = self._replaced(levels=check_levels(levels))
        if self.blocks is not None:
            other._check_blocks()
        return other

    def with_beta(self, beta: float) -> TrainingProblem:
        """Return the same problem for another beta; the arrays are shared."""
        return self._replaced(beta=check_real("beta", beta))

    def with_loss(self, loss: str | Loss) -> TrainingProblem:
        """Return the same problem with another loss; targets are converted to labels or classes if it requires them.

        Raises
        ------
        InvalidInputError
            The targets are not classes: their columns do not have two values each, the larger one once in every row.
        """
        other = get_loss(loss)
        targets = self.targets
        if other.for_classes:
            high = targets == targets.max(axis=0)
            named = high | (targets == targets.min(axis=0))
            if not named.all() or (other.coupled and not np.all(high.sum(axis=1) == 1)):
                raise InvalidInputError(
                    f"loss must be for real targets, since the targets of the problem are not classes; got {other!r}"
                )
            targets = np.where(high, 1.0, 0.0 if other.coupled else -1.0)
        if other.coupled and self.scalar:
            raise InvalidInputError(f"loss must be for a single output, as the problem has; got {other!r}")
        if not other.quadratic:
            self.require_rows(f"the {other.name} loss")
        other.check_target(targets)
        return self._replaced(loss=other, targets=read_only(np.array(targets)))

    def with_repetitions(self, repetitions: FloatArray | None) -> TrainingProblem:
        """Set the number of rows that each sample represents; None means the weights."""
        return self._replaced(repetitions=repetitions)

    def take(self, rows: Any) -> TrainingProblem:
        """Restrict the problem to some samples, selected by their row indices in `X`, with their weights.

        At least one sample is required. A class may have none.
        """
        data, targets = self.weight_map.take(rows), read_only(self.targets[rows])
        if not len(targets):
            raise InvalidInputError("rows must have at least one sample")
        weights, repetitions = (
            None if of_all is None else read_only(of_all[rows]) for of_all in (self.sample_weight, self.repetitions)
        )
        return self._replaced(weight_map=data, targets=targets, sample_weight=weights, repetitions=repetitions)

    def reweighted(self, sample_weight: FloatArray) -> TrainingProblem:
        """Return the problem with other, positive weights."""
        return self._replaced(sample_weight=read_only(sample_weight))

    def output(self, k: int) -> TrainingProblem:
        """Return the scalar problem of output `k`; the data are shared."""
        if not 0 <= k < self.n_outputs:
            raise InvalidInputError(f"k must be the number of an output, 0 to {self.n_outputs - 1}; got {k}")
        return self._replaced(targets=read_only(np.ascontiguousarray(self.targets[:, [k]])), scalar=True)

    def _replaced(self, **attributes: Any) -> TrainingProblem:
        other = copy.copy(self)
        # The map depends neither on targets nor on beta. Keeping it avoids a copy of large data for every output.
        for cached, on in (("map", {"weight_map", "levels"}), ("data_fit", {"targets", "sample_weight"})):
            if not on.isdisjoint(attributes):
                vars(other).pop(cached, None)
        vars(other).update(attributes)
        return other

    @cached_property
    def data_fit(self) -> DataFit:
        """Loss with targets and sample weights: the first term of the objective."""
        return DataFit(self.loss, self.targets, self.sample_weight)

    # -- the data as a linear map of quadratic forms -------------------------------------------------

    @cached_property
    def map(self) -> DataMap:
        """Data as a map of the relaxation's N x N matrices, for columns scaled by M."""
        return self.weight_map.with_levels(self.levels - 1.0)

    def forward(self, S: FloatArray) -> FloatArray:
        r"""Return :math:`\langle \mathcal{X}_i, S \rangle` of shape (n,) for a matrix `S` of shape (N, N)."""
        return self.map.forward(S)

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`, symmetric of shape (N, N)."""
        return self.map.adjoint(nu)

    # -- objectives -----------------------------------------------------------------------------------

    def objective(self, network: SecondLayer) -> float:
        r"""Compute the objective of `network`: loss plus :math:`\beta D \sum_j \|\alpha_j\|_1`."""
        return self.data_fit.value(self.outputs(network)) + self.penalty(network)

    def objective_rounding(self, network: SecondLayer) -> float:
        """Bound the rounding error by which the exact objective of `network` can exceed `objective`.

        The excess is large if weights are so large that their products cancel; then possibly no digit is correct.
        """
        alpha = np.abs(network.alpha).reshape(len(network.alpha), -1)
        terms = EPS * (len(alpha) + 2 * self.size + 16)
        if self.blocks is None:
            largest = alpha.sum(axis=0).max(keepdims=True)
        else:
            # In the units of the map, in which the weights of a block are multiplied by its price.
            shares = np.eye(self.blocks.n_blocks)[:, self._block_of(network)] @ alpha
            largest = shares.max(axis=1) * self.blocks.prices
        with np.errstate(over="ignore", invalid="ignore"):
            error = terms * (self.map.absolute_sums @ largest)
            rounding = self.data_fit.rounding(self.outputs(network), error)
        return rounding if rounding >= 0.0 else math.inf

    def predictions(self, network: SecondLayer) -> FloatArray:
        """Compute the predictions of `network` on the data, in the shape of `y`."""
        return self.squeezed(self.outputs(network))

    def outputs(self, network: SecondLayer) -> FloatArray:
        """Compute the predictions of `network` on the data, always of shape (n, C).

        Raises
        ------
        InvalidInputError
            The network has outputs of another shape than `y`.
        """
        if self.blocks is not None:
            # The problem's map has its blocks in units of their prices.
            prices = self.blocks.prices[self.blocks.block]
            self._block_of(network)
            entries = network.entries  # type: ignore[attr-defined]  # a network on blocks, as checked
            return self._of_outputs(self.weight_map.values_of(entries * prices))
        form = None if self.weight_map.has_rows else getattr(network, "quadratic_form", None)
        if form is None:
            prediction = network.predict(self.X)
            if prediction.shape != self.y.shape:
                raise InvalidInputError(f"network must have outputs of shape {self.y.shape}; got {prediction.shape}")
            return prediction.reshape(self.targets.shape)
        if form.shape[-1] != self.size:
            raise InvalidInputError(f"network must have matrices of side {self.size}; got {form.shape[-1]}")
        columns = [self.weight_map.forward(S) for S in form.reshape(-1, self.size, self.size)]
        return self._of_outputs(np.stack(columns, axis=1))

    def _of_outputs(self, values: FloatArray) -> FloatArray:
        if values.shape[1] != self.n_outputs:
            raise InvalidInputError(f"network must have {self.n_outputs} outputs; got {values.shape[1]}")
        return values

    def penalty(self, network: SecondLayer) -> float:
        r"""Compute the regulariser :math:`\beta \sum_j D_j \|\alpha_j\|_1` of `network`, with the D of each block."""
        weights = np.abs(network.alpha)
        if self.blocks is None:
            return self.beta * (self.dimension * float(weights.sum()))
        prices = self.blocks.prices[self._block_of(network)]
        return self.beta * float(prices @ weights.reshape(len(prices), -1).sum(axis=1))

    def _block_of(self, network: Any) -> Any:
        """Return the block of each neuron, after a check that the network has the blocks of the problem."""
        layout, own = getattr(network, "layout", None), self.blocks
        if layout is None or own is None or (layout.kinds, layout.sizes) != (own.kinds, own.sizes):
            raise InvalidInputError(f"network must have the blocks of the problem; got {network!r:.80}")
        return network.block

    def relaxed_objective(self, Z: Any, rho: Any, *, regularization: str = "tight") -> float:
        r"""Compute the relaxed objective :math:`\ell(2 \langle \mathcal{X}_i, Z \rangle, y) + c \beta D \rho`.

        Parameters
        ----------
        Z : array-like of shape (N, N), or C of them
            Need not be symmetric. With blocks, a list over blocks of arrays (C, N_r, N_r).
        rho : float, or C of them
            Common bound of the diagonals of V and W; >= 0. With blocks, of shape (C, R).
        regularization : {"tight", "paper"}, default="tight"
            Factor c of the regulariser, 2 or 1. Only "tight" makes the relaxation's value the best lower bound.
        """
        weight = self.regularization_weight(regularization)
        if self.blocks is not None:
            return self._relaxed_objective_of_blocks(self.blocks, Z, rho, weight)
        matrices, rhos = ([Z], [rho]) if self.scalar else (list(Z), list(rho))
        if len(matrices) != self.n_outputs or len(rhos) != self.n_outputs:
            raise InvalidInputError(f"Z and rho must have {self.n_outputs} entries, one for each output")
        prediction = self.relaxed_predictions([self._check_side(matrix) for matrix in matrices])
        return self.data_fit.value(prediction) + weight * sum(check_real("rho", r) for r in rhos)

    def _relaxed_objective_of_blocks(self, layout: Layout, Z: Any, rho: Any, weight: float) -> float:
        parts = [check_numbers("Z", part, "(C, N_r, N_r) for each block") for part in Z]
        shapes = [(self.n_outputs, n, n) for n in layout.sizes]
        if [part.shape for part in parts] != shapes:
            raise InvalidInputError(f"Z must have arrays of shapes {shapes}; got {[part.shape for part in parts]}")
        radii = check_numbers("rho", rho, "(C, R)")
        if radii.shape != (self.n_outputs, layout.n_blocks) or np.any(radii < 0.0):
            raise InvalidInputError(f"rho must be >= 0 of shape {(self.n_outputs, layout.n_blocks)}; got {radii.shape}")
        scaled = [price * 0.5 * (part + part.swapaxes(1, 2)) for price, part in zip(layout.prices, parts, strict=True)]
        return self.data_fit.value(self.relaxed_predictions(layout.stack(scaled))) + weight * float(
            (radii @ layout.prices).sum()
        )

    def relaxed_predictions(self, stack: FloatArray | Sequence[FloatArray]) -> FloatArray:
        r"""Compute :math:`2 \langle \mathcal{X}_i, Z \rangle` of shape (n, C) for the matrices Z of all outputs.

        With blocks, the stack holds the matrices of every output and block in the units of `map`.
        """
        return 2.0 * self.map.forwards(np.asarray(stack))

    def _check_side(self, Z: Any) -> FloatArray:
        matrix = check_matrix("Z", Z, n_columns=self.size)
        if matrix.shape[0] != self.size:
            raise InvalidInputError(f"Z must have shape {(self.size,) * 2}; got {matrix.shape}")
        return matrix

    def regularization_weight(self, regularization: str = "tight") -> float:
        r"""Return the coefficient of :math:`\rho` in the relaxation, :math:`c \beta D`."""
        name = check_choice("regularization", regularization, REGULARIZATIONS)
        return min(self.beta * (REGULARIZATIONS[name] * self.dimension), sys.float_info.max)


def check_problem(problem: object) -> None:
    """Raise `InvalidTypeError` unless `problem` is a `TrainingProblem`."""
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(f"problem must be a TrainingProblem; got {type(problem).__name__}")


def quadratic_map(X: FloatArray, activation: PolynomialActivation | None) -> QuadraticMap:
    """Create the data map for an activation; None is bilinear."""
    if activation is None:
        return QuadraticMap(X)
    return QuadraticMap(X, activation.coefficients, activation.lifted)


def check_levels(levels: Any, name: str = "levels") -> int:
    """Check a number of levels, an integer from 2 to 128."""
    return check_integer(name, levels, minimum=2, maximum=_MAX_LEVELS)
