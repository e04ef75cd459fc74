"""A rival of `proven.py` on one split, run by the Python of an environment that has its package.

    python proven_fit.py pystreed problem.npz answer.json

The script imports only NumPy and the rival, with what the rival itself needs. It reads the rows, the folds and the
limit of CPU seconds from the problem, chooses a setting by its mean accuracy on the folds, fits it to all rows, and
writes the model and its predictions.

Settings are tried in order of size while time is left, less that of one fold, which the last fit needs. The solvers
stop by wall time, so they receive what is left of the CPU time, times the ratio of wall time to CPU time so far.
"""

import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
import time
import warnings

import numpy as np


class Clock:
    """CPU seconds since the clock was made, and how much slower wall time is."""

    def __init__(self):
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def spent(self):
        """Return the CPU seconds since the clock was made."""
        return time.process_time() - self.cpu

    def wall_of(self, seconds):
        """Convert CPU seconds to wall seconds, at least a hundredth."""
        # The ratio of shorter times is noise.
        slower = (time.perf_counter() - self.wall) / self.spent() if self.spent() > 0.1 else 1.0
        return max(seconds * max(slower, 1.0), 0.01)


class Pystreed:
    """Optimal trees for the thresholds of STreeD's own binarisation at quantiles, 5 (its default) or 10 a column.

    The number of splits is chosen up to depth 4.
    """

    settings = (
        *({"splits": n, "depth": min(n, 3), "thresholds": t} for t in (5, 10) for n in (1, 2, 3, 4, 5, 7)),
        *({"splits": n, "depth": 4, "thresholds": t} for t in (5, 10) for n in (5, 7, 11, 15)),
    )

    def fit(self, X, y, setting, seconds):
        """Return the tree of a setting."""
        from pystreed import STreeDClassifier

        return STreeDClassifier(
            max_depth=setting["depth"],
            max_num_nodes=setting["splits"],
            n_thresholds=setting["thresholds"],
            time_limit=seconds,
        ).fit(X, y)

    def predict(self, model, X):
        """Return classes."""
        return np.asarray(model.predict(X))

    def described(self, model):
        """Return whether the tree is proven optimal, and the tree on the columns of the rows."""
        thresholds = model.binarizer_.continuous_binarizer.thresholds_
        columns = [(column, float(cut)) for column, cuts in enumerate(thresholds) for cut in cuts]

        def below(node):
            if node.is_leaf_node():
                return int(node.label)
            # The right child has the rows of which the binary column `x <= t` is 1.
            return [*columns[node.feature], below(node.right_child), below(node.left_child)]

        return {"proven": bool(model.fit_result.is_optimal()), "tree": below(model.tree_)}


class Pycontree:
    """Optimal trees for every threshold that the rows allow; depth and cost of a split are chosen, up to depth 4."""

    settings = (
        *({"depth": depth, "cost": 0.0} for depth in (1, 2, 3)),
        *({"depth": 3, "cost": cost} for cost in (0.02, 0.01, 0.005)),
        *({"depth": 4, "cost": cost} for cost in (0.0, 0.01, 0.005)),
    )

    def fit(self, X, y, setting, seconds):
        """Return the tree of a setting."""
        from pycontree import ConTree

        return ConTree(max_depth=setting["depth"], complexity_cost=setting["cost"], time_limit=seconds).fit(X, y)

    def predict(self, model, X):
        """Return classes."""
        return np.asarray(model.predict(X))

    def described(self, model):
        """Return whether the tree is proven optimal, and the tree."""

        def below(node):
            if node.is_leaf_node():
                return int(node.get_label())
            split = [int(node.get_split_feature()), float(node.get_split_threshold())]
            return [*split, below(node.get_left()), below(node.get_right())]

        return {"proven": bool(model._config.is_within_time_limit()), "tree": below(model.get_tree())}


class Fasterrisk:
    """Sparse scores: integers of at most 5, added up over the binary columns of FasterRisk's own binarisation.

    The number of terms is chosen. A fit has no time limit and no proof; the choice ends after the fit that exceeds it.
    """

    settings = tuple({"terms": k} for k in (1, 2, 3, 5, 7, 10, 15, 20))

    def fit(self, X, y, setting, seconds):
        """Return the binarisation, the constant and the integers of the score of least logistic loss in the pool."""
        from fasterrisk.binarization_util import BinBinarizer
        from fasterrisk.fasterrisk import RiskScoreOptimizer

        binarizer = BinBinarizer()
        columns = binarizer.fit_transform(self._frame(X))[0].to_numpy(dtype=float)
        model = RiskScoreOptimizer(X=columns, y=2.0 * y - 1.0, k=min(setting["terms"], columns.shape[1]))
        model.optimize()
        _, constant, coefficients = model.get_models(model_index=0)
        return binarizer, float(constant), np.asarray(coefficients)

    def predict(self, model, X):
        """Return classes."""
        binarizer, constant, coefficients = model
        columns = binarizer.transform(self._frame(X))[0].to_numpy(dtype=float)
        return (columns @ coefficients + constant > 0.0).astype(int)

    def described(self, model):
        """Return the constant and the terms of the score."""
        binarizer, constant, coefficients = model
        terms = [
            [int(one["col"]), float(one["threshold"]), int(coefficient)]
            for one, coefficient in zip(binarizer.binarizers, coefficients)  # noqa: B905, for Python 3.9
            if coefficient
        ]
        return {"constant": constant, "terms": terms}

    def _frame(self, X):
        import pandas as pd

        return pd.DataFrame(X, columns=[str(column) for column in range(X.shape[1])])


RIVALS = {"pystreed": Pystreed, "pycontree": Pycontree, "fasterrisk": Fasterrisk}


def choose(rival, X, y, folds, limit, clock):
    """Return the mean accuracies on the folds of the settings for which there is time, in order."""
    scores, enough = [], limit * len(folds) / (len(folds) + 1)
    for setting in rival.settings:
        right = []
        for train, valid in folds:
            left = enough - clock.spent()
            if left <= 0.0:
                return scores
            model = rival.fit(X[train], y[train], setting, clock.wall_of(left / (len(folds) - len(right))))
            right.append(float(np.mean(rival.predict(model, X[valid]) == y[valid])))
        scores.append(float(np.mean(right)))
    return scores


def answer(name, problem):
    """Return the model chosen and fitted on a split, with its predictions of the test rows."""
    rival, X, y, limit = RIVALS[name](), problem["X"], problem["y"], float(problem["limit"])
    folds = [(problem[f"train_{k}"], problem[f"valid_{k}"]) for k in range(int(problem["folds"]))]
    # The import is not part of the time.
    importlib.import_module(name)
    clock = Clock()
    scores = choose(rival, X, y, folds, limit, clock)
    # Of equal accuracies the first, which is the smallest model.
    best = int(np.argmax(scores)) if scores else 0
    model = rival.fit(X, y, rival.settings[best], clock.wall_of(limit - clock.spent()))
    return {
        "seconds": clock.spent(),
        "version": importlib.metadata.version(name),
        "chosen": rival.settings[best],
        "settings": len(scores),
        "last": best + 1 >= len(scores),
        "predictions": rival.predict(model, problem["X_test"]).astype(int).tolist(),
        **rival.described(model),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        found = answer(sys.argv[1], np.load(sys.argv[2]))
    with open(sys.argv[3], "w") as file:
        json.dump(found, file)
