"""A check with arguments that make no sense is refused when it is made."""

import math
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from graveler import checks
from graveler.errors import InvalidInputError
from graveler.gates import Gate
from tests.gates.files import column, judged

ODD: Any = ("many", 3, ["x"], "1h", None)
MANY, THREE, NAMES, HOUR, NOTHING = ODD


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: checks.schema(evolution="any"), "evolution='any'"),
        (lambda: checks.row_count(scope="some"), "scope='some'"),
        (lambda: checks.row_count(missing="maybe"), "missing='maybe'"),
        (lambda: checks.row_count_change(history=1), "history 1"),
        (lambda: checks.row_count_change(history=2, enough=0), "enough 0"),
        (lambda: checks.not_null("t/"), "at least one column"),
        (lambda: checks.not_null("t/", ""), "column '': give the name"),
        (lambda: checks.unique("t/", "a", "a"), "column 'a' is named twice"),
        (lambda: checks.in_range("t/", "x"), "at_least or at_most"),
        (lambda: checks.in_range("t/", "x", -math.inf, math.inf), "every value lies between them"),
        (lambda: checks.in_range("t/", "x", math.inf), "no finite value lies between them"),
        (lambda: checks.file_format("t/", "orc"), "formats"),
        (lambda: checks.dbt_results("dbt/", tests_at_least=-1), "tests_at_least=-1"),
        (lambda: checks.freshness("t/", 0), "max_age"),
        (checks.only_within, "at least one prefix"),
        (lambda: checks.only_within(""), "none empty"),
        (lambda: checks.refers_to("t/", "x", ""), "the other prefix"),
        (lambda: checks.row_count(severity="loud"), "severity='loud'"),
        (lambda: checks.row_count("t/", MANY), "at_least 'many': give a whole number or null"),
        (lambda: checks.row_count("t/", at_most=True), "at_most True: give a whole number"),
        (lambda: checks.row_count_change("t/", less=math.nan), "less nan: give a number"),
        (lambda: checks.not_null("t/", THREE), "give a list of texts"),
        (lambda: checks.row_count(THREE), "prefix 3: give text"),
        (lambda: checks.row_count_change(less=50), "from 0 to below 1, 0.5 for 50 %"),
        (lambda: checks.row_count_change(less=-0.1), "less -0.1"),
        (lambda: checks.row_count_change(more=50), "from 0 to 10, 0.5 for 50 %"),
        (lambda: checks.row_count_change(less=None), "less None and more None: nothing is"),
        (lambda: checks.not_null("t/", "x", share=5), "share 5: .* 0.05 for 5 %"),
        (lambda: checks.not_null("t/", "x", share=1), "share 1: give a share from 0 to below 1$"),
        (lambda: checks.row_count("t/", at_least=5, at_most=1), "5 and at_most 1: nothing lies"),
        (lambda: checks.row_count("t/", at_least=-1), "numbers from 0 to"),
        (lambda: checks.row_count("t/", 10**400), "give numbers from 0 to 9223372036854775807"),
        (lambda: checks.row_count("t/", 0, missing="allow"), "at_least 0, at_most None and miss"),
        (lambda: checks.file_size("t/", 5, 1), "nothing lies between"),
        (lambda: checks.file_size("t/", files_at_most=0), "files_at_most 0"),
        (lambda: checks.file_size("t/", None, missing="allow"), "nothing is refused"),
        (lambda: checks.in_range("t/", "x", 5, 1), "nothing lies between"),
        (
            lambda: checks.in_range("t/", "x", "2013-01-01T01:00+02:00", "2012-12-31T22:00Z"),
            "nothing lies",
        ),
        (lambda: checks.in_range("t/", "x", 1, "a"), "two of one type"),
        (lambda: checks.schema("t/", {}), "columns {}: name at least one"),
        (lambda: checks.schema("t/", NAMES), r"column 'x': give types by name, as {'id': 'int64'}"),
        (lambda: checks.schema("t/", {"x": "float64"}), "no type 'float64': did you mean 'double'"),
        (lambda: checks.schema("t/", {"x": "int46"}), "did you mean 'int64'"),
        (lambda: checks.schema("t/", {"x": "nonsense"}), "no type 'nonsense': give it as Arrow"),
        (lambda: checks.schema("t/", THREE), "columns 3"),
        (lambda: checks.freshness("t/", "an hour"), "max_age='an hour': give a timedelta"),
        (lambda: checks.freshness("t/", NOTHING), "max_age None: give a number"),
        (lambda: checks.freshness("t/", math.inf), "max_age inf: give seconds above 0, at most 31"),
        (lambda: checks.freshness("t/", timedelta.max), "max_age .*: give seconds above 0"),
        (lambda: checks.only_within("t/{"), "prefix 't/{' cannot be filled in: Single '{'"),
        (lambda: checks.only_within("t/{}/"), "prefix 't/{}/': give a name in its braces"),
        (lambda: checks.only_within("t/{hour:d}/"), "cannot be filled in: Unknown format code"),
        (lambda: checks.row_count("t/", memory=10**30), f"memory 1{'0' * 30}: .* at most"),
        (lambda: checks.row_count("t/", memory="64M"), "memory '64M'"),
        (lambda: checks.row_count("t/", memory=10), "memory 10"),
        (lambda: checks.row_count("t/", timeout=1e12), "timeout 1000000000000.0: .* at most"),
        (lambda: checks.row_count("t/", timeout="60"), "timeout"),
        (lambda: checks.row_count("t/", timeout=0), "timeout 0"),
        (lambda: checks.row_count("t/", timeout=math.nan), "timeout nan"),
        (lambda: checks.row_count("t/", timeot=3), "'timeot': there is no such option"),
        (lambda: checks.row_count("t/", name=""), "gate name=''"),
        (lambda: Gate("g", HOUR), "check '1h': give a function"),
        (lambda: Gate("g", bool, reads="minds"), "give one of content, changes, anything, and any"),
        (lambda: Gate("g", bool, reads={"content", "changes"}), "only one of changes, content"),
        (lambda: Gate("g", bool, reads=THREE), "reads 3"),
    ],
)
def test_what_no_check_can_mean_is_refused_when_it_is_made(make, expected):
    with pytest.raises(InvalidInputError, match=expected):
        make()


@pytest.mark.parametrize(
    "gate",
    [
        checks.in_range("o/", "z", 0, math.inf),
        checks.row_count_change("o/", less=None, more=0.5),
        checks.row_count("o/", None, 3, missing="allow"),
        checks.file_size("o/", None, files_at_most=1, missing="allow"),
    ],
    ids=lambda gate: gate.check.kind,
)
def test_bounds_that_leave_something_to_refuse_pass(repo, gate):
    assert judged(repo, gate, column([0.5, 1.0, 2.0])).passed


def test_lengths_of_time_are_taken_as_text():
    assert checks.freshness("t/", "36h").check == checks.freshness("t/", 36 * 3600.0).check
    assert checks.row_count("t/", timeout="2m").seconds == 120
    assert checks.row_count("t/", timeout="36500d", memory=1 << 50).has_own_process


def test_every_type_that_arrow_writes_is_known():
    names = ["null", "bool_", "float16", "float32", "float64", "date32", "date64", "string"]
    names += ["large_string", "binary", "large_binary", "month_day_nano_interval"]
    names += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    kinds = [getattr(pa, name)() for name in names]
    kinds += [pa.binary(16), pa.time32("s"), pa.time64("ns"), pa.timestamp("ms", "Europe/Vienna")]
    kinds += [pa.duration("s"), pa.decimal128(9, 2), pa.decimal256(40), pa.list_(pa.int8())]
    kinds += [pa.large_list(pa.int8()), pa.list_(pa.int8(), 3), pa.map_(pa.string(), pa.int8())]
    kinds += [pa.struct({"a": pa.list_(pa.string())}), pa.dictionary(pa.int8(), pa.string())]
    for kind in ("", *map(str, kinds)):
        check: Any = checks.schema("t/", {"x": kind}).check
        assert check.parameters["columns"] == {"x": kind}


@pytest.mark.parametrize(
    "make",
    [
        checks.file_format,
        checks.only_within,
        lambda prefix: checks.refers_to("u/", "id", prefix),
        lambda prefix: Gate("g", lambda _: True, also=("t/", prefix)),
    ],
)
def test_a_prefix_that_makes_a_check_see_nothing_is_refused(make):
    for prefix in ("/t/", "./t/", "../t/", "t/*", "t/*.parquet", "t//", "/", "*"):
        plain = "" if prefix in {"/", "*"} else "t/"
        with pytest.raises(InvalidInputError, match=f"no path begins so; give .* '{plain}', or"):
            make(prefix)
    make("t/")
