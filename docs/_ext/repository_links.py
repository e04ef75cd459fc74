"""Links of pages to files of the repository outside the documentation lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
#: The address of the repository, which only pyproject.toml states.
(REPOSITORY,) = re.findall(r'^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx, before the files that pages link to are collected as downloads."""
    app.connect("doctree-read", link_files, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_files(app: Sphinx, doctree: nodes.document) -> None:
    """Replace references to pages and downloads outside the documentation by links to the repository."""
    for reference in list(doctree.findall(lambda node: isinstance(node, pending_xref | download_reference))):
        path = Path(app.env.relfn2path(reference["reftarget"], app.env.docname)[1]).resolve()
        if isinstance(reference, pending_xref):
            # MyST names pages by their files without the ending.
            path = Path(reference["reftarget"] + ".md") if reference.get("refdomain") == "doc" else Path(app.srcdir)
        if path.is_relative_to(ROOT) and not path.is_relative_to(app.srcdir) and path.is_file():
            address = f"{REPOSITORY}/blob/main/{path.relative_to(ROOT).as_posix()}"
            reference.replace_self(nodes.reference("", "", *reference.children, refuri=address))
