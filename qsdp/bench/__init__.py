"""Experiments: cases, their measurements in a file, and tables and claims computed from the file."""

from __future__ import annotations

from qsdp.bench._experiment import VERDICTS, Claim, Experiment, Record, Table
from qsdp.bench._report import Measured, claims_of, markdown_of, page_of, print_report
from qsdp.bench._results import Results, describe_machine, load_results
from qsdp.bench._runner import run_experiment

__all__ = [
    "VERDICTS",
    "Claim",
    "Experiment",
    "Measured",
    "Record",
    "Results",
    "Table",
    "claims_of",
    "describe_machine",
    "load_results",
    "markdown_of",
    "page_of",
    "print_report",
    "run_experiment",
]
