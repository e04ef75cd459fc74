"""Tables as blocks of an additive model with interactions: weights on inputs, and neurons on the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.numeric import EPS
from qsdp._utils.parallel import CACHE_FLOATS, chunks
from qsdp._utils.stored import are_texts, checked, is_list, is_number
from qsdp._utils.validation import FloatArray, check_choice, check_integer, check_sample_weight
from qsdp.block_layout import check_layout
from qsdp.blocks import Blocks
from qsdp.encoding.fitting import CUT, EncodingRule
from qsdp.encoding.region_moments import BlockEncoder
from qsdp.encoding.table_encoding import Encoding
from qsdp.encoding.transformers import TableEncoder
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks import BilinearNetwork, IntegerForm, QuadraticForm

__all__ = ["AdditiveBlocks", "neuron_price", "standardised", "weight_prices"]

INTERCEPTS = ("column", "means")

#: Bits of a weight, and of a threshold.
_WEIGHT_BITS, _THRESHOLD_BITS = 8, 16


class AdditiveBlocks(BlockEncoder):
    r"""Tables as two blocks: real weights on the inputs, and neurons on products of the same inputs.

    With z the standardised numbers and bits of thresholds, categories and missing entries, a network is

    .. math:: f(x) = b + \sum_k w_k z_k + \sum_j \alpha_j\, (u_j^T z)(v_j^T z) ,

    an additive model, with staircases if there are thresholds, plus interactions of one-bit neurons. Penalties count
    bits: one for a weight of eight bits, three for that of a threshold, which takes sixteen bits more, and
    :math:`(2 D + 8) / 8` times D for the second-layer weight of a neuron on D inputs.

    Parameters
    ----------
    n_thresholds : int, default=0
        Maximum number of thresholds per column, at quantiles, >= 0.
    products : {"inputs", "all"} or sequence of int, default="inputs"
        Inputs of the neurons: numbers, categories and missing entries, or also thresholds, or those at ascending
        positions in ``inputs_``.
    intercept : {"column", "means"}, default="column"
        "column": b is the weight of a column of ones, and has a price. "means": weighted means are subtracted from the
        rows, so that b is free; this is exact for the squared loss with targets of weighted mean zero.
    categorical_features, max_categories, handle_unknown
        See `TableEncoder`.

    Attributes
    ----------
    inputs_ : TableEncoder
        Fitted encoder of the columns as inputs z: thresholds are -1 and +1, the others have mean zero and deviation
        one. Numbers are clipped at three standard deviations.
    means_ : ndarray of shape (P,)
        Numbers that are subtracted from the packed rows.
    layout_ : Layout
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> blocks = qsdp.encoding.AdditiveBlocks(n_thresholds=2).fit_transform(X)
    >>> blocks.sizes, blocks.kinds
    ((10, 3), ('weights', 'quadratic'))
    """

    inputs_: TableEncoder
    means_: FloatArray

    def __init__(
        self,
        n_thresholds: int = 0,
        *,
        products: str | Sequence[int] = "inputs",
        intercept: str = "column",
        categorical_features: Any = "from_dtype",
        max_categories: int = EncodingRule.max_categories,
        handle_unknown: str = "warn",
    ) -> None:
        self._keep(locals())

    def samples(self, X: Any) -> Any:
        """Encode X by `inputs_`, shape (n, width); before `fit`, check it and return it unchanged."""
        if hasattr(self, "layout_"):
            return self.inputs_._encoded(self.inputs_._checked(X, reset=False))
        self._table_encoder()._checked(X, reset=True)
        return X

    def _table_encoder(self) -> TableEncoder:
        if isinstance(self.products, str):
            check_choice("products", self.products, ("inputs", "all"))
        elif not _are_positions(self.products):
            raise InvalidInputError(
                "products must be 'inputs', 'all' or ascending positions of inputs, at least one; got "
                f"{self.products!r:.60}"
            )
        check_choice("intercept", self.intercept, INTERCEPTS)
        count = check_integer("n_thresholds", self.n_thresholds, minimum=0)
        return TableEncoder(
            "both" if count else "standard",
            n_thresholds=count or EncodingRule.n_thresholds,
            categorical_features=self.categorical_features,
            max_categories=self.max_categories,
            handle_unknown=self.handle_unknown,
            cut=CUT,
        )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> AdditiveBlocks:
        """Learn the inputs of a table, with optional row weights (n,) >= 0; y is ignored."""
        self.fit_transform(X, y, sample_weight=sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, **parameters: Any) -> Blocks:
        """Fit the encoder and return the blocks of its training rows; y is ignored."""
        del y, parameters
        for name in ("layout_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        inputs = self._table_encoder().fit(X, sample_weight=sample_weight)
        table = inputs._table(inputs._checked(X, reset=False), warned=True)
        inputs._report_unseen(table)
        weights = check_sample_weight(sample_weight, len(table[0]))
        inputs.encoding_ = standardised(inputs.encoding_, inputs.encoding_.encode(table), weights)
        return self.fit_inputs(inputs, inputs.encoding_.encode(table), weights)

    def fit_inputs(self, inputs: TableEncoder, rows: FloatArray, weights: FloatArray | None) -> Blocks:
        """Make blocks of the rows (n, width) of a fitted encoder, after `standardised`."""
        self._set(inputs)
        packed = self._packed(rows)
        if self.intercept == "means":
            self.means_ = np.average(packed, axis=0, weights=weights)
            packed -= self.means_
        return Blocks.from_layout(packed, self.layout_)

    def _set(self, inputs: TableEncoder) -> None:
        self.inputs_, self.n_features_in_ = inputs, inputs.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(inputs, "feature_names_in_"):
            self.feature_names_in_ = inputs.feature_names_in_
        above = np.array([expression.kind == "above" for expression in inputs.expressions_])
        if isinstance(self.products, str):
            self._members = np.flatnonzero(~above) if self.products == "inputs" else np.arange(len(above))
        else:
            self._members = np.array(self.products, dtype=np.intp)
            if self._members[-1] >= len(above):
                raise InvalidInputError(
                    f"products must be positions of inputs, below {len(above)}; got {self._members[-1]}"
                )
        omega = weight_prices(above, column=self.intercept == "column")
        side = len(self._members)
        self.layout_ = check_layout([len(omega), side], ["weights", "quadratic"], [omega, neuron_price(side)])
        self.means_ = np.zeros(self.layout_.n_entries)

    def encoded(self, samples: FloatArray) -> FloatArray:
        """Compute the packed rows (n, P) of encoded inputs."""
        return self._packed(samples) - self.means_

    def _packed(self, samples: FloatArray) -> FloatArray:
        layout = self.layout_
        rows = np.empty((len(samples), layout.n_entries))
        rows[:, : samples.shape[1]] = samples
        rows[:, samples.shape[1] : layout.n_weights] = 1.0
        for some in chunks(len(rows), layout.n_entries, work=CACHE_FLOATS):
            vectors, start = samples[some][:, self._members], layout.n_weights
            # Products of an input with itself and those after it are adjacent, so they need no copies.
            for k in range(len(self._members)):
                stop = start + len(self._members) - k
                np.multiply(vectors[:, k : k + 1], vectors[:, k:], out=rows[some, start:stop])
                start = stop
        return rows

    def values(self, samples: FloatArray, network: BilinearNetwork | IntegerForm) -> FloatArray:
        """Compute the outputs (n, C) of a network for encoded inputs."""
        form = self.quadratic_form(network)
        S, s, s0 = form.parts
        values = samples @ s.T + s0
        vectors = samples[:, self._members]
        for k, matrix in enumerate(S[:, self._members][:, :, self._members]):
            values[:, k] += np.einsum("ij,ij->i", vectors @ matrix, vectors)
        return values

    def quadratic_form(self, network: BilinearNetwork | IntegerForm) -> QuadraticForm:
        """Convert a network on the blocks to a quadratic form in ``inputs_.transform(X)``."""
        check_is_fitted(self, "layout_")
        layout, width = self.layout_, self.inputs_.encoding_.width
        entries = np.array(network.entries)
        if isinstance(network, BilinearNetwork):
            # Signed sums of second-layer weights that are smaller than their rounding errors are zero.
            rounding = network.n_neurons * EPS * np.abs(network.output_weights).sum(axis=0)
            products = entries[:, layout.n_weights :]
            products[np.abs(products) <= rounding[:, None]] = 0.0
        s = entries[:, :width]
        s0 = entries[:, width : layout.n_weights].sum(axis=1) - entries @ self.means_
        S = np.zeros((len(entries), width, width))
        halves = entries / layout.counts
        for part in layout.slices:
            first, second = self._members[layout.first[part]], self._members[layout.second[part]]
            S[:, first, second] = S[:, second, first] = halves[:, part]
        return QuadraticForm(S, s, s0) if network.output_shape else QuadraticForm(S[0], s[0], s0[0])

    def network_of_columns(self, network: BilinearNetwork) -> BilinearNetwork:
        """Convert a network on the blocks to one on the columns of ``inputs_.transform(X)`` and a last one of ones.

        Its first-layer weights are -2, 0 and 2. A weight of an input is a neuron of that input and the ones, and the
        intercept one of the ones alone.
        """
        check_is_fitted(self, "layout_")
        width, weights = self.inputs_.encoding_.width, network.column_weights
        intercept = weights[width:].sum(axis=0) - network.entries @ self.means_
        used = np.flatnonzero(np.any(weights[:width], axis=1))
        U, V = np.zeros((2, network.n_neurons + len(used) + 1, width + 1), dtype=np.int8)
        neurons = slice(network.n_neurons)
        U[neurons, self._members], V[neurons, self._members] = 2 * network.U, 2 * network.V
        U[network.n_neurons + np.arange(len(used)), used] = U[-1, -1] = V[network.n_neurons :, -1] = 2
        alpha = 0.25 * np.concatenate([network.output_weights, weights[used], intercept[None]])
        return BilinearNetwork(U, V, alpha.reshape(len(U), *network.output_shape), levels=3)

    def inputs_of(self, blocks: Blocks) -> FloatArray:
        """Return the encoded inputs (n, width) of blocks that this encoder made."""
        width = self.inputs_.encoding_.width
        inputs: FloatArray = blocks.rows[:, :width] + self.means_[:width]
        return inputs

    def to_state(self) -> dict[str, Any]:
        """Serialise the fitted attributes to JSON values, for `restore`."""
        named = hasattr(self, "feature_names_in_")
        return {
            "encoding": self.inputs_.encoding_.to_state(),
            "dropped": dict(self.inputs_.dropped_),
            "named": named,
            "means": self.means_.tolist(),
        }

    @classmethod
    def of_state(cls, state: Any) -> AdditiveBlocks:
        """Return the fitted encoder of `to_state` with its "parameters"; raise StorageError if they are invalid."""
        fields = dict(state) if type(state) is dict else {}
        parameters = checked("encoder", fields.pop("parameters", None), _PARAMETERS)
        encoder = cls(**parameters)
        encoder.restore(fields)
        return encoder

    def restore(self, state: Any) -> None:
        """Restore the fitted attributes from `to_state` of an equal encoder; raise StorageError if they are invalid."""
        state = checked("encoder", state, _STATE)
        inputs = self._table_encoder()
        inputs.restore(Encoding.from_state(state["encoding"]), state["dropped"], named=state["named"])
        if not inputs.encoding_.expressions:
            raise StorageError("encoder: there must be inputs")
        try:
            self._set(inputs)
        except InvalidInputError as error:
            raise StorageError(f"encoder: {error}") from None
        means = np.array(state["means"], dtype=np.float64)
        if means.shape != self.means_.shape:
            raise StorageError(f"encoder: means must be {len(self.means_)} numbers; got {len(means)}")
        self.means_ = means


def _are_positions(value: Any) -> bool:
    """Whether a value is a list, tuple or array of ascending integers >= 0, at least one."""
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    if not (isinstance(numbers, (list, tuple)) and numbers and all(type(number) is int for number in numbers)):
        return False
    return numbers[0] >= 0 and all(first < second for first, second in pairwise(numbers))


_PARAMETERS = {
    "n_thresholds": lambda value: type(value) is int and value >= 0,
    "products": lambda value: value in ("inputs", "all") or _are_positions(value),
    "intercept": lambda value: value in INTERCEPTS,
    "categorical_features": lambda value: value == "from_dtype",
    "max_categories": lambda value: type(value) is int and value >= 2,
    "handle_unknown": lambda value: value == "warn",
}
_STATE = {
    "encoding": lambda value: type(value) is dict,
    "dropped": are_texts,
    "named": lambda value: type(value) is bool,
    "means": lambda value: is_list(value) and all(map(is_number, value)),
}


def weight_prices(above: npt.NDArray[np.bool_], *, column: bool) -> FloatArray:
    """Return the prices of the weights, in units of that of an input.

    `above` tells which inputs are thresholds, and `column` whether a column of ones follows.
    """
    prices = 1.0 + (_THRESHOLD_BITS / _WEIGHT_BITS) * above.astype(np.float64)
    return np.append(prices, 1.0) if column else prices


def neuron_price(side: int) -> float:
    r"""Return the price of a neuron on `side` inputs for an effect of unit size, in the same units.

    The factor :math:`\kappa` between the prices of a bit of a neuron and a bit of a weight is 1 for all tables: their
    bits cost the same.
    """
    return (2.0 * side + _WEIGHT_BITS) / _WEIGHT_BITS


def standardised(encoding: Encoding, rows: FloatArray, weights: FloatArray | None) -> Encoding:
    """Return the encoding with thresholds as -1 and +1, and other inputs of mean zero and deviation one.

    Parameters
    ----------
    encoding : Encoding
    rows : ndarray of shape (n, k)
        Inputs of the training rows in this encoding, or those before thresholds alone.
    weights : ndarray of shape (n,), optional
    """
    count = rows.shape[1]
    means, scales = np.full((2, encoding.width), 0.5)
    means[:count] = np.average(rows, axis=0, weights=weights)
    scales[:count] = np.sqrt(np.average((rows - means[:count]) ** 2, axis=0, weights=weights))
    scales[scales == 0.0] = 1.0
    above = np.array([expression.kind == "above" for expression in encoding.expressions])
    means[above] = scales[above] = 0.5
    moved = tuple(
        replace(expression, center=expression.center + expression.scale * mean, scale=expression.scale * scale)
        for expression, mean, scale in zip(encoding.expressions, means.tolist(), scales.tolist(), strict=True)
    )
    return replace(encoding, expressions=moved)
