"""Loading of fitted estimators, with every value in the file checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from qsdp._utils.stored import Checks, are_texts, checked, is_list, is_number, is_positive, is_text
from qsdp.activations import get_activation
from qsdp.certificates import Certificate
from qsdp.certificates.certificate import BOUND_TYPES
from qsdp.encoding import Encoding, Patches, TableBlocks, TableEncoder, Windows
from qsdp.encoding.moments import BlockEncoder
from qsdp.estimators.calibration import Calibration, Lines
from qsdp.estimators.classifier import QuantizedNetworkClassifier
from qsdp.estimators.inputs import has_encoder, makes_blocks
from qsdp.estimators.regressor import QuantizedNetworkRegressor
from qsdp.estimators.saving import ENCODER_PARAMETERS, LABELS
from qsdp.estimators.solution import Solution, taken
from qsdp.estimators.source import TableSource
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import LOSSES, get_loss
from qsdp.networks import NETWORK_KINDS, InputMoments, blocks_from_archive, load_network, network_from_archive
from qsdp.networks.storage import ESTIMATOR_KIND, read_archive
from qsdp.options import REFINEMENTS

__all__ = ["load"]

#: Kind of the models of tables that the command line wrote before the first release.
_OLD_KIND = "tabular-model"

_CLASSES: dict[str, Any] = {
    one.__name__: one
    for one in (
        QuantizedNetworkClassifier,
        QuantizedNetworkRegressor,
    )
}


_ENCODERS: dict[str, Any] = {one.__name__: one for one in (Patches, TableBlocks, Windows)}


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator that its `save` wrote, or a network.

    Nothing in the file is executed. Predictions of a loaded estimator equal those of the saved one bit for bit.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    QuantizedNetworkClassifier, QuantizedNetworkRegressor, or a network
        See also `load_network` and `load_certificate`.

    Raises
    ------
    StorageError
        The file is damaged or holds neither an estimator nor a network.

    Examples
    --------
    >>> import os, tempfile, qsdp
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressor(beta="5%", random_state=0).fit(X[:200], y[:200])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.qsdp")
    >>> model.save(path)
    >>> bool((qsdp.load(path).predict(X) == model.predict(X)).all())
    True
    """
    kind, header, arrays = read_archive(path, ESTIMATOR_KIND, _OLD_KIND, *NETWORK_KINDS)
    if kind in NETWORK_KINDS:
        return load_network(path)
    if kind == _OLD_KIND:
        raise StorageError(
            f"{os.fspath(path)!r} is a model of the command line before the first release, which is no longer "
            "supported: train it again with `qsdp fit`"
        )
    try:
        return _estimator(header, dict(arrays))
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, InvalidInputError, StorageError
    ) as error:  # fmt: skip
        raise StorageError(f"{os.fspath(path)!r} is not a valid estimator: {error}") from None


def _parameter(state: Any) -> Any:
    """Convert the JSON values of a parameter to the parameter."""
    if isinstance(state, list):
        return tuple(_parameter(one) for one in state)
    if not isinstance(state, dict):
        return state
    if state.keys() == {"float"} and state["float"] in {"inf", "-inf", "nan"}:
        return float(state["float"])
    if state.keys() == {"loss", "parameters"}:
        return LOSSES[state["loss"]](*state["parameters"])
    if state.keys() == {"encoder", "parameters"}:
        return _ENCODERS[state["encoder"]](**{name: _parameter(one) for name, one in state["parameters"].items()})
    if state.keys() == {"pairs"}:
        return {_parameter(key): _parameter(value) for key, value in state["pairs"]}
    raise StorageError(f"parameter cannot be {state!r:.60}")


def _is_mapping(value: Any) -> bool:
    return type(value) is dict


def _is_optional(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


_HEADER: Checks = {
    "estimator": is_text,
    "parameters": _is_mapping,
    "encoder": _is_optional(_is_mapping),
    "labels": _is_optional(_is_mapping),
    "several": lambda value: type(value) is bool,
    "n_features": lambda value: type(value) is int and value > 0,
    "feature_names": _is_optional(lambda value: is_list(value) and all(map(is_text, value))),
    "constant": is_positive,
    "network": _is_mapping,
    "relaxation": _is_mapping,
    "certificate": _is_mapping,
    "provenance": are_texts,
    "refined": lambda value: is_text(value) and value in REFINEMENTS,
    "table": _is_optional(_is_mapping),
}
_CERTIFICATE: Checks = {
    "bound_type": lambda value: is_text(value) and value in BOUND_TYPES,
    "arithmetic": lambda value: is_text(value) and value in {"float", "verified"},
    "lower_bound": lambda value: is_number(value) and value >= 0.0,
    "objective": _is_optional(lambda value: is_number(value) and value >= 0.0),
}
_ENCODER: Checks = {
    "parameters": _is_mapping,
    "encoding": _is_mapping,
    "dropped": are_texts,
}
_LABEL_CHECKS: Checks = {"type": is_text, "labels": lambda value: is_list(value) and len(value) >= 2}


def _estimator(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Any:
    state = checked("header", header, _HEADER)
    if state["estimator"] not in _CLASSES:
        raise StorageError(f"there is no estimator {state['estimator']!r:.60}")
    parameters = {name: _parameter(value) for name, value in state["parameters"].items()}
    model: Any = _CLASSES[state["estimator"]](**parameters)
    model._options()
    model.n_features_in_ = state["n_features"]
    names = state["feature_names"]
    if names is not None:
        if len(names) != model.n_features_in_:
            raise StorageError(f"there are {len(names)} names for {model.n_features_in_} columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.encoder_ = _encoder(state["encoder"], model)
    model.constant_ = state["constant"]
    own = {name.removeprefix("network."): arrays.pop(name) for name in list(arrays) if name.startswith("network.")}
    read = blocks_from_archive if makes_blocks(model.encoder_) else network_from_archive
    model.network_ = read(state["network"], own)
    width = _check_width(model)
    if not makes_blocks(model.encoder_) and get_activation(model.activation) != model.network_.activation:
        raise StorageError(
            f"the activation of the network, {model.network_.activation!r}, differs from that of the estimator"
        )
    model.certificate_ = _certificate(state["certificate"])
    model.provenance_, model._refined = state["provenance"], state["refined"]
    _read_targets(model, state, arrays)
    model._solution = _solution(model, state["relaxation"], arrays)
    model._input_ranges = tuple(taken(arrays, f"ranges.{end}", (width,)) for end in ("low", "high"))
    shape = (2, model.network_.n_outputs)
    model._score_range = taken(arrays, "ranges.scores", shape) if "ranges.scores" in arrays else None
    model._input_moments = _moments(model.encoder_, width, arrays)
    if "importances" in arrays:
        model._importances = taken(arrays, "importances", (model.n_features_in_,))
    if state["table"] is not None:
        model.table_ = TableSource.from_state(state["table"])
        if model._solution is None:
            raise StorageError("table: the solution of the relaxation is missing")
        if (model.table_.kind is None) != hasattr(model, "classes_"):
            raise StorageError("table: the target of a classifier has no kind, that of a regressor has one")
        if names is None or {model.table_.target, model.table_.weights} & set(names):
            raise StorageError("table: columns must have names, which differ from those of target and weights")
    if arrays:
        raise StorageError(f"unexpected arrays {sorted(arrays)}")
    return model


def _solution(model: Any, state: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Solution | None:
    """Return the solution that the network was sampled from; files of pickled estimators have only its beta."""
    network, beta = model.network_, state.pop("beta", None)
    if not is_number(beta) or beta < 0.0:
        raise StorageError(f"relaxation: beta cannot be {beta!r:.60}")
    model._trained_beta = beta
    if not state:
        return None
    if makes_blocks(model.encoder_):
        layout, activation, levels = model.encoder_.layout_, None, 2
        count, size = network.n_outputs * layout.n_blocks, layout.side
    else:
        layout, activation, levels = None, network.activation, network.levels
        count, size = network.n_outputs, network.n_inputs + network.lifted
    solution = Solution.from_state(state, arrays, count, size, layout)
    if solution.activation != activation:
        raise StorageError(f"relaxation: its activation differs from that of the network, {activation!r}")
    if solution.levels == levels and solution.best_bound != model.certificate_.lower_bound:
        raise StorageError("certificate: the lower bound differs from that of the relaxation")
    return solution


def _moments(encoder: Any, width: int, arrays: dict[str, npt.NDArray[Any]]) -> InputMoments | None:
    """Return the moments by which effects are centred, or None for files of older versions, which lack them."""
    if "moments.mean" not in arrays:
        return None
    groups = range(width) if encoder is None else [one.position for one in encoder.encoding_.expressions]
    moments = InputMoments(*(taken(arrays, f"moments.{name}", None) for name in ("mean", "within")))
    if not moments.fits(groups):
        raise StorageError("the moments do not fit the inputs")
    return moments


def _check_width(model: Any) -> int:
    """Return the number of encoded columns, 0 for blocks; raise an error unless the network has as many inputs."""
    if makes_blocks(model.encoder_):
        expected, layout = model.encoder_.layout_, getattr(model.network_, "layout", None)
        if layout is None or (layout.sizes, layout.linear) != (expected.sizes, expected.linear):
            raise StorageError("the blocks of the network differ from those of the encoder")
        return 0
    width: int = model.n_features_in_ if model.encoder_ is None else model.encoder_.encoding_.width
    if model.network_.n_inputs != width + model._appends_constant:
        raise StorageError(f"the network has {model.network_.n_inputs} inputs, but the encoding returns {width}")
    return width


def _read_targets(model: Any, state: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Set labels, scaling and calibration of targets, and check that they fit the network's outputs."""
    classifier = hasattr(model, "predict_proba")
    if classifier != (state["labels"] is not None) or state["several"] > classifier:
        raise StorageError("labels belong to classifiers only")
    if get_loss(model.loss).for_classes and not classifier:
        raise StorageError(f"the loss {model.loss!r:.60} belongs to classifiers only")
    shape, one = model.network_.output_shape, model.network_.n_outputs
    offset, scale = (taken(arrays, f"scaling.{name}", (one,)).reshape(shape) for name in ("offset", "scale"))
    if not np.all(scale > 0.0):
        raise StorageError("scales of targets must be positive")
    centre = None
    if "scaling.centre" in arrays:
        if not classifier or one < 2 or state["several"]:
            raise StorageError("offsets of predictions belong to classifiers of several classes only")
        centre = taken(arrays, "scaling.centre", (one,))
    model.target_scaling_ = TargetScaling(offset, scale, centre)
    if not classifier:
        return
    model.classes_, model._several, model._class_factors = _labels(state["labels"]), state["several"], None
    outputs = len(model.classes_) if model._several or len(model.classes_) > 2 else one
    if one != outputs or one > 2 * len(model.classes_):
        raise StorageError(f"the network has {one} outputs for {len(model.classes_)} labels")
    if model._several and (get_loss(model.loss).coupled or model.classes_.tolist() != list(range(one))):
        raise StorageError("several labels are numbered, and their losses are added")
    if "class_factors" in arrays:
        model._class_factors = taken(arrays, "class_factors", (len(model.classes_),))
    model.calibration_ = None
    if "calibration.slopes" in arrays:
        lines = Lines(*(np.squeeze(taken(arrays, f"calibration.{name}", None)) for name in Lines._fields))
        if any(line.shape not in {(), shape} for line in lines):
            raise StorageError("a calibration has a line for every output, or one for all")
        model.calibration_ = Calibration.of_lines(lines, model.target_scaling_, len(model.classes_) > 2)


def _encoder(state: Any, model: Any) -> TableEncoder | BlockEncoder | None:
    if has_encoder(model.encoding) != (state is not None):
        raise StorageError(f"the encoder contradicts encoding={model.encoding!r:.60}")
    if state is None:
        return None
    if makes_blocks(model.encoding):
        blocks: BlockEncoder = clone(model.encoding)
        blocks.restore(state)
        if blocks.n_features_in_ != model.n_features_in_:
            raise StorageError(f"the encoder has {blocks.n_features_in_} inputs")
        return blocks
    state = checked("encoder", state, _ENCODER)
    if unknown := state["parameters"].keys() - ENCODER_PARAMETERS:
        raise StorageError(f"the encoder has no parameters {sorted(unknown)}")
    encoder = TableEncoder(**{name: _parameter(value) for name, value in state["parameters"].items()})
    encoder._rule()
    named = hasattr(model, "feature_names_in_")
    encoder.restore(Encoding.from_state(state["encoding"]), state["dropped"], named=named)
    if encoder.n_features_in_ != model.n_features_in_:
        raise StorageError(f"the encoding has {encoder.n_features_in_} columns")
    if named and encoder.feature_names_in_.tolist() != model.feature_names_in_.tolist():
        raise StorageError("the columns of the encoding have other names")
    return encoder


def _labels(state: Any) -> npt.NDArray[Any]:
    state = checked("labels", state, _LABEL_CHECKS)
    kind = np.dtype(state["type"])
    expected = str if kind.kind == "O" else LABELS[kind.kind]
    labels = state["labels"]
    typed = all(is_text(label) if expected is str else type(label) is expected for label in labels)
    if not typed or labels != sorted(set(labels)):
        raise StorageError(f"labels must be distinct, sorted and of the type {expected.__name__}")
    classes = np.array(labels, dtype=kind)
    if classes.tolist() != labels:
        raise StorageError(f"labels do not fit the type {kind}")
    return classes


def _certificate(state: Any) -> Certificate:
    state = checked("certificate", state, _CERTIFICATE)
    objective = math.nan if state["objective"] is None else state["objective"]
    return Certificate(state["lower_bound"], objective, state["bound_type"], state["arithmetic"])
