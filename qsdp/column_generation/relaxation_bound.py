"""Lower bounds from the relaxation, with and without cutting planes, and from earlier runs: alternatives to pricing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.deadline import TimeOver
from qsdp._utils.tuning import GAIN, PATIENCE
from qsdp._utils.validation import FloatArray
from qsdp.certificates import Certificate
from qsdp.certificates.proof import Proof
from qsdp.certificates.trees import root_tree
from qsdp.pricing import BoundTree
from qsdp.relaxation import DualBound
from qsdp.relaxation.cuts import CuttingPlanes
from qsdp.relaxation.instance import Instance

__all__ = ["RelaxationBound", "Stored"]


@dataclass(frozen=True, eq=False)
class Stored:
    """A bound with its dual vector, and trees and upper bounds of the pricing values of all its matrices.

    The upper bounds are None if the trees are cheap to evaluate; `exact` tells whether they are the largest values.
    """

    value: float
    nu: FloatArray
    trees: tuple[BoundTree, ...]
    upper: float | None = None
    exact: bool = False

    @classmethod
    def from_certificate(cls, certificate: Certificate, instance: Instance, outputs: slice) -> Stored:
        """Return the part of a certificate for some outputs, whose instance this is."""
        proof = certificate.proof
        assert isinstance(proof, Proof)
        nu, trees = proof.nu[:, outputs], proof.trees[instance.matrices_of(outputs)]
        value = max(0.0, instance.guarded_dual_value(np.ascontiguousarray(nu)))
        return cls(value, nu, trees, instance.dual_radius, certificate.bound_type == "exact")


class RelaxationBound:
    """Best lower bound of an instance so far that does not come from the rounds.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all coupled ones.
    dual : DualBound or None
        Dual bound of the relaxation.
    rng : numpy.random.Generator
    stored : Stored, optional
        Proof of an earlier run.
    """

    def __init__(
        self, instance: Instance, dual: DualBound | None, rng: np.random.Generator, stored: Stored | None = None
    ) -> None:
        self._instance, self._dual, self._rng, self._stored = instance, dual, rng, stored
        self._planes: CuttingPlanes | None = None
        self._still = 0
        self.exhausted = dual is None or not CuttingPlanes.supports(instance)

    @property
    def _semidefinite(self) -> DualBound | None:
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

    def proof(self) -> Stored:
        """Return the dual vector of the bound, with the trees that bound its pricing values."""
        best, instance, value = self._semidefinite, self._instance, self.value
        if self._stored is not None and self._stored.value >= value:
            return self._stored
        if best is None:
            best = DualBound(0.0, np.zeros_like(instance.target), np.zeros((instance.n_matrices, instance.size)))
        used = np.repeat(np.any(best.nu, axis=0), instance.map.n_blocks)
        trees = (root_tree(z * bool(is_used), best.cuts, best.weights) for is_used, z in zip(used, best.z, strict=True))
        return Stored(value, best.nu, tuple(trees))
