"""The relaxation strengthened by inequalities that all sign matrices satisfy."""

from qsdp.relaxation.cuts.planes import CuttingPlanes

__all__ = ["CuttingPlanes"]
