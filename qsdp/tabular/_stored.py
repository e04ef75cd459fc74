"""Loading of models, with every value in the file checked."""

from __future__ import annotations

import math
import os
from typing import Any

from qsdp._utils.stored import checked
from qsdp.estimators.solution import TOLERANCE, Solution
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.losses import get_loss
from qsdp.networks import BilinearNetwork, network_from_archive
from qsdp.networks.storage import MODEL_KIND, read_archive
from qsdp.tabular._checks import HOLDOUT_CHECKS, MODEL_CHECKS, TARGET_CHECKS, WEIGHTING_CHECKS
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._model import PLAIN, Holdout, TabularModel
from qsdp.tabular._reading import MISSING
from qsdp.tabular._target import Target
from qsdp.tabular._weighting import Weighting


def load_model(path: str | os.PathLike[str]) -> TabularModel:
    """Return the model that `TabularModel.save` wrote to `path`.

    Raises
    ------
    StorageError
        The file is damaged or not a model.
    """
    _, header, arrays = read_archive(path, MODEL_KIND)
    try:
        return _model(header, arrays)
    except (InvalidInputError, StorageError) as error:
        raise StorageError(f"{os.fspath(path)!r} is not a valid model: {error}") from None


def _target(state: Any) -> Target:
    if isinstance(state, dict) and "classes" in state:
        # As targets were read before their notations were stored.
        state = {"notation": "number" if state["classes"] is None else None, **state}
    fields = checked("target", state, TARGET_CHECKS)
    if (fields["classes"] is None) != (fields["notation"] is not None):
        raise StorageError("target: numbers have a notation, and classes have none")
    if fields["classes"] is not None and fields["scale"] != 1.0:
        raise StorageError("target: the codes of classes are not scaled")
    classes = None if fields["classes"] is None else tuple(fields["classes"])
    return Target(fields["name"], classes, tuple(fields["offset"]), fields["scale"], fields["notation"])


def _model(header: dict[str, Any], arrays: dict[str, Any]) -> TabularModel:
    fields = checked("header", {"markers": sorted(MISSING), **header}, MODEL_CHECKS)
    encoder, target = TabularEncoder.from_state(fields["encoder"]), _target(fields["target"])
    names = {column.name for column in encoder.columns}
    weighting = Weighting(**checked("weighting", fields["weighting"], WEIGHTING_CHECKS))
    if names & {target.name, weighting.column, *encoder.dropped} or weighting.column == target.name:
        raise StorageError("the target, the weights, the columns and the dropped columns overlap")
    if target.classes is None and weighting.class_weight is not None:
        raise StorageError("weighting: a numeric target has no class weights")
    loss = get_loss(fields["loss"])
    if target.classes is None and loss.for_classes:
        raise StorageError(f"loss {fields['loss']!r} is for classes, but the target is a number")
    output_shape = target.output_shape(loss)
    n_outputs = math.prod(output_shape)
    if len(target.offset) not in {0, n_outputs}:
        raise StorageError(f"target: the offset has {len(target.offset)} numbers for {n_outputs} outputs")
    # One more for the constant column or the last coordinate of a lift.
    solution = Solution.from_state(fields["relaxation"], arrays, n_outputs, encoder.width + 1)
    network = _network(fields["network"], arrays, solution, output_shape)
    # The bound is rounded down, the objective to nearest.
    objective, bound = fields["objective"], fields["lower_bound"]
    if objective is not None and bound > objective * (1.0 + TOLERANCE):
        raise StorageError("the lower bound is above the objective")
    if network.levels == solution.levels and bound != solution.best_bound:
        raise StorageError("the lower bound is not that of the solution")
    return TabularModel(
        encoder=encoder,
        target=target,
        network=network,
        weighting=weighting,
        solution=solution,
        holdout=Holdout(**checked("holdout", fields["holdout"], HOLDOUT_CHECKS)),
        **{name: fields[name] for name in PLAIN},
    )


def _network(
    header: dict[str, Any], arrays: dict[str, Any], solution: Solution, output_shape: tuple[int, ...]
) -> BilinearNetwork:
    others = solution.arrays()
    try:
        network = network_from_archive(header, {name: array for name, array in arrays.items() if name not in others})
    except (KeyError, TypeError) as error:
        raise StorageError(f"network is not valid: {error}") from None
    if (network.n_inputs, network.activation) != (solution.n_inputs, solution.activation):
        raise StorageError(f"network has other inputs or another activation than the relaxation: {network!r}")
    if network.output_shape != output_shape:
        raise StorageError(f"network has {network.n_outputs} outputs, the target needs {solution.n_outputs}")
    return network
