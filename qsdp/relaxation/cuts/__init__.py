"""The relaxation strengthened by inequalities that all sign matrices satisfy."""

from qsdp.relaxation.cuts.planes import CutBound, CutRule, CuttingPlanes

__all__ = ["CutBound", "CutRule", "CuttingPlanes"]
