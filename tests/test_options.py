"""One home for the options of training: all faces have the same names, defaults, checks and words."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import re
import typing
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import typer

import qsdp
from qsdp._utils.option_fields import Options
from qsdp.choosing.options import TrainingOptions
from qsdp.cli._flags import ARGUMENTS
from qsdp.encoding import TableEncoder
from qsdp.exceptions import InvalidInputError, InvalidTypeError

X, Y = qsdp.datasets.make_planted(n=30, d=4, n_neurons=2, random_state=0)

#: What a face has on purpose: other defaults, words of its own, and no such parameter at all.
FACES: dict[str, tuple[Any, type[Options], dict[str, Any], set[str], set[str]]] = {
    "solve_and_sample": (qsdp.solve_and_sample, TrainingOptions, {}, set(), set()),
    "resample": (
        qsdp.QSDPResult.resample,
        TrainingOptions,
        {"n_neurons": inspect.Parameter.empty, "levels": None, "refine": None},
        {"n_neurons", "levels", "refine", "random_state"},
        {"beta", "loss", "activation", "solver", "shaping", "tol", "device"},
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


ESTIMATORS = (qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor)


def defaults_of(estimator: type) -> dict[str, Any]:
    parameters = list(inspect.signature(estimator).parameters.values())
    return {parameter.name: parameter.default for parameter in parameters}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_have_few_parameters_each_with_a_constraint_and_an_entry(estimator: type) -> None:
    defaults = defaults_of(estimator)
    assert len(defaults) <= 20
    assert estimator._parameter_constraints.keys() == defaults.keys()
    text = inspect.getdoc(estimator)
    for name, default in defaults.items():
        shown = f'"{default}"' if isinstance(default, str) else "1e-3" if default == 1e-3 else repr(default)
        assert len(re.findall(rf"^{name} : .*, default={re.escape(shown)}$", text, re.MULTILINE)) == 1, name


def test_the_classifier_has_the_parameters_of_the_regressor_and_two_more() -> None:
    classifier, regressor = map(defaults_of, ESTIMATORS)
    assert classifier == {**regressor, "class_weight": None}


def test_estimators_have_defaults_of_their_own() -> None:
    defaults = defaults_of(qsdp.QuantizedNetworkRegressor)
    known = [name for name in TrainingOptions.declared() if name in defaults]
    assert TrainingOptions.declared().keys() - set(known) == {"shaping"}
    differing = {name for name in known if getattr(TrainingOptions, name) != defaults[name]}
    assert differing == {
        "n_neurons",
        "beta",
        "loss",
        "activation",
        "refine",
        "tol",
        "allocation",
        "random_state",
        "verbose",
    }


@pytest.mark.parametrize("command", ["fit", "demo"])
def test_flags_of_the_command_line_agree(command: str) -> None:
    defaults = {**defaults_of(qsdp.QuantizedNetworkClassifier), "n_jobs": 1, "random_state": 0}
    function = getattr(importlib.import_module(f"qsdp.cli._{command}_command"), command)
    parameters, hints = inspect.signature(function).parameters, typing.get_type_hints(function, include_extras=True)
    found = set()
    for name, declared in TrainingOptions.declared().items():
        parameter = ARGUMENTS.get(name, name)
        if parameter not in parameters:
            continue
        found.add(name)
        assert parameters[parameter].default == defaults[name]
        if name != "activation":
            [shown] = [each for each in hints[parameter].__metadata__ if isinstance(each, typer.models.OptionInfo)]
            assert shown.help == declared.summary != ""
    only_in_python = {"verbose", "solver", "shaping", "allocation"}
    assert found == (
        TrainingOptions.declared().keys() - only_in_python if command == "fit" else {"refine", "random_state"}
    )


BAD: list[tuple[str, Any, type[Exception], str]] = [
    ("n_neurons", 0, InvalidInputError, "n_neurons must be an integer from 1 to"),
    ("beta", -1.0, InvalidInputError, "beta must be a finite number > 0; got -1.0"),
    ("beta", "5", InvalidInputError, 'beta must be a finite number > 0, "auto", or a share'),
    ("beta", "0%", InvalidInputError, 'beta must be a finite number > 0, "auto", or a share'),
    ("beta", "nan%", InvalidInputError, 'beta must be a finite number > 0, "auto", or a share'),
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
]


def test_every_option_is_among_the_bad_ones() -> None:
    assert {name for name, *_ in BAD} == TrainingOptions.declared().keys()


@pytest.mark.parametrize(("name", "value", "error", "words"), BAD)
def test_bad_values_are_refused_before_any_work(
    name: str, value: Any, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise AssertionError("work started")

    monkeypatch.setattr("qsdp.choosing.options.TrainingProblem", explode)
    with pytest.raises(error, match=re.escape(words)):
        qsdp.solve_and_sample(X, Y, **{name: value})
    with pytest.raises(error, match=re.escape(words)):
        qsdp.distill(explode, X, **{name: value})


#: Values that the estimators refuse, beside those of `BAD`, and words of the message.
REFUSED: list[tuple[str, Any, str]] = [
    *((name, value, name) for name, value, *_ in BAD if name != "shaping"),
    ("n_neurons", 2.5, "must be an int in the range"),
    ("beta", np.nan, "beta"),
    ("activation", 3, "activation"),
    ("encoding", "bits", "encoding must be one of"),
    ("encoding", 3, "'encoding' parameter of QuantizedNetworkClassifier must be"),
    ("encoding", TableEncoder, "encoding must be"),
    ("max_categories", 1, "must be an int in the range"),
    ("constant_column", 2, "'constant_column' parameter of QuantizedNetworkClassifier must be"),
    ("warm_start", 1.5, "warm_start"),
    ("class_weight", "even", "class_weight"),
    ("class_weight", {0: 0.0}, "class_weight[0] must be a finite number > 0; got 0.0"),
]


@pytest.mark.parametrize(("name", "value", "words"), REFUSED)
def test_estimators_refuse_bad_values_before_any_work(
    name: str, value: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise AssertionError("work started")

    monkeypatch.setattr("qsdp.choosing.options.TrainingProblem", explode)
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        qsdp.QuantizedNetworkClassifier(**{name: value}).fit(X, Y > 0.0)


def test_every_parameter_of_an_estimator_is_refused_somehow() -> None:
    assert {name for name, *_ in REFUSED} == defaults_of(qsdp.QuantizedNetworkClassifier).keys()


@pytest.mark.parametrize("verbose", [0, 2, np.int64(0), 1.0])
def test_habits_of_scikit_learn_are_understood(verbose: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plain = qsdp.solve_and_sample(X, Y, n_neurons=8, levels=3, n_jobs=2)
    other = qsdp.solve_and_sample(X, Y, n_neurons=8.0, levels=np.float64(3), n_jobs=2.0, verbose=verbose)
    assert np.array_equal(other.network.U, plain.network.U)
    assert bool(capsys.readouterr().err) == bool(verbose)
    assert other.resample(9.0, n_jobs=-1).network.n_neurons == 9
    assert TrainingOptions(n_neurons=8.0).n_neurons.__class__ is int


REFERENCE = ("qsdp", *(f"qsdp.{name}" for name in ("losses", "paper", "encoding", "export", "plotting", "datasets")))
REFERENCE += ("qsdp.baselines", "qsdp.relaxation.backends", "qsdp.exceptions")

#: Parameters with several defaults in public signatures: the reason for each.
DIFFERENCES: dict[str, dict[Any, str]] = {
    "activation": {
        None: "the bilinear network of the paper",
        "auto": "estimators and `distill`: decided by the encoding or the model",
    },
    "allocation": {
        "equal": "functions: the paper's algorithm",
        "proportional": "estimators: less noise of unequal classes",
    },
    "beta": {
        0.1: "functions: a number as in the paper",
        "auto": "estimators: decided by the data",
        "0.1%": "`distill`: outputs of models have no noise",
        None: "`refit` and `certify_stream`: that of the problem or relaxation",
    },
    "columns": {None: "`Effects`: all", False: "`simulate`: whether entries are columns"},
    "constant": {None: "`Patches`: by the polarity of the pixels", 1.0: "`Windows`: values are standardised"},
    "digits": {4: "printed formulas", 8: "Verilog, which computes with them"},
    "encoding": {"auto": "estimators: decided by the table", "both": "encoders"},
    "learning_rate": {0.1: "baselines", 0.5: "ReLU networks: with the scales of their first layer"},
    "levels": {2: "binary networks", None: "`resample`: those of the result"},
    "loss": {"squared": "functions", "auto": "estimators: by the kind of target", None: "`refit`: that of the problem"},
    "max_iter": {None: "the solver decides", 500: "bounds on sign problems"},
    "method": {"adaptive": "shaping", "auto": "`to_polynomial`: by the activation"},
    "n_neurons": {
        250: "functions: a size of the paper",
        None: "estimators: as many as are needed",
        100: "baselines, whose weights are real",
        1000: "baselines matched layer by layer",
        10: "planted networks",
    },
    "n_thresholds": {3: "tables in bits", 0: "additive models: weights first"},
    "optimizer": {"sgd": "baselines of the paper", "adam": "straight-through training"},
    "output": {0: "the first", None: "`FiltersDisplay`: all"},
    "random_state": {0: "functions", None: "estimators and their methods, as in scikit-learn"},
    "refine": {
        "none": "functions: the paper's algorithm",
        "polish": "estimators: more accurate",
        None: "`resample`: that of the result",
    },
    "scale": {"auto": "networks of every activation", "neuron": "ReLU networks, which are homogeneous"},
    "size": {3: "`Patches`, in pixels", 5: "`Windows`, in steps"},
    "solver": {"auto": "this package's solvers", "scs": "programs as printed, by CVXPY"},
    "start": {None: "no warm start", 0: "as `list.index`", "random": "straight-through training"},
    "tol": {
        1e-6: "functions",
        1e-3: "estimators: sampling noise is larger",
        1e-9: "`refit`: the second layer alone, a small problem",
    },
    "weight": {None: "numbers: no weights", 1.0: "CVXPY expressions: a factor"},
    "verbose": {False: "functions, which loops call", None: "estimators: bars in notebooks only, for long fits"},
}


def is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not hasattr(value, "get_params")


def public_callables() -> dict[str, Any]:
    """Collect the functions, classes and methods of the reference, by name."""
    found: dict[str, Any] = {}
    for module in map(importlib.import_module, REFERENCE):
        for name in module.__all__:
            value = getattr(module, name)
            found[name] = value
            if inspect.isclass(value):
                methods = inspect.getmembers(value, lambda each: inspect.isroutine(each))
                # scikit-learn writes the methods `set_..._request`.
                found |= {f"{name}.{key}": each for key, each in methods if key[0] != "_" and key[:4] != "set_"}
    # Callers do not construct records.
    return {name: value for name, value in found.items() if callable(value) and not is_record(value)}


def test_a_parameter_has_one_default_but_for_a_reason() -> None:
    defaults: dict[str, set[str]] = defaultdict(set)
    for function in public_callables().values():
        with contextlib.suppress(ValueError):  # without a signature, such as exceptions
            for parameter in inspect.signature(function).parameters.values():
                if parameter.default is not inspect.Parameter.empty:
                    defaults[parameter.name].add(repr(parameter.default))
    assert {"time_limit", "n_jobs", "device"} <= defaults.keys() - DIFFERENCES.keys()
    several = {name: values for name, values in defaults.items() if len(values) > 1}
    assert several == {name: set(map(repr, reasons)) for name, reasons in DIFFERENCES.items()}
