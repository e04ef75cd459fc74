"""Integer quadratic forms, equivalent to networks with shared second-layer weights and any number of neurons."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.stored import Checks, checked, is_activation, is_count
from qsdp._utils.summary import Summary, first_few, format_bits
from qsdp._utils.validation import FloatArray, IntArray, read_only
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.exceptions import StorageError
from qsdp.networks.coding import BitReader, encode, encoded_bits, fold, parameter_of, unfold
from qsdp.networks.quadratic_form import QuadraticForm, QuadraticFunction
from qsdp.networks.storage import MOST_INPUTS, write_archive
from qsdp.networks.weights import FLOAT_BITS

__all__ = ["KIND", "IntegerForm", "integer_form_from_archive"]

KIND = "integer-form"


_HEADER: Checks = {"n_inputs": is_count, "vector": lambda value: type(value) is bool, "activation": is_activation}


@dataclass(frozen=True, eq=False, repr=False)
class IntegerForm(QuadraticFunction):
    r"""Function :math:`f_k(x) = s_k \langle \mathcal{X}, T_k \rangle` with symmetric integer matrices.

    `BilinearNetwork.to_integer_form` returns such a form. If the neurons of output k have
    :math:`\alpha_j = \pm s_k`, then :math:`T_k = \sum_j \mathrm{sign}(\alpha_j) (u_j v_j^T + v_j u_j^T) / 2`.

    Attributes
    ----------
    matrices : ndarray of shape (C, D, D)
        The matrices :math:`T_k`, as int64.
    scales : ndarray of shape (C,)
        The scales :math:`s_k`.
    activation : PolynomialActivation or None
        None is bilinear.
    output_shape : tuple of int
        Shape of the value at one sample: () or (C,).

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> form = network.to_integer_form()
    >>> form.matrices[0], form.scales, form.n_bits
    (array([[ 2, -1],
           [-1,  0]]), array([0.5]), 46)
    >>> form.predict([[3.0, 1.0]])
    array([6.])
    """

    matrices: IntArray
    scales: FloatArray
    activation: PolynomialActivation | None = None
    output_shape: tuple[int, ...] = ()

    @property
    def n_inputs(self) -> int:
        """Number of inputs: the number of columns that `predict` expects."""
        return int(self.matrices.shape[-1]) - (self.activation is not None and self.activation.lifted)

    @property
    def bits(self) -> tuple[int, ...]:
        """Number of bits per entry of each output's matrix, set by the entry of largest magnitude."""
        return tuple((2 * int(np.abs(matrix).max())).bit_length() for matrix in self.matrices)

    @cached_property
    def n_bits(self) -> int:
        """Size in bits: for each output, the code of a triangle, a byte that describes the code, and a real number."""
        codes = [_Code.of(matrix) for matrix in self.matrices]
        return sum(encoded_bits(code.numbers, code.parameter) + 8 + FLOAT_BITS for code in codes)

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the function as ``x' S x + s' x + s0``."""
        S = self.scales[:, None, None] * self.matrices
        return QuadraticForm.of_lift(squeezed(S, self.output_shape), self.activation)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the form to `path`, readable by `qsdp.load_network`.

        Entries are stored as Golomb-Rice codes. Their last bits are omitted if the diagonal implies them: for a network
        with odd weights, :math:`T_{ij} + T_{ii} + (T_{ii} - T_{jj}) / 2` is even.
        """
        header = {
            "n_inputs": self.n_inputs,
            "vector": bool(self.output_shape),
            "activation": list(self.activation.coefficients) if self.activation else None,
        }
        write_archive(path, KIND, header, {**_coded(self.matrices), "scales": self.scales})

    def __repr__(self) -> str:
        return f"IntegerForm(n_inputs={self.n_inputs}{outputs_text(self.output_shape)}, n_bits={self.n_bits})"

    def _summary(self) -> Summary:
        rows = [
            ("inputs", str(self.n_inputs)),
            ("outputs", str(self.n_outputs)),
            ("bits of an entry", first_few([str(bits) for bits in self.bits])),
            ("storage", format_bits(self.n_bits)),
        ]
        return Summary("IntegerForm", rows)


def integer_form_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> IntegerForm:
    """Build the form of a file's header and arrays; raise `StorageError` for any mismatch."""
    fields = checked("header", header, _HEADER)
    if set(arrays) != {"integers", "codes", "scales"}:
        raise StorageError(f"arrays {sorted(arrays)} are not those of an integer form")
    activation, vector = get_activation(fields["activation"]), fields["vector"]
    D = fields["n_inputs"] + (activation is not None and activation.lifted)
    if D > MOST_INPUTS:
        raise StorageError(f"n_inputs {fields['n_inputs']} is more than a file may have")
    scales, integers, codes = arrays["scales"], arrays["integers"], arrays["codes"]
    if scales.dtype != np.float64 or scales.shape != (scales.size,) or not np.all(np.isfinite(scales)):
        raise StorageError("scales must be finite numbers, one for each output")
    if not scales.size or (len(scales) > 1 and not vector):
        raise StorageError("its header does not say how many outputs there are")
    if codes.dtype != np.uint8 or codes.shape != scales.shape:
        raise StorageError(f"codes of shape {codes.shape} do not describe {len(scales)} matrices")
    if integers.dtype != np.uint8 or integers.shape != (integers.size,):
        raise StorageError("integers must be bytes")
    reader = BitReader(integers)
    matrices = np.stack([_decoded(reader, D, *divmod(code, _PARITY)) for code in codes.tolist()])
    output_shape = (len(scales),) if vector else ()
    form = IntegerForm(read_only(matrices), read_only(scales.copy()), activation, output_shape)
    again = _coded(matrices)
    if any(not np.array_equal(again[name], arrays[name]) for name in again):
        raise StorageError("its integers are not coded in canonical form")
    return form


# -- codes -----------------------------------------------------------------------------------------------


#: Factor of the parity in the description of a code, larger than all parameters.
_PARITY = 64


@dataclass(frozen=True)
class _Code:
    """Golomb-Rice code of a symmetric matrix: nonnegative numbers for the upper triangle, and the parameter.

    `parity` is the parity of the diagonal's entries if all last bits follow from it and are omitted, otherwise 2.
    """

    numbers: IntArray
    parity: int
    parameter: int

    @classmethod
    def of(cls, matrix: IntArray) -> _Code:
        """Return the code of a symmetric matrix of integers."""
        diagonal, above = np.diag(matrix), matrix[np.triu_indices(len(matrix), 1)]
        entries, parity = np.concatenate([diagonal, above]), int(diagonal[0]) & 1
        if np.all(diagonal & 1 == parity) and np.array_equal(above & 1, _last_bits(diagonal)):
            entries >>= 1
        else:
            parity = 2
        numbers = fold(entries)
        return cls(numbers, parity, parameter_of(numbers))


def _last_bits(diagonal: IntArray) -> IntArray:
    r"""Compute the lowest bits of the entries above the diagonal from the diagonal, for the matrix of a network.

    With odd weights, :math:`u_i v_j` and :math:`v_i u_j` are equal modulo 4 if :math:`u_i v_i` and :math:`u_j v_j` are,
    and opposite otherwise. A neuron adds an odd number to :math:`T_{ij}` in the first case and an even number in the
    second. The number of neurons in the second case is :math:`(T_{ii} - T_{jj}) / 2` modulo 2.
    """
    rows, columns = np.triu_indices(len(diagonal), 1)
    bits: IntArray = (diagonal[rows] + ((diagonal[rows] - diagonal[columns]) >> 1)) & 1
    return bits


def _coded(matrices: IntArray) -> dict[str, npt.NDArray[np.uint8]]:
    """Encode matrices as the arrays of a file."""
    codes = [_Code.of(matrix) for matrix in matrices]
    bits = np.concatenate([encode(code.numbers, code.parameter) for code in codes])
    described = np.array([_PARITY * code.parity + code.parameter for code in codes], dtype=np.uint8)
    return {"integers": np.packbits(bits), "codes": described}


def _decoded(reader: BitReader, D: int, parity: int, parameter: int) -> IntArray:
    """Decode the next matrix, of side D."""
    if parity > 2 or parameter > LARGEST_INTEGER.bit_length():
        raise StorageError(f"{parity} and {parameter} are not the parity and the parameter of a code")
    entries = unfold(reader.read(D * (D + 1) // 2, parameter))
    if parity < 2:
        entries *= 2
        entries[:D] += parity
        entries[D:] += _last_bits(entries[:D])
    if np.abs(entries).max() > LARGEST_INTEGER:
        raise StorageError("its integers are too large to be exact floating-point numbers")
    matrix = np.zeros((D, D), dtype=np.int64)
    matrix[np.triu_indices(D, 1)] = entries[D:]
    matrix += matrix.T
    np.fill_diagonal(matrix, entries[:D])
    return matrix
