"""Base classes of transformers to blocks: mean outer products of vectors over the positions of a region."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.option_fields import StoredArguments
from qsdp._utils.parallel import CACHE_FLOATS, chunks
from qsdp._utils.stored import is_list, is_positive
from qsdp._utils.validation import FloatArray, check_choice, check_integer, check_unmasked
from qsdp.block_layout import Layout, PatchGeometry, check_layout
from qsdp.blocks import Blocks
from qsdp.exceptions import InvalidInputError, InvalidTypeError, StorageError
from qsdp.networks import BilinearNetwork, IntegerForm

__all__ = ["SCALINGS", "BlockEncoder", "MomentEncoder", "as_array", "block_values", "check_count"]

SCALINGS = ("none", "size")


class BlockEncoder(StoredArguments, TransformerMixin, BaseEstimator, ABC, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    """Base class of transformers that return `Blocks`.

    Attributes
    ----------
    layout_ : Layout
        Sides and weights of the blocks, after `fit`.
    n_features_in_ : int
    """

    layout_: Layout
    n_features_in_: int

    @abstractmethod
    def samples(self, X: Any) -> Any:
        """Check X and convert it to the form that the other methods expect; must match `fit` if already fitted."""

    @abstractmethod
    def encoded(self, samples: Any) -> npt.NDArray[Any]:
        """Compute the packed rows (n, P) of samples returned by `samples`."""

    @abstractmethod
    def values(self, samples: Any, network: BilinearNetwork | IntegerForm) -> FloatArray:
        """Compute the outputs (n, C) of a network for samples returned by `samples`."""

    @abstractmethod
    def to_state(self) -> dict[str, Any]:
        """Serialise the fitted attributes to JSON values, for `restore`."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Restore the fitted attributes from `to_state` of an equal encoder; raise StorageError if they are invalid."""

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the shape of the samples and the units of the blocks; y is ignored."""

    @abstractmethod
    def fit_transform(self, X: Any, y: Any = None, **parameters: Any) -> Blocks:
        """Fit the encoder and return the blocks of its training samples; y is ignored."""

    def transform(self, X: Any) -> Blocks:
        """Return the blocks of samples."""
        check_is_fitted(self, "layout_")
        return Blocks.from_layout(self.encoded(self.samples(X)), self.layout_)

    def predict(self, network: BilinearNetwork | IntegerForm, X: Any) -> FloatArray:
        """Compute ``network.predict(encoder.transform(X))`` without storing the blocks of all samples.

        In blocks with few neurons, their filters are applied to the vectors of each position; in others, products of
        these vectors are summed first, whichever takes fewer operations. Blocks without neurons are skipped. Both ways
        agree up to rounding.
        """
        check_is_fitted(self, "layout_")
        outputs = self.outputs(network, self.samples(X))
        return outputs if network.output_shape else outputs[:, 0]

    def outputs(self, network: BilinearNetwork | IntegerForm, samples: Any) -> FloatArray:
        """Compute the outputs (n, C) of a network for samples returned by `samples`, see `predict`."""
        layout = getattr(network, "blocks", None)
        if layout is None or not self.layout_.same_blocks(layout):
            raise InvalidInputError(f"network must have the blocks of the encoder; got {network!r:.80}")
        return self.values(samples, network)


class MomentEncoder(BlockEncoder):
    """Base class of encoders with one block per region: sums or means of outer products of its vectors."""

    scaling: str

    @abstractmethod
    def _learn(self, samples: Any) -> None:
        """Learn the parameters of the vectors, such as shape and constant, from samples."""

    @abstractmethod
    def _chunks(self, samples: Any) -> list[slice]:
        """Yield slices of samples in chunks that fit into the processor's cache."""

    @abstractmethod
    def _vectors(self, some: Any) -> Iterator[FloatArray]:
        """Yield the vectors of some samples at the positions of each block, of shape (b, K, N)."""

    @abstractmethod
    def _learned(self) -> dict[str, Any]:
        """Return the attributes that `_learn` sets, as JSON values."""

    @abstractmethod
    def _relearn(self, state: dict[str, Any]) -> None:
        """Set these attributes from a file, or raise StorageError."""

    @abstractmethod
    def picture(self, signs: npt.NDArray[np.int8], block: int) -> tuple[npt.NDArray[np.int8], int]:
        """Arrange the signs of a filter of a block as a picture; also return the sign of the constant, or 0."""

    @property
    @abstractmethod
    def _sides(self) -> list[int]:
        """Sides N of the blocks."""

    @property
    @abstractmethod
    def _units(self) -> FloatArray:
        """Ratio of each block's rows to mean products of vectors in units of the constant, shape (R,)."""

    def _dtype(self, samples: Any) -> np.dtype[Any]:
        """Return the data type of the rows."""
        del samples
        return np.dtype(np.float64)

    def _geometry(self, samples: Any) -> PatchGeometry | None:
        """Return the integers from which `qsdp-check` recomputes rows; None if it cannot."""
        del samples
        return None

    def _of_block(self, products: FloatArray, count: int) -> FloatArray:
        """Convert sums of products over `count` positions to rows: sums or means."""
        del count
        return products

    def fit_transform(self, X: Any, y: Any = None, **parameters: Any) -> Blocks:
        """Fit the encoder and return the blocks of its training samples; y is ignored."""
        del y, parameters
        samples = self._begin(X)
        rows = self.encoded(samples)
        self._end(rows[some] for some in chunks(*rows.shape))
        return Blocks.from_layout(rows, self._layout_of(samples))

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the shape of the samples and the units of the blocks, without storing all rows; y is ignored."""
        del y
        samples = self._begin(X)
        self._end(self.encoded(samples[some]) for some in self._chunks(samples))
        return self

    def _begin(self, X: Any) -> Any:
        """Check the samples, learn the parameters of their rows, and return the checked samples."""
        check_choice("scaling", self.scaling, SCALINGS)
        for name in ("layout_", "n_features_in_"):
            self.__dict__.pop(name, None)
        samples = self.samples(X)
        self._learn(samples)
        self._set_layout(np.ones(len(self._sides)))
        return samples

    def _end(self, parts: Iterable[npt.NDArray[Any]]) -> None:
        """Learn the penalty factors of the blocks, from all rows if `scaling` requires them."""
        omega = self._units if self.scaling == "none" else _mean_sizes(parts, self.layout_) / self._sides
        self._set_layout(omega)

    def to_state(self) -> dict[str, Any]:
        """Serialise the fitted attributes to JSON values, for `restore`."""
        return {**self._learned(), "omega": list(self.layout_.omega)}

    def restore(self, state: Any) -> None:
        """Restore the fitted attributes from `to_state` of an equal encoder; raise StorageError if they are invalid."""
        fields = dict(state) if type(state) is dict else {}
        omega = fields.pop("omega", None)
        self._relearn(fields)
        if not is_list(omega) or len(omega) != len(self._sides) or not all(map(is_positive, omega)):
            raise StorageError(f"encoder: omega must be {len(self._sides)} positive numbers")
        self._set_layout(np.array(omega))

    def _layout_of(self, samples: Any) -> Layout:
        return replace(self.layout_, patches=self._geometry(samples))

    def _set_layout(self, omega: FloatArray) -> None:
        self.layout_ = check_layout(self._sides, omega=omega)

    def transform(self, X: Any) -> Blocks:
        """Return the blocks of samples, which must have the shape of those of `fit`."""
        check_is_fitted(self, "layout_")
        samples = self.samples(X)
        return Blocks.from_layout(self.encoded(samples), self._layout_of(samples))

    def encoded(self, samples: Any) -> npt.NDArray[Any]:
        """Compute the packed rows (n, P) of samples returned by `samples`."""
        layout = self.layout_
        rows = np.empty((len(samples), layout.n_entries), self._dtype(samples))
        for some in self._chunks(samples):
            for r, vectors in enumerate(self._vectors(samples[some])):
                count, side = vectors.shape[1:]
                products = np.matmul(vectors.transpose(0, 2, 1), vectors).reshape(len(vectors), -1)
                entries = slice(layout.starts[r], layout.starts[r + 1])
                upper = layout.first[entries] * side + layout.second[entries]
                rows[some, entries] = self._of_block(products.take(upper, axis=1), count)
        return rows

    def values(self, samples: Any, network: BilinearNetwork | IntegerForm) -> FloatArray:
        """Compute the outputs (n, C) of a network for samples returned by `samples`."""
        values = np.zeros((len(samples), network.n_outputs))
        for some in self._chunks(samples):
            for r, vectors in enumerate(self._vectors(samples[some])):
                in_block = block_values(network, r, vectors)
                if in_block is not None:
                    values[some] += self._of_block(in_block, vectors.shape[1])
        return values


def block_values(network: BilinearNetwork | IntegerForm, r: int, vectors: FloatArray) -> FloatArray | None:
    """Compute the outputs (b, C) of a block's neurons, summed over positions; None if it has no neurons.

    Vectors have the shape (b, K, N). Evaluating m neurons takes 2 m N products per position, and moments take N^2.
    """
    side = vectors.shape[2]
    if isinstance(network, BilinearNetwork):
        neurons = np.flatnonzero(network.block == r)
        if not len(neurons):
            return None
        if 2 * len(neurons) < side:
            U, V = (signs[neurons, :side].T.astype(np.float64) for signs in (network.U, network.V))
            values: FloatArray = ((vectors @ U) * (vectors @ V)).sum(axis=1)
            return values @ network.output_weights[neurons]
    layout = network.layout
    entries = slice(layout.starts[r], layout.starts[r + 1])
    products = np.matmul(vectors.transpose(0, 2, 1), vectors).reshape(len(vectors), -1)
    upper = layout.first[entries] * side + layout.second[entries]
    return np.asarray(products.take(upper, axis=1) @ network.entries[:, entries].T)


def as_array(X: Any, sample: str, samples: str, remedy: str) -> npt.NDArray[Any]:
    """Return samples as an array of finite integers or floats, without copying arrays.

    Parameters
    ----------
    X : array-like or sequence of arrays
    sample, samples : str
        What they are, such as "image" and "images", for messages.
    remedy : str
        What to do about samples of different shapes.
    """
    check_unmasked("X", X)
    objects = getattr(X, "dtype", None) == np.dtype(object) and X.ndim > 0
    if isinstance(X, (list, tuple)) or objects:
        shapes: list[tuple[int, ...]] = []
        for number, item in enumerate(X):
            check_unmasked(f"{sample} {number} of X", item)
            try:
                shapes.append(np.shape(item))
            except ValueError:
                message = f"X must be {samples}; {sample} {number} has rows of different lengths"
                raise InvalidInputError(message) from None
            if shapes[-1] != shapes[0]:
                raise InvalidInputError(
                    f"X must be {samples} of the same shape; {sample} {number} has shape {shapes[-1]}, {sample} 0 has "
                    f"{shapes[0]}: {remedy}"
                )
    array = np.asarray(X.tolist() if objects else X)
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > np.dtype(np.float64).itemsize:
        raise InvalidTypeError(f"X must be {samples} of integers or floats; got entries of type {array.dtype}")
    if array.shape[:1] == (0,):
        raise InvalidInputError(f"X must have at least one {sample}; got none")
    if array.dtype.kind == "f" and array.ndim:
        for some in chunks(len(array), array[0].size):
            wrong = ~np.isfinite(array[some]).all(axis=tuple(range(1, array.ndim)))
            if wrong.any():
                number = some.start + int(np.argmax(wrong))
                raise InvalidInputError(f"X must be finite; found NaN or infinity in {sample} {number}")
    return array


def check_count(name: str, value: Any, minimum: int) -> int:
    """Check an integer that becomes part of a shape; floats such as 2.0 are refused."""
    if isinstance(value, float):
        raise InvalidTypeError(f"{name} must be an integer >= {minimum}; got {value!r}")
    return check_integer(name, value, minimum=minimum)


def in_cache(count: int, floats: int) -> list[slice]:
    """Return slices of samples whose vectors, of `floats` floats each, fit into the processor's cache."""
    return chunks(count, floats, work=2 * CACHE_FLOATS)


def _mean_sizes(parts: Iterable[npt.NDArray[Any]], layout: Layout) -> FloatArray:
    """Compute the root mean square of the Frobenius norms of each block's matrices; one if they are zero."""
    squares, n = np.zeros(layout.n_blocks), 0
    for rows in parts:
        part = np.square(rows.astype(np.float64)) * layout.counts
        squares += np.add.reduceat(part, layout.starts[:-1], axis=1).sum(axis=0)
        n += len(rows)
    sizes = np.sqrt(squares / n)
    return np.where(sizes > 0.0, sizes, 1.0)
