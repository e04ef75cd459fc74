"""Bilinear networks with quantized first-layer weights, as they are in memory and on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._validation import FloatArray, ReadOnlyArrays, check_matrix, check_targets, own, read_only
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.problem import TrainingProblem, check_levels, quadratic_map
from qsdp.storage import pack_levels, read_archive, unpack_levels, write_archive

if TYPE_CHECKING:
    from qsdp.polynomial import PolynomialNetwork

__all__ = ["BilinearNetwork", "load_network"]

KIND = "bilinear-network"
FLOAT_BITS = 64


@dataclass(frozen=True, eq=False, repr=False)
class BilinearNetwork(ReadOnlyArrays):
    r"""Two-layer network :math:`f(x) = \sum_j \alpha_j\, u_j^T \mathcal{X} v_j` with quantized weights.

    For the bilinear activation :math:`\mathcal{X} = x x^T`, so :math:`f(x) = \sum_j \alpha_j (x^T u_j)(x^T v_j)`;
    for a polynomial activation with linear or constant part, :math:`\mathcal{X}` is the lift of x and the last
    entry of :math:`u_j, v_j` is binary.

    Parameters
    ----------
    U, V : array-like of shape (m, D)
        First-layer weights of true levels -M, -M + 2, ..., M (M = 1: -1 and +1); kept as int8 and read-only. D
        is the number of inputs, and one more if lifted.
    alpha : array-like of shape (m,) or (m, C)
        Second-layer weights, finite; (m, C) for C outputs.
    levels : int, default=2
        M + 1.
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None is bilinear.

    Raises
    ------
    InvalidInputError
        A weight is not one of the levels, or the shapes do not fit.

    Notes
    -----
    Equations (24), (57) and Theorem 1 of Bartan and Pilanci.

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
    levels: int = 2
    activation: PolynomialActivation | None = None

    def __post_init__(self) -> None:
        levels = check_levels(self.levels)
        activation = get_activation(self.activation)
        lifted = activation is not None and activation.lifted
        U, V = (check_weights(name, getattr(self, name), levels, lifted) for name in ("U", "V"))
        if U.shape != V.shape:
            raise InvalidInputError(f"V must have the shape of U, {U.shape}; got {V.shape}")
        alpha = check_alpha(self.alpha, U.shape[0])
        for name, value in (
            ("U", U),
            ("V", V),
            ("alpha", alpha),
            ("levels", levels),
            ("activation", activation),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_neurons(self) -> int:
        """Number of hidden neurons ``m``."""
        return int(self.U.shape[0])

    @property
    def lifted(self) -> bool:
        """Whether the last entry of a neuron belongs to the activation's linear and constant part."""
        return self.activation is not None and self.activation.lifted

    @property
    def n_inputs(self) -> int:
        """Number of inputs, the columns that `predict` expects."""
        return int(self.U.shape[1]) - self.lifted

    @property
    def vector(self) -> bool:
        """Whether outputs have the shape (n, C)."""
        return self.alpha.ndim == 2

    @property
    def n_outputs(self) -> int:
        """Number of outputs C; 1 for scalar ones."""
        return int(self.alpha.shape[1]) if self.alpha.ndim == 2 else 1

    @property
    def shared_alpha(self) -> bool:
        """Whether every output has one second-layer weight for its neurons, and every neuron one output."""
        return _shared_columns(self.alpha) is not None

    @property
    def n_bits(self) -> int:
        """Storage: ceil(log2(M + 1)) bits a weight (1 if binary), 64 a float.

        Shared weights take one float an output (and nothing says which neurons are whose but their number,
        another 64 bits an output where there are several).
        """
        weights = 2 * self.n_neurons * (bits_of(self.levels) * self.n_inputs + self.lifted)
        return weights + FLOAT_BITS * count_floats(self.alpha)

    @cached_property
    def quadratic_form(self) -> FloatArray:
        r"""Symmetric matrices S of shape (D, D) or (C, D, D) with :math:`f(x) = \langle \mathcal{X}, S \rangle`."""
        D = self.U.shape[1]
        columns = self.alpha.reshape(self.n_neurons, -1).T
        S = np.zeros((len(columns), D, D))
        step = max(1, 2**22 // D)
        for k, column in enumerate(columns):
            served = np.flatnonzero(column)
            for start in range(0, len(served), step):
                rows = served[start : start + step]
                S[k] += (self.U[rows].T * column[rows]) @ self.V[rows].astype(np.float64)
        S = 0.5 * (S + S.transpose(0, 2, 1))
        return read_only(S if self.alpha.ndim == 2 else S[0])

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of shape (n,) or (n, C) for data of shape (n, n_inputs).

        Notes
        -----
        Evaluated through `quadratic_form`, which costs ``n D^2`` an output whatever the number of neurons.
        """
        data = quadratic_map(check_matrix("X", X, n_columns=self.n_inputs), self.activation)
        if self.alpha.ndim == 1:
            return data.forward(self.quadratic_form)
        return np.stack([data.forward(S) for S in self.quadratic_form], axis=1)

    def objective(self, problem: TrainingProblem) -> float:
        """Return the objective (24) or (57) of this network on `problem`."""
        return problem.objective(self)

    def to_quadratic_form(self) -> Any:
        """Return the network as an explicit `QuadraticForm`, ``x' S x + s' x + s0``."""
        from qsdp.quadratic_form import QuadraticForm

        return QuadraticForm.of_lift(self.quadratic_form, self.activation)

    def to_expression(self, names: Sequence[str] | None = None, *, digits: int = 4, threshold: float = 0.0) -> Any:
        """Return the closed formula as text, one for each output; see `QuadraticForm.to_expression`."""
        return self.to_quadratic_form().to_expression(names, digits=digits, threshold=threshold)

    def to_polynomial(self, method: str = "auto") -> PolynomialNetwork:
        """Return the same function as a standard network of a polynomial activation; see `to_polynomial`."""
        from qsdp.polynomial import to_polynomial

        return to_polynomial(self, method=method)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `path`: packed bits and a strict header, readable by `qsdp.load_network`."""
        write_archive(path, KIND, *network_archive(self))

    def __repr__(self) -> str:
        if self.shared_alpha:
            alpha = f"shared alpha={self.alpha[0]:.6g}" if self.alpha.ndim == 1 else "shared alpha"
        else:
            alpha = "free alpha"
        outputs = f"n_outputs={self.n_outputs}, " if self.alpha.ndim == 2 else ""
        levels = f"levels={self.levels}, " if self.levels > 2 else ""
        activation = f"activation={self.activation.coefficients}, " if self.activation else ""
        return (
            f"BilinearNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}, {outputs}{levels}"
            f"{activation}n_bits={self.n_bits}, {alpha})"
        )


def load_network(path: str | os.PathLike[str]) -> Any:
    """Return the network that was saved to `path`, a `BilinearNetwork` or a `PolynomialNetwork`.

    Raises
    ------
    StorageError
        The file is damaged or no network of qsdp.
    """
    from qsdp.polynomial import KIND as POLYNOMIAL_KIND
    from qsdp.polynomial import polynomial_from_archive

    readers = {KIND: network_from_archive, POLYNOMIAL_KIND: polynomial_from_archive}
    kind, header, arrays = read_archive(path, *readers)
    try:
        return readers[kind](header, arrays)
    except (KeyError, TypeError, InvalidInputError, StorageError) as error:
        raise StorageError(f"{os.fspath(path)!r} is no valid network: {error}") from None


def network_archive(network: BilinearNetwork) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and arrays of a network's file."""
    header: dict[str, Any] = {
        "n_neurons": network.n_neurons,
        "n_inputs": network.n_inputs,
        "levels": network.levels,
        "activation": list(network.activation.coefficients) if network.activation else None,
    }
    arrays = {
        name: pack_levels(weights, network.levels, network.lifted)
        for name, weights in (("U", network.U), ("V", network.V))
    }
    return header, {**arrays, **pack_alpha(network.alpha)}


def network_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> BilinearNetwork:
    """Return the network of header and arrays; whatever does not fit is an error."""
    check_fields(header, {"n_neurons", "n_inputs", "levels", "activation"})
    m, d, levels = (check_count(header, name) for name in ("n_neurons", "n_inputs", "levels"))
    activation = stored_activation(header)
    lifted = activation is not None and activation.lifted
    U, V = (unpack_levels(arrays[name], (m, d), check_levels(levels), lifted) for name in ("U", "V"))
    return BilinearNetwork(U, V, unpack_alpha(arrays, m, {"U", "V"}), levels, activation)


def check_fields(header: dict[str, Any], expected: set[str]) -> None:
    """Raise unless a header has exactly the expected fields."""
    for what, names in (("lacks", expected - set(header)), ("has an unknown", set(header) - expected)):
        if names:
            raise StorageError(f"its header {what} field: {', '.join(sorted(names))[:60]}")


def stored_activation(header: dict[str, Any]) -> PolynomialActivation | None:
    """Return a header's activation: three numbers or null, no name, whose meaning might change."""
    if header["activation"] is not None and not isinstance(header["activation"], list):
        raise StorageError(f"activation {header['activation']!r:.60} is no list of three numbers")
    return get_activation(header["activation"])


def check_count(header: dict[str, Any], name: str) -> int:
    """Return a header's positive integer."""
    value = header[name]
    if type(value) is not int or value < 1:
        raise StorageError(f"{name} {value!r} is no positive integer")
    return value


def bits_of(n_values: int) -> int:
    """Return ceil(log2(n)), the bits of one of n values."""
    return (n_values - 1).bit_length()


def check_weights(name: str, weights: Any, levels: int, lifted: bool) -> npt.NDArray[np.int8]:
    """Return first-layer weights as a read-only int8 copy; every one must be a level."""
    array: npt.NDArray[Any]
    if isinstance(weights, np.ndarray) and weights.dtype == np.int8 and weights.ndim == 2 and weights.size:
        # As they are: as float64 they would take eight times the memory.
        array = np.asarray(weights)
    else:
        array = check_matrix(name, weights)
    if array.shape[1] <= lifted:
        raise InvalidInputError(f"{name} must have at least one input; got shape {array.shape}")
    M = levels - 1
    main, last = (array[:, :-1], array[:, -1:]) if lifted else (array, array[:, :0])
    for part, largest, allowed in ((main, M, _level_names(M)), (last, 1, "-1 and +1")):
        wrong = (part < -largest) | (part > largest)
        if part.dtype == np.int8:
            wrong |= np.bitwise_and(part, 1) != (largest & 1)
        else:
            wrong |= (part != np.rint(part)) | ((part - largest) % 2 != 0)
        if np.any(wrong):
            raise InvalidInputError(f"{name} must have entries {allowed} only; found {part[wrong][0]:g}")
    return read_only(array.astype(np.int8, copy=True))


def _level_names(M: int) -> str:
    if M == 1:
        return "-1 and +1"
    return ", ".join(str(v) for v in range(-M, M + 1, 2)) if M < 6 else f"{-M}, {2 - M}, ..., {M}"


def check_alpha(alpha: Any, n_neurons: int) -> FloatArray:
    """Return second-layer weights (m,) or (m, C), finite and read-only."""
    array = check_targets("alpha", alpha, length=None)
    if array.shape[0] != n_neurons:
        raise InvalidInputError(f"alpha must have {n_neurons} entries, one a neuron; got {array.shape[0]}")
    return own(array)


def _shared_columns(alpha: FloatArray) -> tuple[list[int], list[float]] | None:
    """Return sizes and values where neurons are grouped by output with one value each, else None."""
    if alpha.ndim == 1:
        return ([len(alpha)], [float(alpha[0])]) if bool(np.all(alpha == alpha[0])) else None
    # An output whose weight is zero would be indistinguishable from one without neurons.
    owners = np.argmax(alpha != 0.0, axis=1)
    if np.any((alpha != 0.0).sum(axis=1) != 1) or np.any(np.diff(owners) < 0):
        return None
    sizes = np.bincount(owners, minlength=alpha.shape[1])
    values = [float(alpha[owners == k, k][0]) if size else 0.0 for k, size in enumerate(sizes)]
    if any(np.any(alpha[owners == k, k] != value) for k, value in enumerate(values)):
        return None
    return [int(size) for size in sizes], values


def count_floats(alpha: FloatArray) -> int:
    """Return how many 64-bit numbers second-layer weights take in a file."""
    return sum(array.size for array in pack_alpha(alpha).values())


def pack_alpha(alpha: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that store second-layer weights: shared ones as one float and one size an output."""
    shared = _shared_columns(alpha)
    if shared is None:
        return {"alpha": alpha}
    sizes, values = shared
    if alpha.ndim == 1:
        return {"alpha": np.array(values)}
    return {"shared": np.array(values), "sizes": np.array(sizes, dtype=np.int64)}


def unpack_alpha(arrays: dict[str, npt.NDArray[Any]], m: int, others: set[str]) -> FloatArray:
    """Return the second-layer weights that `pack_alpha` stored, in an archive with `others` besides."""
    names = set(arrays) - others
    if names == {"alpha"}:
        alpha = arrays["alpha"]
        if alpha.dtype != np.float64 or alpha.ndim not in {1, 2} or (alpha.shape != (1,) and len(alpha) != m):
            raise StorageError(f"alpha of shape {alpha.shape} does not belong to {m} neurons")
        return np.broadcast_to(alpha, (m,)).copy() if alpha.ndim == 1 else alpha
    if names != {"shared", "sizes"}:
        raise StorageError(f"arrays {sorted(arrays)} are not a network's")
    shared, sizes = arrays["shared"], arrays["sizes"]
    if shared.dtype != np.float64 or sizes.dtype != np.int64 or shared.ndim != 1 or shared.shape != sizes.shape:
        raise StorageError("shared second-layer weights do not fit together")
    if np.any(sizes < 0) or np.any(sizes > m) or int(sizes.sum()) != m:
        raise StorageError(f"outputs of sizes {sizes[:8].tolist()} do not have {m} neurons together")
    full = np.zeros((m, len(shared)))
    full[np.arange(m), np.repeat(np.arange(len(shared)), sizes)] = np.repeat(shared, sizes)
    return full
