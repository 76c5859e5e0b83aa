"""A question's time and memory are bounded by its length, whatever it says; numbers and dates at every border."""

import datetime as dt
import itertools
import subprocess
import sys

import numpy as np
import pytest

from everhold.data.engines.dialects.duckdb import DUCKDB
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.sql import Select
from everhold.data.table import RowTable
from everhold.errors import QuestionError
from everhold.queries.expression import bounded_mean, expression, number
from everhold.queries.expression.columns import encode
from everhold.queries.expression.evaluate import Chunk, Compiler, _civil, _Part
from everhold.queries.expression.extent import extent, out_of_range
from everhold.queries.expression.parser import RECORDED
from everhold.queries.expression.tree import Node
from everhold.queries.expression.values import LAST_MICROS, date_of

KINDS = {"b": "boolean", "x": "number", "d": "date"}


def nested(depth, inner, outer):
    text = inner
    for _ in range(depth):
        text = outer.format(text)
    return text


GROWING = {
    "IS NULL": lambda d: "b" + " IS NULL" * d,
    "=": lambda d: "b" + " = b" * d,
    "CASE": lambda d: nested(d, "x", "CASE WHEN ({} > 0) IS NULL THEN 1 ELSE 0 END") + " > 0",
    "IN": lambda d: nested(d, "b", "({} IN (TRUE, FALSE))"),
    "BETWEEN": lambda d: nested(d, "x", "CASE WHEN {} BETWEEN 0 AND 1 THEN 1 ELSE 0 END") + " > 0",
    "NOT BETWEEN": lambda d: nested(d, "x", "CASE WHEN {} NOT BETWEEN 0 AND 1 THEN 1 ELSE 0 END") + " > 0",
    "sums": lambda d: " + ".join(["x"] * (d + 1)) + " > 0",
    "OR": lambda d: " OR ".join(f"x = {place}" for place in range(d + 1)),
}


def work(text, size=8):
    """How many parts are computed for a question on one chunk, and how long its name and its SQL are."""
    columns = {
        "b": encode(np.arange(size) % 2 == 0),
        "x": encode(np.arange(size) * 1.0),
        "d": encode(np.arange(size).astype("datetime64[D]")),
    }
    question = expression(text, KINDS)
    count = 0
    compiler = Compiler(columns)
    run = compiler.truth(question.tree)
    for part in compiler._parts.values():
        inner = part.run

        def counted(chunk, inner=inner):
            nonlocal count
            count += 1
            return inner(chunk)

        part.run = counted
    with np.errstate(all="ignore"):
        run(Chunk(0, size))
    sql = Select(DUCKDB, {name: f'"{name}"' for name in KINDS}, "rows").sums([question])
    return count, len(question.name), len(sql)


@pytest.mark.parametrize("way", sorted(GROWING))
def test_work_grows_with_the_text_and_no_faster(way):
    """Twice the text is at most 2.6 times the work; where a question is too large it is refused. The doubling of
    questions (IS NULL of IS NULL of …) was 2^d before."""
    done = {}
    for depth in (5, 10, 20, 40, 80, 160):
        try:
            done[depth] = work(GROWING[way](depth))
        except QuestionError as refusal:
            refused = str(refusal)
            break
    else:
        refused = "parts"
    assert any(word in refused for word in ("parts", "build on", "nested", "characters"))
    assert max(done[5]) < 4_000
    for (_, small), (_, large) in itertools.pairwise(done.items()):
        assert all(b <= 2.6 * a for a, b in zip(small, large, strict=True)), done


def test_the_largest_questions_end_in_time():
    """Every growing question as large as it may be, and every hostile text, in a process of its own.

    It takes a second. Before, 161 characters took longer than anybody waited: the limit of ten minutes of CPU makes such a
    process fail, not hang.
    """
    program = """
import sys
sys.path.insert(0, "src")
import numpy as np, everhold as eh
from tests.queries.test_expression import HOSTILE
from tests.queries.test_limits import GROWING
mk = lambda seed: {"b": np.random.default_rng(seed).random(500) < .5, "x": np.random.default_rng(seed).random(500),
                   "d": np.arange(500).astype("datetime64[D]")}
holdout = eh.Holdout(mk(0), prior=eh.Reference(mk(1)), seed=0)
for name, make in GROWING.items():
    asked = 0
    for depth in range(1, 250):
        try:
            holdout.try_out(make(depth))
            asked += 1
        except eh.QuestionError:
            break
    assert asked >= 3, name
for text in HOSTILE:
    try:
        holdout.try_out(text)
    except eh.QuestionError:
        continue
    raise AssertionError(text)
print("ended")
"""

    resource = pytest.importorskip("resource", reason="Windows has no limits of a process")

    def limited():
        resource.setrlimit(resource.RLIMIT_CPU, (600, 600))

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, preexec_fn=limited)
    assert done.stdout == "ended\n", done.stderr[-500:]


def test_what_a_ledger_holds_is_bounded_too():
    """A forged record cannot take exponential time, or break the stack."""
    for way, depth in itertools.product(("IS NULL", "CASE", "BETWEEN", "sums"), (1_000, 5_000)):
        with pytest.raises(QuestionError):
            expression(GROWING[way](depth), KINDS, limits=RECORDED)
    with pytest.raises(QuestionError, match="200,000"):
        expression("x > " + "1" * 200_001, KINDS, limits=RECORDED)


def test_the_highest_tree_fits_the_stack():
    """Heights that are allowed are parsed, named, compiled, run and written as SQL from within 300 other calls."""

    def deeper(calls):
        return work("b" + " IS NULL" * 99) if not calls else deeper(calls - 1)

    assert max(deeper(300)) < 20_000
    with pytest.raises(QuestionError, match="build on each other"):
        expression("b" + " IS NULL" * 101, KINDS)


def test_a_part_is_computed_once_where_it_is_shared():
    calls = []
    part = _Part(lambda chunk: calls.append(1) or 7)
    chunk = Chunk(0, 1)
    part.uses = 2
    assert [part(chunk), part(chunk), part(Chunk(0, 1))] == [7, 7, 7]
    assert len(calls) == 2


# borders ----------------------------------------------------------------------------------------------------------------

MOMENTS = [
    "0001-01-01", "0001-01-01 00:00:00.000001", "1582-10-15", "1684-01-01", "1900-02-28", "1969-12-31 23:59:59.999999",
    "1970-01-01", "1970-01-01T00:00:00.000001", "2000-02-29", "2255-06-05 23:47:34.740992", "2255-06-05 23:47:34.740993",
    "2262-04-11 23:47:16.854775", "9999-12-31", "9999-12-31 23:59:59", "9999-12-31 23:59:59.999967",
    "9999-12-31 23:59:59.999968", "9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999+00:01", "2024-05-01T13:30Z", "2024-05-01T13:30:00+05:45", "2024-05-01 13:30:00-0330",
    "2024-02-29T00:00:00+23:59",
]  # fmt: skip


@pytest.mark.parametrize("text", MOMENTS)
def test_every_moment_can_be_asked_about(text):
    """It parses, has a name that parses to itself, and is found on a row that holds it."""
    question = expression(f"d >= '{text}' AND d <= '{text}'", KINDS)
    assert expression(question.name, KINDS).name == question.name
    columns = RowTable({"d": np.array([text, None], dtype=object)})
    from everhold.data.schema import ColumnSchema, Schema

    table = Schema((ColumnSchema("d", "date"),)).conform(columns)
    assert MemoryEngine(table).sums([question]) == [(65_536, 65_536**2)]
    assert np.isfinite(table.column("d").values[0])


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999-00:01"])
def test_moments_outside_the_calendar_are_refused(text):
    with pytest.raises(QuestionError, match="outside the years 1 to 9999"):
        expression(f"d > '{text}'", KINDS)
    assert np.isnan(date_of(text))


def test_dates_are_those_of_the_calendar():
    """Every day of the years 1 to 9999."""
    days = np.arange(dt.date(1, 1, 1).toordinal(), dt.date(9999, 12, 31).toordinal() + 1) - dt.date(1970, 1, 1).toordinal()
    moments = days.astype("datetime64[D]")
    year, month, day = _civil(days.astype(np.float64))
    months = moments.astype("datetime64[M]")
    assert np.array_equal(year, moments.astype("datetime64[Y]").astype(np.int64) + 1970)
    assert np.array_equal(month, months.astype(np.int64) % 12 + 1)
    assert np.array_equal(day, (moments - months).astype(np.int64) + 1)


def test_the_last_moment_is_a_date():
    assert date_of(dt.datetime.max) == LAST_MICROS < 253_402_300_800_000_000
    assert encode(np.array(["9999-12-31T23:59:59.999999"], dtype="datetime64[us]")).values[0] == LAST_MICROS


NUMBERS = [
    "0",
    "1e15",
    "-1e15",
    "1e-30",
    "-1e-30",
    "0.0",
    "1e0",
    ".5",
    "5.",
    "1E3",
    "999999999999999.9",
]


@pytest.mark.parametrize("text", NUMBERS)
def test_every_number_can_be_asked_about(text):
    question = expression(f"x = {text}", KINDS)
    assert expression(question.name, KINDS).name == question.name
    assert MemoryEngine(RowTable({"x": np.array([float(text), np.nan])})).sums([question]) == [(65_536, 65_536**2)]


@pytest.mark.parametrize("text", ["1e16", "1e400", "1000000000000001", "9" * 400])
def test_numbers_that_are_too_large_are_refused(text):
    with pytest.raises(QuestionError, match="too large"):
        expression(f"x > {text}", KINDS)


@pytest.mark.parametrize("text", ["1e-31", "1e-320"])
def test_numbers_that_are_too_small_are_refused(text):
    with pytest.raises(QuestionError, match="too small"):
        expression(f"x > {text}", KINDS)


# underflow --------------------------------------------------------------------------------------------------------------


def test_twelve_factors_are_refused_and_long_sums_are_not():
    with pytest.raises(QuestionError, match="smaller than 1e-280"):
        expression(" * ".join(["x"] * 12) + " > 0", KINDS)
    for factors in range(2, 10):
        expression(" * ".join(["x"] * factors) + " > 0", KINDS)
    expression(" + ".join(["x"] * 60) + " > 0", KINDS)
    with pytest.raises(QuestionError, match="smaller than 1e-280"):
        bounded_mean(_power(10), 0.0, 1.0)


def _power(factors) -> Node:
    return number(" * ".join(["x"] * factors), {"x": "number"}, limits=RECORDED)


@pytest.mark.parametrize("seed", range(20))
def test_extents_hold_on_rows_at_the_borders(seed):
    """Of random expressions that are allowed, no value is outside its extent, subnormal or infinite."""
    from tests.engines.rows import Writer

    edge = np.array([0.0, 1e-30, -1e-30, 1.0000000001e-30, 1e15, -1e15, 999999999999999.9, 1.0, -1.0, 0.1, 3.0, 1e-15])
    x, n = (grid.ravel() for grid in np.meshgrid(edge, edge))
    table = RowTable({"x": x, "n": n, "s": np.array(["ab"] * len(x))})
    kinds, writer, seen = {"x": "number", "n": "number", "s": "text"}, Writer(seed), 0
    for _ in range(300):
        text = writer.number(4)
        try:
            tree = number(text, kinds)
        except QuestionError:
            continue
        if out_of_range(tree) is not None:
            continue
        seen += 1
        with np.errstate(all="ignore"):
            found = Compiler({name: table.column(name) for name in table}).number(tree)(Chunk(0, len(x)))
        sizes = np.abs(np.atleast_1d(found))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        assert not np.any(np.isinf(np.atleast_1d(found)))
        if len(sizes):
            least, _, most = extent(tree)
            assert sizes.min() >= least * (1 - 1e-9), text
            assert sizes.max() <= most * (1 + 1e-9), text
            assert sizes.min() >= 2.3e-308
    assert seen > 50


# hints ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x ^ 2 > 1", "x * x"),
        ("x ** 2 > 1", "x * x"),
        ("pow(x, 2) > 1", "x * x"),
        ("s ~ 'a'", "LIKE 'start%'"),
        ("s ILIKE 'a%'", "lower(name) LIKE"),
        ("log(x) > 1", "ln(x)"),
        ("extract(year from d) = 2", "year(d)"),
        ("substr(s, 1) = 'a'", "LIKE 'start%'"),
        ("cast(x as int) = 1", "schema"),
        ("x::int = 1", "schema"),
        ("end > 3", 'double quotes, because its name is a keyword: "end"'),
        ("`x` > 1", "double quotes"),
        ("x > 1;", "without a semicolon"),
        ("ifnull(x, 0) > 1", "coalesce"),
        ("city = 'york'", "Did you mean 'York'?"),
        ("city = 'YORK '", "Did you mean 'York'?"),
        ("city IN ('Leeds', 'Yorks')", "Did you mean 'York'?"),
        (
            "city = 'X'",
            "The schema lists 'Leeds', 'York'. Nothing was charged. To ask about other words, write city LIKE 'X'",
        ),
        ("city IN ('Leeds', 'Bath')", "'Bath' is not a listed value"),
        ("city <> 'O''Hara'", "city LIKE 'O''Hara'"),
        ("city = '50 %'", "lower(city) = '50 %'"),
        ("x", "as in x = 1 or x > 0"),
        ("city", "as in city = 'one of its words'"),
        ("d", "as in d >= '2024-05-01'"),
        ("closed = 'york'", "is never 'york'. Did you mean 'York'?"),
    ],
)
def test_what_people_know_from_elsewhere_is_answered_with_a_hint(text, says):
    from everhold.queries.expression.parser import Words

    kinds = {"x": "number", "s": "text", "d": "date", "end": "number", "city": "text", "closed": "text"}
    words = {"city": Words(frozenset(["York", "Leeds"]), False), "closed": Words(frozenset(["York", "Leeds"]), True)}
    with pytest.raises(QuestionError) as caught:
        expression(text, kinds, words)
    assert says in str(caught.value)


def test_a_word_that_is_not_listed_can_still_be_asked_about():
    from everhold.queries.expression.parser import Words

    words = {"city": Words(frozenset(["York", "Leeds"]), False)}
    for text in ("city LIKE 'Bath'", "city LIKE 'york'", "lower(city) = 'york'", "\"city\" NOT LIKE 'Rome'"):
        assert text.split()[-1] in expression(text, {"city": "text"}, words).name


def test_equal_may_be_doubled():
    assert expression("x == 1", KINDS).name == expression("x = 1", KINDS).name
