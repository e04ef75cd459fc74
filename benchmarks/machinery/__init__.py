"""Verdicts, reports, pages and figures."""
