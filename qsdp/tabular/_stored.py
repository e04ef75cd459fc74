"""Models from files, of which nothing is believed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.linalg

from qsdp._validation import read_only
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import get_loss
from qsdp.networks import BilinearNetwork, network_from_archive
from qsdp.shaping import SignCovariance
from qsdp.storage import read_archive
from qsdp.tabular._checks import COVARIANCE_CHECKS, HOLDOUT_CHECKS, MODEL_CHECKS, TARGET_CHECKS, checked
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._model import KIND, Holdout, TabularModel
from qsdp.tabular._target import Target

#: What rounding may do to a covariance; anything more is no covariance.
_TOLERANCE = 1e-6


def load_model(path: str | os.PathLike[str]) -> TabularModel:
    """Return the model that `TabularModel.save` wrote to `path`.

    Raises
    ------
    StorageError
        The file is damaged or no model; everything in it is checked.
    """
    _, header, arrays = read_archive(path, KIND)
    try:
        return _model(header, arrays)
    except (InvalidInputError, StorageError) as error:
        raise StorageError(f"{os.fspath(path)!r} is no valid model: {error}") from None


def _target(state: Any) -> Target:
    fields = checked("target", state, TARGET_CHECKS)
    if fields["classes"] is None:
        return Target(**fields)
    if (fields["mean"], fields["scale"]) != (0.0, 1.0):
        raise StorageError("target: classes are not standardised")
    return Target(fields["name"], tuple(fields["classes"]))


def _model(header: dict[str, Any], arrays: dict[str, Any]) -> TabularModel:
    fields = checked("header", header, MODEL_CHECKS)
    if "Q" not in arrays:
        raise StorageError("the covariance Q is missing")
    encoder, target = TabularEncoder.from_state(fields["encoder"]), _target(fields["target"])
    names = {column.name for column in encoder.columns}
    if target.name in names or not names.isdisjoint(encoder.dropped):
        raise StorageError("the target, the columns and the dropped columns overlap")
    if target.classes is None and get_loss(fields["loss"]).labels:
        raise StorageError(f"loss {fields['loss']!r} is one of labels, the target is a number")
    # The bound is rounded down, the objective to nearest.
    objective = fields["objective"]
    if objective is not None and fields["lower_bound"] > objective * (1.0 + _TOLERANCE):
        raise StorageError("the lower bound is above the objective")
    dimension = encoder.width + 1
    return TabularModel(
        encoder=encoder,
        target=target,
        network=_network(fields["network"], arrays, dimension),
        covariance=_covariance(fields["covariance"], arrays["Q"], dimension),
        holdout=Holdout(**checked("holdout", fields["holdout"], HOLDOUT_CHECKS)),
        **{name: fields[name] for name in ("loss", "beta", "lower_bound", "objective", "digest")},
    )


def _network(header: dict[str, Any], arrays: dict[str, Any], dimension: int) -> BilinearNetwork:
    try:
        network = network_from_archive(header, {name: array for name, array in arrays.items() if name != "Q"})
    except (KeyError, TypeError) as error:
        raise StorageError(f"network is not valid: {error}") from None
    if network.n_inputs != dimension:
        raise StorageError(f"network has {network.n_inputs} inputs, the columns give {dimension}")
    return network


def _covariance(state: Any, Q: Any, dimension: int) -> SignCovariance:
    fields = checked("covariance", state, COVARIANCE_CHECKS)
    if Q.dtype != np.float64 or Q.shape != (2 * dimension, 2 * dimension):
        raise StorageError(f"covariance of shape {Q.shape} does not fit {dimension} inputs")
    if not np.all(np.isfinite(Q)) or not np.array_equal(Q, Q.T):
        raise StorageError("covariance is not symmetric and finite")
    diagonal_error = float(np.abs(Q.diagonal() - 1.0).max())
    min_eigenvalue = float(scipy.linalg.eigvalsh(Q, subset_by_index=[0, 0])[0])
    if diagonal_error > _TOLERANCE or min_eigenvalue < -_TOLERANCE * len(Q):
        raise StorageError("covariance does not have a unit diagonal or is not positive semidefinite")
    return SignCovariance(
        Q=read_only(Q),
        diagonal_error=diagonal_error,
        min_eigenvalue=min_eigenvalue,
        replicas=np.ones(len(Q), dtype=np.intp),
        replica_correlation=np.ones(len(Q)),
        **fields,
    )
