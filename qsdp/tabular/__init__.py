"""Models of tables in files: the encoding of columns and targets, stored with the trained network."""

from qsdp.estimators.provenance import versions
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._files import file_batches, held_bytes, read_table, table_batches
from qsdp.tabular._model import STREAMED, Holdout, TabularModel, network_inputs
from qsdp.tabular._reading import DataTable
from qsdp.tabular._stored import load_model
from qsdp.tabular._streaming import (
    SampledRows,
    Sampling,
    checkpoint_name,
    encoded_batches,
    sample_file,
    statistics_of,
)
from qsdp.tabular._target import RunningScore, Target
from qsdp.tabular._training import TASKS, Training, choose_encoding, prepare

__all__ = [
    "STREAMED",
    "TASKS",
    "DataTable",
    "Holdout",
    "RunningScore",
    "SampledRows",
    "Sampling",
    "TabularEncoder",
    "TabularModel",
    "Target",
    "Training",
    "checkpoint_name",
    "choose_encoding",
    "encoded_batches",
    "file_batches",
    "held_bytes",
    "load_model",
    "network_inputs",
    "prepare",
    "read_table",
    "sample_file",
    "statistics_of",
    "table_batches",
    "versions",
]
