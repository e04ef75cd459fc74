"""Lower bounds from the relaxation, with and without cutting planes, and from earlier runs: alternatives to pricing."""

from __future__ import annotations

import numpy as np

from qsdp._utils.deadline import TimeOver
from qsdp._utils.tuning import GAIN, PATIENCE
from qsdp.certificates import Certificate
from qsdp.certificates.proof import Proof
from qsdp.relaxation.bounds import DualBound, ProvenBound
from qsdp.relaxation.cuts import CuttingPlanes
from qsdp.relaxation.instance import Instance

__all__ = ["RelaxationBound", "part_of_certificate"]


def part_of_certificate(certificate: Certificate, instance: Instance, outputs: slice) -> ProvenBound:
    """Return the bound that a certificate proves for some outputs, whose instance this is."""
    proof = certificate.proof
    assert isinstance(proof, Proof)
    nu, trees = proof.nu[:, outputs], proof.trees[instance.matrices_of(outputs)]
    value = max(0.0, instance.guarded_dual_value(np.ascontiguousarray(nu)))
    return ProvenBound(value, nu, trees, (instance.dual_radius,) * len(trees), certificate.bound_type == "exact")


class RelaxationBound:
    """Best lower bound of an instance so far that does not come from the rounds.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all coupled ones.
    dual : DualBound or None
        Dual bound of the relaxation.
    rng : numpy.random.Generator
    stored : ProvenBound, optional
        Bound of an earlier run.
    """

    def __init__(
        self, instance: Instance, dual: DualBound | None, rng: np.random.Generator, stored: ProvenBound | None = None
    ) -> None:
        self._instance, self._rng, self._stored = instance, rng, stored
        self._dual = None if dual is None else _proven(dual)
        self._planes: CuttingPlanes | None = None
        self._still = 0
        self.exhausted = dual is None or not CuttingPlanes.supports(instance)

    @property
    def _semidefinite(self) -> ProvenBound | None:
        """Best bound from semidefinite programs."""
        bounds = [None if self._planes is None else self._planes.best, self._dual]
        return max((bound for bound in bounds if bound is not None), key=lambda bound: bound.value, default=None)

    @property
    def value(self) -> float:
        """Value of the bound, at least 0."""
        return max((bound.value for bound in (self._semidefinite, self._stored) if bound is not None), default=0.0)

    def improve(self) -> bool:
        """Run a round of cutting planes; return whether another one may help."""
        if self.exhausted:
            return False
        try:
            if self._planes is None:
                self._planes = CuttingPlanes(self._instance, self._rng)
            before = self._semidefinite
            self._planes.improve()
            best = self._semidefinite
            gained = best is not None and (before is None or best.value > (1.0 + GAIN) * before.value)
            self._still = 0 if gained else self._still + 1
            self.exhausted = self._planes.exhausted or self._still == PATIENCE
        except TimeOver:
            self.exhausted = True
        return not self.exhausted

    def proof(self) -> ProvenBound:
        """Return the best bound with its proof, which is that of the zero dual vector if there is no other."""
        bounds = [bound for bound in (self._stored, self._semidefinite) if bound is not None]
        if bounds:
            return max(bounds, key=lambda bound: bound.value)
        instance = self._instance
        nothing = np.zeros((instance.n_matrices, instance.size))
        return _proven(DualBound(0.0, np.zeros_like(instance.target), nothing))


def _proven(dual: DualBound) -> ProvenBound:
    return ProvenBound(dual.value, dual.nu, dual.trees, (None,) * len(dual.z))
