"""Brings the notebooks into the site: copies with their committed outputs, and a page of cards with their pictures."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SOURCE = Path(__file__).parents[2] / "notebooks"

PAGE = """# Notebooks

Each tells one story with real data and ends in something to change. They run within five minutes altogether, with
`pip install -e ".[notebooks]"` and any Jupyter; the outputs shown here are those of the repository. Sliders resample
a solution and never solve again. They need a running kernel; the picture above each of them is what they draw.

::::{{grid}} 1 2 2 3
:gutter: 3

{cards}
::::

```{{toctree}}
:hidden:

{names}
```
"""

CARD = """:::{{grid-item-card}} {title}
:link: {name}
:link-type: doc
:img-top: pictures/{name}.png
:class-img-top: notebook-picture

{summary}
:::
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_gallery(app: Sphinx) -> None:
    """Write ``notebooks/`` below the documentation's sources: the page, its pictures, and copies of the notebooks."""
    target = Path(app.srcdir) / "notebooks"
    (target / "pictures").mkdir(parents=True, exist_ok=True)
    cards, names = [], []
    for path in sorted(SOURCE.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        title, summary = heading(notebook)
        _write(target / "pictures" / f"{path.stem}.png", picture(notebook))
        _write(target / path.name, path.read_bytes())
        cards.append(CARD.format(title=title, name=path.stem, summary=summary))
        names.append(path.stem)
    _write(target / "index.md", PAGE.format(cards="\n".join(cards), names="\n".join(names)).encode())


def heading(notebook: dict[str, Any]) -> tuple[str, str]:
    """Return the title and the first paragraph."""
    first = "".join(notebook["cells"][0]["source"])
    title, _, rest = first.partition("\n")
    return title.removeprefix("# "), " ".join(rest.strip().split("\n\n")[0].splitlines())


def picture(notebook: dict[str, Any]) -> bytes:
    """Return the picture that opens the notebook."""
    images = (output.get("data", {}).get("image/png") for output in notebook["cells"][1]["outputs"])
    return base64.b64decode("".join(next(filter(None, images))))


def _write(path: Path, content: bytes) -> None:
    # Untouched where it is the same: Sphinx reads again what has changed.
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)
