"""The training problem: what is minimised, and the objective of any network or relaxed point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qsdp._validation import (
    FloatArray,
    check_choice,
    check_matrix,
    check_real,
    check_vector,
    read_only,
)
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss

__all__ = ["REGULARIZATIONS", "TrainingProblem"]

#: Factor of ``beta * D * rho`` in the relaxation: the right one, and the one printed in (25).
REGULARIZATIONS: dict[str, float] = {"tight": 2.0, "paper": 1.0}

#: Magnitudes whose squares, products and sums stay representable in double precision.
_SMALLEST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class Units:
    r"""What one unit of a normalised problem is in the original one.

    Attributes
    ----------
    weight : float
        Of the matrices V, Z and the numbers rho, alpha.
    prediction : float
        Of predictions and targets.
    value : float
        Of objectives and bounds.
    """

    weight: float
    prediction: float
    value: float


class SecondLayer(Protocol):
    """What the objective needs to know of a network."""

    @property
    def alpha(self) -> FloatArray:
        """Second-layer weights."""

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network."""


class TrainingProblem:
    r"""Train a two-layer network with bilinear activation and binary first-layer weights.

    .. math::

        \min_{m,\; u_j, v_j \in \{-1,+1\}^D,\; \alpha_j \in \mathbb{R}}\;
        \sum_{i=1}^n \ell\Big(\sum_{j=1}^m \alpha_j (x_i^T u_j)(x_i^T v_j),\, y_i\Big)
        + \beta D \sum_{j=1}^m |\alpha_j|

    The loss is a sum over the samples, not a mean. The optimal value over all widths ``m`` is called
    :math:`p_b^*` throughout.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Data, one sample a row; finite, dense, at least one row and one column. All zeros, or a largest
        magnitude within 1e-100 .. 1e100.
    y : array-like of shape (n,)
        Targets; -1 and +1, both present, for the losses of labels (logistic, hinge, squared hinge).
    beta : float
        Regularisation, finite and >= 0.
    loss : str or Loss, default="squared"
        A name of `qsdp.losses.LOSSES` or a loss object such as ``Huber(delta=0.5)``.
    activation : None
        ``None`` is the bilinear activation, the only one of this version.
    levels : int, default=2
        Values a first-layer weight can take; 2 (binary) is the only number of this version.

    Attributes
    ----------
    n_samples, n_features : int
        Shape of `X`.
    dimension : int
        ``D``, the number of binary weights on one side of a neuron.

    Raises
    ------
    InvalidInputError
        An argument is not allowed; the message names it, its value and what is allowed.

    Notes
    -----
    Equation (24) of Bartan and Pilanci. The arrays are copied and read-only: a relaxation or certificate
    computed from a problem stays true.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    >>> problem = qsdp.TrainingProblem(X, [2.0, -0.5, 0.1], beta=0.1)
    >>> network = qsdp.BilinearNetwork(U=[[1, 1]], V=[[-1, 1]], alpha=[0.5])
    >>> round(problem.objective(network), 6)
    5.525625
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        beta: float,
        loss: str | Loss = "squared",
        activation: None = None,
        levels: int = 2,
    ) -> None:
        if activation is not None:
            raise InvalidInputError(f"activation must be None (bilinear) in this version; got {activation!r}")
        if isinstance(levels, bool) or levels != 2:
            raise InvalidInputError(f"levels must be 2 (binary weights) in this version; got {levels!r}")
        self.loss: Loss = get_loss(loss)
        self.beta: float = check_real("beta", beta)
        data = check_matrix("X", X)
        target = check_vector("y", y, length=data.shape[0])
        _check_magnitude("X", data, "rescale its columns, for instance with StandardScaler")
        _check_magnitude("y", target, "rescale it")
        self.loss.check_target(target)
        self.X: FloatArray = read_only(data.copy() if data is X else data)
        self.y: FloatArray = read_only(target.copy() if target is y else target)

    @property
    def n_samples(self) -> int:
        """Number of samples ``n``."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns ``d`` of the data."""
        return int(self.X.shape[1])

    @property
    def dimension(self) -> int:
        """Number ``D`` of binary weights on one side of a neuron."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        return (
            f"TrainingProblem(n_samples={self.n_samples}, n_features={self.n_features}, "
            f"beta={self.beta:g}, loss={self.loss!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TrainingProblem):
            return NotImplemented
        return self is other or (
            self.beta == other.beta
            and self.loss == other.loss
            and np.array_equal(self.X, other.X)
            and np.array_equal(self.y, other.y)
        )

    __hash__ = None  # type: ignore[assignment]  # compares arrays by value

    # -- the data as a linear map of quadratic forms -------------------------------------------------

    def forward(self, S: FloatArray) -> FloatArray:
        r"""Return :math:`(x_i^T S x_i)_i`, shape (n,), for a matrix `S` of shape (D, D)."""
        return quadratic_values(self.X, S)

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`M_\nu = \sum_i \nu_i x_i x_i^T`, symmetric of shape (D, D)."""
        M = (self.X.T * nu) @ self.X
        return 0.5 * (M + M.T)

    # -- objectives -----------------------------------------------------------------------------------

    def objective(self, network: SecondLayer) -> float:
        r"""Return the objective (24) of `network`: loss plus :math:`\beta D \sum_j |\alpha_j|`."""
        prediction = network.predict(self.X)
        return self.loss.value(prediction, self.y) + self.penalty(network)

    def penalty(self, network: SecondLayer) -> float:
        r"""Return the regulariser :math:`\beta D \sum_j |\alpha_j|` of `network`."""
        return self.beta * self.dimension * float(np.abs(network.alpha).sum())

    def relaxed_objective(self, Z: Any, rho: float, *, regularization: str = "tight") -> float:
        r"""Return :math:`\ell(2 x_i^T Z x_i, y) + c \beta D \rho` with c = 2 (tight) or 1 (as printed).

        Parameters
        ----------
        Z : array-like of shape (D, D)
            Off-diagonal block; need not be symmetric.
        rho : float
            Common bound of the diagonals of V and W; >= 0.
        regularization : {"tight", "paper"}, default="tight"
            Factor of the regulariser. Only "tight" makes the relaxation's value the best lower bound.
        """
        Z = check_matrix("Z", Z, n_columns=self.dimension)
        if Z.shape[0] != self.dimension:
            raise InvalidInputError(f"Z must have shape {(self.dimension,) * 2}; got {Z.shape}")
        weight = self.regularization_weight(regularization)
        return self.loss.value(2.0 * self.forward(Z), self.y) + weight * check_real("rho", rho)

    def regularization_weight(self, regularization: str = "tight") -> float:
        r"""Return the coefficient of :math:`\rho` in the relaxation, :math:`c \beta D`."""
        name = check_choice("regularization", regularization, REGULARIZATIONS)
        return REGULARIZATIONS[name] * self.beta * self.dimension

    def normalised(self) -> tuple[TrainingProblem, Units]:
        r"""Return the problem in units in which its numbers are near one, and those units.

        Notes
        -----
        The units are powers of two, so changing to them and back rounds nothing: near the root mean square
        of y for losses of real targets; for X near the root mean square row norm, or less where the
        regulariser :math:`\beta D \rho` would vanish beside the loss.
        """
        row = _power_of_two(math.sqrt(self.n_features) * _root_mean_square(self.X))
        prediction = 1.0 if self.loss.labels else _power_of_two(_root_mean_square(self.y))
        loss, value = self.loss.rescaled(prediction)
        # A regulariser far below the loss would be lost in a solver's absolute tolerance: dividing the rows
        # by less raises it to one.
        weight = _product(self.beta, self.dimension * prediction / row**2 / value)
        if 0.0 < weight < 1.0:
            row *= _power_of_two(math.sqrt(max(weight, 1e-6)))
        units = Units(weight=prediction / row**2, prediction=prediction, value=value)
        normal = TrainingProblem.__new__(TrainingProblem)
        normal.loss = loss
        normal.beta = _product(self.beta, units.weight / units.value)
        normal.X = read_only(self.X / row)
        normal.y = read_only(self.y / prediction)
        return normal, units


def quadratic_values(X: FloatArray, S: FloatArray) -> FloatArray:
    r"""Return :math:`(x_i^T S x_i)_i` of shape (n,) without forming an n x d x d array."""
    values: FloatArray = np.einsum("ij,ij->i", X @ S, X)
    return values


def _check_magnitude(name: str, array: FloatArray, remedy: str) -> None:
    largest = float(np.abs(array).max())
    if largest and not _SMALLEST <= largest <= _LARGEST:
        raise InvalidInputError(
            f"{name} must be zero or have its largest magnitude within {_SMALLEST:g} .. {_LARGEST:g}, "
            f"so that squares stay representable; got {largest:g}: {remedy}"
        )


def _root_mean_square(array: FloatArray) -> float:
    largest = float(np.abs(array).max())
    if largest == 0.0:
        return 0.0
    return largest * float(np.sqrt(np.mean((array / largest) ** 2)))


def _power_of_two(value: float) -> float:
    return 2.0 ** round(math.log2(value)) if value > 0.0 else 1.0


def _product(beta: float, factor: float) -> float:
    # Beyond 1e300 zero is optimal whatever the data, so the clipped problem has the same solution.
    return beta * factor if beta == 0.0 or math.log10(beta) + math.log10(factor) < 300 else 1e300
