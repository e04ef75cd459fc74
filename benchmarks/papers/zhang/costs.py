"""Multiply-adds and stored numbers of a layer, under gradient descent and under recursive least squares.

As in tables I and II of Zhang et al. (2021), only leading terms are counted, without biases. The time of gradient
descent is that of one of its products with the minibatch; forward and backward pass have three.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from qsdp._utils.validation import check_integer

__all__ = ["LayerCost", "convolutional_cost", "dense_cost", "recurrent_cost"]


@dataclass(frozen=True)
class LayerCost:
    """Costs of a layer in one step.

    Attributes
    ----------
    sgd_time, rls_time : int
        Number of multiply-adds.
    sgd_space, rls_space : int
        Stored numbers: parameters and, with recursive least squares, P.
    """

    sgd_time: int
    rls_time: int
    sgd_space: int
    rls_space: int

    @property
    def time_ratio(self) -> float:
        """Time of recursive least squares divided by that of gradient descent."""
        return self.rls_time / self.sgd_time

    @property
    def space_ratio(self) -> float:
        """Space of recursive least squares divided by that of gradient descent."""
        return self.rls_space / self.sgd_space


def dense_cost(n_in: int, n_out: int, batch_size: int, times: int = 1) -> LayerCost:
    r"""Return the costs of a fully connected layer: :math:`N (M T + N) N'` instead of :math:`N M T N'`.

    Parameters
    ----------
    n_in, n_out : int >= 1
        Numbers of inputs N and outputs N'.
    batch_size, times : int >= 1
        Samples M of a minibatch, and time steps T of a sample, which are more rows of the same product.

    Examples
    --------
    >>> cost = dense_cost(784, 512, 128)
    >>> cost.time_ratio, cost.space_ratio
    (7.125, 2.53125)
    """
    given = {"n_in": n_in, "n_out": n_out, "rows": batch_size * times}
    n_in, n_out, rows = (check_integer(name, value, minimum=1) for name, value in given.items())
    weights, square = n_in * n_out, n_in * n_in
    return LayerCost(weights * rows, weights * rows + square * n_out, weights, weights + square)


def convolutional_cost(
    in_channels: int, out_channels: int, kernel: tuple[int, int], positions: int, batch_size: int
) -> LayerCost:
    r"""Return the costs of a convolution: :math:`\hat C (M U V + \hat C) C'` instead of :math:`\hat C M U V C'`.

    Parameters
    ----------
    in_channels, out_channels : int >= 1
        Channels; :math:`\hat C` is the number of input channels times the entries of the kernel.
    kernel : tuple of int
        Height and width of the kernel.
    positions : int >= 1
        Positions U V of the output.
    batch_size : int >= 1
        Samples M of a minibatch.

    Examples
    --------
    >>> convolutional_cost(64, 64, (3, 3), 32 * 32, 128).space_ratio
    10.0
    """
    return dense_cost(in_channels * kernel[0] * kernel[1], out_channels, batch_size, positions)


def recurrent_cost(n_in: int, n_out: int, batch_size: int, times: int, *, gates: int = 1) -> LayerCost:
    r"""Return the costs of a recurrent layer of n_out units; an LSTM has four gates.

    Parameters
    ----------
    n_in, n_out : int >= 1
        Numbers of inputs and of units.
    batch_size, times : int >= 1
        Samples of a minibatch, and time steps of a sample.
    gates : int >= 1, default=1
        Number of products with the inputs and with the previous outputs.

    Examples
    --------
    >>> recurrent_cost(512, 512, 128, 50, gates=4).space_ratio
    1.25
    """
    own, recurrent = (dense_cost(n, gates * n_out, batch_size, times) for n in (n_in, n_out))
    return LayerCost(*(sum(pair) for pair in zip(astuple(own), astuple(recurrent), strict=True)))
