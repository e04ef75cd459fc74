"""Progress bars of long calls: what they show, and that nothing else depends on them."""

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import qsdp
from qsdp.baselines import TrainedLayer, quantize_layers
from qsdp.exceptions import InvalidTypeError
from qsdp.relaxation.backends import BACKENDS

X, Y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)
PROBLEM = qsdp.TrainingProblem(X, Y, beta=0.5)
VECTOR = qsdp.TrainingProblem(X, np.column_stack([Y, X[:, 0] * X[:, 1]]), beta=0.5)
RESULT = qsdp.solve_and_sample(X, Y, 40, 0.5, random_state=0)
FORM = qsdp.QuadraticForm(np.eye(5))


def stages_of(text):
    """The names and the figures of the lines that were left."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {line[0]: " ".join(line[3:]) for line in lines}


@pytest.mark.parametrize(
    ("refine", "names", "figures"),
    [
        ("none", ["solve", "shape", "sample", "certify"], ""),
        ("refit", ["solve", "shape", "sample", "refit", "certify"], "gap"),
        ("polish", ["solve", "shape", "sample", "polish", "certify"], "sweep"),
        ("exact", ["solve", "shape", "sample", "exact"], "gap"),
    ],
)
def test_stages_are_shown_on_the_standard_error(refine, names, figures, capfd):
    loud = qsdp.solve_and_sample(X, Y, 40, 0.5, refine=refine, random_state=0, verbose=True)
    out, err = capfd.readouterr()
    assert out == ""
    shown = stages_of(err)
    assert list(shown) == names
    assert f"objective {loud.relaxation.objective:.6g}, gap " in shown["solve"]
    if figures:
        assert figures in shown[refine]
    if refine in {"polish", "exact"}:
        assert f"objective {loud.certificate.objective:.6g}" in shown[refine]
    quiet = qsdp.solve_and_sample(X, Y, 40, 0.5, refine=refine, random_state=0)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(quiet.network.U, loud.network.U)
    np.testing.assert_array_equal(quiet.network.alpha, loud.network.alpha)
    assert quiet.certificate.lower_bound == loud.certificate.lower_bound


def test_errors_of_arguments_are_those_of_silent_calls():
    with pytest.raises(InvalidTypeError, match="verbose must be True, False or an integer >= 0; got 'yes'"):
        qsdp.solve_and_sample(X, Y, verbose="yes")
    for solver in ("sc", None):
        messages = []
        for verbose in (False, True):
            with pytest.raises(qsdp.QSDPError) as caught:
                qsdp.solve_and_sample(X, Y, solver=solver, verbose=verbose)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_an_error_in_a_stage_ends_the_display(capfd, monkeypatch):
    def explode(*_):
        raise RuntimeError("here")

    with monkeypatch.context() as patch:
        for name, backend in BACKENDS.items():
            patch.setitem(BACKENDS, name, replace(backend, solve=explode))
        with pytest.raises(RuntimeError, match="here"):
            qsdp.solve_and_sample(X, Y, verbose=True)
    assert "solve" in capfd.readouterr().err
    qsdp.solve_relaxation(PROBLEM, verbose=True)
    assert list(stages_of(capfd.readouterr().err)) == ["solve"]


# -- every long call -------------------------------------------------------------------------------------

LONG = {
    "relaxation": (lambda **show: qsdp.solve_relaxation(PROBLEM, **show), ["solve"], "gap"),
    "relaxation through CVXPY": (
        lambda **show: qsdp.solve_relaxation(VECTOR, solver="scs", tol=1e-5, **show), ["solve"], "2 of 2",
    ),
    "covariance": (lambda **show: qsdp.shape_covariance(RESULT.relaxation, **show), ["shape"], ""),
    "column generation": (lambda **show: qsdp.column_generation(PROBLEM, **show), ["exact"], "gap"),
    "column generation, outputs": (lambda **show: qsdp.column_generation(VECTOR, **show), ["exact"], "gap"),
    "polish": (lambda **show: qsdp.polish(RESULT.network, PROBLEM, **show), ["polish"], "sweep"),
    "refit": (lambda **show: qsdp.refit(RESULT.network, PROBLEM, **show), ["refit"], "gap"),
    "refit, shared": (lambda **show: qsdp.refit(RESULT.network, PROBLEM, second_layer="shared", **show), ["refit"], ""),
    "certificate": (
        lambda **show: qsdp.certify(RESULT.network, PROBLEM, bound_type="exact", **show),
        ["solve", "certify"], "2 of 2 pricing problems",
    ),
    "MaxCut": (lambda **show: qsdp.maxcut_bound(X @ X.T, **show), ["bound"], "gradient"),
    "Grothendieck": (lambda **show: qsdp.grothendieck_bound(X, **show), ["bound"], "gradient"),
    "resample": (
        lambda **show: RESULT.resample(20, 0, refine="polish", levels=3, **show),
        ["shape", "sample", "polish", "certify"], "",
    ),
    "distill": (
        lambda **show: qsdp.distill(FORM, X, 20, **show), ["beta", "solve", "shape", "sample", "certify"], "",
    ),
    "layers": (
        lambda **show: quantize_layers([TrainedLayer(FORM)], X, 20, random_state=0, **show),
        ["layers", "beta", "solve", "shape", "sample", "certify"], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_every_long_call_shows_stages_where_asked(name, capfd):
    call, names, figures = LONG[name]
    call()
    assert capfd.readouterr() == ("", "")
    call(verbose=True)
    out, err = capfd.readouterr()
    assert out == ""
    shown = stages_of(err)
    assert list(shown) == names
    assert figures in shown[names[-1]]
    with pytest.raises(InvalidTypeError, match="verbose must be True, False or an integer >= 0; got 'yes'"):
        call(verbose="yes")


# -- one display -----------------------------------------------------------------------------------------


@pytest.fixture
def notebook(monkeypatch):
    """The kernel of a notebook."""
    module = ModuleType("IPython")
    module.get_ipython = lambda: SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setenv("FORCE_COLOR", "1")


def test_notebooks_get_what_logs_get(capfd, notebook):
    qsdp.solve_and_sample(X, Y, 40, 0.5, random_state=0, verbose=True)
    assert list(stages_of(capfd.readouterr().err)) == ["solve", "shape", "sample", "certify"]
    qsdp.solve_and_sample(X, Y, 40, 0.5, random_state=0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore:the certified gap is")
@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor])
def test_estimators(estimator, capfd):
    y = np.sign(Y) if estimator is qsdp.QuantizedNetworkClassifier else Y
    model = estimator(40, beta=0.5, random_state=0, refine="none", verbose=True).fit(X, y)
    # The relaxation of an additive model is built from its network.
    assert list(stages_of(capfd.readouterr().err)) == ["encode", "shape", "certify"]
    silent = estimator(40, beta=0.5, random_state=0, refine="none").fit(X, y)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(model.predict(X), silent.predict(X))
