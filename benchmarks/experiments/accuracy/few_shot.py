"""Ten and forty images per class of MNIST and Fashion-MNIST, against networks trained by mixed-integer programming.

The protocol is that of BeMi (Bernardelli, Gualandi, Lau, Milanesi, Yorke-Smith, Multi-Objective Linear Ensembles for
Robust and Sparse Training of Few-Bit Neural Networks, arXiv:2212.03659) as in its authors' program,
INFORMSJoC/2023.0281: a draw is the next images of every class in the order of the training set; the first 800 test
images of every class are predicted. Their ensemble has 45 networks of layers 784, 4, 4, 1 (or 784, 10, 3, 1), one per
pair of classes, with weights -1, 0 and 1: 142,020 weights, 225 kbit at log2(3) each. Their accuracies are second-hand.
For MNIST they are those of the abstract (68.4 and 81.8 %), or of Figure 3 if that is higher; for Fashion-MNIST, those
of the better of both ensembles in Figure 3, read from the coordinates of its drawing.

Pixels are in [0, 1], as means over blocks of 2 x 2 or 4 x 4, for our models and all rivals that we train; BeMi's
networks see all 784 pixels. All hyper-parameters are chosen inside the training images: the network chooses its own,
those of the rivals are chosen on one stratified held-out fifth.

The series "default" is this package's classifier. No constant column is appended to its inputs, since it has one. Betas
are "auto", chosen inside the training images. There are ten draws. Seconds are CPU time of one thread.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.data.sets import images, pooled
from benchmarks.machinery.common import TARGET, Records, experiment_in, grid, where
from benchmarks.machinery.verdicts import Claim
from benchmarks.methods.budget import BUDGET
from benchmarks.methods.equal_bits import models, printed_claim, rival_claims, tables
from benchmarks.methods.models import Sample
from benchmarks.uci.data import Split
from benchmarks.versions import ESTIMATORS

SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
#: Pixels per side of an image.
SIDES = (7, 14)
COUNTS, DRAWS = (10, 40), 10
TESTED = 800
#: Accuracy of BeMi's ensemble by set and images per class.
PRINTED = {("mnist", 10): 0.704, ("mnist", 40): 0.818, ("fashion_mnist", 10): 0.671, ("fashion_mnist", 40): 0.707}


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(side=4, set="mnist", images=5, seed=0, epochs=3)
    return grid(side=SIDES, set=SETS, images=COUNTS, seed=range(DRAWS))


def drawn(y: np.ndarray, count: int, number: int = 0) -> np.ndarray:
    """Return the rows of a draw: `count` of each class, in their order, after those of earlier draws."""
    return np.concatenate([np.flatnonzero(y == k)[number * count : (number + 1) * count] for k in np.unique(y)])


def run(case: dict[str, Any]) -> dict[str, Any]:
    from sklearn.model_selection import StratifiedShuffleSplit

    X, X_test, y, y_test = images(case["set"])
    rows, tested = drawn(y, case["images"], case["seed"]), drawn(y_test, TESTED)
    inputs, tests = pooled(X[rows], case["side"]), pooled(X_test[tested], case["side"])
    split = Split(inputs, tests, y[rows], y_test[tested], 10)
    fifth = StratifiedShuffleSplit(1, test_size=0.2, random_state=case["seed"])
    folds = list(fifth.split(split.X, split.y))
    family = partial(models, n_epochs=case.get("epochs", BUDGET.n_epochs))
    return {"models": Sample(split, folds, case["seed"]).models_of(family)}


def claims(records: Records) -> list[Claim]:
    made = []
    for side in SIDES:
        for (name, count), accuracy in PRINTED.items():
            group = "The default classifier is more accurate than BeMi's ensemble of the same images"
            own = where(records, side=side, set=name, images=count)
            case = f"{SETS[name]}, {side} x {side} pixels, {count} a class"
            made.append(printed_claim(own, f"{group}: {case}.", accuracy, "BeMi", group, case))
    return made + rival_claims(records, "Of few images", "side", "set", "images", "seed")


#: The answer on top of the page.
ANSWER = """\
Beside the accuracies of BeMi, ensembles of networks trained by mixed-integer programs on the same images, the default
classifier is shown to be more accurate in {few_shot: BeMi # supported} settings, and less accurate in
{few_shot: BeMi # contradicted}. Where other models take no more bits, its accuracy differs from that of
straight-through training by {few_shot: straight-through}, of rounded logistic regression by
{few_shot: logistic regression}, and of a decision tree by {few_shot: decision tree};
{few_shot: Of few images # supported} of these advantages are significant.
"""

#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "backprop")
EXPERIMENT = experiment_in(
    __name__,
    "Few images: beside networks trained by mixed-integer programming",
    TARGET,
    tables=tables,
)
