"""Progress bars of long calls: what they show, and that nothing else depends on them."""

import io
import math
import sys

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

import qsdp
from qsdp import _progress
from qsdp._progress import SILENT, Stages, shown_stages
from qsdp.exceptions import InvalidTypeError
from qsdp.losses import LOSSES
from qsdp.relaxation.backends import takes_callback
from qsdp.relaxation.incumbent import Progress as Told

X, Y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)


def stages_of(text):
    """The names and the figures of the lines that were left."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {line[0]: " ".join(line[3:]) for line in lines}


@pytest.mark.parametrize(
    ("refine", "names", "figures"),
    [
        ("none", ["solve", "shape", "sample", "certify"], ""),
        ("refit", ["solve", "shape", "sample", "refine", "certify"], ""),
        ("polish", ["solve", "shape", "sample", "refine", "certify"], "sweep"),
        ("exact", ["solve", "shape", "sample", "refine", "certify"], "gap"),
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
        assert figures in shown["refine"]
        assert f"objective {loud.certificate.objective:.6g}" in shown["refine"]
    quiet = qsdp.solve_and_sample(X, Y, 40, 0.5, refine=refine, random_state=0)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(quiet.network.U, loud.network.U)
    np.testing.assert_array_equal(quiet.network.alpha, loud.network.alpha)
    assert quiet.certificate.lower_bound == loud.certificate.lower_bound


def test_solvers_that_tell_nothing_are_shown_without_figures(capfd):
    qsdp.solve_and_sample(X, Y, 40, 0.5, solver="scs", random_state=0, verbose=True)
    assert stages_of(capfd.readouterr().err)["solve"] == ""


def test_errors_of_arguments_are_those_of_silent_calls():
    with pytest.raises(InvalidTypeError, match="verbose must be True or False; got 1"):
        qsdp.solve_and_sample(X, Y, verbose=1)
    for solver in ("sc", None):
        messages = []
        for verbose in (False, True):
            with pytest.raises(qsdp.QSDPError) as caught:
                qsdp.solve_and_sample(X, Y, solver=solver, verbose=verbose)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_an_error_in_a_stage_ends_the_display(capfd, monkeypatch):
    def explode(*_, **__):
        raise RuntimeError("here")

    monkeypatch.setattr("qsdp.pipeline.shape_covariance", explode)
    with pytest.raises(RuntimeError, match="here"):
        qsdp.solve_and_sample(X, Y, verbose=True)
    assert "shape" in capfd.readouterr().err
    with shown_stages(True) as stages, stages.stage("again"):
        pass
    assert "again" in capfd.readouterr().err


@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor])
def test_estimators(estimator, capfd):
    y = np.sign(Y) if estimator is qsdp.QuantizedNetworkClassifier else Y
    model = estimator(40, beta=0.5, random_state=0, verbose=True).fit(X, y)
    assert list(stages_of(capfd.readouterr().err)) == ["solve", "shape", "sample", "certify"]
    silent = estimator(40, beta=0.5, random_state=0).fit(X, y)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(model.predict(X), silent.predict(X))


@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkClassifierCV, qsdp.QuantizedNetworkRegressorCV])
@pytest.mark.parametrize("evaluate", ["relaxation", "network"])
def test_estimators_with_cross_validation(estimator, evaluate, capfd):
    y = np.sign(Y) if estimator is qsdp.QuantizedNetworkClassifierCV else Y
    settings = {"betas": [0.5, 5.0], "cv": 2, "evaluate": evaluate, "random_state": 0}
    model = estimator(40, verbose=True, **settings).fit(X, y)
    assert list(stages_of(capfd.readouterr().err)) == ["folds", "path", "shape", "sample", "certify"]
    silent = estimator(40, **settings).fit(X, y)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(model.predict(X), silent.predict(X))
    np.testing.assert_array_equal(model.scores_, silent.scores_)


@pytest.mark.parametrize(
    ("gap", "share"),
    [(1.0, 0.0), (1e-3, 0.5), (1e-6, 1.0), (1e-9, 1.0), (0.0, 1.0), (-1e-18, 1.0), (1.5, 0.0), (math.nan, 0.0)],
)
def test_bars_count_orders_of_magnitude(gap, share):
    assert _progress._share(gap, 1e-6) == pytest.approx(share)


def test_lines_pulse_until_something_is_known_and_are_full_in_the_end():
    bar = Progress(console=Console(file=io.StringIO()))
    stages = Stages(bar)
    with stages.stage("solve", 1e-4) as line:
        task = bar.tasks[0]
        assert (task.description, task.total, task.finished) == ("solve", None, False)
        assert line.closing(Told(3, 2.0, 1.98, 0.1)) is None
        assert (task.total, task.completed) == (1.0, pytest.approx(0.5))
        assert task.fields["figures"] == "objective 2, gap 1.0e-02"
    assert task.finished
    with stages.stage("refine") as line:
        assert line.sweep(3, 1.5) is None
        line.closing(Told(3, 2.0, 1.98, 0.1))  # there is no tolerance to come closer to
        assert bar.tasks[1].total is None
        assert bar.tasks[1].fields["figures"] == "objective 1.5, sweep 3"


def test_silent_stages_touch_nothing(monkeypatch):
    monkeypatch.setattr(_progress, "Progress", None)
    monkeypatch.setattr(sys, "stderr", None)
    with shown_stages(False) as stages, stages.stage("solve", 1e-6) as line:
        line.closing(Told(1, 2.0, 1.0, 0.1))
        line.sweep(1, 2.0)
    assert stages is SILENT
    assert not stages.shown


def test_who_takes_a_callback():
    squared = LOSSES["squared"]()
    assert takes_callback("auto", squared)
    assert takes_callback("interior", squared)
    assert not takes_callback("scs", squared)
    assert not takes_callback("nobody", squared)
