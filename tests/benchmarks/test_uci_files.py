"""The loader of UCI sets against the real files, read without qsdp."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.data.uci_sets import load_uci

CONTINUOUS_CREDIT = {2: "A2", 3: "A3", 8: "A8", 11: "A11", 14: "A14", 15: "A15"}  # crx.names
CATEGORICAL_ADULT = (2, 4, 6, 7, 8, 9, 10, 14)  # adult.names
# letter-recognition.names
LETTERS = (
    789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792,
    783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734,
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("uci_available")


def read_frame(name):
    """The raw files as strings, read without qsdp; columns are numbered from 1 as in the .names files."""
    folder = Path(os.environ["QSDP_DATA"]) / "uci"
    options = {"header": None, "dtype": str, "keep_default_na": False}
    if name == "adult":
        options["skipinitialspace"] = True
        train = pd.read_csv(folder / "adult/adult.data", **options)
        test = pd.read_csv(folder / "adult/adult.test", skiprows=1, **options)
        test[14] = test[14].str.removesuffix(".")
        frame = pd.concat([train, test], ignore_index=True)
    elif name.startswith("wine-quality"):
        colours = [colour for colour in ("red", "white") if colour in name] or ["red", "white"]
        parts = [pd.read_csv(folder / f"wine-quality/winequality-{colour}.csv", sep=";") for colour in colours]
        frame = pd.concat(parts, ignore_index=True).set_axis(range(12), axis=1)
    elif name in {"vehicle", "heart"}:
        parts = [
            pd.read_csv(path, sep=r"\s+", **options)
            for path in sorted((folder / name).iterdir())
            if path.suffix == ".dat"
        ]
        frame = pd.concat(parts, ignore_index=True)
    else:
        (path,) = [path for path in (folder / name).iterdir() if path.suffix in {".data", ".txt"}]
        frame = pd.read_csv(path, **options)
    return frame.rename(columns=lambda i: i + 1)


def ranks(column):
    return pd.Categorical(column, categories=sorted(set(column))).codes.astype(float)


@pytest.mark.parametrize(
    ("name", "shape", "counts", "sizes"),
    [
        ("breast-cancer", (286, 9), {-1.0: 201, 1.0: 85}, (228, 58)),
        ("ionosphere", (351, 33), {-1.0: 126, 1.0: 225}, (280, 71)),
        ("credit-approval", (690, 15), {-1.0: 383, 1.0: 307}, (552, 138)),
        ("vehicle", (846, 18), {0: 218, 1: 212, 2: 217, 3: 199}, (676, 170)),
        ("adult", (48_842, 14), {-1.0: 37_155, 1.0: 11_687}, (39_073, 9769)),
        ("banknote", (1372, 4), {-1.0: 762, 1.0: 610}, (1097, 275)),
        ("heart", (270, 13), {-1.0: 150, 1.0: 120}, (216, 54)),
        ("pima", (768, 8), {-1.0: 500, 1.0: 268}, (614, 154)),
        ("spambase", (4601, 57), {-1.0: 2788, 1.0: 1813}, (3680, 921)),
        ("glass", (214, 9), {0: 70, 1: 76, 2: 17, 3: 13, 4: 9, 5: 29}, (171, 43)),
        ("letter", (20_000, 16), dict(enumerate(LETTERS)), (16_000, 4000)),
        (
            "wine-quality",
            (6497, 11),
            {0: 30, 1: 216, 2: 2138, 3: 2836, 4: 1079, 5: 193, 6: 5},
            (5197, 1300),
        ),
        ("wine-quality-red", (1599, 11), {0: 10, 1: 53, 2: 681, 3: 638, 4: 199, 5: 18}, (1279, 320)),
        ("wine-quality-white", (4898, 11), {0: 20, 1: 163, 2: 1457, 3: 2198, 4: 880, 5: 175, 6: 5}, (3918, 980)),
    ],
)
def test_shapes_counts_and_split_sizes(name, shape, counts, sizes):
    dataset = load_uci(name)
    assert dataset.X.shape == shape
    assert dataset.X.dtype == np.float64
    assert dataset.X.flags.c_contiguous
    assert dict(zip(*np.unique(dataset.y, return_counts=True), strict=True)) == counts
    assert dataset.y.dtype == (np.float64 if -1.0 in counts else np.int64)
    X_train, X_test, y_train, y_test = dataset.split()
    assert (len(X_train), len(X_test)) == (len(y_train), len(y_test)) == sizes
    for part in ("UCI", "Licence: ", "Source: https://", "Missing values"):
        assert part in dataset.description


def test_credit_approval_ranks_and_medians():
    dataset = load_uci("credit-approval")
    frame = read_frame("credit-approval")
    assert dataset.feature_names == tuple(f"A{i}" for i in range(1, 16))
    for i in range(1, 16):
        if i in CONTINUOUS_CREDIT:
            numbers = pd.to_numeric(frame[i].replace("?", np.nan))
            expected = numbers.fillna(numbers.median())
        else:
            expected = ranks(frame[i])
        np.testing.assert_array_equal(dataset.X[:, i - 1], expected)


@pytest.mark.parametrize(
    ("name", "categorical"),
    [("breast-cancer", range(2, 11)), ("credit-approval", {*range(1, 16)} - {*CONTINUOUS_CREDIT})],
)
def test_onehot_is_pandas_dummies(name, categorical):
    dataset = load_uci(name, encoding="onehot")
    frame = read_frame(name)
    ranked = load_uci(name)
    names = []
    for feature, i in zip(ranked.feature_names, range(2, 11) if name == "breast-cancer" else range(1, 16), strict=True):
        if i not in categorical:
            names.append(feature)
            np.testing.assert_array_equal(
                dataset.X[:, dataset.feature_names.index(feature)],
                ranked.X[:, ranked.feature_names.index(feature)],
            )
            continue
        dummies = pd.get_dummies(frame[i], prefix=feature, prefix_sep="=")
        names.extend(sorted(dummies.columns))
        block = dataset.X[:, [dataset.feature_names.index(column) for column in dummies.columns]]
        np.testing.assert_array_equal(block, dummies.astype(float))
        np.testing.assert_array_equal(block.sum(axis=1), 1.0)
    assert dataset.feature_names == tuple(names)
    np.testing.assert_array_equal(dataset.y, ranked.y)


# --- the sets beside the paper's -----------------------------------------------------------------


def test_more_target_names_and_signs():
    for name, column, positive, names in [
        ("banknote", 5, "1", ("0", "1")),
        ("heart", 14, "2", ("absence", "presence")),
        ("pima", 9, "1", ("negative", "positive")),
        ("spambase", 58, "1", ("non-spam", "spam")),
    ]:
        assert load_uci(name).target_names == names
        np.testing.assert_array_equal(load_uci(name).y == 1.0, read_frame(name)[column] == positive)


@pytest.mark.parametrize(
    ("name", "target", "others"),
    [
        ("banknote", 5, []),
        ("pima", 9, []),
        ("spambase", 58, []),
        ("glass", 11, [1]),
        ("letter", 1, []),
        ("wine-quality", 12, []),
        ("wine-quality-red", 12, []),
        ("wine-quality-white", 12, []),
    ],
)
def test_sets_of_numbers_are_the_files(name, target, others):
    dataset = load_uci(name)
    np.testing.assert_array_equal(dataset.X, read_frame(name).drop(columns=[target, *others]).astype(float))
    assert "Missing values: none." in dataset.description
    np.testing.assert_array_equal(load_uci(name, encoding="onehot").X, dataset.X)


def test_adult_ranks_and_first_rows():
    dataset, frame = load_uci("adult"), read_frame("adult")
    expected = [ranks(frame[i]) if i in CATEGORICAL_ADULT else frame[i].astype(float) for i in range(1, 15)]
    np.testing.assert_array_equal(dataset.X, np.column_stack(expected))
    # 39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, US
    np.testing.assert_array_equal(dataset.X[0], [39, 7, 77_516, 9, 13, 4, 1, 1, 4, 1, 2174, 0, 40, 39])
    # The first row of adult.test, whose first line is no row, and a label of its last one with a dot.
    np.testing.assert_array_equal(dataset.X[32_561, [0, 2, 4, 12]], [25, 226_802, 7, 40])
    assert dataset.target_names == ("<=50K", ">50K")
    np.testing.assert_array_equal(dataset.y == 1.0, frame[15] == ">50K")
    assert (dataset.y[32_561], dataset.y[-1]) == (-1.0, 1.0)
    assert dataset.feature_names[2:5] == ("fnlwgt", "education", "education-num")
