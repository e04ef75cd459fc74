"""The default classifier: stability over halves of large tables, its time beside boosting, and many columns.

    half    a random half of a large table trains, the other half is predicted; halves are the same for all models.
            "generated" has 32,000 rows, 15 numbers and 10 categorical columns, of which 14 are noise, with interactions
            and 14 % of positives; "adult" has the 32,561 rows of its training file
    time    generated tables of numbers with many classes, and one half of "generated", after a fit to few rows
    wide    generated tables of 200 normal columns of which six determine the class, up to noise: by two products and
            two squares ("products"), by three pairs of thresholds ("steps"), or by a sum of functions of one column
            each ("sums"); as many rows are predicted, 3000 at least

"logistic" is scikit-learn's logistic regression on standardised numbers and one-hot categories, and "boosting" its
`HistGradientBoostingClassifier`; both have their default parameters. No constant column is appended to the inputs of
our classifier, since it has one; its beta is "auto", and its bits include positions on columns. Seconds are CPU time
of one thread for the fit. The figure shows means and deviations over the tables of "wide".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import qsdp
from benchmarks.data.uci_sets import load_uci
from benchmarks.machinery import draw
from benchmarks.machinery.common import (
    TARGET,
    Records,
    by,
    experiment_in,
    grid,
    grouped,
    over_sets,
    timed,
    values,
    where,
)  # fmt: skip
from benchmarks.machinery.verdicts import Claim, exact, paired_claim
from benchmarks.methods.bits import model_bits
from benchmarks.versions import ESTIMATORS
from qsdp._utils.parallel import blas_threads

#: Repetitions.
HALVES = 10
#: Rows of a half of the generated table, numbers of categories of its columns, and rows of a half of a quick run.
HALF, CATEGORIES, FEW = 16_000, (2, 3, 4, 5, 6, 8, 10, 12, 15, 20), 300
#: Columns of "adult" with categories.
ADULT_CATEGORIES = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)
#: Rows, columns and classes of tables of numbers, and the largest multiple of the time of boosting that is allowed.
SHAPES = {
    "742 x 13, 11 classes": (742, 13, 11),
    "270 x 90, 15 classes": (270, 90, 15),
    "4800 x 36, 6 classes": (4800, 36, 6),
}
TIMES = {"742 x 13, 11 classes": 5, "270 x 90, 15 classes": 5, "4800 x 36, 6 classes": 6, "generated": 5}
#: Multiple of the deviation of logistic regression, and points more, that are allowed.
MULTIPLE, POINTS = 1.3, 0.5
#: Columns and rows of wide tables, and scores of rows without noise by the name of the table.
WIDE, WIDE_ROWS = 200, (300, 1000, 3000)
SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "products": lambda X: X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] + 0.7 * (X[:, 4] ** 2 - X[:, 5] ** 2),
    "steps": lambda X: 4.0 * sum((X[:, 2 * k] > 0.0) & (X[:, 2 * k + 1] > 0.0) for k in range(3)) - 3.0,
    "sums": lambda X: np.sin(2.0 * X[:, :2]).sum(axis=1) + np.abs(X[:, 2]) - np.abs(X[:, 3]) + X[:, 4] - X[:, 5],
}

#: Rows that train, their classes, rows to predict, and their classes.
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(kind="half", table="generated", rows=FEW, seed=range(2), model=("default", "logistic"))
    halves = grid(kind="half", table=("generated", "adult"), rows=HALF, seed=range(HALVES), model=MODELS)
    wide = grid(kind="wide", seed=range(HALVES), rows=WIDE_ROWS, table=SCORES, model=MODELS)
    return (
        wide
        + halves
        + grid(kind="time", table=(*SHAPES, "generated"), rows=HALF, seed=0, model=("default", "boosting"))
    )


def run(case: dict[str, Any]) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    split = split_of(case)
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[case["model"]](case["seed"])
        if case["kind"] == "time":
            # The first fit of a process also loads libraries.
            model.fit(split[0][:FEW], split[1][:FEW])
        _, seconds = timed(lambda: model.fit(split[0], split[1]))
        found = {"accuracy": float(model.score(split[2], split[3])), "seconds": seconds}
        if len(model.classes_) == 2:
            found["area"] = float(roc_auc_score(split[3], model.predict_proba(split[2])[:, 1]))
    if case["model"] == "default":
        found |= {
            "neurons": model.network_.n_neurons,
            "inputs": model.encoder_.inputs_.encoding_.width,
            "bits": model_bits(model),
            "gap": model.certificate_.relative_gap,
        }
    return found


# -- tables ----------------------------------------------------------------------------------------------


def split_of(case: dict[str, Any]) -> Split:
    if case["table"] in SHAPES:
        return numbers(*SHAPES[case["table"]])
    if case["table"] in SCORES:
        return few_of_many(case["table"], case["rows"], case["seed"])
    table, y = generated(2 * case["rows"]) if case["table"] == "generated" else adult()
    order = np.random.default_rng(case["seed"]).permutation(len(y))
    train, test = np.split(order, [len(y) // 2])
    return table.iloc[train], y[train], table.iloc[test], y[test]


def numbers(n: int, d: int, n_classes: int) -> Split:
    """Return classes of two clusters each, in correlated columns, with as many rows to predict."""
    from sklearn.datasets import make_classification

    informative = min(d, 10)
    X, y = make_classification(
        2 * n,
        d,
        n_informative=informative,
        n_redundant=d - informative,
        n_classes=n_classes,
        class_sep=1.5,
        random_state=0,
    )
    return X[:n], y[:n], X[n:], y[n:]


def few_of_many(name: str, n: int, seed: int) -> Split:
    """Return n rows of many columns to train and at least 3000 to predict, and classes that depend on six columns."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + max(n, 3000), WIDE))
    y = (SCORES[name](X) + 0.5 * rng.logistic(size=len(X)) > 0.0).astype(int)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(WIDE)])
    return table[:n], y[:n], table[n:], y[n:]


def generated(n: int) -> tuple[Any, np.ndarray]:
    """Return n rows of 15 numbers and 10 columns of categories, and classes of which 14 % are positive."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 15))
    X[:, 5:10], X[:, 10:12] = np.exp(X[:, 5:10]), np.round(3.0 * X[:, 10:12])
    codes = [rng.integers(0, count, n) for count in CATEGORIES]
    score = 0.7 * X[:, 0] - 0.5 * np.log(X[:, 5]) + 0.6 * X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 4]) + 0.1 * X[:, 10]
    score += 0.8 * ((X[:, 3] > 0.5) & (codes[0] == 1))
    for own, count in zip(codes[:4], CATEGORIES, strict=False):
        score += 0.5 * rng.standard_normal(count)[own]
    score += rng.logistic(size=n)
    table = {f"x{j}": X[:, j] for j in range(15)}
    table |= {f"c{j}": pd.Categorical([f"v{code}" for code in own]) for j, own in enumerate(codes)}
    return pd.DataFrame(table), (score > np.quantile(score, 0.86)).astype(int)


def adult() -> tuple[Any, np.ndarray]:
    """Return the training rows of "adult" with their categories, and whether incomes are high."""
    import pandas as pd

    data = load_uci("adult")
    table = pd.DataFrame(data.X, columns=data.feature_names).iloc[: data.n_train]
    for name in ADULT_CATEGORIES:
        table[name] = pd.Categorical([f"v{code:.0f}" for code in table[name]])
    return table, (data.y[: data.n_train] > 0.0).astype(int)


# -- models ----------------------------------------------------------------------------------------------


def logistic(_seed: int) -> Any:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include=np.number)),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "default": lambda seed: qsdp.QuantizedNetworkClassifier(random_state=seed),
    "logistic": logistic,
    "boosting": boosting,
}


# -- claims ----------------------------------------------------------------------------------------------


def claims(records: Records) -> list[Claim]:
    made = []
    for table in ("generated", "adult"):
        for what in ("accuracy", "area"):
            made += stability(where(records, kind="half", table=table, rows=HALF), table, what)
    for table in SCORES:
        wide = where(records, kind="wide", table=table)
        ours, theirs = (
            over_sets(by(where(wide, model=model), "accuracy", "rows", "seed"), WIDE_ROWS)
            for model in ("default", "boosting")
        )
        statement = f"Wide tables of {table}: the default classifier is more accurate than boosting."
        made.append(paired_claim(TARGET, statement, ours, theirs, names=("default", "boosting")))
    for table, most in TIMES.items():
        seconds = by(where(records, kind="time", table=table), "seconds", "model")
        known = {"default", "boosting"} <= seconds.keys()
        figures = f"default {seconds['default']:.1f} s, boosting {seconds['boosting']:.1f} s" if known else ""
        short = [bool(seconds["default"] <= most * seconds["boosting"])] if known else []
        statement = f"{table}: a default fit takes at most {most} times as long as boosting."
        made.append(exact(TARGET, statement, short, figures))
    return made


def stability(records: Records, table: str, what: str) -> list[Claim]:
    """Return the claims that scores are as stable as those of logistic regression, and as high."""
    ours, others = (100.0 * values(where(records, model=model), what) for model in ("default", "logistic"))
    whole = len(ours) == len(others) == HALVES
    score = "accuracy" if what == "accuracy" else "area under the curve"
    shown = [f"{np.mean(one):.2f} +- {np.std(one, ddof=1):.2f}" for one in (ours, others)] if whole else []
    figures = f"default {shown[0]} %, logistic {shown[1]} %" if whole else ""
    spread = (
        f"Halves of {table}, {score}: the deviation is at most {MULTIPLE} times that of logistic regression + {POINTS}."
    )
    mean = f"Halves of {table}, {score}: the mean is at least that of logistic regression."
    steady = [bool(np.std(ours, ddof=1) <= MULTIPLE * np.std(others, ddof=1) + POINTS)] if whole else []
    return [
        exact(TARGET, spread, steady, figures),
        exact(TARGET, mean, [bool(np.mean(ours) >= np.mean(others))] if whole else [], figures),
    ]


def plot(records: Records) -> Any:
    """Draw the accuracy of every model against the rows of wide tables."""
    panels: dict[str, dict[str, dict[float, Any]]] = {}
    for (table, model, rows), group in grouped(where(records, kind="wide"), "table", "model", "rows").items():
        lines = panels.setdefault(f"{WIDE} columns, {table}", {})
        lines.setdefault(model, {})[rows] = 100.0 * values(group, "accuracy")
    return draw.curves(panels, "training rows", "test accuracy, %") if panels else None


#: The answer on top of the page.
ANSWER = """\
On halves of two large tables, mean scores of the default classifier are
[at least those of logistic regression]{default_fit: the mean is at least = 4 supported}, and their deviations
[within 1.3 times theirs and half a point]{default_fit: the deviation is at most = 3 supported, 1 contradicted} in
three of four cases. On tables of 200 columns, it is more accurate than boosting if classes depend on
[products]{default_fit: Wide tables of products = 1 supported} or
[sums]{default_fit: Wide tables of sums = 1 supported} of columns, by {default_fit: Wide tables of products} and
{default_fit: Wide tables of sums}, and [less accurate]{default_fit: Wide tables of steps = 1 contradicted} if they
depend on steps: {default_fit: Wide tables of steps}. On tables of numbers
with many classes, its fits take [at most five or six times as long]{default_fit: classes: a default fit = 3 supported}
as boosting, which were the targets; on a table with categories, [more than five times]{default_fit: generated: a
default fit = 1 contradicted}: {default_fit: generated: a default fit}.
"""


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    return ESTIMATORS if case["model"] == "default" else ()


#: Methods whose versions are stored with the records.
MEASURED = ESTIMATORS
EXPERIMENT = experiment_in(__name__, "Stability and time of the default classifier", "Targets of the package")
