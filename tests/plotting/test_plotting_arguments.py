"""Errors of the displays, and that the core does without matplotlib."""

import subprocess
import sys

import matplotlib.pyplot as plt
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError, QSDPError
from qsdp.plotting import InteractionDisplay, ObjectiveDisplay

X, Y = qsdp.datasets.make_planted(n=40, d=3, n_neurons=2, random_state=0)
RESULT = qsdp.solve_and_sample(X, Y, n_neurons=20, beta=0.5, random_state=0)
MODEL = qsdp.QuantizedNetworkRegressor(20, beta=0.5, encoding="standard", random_state=0).fit(X, Y)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_error_names_the_extra_before_any_work(monkeypatch):
    def fail(*_):
        raise AssertionError("work")

    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (
        lambda: ObjectiveDisplay.from_result(fail),
        lambda: InteractionDisplay.from_effects(fail),
        lambda: InteractionDisplay.from_estimator(fail),
    ):
        with pytest.raises(MissingPackageError, match=r"^qsdp\.plotting needs matplotlib: pip install matplotlib$"):
            call()
    assert issubclass(MissingPackageError, QSDPError)
    assert issubclass(MissingPackageError, ImportError)


def test_matplotlib_waits_for_a_picture_and_needs_no_screen():
    code = (
        "import sys, qsdp; print('qsdp.plotting' in sys.modules)\n"
        "import os; [os.environ.pop(name, None) for name in ('DISPLAY', 'WAYLAND_DISPLAY', 'MPLBACKEND')]\n"
        "import io; from qsdp.plotting import ObjectiveDisplay; print('matplotlib' in sys.modules)\n"
        "display = ObjectiveDisplay(sizes=[1, 2], objectives=[[4.0], [3.0]], lower_bound=2.5).plot()\n"
        "buffer = io.BytesIO(); display.figure_.savefig(buffer)\n"
        "print(len(buffer.getvalue()) > 1000)"
    )
    assert run(code).split() == ["False", "False", "True"]


@pytest.mark.parametrize(
    "call",
    [
        lambda ax: ObjectiveDisplay.from_result(RESULT, ax=ax),
        lambda ax: InteractionDisplay.from_estimator(MODEL, ax=[ax, ax]),
    ],
)
def test_axes_that_are_none(call):
    with pytest.raises(InvalidTypeError, match="ax must be matplotlib axes or None; got str"):
        call("axes")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[]), "sizes must be distinct numbers of neurons"),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[5, 5]), "sizes must be distinct numbers of neurons"),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[0]), "sizes must be an integer >= 1; got 0"),
        (lambda: ObjectiveDisplay.from_result(RESULT, n_draws=0), "n_draws must be an integer >= 1"),
        (lambda: ObjectiveDisplay.from_result(RESULT, refine="exact"), "refine must be one of 'none', 'polish'"),
        (lambda: InteractionDisplay.from_estimator(MODEL, output=1), "output must be an integer from 0 to 0; got 1"),
        (lambda: InteractionDisplay.from_estimator(MODEL, n_columns=0), "n_columns must be an integer >= 1; got 0"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_allowed(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
    assert plt.get_fignums() == []


@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkRegressor()])
def test_estimators_must_be_fitted(estimator):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        InteractionDisplay.from_estimator(estimator, X)
