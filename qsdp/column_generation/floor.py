"""Lower bounds from the relaxation, with and without cutting planes, as an alternative to exact pricing."""

from __future__ import annotations

import numpy as np

from qsdp._utils.deadline import TimeOver
from qsdp._utils.tuning import GAIN, PATIENCE
from qsdp._utils.validation import FloatArray
from qsdp.certificates.proof import root_tree
from qsdp.pricing import BoundTree
from qsdp.relaxation import DualBound
from qsdp.relaxation.cuts import CutBound, CuttingPlanes
from qsdp.relaxation.instance import Instance

__all__ = ["Floor"]


class Floor:
    """Best lower bound of an instance from semidefinite programs so far.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all coupled ones.
    dual : DualBound or None
        Dual bound of the relaxation.
    rng : numpy.random.Generator
    """

    def __init__(self, instance: Instance, dual: DualBound | None, rng: np.random.Generator) -> None:
        self._instance, self._dual, self._rng = instance, dual, rng
        self._planes: CuttingPlanes | None = None
        self._still = 0
        self.exhausted = dual is None or not CuttingPlanes.supports(instance)

    @property
    def value(self) -> float:
        """Value of the bound, at least 0."""
        plain = 0.0 if self._dual is None else self._dual.value
        return plain if self._cut is None else max(plain, self._cut.value)

    @property
    def nu(self) -> FloatArray | None:
        """Dual vector of the bound."""
        if self._cut is not None and self._cut.value >= self.value:
            return self._cut.nu
        return None if self._dual is None else self._dual.nu

    @property
    def _cut(self) -> CutBound | None:
        return None if self._planes is None else self._planes.best

    def improve(self) -> bool:
        """Run a round of cutting planes; return whether another one may help."""
        if self.exhausted:
            return False
        try:
            if self._planes is None:
                self._planes = CuttingPlanes(self._instance, self._rng)
            before = self.value
            self._planes.improve()
            self._still = 0 if self.value > (1.0 + GAIN) * before else self._still + 1
            self.exhausted = self._planes.exhausted or self._still == PATIENCE
        except TimeOver:
            self.exhausted = True
        return not self.exhausted

    def proof(self) -> tuple[FloatArray, tuple[BoundTree, ...]]:
        """Return the proof: the dual vector, and the trees that bound its pricing values."""
        cut, instance = self._cut, self._instance
        if cut is not None and cut.value >= self.value:
            return cut.nu, (root_tree(cut.z, cut.vectors, cut.weights),)
        nu = np.zeros_like(instance.target) if self._dual is None else self._dual.nu
        shifts = np.zeros((instance.n_matrices, instance.size)) if self._dual is None else self._dual.z
        used = np.repeat(np.any(nu, axis=0), instance.map.n_blocks)
        return nu, tuple(root_tree(z * bool(own)) for own, z in zip(used, shifts, strict=True))
