"""How objects of results show themselves in notebooks: tables and small pictures, without matplotlib or scripts."""

from qsdp._html._objects import (
    bilinear_html,
    certificate_html,
    covariance_html,
    fixed_size_html,
    generation_html,
    inner_bound_html,
    match_html,
    path_html,
    polynomial_html,
    polynomial_relaxation_html,
    relaxation_html,
    result_html,
)

__all__ = [
    "bilinear_html",
    "certificate_html",
    "covariance_html",
    "fixed_size_html",
    "generation_html",
    "inner_bound_html",
    "match_html",
    "path_html",
    "polynomial_html",
    "polynomial_relaxation_html",
    "relaxation_html",
    "result_html",
]
