"""Data of the tests of exports."""

import pytest

import qsdp


@pytest.fixture(scope="session")
def iris():
    return tuple(qsdp.datasets.load_bundled("iris"))
