"""One pass of back-propagating least squares from the outputs to the inputs, and the blend of two networks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from qsdp._utils.validation import FloatArray
from qsdp.baselines.bpls._hidden_targets import hidden_target
from qsdp.baselines.bpls._network import BPLSSettings, Network, Weights
from qsdp.baselines.bpls._report import LayerReport
from qsdp.baselines.bpls._solve import Diagnosis, solve_layer

__all__ = ["LayerSolve", "backward_pass", "blend", "fit_readout"]


@dataclass(frozen=True)
class LayerSolve:
    """The solve of one layer, of which `report` finds out the rest; fields as in `LayerReport`."""

    number: int
    diagnoses: tuple[Diagnosis, ...]
    n_solves: int
    clipped: float | None
    seconds: float

    def joined(self, other: LayerSolve) -> LayerSolve:
        """Return this solve and another one of the same layer as one."""
        diagnoses, n_solves = self.diagnoses + other.diagnoses, self.n_solves + other.n_solves
        return LayerSolve(self.number, diagnoses, n_solves, self.clipped, self.seconds + other.seconds)

    def report(self) -> LayerReport:
        """Return the report, with ranks and conditions."""
        designs = tuple(diagnose() for diagnose in self.diagnoses)
        return LayerReport(self.number, designs, self.n_solves, self.clipped, self.seconds)


def backward_pass(
    network: Network, designs: Sequence[FloatArray], T: FloatArray, *, second_solve: bool
) -> tuple[Weights, list[LayerSolve]]:
    r"""Solve all layers by least squares, the last one first.

    In every layer :math:`W = \arg\min \|H W - T\|_F^2`; then the rule `hidden_target` says which outputs N the layer
    before should have had, and :math:`a^{-1}(N)` is the T of that layer.

    Parameters
    ----------
    network : Network
        The one whose outputs `designs` are; only its settings are used.
    designs : sequence of ndarray
        Design matrix of every layer, from `Network.designs`.
    T : ndarray of shape (S, J)
        Desired pre-activations of the outputs.
    second_solve : bool
        Solve every layer but the first once more on N in place of H (the paper's Algorithm 2, lines 8 and 9); N is
        taken before it is cut to the activation's range, and the rows of a softmax layer are not made to sum to one.

    Returns
    -------
    weights : list of ndarray
    solves : list of LayerSolve
        In the order of the layers.
    """
    settings = network.settings
    weights: Weights = []
    solves: list[LayerSolve] = []
    for number in range(len(designs) - 1, -1, -1):
        start = time.perf_counter()
        A = designs[number]
        W, first = solve_layer(A, T, settings.ridge, settings.n_jobs)
        solved, clipped = [first], None
        if number > 0:
            N = _desired(A, W, T, settings)
            if second_solve:
                W, second = solve_layer(network.hidden_design(N), T, settings.ridge, settings.n_jobs)
                solved.append(second)
            activation, eps = settings.activations[number - 1], settings.eps_hidden[number - 1]
            clipped, T = activation.outside(N, eps), activation.inverse(N, eps)
        weights.insert(0, W)
        n_solves = W.shape[1] * len(solved)
        solves.insert(0, LayerSolve(number + 1, tuple(solved), n_solves, clipped, time.perf_counter() - start))
    return weights, solves


def _desired(A: FloatArray, W: FloatArray, T: FloatArray, settings: BPLSSettings) -> FloatArray:
    """Return the desired values of the hidden outputs in A; a column of ones among them stays as it is."""
    if settings.bias != "all":
        return hidden_target(A, W, T, settings.hidden_target)
    return hidden_target(A[:, :-1], W[:-1], T - W[-1], settings.hidden_target)


def fit_readout(network: Network, design: FloatArray, T: FloatArray) -> tuple[Network, LayerSolve]:
    """Return the network with its last layer solved by least squares for T, given that layer's design matrix."""
    settings, start = network.settings, time.perf_counter()
    readout, solved = solve_layer(design, T, settings.ridge, settings.n_jobs)
    solve = LayerSolve(len(network.weights), (solved,), readout.shape[1], None, time.perf_counter() - start)
    return Network([*network.weights[:-1], readout], settings), solve


def blend(weights: Weights, others: Weights, share: float) -> Weights:
    r"""Return :math:`(1 - \rho) W + \rho W'` of every layer, for `share` :math:`\rho`."""
    return [(1.0 - share) * W + share * other for W, other in zip(weights, others, strict=True)]
