"""Attributes of fitted estimators as plain values for a file, and their restoration, in which all are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.stored import Checks, checked, is_list, is_number, is_text
from qsdp._utils.validation import LARGEST, SMALLEST, FloatArray
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.certificates import Certificate
from qsdp.choosing.options import REFINEMENTS
from qsdp.encoding import AdditiveBlocks, TableEncoder
from qsdp.encoding.region_moments import BlockEncoder
from qsdp.estimators.centring import InputMoments
from qsdp.estimators.classes import centres
from qsdp.estimators.input_encoding import has_encoder, makes_blocks, uses_transformer
from qsdp.estimators.parameters import activation_of, is_additive
from qsdp.estimators.table_source import TableSource
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import StorageError
from qsdp.losses import Loss, get_loss
from qsdp.networks import network_from_archive

__all__ = ["packed", "restored"]

#: Attributes that files hold as the arguments of their constructors.
_BUILT: dict[str, type[Any]] = {
    "certificate_": Certificate,
    "target_scaling_": TargetScaling,
    "_input_moments": InputMoments,
    "table_": TableSource,
}

_CHECKS: Checks = {
    "n_features_in_": lambda value: type(value) is int and value > 0,
    "feature_names_in_": lambda value: value is None or (is_list(value) and all(map(is_text, value))),
    "constant_": lambda value: is_number(value) and SMALLEST <= value <= LARGEST,
    "encoder_": lambda value: True,
    "network_": lambda value: type(value) is dict,
    "certificate_": lambda value: type(value) is dict,
    "target_scaling_": lambda value: type(value) is dict,
    "table_": lambda value: value is None or type(value) is dict,
    "_input_ranges": lambda value: type(value) is tuple and len(value) == 2,
    "_score_range": lambda value: True,
    "_input_moments": lambda value: value is None or type(value) is dict,
    "_importances": lambda value: True,
    "_trained_beta": lambda value: is_number(value) and value > 0.0,
    "_in_batches": lambda value: type(value) is bool,
    "_refined": lambda value: is_text(value) and value in REFINEMENTS,
}
_OF_CLASSIFIERS: Checks = {
    "classes_": lambda value: isinstance(value, np.ndarray),
    "_class_factors": lambda value: True,
}


def packed(model: Any) -> dict[str, Any]:
    """Return parameters and fitted attributes of an estimator as values that files can hold."""
    check_is_fitted(model)
    state = model.__getstate__()
    parameters = {name: state[name] for name in model.get_params(deep=False)}
    if not isinstance(parameters["random_state"], (int, np.integer, type(None))):
        # The state of a generator concerns fits, not predictions.
        parameters["random_state"] = None
    if uses_transformer(model.encoding):
        parameters["encoding"] = clone(model.encoding, safe=False)
    if isinstance(parameters.get("class_weight"), Mapping):
        # Keys of mappings are text in a file.
        parameters["class_weight"] = list(parameters["class_weight"].items())
    header, arrays = model.network_.archive()
    names = state.get("feature_names_in_")
    learned = {
        **{name: state.get(name) for name in _checks(model)},
        "feature_names_in_": None if names is None else names.tolist(),
        "network_": {"header": header, "arrays": arrays},
    }
    if isinstance(model.encoder_, BlockEncoder):
        learned["encoder_"] = model.encoder_.to_state()
        if is_additive(model):
            learned["encoder_"]["parameters"] = model.encoder_.get_params()
    for name, kind in _BUILT.items():
        value = learned[name]
        learned[name] = value and {field.name: getattr(value, field.name) for field in fields(kind)}
    # Proofs hold the training data.
    del learned["certificate_"]["proof"]
    return {name: _plain(value) for name, value in sorted((parameters | learned).items())}


def _checks(model: Any) -> Checks:
    return {**_CHECKS, **_OF_CLASSIFIERS} if is_classifier(model) else _CHECKS


def _plain(value: Any) -> Any:
    """Return a value with numbers of NumPy replaced by those of Python."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype == object:
        plain = np.empty_like(value)
        plain.ravel()[:] = [_plain(entry) for entry in value.ravel().tolist()]
        return plain
    if type(value) is dict:
        return {name: _plain(entry) for name, entry in value.items()}
    return type(value)(map(_plain, value)) if type(value) in {list, tuple} else value


def restored(model: Any) -> Any:
    """Return the estimator of attributes that `packed` returned, after checks of all; raise an error if one is wrong.

    What the attributes promise, such as shapes and labels, holds afterwards, so that predictions do not fail.
    """
    state = dict(vars(model))
    parameters = {name: state.pop(name) for name in type(model)._get_param_names()}
    for name in ("loss", "activation"):
        if isinstance(parameters[name], (Loss, PolynomialActivation)):
            parameters[name] = type(parameters[name])(**vars(parameters[name]))
    if is_list(parameters.get("class_weight")):
        parameters["class_weight"] = dict(parameters["class_weight"])
    model = type(model)(**parameters)
    model._options()
    learned = checked("model", state, _checks(model))
    for name, kind in _BUILT.items():
        learned[name] = None if learned[name] is None else kind(**learned[name])
    table = learned.pop("table_")
    names = learned.pop("feature_names_in_")
    vars(model).update(learned)
    if names is not None:
        if len(names) != model.n_features_in_:
            raise StorageError(f"there are {len(names)} names for {model.n_features_in_} columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.encoder_ = _encoder(model)
    model.network_ = network_from_archive(**learned["network_"])
    _check_inputs(model)
    _check_outputs(model)
    if table is not None:
        if (table.kind is None) != is_classifier(model) or names is None or {table.target, table.weights} & {*names}:
            raise StorageError("table_: target and weights do not fit the columns and the labels of the model")
        model.table_ = table
    return model


def _numbers(name: str, value: Any, shape: tuple[int, ...], largest: float = LARGEST) -> FloatArray:
    """Return numbers of a shape, by default with finite squares, or raise StorageError."""
    array = np.asarray(value)
    if array.dtype != np.float64 or array.shape != shape or not np.all(np.abs(array) <= largest):
        raise StorageError(f"{name} must be finite numbers of shape {shape}; got {array.dtype} of shape {array.shape}")
    return array


def _encoder(model: Any) -> Any:
    """Return the fitted encoder of a model, which must be one of its parameter `encoding`."""
    encoder = model.encoder_
    if makes_blocks(model.encoding):
        state, encoder = encoder, clone(model.encoding)
        encoder.restore(state)
    elif is_additive(model):
        encoder = AdditiveBlocks.of_state(encoder)
    expected: type[Any] = type(model.encoding)
    if isinstance(model.encoding, str):
        expected = AdditiveBlocks if is_additive(model) else TableEncoder
    if has_encoder(model.encoding) != (encoder is not None) or (encoder is not None and type(encoder) is not expected):
        raise StorageError(f"encoder_ does not belong to encoding={model.encoding!r:.60}")
    if isinstance(encoder, TableEncoder):
        check_is_fitted(encoder)
        if (
            getattr(encoder, "feature_names_in_", np.zeros(0)).tolist()
            != model.__dict__.get("feature_names_in_", np.zeros(0)).tolist()
        ):
            raise StorageError("the columns of the encoder have other names than those of the model")
    if isinstance(encoder, (TableEncoder, BlockEncoder)) and encoder.n_features_in_ != model.n_features_in_:
        raise StorageError(f"the encoder has {encoder.n_features_in_} columns, the model {model.n_features_in_}")
    return encoder


def _check_inputs(model: Any) -> None:
    """Check that encoder, network and what is known of the inputs belong together."""
    encoder, network, width = model.encoder_, model.network_, 0
    blocks = network.blocks
    if makes_blocks(encoder) or blocks is not None:
        layout = getattr(encoder, "layout_", None)
        if layout is None or blocks is None or not layout.same_blocks(blocks):
            raise StorageError("the blocks of the network differ from those of the encoder")
    else:
        width = network.n_inputs - model._appends_constant
        expected = encoder.encoding_.width if isinstance(encoder, TableEncoder) else width
        if (model.n_features_in_ if encoder is None else expected) != width:
            raise StorageError(f"the network has {network.n_inputs} inputs, but the encoding returns {expected}")
        if get_activation(activation_of(model)) != network.activation:
            raise StorageError(f"the network has another activation than the model, {network.activation!r}")
    model._input_ranges = tuple(_numbers("_input_ranges", end, (width,)) for end in model._input_ranges)
    moments = model._input_moments
    if moments is not None:
        for values in (moments.mean, moments.within):
            _numbers("_input_moments", values, (np.size(values),))
        if not moments.fits(model._groups(width)):
            raise StorageError("_input_moments do not fit the inputs")
    if model._importances is not None:
        _numbers("_importances", model._importances, (model.n_features_in_,))


def _check_outputs(model: Any) -> None:
    """Check that the network, labels, and the scaling of outputs belong together."""
    network, scaling = model.network_, model.target_scaling_
    shape, count = network.output_shape, network.n_outputs
    # Targets may be of any finite size.
    largest = float(np.finfo(np.float64).max)
    offset, scale = (
        _numbers(f"target_scaling_.{name}", getattr(scaling, name), shape, largest) for name in ("offset", "scale")
    )
    if not np.all(scale > 0.0):
        raise StorageError("target_scaling_.scale must be positive")
    model.target_scaling_ = TargetScaling(offset, scale)
    if model._score_range is not None:
        _numbers("_score_range", model._score_range, (2, count), largest)
    certificate = model.certificate_
    numbers = certificate.lower_bound, certificate.objective
    if not all(map(is_number, numbers)) or min(numbers) < 0.0:
        raise StorageError("certificate_ must have a bound and an objective that are numbers >= 0")
    if not is_classifier(model):
        if get_loss(model._loss).for_classes:
            raise StorageError(f"the loss {model._loss!r:.60} belongs to classifiers")
        return
    _check_labels(model.classes_)
    if np.any(scale != 1.0) or (np.any(offset) and not centres(get_loss(model._loss))):
        raise StorageError(f"target_scaling_ does not belong to classes and the loss {model._loss!r:.60}")
    labels = len(model.classes_)
    if count > labels or (labels > 2 and count != labels):
        raise StorageError(f"the network has {count} outputs for {labels} labels")
    if model._class_factors is not None and not np.all(
        _numbers("_class_factors", model._class_factors, (labels,)) > 0.0
    ):
        raise StorageError("_class_factors must be positive")


def _check_labels(classes: npt.NDArray[Any]) -> None:
    """Check that labels are distinct and sorted: text, truth values or numbers, or objects that are all text."""
    labels: Sequence[Any] = classes.tolist()
    kinds = {type(label) for label in labels}
    if classes.ndim != 1 or len(labels) < 2 or len(kinds) > 1 or not kinds <= {str, bool, int, float}:
        raise StorageError("classes_ must be two or more labels that are text, truth values or numbers")
    if labels != sorted(set(labels)) or not all(math.isfinite(label) for label in labels if type(label) is float):
        raise StorageError("classes_ must be distinct and sorted")
