"""Tables as blocks: products of numbers and categories in a quadratic block, staircases of columns in linear ones."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.parallel import chunks
from qsdp._utils.stored import are_texts, checked
from qsdp._utils.tuning import FEW_SIGNS
from qsdp._utils.validation import FloatArray, check_choice
from qsdp.blocks import Blocks, check_layout
from qsdp.encoding.fitting import CUT, EncodingRule
from qsdp.encoding.region_moments import BlockEncoder
from qsdp.encoding.table_encoding import Encoding
from qsdp.encoding.transformers import TableEncoder
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks import BilinearNetwork, IntegerForm, QuadraticForm

__all__ = ["TableBlocks"]

PRODUCTS = ("numbers", "pairs")

#: Thresholds of each column in the block of a pair: all vectors of 2 x 6 signs are listed at once.
_IN_PAIRS = FEW_SIGNS // 2

#: Maximum number of columns whose pairs have blocks, 66 of them.
_MOST_IN_PAIRS = 12

#: Bits of a stored threshold.
_THRESHOLD_BITS = int(np.finfo(np.float16).bits)


class TableBlocks(BlockEncoder):
    r"""Tables as blocks: a quadratic one of numbers and categories, and a linear one of thresholds per column.

    With z the standardised numbers, the bits of categories and missing entries, and a one, and with
    :math:`b_c \in \{\pm1\}^{N_c}` the signs of column c, +1 where it is above a threshold, a network is

    .. math:: f(x) = \sum_j \alpha_j\, (u_j^T z)(v_j^T z) + \sum_c \sum_j \alpha_{cj}\, u_{cj}^T b_c ,

    all products of inputs and a staircase per column. Linear blocks have no relaxation gap, and small quadratic ones
    are enumerated: ``refine="exact"`` often proves the network of a small table optimal in a tenth of a second.

    Parameters
    ----------
    n_thresholds : int, default=20
        Maximum number of thresholds per column, at quantiles, >= 1. A column with a single threshold has no linear
        block, since it takes two values.
    products : {"numbers", "pairs"}, default="numbers"
        "numbers": the quadratic block above. "pairs": a quadratic block for each pair of columns instead, of the signs
        of up to six thresholds (or the bits of categories) of both columns and a one: functions of two columns that are
        constant on rectangles. At most 12 columns.
    categorical_features, max_categories, handle_unknown
        See `TableEncoder`.

    Attributes
    ----------
    inputs_ : TableEncoder
        Fitted encoder of numbers, thresholds, categories and missing entries, of which the blocks are made. Numbers are
        clipped at three standard deviations.
    members_ : list of ndarray
        Inputs of each block; quadratic blocks have a one after them.
    layout_ : Layout
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Notes
    -----
    Sample weights do not affect thresholds and moments. Networks on tables in blocks cannot be exported or reported
    yet; `quadratic_form` converts them to a function of ``inputs_.transform(X)``.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> y = np.where(X[:, 0] * X[:, 1] + np.floor(2 * X[:, 2]) > 0, "yes", "no")
    >>> encoding = qsdp.encoding.TableBlocks(n_thresholds=8)
    >>> model = qsdp.QuantizedNetworkClassifier(encoding=encoding, refine="exact", beta="1%", random_state=0).fit(X, y)
    >>> model.encoder_.layout_.sizes, model.certificate_.relative_gap < 1e-6, model.score(X, y) > 0.9
    ((4, 8, 8, 8), True, True)
    """

    inputs_: TableEncoder
    members_: list[npt.NDArray[np.intp]]

    def __init__(
        self,
        n_thresholds: int = 20,
        *,
        products: str = "numbers",
        categorical_features: Any = "from_dtype",
        max_categories: int = EncodingRule.max_categories,
        handle_unknown: str = "warn",
    ) -> None:
        self._keep(locals())

    def samples(self, X: Any) -> Any:
        """Encode X by `inputs_`, shape (n, width); before `fit`, check it and return it unchanged."""
        if hasattr(self, "layout_"):
            return self.inputs_.transform(X)
        self._table_encoder()._checked(X, reset=True)
        return X

    def _table_encoder(self) -> TableEncoder:
        check_choice("products", self.products, PRODUCTS)
        return TableEncoder(
            n_thresholds=self.n_thresholds,
            categorical_features=self.categorical_features,
            max_categories=self.max_categories,
            handle_unknown=self.handle_unknown,
            cut=CUT,
        )

    def fit(self, X: Any, y: Any = None) -> TableBlocks:
        """Learn the inputs and blocks of a table; y is ignored."""
        del y
        self._set(self._table_encoder().fit(X))
        return self

    def fit_transform(self, X: Any, y: Any = None, **parameters: Any) -> Blocks:
        """Fit the encoder and return the blocks of its training rows; y is ignored."""
        del parameters
        return self.fit(X, y).transform(X)

    def _set(self, inputs: TableEncoder) -> None:
        self.__dict__.pop("feature_names_in_", None)
        self.inputs_, self.n_features_in_ = inputs, inputs.n_features_in_
        if hasattr(inputs, "feature_names_in_"):
            self.feature_names_in_ = inputs.feature_names_in_
        kinds = np.array([one.kind for one in inputs.expressions_])
        positions = np.array([one.position for one in inputs.expressions_])
        by_column = [positions == c for c in range(self.n_features_in_)]
        above = [np.flatnonzero((kinds == "above") & mine) for mine in by_column]
        linear = [some for some in above if len(some) > 1]
        if self.products == "numbers":
            quadratic = [np.flatnonzero(kinds != "above")]
        else:
            # The number of a column of two values takes the place of a threshold.
            others = [
                np.flatnonzero((kinds != "above") & mine & ~((kinds == "value") & (len(some) > 0)))
                for mine, some in zip(by_column, above, strict=True)
            ]
            parts = [np.concatenate(each) for each in zip(map(_thinned, above), others, strict=True)]
            parts = [part for part in parts if len(part)]
            if len(parts) > _MOST_IN_PAIRS:
                raise InvalidInputError(
                    f"products must be 'numbers' for more than {_MOST_IN_PAIRS} columns; got 'pairs' for {len(parts)}"
                )
            # A single column is a block of its own.
            quadratic = [np.concatenate(pair) for pair in combinations(parts, 2)] or parts
        self.members_ = [*quadratic, *linear]
        sizes = [*(len(some) + 1 for some in quadratic), *map(len, linear)]
        self.layout_ = check_layout(sizes, ["quadratic"] * len(quadratic) + ["linear"] * len(linear))

    def encoded(self, samples: FloatArray) -> FloatArray:
        """Compute the packed rows (n, P) of encoded inputs."""
        layout, (scale, shift) = self.layout_, self._signs
        rows = np.empty((len(samples), layout.n_entries))
        for some in chunks(*rows.shape):
            signed = samples[some] * scale + shift
            for r, members in enumerate(self.members_):
                entries, vectors = slice(layout.starts[r], layout.starts[r + 1]), signed[:, members]
                if not layout.linear[r]:
                    vectors = np.hstack([vectors, np.ones((len(vectors), 1))])
                    vectors = vectors[:, layout.first[entries]] * vectors[:, layout.second[entries]]
                rows[some, entries] = vectors
        return rows

    @property
    def _signs(self) -> tuple[FloatArray, FloatArray]:
        """Factors and shifts that turn the bits of thresholds into signs and leave other inputs unchanged."""
        above = np.array([one.kind == "above" for one in self.inputs_.expressions_], dtype=np.float64)
        return 1.0 + above, -above

    def values(self, samples: FloatArray, network: BilinearNetwork | IntegerForm) -> FloatArray:
        """Compute the outputs (n, C) of a network for encoded inputs."""
        values = np.empty((len(samples), network.n_outputs))
        for some in chunks(len(samples), self.layout_.n_entries):
            values[some] = network.outputs(Blocks.from_layout(self.encoded(samples[some]), self.layout_))
        return values

    def quadratic_form(self, network: BilinearNetwork | IntegerForm) -> QuadraticForm:
        """Convert a network on the blocks to a quadratic form in ``inputs_.transform(X)``, with bits of thresholds."""
        check_is_fitted(self, "layout_")
        layout, (scale, shift) = self.layout_, self._signs
        width = len(scale)
        # Rows of the transposed map from inputs and a one to the signed inputs and a one.
        signed = np.vstack([np.diag(scale), shift])
        lifted = np.zeros((network.n_outputs, width + 1, width + 1))
        halves = network.entries / layout.counts
        for r, members in enumerate(self.members_):
            entries = slice(layout.starts[r], layout.starts[r + 1])
            if layout.linear[r]:
                half = 0.5 * network.entries[:, entries] @ signed[:, members].T
                lifted[:, -1] += half
                lifted[:, :, -1] += half
            else:
                block = np.column_stack([signed[:, members], np.eye(width + 1)[:, -1]])
                matrices = np.zeros((network.n_outputs, *[layout.sizes[r]] * 2))
                first, second = layout.first[entries], layout.second[entries]
                matrices[:, first, second] = matrices[:, second, first] = halves[:, entries]
                lifted += block @ matrices @ block.T
        S, s, s0 = lifted[:, :-1, :-1], 2.0 * lifted[:, :-1, -1], lifted[:, -1, -1]
        return QuadraticForm(S, s, s0) if network.output_shape else QuadraticForm(S[0], s[0], s0[0])

    def threshold_bits(self, network: BilinearNetwork) -> int:
        """Count the bits of the thresholds that a network uses, 16 each, which its `n_bits` do not include."""
        check_is_fitted(self, "layout_")
        used = np.unique(np.concatenate([self.members_[r] for r in np.unique(network.block)]))
        return _THRESHOLD_BITS * sum(self.inputs_.expressions_[int(k)].kind == "above" for k in used)

    def to_state(self) -> dict[str, Any]:
        """Serialise the fitted attributes to JSON values, for `restore`."""
        named = hasattr(self, "feature_names_in_")
        return {"encoding": self.inputs_.encoding_.to_state(), "dropped": dict(self.inputs_.dropped_), "named": named}

    def restore(self, state: Any) -> None:
        """Restore the fitted attributes from `to_state` of an equal encoder; raise StorageError if they are invalid."""
        state = checked("encoder", state, _STATE)
        inputs = self._table_encoder()
        inputs.restore(Encoding.from_state(state["encoding"]), state["dropped"], named=state["named"])
        if not inputs.encoding_.expressions:
            raise StorageError("encoder: there must be inputs")
        self._set(inputs)


_STATE = {
    "encoding": lambda value: type(value) is dict,
    "dropped": are_texts,
    "named": lambda value: type(value) is bool,
}


def _thinned(thresholds: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Choose at most `_IN_PAIRS` thresholds, evenly among their ranks."""
    if len(thresholds) <= _IN_PAIRS:
        return thresholds
    ranks = np.rint(np.linspace(0, len(thresholds) - 1, _IN_PAIRS + 2)[1:-1]).astype(np.intp)
    return thresholds[ranks]
