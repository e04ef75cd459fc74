"""Hyper-parameters of recursive least squares, and the suggestion after a divergence."""

from __future__ import annotations

from dataclasses import dataclass

from qsdp._utils.validation import _show, check_real
from qsdp.baselines._estimator import CheckedSettings, checked, inherit_entries
from qsdp.exceptions import InvalidInputError

__all__ = ["SUGGESTION", "RLSParameters", "RLSSettings"]

#: Suggestion after a divergence; the remedies are in the order in which they were measured to help.
SUGGESTION = "inputs in [0, 1] or standardised, clip=5.0, a smaller learning_rate, forgetting=1.0 or trace_guard=True"


@dataclass(eq=False, repr=False, kw_only=True)
class RLSParameters:
    r"""Parameters of recursive least squares, shared by the settings and the estimators.

    Parameters
    ----------
    forgetting : float, default=1.0
        Forgetting factor :math:`\lambda \in (0, 1]`: an input from s steps ago has the weight :math:`\lambda^s`. Below
        1, P grows like :math:`\lambda^{-s}` in directions without mean inputs; `trace_guard` limits this.
    ratio : float, default=0.1
        The factor :math:`k \ge 0` in the approximation :math:`X^T X / M \approx k \bar x \bar x^T` of a batch by its
        mean; with 0 the update is gradient descent.
    momentum : float, default=0.0
        Momentum :math:`\alpha \in [0, 1)`, the variant "+M" of the paper, which uses 0.5.
    l1 : float, default=0.0
        Strength :math:`\gamma \ge 0` of the L1 regularisation, the variant "+R" of the paper, which uses 1e-5, and 1e-6
        for LSTMs.
    initial_inverse : float, default=1.0
        The factor :math:`p_0 > 0` of the initial :math:`P_0 = p_0 I`.
    trace_guard : bool, default=True
        Whether P is scaled before each step with `forgetting` below 1, so that its mean eigenvalue is at most
        :math:`p_0`. False gives the printed update, in which P grows without bound.
    regularize_bias : bool, default=True
        Whether `l1` applies to the bias too, as in the paper.
    """

    forgetting: float = 1.0
    ratio: float = 0.1
    momentum: float = 0.0
    l1: float = 0.0
    initial_inverse: float = 1.0
    trace_guard: bool = True
    regularize_bias: bool = True


@dataclass(kw_only=True)
class RLSSettings(RLSParameters, CheckedSettings):
    """Checked parameters of one layer's update, without its learning rate.

    Raises
    ------
    InvalidInputError
        A parameter is not in its range.
    """

    def __post_init__(self) -> None:
        check_real("forgetting", self.forgetting, strict=True)
        if self.forgetting > 1.0:
            raise InvalidInputError(f"forgetting must be a number > 0 and <= 1; got {_show(self.forgetting)}")
        check_real("ratio", self.ratio)
        check_real("l1", self.l1)
        check_real("initial_inverse", self.initial_inverse, strict=True)
        checked(self, "momentum", "trace_guard", "regularize_bias")


inherit_entries(RLSSettings)
