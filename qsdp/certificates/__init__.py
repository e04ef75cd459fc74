"""Certificates: objective and lower bound of a network, with the proof of the bound."""

from qsdp.certificates.certificate import (
    BOUND_TYPES,
    Certificate,
    certificate_of,
    load_certificate,
)
from qsdp.certificates.certifying import certify, guarded
from qsdp.certificates.checks import check_fits, check_relaxation

__all__ = [
    "BOUND_TYPES",
    "Certificate",
    "certificate_of",
    "certify",
    "check_fits",
    "check_relaxation",
    "guarded",
    "load_certificate",
]
