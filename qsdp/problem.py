"""The training problem: data, loss and regulariser, and the objective of networks and relaxed points."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from qsdp._utils.numeric import EPS, LARGEST_INTEGER
from qsdp._utils.outputs import squeezed
from qsdp._utils.summary import Summarized, Summary, first_few, format_number
from qsdp._utils.validation import (
    FloatArray,
    ReadOnlyArrays,
    check_beta,
    check_numbers,
    equal_weights,
    read_only,
)
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.block_layout import Layout
from qsdp.blocks import Blocks
from qsdp.data_map import BLOCKS, SAMPLES, DataMap, require
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import DataFit, Loss, get_loss
from qsdp.training_data import (
    QuadraticModel,
    SecondLayer,
    Statistics,
    TrainingData,
    check_binary,
    check_levels,
    data_of_model,
    data_of_rows,
    map_of_data,
    positive_weights,
    targets_of_classes,
)

__all__ = ["TrainingProblem", "check_problem", "quadratic_problem"]


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
        Regularisation strength, finite and > 0.
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
        if isinstance(X, Statistics):
            raise InvalidTypeError("X must be rows or Blocks; for statistics, use TrainingProblem.from_statistics")
        self._set_options(beta, loss, activation, levels)
        self._set_data(data_of_rows(X, y, sample_weight, self.loss, self.activation))

    def _set_options(
        self,
        beta: float,
        loss: str | Loss,
        activation: str | Sequence[float] | PolynomialActivation | None,
        levels: int,
    ) -> None:
        self.activation = get_activation(activation)
        self.levels = check_levels(levels)
        self.loss: Loss = get_loss(loss)
        self.beta: float = check_beta("beta", beta)

    def _set_data(self, data: TrainingData) -> None:
        #: The data as a map of :math:`\sum_j \alpha_j u_j v_j^T`, for weights at their true levels.
        self.weight_map: DataMap = data.weight_map
        #: Targets of shape (n, C), also for one output; everything inside has this shape.
        self.targets: FloatArray = data.targets
        #: Positive weights of the samples, or None if all are one.
        self.sample_weight: FloatArray | None = data.sample_weight
        #: Whether `y` and the outputs of networks have the shape (n,).
        self.scalar: bool = data.scalar
        check_binary(self.blocks, self.levels, self.activation)

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
        of `y`. Operations that need the samples, such as verified bounds, raise an error.

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
        return cls._of_model(statistics.reduced, beta, loss, activation, levels)

    @classmethod
    def _of_model(
        cls,
        model: Callable[[PolynomialActivation | None], QuadraticModel],
        beta: float,
        loss: str | Loss,
        activation: str | Sequence[float] | PolynomialActivation | None,
        levels: int,
    ) -> TrainingProblem:
        """Create the problem of a quadratic model, which is computed after all options have been checked."""
        problem = cls.__new__(cls)
        problem._set_options(beta, loss, activation, levels)
        if not problem.loss.quadratic:
            raise InvalidInputError(
                f"loss must be 'squared' for a problem from statistics; got {problem.loss!r}, which needs the rows"
            )
        problem._set_data(data_of_model(model(problem.activation)))
        return problem

    @property
    def X(self) -> Any:  # noqa: N802 (the name of data in scikit-learn)
        """Data of shape (n, d), read-only, or blocks; a problem from statistics has none."""
        return self.weight_map.X

    @property
    def n_samples(self) -> int:
        """Number of samples ``n``."""
        return self.weight_map.n_samples

    @property
    def row_counts(self) -> FloatArray:
        """Number of rows (n,) that each sample stands for: its entry of `repetitions`, or its weight if there are none.

        If not all of these numbers are integers, every sample is one row.
        """
        counts = self.sample_weight if self.repetitions is None else self.repetitions
        if counts is None or not np.all(counts == np.rint(counts)) or counts.sum() >= LARGEST_INTEGER:
            return np.ones(self.n_samples)
        return counts

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
        return self.weight_map.layout if BLOCKS in self.weight_map.offers else None

    @property
    def prices(self) -> FloatArray:
        r"""Penalties of the blocks in units of `dimension`: :math:`\omega_r D_r`, or one for data of columns."""
        return np.ones(1) if self.blocks is None else self.blocks.prices

    @property
    def dimension(self) -> int:
        r"""Number ``D`` of binary weights on one side of a neuron; 1 for blocks, which are divided by theirs.

        With blocks, `map` and the relaxation refer to block r divided by :math:`\omega_r D_r`.
        """
        return 1 if self.blocks is not None else self.n_features * (self.levels - 1) + self.lifted

    def settings_text(self) -> str:
        """Return loss, beta and levels in the notation of a `repr`, for results of the problem."""
        return f"loss={self.loss!r}, beta={self.beta:g}, levels={self.levels}"

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
            columns, side = "packed entries", f"sides {first_few([str(size) for size in self.blocks.all_sizes])}"
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
            and np.array_equal(self.y, other.y)
            and self.weight_map.equals(other.weight_map)
            and equal_weights(self.sample_weight, other.sample_weight)
        )

    __hash__ = None  # type: ignore[assignment]  # compares arrays by value

    def with_levels(self, levels: int) -> TrainingProblem:
        """Return the same problem for another number of levels; the arrays are shared."""
        levels = check_levels(levels)
        check_binary(self.blocks, levels, self.activation)
        return self._replaced(levels=levels)

    def with_beta(self, beta: float) -> TrainingProblem:
        """Return the same problem for another beta; the arrays are shared."""
        return self._replaced(beta=check_beta("beta", beta))

    def with_loss(self, loss: str | Loss) -> TrainingProblem:
        """Return the same problem with another loss; targets are converted to labels or classes if it requires them.

        Raises
        ------
        InvalidInputError
            The targets are not classes: their columns do not have two values each, the larger one once in every row.
        """
        other = get_loss(loss)
        targets = targets_of_classes(self.targets, other)
        if other.coupled and self.scalar:
            raise InvalidInputError(f"loss must be for a single output, as the problem has; got {other!r}")
        if not other.quadratic:
            require(self.weight_map, f"the {other.name} loss", SAMPLES)
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
        """Return the problem with other, positive weights of shape (n,)."""
        return self._replaced(sample_weight=positive_weights(self.weight_map, sample_weight))

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

    @cached_property
    def map(self) -> DataMap:
        """Data as a map of the relaxation's N x N matrices, for columns scaled by M."""
        return self.weight_map.of_scaled_data(self.levels - 1.0)

    def map_of(self, X: Any) -> DataMap:
        """Return `map` for other data, which have been checked: an array (n, d), or the same blocks."""
        if self.blocks is not None:
            # The weights of the penalties, which belong to the problem, are part of the units of the map.
            X = Blocks.from_layout(X.rows, self.blocks)
        return map_of_data(X, self.activation).of_scaled_data(self.levels - 1.0)

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`, symmetric of shape (N, N)."""
        return self.map.adjoint(nu)

    def objective(self, network: SecondLayer) -> float:
        r"""Compute the objective of `network`: loss plus :math:`\beta D \sum_j \|\alpha_j\|_1`."""
        return self.data_fit.value(self.outputs(network)) + self.penalty(network)

    def objective_rounding(self, network: SecondLayer) -> float:
        """Bound the rounding error by which the exact objective of `network` can exceed `objective`.

        The excess is large if weights are so large that their products cancel; then possibly no digit is correct.
        """
        alpha, real = np.atleast_2d(np.abs(network.alpha).T).T, self.real_weights(network)
        terms = EPS * (len(alpha) + 2 * self.size + len(real) + 16)
        # In the units of the map, in which the weights of a block are multiplied by its price.
        largest = (np.eye(self.map.n_blocks)[:, self.block_of(network)] @ alpha).max(axis=1) * self.prices
        if len(real):
            largest = np.append(largest, (self.map.layout.weight_omega @ np.abs(real)).max())
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
            self.block_of(network)
            entries = network.entries  # type: ignore[attr-defined]  # a network on blocks, as checked
            # The problem's map has its blocks in units of their prices.
            values = self.weight_map.values_of(entries * self.blocks.entry_prices)
        elif SAMPLES in self.weight_map.offers or not hasattr(network, "forms"):
            prediction = network.predict(self.X)
            if prediction.shape != self.y.shape:
                raise InvalidInputError(f"network must have outputs of shape {self.y.shape}; got {prediction.shape}")
            values = prediction.reshape(self.targets.shape)
        elif network.forms.shape[-1] != self.size:
            raise InvalidInputError(f"network must have matrices of side {self.size}; got {network.forms.shape[-1]}")
        else:
            values = self.weight_map.forwards(network.forms)
        if values.shape[1] != self.n_outputs:
            raise InvalidInputError(f"network must have {self.n_outputs} outputs; got {values.shape[1]}")
        return values

    def penalty(self, network: SecondLayer) -> float:
        r"""Compute the regulariser :math:`\beta \sum_j D_j \|\alpha_j\|_1` of `network`, with the D of each block.

        Real weights add :math:`\beta \sum_k \omega_k |w_k|`.
        """
        weights = np.atleast_2d(np.abs(network.alpha).T).T.sum(axis=1)
        penalty = self.dimension * float(self.prices[self.block_of(network)] @ weights)
        if len(real := self.real_weights(network)):
            penalty += float((self.map.layout.weight_omega @ np.abs(real)).sum())
        return self.beta * penalty

    def real_weights(self, network: Any) -> FloatArray:
        """Return the real weights (p, C) of a network on the blocks of the problem; without any, p is 0."""
        if self.blocks is None or not self.blocks.weights:
            return np.zeros((0, self.n_outputs))
        weights = getattr(network, "weights", None)
        if weights is None:
            return np.zeros((self.blocks.n_weights, self.n_outputs))
        return np.asarray(weights).reshape(self.blocks.n_weights, -1)

    def block_of(self, network: Any) -> Any:
        """Return the block of each neuron, after a check that the network has the blocks of the problem."""
        layout, blocks = getattr(network, "layout", None), self.blocks
        if blocks is None:
            return np.zeros(len(network.alpha), dtype=np.intp)
        if layout is None or not layout.same_blocks(blocks):
            raise InvalidInputError(f"network must have the blocks of the problem; got {network!r:.80}")
        return network.block

    def relaxed_objective(self, Z: Any, rho: Any) -> float:
        r"""Compute the relaxed objective :math:`\ell(2 \langle \mathcal{X}_i, Z \rangle, y) + 2 \beta D \rho`.

        Parameters
        ----------
        Z : list of array-like
            For each block, of which data of columns are one, the matrices of all outputs, of shape (C, N_r, N_r), which
            need not be symmetric; vectors of shape (C, N_r) for a linear block, and real weights of shape (C, N_r).
        rho : array-like of shape (C, R)
            Common bounds of the diagonals of V and W, for the blocks with neurons; >= 0.
        """
        layout = self.map.layout
        stack, weights = layout.stack(layout.check_matrices("Z", Z, self.n_outputs))
        radii = check_numbers("rho", rho, "(C, R)")
        if radii.shape != (self.n_outputs, layout.n_blocks) or np.any(radii < 0.0):
            raise InvalidInputError(f"rho must be >= 0 of shape {(self.n_outputs, layout.n_blocks)}; got {rho!r:.60}")
        prices = np.tile(self.prices, self.n_outputs)[:, None, None]
        scaled, priced = prices * 0.5 * (stack + stack.swapaxes(1, -1)), weights * layout.weight_omega
        penalty = self.relaxed_penalty * (float((radii @ self.prices).sum()) + 0.5 * float(np.abs(priced).sum()))
        return self.data_fit.value(self.relaxed_predictions(scaled, priced)) + penalty

    def relaxed_predictions(self, stack: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        r"""Compute :math:`2 \langle \mathcal{X}_i, Z \rangle` of shape (n, C) for the matrices Z of all outputs.

        With blocks, the stack holds the matrices of every output and block in the units of `map`, and real weights of
        shape (C, p) are in these units, too; None is zero.
        """
        if weights is None:
            return 2.0 * self.map.forwards(np.asarray(stack))
        return self.map.values(2.0 * np.asarray(stack), weights)

    @property
    def relaxed_penalty(self) -> float:
        r"""Coefficient of :math:`\rho` in the relaxation, :math:`2 \beta D`."""
        return min(self.beta * (2.0 * self.dimension), sys.float_info.max)


def quadratic_problem(
    model: QuadraticModel,
    *,
    beta: float,
    loss: str | Loss = "squared",
    activation: str | Sequence[float] | PolynomialActivation | None = None,
    levels: int = 2,
) -> TrainingProblem:
    """Create the problem of a quadratic model, whose rows include the lift of the activation."""
    return TrainingProblem._of_model(lambda _: model, beta, loss, activation, levels)


def check_problem(problem: object) -> None:
    """Raise `InvalidTypeError` unless `problem` is a `TrainingProblem`."""
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(f"problem must be a TrainingProblem; got {type(problem).__name__}")
