import subprocess
import sys

import numpy as np
import pytest

from qsdp.datasets import _fetch, list_datasets, load_bundled, load_dataset, load_uci
from qsdp.exceptions import InvalidInputError

INFOS = {info.name: info for info in list_datasets()}


def check_against_loaded(info):
    dataset = load_dataset(info.name)
    assert dataset.name == info.name
    assert dataset.X.shape == (info.n_samples, info.n_features)
    assert dataset.y.shape == (info.n_samples,)
    assert dataset.task == info.task
    assert len(dataset.feature_names) == len(set(dataset.feature_names)) == info.n_features
    assert np.isfinite(dataset.X).all()
    if info.task == "binary":
        assert set(dataset.y) == {-1.0, 1.0}
    if info.task == "multiclass":
        assert set(dataset.y) == set(range(len(dataset.target_names)))


@pytest.mark.parametrize("name", [info.name for info in INFOS.values() if info.source == "scikit-learn"])
def test_declared_sizes_bundled(name):
    check_against_loaded(INFOS[name])


@pytest.mark.usefixtures("uci_available")
@pytest.mark.parametrize("name", [info.name for info in INFOS.values() if info.source == "UCI"])
def test_declared_sizes_uci(name):
    check_against_loaded(INFOS[name])


def test_list_is_complete_and_short():
    infos = list_datasets()
    assert isinstance(infos, tuple)
    assert len(INFOS) == len(infos) == 21
    assert all(info.description and "\n" not in info.description for info in infos)


def test_listing_needs_neither_files_nor_pooch():
    code = "import sys; from qsdp.datasets import list_datasets; list_datasets(); print('pooch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_bundled_sets_are_available_and_uci_sets_where_all_their_files_are(tmp_path, monkeypatch):
    bundled = {info.name for info in INFOS.values() if info.source == "scikit-learn"}

    def available():
        return {info.name for info in INFOS.values() if info.available()}

    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    assert available() == bundled
    (tmp_path / "uci" / "ionosphere").mkdir(parents=True)
    (tmp_path / "uci" / "ionosphere" / "ionosphere.data").touch()
    (tmp_path / "uci" / "vehicle").mkdir()
    for letter in "abcdefgh":
        (tmp_path / "uci" / "vehicle" / f"xa{letter}.dat").touch()
    assert available() == {*bundled, "ionosphere"}
    (tmp_path / "uci" / "vehicle" / "xai.dat").touch()
    assert available() == {*bundled, "ionosphere", "vehicle"}
    monkeypatch.delenv("QSDP_DATA")
    monkeypatch.setattr(_fetch, "_cache_folder", lambda: tmp_path / "cache")
    assert available() == bundled


def test_load_dataset_takes_bundled_sets():
    np.testing.assert_array_equal(load_dataset("wine").X, load_bundled("wine").X)


@pytest.mark.usefixtures("uci_available")
def test_load_dataset_takes_uci_sets():
    np.testing.assert_array_equal(load_dataset("vehicle").X, load_uci("vehicle").X)


@pytest.mark.parametrize(
    ("name", "close"), [("ionospere", "ionosphere"), ("Wine", "wine"), ("breastcancer", "breast-cancer")]
)
def test_unknown_names_suggest_the_closest(name, close):
    with pytest.raises(InvalidInputError, match=f"did you mean '{close}'"):
        load_dataset(name)
