"""The playground: a directive that inserts it into a page, with its style, script and networks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import qsdp
from qsdp.export import to_js

FOLDER = Path(__file__).parents[1] / "playground"
DATA = FOLDER / "data"
sys.path.insert(0, str(FOLDER))

#: A module of `to_js`: its model, its code and what it exports.
_MODULE = re.compile(r"//[^\n]*\nconst MODEL = (.*?);\n\n(.*)\nexport \{.*\};\n", re.DOTALL)


def playground() -> str:
    """Return the HTML of the playground, with its style and its script."""
    script = _script()
    # Nothing in a script may look like its end.
    assert not re.search("</script|<!--", script, re.IGNORECASE)
    text = {kind: (FOLDER / f"draw.{kind}").read_text("utf-8") for kind in ("html", "css")}
    return f'<style>{text["css"]}</style>\n{text["html"]}\n<script type="module">\n{script}</script>\n'


def _script() -> str:
    """Return the networks, which share their code, and the script that evaluates drawings."""
    from make_playground import mnist_encoder

    facts, models, code = json.loads((DATA / "mnist.json").read_text()), [], ""
    for one in facts["networks"]:
        path = DATA / one["file"]
        network = qsdp.load_network(path)
        found = _MODULE.fullmatch(to_js(network, encoder=mnist_encoder()).source)
        assert found
        models.append(found[1])
        code = found[2]
        one |= {"bytes": path.stat().st_size, "terms": _terms(network)}
    returned = "return { shape, regions, side, entries, inputsOf, partsOf, scoresOf };"
    return (
        f"const FACTS = {json.dumps(facts)};\n"
        f"const MODELS = [{', '.join(models)}].map((MODEL) => {{\n{code}\n{returned}\n}});\n"
        f"{(FOLDER / 'draw.js').read_text('utf-8')}"
    )


def _terms(network: Any) -> list[list[Any]]:
    """Return the signs of both filters, region, class and weight of every neuron and class that it serves."""
    weights = network.output_weights
    signs = [
        "".join("+" if one > 0 else "-" for one in np.concatenate(pair))
        for pair in zip(network.U, network.V, strict=True)
    ]
    return [
        [signs[neuron], int(network.block[neuron]), int(chosen), float(f"{weights[neuron, chosen]:.9g}")]
        for neuron, chosen in np.argwhere(weights)
    ]


class Playground(SphinxDirective):
    """``{playground}`` inserts the playground."""

    def run(self) -> list[nodes.Node]:
        """Return the playground as a raw node."""
        for path in (*FOLDER.glob("*.*"), *DATA.iterdir()):
            self.env.note_dependency(str(path))
        return [nodes.raw("", playground(), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("playground", Playground)
    return {"parallel_read_safe": True}
