"""Networks with quantized first-layer weights, as they are in memory and on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._validation import FloatArray, check_matrix, check_vector, read_only
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.problem import TrainingProblem, quadratic_values
from qsdp.storage import pack_signs, read_archive, unpack_signs, write_archive

__all__ = ["BilinearNetwork", "load_network"]

_KIND = "bilinear-network"
_FLOAT_BITS = 64


@dataclass(frozen=True, eq=False, repr=False)
class BilinearNetwork:
    r"""Two-layer network :math:`f(x) = \sum_j \alpha_j (x^T u_j)(x^T v_j)` with binary weights.

    Parameters
    ----------
    U, V : array-like of shape (m, D)
        First-layer weights, every entry -1 or +1; kept as int8 and read-only.
    alpha : array-like of shape (m,)
        Second-layer weights, finite.

    Raises
    ------
    InvalidInputError
        A weight is not -1 or +1, or the shapes do not fit.

    Notes
    -----
    Equation (24) of Bartan and Pilanci.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> network
    BilinearNetwork(n_neurons=2, n_inputs=2, n_bits=72, shared alpha=0.5)
    >>> network.predict([[3.0, 1.0]])
    array([6.])
    """

    U: npt.NDArray[np.int8]
    V: npt.NDArray[np.int8]
    alpha: FloatArray

    def __post_init__(self) -> None:
        U, V = _check_signs("U", self.U), _check_signs("V", self.V)
        if U.shape != V.shape:
            raise InvalidInputError(f"V must have the shape of U, {U.shape}; got {V.shape}")
        alpha = check_vector("alpha", self.alpha)
        if alpha.shape[0] != U.shape[0]:
            raise InvalidInputError(
                f"alpha must have {U.shape[0]} entries, one a neuron; got {alpha.shape[0]}"
            )
        object.__setattr__(self, "U", U)
        object.__setattr__(self, "V", V)
        object.__setattr__(self, "alpha", read_only(alpha.copy() if alpha is self.alpha else alpha))

    @property
    def n_neurons(self) -> int:
        """Number of hidden neurons ``m``."""
        return int(self.U.shape[0])

    @property
    def n_inputs(self) -> int:
        """Number of inputs, the columns that `predict` expects."""
        return int(self.U.shape[1])

    @property
    def shared_alpha(self) -> bool:
        """Whether all second-layer weights are one number."""
        return bool(np.all(self.alpha == self.alpha[0]))

    @property
    def n_bits(self) -> int:
        """Storage: one bit a first-layer weight (2 m D), 64 a float, one float when alpha is shared."""
        floats = 1 if self.shared_alpha else self.n_neurons
        return 2 * self.n_neurons * self.n_inputs + _FLOAT_BITS * floats

    @cached_property
    def quadratic_form(self) -> FloatArray:
        r"""Symmetric (D, D) matrix `S` with :math:`f(x) = x^T S x`."""
        S = np.zeros((self.n_inputs, self.n_inputs))
        step = max(1, 2**22 // self.n_inputs)
        for start in range(0, self.n_neurons, step):
            rows = slice(start, start + step)
            S += (self.U[rows].T * self.alpha[rows]) @ self.V[rows].astype(np.float64)
        return read_only(0.5 * (S + S.T))

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of shape (n,) for data of shape (n, D).

        Notes
        -----
        Evaluated through `quadratic_form`, which costs ``n D^2`` whatever the number of neurons.
        """
        return quadratic_values(check_matrix("X", X, n_columns=self.n_inputs), self.quadratic_form)

    def objective(self, problem: TrainingProblem) -> float:
        """Return the objective (24) of this network on `problem`."""
        return problem.objective(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `path`: packed bits and a strict header, readable by `qsdp.load_network`."""
        alpha = self.alpha[:1] if self.shared_alpha else self.alpha
        header = {"n_neurons": self.n_neurons, "n_inputs": self.n_inputs}
        write_archive(path, _KIND, header, {"U": pack_signs(self.U), "V": pack_signs(self.V), "alpha": alpha})

    def __repr__(self) -> str:
        alpha = f"shared alpha={self.alpha[0]:.6g}" if self.shared_alpha else "free alpha"
        return (
            f"BilinearNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}, "
            f"n_bits={self.n_bits}, {alpha})"
        )


def load_network(path: str | os.PathLike[str]) -> BilinearNetwork:
    """Return the network that `BilinearNetwork.save` wrote to `path`.

    Raises
    ------
    StorageError
        The file is damaged or no network of qsdp.
    """
    header, arrays = read_archive(path, _KIND)
    try:
        n_neurons, n_inputs = header["n_neurons"], header["n_inputs"]
        U, V, alpha = arrays["U"], arrays["V"], arrays["alpha"]
        if type(n_neurons) is not int or type(n_inputs) is not int or n_neurons < 1 or n_inputs < 1:
            raise StorageError(f"sizes {n_neurons!r} x {n_inputs!r} are not positive integers")
        if len(U) != n_neurons or alpha.dtype != np.float64 or alpha.shape not in {(1,), (n_neurons,)}:
            raise StorageError(f"arrays do not hold {n_neurons} neurons")
        full_alpha = np.broadcast_to(alpha, (n_neurons,)).copy()
        return BilinearNetwork(unpack_signs(U, n_inputs), unpack_signs(V, n_inputs), full_alpha)
    except (KeyError, InvalidInputError, StorageError) as error:
        raise StorageError(f"{os.fspath(path)!r} is no valid network: {error}") from None


def _check_signs(name: str, weights: Any) -> npt.NDArray[np.int8]:
    if isinstance(weights, np.ndarray) and weights.dtype == np.int8 and weights.ndim == 2:
        array = weights
    else:
        array = check_matrix(name, weights)
    if array.size == 0:
        raise InvalidInputError(
            f"{name} must have at least one neuron and one input; got shape {array.shape}"
        )
    if not np.all(np.abs(array) == 1):
        wrong = array[np.abs(array) != 1][0]
        raise InvalidInputError(f"{name} must have entries -1 and +1 only; found {wrong:g}")
    return read_only(array.astype(np.int8, copy=True))
