"""Preparation of tables for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.encoding import EncodingRule
from qsdp.encoding.fitting import CUT
from qsdp.estimators.choices import Candidate, affordable_thresholds, first_clear_best, useful_inputs
from qsdp.estimators.provenance import texts_of, versions
from qsdp.estimators.solution import Solution
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult
from qsdp.problem import TrainingProblem
from qsdp.relaxation.rows import DistinctRows
from qsdp.tabular._encoding import TabularEncoder
from qsdp.tabular._model import Holdout, TabularModel, digest_of, network_inputs
from qsdp.tabular._reading import DataTable
from qsdp.tabular._target import Target
from qsdp.tabular._weighting import Weighting

TASKS = ("auto", "classification", "regression")


@dataclass(frozen=True, eq=False, repr=False)
class Training:
    """A table prepared for training: inputs X, targets y and weights, the rows they come from, and their encoders."""

    X: FloatArray
    y: FloatArray
    weights: FloatArray | None
    train: DataTable
    test: DataTable
    encoder: TabularEncoder
    target: Target
    weighting: Weighting
    holdout: Holdout
    n_unlabelled: int
    n_weightless: int

    def by_rule(self, rule: EncodingRule, activation: PolynomialActivation | None) -> Training:
        """Return the same table with inputs by another rule."""
        encoder = self.encoder.by_rule(self.train, rule)
        return replace(self, encoder=encoder, X=network_inputs(encoder.encode(self.train), activation))

    def restricted(self, kept: npt.NDArray[np.intp], activation: PolynomialActivation | None) -> Training:
        """Return the same table with only some of the inputs."""
        encoder = self.encoder.restricted(self.X[:, : self.encoder.width], kept)
        return replace(self, encoder=encoder, X=network_inputs(encoder.encode(self.train), activation))

    def problem(self, options: TrainingOptions, stands_for: float = 1.0) -> TrainingProblem:
        """Return the training problem, in which every row stands for `stands_for` rows."""
        given = self.weighting.read(self.train)
        repetitions = np.ones(len(self.y)) if given is None else given
        return options.problem(self.X, self.y, self.weights, repetitions, stands_for)

    def model(self, result: QSDPResult, options: TrainingOptions | None = None) -> TabularModel:
        """Return the model of a `result` trained on X and y, with `options` that the result does not hold."""
        solution, network, problem = Solution.of(result), result.network, result.problem
        used = {} if options is None else vars(options) | {"n_neurons": options.n_neurons or network.n_neurons}
        used |= {name: getattr(problem, name) for name in ("loss", "beta", "levels", "activation")}
        used |= {"refine": result.refine, "shaping": solution.shaping}
        return TabularModel(
            encoder=self.encoder,
            target=self.target,
            weighting=self.weighting,
            network=network,
            solution=solution,
            loss=problem.loss.name,
            beta=problem.beta,
            allocation="equal" if options is None else options.allocation,
            lower_bound=solution.best_bound,
            objective=result.certificate.objective,
            holdout=self.holdout,
            digest=digest_of(self.X, self.y, self.weighting.read(self.train)),
            provenance={**texts_of(used), **versions()},
            markers=sorted(self.train.markers),
        )


def prepare(
    table: DataTable,
    target: str,
    *,
    task: str = "auto",
    loss: str = "squared",
    activation: PolynomialActivation | None = None,
    drop: Sequence[str] = (),
    weights: str | None = None,
    class_weight: str | None = None,
    encoding: str = "standard",
    test_size: float = 0.2,
    seed: int = 0,
) -> Training:
    """Split a table into training and test rows, and encode the training rows.

    Parameters
    ----------
    table : DataTable
    target : str
        Column to predict; rows in which it is missing are left out and counted.
    task : {"auto", "classification", "regression"}
        "auto" is classification for a target that is not numeric or has exactly two values.
    loss : str
        Loss, which determines how classes are coded.
    activation : PolynomialActivation or None
        The inputs have a constant column unless it is lifted.
    drop : sequence of str
        Columns that are not used.
    weights : str, optional
        Column of sample weights >= 0, which is not an input; rows of weight zero are left out.
    class_weight : {None, "balanced"}
        See `ClassifierOptions`.
    encoding : {"standard", "thresholds", "both"}
        Encoding of numbers, see `EncodingRule.recommended`.
    test_size : float
        Share of the rows that is held out, 0 <= test_size < 1.
    seed : int
        Seed for the choice of those rows.
    """
    check_choice("task", task, TASKS)
    table.require([target, *drop])
    if target in drop:
        raise InvalidInputError(f"column {target!r} cannot be both the target and dropped")
    if weights is not None and weights in (target, *drop):
        raise InvalidInputError(f"column {weights!r} cannot be both the weights and the target or dropped")
    labelled = table.known(target)
    weighting, holdout = Weighting(weights, class_weight), Holdout(seed, test_size)
    given, train, test = weighting.read(labelled), *holdout.split(len(labelled))
    if given is not None:
        train, test = ([i for i in rows if given[i] > 0.0] for rows in (train, test))
    if len(labelled) >= 2 > len(train):
        positive = "" if weights is None else f" with a positive weight in column {weights!r}"
        raise InvalidInputError(
            f"{table.path!r} has {len(labelled)} rows, {len(train)} of them for training{positive}; at least 2 "
            "are needed"
        )
    encoded_target = Target.fit(labelled, target, task, train)
    kind = get_loss(loss)
    if encoded_target.classes is None and kind.for_classes:
        raise InvalidInputError(f"loss {loss!r} is for classes, but target {target!r} is a number")
    if encoded_target.classes is None and class_weight is not None:
        raise InvalidInputError(f"class_weight is for classes, but target {target!r} is a number")
    names = [name for name in table.columns if name not in (target, weights, *drop)]
    rule = EncodingRule.recommended(encoding, len(names))
    encoder = TabularEncoder.fit(labelled, names, train, rule) if names else None
    if encoder is None or len(encoder.dropped) == len(names):
        dropped = {} if encoder is None else encoder.dropped
        why = "".join(f"; {name!r}: {reason}" for name, reason in dropped.items())
        raise InvalidInputError(
            f"{table.path!r} has no column left to learn from besides the target {target!r}{why:.200}"
        )
    training = labelled.take(train)
    row_weights = weighting.weights(training, encoded_target)
    encoded_target = encoded_target.scaled(training, kind, row_weights)
    return Training(
        X=network_inputs(encoder.encode(training), activation),
        y=encoded_target.encode(training, kind),
        weights=row_weights,
        train=training,
        test=labelled.take(test),
        encoder=encoder,
        target=encoded_target,
        weighting=weighting,
        holdout=holdout,
        n_unlabelled=len(table) - len(labelled),
        n_weightless=len(labelled) - len(train) - len(test),
    )


def choose_encoding(training: Training, options: TrainingOptions) -> Training:
    """Return the table encoded by "auto": the best rule on held-out rows, without inputs that do not help."""
    rows = DistinctRows.of(training.X)
    standard = training.encoder.encoding
    many = np.any((training.X > training.X.min(axis=0)) & (training.X < training.X.max(axis=0)), axis=0)
    n_numbers = sum(one.kind == "value" and bool(own) for one, own in zip(standard.expressions, many, strict=False))
    counts = affordable_thresholds(n_numbers, standard.width, training.y[:1].size, rows.count)
    rules = [EncodingRule(encoding="both", n_thresholds=count, cut=CUT) for count in counts]
    activation = get_activation(options.activation)
    tables = chain([training], (training.by_rule(rule, activation) for rule in rules))
    candidates = (Candidate(one, 0, one.problem(options)) for one in tables)
    with options.choosing():
        found = first_clear_best(candidates, rows)
        best: Training = found.encoding
        kept = useful_inputs(found.problem, rows, best.encoder.width, found.fit)
    return best if len(kept) == best.encoder.width else best.restricted(kept, activation)
