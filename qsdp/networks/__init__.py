"""Networks with quantized first-layer weights: evaluation, exact transforms and storage."""

from qsdp.networks.bilinear import BilinearNetwork, from_polynomial, is_narrow
from qsdp.networks.integer_form import IntegerForm
from qsdp.networks.polynomial import PolynomialNetwork
from qsdp.networks.quadratic_form import QuadraticForm
from qsdp.networks.reading import NETWORK_KINDS, load_network, network_from_archive

__all__ = [
    "NETWORK_KINDS",
    "BilinearNetwork",
    "IntegerForm",
    "PolynomialNetwork",
    "QuadraticForm",
    "from_polynomial",
    "is_narrow",
    "load_network",
    "network_from_archive",
]
