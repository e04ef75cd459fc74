"""Format-independent description of a model: columns, their encoding, the network, and the decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, check_matrix
from qsdp.encoding import Encoding
from qsdp.encoding.reading_rule import read_column
from qsdp.encoding.steps import identity, through_steps
from qsdp.encoding.used_columns import is_frame
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError
from qsdp.lifting import append_constant
from qsdp.losses import Loss, get_loss
from qsdp.networks import BilinearNetwork, IntegerForm, PolynomialNetwork

if TYPE_CHECKING:
    from qsdp.encoding import AdditiveBlocks
    from qsdp.estimators.centring import InputMoments

__all__ = [
    "ModelDescription",
    "check_encoder",
    "describe",
    "described",
    "is_on_blocks",
    "refuse_blocks",
    "terms_of_neurons",
]

Network = BilinearNetwork | PolynomialNetwork | IntegerForm


@dataclass(frozen=True, eq=False, repr=False)
class ModelDescription:
    r"""Description of a trained model: all that an export format needs, and nothing about the training.

    `encoding` turns columns into inputs x, with `constant` as the last input if there is one. The network computes
    outputs :math:`f(x)`, and :math:`s = \text{offset} + \text{factor} \cdot f(x)` are predictions or scores.

    Attributes
    ----------
    network : BilinearNetwork, PolynomialNetwork or IntegerForm
    offset, factor : ndarray of shape (C,)
        Offsets and factors of the scores; factors are positive.
    decision : {"none", "sign", "argmax"}
        "none": scores are the predictions. "sign": class 1 where the only score is > 0, else class 0. "argmax": the
        class of the largest score, the first of equal ones. A network without an estimator has "sign" or "argmax",
        because it may belong to a classifier.
    encoding : Encoding or None
        None for a network without an estimator, whose inputs are already encoded.
    constant : float or None
        Entry of the constant column after the encoded inputs.
    classes : tuple
        Labels by class number, as Python values; empty for a network alone and for a regressor.
    link : {"none", "logistic", "normalised", "softmax"}
        Map from scores to probabilities. "logistic": the logistic function of the score of class 1. "normalised": the
        logistic functions of all scores, divided by their sum. "softmax": the softmax of all scores. "none": there are
        no probabilities.
    ranges : tuple of two ndarray of shape (d,), or None
        Smallest and largest inputs in training, without the constant, if they are known; those of a sample of the
        rows for an estimator fitted to Dask collections.
    moments : InputMoments or None
        Moments of the training set that centre the effects of columns, if known.
    blocks : Patches, Windows or None
        The encoder of images or series of a network on blocks.
    scores_in_training : ndarray of shape (2, C), or None
        Smallest and largest score of each output on the training rows, if known.
    """

    network: Any
    offset: FloatArray
    factor: FloatArray
    decision: str
    encoding: Encoding | None = None
    constant: float | None = None
    classes: tuple[Any, ...] = ()
    link: str = "none"
    ranges: tuple[FloatArray, FloatArray] | None = None
    moments: InputMoments | None = None
    blocks: Any = None
    scores_in_training: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns that the model takes, or of numbers of an image."""
        if self.blocks is not None:
            return int(self.blocks.n_features_in_)
        return self.network.n_inputs if self.encoding is None else len(self.encoding.columns)

    @property
    def names(self) -> dict[str, Any]:
        """Names of inputs and outputs, for the metadata of a format; empty for a network alone.

        "columns" are the names of the columns in order; "categories", by column, the symbols that it holds, with None
        for a missing one; "classes" the labels in order; "decision" is that of the description.
        """
        if self.encoding is None:
            return {}
        table = self.encoding.columns
        names: dict[str, Any] = {
            "columns": [column.name for column in table],
            "categories": {column.name: list(column.categories) for column in table if column.categories is not None},
            "classes": list(self.classes),
            "decision": self.decision,
        }
        return {key: value for key, value in names.items() if value}

    def columns(self, X: Any, *, infinite: bool = False) -> list[npt.NDArray[Any]]:
        """Convert an array or a data frame to the columns that `Encoding.encode` expects.

        Numbers are floats, with nan for missing entries. Symbols are objects, with None for missing entries.

        Parameters
        ----------
        X : array-like or data frame
        infinite : bool, default=False
            Whether infinite numbers are read as the largest floats of their sign, instead of being rejected, as the
            model itself does.
        """
        if self.encoding is None:
            return list(check_matrix("X", X, n_columns=self.n_columns).T)
        table = self.encoding.columns
        if is_frame(X):
            names, labels = [column.name for column in table], list(X.columns)
            # Match columns by name if the frame has all names, else by position.
            positions = [labels.index(name) for name in names] if set(names) <= set(labels) else range(len(labels))
            raw = [X.iloc[:, j] if hasattr(X, "iloc") else X[:, j] for j in positions]
        else:
            raw = list(np.asarray(X).T)
        if len(raw) != self.n_columns:
            raise InvalidInputError(f"X must have {self.n_columns} columns; got {len(raw)}")
        if infinite:
            raw = [
                entries if column.categories is not None else _finite(np.asarray(entries))
                for column, entries in zip(table, raw, strict=True)
            ]
        used = set(self.encoding.used)
        return [
            read_column(entries, column.name, column.kind, column.categories or (), declared=True)[0]
            if position in used or column.categories is not None
            else np.zeros(len(entries))
            for position, (column, entries) in enumerate(zip(table, raw, strict=True))
        ]

    def inputs(self, columns: Sequence[npt.NDArray[Any]]) -> FloatArray:
        """Compute the inputs of the network, shape (n, n_inputs), from columns of shape (n,)."""
        if self.encoding is None:
            return np.column_stack(columns)
        encoded = self.encoding.encode(columns)
        return encoded if self.constant is None else append_constant(encoded, self.constant)

    def scores(self, columns: Sequence[npt.NDArray[Any]]) -> FloatArray:
        """Compute the scores of shape (n, C) in floating point, the reference for every export."""
        scores: FloatArray = self.offset + self.factor * self.network.outputs(self.inputs(columns))
        return scores

    def decide(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Convert scores, in any positive unit, to class numbers (n,).

        Raises
        ------
        InvalidInputError
            The scores are the predictions.
        """
        if self.decision == "none":
            raise InvalidInputError("the model is a regressor: its scores are the predictions")
        if self.decision == "argmax":
            largest: npt.NDArray[np.intp] = np.argmax(scores, axis=1)
            return largest
        positive: npt.NDArray[np.intp] = (scores[:, 0] > 0).astype(np.intp)
        return positive

    def predictions(self, chosen: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Convert class numbers to the labels of the original model; unnamed classes are unchanged."""
        if not self.classes:
            return chosen
        labels: npt.NDArray[Any] = np.array(self.classes)[chosen]
        return labels


def _finite(entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Replace infinite entries of a column by the largest floats of their sign."""
    if entries.dtype.kind == "f":
        largest = np.finfo(entries.dtype).max
        return np.where(np.isinf(entries), np.copysign(largest, entries), entries)
    if entries.dtype.kind == "O":
        largest = np.finfo(np.float64).max
        infinite = {math.inf: largest, -math.inf: -largest}
        cut = np.empty_like(entries)
        cut[:] = [infinite.get(entry, entry) if isinstance(entry, float) else entry for entry in entries.tolist()]
        return cut
    return entries


def described(network: Network) -> str:
    """Describe a network in a few words."""
    if isinstance(network, IntegerForm):
        if network.blocks is not None:
            return f"a quantized network as {network.blocks.n_blocks} quadratic forms of integers"
        return f"a quantized network as a quadratic form of integers of {max(network.bits)} bits"
    if network.blocks is not None:
        return f"a quantized network of {network.n_neurons} neurons on {network.blocks.n_blocks} regions"
    levels = network.levels if isinstance(network, BilinearNetwork) else network.n_values
    return f"a quantized network of {network.n_neurons} neurons, {levels} levels"


def describe(model: Any, *, encoder: Any = None, blocks: bool = False) -> ModelDescription:
    """Build the description of a network, integer form, fitted estimator, pipeline, or model of `qsdp fit`.

    Parameters
    ----------
    model : network, estimator, pipeline or ModelDescription
    encoder : Patches or Windows, optional
        The fitted encoder of a network on blocks that is passed without an estimator.
    blocks : bool, default=False
        Whether networks on blocks are allowed.

    Raises
    ------
    ExportError
        A transformer of the pipeline mixes columns, or the network is one on blocks.
    InvalidTypeError
        The model is of another kind.
    """
    description = _described(model, encoder)
    if not blocks:
        refuse_blocks(description.network)
    return description


def terms_of_neurons(
    weights: npt.NDArray[Any], block: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return neuron and output of each term of a network on blocks, sorted by block; one of weight zero if all are."""
    neuron, output = np.nonzero(weights)
    if not neuron.size:
        neuron = output = np.zeros(1, dtype=np.intp)
    order = np.lexsort((output, block[neuron]))
    return neuron[order], output[order]


def is_on_blocks(network: Any) -> bool:
    """Whether a network is a network on blocks of images or series."""
    return isinstance(network, (BilinearNetwork, IntegerForm)) and network.blocks is not None


def refuse_blocks(network: Any) -> None:
    """Raise `ExportError` for a network on blocks."""
    if is_on_blocks(network):
        raise ExportError(
            "networks on images can be exported by to_c, to_js and to_onnx only, and those on series by to_c only"
        )


def check_encoder(description: ModelDescription, *, series: bool = False) -> Any:
    """Return the encoder of a network on images or, if allowed, series; raise ExportError for another one or none."""
    encoder = description.blocks
    if encoder is None:
        raise ExportError("a network on blocks without an estimator needs encoder, the fitted one of its samples")
    from qsdp.encoding import Patches, Windows

    kinds = (Patches, Windows) if series else (Patches,)
    if not isinstance(encoder, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        more = "; series are exported by to_c only" if isinstance(encoder, Windows) else ""
        raise ExportError(f"only networks on {names} can be exported; got {encoder!r:.60}{more}")
    if len(getattr(encoder, "grids", [encoder])) > 1:
        raise ExportError(f"only networks on patches of one setting can be exported; got {encoder!r:.60}")
    return encoder


def _described(model: Any, encoder: Any) -> ModelDescription:
    if encoder is not None and not is_on_blocks(model):
        raise InvalidInputError(f"encoder is for a network on blocks alone; got {model!r:.60}")
    if isinstance(model, ModelDescription):
        return model
    if isinstance(model, (BilinearNetwork, PolynomialNetwork, IntegerForm)):
        _check_blocks(model, encoder)
        C = model.n_outputs
        return ModelDescription(model, np.zeros(C), np.ones(C), _decision(model), blocks=encoder)
    # Imported here because they load scikit-learn, which networks do not need.
    from qsdp.estimators import QuantizedNetworkClassifier, QuantizedNetworkRegressor

    steps: list[Any] = []
    names = None
    while not isinstance(model, (QuantizedNetworkClassifier, QuantizedNetworkRegressor)):
        names = getattr(model, "feature_names_in_", names)
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            steps += [step for _, step in model.steps[:-1]]
            model = model.steps[-1][1]
        else:
            raise InvalidTypeError(
                "model must be a network, an integer form, a fitted QuantizedNetworkClassifier or "
                "QuantizedNetworkRegressor, a pipeline that ends in one, or a model of `qsdp fit`; "
                f"got {model!r:.60}"
            )
    return _of_estimator(model, steps, names)


def _check_blocks(network: Network, encoder: Any) -> None:
    """Raise an error unless an encoder, if there is one, makes the blocks of a network, which has no real weights."""
    layout, blocks = getattr(encoder, "layout_", None), network.blocks
    if encoder is not None and (layout is None or blocks is None or not layout.same_blocks(blocks)):
        raise InvalidInputError(f"encoder must be the fitted one of the network's blocks; got {encoder!r:.60}")
    if blocks is not None and blocks.weights:
        raise ExportError(
            "a network with real weights cannot be exported by itself: pass the fitted estimator instead of its "
            "network_, so that the columns of the table are known"
        )


def _of_estimator(model: Any, steps: list[Any], names: Any) -> ModelDescription:
    from sklearn.utils.validation import check_is_fitted

    from qsdp.encoding import AdditiveBlocks

    check_is_fitted(model)
    first = next((step for step in steps if hasattr(step, "n_features_in_")), model)
    if names is None:
        names = getattr(first, "feature_names_in_", [f"x{j}" for j in range(first.n_features_in_)])
    blocks = model.encoder_ if is_on_blocks(model.network_) else None
    if blocks is not None:
        if isinstance(blocks, AdditiveBlocks):
            return _of_additive(model, blocks, through_steps(identity([str(name) for name in names]), steps))
        if steps:
            raise ExportError("images and series cannot be exported with transformers before the estimator")
        return ModelDescription(model.network_, blocks=blocks, **_targets(model))
    network, encoders = model.network_, [] if model.encoder_ is None else [model.encoder_]
    encoding = through_steps(identity([str(name) for name in names]), [*steps, *encoders])
    extra = network.n_inputs - encoding.width
    if extra not in {0, 1}:
        raise ExportError(f"the network has {network.n_inputs} inputs, but the encoding produces {encoding.width}")
    if hasattr(model, "table_"):
        # Columns of tables have names: those without an input need not be given.
        encoding = encoding.trimmed()
    return ModelDescription(
        network,
        encoding=encoding,
        constant=model.constant_ if extra else None,
        ranges=model._input_ranges,
        moments=_moments(model, encoding),
        **_targets(model),
    )


def _of_additive(model: Any, blocks: AdditiveBlocks, encoding: Encoding) -> ModelDescription:
    """Describe an additive model by a network on the inputs of its encoder and a column of ones."""
    encoding = through_steps(encoding, [blocks.inputs_])
    if hasattr(model, "table_"):
        encoding = encoding.trimmed()
    network = blocks.network_of_columns(model.network_)
    moments = _moments(model, encoding)
    return ModelDescription(network, encoding=encoding, constant=1.0, moments=moments, **_targets(model))


def _targets(model: Any) -> dict[str, Any]:
    """Build the part of an estimator's description that concerns its outputs: scaling, decision, classes and link."""
    from sklearn.base import is_classifier

    network, scaling = model.network_, model.target_scaling_
    shape = (network.n_outputs,)
    targets: dict[str, Any] = {
        "offset": np.broadcast_to(scaling.offset, shape).copy(),
        "factor": np.broadcast_to(scaling.scale, shape).copy(),
        "decision": "none",
        "scores_in_training": model._score_range,
    }
    if is_classifier(model):
        decision = _decision(network)
        targets |= {
            "decision": decision,
            "classes": tuple(map(_plain_label, model.classes_.tolist())),
            "link": _link(get_loss(model._loss), decision),
        }
    return targets


def _plain_label(label: Any) -> Any:
    """Return a label as a value of JSON: text, truth value or number; others by their text."""
    label = label.item() if isinstance(label, np.generic) else label
    # `str` of a member of an enumeration of text would be its name.
    if isinstance(label, str):
        return str.__str__(label)
    return label if isinstance(label, (bool, int, float)) else str(label)


def _moments(model: Any, encoding: Encoding) -> InputMoments | None:
    """Return the moments of an estimator's inputs; None if a preceding encoder splits a column into several inputs."""
    moments: InputMoments | None = vars(model).get("_input_moments")
    groups = [expression.position for expression in encoding.expressions]
    return moments if moments is not None and moments.fits(groups) else None


def _decision(network: Network) -> str:
    """Return the decision rule of a network alone: the sign of a single output, else the largest output."""
    return "argmax" if network.n_outputs > 1 else "sign"


def _link(loss: Loss, decision: str) -> str:
    """Return the name of the map from scores to class probabilities, if the loss gives any."""
    if not loss.probabilistic:
        return "none"
    if loss.coupled:
        return "softmax"
    return "normalised" if decision == "argmax" else "logistic"
