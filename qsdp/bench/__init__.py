"""Benchmark experiments: cases, their measurements in a file, and tables computed from the file."""

from __future__ import annotations

from qsdp.bench._experiment import Experiment, Record, Table
from qsdp.bench._report import markdown_of, print_report
from qsdp.bench._results import Results, load_results
from qsdp.bench._runner import describe_machine, run_experiment

__all__ = [
    "Experiment",
    "Record",
    "Results",
    "Table",
    "describe_machine",
    "load_results",
    "markdown_of",
    "print_report",
    "run_experiment",
]
