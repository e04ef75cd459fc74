"""Errors of the displays, and that the core does without matplotlib."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError, QSDPError
from qsdp.plotting import (
    BitsDisplay,
    CovarianceDisplay,
    DecisionRegionDisplay,
    GapDisplay,
    InteractionDisplay,
    LevelsDisplay,
    ObjectiveDisplay,
    SpectrumDisplay,
)

X, Y = qsdp.datasets.make_planted(n=40, d=3, n_neurons=2, random_state=0)
RESULT = qsdp.solve_and_sample(X, Y, n_neurons=20, beta=0.5, random_state=0)
MODEL = qsdp.QuantizedNetworkRegressor(20, beta=0.5, encoding="standard", random_state=0).fit(X, Y)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_core_imports_no_displays_and_displays_import_matplotlib_only_to_draw():
    code = (
        "import sys, qsdp; print('qsdp.plotting' in sys.modules)\n"
        "import qsdp.plotting; print(qsdp.plotting.BitsDisplay.__name__, 'matplotlib' in sys.modules)"
    )
    assert run(code).split() == ["False", "BitsDisplay", "False"]


def test_one_error_names_the_extra_before_any_work(monkeypatch):
    def fail(*_):
        raise AssertionError("work")

    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (
        lambda: ObjectiveDisplay.from_result(fail),
        lambda: BitsDisplay.from_estimator(fail, 1, 1),
        lambda: BitsDisplay.from_networks([1], fail),
        lambda: GapDisplay.from_records(map(fail, [1])),
        lambda: GapDisplay.from_problem(fail),
        lambda: GapDisplay.from_result(fail),
        lambda: SpectrumDisplay.from_result(fail),
        lambda: SpectrumDisplay.from_relaxation(fail),
        lambda: CovarianceDisplay.from_result(fail),
        lambda: CovarianceDisplay.from_relaxation(fail, fail),
        lambda: LevelsDisplay.from_result(fail),
        lambda: LevelsDisplay.from_network(fail),
        lambda: InteractionDisplay.from_effects(fail),
        lambda: InteractionDisplay.from_estimator(fail),
        lambda: GapDisplay(curves={}).plot(),
        lambda: DecisionRegionDisplay.from_estimator(fail, [[1]]),
    ):
        with pytest.raises(MissingPackageError, match=r"^qsdp\.plotting needs matplotlib: pip install matplotlib$"):
            call()
    assert issubclass(MissingPackageError, QSDPError)
    assert issubclass(MissingPackageError, ImportError)


def test_without_a_screen():
    code = (
        "import os; [os.environ.pop(name, None) for name in ('DISPLAY', 'WAYLAND_DISPLAY', 'MPLBACKEND')]\n"
        "import io, qsdp; from qsdp.plotting import LevelsDisplay\n"
        "network = qsdp.BilinearNetwork([[1]], [[1]], [1.0])\n"
        "buffer = io.BytesIO(); LevelsDisplay.from_network(network).figure_.savefig(buffer)\n"
        "print(len(buffer.getvalue()) > 1000)"
    )
    assert run(code) == "True"


@pytest.mark.parametrize(
    "call",
    [
        lambda ax: ObjectiveDisplay.from_result(RESULT, ax=ax),
        lambda ax: BitsDisplay.from_estimator(MODEL, X, Y, ax=ax),
        lambda ax: BitsDisplay.from_networks([RESULT.network], float, ax=ax),
        lambda ax: SpectrumDisplay.from_result(RESULT, ax=ax),
        lambda ax: GapDisplay.from_problem(RESULT.problem, ax=ax),
        lambda ax: LevelsDisplay.from_network(RESULT.network, ax=ax),
        lambda ax: LevelsDisplay(levels=[1], counts={}).plot(ax),
        lambda ax: DecisionRegionDisplay.from_estimator(MODEL, X, ax=ax),
        lambda ax: CovarianceDisplay.from_result(RESULT, ax=[ax, ax]),
        lambda ax: InteractionDisplay.from_estimator(MODEL, ax=[ax, ax]),
    ],
)
def test_axes_that_are_none(call):
    with pytest.raises(InvalidTypeError, match="ax must be matplotlib axes or None; got str"):
        call("axes")


def test_covariance_takes_two_axes():
    _, ax = plt.subplots()
    with pytest.raises(InvalidTypeError, match="ax must be two matplotlib axes or None; got 1"):
        CovarianceDisplay.from_result(RESULT, ax=ax)
    with pytest.raises(InvalidTypeError, match="got 3"):
        CovarianceDisplay(before=np.eye(2), after=np.eye(2)).plot([ax, ax, ax])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ObjectiveDisplay.from_result(MODEL), "result must be a QSDPResult; got QuantizedNetworkRegressor"),
        (lambda: SpectrumDisplay.from_result(1), "result must be a QSDPResult; got int"),
        (lambda: SpectrumDisplay.from_relaxation(RESULT), "relaxation must be a Relaxation; got QSDPResult"),
        (lambda: CovarianceDisplay.from_result(1), "result must be a QSDPResult"),
        (lambda: CovarianceDisplay.from_relaxation(1, 1), "relaxation must be a Relaxation"),
        (lambda: LevelsDisplay.from_result(1), "result must be a QSDPResult"),
        (lambda: InteractionDisplay.from_effects(MODEL), "effects must be a Effects; got QuantizedNetworkRegressor"),
        (lambda: InteractionDisplay.from_estimator(RESULT), "estimator must be a quantized network estimator"),
        (
            lambda: LevelsDisplay.from_network(RESULT),
            "network must be a BilinearNetwork, PolynomialNetwork or BlockNetwork",
        ),
        (lambda: GapDisplay.from_result(RESULT), "result must be a ColumnGenerationResult; got QSDPResult"),
        (
            lambda: BitsDisplay.from_estimator(RESULT.network, X, Y),
            "estimator must be a quantized network estimator",
        ),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=10), "sizes must be numbers of neurons"),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes="10"), "sizes must be numbers of neurons"),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[2.5]), "sizes must be an integer >= 1; got 2.5"),
        (lambda: SpectrumDisplay.from_result(RESULT, output="0"), "output must be an integer from 0 to 0"),
    ],
)
def test_arguments_of_the_wrong_kind(call, message):
    with pytest.raises(InvalidTypeError, match=message):
        call()
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[]), "sizes must be distinct numbers of neurons"),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[5, 5]), "sizes must be distinct numbers of neurons"),
        (lambda: ObjectiveDisplay.from_result(RESULT, sizes=[0]), "sizes must be an integer >= 1; got 0"),
        (lambda: ObjectiveDisplay.from_result(RESULT, n_draws=0), "n_draws must be an integer >= 1"),
        (lambda: ObjectiveDisplay.from_result(RESULT, refine="exact"), "refine must be one of 'none', 'polish'"),
        (lambda: BitsDisplay.from_estimator(MODEL, X, Y, levels=[1]), "levels must be an integer from 2 to 128"),
        (lambda: InteractionDisplay.from_estimator(MODEL, output=1), "output must be an integer from 0 to 0; got 1"),
        (lambda: InteractionDisplay.from_estimator(MODEL, n_columns=0), "n_columns must be an integer >= 1; got 0"),
        (lambda: SpectrumDisplay.from_result(RESULT, output=1), "output must be an integer from 0 to 0; got 1"),
        (lambda: CovarianceDisplay.from_result(RESULT, output=-1), "output must be an integer from 0 to 0; got -1"),
        (lambda: DecisionRegionDisplay.from_estimator(MODEL, X, features=(0, 0)), "features must be two different"),
        (lambda: DecisionRegionDisplay.from_estimator(MODEL, X, features=(0,)), "features must be two different"),
        (lambda: DecisionRegionDisplay.from_estimator(MODEL, X, features=(0, 3)), "features must be an integer"),
        (lambda: DecisionRegionDisplay.from_estimator(MODEL, X, resolution=1), "resolution must be an integer >= 2"),
        (lambda: DecisionRegionDisplay.from_estimator(MODEL, X, margin=-1), "margin must be a finite number >= 0"),
        (lambda: DecisionRegionDisplay.from_estimator(MODEL, X, Y[:3]), r"y must have shape \(40,\)"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_allowed(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
    assert plt.get_fignums() == []


def test_regions_of_unknown_labels_and_of_several_outputs():
    model = qsdp.QuantizedNetworkClassifier(20, beta=0.1, encoding="standard", random_state=0).fit(
        X[:, :2], np.sign(Y - np.median(Y))
    )
    with pytest.raises(InvalidInputError, match="y must hold classes of the estimator; got 2"):
        DecisionRegionDisplay.from_estimator(model, X[:, :2], np.full(40, 2.0))
    several = qsdp.QuantizedNetworkRegressor(20, beta=0.1, encoding="standard", random_state=0).fit(
        X[:, :2], np.column_stack([Y, Y])
    )
    with pytest.raises(InvalidInputError, match="estimator must have one output"):
        DecisionRegionDisplay.from_estimator(several, X[:, :2])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkRegressor()])
def test_estimators_must_be_fitted(estimator):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        BitsDisplay.from_estimator(estimator, X, Y)
    with pytest.raises(NotFittedError):
        DecisionRegionDisplay.from_estimator(estimator, X)
