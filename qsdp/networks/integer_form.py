"""Integer quadratic forms, equivalent to networks with shared second-layer weights and any number of neurons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.summary import Summary, first_few, format_bits
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.activations import PolynomialActivation
from qsdp.networks.quadratic_form import QuadraticForm, QuadraticFunction
from qsdp.networks.weights import FLOAT_BITS

__all__ = ["IntegerForm"]


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

    @property
    def n_bits(self) -> int:
        """Size in bits: for each output, `bits` for every entry of a triangle, and a real number."""
        D = int(self.matrices.shape[-1])
        return sum(self.bits) * (D * (D + 1) // 2) + FLOAT_BITS * self.n_outputs

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the function as ``x' S x + s' x + s0``."""
        S = self.scales[:, None, None] * self.matrices
        return QuadraticForm.of_lift(squeezed(S, self.output_shape), self.activation)

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
