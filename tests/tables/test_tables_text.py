"""Text files as people have them: encodings, and notations of numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from table_files import write

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.tables import read_table
from qsdp.tables.training import numbers_of

TEXT = "größe;label\n1,5;ja\n2;nein\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_that_say_what_they_are(tmp_path: Path, encoding: str, packed: bool) -> None:
    contents = TEXT.encode(encoding)
    read = read_table(write(tmp_path, gzip.compress(contents) if packed else contents))
    assert list(read.columns) == ["größe", "label"]
    assert numbers_of(read, "größe").tolist() == [1.5, 2.0]


def test_encodings_that_do_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"byte 0xf6 after 'gr'; .*iconv -f WINDOWS-1252 -t UTF-8 data.csv"):
        read_table(write(tmp_path, TEXT.encode("latin-1")))
    with pytest.raises(InvalidInputError, match="UTF-16 without a byte-order mark; save it as UTF-8"):
        read_table(write(tmp_path, "a,b\n1,2\n".encode("utf-16-le")))
    with pytest.raises(InvalidInputError, match=r"is marked as UTF-16.* but contains invalid bytes"):
        read_table(write(tmp_path, TEXT.encode("utf-16")[:-1]))


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (["1,234", "1200"], "commas separate thousands or decimals, such as '1,234'; write 1234 or 1.234"),
        (["01/02/2024", "03/02/2024"], "day and month are not certain, such as .*; write them as 2024-01-31"),
        (["3-4-24", "5-4-24"], "day and month are not certain"),
    ],
)
def test_numbers_of_several_readings_are_refused(tmp_path: Path, column: list[str], reason: str) -> None:
    read = read_table(write(tmp_path, "a;b\n" + "".join(f"{entry};x\n" for entry in column)))
    with pytest.raises(InvalidInputError, match=rf"column 'a' holds .*{reason}"):
        qsdp.QuantizedNetworkClassifier().fit(read[["a"]], ["u", "v"])


def test_a_fit_reads_decimal_commas_as_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 2)).round(2)
    fitted = []
    for decimal, delimiter in ((".", ","), (",", ";")):
        rows = [delimiter.join(str(v).replace(".", decimal) for v in row) for row in values]
        read = read_table(write(tmp_path, f"a{delimiter}b\n" + "\n".join(rows)))
        model = qsdp.QuantizedNetworkRegressor(beta=0.1, random_state=0)
        fitted.append(model.fit(read, values[:, 0] * values[:, 1]).predict(read))
    np.testing.assert_array_equal(fitted[0], fitted[1])
