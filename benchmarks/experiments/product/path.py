"""What a path saves: warm against cold starts, and the cross-validated estimator against a grid search.

Betas are a geometric grid from 0.9 to 0.001 of the largest, standardised training rows and a column of ones; the
planted set has many samples, whose Gram matrix the path computes once and cold solves once each. Iterations are the
solvers' own, added over the betas that both ways have solved; they do not depend on the machine. Seconds are the
processor's on one thread, after a small run that is not counted; cold solves come first in every other split.

The estimator and scikit-learn's grid search have the same folds, betas and network size. As it comes the estimator
scores the relaxation on the rows held out, and so does a grid search that is given this score. With
``evaluate="network"`` it scores sampled networks, as a grid search does by itself; but each fold has a seed of its own
there, and one for all in a grid search.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import (
    TARGET,
    Records,
    experiment_in,
    medians,
    percent,
    timed,
    values,
    where,
)  # fmt: skip
from benchmarks.experiments._data import standardised, with_constant
from qsdp.bench import Claim, Record, compare, exact, judged
from qsdp.estimators.classes import encode_classes
from qsdp.losses import get_loss

SETS = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
PLANTED = "planted"
LOSSES = ("squared", "huber", "squared_hinge")
SOLVERS = ("interior", "splitting")
#: What the estimator scores, and the grid search that does so, too.
SEARCHES = {"relaxation": "relaxed_search", "network": "search"}
SPLITS, BETAS, SAMPLES = 10, 15, 20_000
#: Rows of the planted set that are held out, and its columns.
HELD_OUT, COLUMNS = 2000, 20
#: Twice the tolerance: by how much two solutions to it may differ.
AGREEMENT = 2e-6
#: Where seconds are compared.
PLACES = {"the UCI sets": SETS, "many samples (planted)": (PLANTED,)}


def fewer(solver: str, loss: str) -> tuple[str, str]:
    """Return source and statement of the claim of a solver and a loss."""
    return TARGET, f"Warm starts along a path need fewer iterations than cold solves: {solver}, {loss}."


def chosen(evaluate: str) -> tuple[str, str]:
    return TARGET, f"The cross-validated estimator chooses the beta of a grid search, both scoring the {evaluate}."


SAME = (TARGET, "Path and cold solves end at the same optimum, to twice their tolerance.")


def cases(quick: bool) -> list[dict[str, Any]]:
    sizes = {"betas": 6, "samples": 1000} if quick else {"betas": BETAS, "samples": SAMPLES}
    sets, losses, splits = (SETS[:1], LOSSES[:1], 1) if quick else (SETS, LOSSES, SPLITS)
    made: list[dict[str, Any]] = []
    for split in range(splits):
        for name in (*sets, PLANTED):
            own = {"data": name, "split": split, **sizes}
            made += [
                {"kind": "path", "loss": loss, "solver": solver, **own}
                for loss in (losses if name != PLANTED else LOSSES[:1])
                for solver in SOLVERS
            ]
            made.append({"kind": "folds", **own})
    return made


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = data(case["data"], case["samples"], case["split"])
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Betas that are not solved are counted.
        warnings.simplefilter("ignore")
        if case["kind"] == "folds":
            return validated(X, X_test, y, y_test, case["betas"], case["split"])
        return compared(X, y, case["loss"], case["solver"], case["betas"], case["split"] % 2 == 1)


def data(name: str, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if name != PLANTED:
        return standardised(name, seed)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples + HELD_OUT, COLUMNS))
    y = (X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] + rng.standard_normal(len(X)) > 0).astype(int)
    return X[:samples], X[samples:], y[:samples], y[samples:]


def problem_of(X: np.ndarray, y: np.ndarray, loss: str) -> qsdp.TrainingProblem:
    """Return the training problem of labels, with a constant column; its beta is none of the path."""
    classes, codes = np.unique(y, return_inverse=True)
    targets = encode_classes(codes, len(classes), get_loss(loss))
    return qsdp.TrainingProblem(with_constant(X)[0], targets, beta=1.0, loss=loss)


def compared(X: np.ndarray, y: np.ndarray, loss: str, solver: str, number: int, warm_first: bool) -> dict[str, Any]:
    """Return iterations, seconds and failures of cold solves and of the path, whichever is first."""
    small = problem_of(X[:40, :3], y[:40], loss)
    qsdp.relaxation_path(small, 2, solver=solver)
    problem = problem_of(X, y, loss)
    betas = qsdp.beta_max(problem) * np.geomspace(0.9, 1e-3, number)
    ways: dict[str, Callable[[], Any]] = {
        "cold": lambda: [qsdp.solve_relaxation(problem.with_beta(beta), solver=solver) for beta in betas],
        "path": lambda: list(qsdp.relaxation_path(problem, betas, solver=solver)),
    }
    found = {name: timed(ways[name]) for name in (reversed(ways) if warm_first else ways)}
    cold, path = (found[name][0] for name in ways)
    both = [a.status == b.status == "optimal" for a, b in zip(cold, path, strict=True)]
    apart = [abs(a.objective - b.objective) / abs(a.objective) for a, b in zip(cold, path, strict=True)]
    return {
        "betas": (betas / betas[0]).tolist(),
        "solved": both,
        "apart": max((distance for distance, known in zip(apart, both, strict=True) if known), default=None),
        **{f"{name}_seconds": seconds for name, (_, seconds) in found.items()},
        **{f"{name}_iterations": [one.iterations or 0 for one in solved] for name, (solved, _) in found.items()},
        **{f"{name}_unsolved": sum(one.status != "optimal" for one in solved) for name, (solved, _) in found.items()},
    }


#: Of the estimators: the networks of the paper's algorithm, for inputs as they are.
OPTIONS: dict[str, Any] = {
    "n_neurons": 1000,
    "activation": None,
    "encoding": "none",
    "refine": "none",
    "tol": 1e-6,
    "allocation": "equal",
}


def validated(
    X: np.ndarray, X_test: np.ndarray, y: np.ndarray, y_test: np.ndarray, number: int, seed: int
) -> dict[str, Any]:
    """Return seconds, the beta chosen and test accuracies of the estimator and of a grid search."""
    rows = np.concatenate([np.flatnonzero(y == label)[:10] for label in np.unique(y)])
    qsdp.QuantizedNetworkClassifierCV(50, betas=2, cv=2, random_state=0).fit(X[rows], y[rows])
    measured: dict[str, Any] = {}
    for evaluate, name in SEARCHES.items():
        model = qsdp.QuantizedNetworkClassifierCV(betas=number, evaluate=evaluate, random_state=seed, **OPTIONS)
        _, measured[f"{evaluate}_seconds"] = timed(functools.partial(model.fit, X, y))
        measured[evaluate] = {"beta": float(model.beta_), "test": float(model.score(X_test, y_test))}
        measured["betas"] = [float(beta) for beta in model.betas_]
        plain = qsdp.QuantizedNetworkClassifier(random_state=seed, **OPTIONS)
        scoring = relaxed_score if evaluate == "relaxation" else None
        search = GridSearchCV(plain, {"beta": measured["betas"]}, cv=5, scoring=scoring)
        _, measured[f"{name}_seconds"] = timed(functools.partial(search.fit, X, y))
        test = float(search.best_estimator_.score(X_test, y_test))
        measured[name] = {"beta": float(search.best_params_["beta"]), "test": test}
    return measured


def relaxed_score(model: qsdp.QuantizedNetworkClassifier, X: np.ndarray, y: np.ndarray) -> float:
    outputs = model.target_scaling_.decode(model.result_.relaxation.predict(with_constant(X)[0]))
    decided = outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0.0).astype(int)
    return float(np.mean(model.classes_[decided] == y))


def iterations(record: Record, which: str) -> int:
    """Return the iterations of the betas that both ways have solved."""
    counts, solved = record.measured[f"{which}_iterations"], record.measured["solved"]
    return sum(count for count, known in zip(counts, solved, strict=True) if known)


def claims(records: Records) -> list[Claim]:
    paths, folds = where(records, kind="path"), where(records, kind="folds")
    made = []
    for solver in SOLVERS:
        for loss in LOSSES:
            group = [r for r in where(paths, solver=solver, loss=loss) if any(r.measured["solved"])]
            both = ({key(r): float(iterations(r, way)) for r in group} for way in ("path", "cold"))
            made.append(_on_every_set(fewer(solver, loss), *both))
    for solver in SOLVERS:
        for place, sets in PLACES.items():
            claim = (TARGET, f"A path takes less time than cold solves: {solver}, {place}.")
            made.append(_seconds_claim(claim, where(paths, data=sets, solver=solver), "path", "cold"))
    apart = values(paths, "apart")
    made.append(exact(*SAME, apart <= AGREEMENT, f"relative differences {medians(apart)}", needed=SPLITS))
    for evaluate, search in SEARCHES.items():
        for place, sets in PLACES.items():
            statement = "The cross-validated estimator is faster than a grid search, both scoring the"
            claim = (TARGET, f"{statement} {evaluate}: {place}.")
            made.append(_seconds_claim(claim, where(folds, data=sets), evaluate, search))
    for evaluate, search in SEARCHES.items():
        pairs = [(r.measured[evaluate], r.measured[search]) for r in folds]
        figures = f"test accuracy minus the grid search's {percent([a['test'] - b['test'] for a, b in pairs])} points"
        made.append(exact(*chosen(evaluate), [a["beta"] == b["beta"] for a, b in pairs], figures, needed=SPLITS))
    return made


def key(record: Record) -> tuple[Any, ...]:
    """Return what tells records apart that are compared in pairs, the set first."""
    return tuple(record.case.get(name) for name in ("data", "loss", "split"))


def _on_every_set(claim: tuple[str, str], ours: dict[Any, float], theirs: dict[Any, float]) -> Claim:
    """Return the claim that ours is less on every set, whose name is the first of a key."""
    parts = {}
    for name in dict.fromkeys(key[0] for key in ours):
        own, others = ({key: value for key, value in one.items() if key[0] == name} for one in (ours, theirs))
        parts[name] = compare(own, others, less=True, log=True)
    return judged(*claim, parts)


def _seconds_claim(claim: tuple[str, str], group: Records, ours: str, theirs: str) -> Claim:
    """Compare seconds in pairs of a set, a split and, for paths, a loss."""
    both = ({key(r): r.measured[f"{which}_seconds"] for r in group} for which in (ours, theirs))
    return _on_every_set(claim, *both)


EXPERIMENT = experiment_in(__name__, "What a path of betas saves", "Targets of the package")
