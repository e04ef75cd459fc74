"""Plot of neurons on images and series as pairs of filters, with the region of averaging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_integer
from qsdp.encoding.patches import Patches
from qsdp.encoding.region_moments import MomentEncoder
from qsdp.encoding.windows import Windows
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork
from qsdp.plotting._canvas import COLOURS, Display, check_instance, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FiltersDisplay"]

#: Width and height of the cell of a neuron, whose pictures have side one, and neurons in a row.
_CELL, _ROW = (3.9, 1.75), 3


class FiltersDisplay(Display):
    r"""Filters of the neurons :math:`\alpha_j u_j^T \mathcal{X}_r v_j` with the largest penalties, in descending order.

    Each neuron shows the filters u and v (dark is -1, light +1) with the sign of the constant as a small square beside
    them, the region over which their product is averaged (on an optional image), and above them the output and the
    weight times :math:`\omega_r D_r`, its contribution to the penalty.

    Parameters
    ----------
    network : BilinearNetwork
        A network on the blocks of the encoder.
    encoder : Patches or Windows
        Fitted encoder of the network's blocks.
    n_shown : int, default=12
        Largest number of neurons, >= 1.
    output : int, optional
        Index of the output whose neurons are shown; None shows those of all.
    image : array-like of shape (height, width), optional
        Drawn under the regions of `Patches`.
    names : sequence of str, optional
        Names of the outputs.

    Attributes
    ----------
    neurons_ : ndarray of shape (k, 2)
        Indices of the neurons shown and of their outputs.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from sklearn.datasets import load_digits
        >>> images, digits = load_digits().images, load_digits().target
        >>> model = qsdp.QuantizedNetworkClassifier(
        ...     encoding=qsdp.encoding.Patches(3, regions=2),
        ...     beta="5%",
        ...     refine="exact",
        ...     random_state=0,
        ... ).fit(images[:300].astype("uint8"), digits[:300])
        >>> display = qsdp.plotting.FiltersDisplay.from_estimator(model, n_shown=4)
        >>> len(display.neurons_)
        4
    """

    def __init__(
        self,
        *,
        network: BilinearNetwork,
        encoder: MomentEncoder,
        n_shown: int = 12,
        output: int | None = None,
        image: Any = None,
        names: Any = None,
    ) -> None:
        check_instance("network", network, BilinearNetwork)
        check_instance("encoder", encoder, MomentEncoder)
        check_is_fitted(encoder, "layout_")
        blocks, layout = network.blocks, encoder.layout_
        if blocks is None or not layout.same_blocks(blocks):
            raise InvalidInputError(f"network must have the blocks of the encoder; got {network!r:.80}")
        self.network, self.encoder, self.image, self.names = network, encoder, image, names
        n_shown = check_integer("n_shown", n_shown, minimum=1)
        weights = self._penalties = encoder.layout_.priced(network.output_weights, network.block)
        if output is not None:
            chosen = check_integer("output", output, minimum=0, maximum=network.n_outputs - 1)
            weights = np.where(np.arange(network.n_outputs) == chosen, weights, 0.0)
        order = np.argsort(-np.abs(weights), axis=None, kind="stable")[: min(n_shown, int(np.count_nonzero(weights)))]
        self.neurons_ = np.column_stack(np.unravel_index(order, weights.shape))
        columns, rows = min(_ROW, max(len(order), 1)), -(-max(len(order), 1) // _ROW)
        self._size = (0.7 * _CELL[0] * columns, 0.7 * _CELL[1] * rows)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_shown: int = 12, output: int | None = None, image: Any = None, ax: Axes | None = None
    ) -> FiltersDisplay:
        """Plot the neurons of a fitted estimator whose encoding is `Patches` or `Windows`; see the class."""
        cls.check_axes(ax)
        _, estimator = last_step(estimator, "resample")
        check_is_fitted(estimator)
        classes, outputs = getattr(estimator, "classes_", None), estimator.network_.n_outputs
        names = None if classes is None or outputs == 1 else [str(label) for label in classes]
        display = cls(
            network=estimator.network_,
            encoder=estimator.encoder_,
            n_shown=n_shown,
            output=output,
            image=image,
            names=names,
        )
        return display.plot(ax)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        from matplotlib.patches import Rectangle

        ax.grid(False)
        ax.set_axis_off()
        width, height = _CELL
        for cell, (j, c) in enumerate(self.neurons_.tolist()):
            x, y = width * (cell % _ROW), -height * (cell // _ROW)
            for k, signs in enumerate((self.network.U[j], self.network.V[j])):
                filtered, constant = self.encoder.picture(signs, int(self.network.block[j]))
                self._picture(ax, (filtered > 0).astype(float), x + 1.3 * k, y, **style)
                if constant:
                    shade = "white" if constant > 0 else "black"
                    corner = (x + 1.3 * k + 1.04, y)
                    ax.add_patch(Rectangle(corner, 0.14, 0.14, facecolor=shade, edgecolor="black", linewidth=0.5))
            penalty = float(self._penalties[j, c])
            colour = COLOURS[0] if penalty > 0 else COLOURS[1]
            self._region(ax, int(self.network.block[j]), x + 2.6, y, colour)
            name = f"output {c}" if self.names is None else str(self.names[c])
            alone = not self.network.output_shape and self.names is None
            ax.text(x, y + 1.1, f"{'' if alone else name + ': '}{penalty:+.2g}", fontsize=9, color=colour)
        ax.set_aspect("equal")
        rows = -(-max(len(self.neurons_), 1) // _ROW)
        ax.set_xlim(-0.1, width * min(_ROW, max(len(self.neurons_), 1)) - 0.2)
        ax.set_ylim(-height * (rows - 1) - 0.1, 1.45)

    def _region(self, ax: Axes, block: int, x: float, y: float, colour: str) -> None:
        """Draw the region over which the product of the filters is averaged."""
        from matplotlib.patches import Rectangle

        encoder = self.encoder
        if isinstance(encoder, Patches):
            grid, region = encoder.grid_of(block)
            axes = zip(grid.edges, divmod(region, grid.regions), strict=True)
            parts = [(edges[index], edges[index + 1] - 1) for edges, index in axes]
            sides = [side // grid.downsample for side in grid.image_shape[:2]]
            # Pixels under the patches of the region, without the padding.
            spans = [
                np.clip(
                    [grid.stride * first - grid.padding, grid.stride * last - grid.padding + grid.size],
                    0,
                    side,
                )
                / side
                for (first, last), side in zip(parts, sides, strict=True)
            ]
        else:
            assert isinstance(encoder, Windows)
            segment = block % encoder.segments
            spans = [np.array([0.0, 1.0]), np.array([segment, segment + 1]) / encoder.segments]
        if self.image is not None and isinstance(encoder, Patches):
            self._picture(ax, np.asarray(self.image, dtype=np.float64), x, y)
        ax.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="black", linewidth=0.5))
        (top, bottom), (left, right) = spans
        ax.add_patch(
            Rectangle((x + left, y + 1 - bottom), right - left, bottom - top, alpha=0.35, facecolor=colour, zorder=3)
        )

    @staticmethod
    def _picture(ax: Axes, values: FloatArray, x: float, y: float, **style: Any) -> None:
        low, high = float(values.min()), float(values.max())
        limits = {"vmin": 0.0, "vmax": 1.0} if low >= 0.0 and high <= 1.0 else {"vmin": low, "vmax": high}
        drawn = {"cmap": "gray", "interpolation": "nearest", **limits, **style}
        ax.imshow(values, extent=(x, x + 1, y, y + 1), **drawn)
        ax.plot([x, x + 1, x + 1, x, x], [y, y, y + 1, y + 1, y], color="black", linewidth=0.5)
