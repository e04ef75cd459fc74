"""The relaxation strengthened by inequalities that all sign matrices satisfy."""

from qsdp.relaxation.cuts.planes import CutBound, CuttingPlanes

__all__ = ["CutBound", "CuttingPlanes"]
