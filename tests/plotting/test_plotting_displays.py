"""What the displays draw, number by number."""

import io
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import qsdp
from qsdp.plotting import InteractionDisplay, ObjectiveDisplay


@pytest.fixture(scope="module")
def result():
    X, y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)
    return qsdp.solve_and_sample(X, y, n_neurons=40, beta=0.5, random_state=0)


@pytest.fixture(scope="module")
def vector():
    """Three classes of different rho."""
    X, y = qsdp.datasets.load_bundled("iris")
    return qsdp.solve_and_sample(X, np.eye(3)[y], n_neurons=30, beta=5.0, random_state=0)


@pytest.fixture(scope="module")
def classifier():
    X, y = qsdp.datasets.load_bundled("iris")
    plain = {"activation": None, "encoding": "none", "refine": "none", "allocation": "equal", "random_state": 0}
    return qsdp.QuantizedNetworkClassifier(90, beta=1.0, **plain).fit(X[:, 2:], y)


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- objective against m -----------------------------------------------------------------------


def test_objective_of_every_size_and_draw(result):
    display = ObjectiveDisplay.from_result(result, sizes=[100, 10], n_draws=3, random_state=7)
    rng = np.random.default_rng(7)
    objectives = [[result.problem.objective(result.resample(m, rng).network) for _ in range(3)] for m in (10, 100)]
    np.testing.assert_array_equal(display.sizes, [10, 100])
    np.testing.assert_allclose(display.objectives, objectives, rtol=1e-12)
    x, y = display.line_.get_data()
    np.testing.assert_array_equal(x, [10, 100])
    np.testing.assert_allclose(y, np.mean(objectives, axis=1), rtol=1e-12)
    vertices = display.band_.get_paths()[0].vertices
    for m, drawn in zip((10, 100), objectives, strict=True):
        heights = vertices[vertices[:, 0] == m, 1]
        assert (heights.min(), heights.max()) == pytest.approx((min(drawn), max(drawn)), rel=1e-12)
    assert set(display.bound_.get_ydata()) == {result.certificate.lower_bound}
    assert display.point_.get_xydata().tolist() == [[40, result.certificate.objective]]
    assert display.ax_.get_xlabel() == "number of neurons m"
    assert display.ax_.get_ylabel() == "objective"
    assert texts(display.ax_) == [
        "sampled, mean and range of 3",
        "this network",
        r"sampled, $m \to \infty$",
        "lower bound",
    ]


@pytest.mark.parametrize("name", ["result", "vector"])
def test_objective_tends_to_the_limit(name, request):
    result = request.getfixturevalue(name)
    display = ObjectiveDisplay.from_result(result, sizes=[500_000], n_draws=1)
    assert display.objectives[0, 0] == pytest.approx(display.limit, rel=1e-2)
    assert display.limit > result.certificate.lower_bound
    assert set(display.limit_.get_ydata()) == {display.limit}
    assert display.band_ is None


def test_objective_from_statistics_instead_of_rows(result):
    problem = result.problem
    statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
    on_statistics = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    other = replace(result, problem=on_statistics, relaxation=qsdp.solve_relaxation(on_statistics))
    displays = [ObjectiveDisplay.from_result(one, sizes=[20], n_draws=1) for one in (result, other)]
    assert displays[1].limit == pytest.approx(displays[0].limit, rel=1e-4)
    np.testing.assert_allclose(displays[1].objectives, displays[0].objectives, rtol=1e-9)


def test_objective_of_refined_networks_has_no_limit(result):
    display = ObjectiveDisplay.from_result(result, sizes=[20], n_draws=1, refine="polish")
    plain = ObjectiveDisplay.from_result(result, sizes=[20], n_draws=1)
    assert display.limit is display.limit_ is None
    assert display.objectives[0, 0] < plain.objectives[0, 0]


# --- interactions -------------------------------------------------------------------------------


def effects_of(d, C=None, columns=None):
    rng = np.random.default_rng(d)
    outputs = () if C is None else (C,)
    form = qsdp.QuadraticForm(rng.normal(size=(*outputs, d, d)), rng.normal(size=(*outputs, d)))
    return qsdp.Effects.from_network(form, rng.normal(size=(30, d)), columns=columns)


def test_interactions_are_those_of_the_table():
    effects = effects_of(4, columns=list("abcd"))
    display = InteractionDisplay.from_effects(effects)
    order = np.argsort(-effects.importances)
    assert display.columns_ == [effects.columns[j] for j in order]
    assert [bar.get_width() for bar in display.bars_] == effects.main[order].tolist()
    labels = [label.get_text() for label in display.ax_[0].get_yticklabels()]
    assert labels == display.columns_
    sizes = {one.columns: one.size for one in effects.table()}
    pairs = display.image_.get_array()
    for i, first in enumerate(display.columns_):
        for j, second in enumerate(display.columns_):
            if j > i:
                assert pairs[i, j] == sizes[min(first, second), max(first, second)]
            else:
                assert pairs.mask[i, j]
    assert display.ax_[0].get_title() == "main effects"
    top, bottom = (ax.get_ylim() for ax in display.ax_)
    assert top == bottom


def test_interactions_of_one_output_and_of_one_column():
    effects = effects_of(3, C=2)
    display = InteractionDisplay.from_effects(effects, output=1, cmap="Greens")
    assert sorted(bar.get_width() for bar in display.bars_) == sorted(effects.main[1])
    assert display.image_.get_cmap().name == "Greens"
    alone = InteractionDisplay.from_effects(effects_of(1))
    assert alone.image_.get_array().mask.all()
    nothing = qsdp.Effects.from_network(qsdp.QuadraticForm(np.zeros((2, 2))), [[0.0, 1.0]])
    assert [bar.get_width() for bar in InteractionDisplay.from_effects(nothing).bars_] == [0.0, 0.0]


# --- what all have in common --------------------------------------------------------------------


def drawn(classifier, result, spare=None):
    X, _ = qsdp.datasets.load_bundled("iris")
    return {
        "objective": lambda ax: ObjectiveDisplay.from_result(result, sizes=[10, 20], n_draws=2, ax=ax),
        "interactions": lambda ax: InteractionDisplay.from_estimator(classifier, X[:, 2:], ax=ax and [ax, spare]),
    }


NAMES = ("objective", "interactions")


@pytest.mark.parametrize("name", NAMES)
def test_given_axes_are_used_and_pyplot_stays_as_it_was(classifier, result, name):
    figure, (ax, current) = plt.subplots(1, 2)
    spare = figure.add_axes((0.9, 0.0, 0.1, 0.1))
    plt.sca(current)
    display = drawn(classifier, result, spare)[name](ax)
    assert ax in np.atleast_1d(display.ax_)
    assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    assert plt.gca() is current
    assert not current.lines
    assert not current.images
    figure.savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("name", NAMES)
def test_without_axes_there_is_one_new_figure_and_plot_draws_again(classifier, result, name):
    display = drawn(classifier, result)[name](None)
    first = display.ax_
    assert plt.get_fignums() == [display.figure_.number]
    assert all(ax.figure is display.figure_ for ax in np.atleast_1d(first))
    again = display.plot()
    assert again is display
    assert display.ax_ is not first
    assert len(plt.get_fignums()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_figures_of_their_own_need_no_pyplot(classifier, result, name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    ax, spare = figure.subplots(1, 2)
    display = drawn(classifier, result, spare)[name](ax)
    FigureCanvasAgg(figure).draw()
    assert display.figure_ is figure
    assert plt.get_fignums() == []
