"""Names of the package in the code font become links to their reference, on Markdown pages and in notebooks, too."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

NAME = re.compile(r"qsdp(\.\w+)+")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Wrap code such as ``qsdp.certify`` into references; what is no name of the reference stays as it is."""
    for literal in list(doctree.findall(nodes.literal)):
        if NAME.fullmatch(literal.astext()) and not isinstance(literal.parent, (nodes.reference, pending_xref)):
            target = pending_xref(
                "",
                refdomain="py",
                reftype="obj",
                reftarget=literal.astext(),
                refexplicit=True,
                refdoc=app.env.docname,
            )
            literal.replace_self(target)
            target += literal
