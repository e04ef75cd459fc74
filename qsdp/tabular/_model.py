"""Network with the encoding of its tables, and its file."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from qsdp._utils.outputs import squeezed
from qsdp._utils.validation import FloatArray, RandomState
from qsdp.activations import PolynomialActivation
from qsdp.estimators.classes import class_probabilities
from qsdp.estimators.explanation import class_outputs, explained_form
from qsdp.estimators.provenance import texts_of
from qsdp.estimators.solution import Solution
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.lifting import append_constant
from qsdp.losses import get_loss
from qsdp.networks import BilinearNetwork, Effects
from qsdp.networks.storage import MODEL_KIND, write_archive
from qsdp.problem import TrainingProblem, check_levels
from qsdp.sampling import sample_network
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._reading import DataTable
from qsdp.tabular._target import Target
from qsdp.tabular._weighting import Weighting

#: Attributes of a model that its file stores unchanged.
PLAIN = ("loss", "beta", "allocation", "lower_bound", "objective", "digest", "provenance", "markers")

#: Stands in for the digest of the training rows in a model trained on statistics.
STREAMED = "0" * 64


@dataclass(frozen=True)
class Holdout:
    """Seed and share that determine the held-out rows."""

    seed: int
    test_size: float

    def split(self, n: int) -> tuple[list[int], list[int]]:
        """Return the indices of training and test rows among n rows."""
        order = np.random.default_rng(self.seed).permutation(n).tolist()
        # Rounded, because (1 - 0.9) * 10 is a little less than 1.
        n_train = int(round((1.0 - self.test_size) * n, 9))
        return order[:n_train], order[n_train:]


@dataclass(frozen=True, eq=False, repr=False)
class TabularModel:
    """Network with the encoding of its table, its certificate, and the solution it was sampled from.

    Attributes
    ----------
    encoder : TabularEncoder
    target : Target
    weighting : Weighting
        Weights of the training rows; predictions do not need its column.
    network : BilinearNetwork
        Its inputs are the encoded columns, and a constant column unless the activation is lifted.
    solution : Solution
    loss : str
    beta : float
    allocation : str
        Allocation of neurons to outputs.
    lower_bound : float
        Bound on the objective of every network with these levels, for the encoded target.
    objective : float or None
        Objective of the network; None if it was resampled without the data.
    holdout : Holdout
    digest : str
        sha256 of the encoded training rows, with the weights of a column if given; `STREAMED` for statistics of rows.
    provenance : mapping of str to str
        Options of training, and versions of the packages that trained it.
    markers : list of str
        Texts that count as missing in text files.
    """

    encoder: TabularEncoder
    target: Target
    weighting: Weighting
    network: BilinearNetwork
    solution: Solution
    loss: str
    beta: float
    allocation: str
    lower_bound: float
    objective: float | None
    holdout: Holdout
    digest: str
    provenance: Mapping[str, str]
    markers: list[str]

    def outputs(self, table: DataTable) -> FloatArray:
        """Return the outputs of the network, shape (n,) or (n, C)."""
        return self.network.predict(self.inputs(table))

    def predict(self, table: DataTable) -> list[str] | FloatArray:
        """Return the predicted label or number of each row."""
        return self.target.decode(self.outputs(table))

    def probabilities(self, outputs: FloatArray) -> FloatArray | None:
        """Return the probabilities of the classes, shape (n, C), or None for losses without probabilities."""
        loss = get_loss(self.loss)
        return class_probabilities(outputs, loss) if loss.probabilistic else None

    def effects(self, table: DataTable) -> Effects:
        """Return main effects and interactions of columns over a table, in the units of the targets.

        Rows have the weights of training if the table has the column of weights.
        """
        weighted = self.weighting.column in table.columns
        form = explained_form(
            self.network,
            constant=None if _is_lifted(self.network.activation) else 1.0,
            scaling=self.target.scaling,
            of_difference=self.target.classes is not None and len(self.target.classes) == 2,
        )
        return Effects.of(
            form,
            self.encoder.encode(table),
            sample_weight=self.weighting.read(table) if weighted else None,
            columns=[column.name for column in self.encoder.columns],
            groups=[one.position for one in self.encoder.encoding.expressions],
            outputs=None if self.target.classes is None else class_outputs(self.target.classes, form),
        )

    def resample(self, n_neurons: int, random_state: RandomState = None, *, levels: int | None = None) -> TabularModel:
        """Return a model with another network sampled from the same solution, without refinement or objective.

        For another number of levels, the lower bound is the one proved without the data; see `evaluated`.
        """
        levels = self.network.levels if levels is None else check_levels(levels)
        covariance = squeezed(self.solution.covariances(levels), self.network.output_shape)
        network = sample_network(covariance, n_neurons, random_state, allocation=self.allocation)
        changed = {"n_neurons": n_neurons, "levels": levels, "refine": "none", "random_state": random_state}
        return replace(
            self,
            network=network,
            lower_bound=self.solution.bound(levels, self.beta),
            objective=None,
            provenance={**self.provenance, **texts_of(changed)},
        )

    def evaluated(self, table: DataTable) -> TabularModel:
        """Return the model with its objective on the table it was trained on; another table raises an error.

        For another number of levels than the solution's, the lower bound is recomputed too.
        """
        problem = self.problem(table)
        return replace(self, objective=problem.objective(self.network), lower_bound=self.solution.bound_with(problem))

    def problem(self, table: DataTable) -> TrainingProblem:
        """Return the problem of the network on the table it was trained on; another table raises an error."""
        if self.digest == STREAMED:
            raise InvalidInputError(
                f"the model was trained on statistics of a streamed file: {table.path!r} is not compared; "
                "its objective and bound are those that `qsdp fit` found"
            )
        training, _ = self.split(table)
        X, y = self._encode_quietly(training)
        if not self._trained_on(X, y, training):
            raise InvalidInputError(
                f"{table.path!r} is not the file this model was trained on: its training rows differ; "
                "objective and bound are those of its own rows only"
            )
        network = self.network
        return TrainingProblem(
            X,
            y,
            beta=self.beta,
            loss=self.loss,
            activation=network.activation,
            levels=network.levels,
            sample_weight=self.weighting.weights(training, self.target),
        )

    def split(self, table: DataTable) -> tuple[DataTable, DataTable]:
        """Return the training and held-out rows, with target and weight, of the table the model was trained on."""
        table.require([self.target.name])
        labelled = table.known(self.target.name)
        training, held_out = (
            self.weighting.counting(labelled.take(rows)) for rows in self.holdout.split(len(labelled))
        )
        return training, held_out

    def is_trained_on(self, table: DataTable) -> bool:
        """Return whether this is the table the model was trained on."""
        if self.weighting.column is not None and self.weighting.column not in table.columns:
            return False
        training, _ = self.split(table)
        return self._trained_on(*self._encode_quietly(training), training)

    def _trained_on(self, X: FloatArray, y: FloatArray, training: DataTable) -> bool:
        return digest_of(X, y, self.weighting.read(training)) == self.digest

    def inputs(self, table: DataTable) -> FloatArray:
        """Return the inputs of the network, shape (n, d)."""
        return network_inputs(self.encoder.encode(table), self.network.activation)

    def _encode_quietly(self, table: DataTable) -> tuple[FloatArray, FloatArray]:
        # Values not seen in training belong to another file, which the digest reveals.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QSDPWarning)
            return self.inputs(table), self.target.encode(table, get_loss(self.loss))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to `path`, readable by `load_model`."""
        network, arrays = self.network.archive()
        header = {
            "network": network,
            "encoder": self.encoder.state(),
            "target": asdict(self.target),
            "weighting": asdict(self.weighting),
            "holdout": asdict(self.holdout),
            "relaxation": self.solution.state(),
            **{name: getattr(self, name) for name in PLAIN},
        }
        write_archive(path, MODEL_KIND, header, {**arrays, **self.solution.arrays()})


def network_inputs(encoded: FloatArray, activation: PolynomialActivation | None) -> FloatArray:
    """Return the inputs of a network: the encoded columns, and a constant column unless the activation is lifted."""
    return encoded if _is_lifted(activation) else append_constant(encoded)


def _is_lifted(activation: PolynomialActivation | None) -> bool:
    return activation is not None and activation.lifted


def digest_of(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> str:
    """Return the sha256 of encoded rows and their weights."""
    digest = hashlib.sha256(repr(X.shape).encode())
    for array in (X, y) if weights is None else (X, y, weights):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
