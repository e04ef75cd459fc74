import numpy as np
import pytest
import sklearn.datasets

from qsdp.datasets import load_bundled
from qsdp.exceptions import InvalidInputError, InvalidTypeError

LOADERS = {
    "breast-cancer-wisconsin": sklearn.datasets.load_breast_cancer,
    "diabetes": sklearn.datasets.load_diabetes,
    "iris": sklearn.datasets.load_iris,
    "wine": sklearn.datasets.load_wine,
    "digits": sklearn.datasets.load_digits,
}


@pytest.mark.parametrize("name", LOADERS)
def test_bundled_matches_scikit_learn(name):
    dataset, bunch = load_bundled(name), LOADERS[name]()
    np.testing.assert_array_equal(dataset.X, bunch.data)
    assert dataset.X.dtype == np.float64
    assert dataset.X.flags.c_contiguous
    assert dataset.name == name
    assert dataset.feature_names == tuple(bunch.feature_names)
    assert all(type(text) is str for text in dataset.feature_names + dataset.target_names)
    assert "scikit-learn" in dataset.description
    assert len(set(dataset.feature_names)) == dataset.X.shape[1]
    assert np.isfinite(dataset.X).all()
    if dataset.task != "binary":
        np.testing.assert_array_equal(dataset.y, bunch.target)


def test_wisconsin_counts_malignant_as_positive():
    dataset = load_bundled("breast-cancer-wisconsin")
    assert dataset.task == "binary"
    assert dataset.y.dtype == np.float64
    assert dataset.target_names == ("benign", "malignant")
    assert (dataset.y == 1).sum() == 212  # malignant, scikit-learn's DESCR
    assert (dataset.y == -1).sum() == 357
    assert dataset.X[dataset.y == 1, 0].mean() > dataset.X[dataset.y == -1, 0].mean()  # larger nuclei


def test_multiclass_and_regression_targets():
    digits, diabetes = load_bundled("digits"), load_bundled("diabetes")
    assert digits.y.dtype == np.int64
    assert digits.target_names == tuple("0123456789")
    assert load_bundled("iris").target_names == ("setosa", "versicolor", "virginica")
    assert diabetes.y.dtype == np.float64
    assert diabetes.task == "regression"
    assert len(diabetes.target_names) == 1


def test_unknown_names():
    with pytest.raises(InvalidInputError, match="did you mean 'digits'"):
        load_bundled("digit")
    with pytest.raises(InvalidTypeError, match="name must be one of"):
        load_bundled(3)
