"""A network with all it takes to use it on tables, and its file."""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import asdict, dataclass, replace

import numpy as np

from qsdp._validation import FloatArray
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.lifting import append_constant
from qsdp.networks import BilinearNetwork, network_archive
from qsdp.pipeline import RandomState
from qsdp.problem import TrainingProblem
from qsdp.sampling import sample_network
from qsdp.shaping import SignCovariance
from qsdp.storage import write_archive
from qsdp.tabular._checks import COVARIANCE_CHECKS
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._reading import Table
from qsdp.tabular._target import Target

KIND = "tabular-model"


@dataclass(frozen=True)
class Holdout:
    """Which rows are held out: enough to find the same ones again."""

    seed: int
    test_size: float

    def split(self, n: int) -> tuple[list[int], list[int]]:
        """Return training and test rows of n."""
        order = np.random.default_rng(self.seed).permutation(n).tolist()
        # Rounded, because (1 - 0.9) * 10 is a little less than 1.
        n_train = int(round((1.0 - self.test_size) * n, 9))
        return order[:n_train], order[n_train:]


@dataclass(frozen=True, eq=False, repr=False)
class TabularModel:
    """A network with the encoding of its table, its certificate, and the covariance it was sampled from.

    Attributes
    ----------
    encoder : TabularEncoder
    target : Target
    network : BilinearNetwork
        Its inputs are the encoded columns and a constant one.
    covariance : SignCovariance
    loss : str
    beta : float
    lower_bound : float
        Bound on the objective of every network, in units of the encoded target.
    objective : float or None
        That of the network in the same units; None where it was resampled without the data.
    holdout : Holdout
    digest : str
        sha256 of the encoded training rows.
    """

    encoder: TabularEncoder
    target: Target
    network: BilinearNetwork
    covariance: SignCovariance
    loss: str
    beta: float
    lower_bound: float
    objective: float | None
    holdout: Holdout
    digest: str

    def outputs(self, table: Table) -> FloatArray:
        """Return the outputs of the network, shape (n,)."""
        return self.network.predict(append_constant(self.encoder.encode(table)))

    def predict(self, table: Table) -> list[str] | FloatArray:
        """Return a label or a number for each row."""
        return self.target.decode(self.outputs(table))

    def resample(self, n_neurons: int, random_state: RandomState = None) -> TabularModel:
        """Return a model with another network from the same covariance; its objective is not known.

        See `evaluated`.
        """
        network = sample_network(self.covariance, n_neurons, random_state)
        return replace(self, network=network, objective=None)

    def evaluated(self, table: Table) -> TabularModel:
        """Return the model with its objective on the table it was trained on; another one is refused."""
        table.require([self.target.name])
        labelled = table.known(self.target.name)
        training = labelled.take(self.holdout.split(len(labelled))[0])
        X, y = self._encode_quietly(training)
        if digest_of(X, y) != self.digest:
            raise InvalidInputError(
                f"{table.path!r} is not the file this model was trained on: its training rows differ; "
                "the objective is known on those only"
            )
        problem = TrainingProblem(X, y, beta=self.beta, loss=self.loss)
        return replace(self, objective=problem.objective(self.network))

    def _encode_quietly(self, table: Table) -> tuple[FloatArray, FloatArray]:
        # Unseen values mean other data, which the digest tells.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QSDPWarning)
            return append_constant(self.encoder.encode(table)), self.target.encode(table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to `path`, readable by `load_model`."""
        covariance = self.covariance
        network, arrays = network_archive(self.network)
        header = {
            "network": network,
            "encoder": self.encoder.state(),
            "target": asdict(self.target),
            "holdout": asdict(self.holdout),
            "covariance": {name: getattr(covariance, name) for name in COVARIANCE_CHECKS},
            **{name: getattr(self, name) for name in ("loss", "beta", "lower_bound", "objective", "digest")},
        }
        write_archive(path, KIND, header, {**arrays, "Q": covariance.Q})


def digest_of(X: FloatArray, y: FloatArray) -> str:
    """Return the sha256 of encoded rows."""
    digest = hashlib.sha256(repr(X.shape).encode())
    for array in (X, y):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()
