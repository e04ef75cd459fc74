"""Quadratic forms of integers: what networks with shared second-layer weights compute, for any number of neurons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import count_jobs
from qsdp._utils.summary import Summarized, Summary, format_bits
from qsdp._utils.validation import FloatArray, IntArray, ReadOnlyArrays, check_matrix, read_only
from qsdp.activations import PolynomialActivation
from qsdp.exceptions import StorageError
from qsdp.networks.quadratic_form import QuadraticForm
from qsdp.networks.storage import bits_of_integers, write_archive
from qsdp.networks.weights import FLOAT_BITS, check_count, check_fields, stored_activation
from qsdp.problem import quadratic_map

__all__ = ["KIND", "IntegerForm", "integer_form_from_archive"]

KIND = "integer-form"

#: Bits of an integer at most, so that it is exact as a float, and the side of a matrix that is read from a file.
_MOST_BITS, _MOST_INPUTS = 54, 2**15


@dataclass(frozen=True, eq=False, repr=False)
class IntegerForm(Summarized, ReadOnlyArrays):
    r"""The function :math:`f_k(x) = s_k \langle \mathcal{X}, T_k \rangle` with symmetric matrices of integers.

    What `BilinearNetwork.to_integer_form` returns: with :math:`\alpha_j = \pm s_k` for the neurons of output k,
    :math:`T_k = \sum_j \mathrm{sign}(\alpha_j) (u_j v_j^T + v_j u_j^T) / 2`.

    Attributes
    ----------
    matrices : ndarray of shape (C, D, D)
        The :math:`T_k`, as int64.
    scales : ndarray of shape (C,)
        The :math:`s_k`.
    activation : PolynomialActivation or None
        None is bilinear.
    vector : bool
        Whether outputs have the shape (n, C); if not, C is 1.

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> form = network.to_integer_form()
    >>> form.matrices[0], form.scales, form.n_bits
    (array([[ 2, -1],
           [-1,  0]]), array([0.5]), 73)
    >>> form.predict([[3.0, 1.0]])
    array([6.])
    """

    matrices: IntArray
    scales: FloatArray
    activation: PolynomialActivation | None = None
    vector: bool = False

    @property
    def n_inputs(self) -> int:
        """Number of inputs, the columns that `predict` expects."""
        return int(self.matrices.shape[-1]) - (self.activation is not None and self.activation.lifted)

    @property
    def n_outputs(self) -> int:
        """Number of outputs C; 1 for scalar ones."""
        return len(self.matrices)

    @property
    def bits(self) -> tuple[int, ...]:
        """Bits of an entry, for each output: those of the largest."""
        return tuple((2 * int(np.abs(matrix).max())).bit_length() for matrix in self.matrices)

    @property
    def n_bits(self) -> int:
        """Storage: the bits of the entries of a triangle, and a float for each output."""
        D = int(self.matrices.shape[-1])
        return sum(self.bits) * (D * (D + 1) // 2) + FLOAT_BITS * self.n_outputs

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the function as ``x' S x + s' x + s0``."""
        S = self.scales[:, None, None] * self.matrices
        return QuadraticForm.of_lift(S if self.vector else S[0], self.activation)

    def to_expression(self, names: Sequence[str] | None = None, *, digits: int = 4, threshold: float = 0.0) -> Any:
        """Return the closed formula as text, one for each output; see `QuadraticForm.to_expression`."""
        return self.to_quadratic_form().to_expression(names, digits=digits, threshold=threshold)

    def predict(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the outputs of shape (n,) or (n, C) for data of shape (n, n_inputs), in `n_jobs` threads."""
        data = quadratic_map(check_matrix("X", X, n_columns=self.n_inputs), self.activation)
        jobs = count_jobs(n_jobs)
        columns = [data.forward(s * T, jobs) for s, T in zip(self.scales, self.matrices, strict=True)]
        return np.stack(columns, axis=1) if self.vector else columns[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the form to `path`, bit by bit, readable by `qsdp.load_network`."""
        header = {
            "n_inputs": self.n_inputs,
            "bits": list(self.bits),
            "vector": self.vector,
            "activation": list(self.activation.coefficients) if self.activation else None,
        }
        upper = np.triu_indices(self.matrices.shape[-1])
        packed = [_packed(matrix[upper], width) for matrix, width in zip(self.matrices, self.bits, strict=True)]
        write_archive(path, KIND, header, {"integers": np.concatenate(packed), "scales": self.scales})

    def __repr__(self) -> str:
        outputs = f"n_outputs={self.n_outputs}, " if self.vector else ""
        return f"IntegerForm(n_inputs={self.n_inputs}, {outputs}n_bits={self.n_bits})"

    def _summary(self) -> Summary:
        rows = [
            ("inputs", str(self.n_inputs)),
            ("outputs", str(self.n_outputs)),
            ("bits of an entry", ", ".join(map(str, self.bits[:8])) + (", …" if self.n_outputs > 8 else "")),
            ("storage", format_bits(self.n_bits)),
        ]
        return Summary("IntegerForm", rows)


def integer_form_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> IntegerForm:
    """Return the form that header and arrays describe; any mismatch is an error."""
    check_fields(header, {"n_inputs", "bits", "vector", "activation"})
    if set(arrays) != {"integers", "scales"}:
        raise StorageError(f"arrays {sorted(arrays)} are not a form's")
    activation, bits, vector = stored_activation(header), header["bits"], header["vector"]
    lifted = activation is not None and activation.lifted
    D = check_count(header, "n_inputs") + lifted
    if D > _MOST_INPUTS:
        raise StorageError(f"n_inputs {header['n_inputs']} is more than a file may have")
    entries = D * (D + 1) // 2
    scales, integers = arrays["scales"], arrays["integers"]
    if type(vector) is not bool or not isinstance(bits, list) or not bits or (len(bits) > 1 and not vector):
        raise StorageError("its header does not say how many outputs there are")
    if any(type(width) is not int or not 0 <= width <= _MOST_BITS for width in bits):
        raise StorageError(f"bits {bits[:8]!r:.60} are no widths of integers")
    if scales.dtype != np.float64 or scales.shape != (len(bits),) or not np.all(np.isfinite(scales)):
        raise StorageError(f"scales must be {len(bits)} finite numbers")
    lengths = [-(-entries * width // 8) for width in bits]
    if integers.dtype != np.uint8 or integers.shape != (sum(lengths),):
        raise StorageError(f"packed integers of shape {integers.shape} do not hold {len(bits)} triangles of {entries}")
    matrices = np.zeros((len(bits), D, D), dtype=np.int64)
    upper = np.triu_indices(D)
    ends = np.cumsum(lengths)
    for matrix, width, length, end in zip(matrices, bits, lengths, ends, strict=True):
        matrix[upper] = _unpacked(integers[end - length : end], entries, width)
        matrix += np.triu(matrix, 1).T
    form = IntegerForm(read_only(matrices), read_only(scales.copy()), activation, vector)
    if list(form.bits) != bits:
        raise StorageError("its integers take other bits than its header says")
    return form


def _packed(values: IntArray, width: int) -> npt.NDArray[np.uint8]:
    """Return integers as bits, `width` each, of their distance from the smallest that fits."""
    return np.packbits(bits_of_integers(values + (2**width // 2), width))


def _unpacked(packed: npt.NDArray[np.uint8], count: int, width: int) -> IntArray:
    """Return the integers that `_packed` packed."""
    bits = np.unpackbits(packed)
    if np.any(bits[count * width :]):
        raise StorageError("packed integers have bits set beyond their last one")
    places = np.arange(width - 1, -1, -1)
    shifted: IntArray = (bits[: count * width].reshape(count, width).astype(np.int64) << places).sum(axis=1)
    numbers: IntArray = shifted - (2**width // 2)
    return numbers
