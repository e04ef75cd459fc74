"""Templates of exported text, in C, Verilog and TypeScript."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

__all__ = ["render"]


def render(template: str, **fields: object) -> str:
    """Write the text of a template of the folder `templates`, named without its ending."""
    return _environment().get_template(f"{template}.j2").render(fields)


@cache
def _environment() -> jinja2.Environment:
    # Imported here because networks that are not exported do not need it.
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("qsdp.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
