"""Study files made by somebody hostile: reading and auditing them ends, in bounded time and memory, with a sentence."""

import json
import os
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import everhold as eh
from everhold.errors import LedgerError
from everhold.ledger.codec import dump
from everhold.ledger.reader import read_study
from everhold.ledger.sqlite_format import APPLICATION_ID, CREATE
from everhold.ledger.store import _START, Record, Store, _insert
from everhold.ledger.table_blob import table_from_bytes, table_to_bytes


def rows(size, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(18, 90, size), "x": rng.normal(size=size)}


@pytest.fixture
def study(tmp_path):
    place = tmp_path / "study.everhold"
    with eh.Holdout.create(place, rows(300), prior=eh.Reference(rows(3_000, 1)), seed=0) as held:
        held.ask("age > 40")
        held.ask("x > 0")
    return place


def forged(place, *statements):
    """A database with a ledger's marks, and whatever stands in it."""
    con = sqlite3.connect(place)
    con.execute("PRAGMA page_size = 4096")
    con.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    con.execute("PRAGMA user_version = 1")
    for statement in statements:
        con.execute(statement)
    con.commit()
    con.close()
    return place


ENDLESS = (
    "CREATE VIEW record AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 9000000000000) "
    "SELECT n AS seq, 'study' AS kind, 1 AS version, '{}' AS body, NULL AS blob, zeroblob(32) AS hash FROM c"
)
BIG = (
    "CREATE VIEW record AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 500) "
    "SELECT n AS seq, 'study' AS kind, 1 AS version, '{}' AS body, zeroblob(10000000) AS blob, zeroblob(32) AS hash FROM c"
)


def limited(seconds=600, memory=2 * 2**30):
    """The limit of CPU is there so that what would go on and on fails."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def read_all_ways(place):
    """Audit, read, rehearse and open a file, in a process with ten minutes of CPU and 2 GB; what each of them says."""
    program = f"""
import everhold as eh
from everhold.ledger.reader import read_study
place = {str(place)!r}
for way in (lambda: str(eh.Holdout.audit_file(place)), lambda: read_study(place), lambda: eh.Holdout.rehearse(place),
            lambda: eh.Holdout.open(place, data={{"x": [1.0]}})):
    try:
        print("RETURNED", str(way())[:300].replace("\\n", " "))
    except eh.EverholdError as error:
        print("REFUSED", str(error)[:300].replace("\\n", " "))
"""
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, preexec_fn=limited, env=variables)
    assert done.returncode == 0, done.stderr[-1500:]
    said = done.stdout.splitlines()
    assert len(said) == 4
    return said


@pytest.mark.parametrize("view", [ENDLESS, BIG])
def test_a_view_in_place_of_the_table(tmp_path, view):
    """Before, 4 kB of file made `audit` and `status` run for ever, or take all memory."""
    said = read_all_ways(forged(tmp_path / "view.everhold", view))
    assert all("schema is not that of a ledger" in line for line in said)


@pytest.mark.parametrize(
    "more",
    [
        "CREATE VIEW other AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON record BEGIN SELECT 1; END",
        "CREATE INDEX i ON record (kind)",
        "CREATE TABLE other (a)",
    ],
)
def test_anything_beside_the_table(tmp_path, more):
    place = forged(tmp_path / "more.everhold", CREATE, more)
    with pytest.raises(LedgerError, match="schema has other tables"):
        Store.open(place, write=False)
    assert not eh.Holdout.audit_file(place).ok


def test_a_file_that_is_no_database(tmp_path):
    for content in (b"", b"x" * 10, b"SQLite format 3\0" + bytes(5000), bytes(4096)):
        (tmp_path / "f.everhold").write_bytes(content)
        with pytest.raises(LedgerError, match="is not an everhold study"):
            read_study(tmp_path / "f.everhold")


def test_pages_that_are_used_twice(study, tmp_path):
    """A record whose chain of pages runs in a circle is refused."""
    data = bytearray(study.read_bytes())
    pages = len(data) // 4096
    # The first record has a blob on overflow pages: let the first of them follow itself.
    chain = [n for n in range(2, pages) if int.from_bytes(data[n * 4096 : n * 4096 + 4], "big") == n + 2]
    assert chain, "the study's first record should be on several pages"
    start = chain[0]
    data[start * 4096 : start * 4096 + 4] = (start + 1).to_bytes(4, "big")
    place = tmp_path / "circle.everhold"
    place.write_bytes(bytes(data))
    said = read_all_ways(place)
    assert all(line.startswith("REFUSED") or "FAILED" in line for line in said)


def test_no_more_is_read_than_the_file_has(study):
    """A single value that is longer than the file, and values that are so together: pages would have to be used twice."""
    store = Store.open(study, write=False)
    sizes = [sum(len(part) for part in (one.kind, one.body, one.blob or b"")) + 32 for one in store.records()]
    assert len(sizes) == 3
    for length, said in ((sizes[0] - 1_000, "too big"), (sum(sizes) - 1, "pages are used twice")):
        store._length = length
        with pytest.raises(LedgerError, match=said):
            list(store.records())
    store._length = sum(sizes)
    assert len(list(store.records())) == 3
    store.close()


def bomb(place, count, columns):
    """A study of a few hundred kilobytes whose public rows would unpack to 8 * count * columns bytes."""
    made = place.with_name("made.everhold")
    eh.Holdout.create(made, {"x": np.arange(10.0)}, prior=eh.Reference({"x": np.arange(10.0) + 0.5}), seed=0).release()
    con = sqlite3.connect(made)
    body = json.loads(con.execute("SELECT body FROM record WHERE seq = 1").fetchone()[0])
    con.close()
    declared = "".join(f'[columns."x{i}"]\nkind = "number"\nlow = 0.0\nhigh = 9.0\nmissing = true\n' for i in range(columns))
    body["schema"] = "format = 1\n" + declared
    entries = [{"name": f"x{i}", "kind": "number", "values": {"dtype": "<f8", "shape": [count]}} for i in range(columns)]
    head = dump({"rows": count, "columns": entries, "weights": None}).encode()
    packer = zlib.compressobj(9)
    blob = packer.compress(struct.pack(">I", len(head)) + head)
    for _ in range(8 * count * columns >> 20):
        blob += packer.compress(bytes(1 << 20))
    record = Record("study", 1, dump(body), blob + packer.flush())
    con = sqlite3.connect(place, isolation_level=None)
    for statement in (
        "PRAGMA page_size = 4096",
        f"PRAGMA application_id = {APPLICATION_ID}",
        "PRAGMA user_version = 1",
    ):
        con.execute(statement)
    con.execute(CREATE)
    con.execute("BEGIN")
    _insert(con, 1, record, record.chained(_START))
    con.execute("COMMIT")
    con.close()
    return place


def test_rows_that_unpack_to_gigabytes(tmp_path):
    """Before, 1 MB of file took 2 GB of memory; now it is refused within an address space of 2 GB."""
    place = bomb(tmp_path / "bomb.everhold", 1 << 22, 16)
    assert place.stat().st_size < 2_000_000
    said = read_all_ways(place)
    assert all("reference rows in the ledger are damaged" in line for line in said)


@pytest.mark.parametrize("change", ["longer", "shorter", "more rows", "other shape", "huge head", "objects"])
def test_the_head_rules_what_is_unpacked(change):
    from everhold.data.table import RowTable

    packed = table_to_bytes(RowTable(rows(50)), None)
    plain = zlib.decompress(packed)
    size = struct.unpack(">I", plain[:4])[0]
    head, rest = json.loads(plain[4 : 4 + size]), plain[4 + size :]
    if change == "longer":
        rest += b"\0"
    elif change == "shorter":
        rest = rest[:-1]
    elif change == "more rows":
        head["rows"] = 51
    elif change == "other shape":
        head["columns"][0]["values"]["shape"] = [25, 2]
    elif change == "objects":
        head["columns"][0]["values"]["dtype"] = "|O"
    text = json.dumps(head).encode()
    length = 2**31 if change == "huge head" else len(text)
    with pytest.raises(LedgerError, match="damaged"):
        table_from_bytes(zlib.compress(struct.pack(">I", length) + text + rest))
    again, _ = table_from_bytes(packed)
    assert np.array_equal(again.column("age").values, RowTable(rows(50)).column("age").values)


def test_large_constant_tables_are_kept_all_the_same(monkeypatch):
    """What would shrink like a bomb is kept as it is, and read again."""
    from everhold.data.table import RowTable
    from everhold.ledger import table_blob

    monkeypatch.setattr(table_blob, "_PLAIN", 2**16)
    table = RowTable({"x": np.zeros(100_000)})
    packed = table_to_bytes(table, None)
    assert len(packed) > 800_000
    assert table_from_bytes(packed)[0].row_count == 100_000


def altered(study, place, change, sequence=2):
    """The study with one record's body changed and the chain of hashes computed anew."""
    shutil.copy(study, place)
    con = sqlite3.connect(place, isolation_level=None)
    before = _START
    for seq, kind, version, body, blob in con.execute("SELECT seq, kind, version, body, blob FROM record").fetchall():
        if seq == sequence:
            content = json.loads(body)
            change(content)
            body = dump(content)
        record = Record(kind, version, body, blob)
        before = record.chained(before)
        con.execute("UPDATE record SET body = ?, hash = ? WHERE seq = ?", (body, before, seq))
    con.close()
    return place


@pytest.mark.parametrize(
    ("sequence", "change"),
    [
        (1, lambda body: body.update(more=1)),
        (1, lambda body: body["settings"].update(more=1)),
        (2, lambda body: body.update(more=1)),
        (2, lambda body: body["asked"].update(more=1)),
    ],
)
def test_unknown_entries_are_refused(study, tmp_path, sequence, change):
    place = altered(study, tmp_path / "more.everhold", change, sequence)
    found = eh.Holdout.audit_file(place)
    assert not found.ok
    assert any(word in str(found) for word in ("unknown", "not readable")), str(found)


def test_recorded_questions_cannot_take_for_ever(study, tmp_path):
    """A forged quiet question that would double its work a hundred times is refused by audit."""

    def change(body):
        body["asked"]["text"] = body["name"] = body["identity"] = '("age" IS NULL)' + " IS NULL" * 5_000

    place = altered(study, tmp_path / "slow.everhold", change)
    said = read_all_ways(place)
    assert "FAILED" in said[0]


class TestNames:
    def test_values_cannot_be_called_like_a_text_question(self, tmp_path):
        """Before, the log showed values under the text of a question that nobody had asked, and the text was refused."""
        public = rows(200, 1)
        with eh.Holdout.create(tmp_path / "s.everhold", rows(300), prior=eh.Reference(public), seed=0) as held:
            values = eh.Values(sample=np.ones(300, bool), reference=np.ones(200, bool))
            for name in ('(60.0 < "age")', '"smoker"', "TRUE", "MEAN x FROM 0.0 TO 1.0", "CASE WHEN", "'a'"):
                with pytest.raises(eh.QuestionError, match="could be taken for a question given as text"):
                    held.ask(values, name=name)
            assert held.rounds == 0
            held.ask(values, name="everybody")
            held.ask(values)
            held.ask("age > 60")
        told = [one.question for one in read_study(tmp_path / "s.everhold").rounds]
        assert told == ["values named 'everybody'", "values given as arrays", "age > 60"]

    def test_a_forged_name_is_found(self, tmp_path):
        with eh.Holdout.create(tmp_path / "s.everhold", rows(300), prior=eh.Reference(rows(200, 1)), seed=0) as held:
            held.ask(eh.Values(sample=np.ones(300, bool), reference=np.ones(200, bool)), name="everybody")

        def change(body):
            body["name"] = '(60.0 < "age")'

        place = altered(tmp_path / "s.everhold", tmp_path / "forged.everhold", change)
        assert not eh.Holdout.audit_file(place).ok


@pytest.mark.parametrize(
    "content",
    ["", '{"format": 1}', '{"format": 1, "key": "zz", "data": null}', '{"format": 1, "key": "00", "data": null}', "[1]"],
)
def test_a_wrong_key_file_is_a_sentence(study, content):
    study.with_name(study.name + ".key").write_text(content)
    with pytest.raises(LedgerError, match="cannot be read as the owner's key"):
        eh.Holdout.open(study, data=rows(300))
