"""Models of CSV files: columns as people have them, encoded, and stored with the network trained on them."""

from qsdp.tabular._encoding import CategoricalColumn, NumericColumn, TabularEncoder
from qsdp.tabular._model import Holdout, TabularModel
from qsdp.tabular._reading import MISSING, Table, read_table
from qsdp.tabular._stored import load_model
from qsdp.tabular._target import Target
from qsdp.tabular._training import TASKS, Training, prepare

__all__ = [
    "MISSING",
    "TASKS",
    "CategoricalColumn",
    "Holdout",
    "NumericColumn",
    "Table",
    "TabularEncoder",
    "TabularModel",
    "Target",
    "Training",
    "load_model",
    "prepare",
    "read_table",
]
