"""One home for the options of training: all faces have the same names, defaults, checks and words."""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import typer
from sklearn.base import clone

import qsdp
from qsdp._utils.options import Options, documented, option
from qsdp._utils.validation import check_integer
from qsdp.cli._flags import ARGUMENTS
from qsdp.estimators import (
    ClassifierCrossValidationOptions,
    ClassifierOptions,
    CrossValidationOptions,
    EstimatorOptions,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.options import TrainingOptions

X, Y = qsdp.datasets.make_planted(n=30, d=4, n_neurons=2, random_state=0)

#: What a face has on purpose: other defaults, words of its own, and no such parameter at all.
FACES: dict[str, tuple[Any, type[Options], dict[str, Any], set[str], set[str]]] = {
    "solve_and_sample": (qsdp.solve_and_sample, TrainingOptions, {}, set(), set()),
    "classifier": (qsdp.QuantizedNetworkClassifier, ClassifierOptions, {}, set(), set()),
    "regressor": (qsdp.QuantizedNetworkRegressor, EstimatorOptions, {}, set(), set()),
    "classifier, CV": (
        qsdp.QuantizedNetworkClassifierCV,
        ClassifierCrossValidationOptions,
        {},
        set(),
        {"beta", "warm_start"},
    ),
    "regressor, CV": (qsdp.QuantizedNetworkRegressorCV, CrossValidationOptions, {}, set(), {"beta", "warm_start"}),
    "distill": (
        qsdp.distill,
        TrainingOptions,
        {
            "n_neurons": 1000,
            "beta": None,
            "activation": "auto",
            "allocation": "proportional",
            "random_state": None,
        },
        {"beta", "activation"},
        {"loss"},
    ),
    "resample": (
        qsdp.QSDPResult.resample,
        TrainingOptions,
        {"n_neurons": inspect.Parameter.empty, "levels": None, "refine": None},
        {"n_neurons", "levels", "refine", "random_state"},
        {"beta", "loss", "activation", "solver", "shaping", "tol"},
    ),
}
faces = pytest.mark.parametrize("face", FACES)


@faces
def test_signatures_and_defaults_agree(face: str) -> None:
    function, options, others, _, missing = FACES[face]
    parameters = inspect.signature(function).parameters
    defaults = {name: getattr(options, name) for name in options.declared()}
    assert missing == defaults.keys() - parameters.keys()
    assert others.keys() <= parameters.keys()
    for name in defaults.keys() - missing:
        found, expected = parameters[name].default, others.get(name, defaults[name])
        assert found is expected or found == expected, name


@faces
def test_words_agree(face: str) -> None:
    function, options, _, own, missing = FACES[face]
    text = inspect.getdoc(function)
    assert "Options`" not in text, "an entry was not spelt out"
    for name in options.declared().keys() - own - missing:
        declared, default = options.declared()[name], inspect.signature(function).parameters[name].default
        words = f', default="{default}"' if isinstance(default, str) else f", default={default!r}"
        lines = inspect.cleandoc(declared.description).split("\n")
        assert "\n    ".join([f"{name} : {declared.annotation}{words}", *lines]) in text, name
        assert len(re.findall(rf"^{name} : ", text, re.MULTILINE)) == 1
    for name in own:
        assert len(re.findall(rf"^{name} : ", text, re.MULTILINE)) == 1


def test_estimators_have_defaults_of_their_own() -> None:
    differing = {
        name for name in TrainingOptions.declared() if getattr(TrainingOptions, name) != getattr(EstimatorOptions, name)
    }
    assert differing == {"n_neurons", "beta", "activation", "refine", "tol", "allocation", "random_state", "verbose"}


@pytest.mark.parametrize("command", ["fit", "demo"])
def test_flags_of_the_command_line_agree(command: str) -> None:
    others = {"n_jobs": 1, "random_state": 0}
    function = getattr(importlib.import_module(f"qsdp.cli._{command}"), command)
    parameters, hints = inspect.signature(function).parameters, typing.get_type_hints(function, include_extras=True)
    found = set()
    for name, declared in TrainingOptions.declared().items():
        parameter = ARGUMENTS.get(name, name)
        if parameter not in parameters:
            continue
        found.add(name)
        assert parameters[parameter].default == others.get(name, getattr(EstimatorOptions, name))
        if name != "activation":
            [shown] = [each for each in hints[parameter].__metadata__ if isinstance(each, typer.models.OptionInfo)]
            assert shown.help == declared.summary != ""
    only_in_python = {"verbose", "solver", "shaping", "allocation"}
    assert found == (
        TrainingOptions.declared().keys() - only_in_python if command == "fit" else {"refine", "random_state"}
    )


BAD: list[tuple[str, Any, type[Exception], str]] = [
    ("n_neurons", 0, InvalidInputError, "n_neurons must be an integer from 1 to"),
    ("beta", -1.0, InvalidInputError, "beta must be a finite number >= 0; got -1.0"),
    ("beta", "5", InvalidInputError, 'beta must be a finite number >= 0, "auto", or a share'),
    ("beta", "0%", InvalidInputError, 'beta must be a finite number >= 0, "auto", or a share'),
    ("beta", "nan%", InvalidInputError, 'beta must be a finite number >= 0, "auto", or a share'),
    ("loss", "cubic", InvalidInputError, "loss must be one of"),
    ("activation", "bend", InvalidInputError, "activation must be one of"),
    ("levels", 1, InvalidInputError, "levels must be an integer from 2 to 128; got 1"),
    ("solver", "magic", InvalidInputError, "solver must be one of"),
    ("shaping", "round", InvalidInputError, "shaping must be one of"),
    ("refine", "fine", InvalidInputError, "refine must be one of"),
    ("tol", 0.0, InvalidInputError, "tol must be a finite number > 0; got 0.0"),
    ("allocation", "fair", InvalidInputError, "allocation must be one of"),
    ("time_limit", 0.0, InvalidInputError, "time_limit must be a finite number > 0; got 0.0"),
    ("device", 0, InvalidTypeError, "device must be a string or None; got int"),
    ("n_jobs", 0, InvalidInputError, "n_jobs must be None or an integer other than 0; got 0"),
    ("random_state", -1, InvalidInputError, "random_state must be an integer >= 0; got -1"),
    ("random_state", "x", InvalidTypeError, "random_state must be None"),
    ("verbose", 1.5, InvalidTypeError, "verbose must be True, False or an integer >= 0; got 1.5"),
    ("verbose", -1, InvalidInputError, "verbose must be an integer >= 0; got -1"),
    ("constant_column", 2, InvalidTypeError, "constant_column must be True or False; got 2"),
    ("warm_start", 1, InvalidTypeError, "warm_start must be True or False; got 1"),
    ("keep_data", 1, InvalidTypeError, "keep_data must be True or False; got 1"),
    ("encoding", "bits", InvalidInputError, "encoding must be one of"),
    ("encoding", 3, InvalidTypeError, "encoding must be"),
    ("max_categories", 1, InvalidInputError, "max_categories must be an integer >= 2; got 1"),
    ("betas", 1, InvalidInputError, "betas must be an integer from 2"),
    ("evaluate", "both", InvalidInputError, "evaluate must be one of"),
]


def test_every_option_with_a_check_is_among_the_bad_ones() -> None:
    assert CrossValidationOptions.declared().keys() - {name for name, *_ in BAD} == {"cv", "scoring"}


@pytest.mark.parametrize(("name", "value", "error", "words"), BAD)
def test_bad_values_are_refused_before_any_work(
    name: str, value: Any, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise AssertionError("work started")

    monkeypatch.setattr("qsdp.options.TrainingProblem", explode)
    monkeypatch.setattr("qsdp.distillation._targets", explode)
    calls = {
        "solve_and_sample": lambda: qsdp.solve_and_sample(X, Y, **{name: value}),
        "regressor": lambda: qsdp.QuantizedNetworkRegressor(**{name: value}).fit(X, Y),
        "regressor, CV": lambda: qsdp.QuantizedNetworkRegressorCV(**{name: value}).fit(X, Y),
        "distill": lambda: qsdp.distill(np.eye(4), X, **{name: value}),
    }
    for face, call in calls.items():
        _, options, _, _, missing = FACES[face]
        if name in options.declared().keys() - missing:
            with pytest.raises(error, match=re.escape(words)):
                call()


def test_an_exact_refinement_needs_a_regularisation() -> None:
    with pytest.raises(InvalidInputError, match="beta must be > 0 for refine='exact'"):
        TrainingOptions(refine="exact", beta=0.0)


def test_estimators_keep_what_they_are_given() -> None:
    loss = qsdp.losses.Huber(0.5)
    model = qsdp.QuantizedNetworkRegressor(7, loss=loss, levels=-3)
    assert (model.n_neurons, model.loss, model.levels) == (7, loss, -3)
    assert model.loss is loss
    assert clone(model).get_params() == model.get_params()


def test_a_legacy_state_draws_once() -> None:
    states = [np.random.RandomState(0) for _ in range(2)]
    TrainingOptions(random_state=states[0])
    assert states[0].randint(1000) == states[1].randint(1000)


def test_a_new_option_is_declared_once() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Few(Options):
        size: int = option(3, "int", "How many\nthere are.", lambda name, value: check_integer(name, value, minimum=1))

    @documented(Few)
    def face(a: int, size: int = Few.size, other: int = 1) -> Few:
        """Return options.

        Parameters
        ----------
        a : int
        size
            See `Few`.
        other : int
            See `Few`.
        """
        return Few.of(locals())

    assert face(1) == Few(size=3)
    assert "a : int\nsize : int, default=3\n    How many\n    there are.\nother : int\n    See `Few`." in face.__doc__
    with pytest.raises(InvalidInputError, match="size must be an integer >= 1; got 0"):
        face(1, 0)


@pytest.mark.parametrize("verbose", [0, 2, np.int64(0), 1.0])
def test_habits_of_scikit_learn_are_understood(verbose: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plain = qsdp.solve_and_sample(X, Y, n_neurons=8, levels=3, n_jobs=2)
    other = qsdp.solve_and_sample(X, Y, n_neurons=8.0, levels=np.float64(3), n_jobs=2.0, verbose=verbose)
    assert np.array_equal(other.network.U, plain.network.U)
    assert bool(capsys.readouterr().err) == bool(verbose)
    assert other.resample(9.0, n_jobs=-1).network.n_neurons == 9
    assert TrainingOptions(n_neurons=8.0).n_neurons.__class__ is int
