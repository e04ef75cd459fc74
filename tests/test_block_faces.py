"""Every public function that takes a network, a problem or data: with blocks, a result or one clear error."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from block_problems import random_network, random_problem
from command_line import run
from sklearn.linear_model import LinearRegression

import qsdp
from qsdp import baselines, export, paper, plotting
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def a(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return one of each: on blocks, and of columns."""
    problem, rng = random_problem(0, n=20), np.random.default_rng(0)
    network = random_network(rng, problem.blocks, 5)
    columns = rng.standard_normal((20, 3))
    plain = qsdp.TrainingProblem(columns, problem.y, beta=1.0)
    result = qsdp.solve_and_sample(problem.X, problem.y, n_neurons=20, beta=problem.beta, random_state=0)
    folder = tmp_path_factory.mktemp("faces")
    network.save(folder / "network")
    certificate = qsdp.certify(network, problem, result.relaxation)
    certificate.save(folder / "certificate")
    return SimpleNamespace(
        problem=problem, network=network, X=problem.X, y=problem.y, result=result, relaxation=result.relaxation,
        certificate=certificate, folder=folder, columns=columns, plain=plain,
        bilinear=qsdp.BilinearNetwork([[1, 1, 1]], [[1, 1, 1]], [0.1]), plain_relaxation=qsdp.solve_relaxation(plain),
        classes=np.where(problem.y > 0.0, 1, 0), rows=[(problem.X, problem.y)],
        effects=qsdp.Effects.from_network(qsdp.QuadraticForm(np.eye(3)), columns),
        statistics=qsdp.SufficientStatistics().partial_fit(problem.X, problem.y),
    )  # fmt: skip


WORKS: dict[str, Callable[[Any], Any]] = {
    "beta_max": lambda a: qsdp.beta_max(a.problem),
    "two_block_program": lambda a: paper.two_block_program(a.problem),
    "solve_relaxation": lambda a: qsdp.solve_relaxation(a.problem, start=a.relaxation),
    "column_generation": lambda a: qsdp.column_generation(a.problem, start=a.network),
    "shape_covariance": lambda a: qsdp.sample_network(qsdp.shape_covariance(a.relaxation), 50),
    "solve_and_sample": lambda a: str(a.result._summary()),
    "resample": lambda a: a.result.resample(10),
    "certify": lambda a: qsdp.certify(a.network, a.problem, a.relaxation, bound_type="exact"),
    "certify statistics": lambda a: qsdp.certify(
        a.network, qsdp.TrainingProblem.from_statistics(a.statistics, beta=a.problem.beta), bound_type="exact"
    ),
    "refit": lambda a: qsdp.refit(a.network, a.problem),
    "polish": lambda a: qsdp.polish(a.network, a.problem, max_sweeps=1),
    "predict": lambda a: a.relaxation.predict(a.X) - a.network.predict(a.X),
    "load_network": lambda a: qsdp.load_network(a.folder / "network"),
    "load_certificate": lambda a: qsdp.load_certificate(a.folder / "certificate", a.problem),
    "load": lambda a: qsdp.load(a.folder / "network"),
    "summary": lambda a: [str(one._summary()) for one in (a.network, a.problem, a.certificate, a.relaxation, a.X)],
    "objectives": lambda a: plotting.ObjectiveDisplay.from_result(a.result, [10, 20], n_draws=2),
}

NO_COLUMNS = "samples in blocks have no columns"
NO_EXPORT = "can be exported by to_c, to_js and to_onnx only, and those on series by to_c only"
NO_ENCODER = "a network on blocks without an estimator needs encoder"
NO_FORM = "has no quadratic form in columns"
REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "levels": ("levels must be 2", lambda a: qsdp.TrainingProblem(a.X, a.y, beta=1.0, levels=3)),
    "activation": ("activation None", lambda a: qsdp.TrainingProblem(a.X, a.y, beta=1.0, activation="relu_like")),
    "with_levels": ("levels must be 2", lambda a: a.relaxation.with_levels(3)),
    "statistics": ("activation None", lambda a: qsdp.TrainingProblem.from_statistics(
        a.statistics, beta=1.0, activation="relu_like")),
    "full_program": ("columns", lambda a: paper.full_program(a.problem)),
    "polynomial_program": ("columns", lambda a: paper.polynomial_program(a.problem)),
    "from_polynomial": ("must be a PolynomialNetwork", lambda a: qsdp.from_polynomial(a.network)),
    "network.to_polynomial": ("no polynomial network", lambda a: a.network.to_polynomial()),
    "network.to_expression": (NO_FORM, lambda a: a.network.to_expression()),
    "distill a network": (NO_FORM, lambda a: qsdp.distill(a.network, a.columns)),
    "distill on blocks": (NO_COLUMNS, lambda a: qsdp.distill(LinearRegression().fit(a.columns, a.y), a.X)),
    "effects": (NO_FORM, lambda a: qsdp.Effects.from_network(a.network, a.columns)),
    "effects on blocks": (NO_COLUMNS, lambda a: qsdp.Effects.from_network(qsdp.QuadraticForm(np.eye(3)), a.X)),
    "certify_stream": ("must be of columns", lambda a: qsdp.certify_stream(a.network, a.rows, a.relaxation)),
    "certify another network": ("must be on blocks of sizes", lambda a: qsdp.certify(a.bilinear, a.problem)),
    "certify on columns": ("must be on columns", lambda a: qsdp.certify(a.network, a.plain)),
    "start of columns": ("must be on blocks of sizes", lambda a: qsdp.column_generation(a.problem, start=a.bilinear)),
    "start on blocks": ("must be on columns", lambda a: qsdp.column_generation(a.plain, start=a.network)),
    "relaxation of columns": ("same problem", lambda a: qsdp.column_generation(
        a.problem, relaxation=a.plain_relaxation)),
    "solver start": ("blocks", lambda a: qsdp.solve_relaxation(a.problem, start=a.plain_relaxation)),
    "refit columns": ("must be on blocks of sizes", lambda a: qsdp.refit(a.bilinear, a.problem)),
    "refit blocks": ("must be on columns", lambda a: qsdp.refit(a.network, a.plain)),
    "polish columns": ("must be on blocks of sizes", lambda a: qsdp.polish(a.bilinear, a.problem)),
    "polish blocks": ("must be on columns", lambda a: qsdp.polish(a.network, a.plain)),
    "objective": ("must have the blocks of the problem", lambda a: a.problem.objective(a.bilinear)),
    "objective of columns": ("must be Blocks", lambda a: a.plain.objective(a.network)),
    "predict columns": ("must be Blocks", lambda a: a.network.predict(a.columns)),
    "relaxation.predict": ("must be Blocks", lambda a: a.relaxation.predict(a.columns)),
    "bilinear.predict": (NO_COLUMNS, lambda a: a.bilinear.predict(a.X)),
    "regressor": (NO_COLUMNS, lambda a: qsdp.QuantizedNetworkRegressor().fit(a.X, a.y)),
    "classifier": (NO_COLUMNS, lambda a: qsdp.QuantizedNetworkClassifier().fit(a.X, a.classes)),
    "baseline": (NO_COLUMNS, lambda a: baselines.BackpropClassifier().fit(a.X, a.classes)),
    "grothendieck": (NO_COLUMNS, lambda a: qsdp.grothendieck_bound(a.X)),
    "maxcut": (NO_COLUMNS, lambda a: qsdp.maxcut_bound(a.X)),
    "to_c": (NO_ENCODER, lambda a: export.to_c(a.network)),
    "to_onnx": (NO_ENCODER, lambda a: export.to_onnx(a.network)),
    "to_verilog": (NO_EXPORT, lambda a: export.to_verilog(a.network)),
    "describe": (NO_EXPORT, lambda a: export.describe(a.network)),
    "onnx_inputs": (NO_ENCODER, lambda a: export.onnx_inputs(a.network, a.X)),
    "exported file": (NO_EXPORT, lambda a: export.describe(qsdp.load(a.folder / "network"))),
    "interactions": ("estimator must be", lambda a: plotting.InteractionDisplay.from_estimator(a.network, a.X)),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKS)
def test_works_on_blocks(name: str, a: SimpleNamespace) -> None:
    WORKS[name](a)


@pytest.mark.parametrize("name", REFUSED)
def test_one_clear_error(name: str, a: SimpleNamespace) -> None:
    said, call = REFUSED[name]
    with pytest.raises((InvalidInputError, InvalidTypeError, ExportError), match=said) as caught:
        call(a)
    assert "\n" not in str(caught.value)


def test_arrays_are_not_made_of_blocks(a: SimpleNamespace) -> None:
    for make in (np.asarray, np.array):
        with pytest.raises(InvalidTypeError, match=NO_COLUMNS):
            make(a.X)


def test_the_command_says_what_it_cannot_export(a: SimpleNamespace) -> None:
    for kind, said in (
        ("c", NO_ENCODER),
        ("onnx", NO_ENCODER),
        ("verilog", NO_EXPORT),
        ("js", NO_ENCODER),
    ):
        done = run("export", a.folder / "network", "--to", kind)
        assert done.exit_code != 0
        assert said in " ".join(done.output.split())
