"""Encodings by themselves: evaluation, names, storage, and what a damaged state is told."""

import copy
import json

import numpy as np
import pytest

from qsdp.encoding import Encoding, Expression, InputColumn
from qsdp.exceptions import InvalidInputError, StorageError


def objects(*entries):
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column


AGE, CITY, UNUSED = InputColumn("age", fill=40.0), InputColumn("city", None, ("Oslo", "Rome", None)), InputColumn("id")
MIXED = Encoding(
    (UNUSED, AGE, CITY),
    (
        Expression("city", 2, "equals", "Rome", 0.5, 0.5),
        Expression("age", 1, "value", None, 40.0, 10.0),
        Expression("age", 1, "above", 42.5),
        Expression("age", 1, "missing"),
        Expression("city", 2, "missing"),
    ),
)
TABLE = [objects("x", "y", 3), np.array([50.0, np.nan, 30.0]), objects("Rome", None, "Nowhere")]
INPUTS = [[1.0, 1.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 1.0, 1.0], [-1.0, -1.0, 0.0, 0.0, 0.0]]
BITS = Encoding((AGE,), (Expression("age", 0, "above", 42.5), Expression("age", 0, "missing")))


def test_terms_are_evaluated_in_any_order():
    assert MIXED.encode(TABLE).tolist() == INPUTS
    assert MIXED.used == (1, 2)
    assert MIXED.unseen(TABLE) == {"city": ["Nowhere"]}


def test_names_and_formulas():
    assert MIXED.names == ("city == Rome", "age", "age > 42.5", "age is missing", "city is missing")
    assert str(MIXED.expressions[0]) == "([city == Rome] - 0.5) / 0.5"
    assert str(MIXED.expressions[1]) == "(age - 40) / 10"
    assert MIXED.renamed(["a", "b", "c"]).names[0] == "c == Rome"
    assert Expression("x", 0, "above", 1000000.5).name == "x > 1000000.5"


def test_what_kind_of_inputs_there_are():
    assert BITS.is_binary
    assert BITS.is_integer
    assert not MIXED.is_binary
    assert not MIXED.is_integer
    assert BITS.all_bits
    assert not MIXED.all_bits
    doubled = BITS.scaled([4.0, 4.0])
    assert not doubled.is_binary
    assert doubled.all_bits
    assert BITS.scaled([0.5, 1.0]).all_bits
    assert doubled.is_integer
    assert not BITS.scaled([0.5, 1.0]).is_integer
    assert doubled.expressions[0].bit_values == (0.0, 4.0)


def test_scales_multiply_inputs():
    scales = np.array([2.0, 0.5, 4.0, 1.0, 8.0])
    np.testing.assert_array_equal(MIXED.scaled(scales).encode(TABLE), np.array(INPUTS) * scales)


@pytest.mark.parametrize("scales", [[1.0], [1.0, -1.0], [0.0, 1.0], [[1.0, 1.0]]])
def test_scales_must_be_positive_and_one_for_each_input(scales):
    with pytest.raises(InvalidInputError, match="scales must be 2 positive numbers"):
        BITS.scaled(scales)


def test_bytes_hold_bits():
    encoded = BITS.encode([np.array([50.0, 30.0])], dtype=np.int8)
    assert encoded.dtype == np.int8
    assert encoded.tolist() == [[1, 0], [0, 0]]
    assert BITS.encode([np.array([50.0, 30.0])], dtype=np.uint8).tolist() == [[1, 0], [0, 0]]
    with pytest.raises(InvalidInputError, match="of floats, as not all inputs are integers; got int8"):
        MIXED.encode(TABLE, dtype="int8")
    with pytest.raises(InvalidInputError, match="dtype int8 cannot hold inputs from 0 to 256"):
        BITS.scaled([256.0, 1.0]).encode([np.array([50.0])], dtype=np.int8)


def test_numbers_far_away_are_refused_by_column():
    table = [TABLE[0], np.array([1.0, 1e300, 2.0]), TABLE[2]]
    with pytest.raises(InvalidInputError, match=r"column 'age' .* of the order of 40 \+- 10; got 1e\+300"):
        MIXED.encode(table)


def test_many_rows_are_encoded_in_blocks():
    wide = Encoding((AGE,), tuple(Expression("age", 0, "above", float(t)) for t in range(3000)))
    numbers = np.random.default_rng(0).uniform(0.0, 3000.0, 1000)
    np.testing.assert_array_equal(wide.encode([numbers]), numbers[:, None] > np.arange(3000.0))


def test_states_are_json_and_come_back():
    back = Encoding.from_state(json.loads(json.dumps(MIXED.to_state(), allow_nan=False)))
    assert back == MIXED
    assert back.encode(TABLE).tolist() == INPUTS


DAMAGE = {
    "encoding must have": lambda state: state.pop("columns"),
    "encoding: columns": lambda state: state.update(columns=3),
    "input column must have": lambda state: state["columns"][0].pop("fill"),
    "fill cannot be inf": lambda state: state["columns"][1].update(fill=float("inf")),
    r"categories cannot be \['a', 'a'": lambda state: state["columns"][2].update(categories=["a", "a"]),
    r"categories cannot be \['a', 3": lambda state: state["columns"][2].update(categories=["a", 3, None]),
    "has kind 'category', but other categories or fill": lambda state: state["columns"][2].update(fill=1.0),
    "kind 'number', but other": lambda state: state["columns"][2].update(kind="number"),
    "input column: kind cannot be 'thousands'": lambda state: state["columns"][1].update(kind="thousands"),
    "no column 3": lambda state: state["expressions"][0].update(position=3),
    "kind cannot be 'below'": lambda state: state["expressions"][0].update(kind="below"),
    "scale cannot be 0.0": lambda state: state["expressions"][0].update(scale=0.0),
    "do not fit column 'city'": lambda state: state["expressions"][0].update(value="Paris"),
    "do not fit column 'age'": lambda state: state["expressions"][2].update(value="42"),
    "do not fit column 'id'": lambda state: state["expressions"][3].update(position=0),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_state_is_refused(message):
    state = copy.deepcopy(MIXED.to_state())
    DAMAGE[message](state)
    with pytest.raises(StorageError, match=message):
        Encoding.from_state(state)
