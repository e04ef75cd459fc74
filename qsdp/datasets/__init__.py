"""Data sets: tables that come with scikit-learn, planted networks, MNIST and Fashion-MNIST."""

from qsdp.datasets._bundled import load_bundled
from qsdp.datasets._images import load_fashion_mnist, load_mnist
from qsdp.datasets._planted import make_planted

__all__ = ["load_bundled", "load_fashion_mnist", "load_mnist", "make_planted"]
