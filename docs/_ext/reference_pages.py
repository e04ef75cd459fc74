"""Reference pages of the modules whose public names are those of ``__all__``: written anew by every build."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

#: In this order, with the names to list, or all public ones; a name that an earlier module has is not listed again.
MODULES: dict[str, tuple[str, ...]] = {
    "qsdp": (),
    "qsdp.losses": (),
    "qsdp.paper": (),
    "qsdp.encoding": (),
    "qsdp.relaxation": ("RawSolution",),
    "qsdp.relaxation.backends": ("Backend", "Settings"),
    "qsdp.inner_problem": ("InnerBound",),
    "qsdp.export": (),
    "qsdp.report": (),
    "qsdp.datasets": (),
    "qsdp.plotting": (),
    "qsdp.baselines": (),
    "qsdp.baselines.backprop": (),
}

PAGE = """{name}
{line}

.. automodule:: {name}
   :no-members:

.. currentmodule:: {name}

.. autosummary::
   :toctree: ../generated
   :nosignatures:

   {names}
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx, config: Config) -> None:
    """Write ``api/modules/`` below the documentation's sources."""
    target = Path(app.srcdir) / "api" / "modules"
    target.mkdir(parents=True, exist_ok=True)
    seen: list[Any] = []
    pages = ["api/index.md"]
    for module in MODULES:
        names = listed(module, seen)
        if module == "qsdp" or not names:
            continue
        page = PAGE.format(name=module, line="=" * len(module), names="\n   ".join(names))
        path = target / f"{module}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            path.write_text(page, encoding="utf-8")
        pages.append(f"api/modules/{path.name}")
    # Which pages there are is looked up before these are written.
    config.autosummary_generate = pages


def listed(module: str, seen: list[Any]) -> list[str]:
    """Return the names of a module's public classes and functions that are not among `seen`, which they join."""
    namespace = importlib.import_module(module)
    found = {name: getattr(namespace, name) for name in MODULES[module] or namespace.__all__}
    names = [
        name
        for name, value in found.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not any(value is other for other in seen)
    ]
    seen += [found[name] for name in names]
    return names
