"""Concatenation of the blocks of several encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from qsdp._utils.stored import checked, is_list
from qsdp._utils.validation import FloatArray
from qsdp.blocks import Blocks, Layout
from qsdp.encoding.moments import BlockEncoder, MomentEncoder
from qsdp.exceptions import InvalidTypeError, StorageError
from qsdp.networks import BlockForm, BlockNetwork

__all__ = ["Union"]


class Union(BlockEncoder):
    """Concatenated blocks of several encoders: each neuron belongs to a block of one of them.

    Parameters
    ----------
    encoders : sequence of Patches or Windows
        Encoders of the same samples. Rows are exact integers if those of all encoders are.

    Attributes
    ----------
    encoders_ : list
        Fitted copies of `encoders`.
    layout_ : Layout
        Sides and factors of all blocks, encoder after encoder.
    n_features_in_ : int

    Notes
    -----
    Certificates do not store the geometry of patches, so `qsdp-check` needs the packed rows as the data.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.encoding import Patches, Union
    >>> from sklearn.datasets import load_digits
    >>> images = load_digits().images.astype("uint8")
    >>> Union([Patches(2, regions=1), Patches(3, regions=1)]).fit_transform(images).sizes
    (5, 10)
    """

    encoders_: list[MomentEncoder]

    def __init__(self, encoders: Sequence[MomentEncoder]) -> None:
        self._keep(locals())

    def samples(self, X: Any) -> list[Any]:
        """Check X and convert it for each encoder; return a list with one entry per encoder."""
        if not hasattr(self, "layout_"):
            return [one.samples(X) for one in self._checked()]
        return [one.samples(X) for one in self.encoders_]

    def _checked(self) -> list[MomentEncoder]:
        listed = list(self.encoders) if isinstance(self.encoders, (list, tuple)) else []
        if not listed or not all(isinstance(one, MomentEncoder) for one in listed):
            raise InvalidTypeError(f"encoders must be a list of Patches or Windows; got {self.encoders!r:.60}")
        return [clone(one) for one in listed]

    def fit(self, X: Any, y: Any = None) -> Union:
        """Fit the encoders; y is ignored."""
        del y
        self._set([one.fit(X) for one in self._checked()])
        return self

    def fit_transform(self, X: Any, y: Any = None, **parameters: Any) -> Blocks:
        """Fit the encoder and return the blocks of its training samples; y is ignored."""
        del y, parameters
        encoders = self._checked()
        blocks = [one.fit_transform(X) for one in encoders]
        self._set(encoders)
        return Blocks.of(np.hstack([one.rows for one in blocks]), self.layout_)

    def _set(self, encoders: list[MomentEncoder]) -> None:
        self.encoders_, self.layout_ = encoders, _joined([one.layout_ for one in encoders])
        self.n_features_in_ = encoders[0].n_features_in_

    def encoded(self, samples: list[Any]) -> npt.NDArray[Any]:
        """Compute the packed rows (n, P) of samples returned by `samples`."""
        return np.hstack([one.encoded(part) for one, part in zip(self.encoders_, samples, strict=True)])

    def values(self, samples: list[Any], network: BlockNetwork | BlockForm) -> FloatArray:
        """Compute the outputs (n, C) of a network for samples returned by `samples`."""
        if not isinstance(network, BlockNetwork):
            return network.outputs(Blocks.of(self.encoded(samples), self.layout_))
        total, first = np.zeros((len(samples[0]), network.n_outputs)), 0
        for one, part in zip(self.encoders_, samples, strict=True):
            layout = one.layout_
            mine = (network.block >= first) & (network.block < first + layout.n_blocks)
            if mine.any():
                U, V = (signs[mine, : layout.side] for signs in (network.U, network.V))
                own = BlockNetwork(U, V, network.output_weights[mine], network.block[mine] - first, layout.sizes)
                total += one.values(part, own)
            first += layout.n_blocks
        return total

    def to_state(self) -> dict[str, Any]:
        """Serialise the fitted attributes to JSON values, for `restore`."""
        return {"encoders": [one.to_state() for one in self.encoders_]}

    def restore(self, state: Any) -> None:
        """Restore the fitted attributes from `to_state` of an equal encoder; raise StorageError if they are invalid."""
        parts = checked("encoder", state, {"encoders": is_list})["encoders"]
        encoders = self._checked()
        if len(parts) != len(encoders):
            raise StorageError(f"encoder: there must be {len(encoders)} encoders")
        for one, part in zip(encoders, parts, strict=True):
            one.restore(part)
        self._set(encoders)


def _joined(layouts: list[Layout]) -> Layout:
    sizes, linear, omega = (sum((getattr(one, name) for one in layouts), ()) for name in ("sizes", "linear", "omega"))
    return Layout(sizes, linear, omega)
