"""Rendering of report templates as HTML or Markdown, with all inserted values escaped for the format."""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from qsdp._utils.summary import format_number, format_share

if TYPE_CHECKING:
    import jinja2

__all__ = ["RENDERINGS", "render"]

#: Templates by the ending of the file that is written.
RENDERINGS = {".html": "page.html", ".md": "card.md"}


def render(ending: str, facts: Mapping[str, Any]) -> str:
    """Render a page or a card from the template variables of a model."""
    text = _environment(ending).get_template(RENDERINGS[ending]).render(**facts, made_as=ending)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _environment(ending: str) -> jinja2.Environment:
    """Return the template environment, which escapes all values: only filters and macros write markup."""
    import jinja2
    from markupsafe import Markup, escape

    def markdown(value: object) -> str:
        if hasattr(value, "__html__"):
            return value  # type: ignore[return-value]
        text = _line(value).replace("&", "&amp;").replace("<", "&lt;")
        return Markup(re.sub(r"([`*_\\|\[\]])", r"\\\1", text))

    def code(value: object) -> str:
        if ending == ".html":
            return Markup("<code>{}</code>").format(value)
        return Markup("`{}`").format(Markup(_line(value).replace("`", "'").replace("<", "&lt;")))

    def fenced(value: object) -> str:
        return escape(value) if ending == ".html" else Markup(_line(value).replace("`", "'"))

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("qsdp.report"),
        autoescape=True,
        finalize=markdown if ending == ".md" else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "bits": "{:,} bits".format,
        "code": code,
        "digest": lambda text: Markup(b64encode(sha256(text.encode()).digest()).decode()),
        "facts": lambda result: result._summary().rows,
        "fenced": fenced,
        "json": lambda value: Markup(json.dumps(value, ensure_ascii=False)),
        "line": lambda markup: Markup(_line(markup)),
        "number": format_number,
        "points": _points,
        "python": lambda text: repr(str(text)),
        "share": format_share,
        "shell": lambda text: shlex.quote(str(text)),
        "versions": lambda found: ", ".join(f"{name} {version}" for name, version in sorted(found.items())),
    }
    environment.filters.update(filters)
    return environment


def _line(value: object) -> str:
    return " ".join(str(value).split())


def _points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in pairs)
