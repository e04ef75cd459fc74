"""Choose the Newton system of an instance, and keep the factorisations that its outputs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit
from qsdp.relaxation.evaluation import DirectEvaluation, Evaluation, GramEvaluation, gram_in_basis
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.solvers.interior.coordinates import FactorCoordinates, SampleCoordinates
from qsdp.relaxation.solvers.interior.cost import takes_factor
from qsdp.relaxation.solvers.interior.fits import as_rows, as_target
from qsdp.relaxation.solvers.interior.newton import CoupledNewton, Newton, SingleNewton
from qsdp.relaxation.solvers.interior.primal import PrimalNewton

__all__ = ["FactorCache", "NewtonSetup"]

#: Share of the work to which the system in the matrix must come down for losses with kinks: it is less accurate there.
_KINKED_SHARE = 0.1


@dataclass(frozen=True)
class NewtonSetup:
    """The Newton system of one output (or of several coupled ones), and the coordinates of its dual vectors."""

    newton: Newton
    evaluation: Evaluation
    #: The loss of the predictions in these coordinates.
    fit: DataFit
    #: Map the multiplier to a dual vector of the evaluation, and one in the shape of the target to the multiplier.
    candidate: Callable[[FloatArray], FloatArray]
    multiplier: Callable[[FloatArray], FloatArray]


class FactorCache:
    """The coordinates that all outputs share, with the factored Gram matrix where that is cheaper."""

    def __init__(self, instance: Instance, reductions: Reductions | None, deadline: Deadline) -> None:
        data = instance.map
        self._factor: FactorCoordinates | None = None
        if instance.fit.quadratic and takes_factor(data.n_rows, data.size):
            self._gram, self._products = gram_in_basis(instance, reductions, deadline)
            deadline.require(float(len(self._gram)) ** 3)
            self._factor = FactorCoordinates(self._gram, data.size)
        else:
            self._samples = SampleCoordinates(data, deadline)

    def setup(self, k: int, part: Instance) -> NewtonSetup:
        """Return the Newton system of output k."""
        if self._factor is None:
            newton = self._newton(part)
            return NewtonSetup(newton, DirectEvaluation(part), part.fit, lambda nu: as_target(nu, part.fit), as_rows)
        factor, products = self._factor, self._products[:, k]
        targets = factor.targets(products)
        evaluation = GramEvaluation(part, self._gram, products[:, None])
        return NewtonSetup(
            SingleNewton(factor),
            evaluation,
            DataFit(part.loss, targets),
            lambda nu: factor.preimage(targets - 0.5 * nu[0])[None],
            lambda nu: factor.coordinates_of(part.map.adjoint(nu))[None],
        )

    def _newton(self, part: Instance) -> Newton:
        if part.loss.coupled:
            return CoupledNewton(self._samples, part.n_blocks)
        primal = PrimalNewton(self._samples)
        affordable = self._samples.work * (1.0 if part.loss.smooth else _KINKED_SHARE)
        return primal if primal.work < affordable else SingleNewton(self._samples)
