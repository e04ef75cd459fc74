"""Reports of models of tables: one page of HTML that loads nothing from elsewhere."""

from qsdp.report._page import Report, make_report

__all__ = ["Report", "make_report"]
