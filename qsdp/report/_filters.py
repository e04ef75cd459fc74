"""Neurons of models of images and series as pairs of filters, by region, for the template of the HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.summary import format_share
from qsdp.tables.scored import class_names

if TYPE_CHECKING:
    from qsdp.encoding.moments import MomentEncoder

__all__ = ["filters_of"]

#: Largest number of neurons of a region that are shown.
_SHOWN = 4


def filters_of(model: Any) -> list[dict[str, Any]]:
    """Return, for each encoder of a model on blocks, its regions in rows, with the neurons of the largest penalties."""
    network, encoder = model.network_, model.encoder_
    weights = encoder.layout_.priced(network.output_weights, network.block)
    total, encoders, first = float(np.abs(weights).sum()) or 1.0, [], 0
    names = class_names(model) if network.n_outputs > 1 else None
    for part in getattr(encoder, "encoders_", [encoder]):
        rows, columns = part.regions_shape
        regions = []
        for place in range(rows * columns):
            mine = np.flatnonzero(network.block == first + place)
            sizes = np.abs(weights[mine])
            shown = mine[np.argsort(-sizes.max(axis=1, initial=0.0), kind="stable")[:_SHOWN]]
            regions.append(
                {
                    "name": part.region_name(*divmod(place, columns)),
                    "count": str(len(mine)),
                    "share": format_share(float(sizes.sum()) / total),
                    "neurons": [
                        [_picture(part, network.U[j]), _picture(part, network.V[j]), _weight(weights[j], names)]
                        for j in shown
                    ],
                }
            )
        encoders.append({"columns": columns, "regions": regions})
        first += rows * columns
    return encoders


def _weight(weights: npt.NDArray[np.float64], names: list[str] | None) -> str:
    """Return the largest weight of a neuron in the penalty, with its output if there are several."""
    output = int(np.abs(weights).argmax())
    name = "" if len(weights) == 1 else f"{output if names is None else names[output]}: "
    return f"{name}{weights[output]:+.2g}"


def _picture(encoder: MomentEncoder, signs: npt.NDArray[np.int8]) -> dict[str, Any]:
    """Return the size of a filter's picture, the SVG path of its positive signs, and the sign of the constant."""
    picture, constant = encoder.picture(signs)
    places = np.argwhere(picture > 0).tolist()
    path = "".join(f"M{x} {y}h1v1h-1z" for y, x in places)
    return {"height": picture.shape[0], "width": picture.shape[1], "path": path, "constant": constant}
