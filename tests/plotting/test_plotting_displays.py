"""What the displays draw, number by number."""

import io
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
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
from qsdp.plotting import _canvas as canvas


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


def test_bits_of_a_pipeline_are_those_of_its_last_step(classifier):
    X, y = qsdp.datasets.load_bundled("iris")
    columns = FunctionTransformer(lambda data: data[:, 2:])
    options = {"sizes": [30, 60], "n_draws": 1}
    display = BitsDisplay.from_estimator(Pipeline([("c", columns), ("n", classifier)]), X, y, **options)
    alone = BitsDisplay.from_estimator(Pipeline([("n", classifier)]), X[:, 2:], y, **options)
    assert (
        display.reference == alone.reference == BitsDisplay.from_estimator(classifier, X[:, 2:], y, **options).reference
    )
    for own, other in zip(display.curves["binary"], alone.curves["binary"], strict=True):
        np.testing.assert_array_equal(own, other)


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
    display = ObjectiveDisplay.from_result(result, sizes=[2_000_000], n_draws=1)
    assert display.objectives[0, 0] == pytest.approx(display.limit, rel=5e-3)
    assert display.limit > result.certificate.lower_bound
    assert set(display.limit_.get_ydata()) == {display.limit}
    assert display.band_ is None


def test_objective_from_statistics_instead_of_rows(result):
    problem = result.problem
    statistics = qsdp.SufficientStatistics().partial_fit(problem.X, problem.y)
    on_statistics = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    relaxation = replace(result.relaxation, problem=on_statistics)
    other = replace(result, problem=on_statistics, relaxation=relaxation)
    displays = [ObjectiveDisplay.from_result(one, sizes=[20], n_draws=1) for one in (result, other)]
    assert displays[1].limit == pytest.approx(displays[0].limit, rel=1e-9)
    np.testing.assert_allclose(displays[1].objectives, displays[0].objectives, rtol=1e-9)


def test_objective_of_refined_networks_has_no_limit(result):
    display = ObjectiveDisplay.from_result(result, sizes=[20], n_draws=1, refine="polish")
    plain = ObjectiveDisplay.from_result(result, sizes=[20], n_draws=1)
    assert display.limit is display.limit_ is None
    assert display.objectives[0, 0] < plain.objectives[0, 0]


def test_default_sizes_leave_out_those_below_the_outputs():
    assert canvas.check_sizes(None, 3) == [10, 30, 100, 300, 1000, 3000, 10_000]
    assert canvas.check_sizes(None, 26) == [30, 100, 300, 1000, 3000, 10_000]


def test_objective_of_given_numbers():
    display = ObjectiveDisplay(sizes=[1, 2], objectives=[[4.0], [3.0]], lower_bound=2.5).plot(color="red")
    assert display.line_.get_color() == "red"
    assert display.point_ is display.limit_ is display.band_ is None
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("linear", "linear")


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        (([1.0, 100.0],), "log"),
        (([1.0], [15.0]), "linear"),
        (([0.0, 100.0],), "linear"),
        (([-1.0], 9.0), "linear"),
        ((), "linear"),
    ],
)
def test_scales(values, scale):
    assert canvas.scale_of(*values) == scale


# --- accuracy against bits ---------------------------------------------------------------------


def test_bits_and_scores_of_an_estimator(classifier):
    X, y = qsdp.datasets.load_bundled("iris")
    X = X[:, 2:]
    before = classifier.network_, classifier.result_
    display = BitsDisplay.from_estimator(classifier, X, y, sizes=[30, 3000], levels=[2, 4], n_draws=2, random_state=3)
    assert (classifier.network_, classifier.result_) == before
    rng = np.random.default_rng(3)
    inputs = np.column_stack([X, np.full(len(X), classifier.constant_)])
    offset = classifier.target_scaling_.offset
    for (name, (bits, scores)), levels, line, band in zip(
        display.curves.items(), (2, 4), display.lines_, display.bands_, strict=True
    ):
        networks = [[before[1].resample(m, rng, levels=levels).network for _ in range(2)] for m in (30, 3000)]
        expected = [[np.mean((offset + net.predict(inputs)).argmax(axis=1) == y) for net in row] for row in networks]
        assert name == f"{levels} levels"
        np.testing.assert_array_equal(bits, [row[0].n_bits for row in networks])
        np.testing.assert_allclose(scores, expected, rtol=1e-15)
        np.testing.assert_array_equal(line.get_xdata(), bits)
        np.testing.assert_allclose(line.get_ydata(), np.mean(expected, axis=1), rtol=1e-15)
        assert band.get_paths()[0].vertices[:, 1].max() == np.max(expected)
    relaxed = np.mean((offset + before[1].relaxation.predict(inputs)).argmax(axis=1) == y)
    assert set(display.reference_.get_ydata()) == {relaxed}
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("bits of the network", "accuracy")
    assert display.ax_.get_xscale() == "log"
    assert texts(display.ax_) == ["2 levels", "4 levels", "relaxation"]
    assert display.lines_[0].get_color() != display.lines_[1].get_color()
    assert display.lines_[0].get_marker() != display.lines_[1].get_marker()


def test_bits_of_a_regressor_and_of_one_with_cross_validation():
    X, y = qsdp.datasets.make_planted(n=40, d=3, n_neurons=3, random_state=0)
    for model in (
        qsdp.QuantizedNetworkRegressor(50, beta=0.1, encoding="standard", random_state=0),
        qsdp.QuantizedNetworkRegressorCV(50, betas=[0.1, 1.0], cv=2, encoding="standard", random_state=0),
    ):
        display = BitsDisplay.from_estimator(model.fit(X, y), X, y, sizes=[10], n_draws=1)
        assert display.ax_.get_ylabel() == "R²"
        assert texts(display.ax_) == ["binary", "relaxation"]
        assert display.reference > 0.9
        assert display.bands_ == []


def test_bits_of_given_networks_in_order_of_their_bits(result):
    networks = [result.resample(m, 0).network for m in (50, 5, 20)]
    display = BitsDisplay.from_networks(networks, lambda network: -network.n_neurons, score_name="minus m")
    bits, scores = display.curves["networks"]
    assert scores[:, 0].tolist() == [-5, -20, -50]
    assert np.all(np.diff(bits) > 0)
    assert display.ax_.get_ylabel() == "minus m"
    assert display.ax_.get_legend() is None
    named = BitsDisplay.from_networks({"a": networks[:1], "b": networks[1:]}, lambda network: 0.0)
    assert texts(named.ax_) == ["a", "b"]


def test_bits_of_shapes_that_do_not_fit():
    with pytest.raises(InvalidInputError, match=r"curves\['a'\] must be bits of shape \(K,\)"):
        BitsDisplay(curves={"a": ([1, 2], [0.5])})


# --- spectra -----------------------------------------------------------------------------------


def test_spectra_are_those_of_the_matrices(result):
    display = SpectrumDisplay.from_result(result)
    relaxation, N = result.relaxation, result.problem.size
    matrices = [relaxation.V + relaxation.Z, relaxation.V - relaxation.Z, relaxation.rho * result.covariance.Q]
    assert texts(display.ax_) == [r"$A = (V + Z) / \rho$", r"$B = (V - Z) / \rho$", "$Q$"]
    assert list(display.eigenvalues) == ["A", "B", "Q"]
    for line, matrix in zip(display.lines_, matrices, strict=True):
        expected = np.linalg.eigvalsh(matrix / relaxation.rho)[::-1]
        largest = max(np.linalg.eigvalsh(one / relaxation.rho)[-1] for one in matrices)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(matrix) + 1))
        np.testing.assert_allclose(line.get_ydata(), np.maximum(expected, 1e-9 * largest), atol=1e-13)
    A, B, Q = display.eigenvalues.values()
    assert A.sum() + B.sum() == pytest.approx(2 * N)
    assert Q.sum() == pytest.approx(2 * N)
    assert display.ax_.get_yscale() == "log"


def test_spectra_of_one_output_and_without_covariance(vector):
    display = SpectrumDisplay.from_result(vector, output=2)
    np.testing.assert_allclose(display.eigenvalues["Q"][::-1], np.linalg.eigvalsh(vector.covariance[2].Q), atol=1e-13)
    assert len(SpectrumDisplay.from_relaxation(vector.relaxation).lines_) == 2


def test_spectra_of_zero_lie_on_the_floor(result):
    with pytest.warns(qsdp.QSDPWarning, match="the zero network"):
        zero = qsdp.solve_relaxation(result.problem.with_beta(1.01 * qsdp.beta_max(result.problem)))
    display = SpectrumDisplay.from_relaxation(zero)
    assert {*display.lines_[0].get_ydata()} == {1e-9}


# --- gap against time --------------------------------------------------------------------------


def test_gap_of_what_a_callback_was_told(result):
    records = []
    qsdp.solve_relaxation(result.problem, solver="splitting", callback=records.append)
    display = GapDisplay.from_records(records)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), [one.elapsed for one in records])
    np.testing.assert_array_equal(line.get_ydata(), [one.relative_gap for one in records])
    assert line.get_drawstyle() == "steps-post"
    assert display.ax_.get_yscale() == "log"
    assert display.ax_.get_legend() is None
    assert line.get_ydata()[-1] <= 1e-6


def test_gap_of_several_solvers(result):
    display = GapDisplay.from_problem(result.problem, ["interior", "splitting"], tol=1e-3, line_kw={"alpha": 0.5})
    assert texts(display.ax_) == ["interior", "splitting"]
    for line in display.lines_:
        assert line.get_ydata()[-1] <= 1e-3
        assert line.get_alpha() == 0.5
    assert len({line.get_linestyle() for line in display.lines_}) == 2


def test_gap_of_a_solver_that_tells_nothing_is_refused_before_any_solve(result, monkeypatch):
    monkeypatch.setattr("qsdp.plotting._gap.solve_relaxation", None)
    with pytest.raises(InvalidInputError, match=r"solvers must be one of 'auto'.* got 'scs'"):
        GapDisplay.from_problem(result.problem, ["interior", "scs"])


def test_gap_of_column_generation(result):
    found = qsdp.column_generation(result.problem)
    display = GapDisplay.from_result(found)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), [one.seconds for one in found.history])
    np.testing.assert_array_equal(line.get_ydata(), [max(one.relative_gap, 1e-16) for one in found.history])


def test_gap_of_column_generation_has_a_curve_for_each_output(vector):
    found = qsdp.column_generation(vector.problem)
    display = GapDisplay.from_result(found)
    assert texts(display.ax_) == ["output 0", "output 1", "output 2"]
    # Rounds of one output may each begin later than the last one of the output before.
    later = [replace(one, seconds=float(one.number)) for one in found.history]
    display = GapDisplay.from_result(replace(found, history=later))
    assert texts(display.ax_) == ["output 0", "output 1", "output 2"]
    for line in display.lines_:
        assert np.all(np.diff(line.get_xdata()) >= 0)
        assert line.get_ydata()[-1] <= 1e-6
    assert sum(len(line.get_xdata()) for line in display.lines_) == found.rounds


def test_gap_of_zero_lies_on_the_floor():
    display = GapDisplay(curves={"a": ([0.0, 1.0], [1.0, 0.0])}).plot()
    assert display.lines_[0].get_ydata().tolist() == [1.0, 1e-16]


def test_gap_of_what_is_no_record():
    with pytest.raises(InvalidTypeError, match="records must be those passed to a callback"):
        GapDisplay.from_records([1.0])
    with pytest.raises(InvalidInputError, match="seconds and gaps of equal length"):
        GapDisplay(curves={"a": ([0.0], [1.0, 0.0])})


# --- levels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 4, 128])
def test_levels_are_counted(result, levels):
    network = result.resample(300, 0, levels=levels).network
    display = LevelsDisplay.from_network(network)
    np.testing.assert_array_equal(display.levels, np.arange(1 - levels, levels, 2))
    for name, weights, bars in zip("UV", (network.U, network.V), display.bars_, strict=True):
        expected = [np.count_nonzero(weights == level) for level in display.levels]
        np.testing.assert_array_equal(display.counts[name], expected)
        np.testing.assert_allclose([bar.get_height() for bar in bars], np.array(expected) / weights.size, rtol=1e-15)
    left, right = ([bar.get_x() for bar in bars] for bars in display.bars_)
    width = display.bars_[0][0].get_width()
    np.testing.assert_allclose(np.array(right) - left, width)  # beside one another, middle on the level
    np.testing.assert_allclose(right, display.levels, atol=1e-12)
    assert texts(display.ax_) == ["U, 1,500 weights", "V, 1,500 weights"]
    if levels == 4:
        assert display.ax_.get_xticks().tolist() == [-3, -1, 1, 3]


def test_levels_leave_out_the_binary_entry_of_a_lift():
    network = qsdp.BilinearNetwork([[3, 1, -1]], [[-3, 3, 1]], [1.0], levels=4, activation="relu_like")
    display = LevelsDisplay.from_network(network)
    assert display.counts["U"].tolist() == [0, 0, 1, 1]
    assert display.counts["V"].tolist() == [1, 0, 0, 1]


def test_levels_of_polynomial_networks():
    both = LevelsDisplay.from_network(qsdp.PolynomialNetwork([[2, 0], [1, -2]], [1.0, 1.0]))
    assert (both.levels.tolist(), both.counts["Q"].tolist()) == ([-2, -1, 0, 1, 2], [1, 0, 1, 1, 1])
    odd = LevelsDisplay.from_network(qsdp.PolynomialNetwork([[3, -1]], [1.0]))
    assert (odd.levels.tolist(), odd.counts["Q"].tolist()) == ([-3, -1, 1, 3], [0, 1, 0, 1])
    assert odd.ax_.get_ylabel() == "share of the weights"


def test_levels_of_a_result_are_those_of_its_network(result):
    one, other = LevelsDisplay.from_result(result, log=True), LevelsDisplay.from_network(result.network)
    assert one.counts["U"].tolist() == other.counts["U"].tolist()
    assert one.ax_.get_yscale() == "log"


# --- covariance --------------------------------------------------------------------------------


def test_covariance_before_and_after(result):
    display = CovarianceDisplay.from_result(result)
    relaxation, N = result.relaxation, result.problem.size
    Z, V = relaxation.Z / relaxation.rho, relaxation.V / relaxation.rho
    before, after = (image.get_array() for image in display.images_)
    np.testing.assert_allclose(before, np.block([[V, Z], [Z.T, V]]), atol=1e-15)
    np.testing.assert_array_equal(after, result.covariance.Q)
    # What makes the one of the other: the sine of gamma times the entry, off the diagonal blocks.
    np.testing.assert_allclose(after[:N, N:], np.sin(np.arcsinh(1.0) * before[:N, N:]), atol=1e-12)
    assert [image.get_clim() for image in display.images_] == [(-1.0, 1.0)] * 2
    assert [ax.get_title() for ax in display.ax_] == [r"$[[V, Z], [Z^T, W]] / \rho$", "$Q$, krivine, $c$ = 0.881"]
    assert display.ax_[0].get_xticks().tolist() == [0.5 * (N - 1), 1.5 * N - 0.5]
    assert display.colorbar_.mappable is display.images_[0]


def test_covariance_of_one_output(vector):
    display = CovarianceDisplay.from_result(vector, output=1)
    np.testing.assert_array_equal(display.images_[1].get_array(), vector.covariance[1].Q)
    Z = vector.relaxation.Z[1] / vector.relaxation.rho[1]
    np.testing.assert_allclose(display.before[: len(Z), len(Z) :], Z, atol=1e-15)


def test_covariance_of_given_matrices_has_plain_titles():
    display = CovarianceDisplay(before=np.eye(4), after=np.eye(4)).plot(cmap="PuOr")
    assert [ax.get_title() for ax in display.ax_] == ["before shaping", "after shaping"]
    assert display.images_[0].get_cmap().name == "PuOr"


# --- regions -----------------------------------------------------------------------------------


def test_regions_are_the_predicted_classes(classifier):
    X, y = qsdp.datasets.load_bundled("iris")
    X = X[:, 2:]
    display = DecisionRegionDisplay.from_estimator(classifier, X, y, resolution=20, margin=0.25)
    low, high = X.min(axis=0), X.max(axis=0)
    expected = [np.linspace(a - 0.25 * (b - a), b + 0.25 * (b - a), 20) for a, b in zip(low, high, strict=True)]
    np.testing.assert_allclose(display.xx0[0], expected[0])
    np.testing.assert_allclose(display.xx1[:, 0], expected[1])
    predicted = classifier.predict(np.column_stack([display.xx0.ravel(), display.xx1.ravel()]))
    np.testing.assert_array_equal(display.surface_.get_array().ravel(), predicted)
    assert len(display.boundaries_) == 2
    assert [collection.get_label() for collection in display.points_] == ["0", "1", "2"]
    for k, collection in enumerate(display.points_):
        np.testing.assert_allclose(collection.get_offsets(), X[y == k])
    assert texts(display.ax_) == ["0", "1", "2"]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("column 0", "column 1")


def test_regions_have_the_colour_of_their_points(classifier):
    X, y = qsdp.datasets.load_bundled("iris")
    display = DecisionRegionDisplay.from_estimator(classifier, X[:, 2:], y, resolution=20, alpha=1.0)
    mesh = display.surface_
    for k, points in enumerate(display.points_):
        np.testing.assert_allclose(mesh.cmap(mesh.norm(k)), points.get_facecolor()[0])


def test_regions_of_labels_that_are_text_and_of_named_columns():
    import pandas as pd
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = qsdp.datasets.load_bundled("iris")
    frame, labels = pd.DataFrame(X, columns=list("abcd")), np.array(["x", "y", "z"])[y]
    model = make_pipeline(
        StandardScaler(), qsdp.QuantizedNetworkClassifier(90, beta=1.0, encoding="standard", random_state=0)
    )
    display = DecisionRegionDisplay.from_estimator(
        model.fit(frame, labels), frame, labels, features=(3, 1), resolution=9
    )
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("d", "b")
    assert texts(display.ax_) == ["x", "y", "z"]
    # The other columns stay at their medians.
    mesh = np.tile(np.median(X, axis=0), (81, 1))
    mesh[:, 3], mesh[:, 1] = display.xx0.ravel(), display.xx1.ravel()
    codes = np.searchsorted(["x", "y", "z"], model.predict(pd.DataFrame(mesh, columns=list("abcd"))))
    np.testing.assert_array_equal(display.response.ravel(), codes)
    np.testing.assert_allclose(display.points_[2].get_offsets(), X[y == 2][:, [3, 1]])


def test_region_of_one_class_alone_has_no_boundary(classifier):
    X, _ = qsdp.datasets.load_bundled("iris")
    display = DecisionRegionDisplay.from_estimator(classifier, X[:2, 2:], resolution=5, margin=0.0)
    assert display.boundaries_ == []
    assert display.points_ == []
    assert display.ax_.get_legend() is None


def test_surface_of_a_regressor():
    X, y = qsdp.datasets.make_planted(n=40, d=2, n_neurons=3, random_state=0)
    model = qsdp.QuantizedNetworkRegressor(200, beta=0.1, encoding="standard", random_state=0).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(model, X, y, resolution=15)
    mesh = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    np.testing.assert_allclose(display.surface_.get_array().ravel(), model.predict(mesh))
    (points,) = display.points_
    np.testing.assert_allclose(points.get_array(), y)
    assert points.norm is display.surface_.norm
    low, high = display.surface_.get_clim()
    assert low <= y.min() <= y.max() <= high


def test_many_classes_have_colours_of_their_own():
    from qsdp.plotting import _regions as regions

    assert len({tuple(np.round(colour, 6)) for colour in regions._colours(26)}) == 26
    assert len(set(regions._colours(7))) == 7


# --- interactions -------------------------------------------------------------------------------


def effects_of(d, C=None, columns=None):
    rng = np.random.default_rng(d)
    outputs = () if C is None else (C,)
    form = qsdp.QuadraticForm(rng.normal(size=(*outputs, d, d)), rng.normal(size=(*outputs, d)))
    return qsdp.Effects.of(form, rng.normal(size=(30, d)), columns=columns)


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


def test_the_most_important_of_many_columns_are_shown_in_legible_names():
    names = [f"a name that is much too long, of column {j}" for j in range(60)]
    effects = effects_of(60, columns=names)
    display = InteractionDisplay.from_effects(effects, n_columns=5)
    assert len(display.columns_) == len(display.bars_) == 5
    share = effects.importances[np.argsort(-effects.importances)[:5]].sum()
    assert display.ax_[0].get_title() == f"main effects, 5 of 60 columns: {100 * share:.1f} %"
    shown = [label.get_text() for label in display.ax_[0].get_yticklabels()]
    assert len(set(shown)) == 5
    assert max(map(len, shown)) <= 24
    assert len(InteractionDisplay.from_effects(effects).columns_) == 16


def test_interactions_of_one_output_and_of_one_column():
    effects = effects_of(3, C=2)
    display = InteractionDisplay.from_effects(effects, output=1, cmap="Greens")
    assert sorted(bar.get_width() for bar in display.bars_) == sorted(effects.main[1])
    assert display.image_.get_cmap().name == "Greens"
    alone = InteractionDisplay.from_effects(effects_of(1))
    assert alone.image_.get_array().mask.all()
    nothing = qsdp.Effects.of(qsdp.QuadraticForm(np.zeros((2, 2))), [[0.0, 1.0]])
    assert [bar.get_width() for bar in InteractionDisplay.from_effects(nothing).bars_] == [0.0, 0.0]


def test_interactions_of_a_pipeline_have_the_names_of_the_data_frame():
    X, y = qsdp.datasets.load_bundled("iris")
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    model = make_pipeline(
        StandardScaler(), qsdp.QuantizedNetworkRegressor(8, beta=1.0, encoding="standard", random_state=0)
    ).fit(frame, y)
    for data in (None, frame):
        assert sorted(InteractionDisplay.from_estimator(model, data).columns_) == ["pl", "pw", "sl", "sw"]


# --- what all have in common --------------------------------------------------------------------


def drawn(classifier, result, spare=None):
    X, y = qsdp.datasets.load_bundled("iris")
    return {
        "objective": lambda ax: ObjectiveDisplay.from_result(result, sizes=[10, 20], n_draws=2, ax=ax),
        "bits": lambda ax: BitsDisplay.from_estimator(classifier, X[:, 2:], y, sizes=[10, 20], n_draws=2, ax=ax),
        "spectrum": lambda ax: SpectrumDisplay.from_result(result, ax=ax),
        "gap": lambda ax: GapDisplay.from_problem(result.problem, ax=ax),
        "levels": lambda ax: LevelsDisplay.from_result(result, ax=ax),
        "regions": lambda ax: DecisionRegionDisplay.from_estimator(classifier, X[:, 2:], y, resolution=9, ax=ax),
        "covariance": lambda ax: CovarianceDisplay.from_result(result, ax=ax and [ax, spare]),
        "interactions": lambda ax: InteractionDisplay.from_estimator(classifier, X[:, 2:], ax=ax and [ax, spare]),
    }


NAMES = ("objective", "bits", "spectrum", "gap", "levels", "regions", "covariance", "interactions")


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


@pytest.mark.parametrize("name", NAMES)
def test_labels_do_not_leave_the_figure(classifier, result, name):
    display = drawn(classifier, result)[name](None)
    display.figure_.canvas.draw()
    renderer = display.figure_.canvas.get_renderer()
    box = display.figure_.bbox
    for ax in np.atleast_1d(display.ax_):
        for label in (ax.xaxis.label, ax.yaxis.label, ax.title, *filter(None, [ax.get_legend()])):
            if isinstance(label, plt.Text) and not label.get_text():
                continue
            extent = label.get_window_extent(renderer)
            assert extent.x0 >= box.x0 - 1
            assert extent.y0 >= box.y0 - 1
            assert extent.x1 <= box.x1 + 1
            assert extent.y1 <= box.y1 + 1


def test_regions_of_data_frames_and_of_missing_entries():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 3))
    labels = X[:, 0] * X[:, 1] > 0.0
    X[::7, 0] = X[::5, 2] = np.nan
    kinds = [*["low"] * 31, *["high"] * 28, None]
    model = qsdp.QuantizedNetworkClassifier(n_neurons=20, random_state=0, tol=1e-2)
    make = {"resolution": 12}
    pandas_frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=pd.Categorical(kinds))
    polars_frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(pl.Series("kind", kinds, dtype=pl.Categorical))
    for frame in (pandas_frame, polars_frame):
        display = DecisionRegionDisplay.from_estimator(model.fit(frame, labels), frame, labels, **make)
        assert display.names == ("a", "b")
        # The mesh holds the other columns at the median and at the most frequent category.
        corner = pd.DataFrame({"a": display.xx0[:1, 0], "b": display.xx1[:1, 0]})
        corner = corner.assign(c=np.nanmedian(X[:, 2]), kind="low")
        expected = model.predict(corner if frame is pandas_frame else pl.DataFrame(corner.to_dict("list")))
        assert bool(display.response[0, 0]) == bool(expected[0])
        # Only the samples that have both values are drawn.
        drawn = sum(np.isfinite(points.get_offsets().filled(np.nan)).all(axis=1).sum() for points in display.points_)
        assert drawn == np.isfinite(X[:, 0]).sum()
    display = DecisionRegionDisplay.from_estimator(model.fit(X, labels), X, labels, **make)
    width = np.nanmax(X[:, 0]) - np.nanmin(X[:, 0])
    assert display.xx0.min() == pytest.approx(np.nanmin(X[:, 0]) - 0.1 * width)
    X[:, 1] = np.nan
    with pytest.raises(InvalidInputError, match="column 'column 1' of X must have a number to be plotted"):
        DecisionRegionDisplay.from_estimator(model, X, labels, **make)
