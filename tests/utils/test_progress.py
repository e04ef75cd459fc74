"""Progress bars of long calls: what they show, and that nothing else depends on them."""

import io
import math
import sys
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from joblib import delayed, parallel_config
from rich.console import Console

import qsdp
from benchmarks.papers.noel import MultiStart, QuadraticLogisticRegression
from qsdp._utils import bars
from qsdp._utils.bars import Bars
from qsdp._utils.parallel import CountedParallel
from qsdp._utils.progress import SILENT, Stages, _fraction_done, progress
from qsdp.baselines import TrainedLayer, quantize_layers
from qsdp.exceptions import InvalidTypeError
from qsdp.relaxation.scaled import Progress as Told

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


def test_solvers_that_tell_nothing_are_shown_without_figures(capfd):
    qsdp.solve_and_sample(X, Y, 40, 0.5, solver="scs", random_state=0, verbose=True)
    assert stages_of(capfd.readouterr().err)["solve"] == ""


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
    def explode(*_, **__):
        raise RuntimeError("here")

    monkeypatch.setattr("qsdp.choosing.width.sample_network", explode)
    with pytest.raises(RuntimeError, match="here"):
        qsdp.solve_and_sample(X, Y, verbose=True)
    assert "sample" in capfd.readouterr().err
    with progress(True) as stages, stages.stage("again"):
        pass
    assert list(stages_of(capfd.readouterr().err)) == ["again"]


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


def test_large_problems_without_relaxation_show_its_solve(capfd):
    data, targets = qsdp.datasets.make_planted(n=40, d=30, n_neurons=3, random_state=0)
    problem = qsdp.TrainingProblem(data, targets, beta=0.5)
    qsdp.column_generation(problem, time_limit=2.0, verbose=True)
    assert list(stages_of(capfd.readouterr().err)) == ["solve", "exact"]


def test_starts_show_what_their_estimator_shows(capfd):
    y = np.sign(Y)
    quiet = MultiStart(QuadraticLogisticRegression(n_epochs=2), 3, random_state=0).fit(X, y)
    assert capfd.readouterr() == ("", "")
    loud = MultiStart(QuadraticLogisticRegression(n_epochs=2), 3, random_state=0, verbose=True).fit(X, y)
    assert "QuadraticLogisticRegression" in "".join(capfd.readouterr())
    np.testing.assert_array_equal(quiet.decision(X), loud.decision(X))


def test_trained_estimators_show_the_layers_of_their_quantization(capfd):
    model = QuadraticLogisticRegression(n_epochs=2, random_state=0).fit(X, np.sign(Y))
    model.distill(X, 20, random_state=0, verbose=True)
    assert next(iter(stages_of(capfd.readouterr().err))) == "layers"


# -- one display -----------------------------------------------------------------------------------------


def test_calls_inside_others_share_the_display(capfd):
    with progress(True) as outer, outer.stage("outer"):
        with progress(True) as inner:
            assert inner is outer
        with progress(False) as quiet:
            assert quiet is SILENT
        qsdp.solve_relaxation(PROBLEM, verbose=True)
        qsdp.solve_relaxation(PROBLEM)
    assert list(stages_of(capfd.readouterr().err)) == ["outer", "solve"]
    with progress(True) as other:
        assert other is not outer


def test_names_are_no_markup(capfd):
    with progress(True) as stages, stages.stage("[red]a[/red]"):
        pass
    assert "[red]a[/red]" in capfd.readouterr().err


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing", None])
def test_tasks_of_every_back_end_are_counted(backend):
    display = Bars(console=Console(file=io.StringIO()))
    with Stages(display).stage("folds") as bar:
        with parallel_config(**({} if backend is None else {"backend": backend})):
            found = CountedParallel(None if backend is None else 2, bar, 5)(delayed(abs)(-k) for k in range(5))
        (task,) = display.progress.tasks
        assert found == [0, 1, 2, 3, 4]
        assert (task.completed, task.total, task.fields["figures"]) == (5, 5, "5 of 5")


def test_logs_get_a_line_now_and_then(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    log = io.StringIO()
    display = Bars(console=Console(file=log, width=30), transient=True)
    with display.running(), Stages(display).stage("solve [1]") as bar:
        for second in range(300):
            now[0] = 100.0 + second
            bar.count(second, 300, f"objective {second / 7:.6g}, gap 1e-1")
    lines = log.getvalue().splitlines()
    assert lines[0] == "10 s, solve [1] 3%: objective 1.42857, gap 1e-1"
    assert [int(line.split()[0]) for line in lines] == [10, 20, 40, 80, 160]


def test_logs_get_lines_of_stages_that_report_nothing(monkeypatch):
    monkeypatch.setattr(bars, "_LINE_SECONDS", 0.05)
    log = io.StringIO()
    display = Bars(console=Console(file=log, width=30), transient=True)
    ends = time.monotonic() + 60.0
    with display.running(), Stages(display).stage("Training"), Stages(display).stage("encode"):
        while not log.getvalue() and time.monotonic() < ends:
            time.sleep(0.01)
    assert log.getvalue().splitlines()[0] == "0 s, encode"


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


def test_notebooks_get_lines_of_long_calls_unasked(capfd, monkeypatch, notebook):
    now = [100.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    with progress(None) as stages, stages.stage("solve") as bar:
        for second in range(10):
            now[0] = 100.0 + second
            bar.count(second, 10, f"{second} of 10")
    assert capfd.readouterr().err.splitlines() == [
        f"{second} s, solve {second}0%: {second} of 10" for second in (2, 4, 8)
    ]
    # Whoever shows stages of his own does not want these.
    with progress(True), progress(None) as stages:
        assert stages is SILENT


FITS = {
    qsdp.QuantizedNetworkClassifier: {"beta": 0.5},
    qsdp.QuantizedNetworkRegressor: {"beta": 0.5},
}


@pytest.mark.filterwarnings("ignore:the certified gap is")
@pytest.mark.parametrize("estimator", FITS, ids=lambda one: one.__name__)
def test_long_fits_in_notebooks_show_their_stages_unasked(estimator, capfd, monkeypatch, request):
    target = np.sign(Y) if hasattr(estimator, "predict_proba") else Y

    def fit(**settings):
        return estimator(40, refine="none", random_state=0, **FITS[estimator], **settings).fit(X, target)

    monkeypatch.setattr("qsdp._utils.bars._UNASKED_SECONDS", 0.0)
    # Outside a notebook, nothing is shown.
    fit()
    assert capfd.readouterr() == ("", "")
    request.getfixturevalue("notebook")
    fit(verbose=False)
    assert capfd.readouterr() == ("", "")
    fit()
    written = capfd.readouterr()
    assert written.out == ""
    assert "solve" in {name_of(line) for line in written.err.splitlines()}


def name_of(line):
    """Return the stage of a line such as "2 s, solve 40%: objective 1"."""
    return line.split(", ")[1].split(" ")[0].removesuffix(":")


@pytest.mark.filterwarnings("ignore:the certified gap is")
@pytest.mark.parametrize("estimator", [qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor])
def test_estimators(estimator, capfd):
    y = np.sign(Y) if estimator is qsdp.QuantizedNetworkClassifier else Y
    model = estimator(40, beta=0.5, random_state=0, refine="none", verbose=True).fit(X, y)
    assert list(stages_of(capfd.readouterr().err)) == ["encode", "solve", "shape", "sample", "certify"]
    silent = estimator(40, beta=0.5, random_state=0, refine="none").fit(X, y)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(model.predict(X), silent.predict(X))


@pytest.mark.parametrize(
    ("gap", "share"),
    [(1.0, 0.0), (1e-3, 0.5), (1e-6, 1.0), (1e-9, 1.0), (0.0, 1.0), (-1e-18, 1.0), (1.5, 0.0), (math.nan, 0.0)],
)
def test_bars_count_orders_of_magnitude(gap, share):
    assert _fraction_done(gap, 1e-6) == pytest.approx(share)


def test_bars_pulse_until_something_is_known_and_are_full_in_the_end():
    display = Bars(console=Console(file=io.StringIO()))
    stages = Stages(display)
    with stages.stage("solve", 1e-4) as bar:
        task = display.progress.tasks[0]
        assert (task.description, task.total, task.finished) == ("solve", None, False)
        assert bar.gap(Told(3, 2.0, 1.98, 0.1)) is None
        assert (task.total, task.completed) == (1.0, pytest.approx(0.5))
        assert task.fields["figures"] == "objective 2, gap 1.0e-02"
    assert task.finished
    with stages.stage("refine") as bar:
        assert bar.sweep(3, 1.5) is None
        bar.gap(Told(3, 2.0, 1.98, 0.1))  # there is no tolerance to come closer to
        assert display.progress.tasks[1].total is None
        assert display.progress.tasks[1].fields["figures"] == "objective 1.5, sweep 3"
        bar.count(2, None, "many")
        assert (display.progress.tasks[1].total, display.progress.tasks[1].completed) == (None, 2)
        bar.count(3, 4)
        assert (display.progress.tasks[1].total, display.progress.tasks[1].completed) == (4, 3)
    with stages.stage("exact", 1e-4) as bar:
        bar.gap(Told(3, 2.0, 1.98, 0.1), part=1, parts=3)
        assert (display.progress.tasks[2].total, display.progress.tasks[2].completed) == (3, pytest.approx(1.5))


def test_silent_stages_touch_nothing(monkeypatch):
    monkeypatch.setattr(bars, "Bars", None)
    monkeypatch.setattr(sys, "stderr", None)
    with progress(False) as stages, stages.stage("solve", 1e-6) as bar:
        bar.gap(Told(1, 2.0, 1.0, 0.1))
        bar.sweep(1, 2.0)
    assert stages is SILENT
    assert not stages.shown
