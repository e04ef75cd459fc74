"""Data sets of papers on quadratic neurons: XOR, the Nonlinear Cluster set, and a split of scikit-learn's digits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, check_choice, check_integer, check_random_state
from qsdp.datasets._dataset import Dataset

__all__ = ["CLUSTER_COVARIANCES", "CLUSTER_MEANS", "make_nonlinear_clusters", "make_xor", "split_digits"]

#: Means of the six classes (Table 3).
CLUSTER_MEANS = np.array([[-16.0, 0.0], [-8.0, 0.0], [0.0, 0.0], [0.0, 10.0], [-8.0, 10.0], [-16.0, 10.0]])

#: Covariances of the six classes (Table 3).
CLUSTER_COVARIANCES = np.array([[[1.0, rho], [rho, 1.0]] for rho in (-0.3, 0.0, 0.3, -0.3, 0.0, 0.3)])

_COLOURS = ("red", "black", "magenta", "green", "cyan", "blue")


def make_xor(encoding: str = "bipolar") -> Dataset:
    """Generate the four points of XOR with labels 0 and 1.

    Parameters
    ----------
    encoding : {"bipolar", "binary"}, default="bipolar"
        Whether inputs are -1 and +1, as in the paper, or 0 and 1.

    Examples
    --------
    >>> from benchmarks.data.toys import make_xor
    >>> X, y = make_xor()
    >>> y.tolist()
    [0, 1, 1, 0]
    """
    check_choice("encoding", encoding, ["bipolar", "binary"])
    X = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    return Dataset(
        name="xor",
        X=X if encoding == "bipolar" else 0.5 * (X + 1.0),
        y=np.array([0, 1, 1, 0]),
        feature_names=("x1", "x2"),
        target_names=("0", "1"),
        task="multiclass",
        description="Exclusive or of two inputs.",
    )


def make_nonlinear_clusters(n_per_class: int = 2000, *, random_state: object = 0) -> Dataset:
    """Generate six Gaussian clusters in the plane, one for each class.

    Parameters
    ----------
    n_per_class : int, default=2000
        Number of samples of each class. The paper has 2000 in its training set and 500 in its test set.
    random_state : None, int, Generator or RandomState, default=0

    Notes
    -----
    Noel, Muthiah-Nakarajan and Oswal, Table 3. A linear layer whose largest output decides the class reaches the
    accuracy of a quadratic layer. Single neurons do not: see `sign_code`.
    """
    n_per_class = check_integer("n_per_class", n_per_class, minimum=1)
    rng = check_random_state(random_state)
    X = np.vstack(
        [
            rng.multivariate_normal(mean, covariance, n_per_class)
            for mean, covariance in zip(CLUSTER_MEANS, CLUSTER_COVARIANCES, strict=True)
        ]
    )
    return Dataset(
        name="nonlinear-cluster",
        X=X,
        y=np.repeat(np.arange(len(CLUSTER_MEANS)), n_per_class),
        feature_names=("x1", "x2"),
        target_names=_COLOURS,
        task="multiclass",
        description="Six Gaussian clusters in the plane, Table 3 of Noel, Muthiah-Nakarajan and Oswal.",
    )


def split_digits(n_train: int = 1200) -> tuple[FloatArray, npt.NDArray[np.intp], FloatArray, npt.NDArray[np.intp]]:
    """Split scikit-learn's digits into ``X_train, y_train, X_test, y_test``, with pixels in [0, 1].

    The test set has 597 images, and the training set has the first `n_train` of the other 1200. The split is fixed.

    Parameters
    ----------
    n_train : int, default=1200
        Number of training images, at most 1200.

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Pixels of shape (n, 64), and digits of shape (n,).
    """
    from sklearn.datasets import load_digits

    n_train = check_integer("n_train", n_train, minimum=1, maximum=1200)
    digits = load_digits()
    order = np.random.default_rng(12345).permutation(len(digits.target))
    test, train = order[:597], order[597 : 597 + n_train]
    X = digits.data / 16.0
    return X[train], digits.target[train], X[test], digits.target[test]
