"""What a training by least squares reports of itself, pass by pass."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_seconds, format_share
from qsdp.baselines.bpls._network import Network

__all__ = ["BPLSReport", "Design", "LayerReport", "PassReport", "Reference"]

#: Layers that a summary lists at most.
_LISTED = 8


@dataclass(frozen=True)
class Design:
    """What a layer's least-squares problem looked like.

    Attributes
    ----------
    n_samples, n_columns : int
        Shape of the design matrix A.
    rank : int
        Its numerical rank; with a ridge it is found from the Gram matrix, to half the digits.
    condition : float
        Largest singular value over the smallest one that is not zero.
    """

    n_samples: int
    n_columns: int
    rank: int
    condition: float


@dataclass(frozen=True)
class LayerReport:
    """The solve of one layer in one pass.

    Attributes
    ----------
    number : int
        From 1, at the inputs.
    designs : tuple of Design
        Size, rank and condition of the design matrix; of both, where a second solve or a refit was made.
    n_solves : int
        Weight vectors that were solved for.
    clipped : float or None
        Share of the desired outputs of the hidden layer before this one that had no pre-activation and were cut; None
        for the first layer.
    seconds : float
        Of solves and desired values; finding ranks and conditions is not counted, in a pass neither.
    """

    number: int
    designs: tuple[Design, ...]
    n_solves: int
    clipped: float | None
    seconds: float


@dataclass(frozen=True)
class PassReport:
    """One pass over all samples, or over those that were misclassified.

    Attributes
    ----------
    n_samples : int
        Samples that the pass was made on.
    share : float
        With which its weights were blended into those before; 1 in a pass over all samples.
    loss, score : float
        After the pass, on all training data; as in the history.
    misses : int or None
        Samples of the wrong class after the pass; None for a regressor.
    seconds : float
    layers : tuple of LayerReport
    """

    n_samples: int
    share: float
    loss: float
    score: float
    misses: int | None
    seconds: float
    layers: tuple[LayerReport, ...]

    @property
    def n_solves(self) -> int:
        """Weight vectors that were solved for: fixed by the widths, whatever the data."""
        return sum(layer.n_solves for layer in self.layers)

    @property
    def clipped(self) -> float:
        """Share of the desired hidden values that were cut, averaged over hidden layers; 0 where there are none."""
        shares = [layer.clipped for layer in self.layers if layer.clipped is not None]
        return sum(shares) / len(shares) if shares else 0.0


@dataclass(frozen=True, eq=False)
class Reference:
    """A simpler model, trained by the same solves on the same data.

    Attributes
    ----------
    network : Network
    loss, score : float
        On the training data; as in the history.
    seconds : float
    """

    network: Network
    loss: float
    score: float
    seconds: float


@dataclass(eq=False)
class BPLSReport(Summarized):
    """Course of a training by back-propagating least squares.

    Attributes
    ----------
    passes : list of PassReport
        One an epoch of the history, and one more if the last diverged.
    clipped_targets : float
        Share of the targets that the output activation cannot reach and that were cut.
    best : int
        Number, from 1, of the pass whose weights are those of the network; 0 for the random weights.
    references : dict of Reference
        "linear least squares", in regression without ridge, and "random hidden layers" with a fitted last layer, by
        the training's ridge; empty unless asked for.
    """

    passes: list[PassReport] = field(default_factory=list)
    clipped_targets: float = 0.0
    best: int = 0
    references: dict[str, Reference] = field(default_factory=dict)

    def _summary(self) -> Summary:
        rows: Rows = [("passes", f"{len(self.passes)} in {format_seconds(sum(each.seconds for each in self.passes))}")]
        if self.passes:
            rows += self._best_rows()
        for name, one in self.references.items():
            figures = f"loss {format_number(one.loss)}, score {format_number(one.score)}, {format_seconds(one.seconds)}"
            rows.append((name, figures))
        return Summary("BPLSReport", rows)

    def _best_rows(self) -> Rows:
        """Return what the best pass came to, and its layers' solves."""
        shown = max(self.best, 1)
        best = self.passes[shown - 1]
        rows: Rows = [
            ("best", f"pass {shown}" if self.best else "the random weights, before any pass"),
            ("loss", f"{format_number(best.loss)} after pass {shown}"),
            ("score", format_number(best.score)),
        ]
        if best.misses is not None:
            rows.append(("misses", f"{best.misses:,} of the training samples"))
        for layer in best.layers[:_LISTED]:
            ranks = [f"rank {one.rank} of {one.n_columns}, condition {one.condition:.1e}" for one in layer.designs]
            rows.append((f"layer {layer.number}", "; ".join([*ranks, format_seconds(layer.seconds)])))
        targets, hidden = format_share(self.clipped_targets), format_share(best.clipped)
        return [*rows, ("cut", f"{targets} of the targets, {hidden} of the hidden values")]

    def to_dict(self) -> dict[str, Any]:
        """Return the same as numbers, lists and text, for JSON; the references without their weights."""
        return {
            "passes": [dataclasses.asdict(each) for each in self.passes],
            "clipped_targets": self.clipped_targets,
            "best": self.best,
            "references": {
                name: {"loss": each.loss, "score": each.score, "seconds": each.seconds}
                for name, each in self.references.items()
            },
        }
