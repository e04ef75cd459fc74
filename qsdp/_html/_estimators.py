"""What fitted estimators show below the diagram that scikit-learn draws of them."""

from __future__ import annotations

from typing import Any

__all__ = ["PanelBelowDiagram"]


class PanelBelowDiagram:
    """Mixin, before scikit-learn's base class: in notebooks the diagram is followed by `_panel`, once there is one."""

    def _panel(self) -> str:
        """Return HTML, nothing before the fit."""
        return ""

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._panel()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._panel()
        return bundle
