"""Certificates: objective and lower bound of a network, with the proof of the bound."""

from qsdp.certificates.certificate import (
    BOUND_TYPES,
    Certificate,
    certificate_of,
    check_fits,
    check_relaxation,
    load_certificate,
)
from qsdp.certificates.certifying import certify
from qsdp.certificates.passes import certify_stream

__all__ = [
    "BOUND_TYPES",
    "Certificate",
    "certificate_of",
    "certify",
    "certify_stream",
    "check_fits",
    "check_relaxation",
    "load_certificate",
]
