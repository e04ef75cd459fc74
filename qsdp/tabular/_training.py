"""Tables made ready for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.activations import PolynomialActivation
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.pipeline import QSDPResult
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._model import Holdout, TabularModel, digest_of, network_inputs
from qsdp.tabular._reading import Table
from qsdp.tabular._solution import Solution
from qsdp.tabular._target import Target

TASKS = ("auto", "classification", "regression")


@dataclass(frozen=True, eq=False, repr=False)
class Training:
    """A table made ready: inputs X, targets y, what these stand for, and what encoded them."""

    X: FloatArray
    y: FloatArray
    train: Table
    test: Table
    encoder: TabularEncoder
    target: Target
    holdout: Holdout
    n_unlabelled: int

    def model(self, result: QSDPResult, allocation: str = "equal") -> TabularModel:
        """Return the model of a `result` trained on X and y."""
        solution = Solution.of(result)
        return TabularModel(
            encoder=self.encoder,
            target=self.target,
            network=result.network,
            solution=solution,
            loss=result.problem.loss.name,
            beta=result.problem.beta,
            allocation=allocation,
            lower_bound=solution.best_bound,
            objective=result.certificate.objective,
            holdout=self.holdout,
            digest=digest_of(self.X, self.y),
        )


def prepare(
    table: Table,
    target: str,
    *,
    task: str = "auto",
    loss: str = "squared",
    activation: PolynomialActivation | None = None,
    drop: Sequence[str] = (),
    test_size: float = 0.2,
    seed: int = 0,
) -> Training:
    """Split a table into training and test rows and encode the former.

    Parameters
    ----------
    table : Table
    target : str
        Column to predict; rows in which it is missing are left out and counted.
    task : {"auto", "classification", "regression"}
        "auto" is classification for a target that is not numeric or has exactly two values.
    loss : str
        Classes are coded as it needs them.
    activation : PolynomialActivation or None
        The inputs have a constant column unless it is lifted.
    drop : sequence of str
        Columns that are not used.
    test_size : float
        Share of the rows that is held out, 0 <= test_size < 1.
    seed : int
        Of the choice of those rows.
    """
    check_choice("task", task, TASKS)
    table.require([target, *drop])
    if target in drop:
        raise InvalidInputError(f"column {target!r} cannot be both the target and dropped")
    labelled = table.known(target)
    holdout = Holdout(seed, test_size)
    train, test = holdout.split(len(labelled))
    if len(labelled) >= 2 > len(train):
        raise InvalidInputError(
            f"{table.path!r} has {len(labelled)} rows, {len(train)} of them for training; at least 2 needed"
        )
    encoded_target = Target.fit(labelled, target, task, train)
    kind = get_loss(loss)
    if encoded_target.classes is None and (kind.labels or kind.coupled):
        raise InvalidInputError(f"loss {loss!r} is for classes, target {target!r} is a number")
    names = [name for name in table.columns if name != target and name not in drop]
    encoder = TabularEncoder.fit(labelled, names, train)
    if not encoder.columns:
        raise InvalidInputError(f"{table.path!r} has no column left to learn from besides the target {target!r}")
    training = labelled.take(train)
    return Training(
        X=network_inputs(encoder.encode(training), activation),
        y=encoded_target.encode(training, kind),
        train=training,
        test=labelled.take(test),
        encoder=encoder,
        target=encoded_target,
        holdout=holdout,
        n_unlabelled=len(table) - len(labelled),
    )
