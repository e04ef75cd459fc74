"""Saving of fitted estimators: what prediction and resampling need, without code and without the training data."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from typing import Any

import numpy as np

from qsdp._utils.validation import warn
from qsdp.activations import PolynomialActivation
from qsdp.certificates import Certificate
from qsdp.encoding import EncodingRule
from qsdp.encoding.moments import BlockEncoder
from qsdp.estimators.provenance import versions
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, Loss
from qsdp.networks.storage import ESTIMATOR_KIND, write_archive

__all__ = ["ENCODER_PARAMETERS", "LABELS", "save"]

#: Types of labels: text, booleans, integers and floats; other objects have no form in a file.
LABELS: dict[str, type] = {"U": str, "b": bool, "i": int, "u": int, "f": float}

#: Parameters of an encoder in a file: what its rule and its predictions depend on.
ENCODER_PARAMETERS = {field.name for field in fields(EncodingRule)} | {"handle_unknown"}

_INSTEAD = "; use joblib.dump for the whole estimator, or model.network_.save for its network"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, see `QuantizedNetworkRegressor.save`."""
    network, arrays = model.network_.archive()
    arrays = {f"network.{name}": array for name, array in arrays.items()}
    solution = model._solution_of_relaxation()
    arrays |= {} if solution is None else solution.arrays()
    arrays |= {"scaling.offset": np.atleast_1d(model.target_scaling_.offset)}
    arrays |= {"scaling.scale": np.atleast_1d(model.target_scaling_.scale)}
    if model.target_scaling_.centre is not None:
        arrays |= {"scaling.centre": model.target_scaling_.centre}
    arrays |= dict(zip(("ranges.low", "ranges.high"), model._input_ranges, strict=True))
    scores = model._score_range
    arrays |= {} if scores is None else {"ranges.scores": scores}
    moments = model._input_moments
    arrays |= {} if moments is None else {"moments.mean": moments.mean, "moments.within": moments.within}
    calibration = getattr(model, "calibration_", None)
    if calibration is not None:
        arrays |= {f"calibration.{name}": np.atleast_1d(line) for name, line in calibration.lines._asdict().items()}
    importances = getattr(model, "feature_importances_", None)
    arrays |= {} if importances is None else {"importances": importances}
    factors = getattr(model, "_class_factors", None)
    arrays |= {} if factors is None else {"class_factors": factors}
    names = getattr(model, "feature_names_in_", None)
    header = {
        "estimator": type(model).__name__,
        "parameters": _parameters_state(model),
        "encoder": _encoder_state(model.encoder_),
        "labels": _labels_state(getattr(model, "classes_", None)),
        "several": bool(getattr(model, "_several", False)),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else names.tolist(),
        "constant": float(model.constant_),
        "network": network,
        "relaxation": {**({} if solution is None else solution.state()), "beta": model._trained_beta},
        "certificate": _certificate_state(model.certificate_),
        "provenance": versions(),
        "refined": model.refined_,
        "table": model.table_.state() if hasattr(model, "table_") else None,
    }
    write_archive(path, ESTIMATOR_KIND, header, {name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _parameters_state(model: Any) -> dict[str, Any]:
    """Return the parameters as JSON values; those without a JSON form are replaced by defaults, with a warning."""
    defaults, state, lost = type(model)().get_params(deep=False), {}, []
    for name, value in model.get_params(deep=False).items():
        if name == "encoding" and value is not None and not isinstance(value, (str, BlockEncoder)):
            raise InvalidInputError(f"encoding={type(value).__name__}(...) cannot be saved{_INSTEAD}")
        try:
            state[name] = _plain(value)
        except TypeError:
            if isinstance(value, Loss):
                raise InvalidInputError(f"loss={value!r:.60} cannot be saved{_INSTEAD}") from None
            state[name] = _plain(defaults[name])
            lost.append(name)
    if lost := [name for name in lost if name != "random_state"]:
        warn(f"the saved estimator has the defaults of {', '.join(lost)}, whose values have no form in a file")
    return state


def _plain(value: Any) -> Any:
    """Return a parameter as JSON values, or raise TypeError if it has no JSON form."""
    if value is None or isinstance(value, (bool, int, float, str)):
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, PolynomialActivation):
        return list(value.coefficients)
    if isinstance(value, Loss) and type(value) in LOSSES.values():
        return {"loss": value.name, "parameters": [getattr(value, one.name) for one in fields(value)]}  # type: ignore[arg-type]
    if isinstance(value, BlockEncoder):
        return {"encoder": type(value).__name__, "parameters": _parameters_of(value)}
    if isinstance(value, dict):
        return {"pairs": [[_plain(key), _plain(one)] for key, one in value.items()]}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(one) for one in value]
    raise TypeError


def _encoder_state(encoder: Any) -> dict[str, Any] | None:
    if encoder is None:
        return None
    if isinstance(encoder, BlockEncoder):
        return encoder.to_state()
    parameters = encoder.get_params(deep=False)
    return {
        "parameters": {name: _plain(parameters[name]) for name in sorted(ENCODER_PARAMETERS)},
        "encoding": encoder.encoding_.to_state(),
        "dropped": dict(encoder.dropped_),
    }


def _parameters_of(encoder: BlockEncoder) -> dict[str, Any]:
    return {name: _plain(value) for name, value in encoder.get_params(deep=False).items()}


def _labels_state(classes: Any) -> dict[str, Any] | None:
    if classes is None:
        return None
    labels = classes.tolist()
    if classes.dtype.kind in LABELS and all(type(label) is LABELS[classes.dtype.kind] for label in labels):
        return {"type": classes.dtype.str, "labels": labels}
    if all(type(label) is str for label in labels):
        return {"type": "|O", "labels": labels}
    kinds = sorted({type(label).__name__ for label in labels})
    raise InvalidInputError(f"labels of the type {', '.join(kinds)} cannot be saved{_INSTEAD}")


def _certificate_state(certificate: Certificate) -> dict[str, Any]:
    return {
        "bound_type": certificate.bound_type,
        "arithmetic": certificate.arithmetic,
        "lower_bound": float(certificate.lower_bound),
        # The objective of a network that was sampled without the data is not known.
        "objective": float(certificate.objective) if math.isfinite(certificate.objective) else None,
    }
