"""Experiments: cases, their measurements in a file, and tables and claims computed from the file."""

from __future__ import annotations

from qsdp.bench._experiment import Experiment, Record, Table
from qsdp.bench._provenance import describe_machine
from qsdp.bench._report import claims_of, markdown_of, print_report, summary_of
from qsdp.bench._results import Results, load_results
from qsdp.bench._runner import run_experiment
from qsdp.bench._verdicts import (
    REPETITIONS,
    VERDICTS,
    Claim,
    Evidence,
    compare,
    corrected,
    either,
    exact,
    judged,
    not_measured,
    paired_claim,
    share,
    within,
)

__all__ = [
    "REPETITIONS",
    "VERDICTS",
    "Claim",
    "Evidence",
    "Experiment",
    "Record",
    "Results",
    "Table",
    "claims_of",
    "compare",
    "corrected",
    "describe_machine",
    "either",
    "exact",
    "judged",
    "load_results",
    "markdown_of",
    "not_measured",
    "paired_claim",
    "print_report",
    "run_experiment",
    "share",
    "summary_of",
    "within",
]
