"""Experiment with every method on every split of every set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qsdp._utils.validation import check_choice, check_integer
from qsdp.bench._experiment import Case, Experiment
from qsdp.bench.uci.data import LARGE, SETS, split_cases
from qsdp.bench.uci.measure import run
from qsdp.bench.uci.methods import METHODS
from qsdp.bench.uci.report import claims, tables

__all__ = ["EXPERIMENT", "N_SEEDS", "uci_experiment"]

#: Number of splits: fewer of large sets, where they differ less and a case can take minutes.
N_SEEDS = dict.fromkeys(SETS, 10) | dict.fromkeys(LARGE, 3) | {"adult": 1}
#: What gradients train takes a minute a split: as many splits, of all sets but those where it takes half an hour.
_N_TRAINED, _TOO_LARGE = 2, ("letter", "adult")
_PROTOCOL = (
    "Every seed is a stratified split 80/20, ten of small sets, three of large ones, one of adult; networks trained by "
    "gradients have the first two of all sets but letter and adult. Categorical columns are one 0/1 column a value; "
    "columns have mean zero and deviation one over the training part. Hyper-parameters are those of the highest "
    "accuracy inside the training part, on the same folds for all methods (five up to 500 rows, three up to 2000, "
    "beyond that one held-out fifth); then a fit to the whole training part. Betas of the relaxation: nine, down to a "
    "ten-thousandth of the largest useful one; learning rates and beta of trained networks: three times three, and "
    "more where the best lies at an edge. Test rows play no part. One thread. The certificate bounds the training "
    "objective of every network with the same levels, beta and loss; for trained networks it is made afterwards, "
    "outside their time. Float weights count 64 bits, levels the logarithm of their number; trees a threshold, a "
    "column and a bit a split, a value (one tree a class) and a bit a leaf."
)
#: Small, and bundled: they need no network.
_QUICK_SETS = ("iris", "wine", "breast-cancer-wisconsin")
_QUICK_METHODS = ("qsdp-250", "qsdp-refit", "relaxation", "logistic", "quadratic-ridge")


def uci_experiment(
    sets: Sequence[str] | None = None, methods: Sequence[str] | None = None, n_seeds: int | None = None
) -> Experiment:
    """Return the suite, or a part of it: some of `SETS`, some of `METHODS`, so many splits of every set.

    By default there are all sets and methods and the splits of `N_SEEDS`; if quick three small sets, five fast methods
    and one split. A case is a set, a method and a seed, in the order of `split_cases`. An `InvalidInputError` says that
    a name is unknown, or the number not positive.
    """
    chosen_sets = None if sets is None else _checked("sets", sets, SETS)
    chosen_methods = None if methods is None else _checked("methods", methods, METHODS)
    if n_seeds is not None:
        check_integer("seeds", n_seeds, minimum=1)

    def cases(quick: bool) -> list[Case]:
        names = chosen_sets or (_QUICK_SETS if quick else SETS)
        competitors = chosen_methods or (_QUICK_METHODS if quick else tuple(METHODS))
        splits = {name: n_seeds or (1 if quick else N_SEEDS[name]) for name in names}
        found = split_cases(splits, "method", competitors)
        return found if n_seeds else [case for case in found if not _is_left_out(case)]

    return Experiment(
        name="uci",
        title="UCI suite",
        source="UCI Machine Learning Repository and scikit-learn's sets; stratified splits 80/20, training statistics",
        cases=cases,
        run=run,
        tables=tables,
        claims=claims,
        version=2,
        extra={"Protocol": _PROTOCOL},
    )


def _is_left_out(case: Case) -> bool:
    """Return whether a case of a network trained by gradients is one too many."""
    trained = METHODS[case["method"]].needs is not None
    return trained and (case["seed"] >= _N_TRAINED or case["set"] in _TOO_LARGE)


def _checked(what: str, names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return distinct names in the suite's order."""
    allowed = list(known)
    chosen = {check_choice(what, name, allowed) for name in names}
    return [name for name in allowed if name in chosen]


EXPERIMENT = uci_experiment()
