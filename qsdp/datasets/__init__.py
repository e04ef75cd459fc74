"""Data sets: UCI, MNIST, Fashion-MNIST, scikit-learn's bundled sets, planted networks, and the paper's split."""

from qsdp.datasets._bundled import load_bundled
from qsdp.datasets._catalog import list_datasets, load_dataset
from qsdp.datasets._dataset import Dataset, paper_split
from qsdp.datasets._images import load_fashion_mnist, load_mnist
from qsdp.datasets._planted import make_planted
from qsdp.datasets._toys import make_nonlinear_clusters, make_xor, split_digits
from qsdp.datasets._uci import load_uci

__all__ = [
    "Dataset",
    "list_datasets",
    "load_bundled",
    "load_dataset",
    "load_fashion_mnist",
    "load_mnist",
    "load_uci",
    "make_nonlinear_clusters",
    "make_planted",
    "make_xor",
    "paper_split",
    "split_digits",
]
