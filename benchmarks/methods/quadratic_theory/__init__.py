"""Results on quadratic neurons, proven or as printed: conics, separability, constructions, splines, dimensions, counts.

They concern the networks in `benchmarks.papers.noel` and `benchmarks.papers.fan`, after Noel, Muthiah-Nakarajan
and Oswal and after Fan, Li, Wang, Lai and Wang, as corrected. PyTorch is imported by the functions that need it.
"""

from __future__ import annotations

from benchmarks.methods.quadratic_theory.conics import classify_conic, classify_conics
from benchmarks.methods.quadratic_theory.constructions import ball_neurons, ellipsoid_neurons
from benchmarks.methods.quadratic_theory.counts import (
    Operations,
    count_cached,
    count_operations,
    count_parameters,
    network_operations,
    printed_extra_memory,
    printed_extra_operations,
    printed_total_operations,
    resnet_parameters,
)
from benchmarks.methods.quadratic_theory.dimension import (
    DimensionBounds,
    FamilyDimension,
    dimension_bounds,
    family_dimension,
)
from benchmarks.methods.quadratic_theory.jacobians import (
    amplification,
    input_jacobian,
    layer_jacobian,
    output_change,
    output_range,
)
from benchmarks.methods.quadratic_theory.pieces import Piece, polynomial_pieces
from benchmarks.methods.quadratic_theory.separability import Separation, separate
from benchmarks.methods.quadratic_theory.splines import spline_error_constant, spline_network, spline_parameters

__all__ = [
    "DimensionBounds",
    "FamilyDimension",
    "Operations",
    "Piece",
    "Separation",
    "amplification",
    "ball_neurons",
    "classify_conic",
    "classify_conics",
    "count_cached",
    "count_operations",
    "count_parameters",
    "dimension_bounds",
    "ellipsoid_neurons",
    "family_dimension",
    "input_jacobian",
    "layer_jacobian",
    "network_operations",
    "output_change",
    "output_range",
    "polynomial_pieces",
    "printed_extra_memory",
    "printed_extra_operations",
    "printed_total_operations",
    "resnet_parameters",
    "separate",
    "spline_error_constant",
    "spline_network",
    "spline_parameters",
]
