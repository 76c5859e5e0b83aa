"""PostgreSQL gives the same steps on every row as memory: random questions, traps, units; and each spelling matters.

The server orders texts by English rules, lives in New York and writes dates in German (`postgres_server`).
"""

from __future__ import annotations

import numpy as np
import pytest

from everhold.data.database_urls import Postgres, open_table
from everhold.data.engines.dialect import Dialect
from everhold.data.engines.dialects.postgres import POSTGRES, PostgresDialect
from everhold.data.engines.memory import MemoryEngine
from everhold.data.engines.remote import RemoteEngine
from everhold.data.engines.sql import Select
from everhold.data.table import RowTable
from everhold.errors import DataError
from everhold.queries.expression import bounded_mean, expression, number
from tests.engines import traps
from tests.engines.rows import KINDS, nasty, questions
from tests.remote.agreement import check_random, unit_of

pytestmark = pytest.mark.postgres

TYPES = {"id": "int", "x": "float8", "n": "int8", "b": "bool", "m": "bool", "s": "text", "t": "varchar", "d": "timestamp"}
TRAP_TYPES = {"id": "int", "x": "float8", "y": "float8", "n": "int8", "f": "float4", "dec": "numeric", "i": "smallint", traps.ODD: "float8",
              "s": "text", "t": "text", "c": "char(7)", "d": "timestamp", "day": "date", "zoned": "timestamptz", "m": "bool",
              "bit": "int"}  # fmt: skip


def opened(server, table, **options):
    return open_table(Postgres(server.url(), table=table, **options), what="the private table", private=True)


def without_nul(columns):
    """Texts of PostgreSQL cannot hold NUL; in questions it may stand."""
    clean = dict(columns)
    for name in "st":
        words = [None if word is None else word.replace("\x00", "\x01") for word in columns[name].tolist()]
        clean[name] = np.array(words, dtype=object)
    return clean


def plain(column):
    """Python's own values; half of the NaN are NULL."""
    if column.dtype.kind == "M":
        return [None if np.isnat(one) else one.item() for one in column]
    return [None if one != one and place % 2 else one for place, one in enumerate(column.tolist())]


@pytest.fixture(scope="module")
def random_rows(postgres):
    columns = without_nul(nasty(600, 1))
    postgres.load("random_rows", TYPES, zip(range(600), *(plain(columns[name]) for name in KINDS), strict=True))
    return columns


@pytest.fixture(scope="module")
def trap_rows(postgres):
    columns = traps.rows(nul=False, wide=True)
    names = [name.replace('"', '""') for name in TRAP_TYPES]
    postgres.load(
        "trap_rows",
        dict(zip(names, TRAP_TYPES.values(), strict=True)),
        zip(range(len(columns["x"])), *columns.values(), strict=True),
    )
    return columns


@pytest.fixture(scope="module")
def expected(trap_rows):
    """What memory says of every trap."""
    memory = MemoryEngine(traps.table(trap_rows))
    return [(question, memory.steps(question)) for question in traps.questions()]


@pytest.mark.parametrize("seed", range(8))
def test_random_questions_agree_on_every_row(postgres, random_rows, seed):
    check_random(opened(postgres, "random_rows"), random_rows, [seed])


def test_sums_agree_one_by_one_and_in_batches(postgres, random_rows):
    memory, engine = MemoryEngine(RowTable(random_rows)), RemoteEngine(opened(postgres, "random_rows"), KINDS)
    asked = questions(300, 99)
    expected = memory.sums(asked)
    assert engine.sums(asked) == expected
    assert [engine.sums([question])[0] for question in asked[:40]] == expected[:40]


def test_traps_agree_on_every_row(postgres, expected):
    engine = RemoteEngine(opened(postgres, "trap_rows"), traps.KINDS, place="id")
    assert len(expected) > 350
    for question, steps in expected:
        assert np.array_equal(engine.steps(question), steps), question.name
    whole = [[int(one) for one in steps] for _, steps in expected]
    assert engine.sums([question for question, _ in expected]) == [(sum(one), sum(k * k for k in one)) for one in whole]


@pytest.mark.parametrize("unit", ["n", "x", "s", "m", "dec", "day", "f", "c"])
def test_units_agree(postgres, trap_rows, unit):
    """NULL and NaN in every unit column: such rows stand alone."""
    rows = opened(postgres, "trap_rows")
    values = trap_rows[unit]
    memory = MemoryEngine(traps.table(trap_rows).by_unit(unit_of(values)))
    engine = RemoteEngine(rows, traps.KINDS, unit=unit)
    assert engine.size == memory.size
    asked = traps.questions()[::5]
    assert engine.sums(asked) == memory.sums(asked)


ODD_VALUES = {
    "numeric": (
        "('NaN'), ('Infinity'), ('-Infinity'), ('1e400'), ('-1e400'), ('1e-400'), ('0.99999999999999999999999e-30'), ('1e15'), "
        "('1000000000000000.00000001'), (NULL), ('1e-30')",
        [None, 1e15, -1e15, 1e15, -1e15, 0.0, 1e-30, 1e15, 1e15, None, 1e-30],
    ),
    "date": ("('infinity'), ('-infinity'), ('0044-03-15 BC'), ('20000-01-01'), ('1970-01-02'), (NULL)", [None] * 4 + [864e8, None]),
    "timestamp": ("('infinity'), ('-infinity'), ('0001-12-31 BC'), ('10000-01-01'), ('1970-01-01 00:00:01'), (NULL)",
                  [None] * 4 + [1e6, None]),
    "timestamptz": ("('infinity'), ('-infinity'), ('9999-12-31 23:00:00-05'), ('1969-12-31 19:00:01-05')", [None] * 3 + [1e6]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD_VALUES)
def test_values_that_only_postgresql_has(postgres, kind):
    values, expected = ODD_VALUES[kind]
    postgres.run(
        "DROP TABLE IF EXISTS odd_values",
        f"CREATE TABLE odd_values (v {kind}, id serial)",
        "SET datestyle = 'ISO'",
        f"INSERT INTO odd_values (v) SELECT * FROM (VALUES {values}) AS v(v)".replace("SELECT *", f"SELECT v::{kind}"),
        "GRANT SELECT ON odd_values TO reader",
    )
    read = "number" if kind == "numeric" else "date"
    engine = RemoteEngine(opened(postgres, "odd_values"), {"v": read}, place="id")
    missing = engine.steps(expression("v IS NULL", {"v": read}))
    assert (missing > 0).tolist() == [one is None for one in expected]
    for wanted in sorted({one for one in expected if one is not None}):
        text = (
            f"v = {wanted!r}"
            if read == "number"
            else f"v = '{np.datetime64(int(wanted), 'us').astype(str).replace('T', ' ')}'"
        )
        found = engine.steps(expression(text, {"v": read}))
        assert (found > 0).tolist() == [one == wanted for one in expected], text


def test_enums_domains_and_uuids_are_texts_and_other_types_are_left_out(postgres):
    postgres.run(
        "DROP TABLE IF EXISTS types; DROP DOMAIN IF EXISTS short; DROP TYPE IF EXISTS colour",
        "CREATE TYPE colour AS ENUM ('red', 'green', 'blue'); CREATE DOMAIN short AS float8 CHECK (VALUE > 0)",
        "CREATE TABLE types (c colour, v short, u uuid, j json, a int[], id int)",
        "INSERT INTO types VALUES ('red', 2.5, '00000000-0000-0000-0000-00000000000a', '{}', '{1}', 1), ('blue', 'NaN', NULL, NULL, NULL, 2)",
        "GRANT SELECT ON types TO reader",
    )
    rows = opened(postgres, "types")
    assert rows.kinds() == {"c": "text", "v": "number", "u": "text", "id": "number"}
    engine = RemoteEngine(rows, rows.kinds(), place="id")
    for text, expected in {"c < 'green'": [0, 1], "v = 2.5": [1, 0], "v IS NULL": [0, 1], "u LIKE '%a'": [1, 0]}.items():
        assert (engine.steps(expression(text, rows.kinds())) > 0).tolist() == [bool(one) for one in expected], text
    with pytest.raises(DataError, match="of type json, which cannot be read as text"):
        RemoteEngine(rows, {"j": "text"})


def test_many_of_the_largest_questions_fit_into_statements(postgres, random_rows):
    """Each takes some 300 inner columns of its own; PostgreSQL allows 1,664 in all."""
    texts = [" + ".join(f"ln(abs(x) + {100 * place + one})" for one in range(34)) for place in range(16)]
    asked = [expression(f"{text} > 90", KINDS) for text in texts[:6]]
    asked += [bounded_mean(number(text, KINDS), 0.0, 300.0) for text in texts[6:]]
    engine = RemoteEngine(opened(postgres, "random_rows"), KINDS)
    assert len(engine._pieces(asked)) > 2
    assert engine.sums(asked) == MemoryEngine(RowTable(random_rows)).sums(asked)


@pytest.mark.parametrize("which", ["one row", "missing values only"])
def test_every_question_is_defined_on(postgres, which):
    columns = {name: [None] if which != "one row" else values[:1] for name, values in traps.rows(1, nul=False).items()}
    names = [name.replace('"', '""') for name in TRAP_TYPES]
    postgres.load("small", dict(zip(names, TRAP_TYPES.values(), strict=True)), zip([0], *columns.values(), strict=True))
    engine, memory = RemoteEngine(opened(postgres, "small"), traps.KINDS), MemoryEngine(traps.table(columns))
    asked = traps.questions()
    assert engine.sums(asked) == memory.sums(asked)


# each spelling matters ------------------------------------------------------------------------------------------------


def like(x, pattern):
    return POSTGRES._never(x) if "\x00" in pattern else f"({x} LIKE {POSTGRES.literal(pattern)})"


NAIVE = {
    "decimal literals": {"number": lambda self, value: repr(float(value))},
    "NaN is not looked for": {"is_nan": lambda self, x: "FALSE"},
    "round of decimals": {"rint": lambda self, x: f"round(({x})::numeric)::float8"},
    "double precision kept": {"single": lambda self, x: x},
    "the database's order of texts": {"_text": staticmethod(lambda column: f"{column}::text")},
    "the database's lower case": {"change_case": lambda self, name, x, once: f'{name}({x} COLLATE "en-US-x-icu")'},
    "contains by LIKE": {"contains": lambda self, x, body: like(x, f"%{body}%")},
    "starts by LIKE": {"starts": lambda self, x, body: like(x, f"{body}%")},
    "ends by LIKE": {"ends": lambda self, x, body: like(x, f"%{body}")},
    "NUL left out": {"compare_word": lambda self, x, op, word: Dialect.compare_word(self, x, op, word.replace("\x00", ""))},
    "NUL in lists": {"member": Dialect.member},
    "dates by intervals": {
        "stored_part": Dialect.stored_part,
        "date_part": lambda self, part, micros, once: (
            f"date_part('{part.replace('weekday', 'isodow')}', to_timestamp({micros} / 1e6)) - {int(part == 'weekday')}"
        ),
    },
    "parts of any stored date": {
        "stored_part": lambda self, part, column, found, canonical: (
            f"date_part('{part}', {column})" if part != "weekday" and found.startswith("timestamp") else None
        )
    },
    "microseconds by epoch": {"_micros": lambda self, column, found: f"date_part('epoch', {column}) * 1e6"},
    "casts of decimals": {"_double": lambda self, column, found: self.clamped(f"{column}::float8")},
    "whole numbers as they are": {
        "_double": lambda self, column, found: (
            f"{column}::float8" if found == "int8" else PostgresDialect._double(self, column, found)
        )
    },
    "doubles as they are": {"clamped": lambda self, value: f"({value} + 0)"},
    "texts of any length": {"left": lambda self, x, count: x},
    "length in bytes": {"length": lambda self, x: f"octet_length({x})::float8"},
    "units by the raw column": {"unit": lambda self, name, found: self.identifier(name)},
    "NaN compares like a number": {"is_nan": lambda self, x: f"({x} <> {x})"},
}


def disagreements(postgres, dialect, columns, expected):
    """How many batches of traps give another result, or fail, with this spelling."""
    rows = opened(postgres, "trap_rows")
    rows.dialect = dialect
    try:
        engine = RemoteEngine(rows, traps.KINDS, place="id")
        wrong = RemoteEngine(rows, traps.KINDS, unit="f").size != len(unit_of(columns["f"]))
    except DataError:
        return 1
    for start in range(0, len(expected), 60):
        some = expected[start : start + 60]
        try:
            found = engine.steps_of([question for question, _ in some])
        except DataError:
            return wrong + 1
        wrong += sum(not np.array_equal(one, steps) for one, (_, steps) in zip(found, some, strict=True))
    return wrong


def test_the_spellings_as_they_are_agree(postgres, trap_rows, expected):
    assert disagreements(postgres, PostgresDialect(), trap_rows, expected) == 0


@pytest.mark.parametrize("name", NAIVE)
def test_a_naive_spelling_is_found(postgres, trap_rows, expected, name):
    """A mutant of the dialect for each pitfall: the list above sees every one of them."""
    mutant = type("Mutant", (PostgresDialect,), NAIVE[name])()
    assert disagreements(postgres, mutant, trap_rows, expected) > 0


def test_without_the_fence_the_text_doubles(postgres, trap_rows):
    """PostgreSQL merges subqueries. OFFSET 0 keeps what is needed twice apart; a plan then grows with the question."""
    text = "x"
    for _ in range(9):
        text = f"least({text}, 7, n)"
    question = expression(f"{text} > 1", traps.KINDS)
    rows = opened(postgres, "trap_rows")

    def plan(dialect):
        columns = {name: dialect.canonical(name, rows.types[name], kind, "rows") for name, kind in traps.KINDS.items()}
        sql = Select(dialect, columns, rows.relation).sums([question])
        with postgres.connect() as con:
            return sum(len(row[0]) for row in con.execute(f"EXPLAIN VERBOSE {sql}").fetchall()) / len(sql)

    open_fence = type("Mutant", (PostgresDialect,), {"fence": ""})()
    assert plan(PostgresDialect()) < 10
    assert plan(open_fence) > 50
