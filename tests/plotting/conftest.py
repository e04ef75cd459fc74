"""Pictures are drawn without a screen, and no test leaves a figure behind."""

import matplotlib as mpl
import pytest

mpl.use("Agg")


@pytest.fixture(autouse=True)
def no_figure_is_left():
    import matplotlib.pyplot as plt

    plt.close("all")
    rc = dict(mpl.rcParams)
    yield
    assert mpl.get_backend().lower() == "agg"
    assert {name: value for name, value in mpl.rcParams.items() if rc[name] != value} == {}
    plt.close("all")
