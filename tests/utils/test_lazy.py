"""Names of packages that are imported when they are first used."""

import pytest

import qsdp.encoding
import qsdp.estimators
from qsdp._utils.lazy import lazy_names


def test_a_name_is_that_of_its_module():
    namespace = {"__name__": "qsdp.encoding", "__all__": ["Patches", "row_scale"], "row_scale": None}
    attribute, names = lazy_names(namespace, {"Patches": "patches"})
    assert attribute("Patches") is qsdp.encoding.patches.Patches
    assert names() == ["Patches", "__all__", "__name__", "row_scale"]
    with pytest.raises(AttributeError, match=r"^module 'qsdp\.encoding' has no attribute 'row_scales'$"):
        attribute("row_scales")


@pytest.mark.parametrize("package", [qsdp.encoding, qsdp.estimators])
def test_packages_have_all_their_names(package):
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, name) is not None for name in package.__all__)
