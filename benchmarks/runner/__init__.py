"""Benchmark experiments: cases, their measurements in a file, and tables computed from the file."""

from __future__ import annotations

from benchmarks.runner._experiment import Experiment, Record, Table
from benchmarks.runner._report import markdown_of, print_report
from benchmarks.runner._results import Results, load_results
from benchmarks.runner._runner import describe_machine, run_experiment

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
