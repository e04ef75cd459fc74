"""Reports of models: an HTML page for people, and a model card."""

from qsdp.report._report import Report, make_report

__all__ = ["Report", "make_report"]
