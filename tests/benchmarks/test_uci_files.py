"""The loader of UCI sets against the real files, read without qsdp."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.data.uci_sets import load_uci
from qsdp.exceptions import DatasetError

CONTINUOUS_CREDIT = {2: "A2", 3: "A3", 8: "A8", 11: "A11", 14: "A14", 15: "A15"}  # crx.names
CATEGORICAL_ADULT = (2, 4, 6, 7, 8, 9, 10, 14)  # adult.names
NOMINAL_HEART = (3, 7, 13)  # heart.doc
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


def test_target_names_and_signs():
    assert load_uci("breast-cancer").target_names == ("no-recurrence-events", "recurrence-events")
    assert load_uci("ionosphere").target_names == ("b", "g")
    assert load_uci("credit-approval").target_names == ("-", "+")
    assert load_uci("vehicle").target_names == ("bus", "opel", "saab", "van")
    for name, column, positive in [
        ("breast-cancer", 1, "recurrence-events"),
        ("ionosphere", 35, "g"),
        ("credit-approval", 16, "+"),
    ]:
        np.testing.assert_array_equal(load_uci(name).y == 1.0, read_frame(name)[column] == positive)
    np.testing.assert_array_equal(load_uci("vehicle").y, ranks(read_frame("vehicle")[19]))


def test_breast_cancer_ranks():
    X, _ = load_uci("breast-cancer")
    frame = read_frame("breast-cancer")
    np.testing.assert_array_equal(X, np.column_stack([ranks(frame[i]) for i in range(2, 11)]))
    # By hand: 30-39, premeno, 30-34, 0-2, no, 3, left, left_low, no; "?" sorts before "no".
    np.testing.assert_array_equal(X[0], [1, 2, 5, 0, 1, 2, 0, 2, 0])
    assert "Soklic" in load_uci("breast-cancer").description


def test_ionosphere_is_the_file_without_its_constant_column():
    dataset = load_uci("ionosphere")
    frame = read_frame("ionosphere")
    assert set(frame[2]) == {"0"}
    np.testing.assert_array_equal(dataset.X, frame.drop(columns=[2, 35]).astype(float))
    assert dataset.feature_names == ("a1", *(f"a{i}" for i in range(3, 35)))
    assert "a2 (constant 0)" in dataset.description


def test_vehicle_is_the_file():
    np.testing.assert_array_equal(load_uci("vehicle").X, read_frame("vehicle").drop(columns=19).astype(float))


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


def test_missing_counts_are_those_of_the_documentation():
    credit = (read_frame("credit-approval") == "?").sum()
    assert credit[credit > 0].to_dict() == {1: 12, 2: 12, 4: 6, 5: 6, 6: 9, 7: 9, 14: 13}  # crx.names
    assert "Missing values: 67 in 37 rows." in load_uci("credit-approval").description
    assert "median" in load_uci("credit-approval").description
    breast = (read_frame("breast-cancer") == "?").sum()
    assert breast[breast > 0].to_dict() == {6: 8, 9: 1}  # breast-cancer.names
    assert "Missing values: 9 in 9 rows." in load_uci("breast-cancer").description
    assert "median" not in load_uci("breast-cancer").description
    for name in ("ionosphere", "vehicle"):
        assert "Missing values: none." in load_uci(name).description


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


def test_onehot_has_a_column_for_missing_values():
    dataset = load_uci("breast-cancer", encoding="onehot")
    assert dataset.X[:, dataset.feature_names.index("node-caps=?")].sum() == 8
    np.testing.assert_array_equal(dataset.X.sum(axis=1), 9.0)  # one value for each of the 9 attributes


def test_truncated_real_file(tmp_path, monkeypatch):
    original = Path(os.environ["QSDP_DATA"]) / "uci/ionosphere/ionosphere.data"
    copy = tmp_path / "uci/ionosphere/ionosphere.data"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(original.read_bytes()[:40_000])
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"ionosphere\.data is damaged"):
        load_uci("ionosphere")


# --- the sets beside the paper's -----------------------------------------------------------------


def test_more_target_names_and_signs():
    for name, column, positive, names in [
        ("adult", 15, ">50K", ("<=50K", ">50K")),
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
    assert (dataset.y[32_561], dataset.y[-1]) == (-1.0, 1.0)
    assert dataset.feature_names[2:5] == ("fnlwgt", "education", "education-num")


def test_adult_missing_values_are_those_of_the_documentation():
    frame = read_frame("adult")
    unknown = (frame == "?").any(axis=1)
    assert (int((~unknown[:32_561]).sum()), int((~unknown[32_561:]).sum())) == (30_162, 15_060)  # adult.names
    assert "Missing values: 6465 in 3620 rows." in load_uci("adult").description
    assert "median" not in load_uci("adult").description


def test_heart_ranks():
    dataset, frame = load_uci("heart"), read_frame("heart")
    expected = [ranks(frame[i]) if i in NOMINAL_HEART else frame[i].astype(float) for i in range(1, 14)]
    np.testing.assert_array_equal(dataset.X, np.column_stack(expected))
    # 70.0 1.0 4.0 130.0 322.0 0.0 2.0 109.0 0.0 2.4 2.0 3.0 3.0 2; chest pain 1 to 4, thal 3, 6, 7
    np.testing.assert_array_equal(dataset.X[0], [70, 1, 3, 130, 322, 0, 2, 109, 0, 2.4, 2, 3, 0])
    onehot = load_uci("heart", encoding="onehot")
    assert onehot.X.shape == (270, 10 + 4 + 3 + 3)
    np.testing.assert_array_equal(onehot.X[:, onehot.feature_names.index("thal=7.0")], frame[13] == "7.0")


def test_pima_zeros_are_kept_and_said():
    dataset = load_uci("pima")
    zeros = dict(zip(dataset.feature_names, (dataset.X == 0).sum(axis=0), strict=True))
    assert zeros == {
        "pregnancies": 111, "glucose": 5, "pressure": 35, "skin": 227, "insulin": 374, "bmi": 11, "pedigree": 0,
        "age": 0,
    }  # fmt: skip
    assert "Zeros in glucose, pressure, skin, insulin and bmi stand for missing values" in dataset.description


def test_glass_kinds_are_those_of_the_documentation():
    dataset = load_uci("glass")
    kinds = np.array([1, 2, 3, 5, 6, 7])
    np.testing.assert_array_equal(kinds[dataset.y], read_frame("glass")[11].astype(int))
    assert dataset.target_names[3:] == ("containers", "tableware", "headlamps")
    assert dataset.feature_names == ("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")
    assert "id (a running number)" in dataset.description


def test_letters():
    dataset = load_uci("letter")
    np.testing.assert_array_equal(np.array(dataset.target_names)[dataset.y], read_frame("letter")[1])
    assert "".join(dataset.target_names) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def test_wine_quality_is_red_then_white():
    both, red, white = (load_uci(f"wine-quality{colour}") for colour in ("", "-red", "-white"))
    np.testing.assert_array_equal(both.X, np.vstack([red.X, white.X]))
    np.testing.assert_array_equal(both.y, np.concatenate([red.y, white.y]))
    np.testing.assert_array_equal(both.y + 3, read_frame("wine-quality")[12])
    assert (red.target_names, white.target_names) == (tuple("345678"), tuple("3456789"))
    assert both.target_names == white.target_names
    assert both.feature_names[0] == "fixed acidity"


def test_spambase_columns_are_those_of_the_documentation():
    text = (Path(os.environ["QSDP_DATA"]) / "uci/spambase/spambase.names").read_text()
    documented = [line.split()[0].removesuffix(":") for line in text.splitlines() if line.endswith("continuous.")]
    assert list(load_uci("spambase").feature_names) == documented


@pytest.mark.parametrize(("name", "n_train"), [("adult", 32_561), ("letter", 16_000)])
def test_usual_splits(name, n_train):
    dataset = load_uci(name)
    assert dataset.n_train == n_train
    assert f"the first {n_train} rows" in dataset.description
    if name == "adult":
        positive = dataset.y > 0
        assert (positive[:n_train].sum(), positive[n_train:].sum()) == (7841, 3846)  # shares of adult.names
