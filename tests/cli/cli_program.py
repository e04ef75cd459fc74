"""The program as the tests of this folder run it, and its reports as they read them."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import numpy as np
import pandas as pd
from command_line import run

import qsdp

#: What fits messy.csv in the current folder, each target without the other, of columns standardised.
FIT_LABEL = ("fit", "messy.csv", "--encoding", "standard", "--target", "label", "--drop", "id", "--drop", "price")


def messy(n: int = 120, seed: int = 0) -> bytes:
    """A file as people have them: a byte order mark, semicolons, quotes, gaps, blank lines, odd columns."""
    rng = np.random.default_rng(seed)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=";")
    writer.writerow(["id", "age", "income [EUR]", "city", "sex", "const", "empty", "label", "price"])
    cities = ["Oslo", "Rome; IT", 'Paris "centre"', "Zürich"]
    for i in range(n):
        age, city, sex = rng.normal(50, 10), rng.integers(4), rng.integers(2)
        value = (age - 50) / 10 * (1 if sex else -1) + (city == 1) + 0.3 * rng.normal()
        writer.writerow(
            [
                f"id-{i}",
                "" if i % 17 == 0 else f"{age:.2f}",
                "?" if i % 23 == 0 else f"{rng.lognormal(10, 1):.1f}",
                cities[city] if i % 11 else "NA",
                "mf"[sex],
                "1",
                "",
                "" if i % 31 == 30 else "yes" if value > 0 else "no",
                f"{1000 + 200 * value:.3f}",
            ]
        )
        if i % 50 == 0:
            stream.write("\r\n")
    return stream.getvalue().encode("utf-8-sig")


def flowers() -> str:
    """Iris as a file: three classes."""
    data = qsdp.datasets.load_bundled("iris")
    rows = [
        ",".join([*map(str, row), data.target_names[code]]) for row, code in zip(data.X.tolist(), data.y, strict=True)
    ]
    return "\n".join(["sl,sw,pl,pw,kind", *rows]) + "\n"


def inputs(model: Any, table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a table that a model uses."""
    return table[list(model.feature_names_in_)]


def split(table: pd.DataFrame, target: str, test_size: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the training and the test rows of a table of positive weights, with the seed 0."""
    known = table[table[target].notna()]
    order = np.random.default_rng(0).permutation(len(known))
    n_train = int(round((1.0 - test_size) * len(known), 9))
    return known.take(order[:n_train]), known.take(order[n_train:])


def refused(*arguments: Any, code: int = 2) -> str:
    """Run, expect one line of error and nothing else, and return it."""
    result = run(*arguments)
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


def figure(text: str, label: str) -> str:
    found = re.search(rf"^{re.escape(label)}  +(.*)$", text, re.MULTILINE)
    assert found, (label, text)
    return found[1]


def number(text: str, label: str) -> float:
    return float(figure(text, label).split()[0].replace(",", ""))
