"""Two private samples with the same disclosed outcomes give the same everything, byte by byte.

An outcome is what the theorem charges: the cell and step of a round, the index of a choice, a bit, a verdict. Everything
else (values, intervals, prices, errors, previews, fits, the record) must be a function of outcomes and public facts. The
samples are found by search: rows are changed at random, and samples whose outcomes agree are compared. A change that
leaves the outcomes alone and changes one byte of what is returned or recorded is a leak that nobody pays for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import everhold as eh
import everhold.acts
from everhold.ledger.codec import act_end_record, act_start_record, finding_record, round_record
from everhold.ledger.rounds import RecordedAct
from everhold.mechanism.everhold import Everhold
from everhold.queries.request import AskedBy
from tests.validity.records import told

N = 120
Sample = dict[str, np.ndarray]
Script = Callable[[eh.Holdout], list]


def drawn(seed: int, size: int = N) -> Sample:
    rng = np.random.default_rng(seed)
    return {
        "u": np.arange(size) // 3,
        "x": rng.normal(50, 15, size).round(1),
        "y": rng.exponential(20, size).round(1),
        "k": rng.integers(0, 12, size),
        "b": rng.random(size) < 0.3,
        "g": rng.random(size) < 0.5,
    }


PUBLIC = drawn(1, 150)
PUBLIC["u"] = PUBLIC["u"] + 10_000
BASE = drawn(2)


def changed(seed: int) -> Sample:
    """The base sample with a few rows changed: another value, a missing one, one far out of range, another group."""
    rng = np.random.default_rng([seed, 7])
    rows = {name: column.copy() for name, column in BASE.items()}
    for _ in range(int(rng.integers(1, 4))):
        i = int(rng.integers(N))
        match int(rng.integers(6)):
            case 0:
                rows["x"][i] = np.nan
            case 1:
                rows["x"][i] = rng.choice([1e300, -1e300, np.inf])
            case 2:
                rows["g"][i] = ~rows["g"][i]
            case 3:
                rows["b"][i] = ~rows["b"][i]
            case 4:
                rows["y"][i] = rows["y"][i] + rng.choice([-1.0, 0.1, 30.0])
            case 5:
                rows["k"][i] = rng.integers(0, 12)
    return rows


def swapped(seed: int) -> Sample:
    """Means kept, squares not: two values of x move apart by the same amount, so that only the second moment changes."""
    rng = np.random.default_rng([seed, 8])
    rows = {name: column.copy() for name, column in BASE.items()}
    i, j = rng.choice(N, 2, replace=False)
    by = float(rng.uniform(0.5, 4.0).__round__(1))
    rows["x"][i] += by
    rows["x"][j] -= by
    return rows


def extreme(seed: int) -> Sample:
    """Samples without any spread, without a group, without a value: two of each kind."""
    rows = {name: column.copy() for name, column in BASE.items()}
    match seed // 2:
        case 0:
            rows["x"][:], rows["y"][:] = 40.0 + seed / 1000, 20.0
        case 1:
            rows["x"][:] = np.nan
            rows["y"][seed] += 0.1
        case 2:
            rows["g"][:] = False
            rows["x"][seed] += 0.1
        case 3:
            rows["k"][:], rows["y"][:] = 0, 0.0
            rows["x"][seed] += 0.1
    return rows


SAMPLES = [
    BASE,
    *(changed(seed) for seed in range(9)),
    *(swapped(seed) for seed in range(5)),
    *(extreme(seed) for seed in range(8)),
]


# what a session says ----------------------------------------------------------------------------------------------------


def tried(act: Callable[[], object]) -> object:
    """What somebody sees: a result in full, or an error in full."""
    try:
        found = act()
    except Exception as error:
        return [type(error).__name__, str(error), repr(getattr(error, "__cause__", None))]
    return [repr(found), json.dumps(_plain(found), sort_keys=True)]


def _plain(found: object) -> object:
    if isinstance(found, list | tuple):
        return [_plain(one) for one in found]
    return found.to_dict() if hasattr(found, "to_dict") else repr(found)


def record(held: eh.Holdout) -> list[str]:
    """The bytes that a study's file would hold, without times."""
    at, journal = AskedBy(""), held.session._journal
    found = []
    for past in journal.in_order():
        if isinstance(past, RecordedAct):
            found += [act_start_record(past.begun, at).body, act_end_record(past.done, at).body]
        else:
            one = round_record(past, at)
            found.append(f"{one.body} {one.blob!r}")
    found += [finding_record(finding, at).body for _, finding, _ in journal.findings]
    return [*found, repr(held.budget), repr(held), repr(held.session.mechanism.fit), repr(journal.pending)]


def outcomes(held: eh.Holdout) -> tuple:
    return tuple(
        repr(one.done.outcome if isinstance(one, RecordedAct) else one.outcome) for one in held.session._journal.in_order()
    )


def session(rows: Sample, script: Script, **settings) -> tuple[tuple, list]:
    """The outcomes, and all that can be seen: responses, record, and what comes afterwards (previews, asks, an audit)."""
    held = eh.Holdout(rows, prior=eh.Reference(PUBLIC), schema=schema(), seed=3, **settings)
    seen = [tried(one) for one in script(held)]
    afterwards = [
        lambda: held.try_out("k > 4"),
        lambda: held.try_out(eh.Mean("y", low=0, high=100)),
        lambda: held.budget,
        lambda: held.audit(),
    ]
    return outcomes(held), [seen, [tried(one) for one in afterwards], record(held)]


@cache
def schema() -> eh.Schema:
    """As it is proposed from the public rows: the private ones are forced into it."""
    rows = {name: column[:5] for name, column in PUBLIC.items()}
    return eh.Holdout(rows, prior=eh.Reference(PUBLIC), overlap="allow", seed=0).schema


def leaks(script: Script, samples=SAMPLES, run=session, **settings) -> tuple[int, list[str]]:
    """How many samples share their outcomes with another one, and what differs among those that do."""
    groups: dict[tuple, list] = defaultdict(list)
    for rows in samples:
        key, seen = run(rows, script, **settings)
        groups[key].append(seen)
    alike = sum(len(group) for group in groups.values() if len(group) > 1)
    found = [_first_difference(group[0], other) for group in groups.values() for other in group[1:] if other != group[0]]
    # Whether there is another outcome follows from the outcomes so far: else that there is one is a bit nobody pays for.
    found += [f"{key} goes on as {other}" for key in groups for other in groups if key != other and other[: len(key)] == key]
    return alike, found


def _first_difference(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for a, b in zip(one, other, strict=True):
            if a != b:
                return _first_difference(a, b)
    return f"{str(one)[:400]} != {str(other)[:400]}"


# acts and statistics ----------------------------------------------------------------------------------------------------


def raises_on_some(rows):
    """A callable that fails on private rows only: x is never above 1,000 or missing among the public ones."""
    x = rows["x"]
    if np.isnan(x).any() or (x > 1000).any():
        raise RuntimeError(f"a private row: {x[np.isnan(x) | (x > 1000)]}")
    return x > 50


def out_of_range(rows):
    return np.clip(rows["x"], 0.0, 100.0) / 100.0 + np.where(np.abs(rows["x"]) > 1000, np.nan, 0.0)


def values(rows: Sample, column: str, t: float) -> eh.Values:
    return eh.Values(sample=np.nan_to_num(rows[column]) > t, reference=PUBLIC[column] > t)


RANGE = {"low": 0, "high": 100}
STATISTICS = {
    "share": "b AND k > 3",
    "overflow": "x * x * x > 100000 OR x / (k - 3) > 5",
    "group share": eh.Share("b", given="g"),
    "empty group": eh.Share("b", given="k = 11 AND x > 80"),
    "mean": eh.Mean("x", **RANGE),
    "group mean": eh.Mean("x", **RANGE, given="g"),
    "empty mean": eh.Mean("x", **RANGE, given="k = 11 AND x > 80"),
    "quantile": eh.Quantile("x", 0.8, **RANGE),
    "median of a group": eh.Median("k", low=0, high=11, given="g"),
    "difference": eh.Difference("x", "g", "not g", **RANGE),
    "difference of shares": eh.Difference("b", "g", "k = 0"),
    "comparison": eh.Compare("x", "y", **RANGE),
    "difference of overlapping groups": eh.Difference("x", "g", "k > 3", **RANGE),
    "empty difference": eh.Difference("x", "k = 11 AND x > 80", "k = 3", **RANGE),
    "paired": eh.Compare("b", "g"),
    "variance": eh.Variance("x", **RANGE),
    "correlation": eh.Correlation("x", "y", first_range=(0, 100), second_range=(0, 100)),
    "ratio": eh.Ratio("x", "k", first_range=(0, 100), second_range=(0, 11)),
    "ratio to nothing": eh.Ratio("x", "k - k", first_range=(0, 100), second_range=(0, 11)),
    "table": eh.Table("g", "b"),
    "histogram": eh.Histogram("x", bins=3, given="g"),
}
HARD = ("x * x > 2600", "ln(x) > 4", "x / (y - y) > 1", "k * 900000000000000 * x * x * x > 3")


@pytest.mark.parametrize("kind", ["ask", "read", "close"])
@pytest.mark.parametrize("name", list(STATISTICS))
def test_statistics(name, kind):
    asked = STATISTICS[name]

    def script(held):
        if kind == "close":
            return [lambda: held.close([asked, "k > 5"]), lambda: held.ask("k > 6")]
        act = held.ask if kind == "ask" else held.read
        return [lambda: act(asked), lambda: act(asked), lambda: held.ask("k > 5")]

    alike, found = leaks(script)
    assert found == []
    assert alike >= 2 or kind != "ask", "no two samples agree: this tests nothing"


ACTS: dict[str, Script] = {
    "expect": lambda h: [
        lambda: h.ask("x > 40", expect=0.5),
        lambda: h.ask("x > 41", expect=0.97),
        lambda: h.ask("x > 42", expect=-3.0),
        lambda: h.read("x > 43", expect=0.6),
    ],
    "read_many": lambda h: [
        lambda: h.read_many(["k > 3", eh.Mean("x", **RANGE, given="g"), "k > 3", eh.Share("b", given="k = 11")], spend=0.3),
        lambda: h.read("k > 3"),
    ],
    "callables": lambda h: [
        lambda: h.ask(raises_on_some),
        lambda: h.ask(out_of_range),
        lambda: h.read(raises_on_some),
        lambda: h.best_of([raises_on_some, lambda r: r["k"] > 6, lambda r: 1 / 0 if len(r["k"]) == N else r["b"]]),
        lambda: h.compare(raises_on_some, lambda r: r["k"] > 6),
        lambda: h.is_better(out_of_range, lambda r: np.clip(r["y"] / 100, 0, 1)),
    ],
    "best_of": lambda h: [
        lambda: h.best_of(["k > 3", "b", "g", *HARD]),
        lambda: h.best_of([eh.Mean("x", **RANGE), STATISTICS["empty mean"], STATISTICS["ratio to nothing"]]),
        lambda: h.best_of([STATISTICS["variance"], STATISTICS["quantile"], "g"], weights=[1, 2, 3]),
        lambda: h.best_of([eh.Table("g")]),
    ],
    "is_better": lambda h: [
        lambda: h.is_better("b", "g", by=-0.2),
        lambda: h.is_better(STATISTICS["empty mean"], STATISTICS["mean"]),
        lambda: h.is_better(STATISTICS["correlation"], STATISTICS["ratio to nothing"], by=0.1),
    ],
    "compare": lambda h: [
        lambda: h.compare("b", "g"),
        lambda: h.compare(eh.Mean("x", **RANGE), eh.Mean("y", **RANGE), spend=0.5),
        lambda: h.compare(STATISTICS["group mean"], STATISTICS["empty mean"]),
        lambda: h.compare(STATISTICS["correlation"], STATISTICS["variance"]),
        lambda: h.compare("b", STATISTICS["ratio to nothing"]),
        lambda: h.compare(STATISTICS["group share"], STATISTICS["empty group"]),
    ],
    "certify": lambda h: [
        lambda: h.ask("b"),
        lambda: h.ask(STATISTICS["mean"]),
        lambda: h.read("k > 3"),
        lambda: h.certify(1),
        lambda: h.certify(2),
        lambda: h.certify(3, spend=0.9),
        lambda: h.certify(7),
    ],
    "hard texts": lambda h: [
        *(lambda one=one: h.ask(one) for one in HARD),
        lambda: h.read_many(list(HARD)),
        lambda: h.ask(eh.Mean("ln(x)", low=0, high=5)),
        lambda: h.read(eh.Mean("y / (x - x)", low=0, high=5, given="g")),
        lambda: h.read(eh.Quantile("x * 1e15 * 1e15 * x * x", 0.5, low=0, high=5)),
    ],
    "after close": lambda h: [
        lambda: h.close(["b", STATISTICS["group mean"], STATISTICS["quantile"]]),
        lambda: h.ask("b"),
        lambda: h.ask("g"),
        lambda: h.ask_many(["k > 3", "k > 4"]),
        lambda: h.read("g"),
        lambda: h.best_of(["b", "g"]),
        lambda: h.compare("b", "g"),
        lambda: h.certify(1),
    ],
}


def test_every_act_is_done_here():
    """A new act without a script fails."""
    called = set()

    class Spy:
        def __getattr__(self, name):
            called.add(name)
            return lambda *_, **__: None

    for script in ACTS.values():
        for act in script(Spy()):
            act()
    assert set(everhold.acts.ACTS) <= called


@pytest.mark.parametrize("settings", [{}, {"known_rows": 4}, {"rounds": 20}], ids=["plain", "known rows", "horizon"])
@pytest.mark.parametrize("name", list(ACTS))
def test_acts(name, settings):
    alike, found = leaks(ACTS[name], SAMPLES if not settings else SAMPLES[::2], **settings)
    assert found == []
    assert alike >= 2 or settings, "no two samples agree: this tests nothing"


def test_given_values():
    """Yes/no values and numbers, all acts; the numbers' second moments differ while their cells agree."""

    def script_for(rows):
        number = eh.Values(
            sample=np.clip(np.nan_to_num(rows["y"]), 0, 100) / 100, reference=np.clip(PUBLIC["y"], 0, 100) / 100
        )
        yes, other = values(rows, "k", 5), values(rows, "y", 20)
        return lambda h: [
            lambda: h.ask(number),
            lambda: h.ask(yes, expect=0.5),
            lambda: h.read_many([number, yes, other]),
            lambda: h.best_of([yes, other]),
            lambda: h.compare(yes, other),
            lambda: h.is_better(yes, number),
            lambda: h.close([other, number]),
        ]

    def run(rows, script, **settings):
        return session(rows, script_for(rows), **settings)

    alike, found = leaks(None, run=run)
    assert found == []
    assert alike >= 2


@pytest.mark.parametrize("name", ["share", "group mean", "quantile", "difference", "table"])
def test_units(name):
    """Rows of one unit are one draw: text questions only, means of units by Fan's bound."""
    asked = STATISTICS[name]

    def script(held):
        return [
            lambda: held.ask("b"),
            lambda: held.read_many([asked, "k > 3"] if name != "quantile" else ["k > 3"]),
            lambda: held.best_of([asked, "g"]) if name != "table" else None,
            lambda: held.compare("b", "g"),
            lambda: held.is_better("b", "g"),
        ]

    alike, found = leaks(script, SAMPLES[:10] if name != "quantile" else SAMPLES[:6], unit="u")
    assert found == []
    assert alike >= 2 or name in ("quantile", "table")


def on_disk(tmp_path, engine):
    """A durable study: the file itself, apart from times and fingerprint."""
    place = iter(range(1000))

    def run(rows, script, **settings):
        number = next(place)
        data = rows
        if engine == "duckdb":
            polars = pytest.importorskip("polars")
            data = tmp_path / f"{number}.parquet"
            polars.DataFrame(rows).write_parquet(data)
        path = tmp_path / f"{number}.everhold"
        with eh.Holdout.create(
            path, data, prior=eh.Reference(PUBLIC), schema=schema(), seed=3, engine=engine, **settings
        ) as held:
            seen = [tried(one) for one in script(held)]
            key = outcomes(held)
        seen = json.loads(json.dumps(seen).replace(str(tmp_path / f"{number}."), ""))
        return key, [seen, [list(map(str, one)) for one in told(path)], str(eh.Holdout.audit_file(path))]

    return run


def everything(held: eh.Holdout) -> list:
    s = STATISTICS
    return [
        lambda: held.ask("b AND x > 30", expect=0.2),
        lambda: held.ask(s["overflow"]),
        lambda: held.read_many([s["mean"], s["group share"], s["empty mean"]]),
        lambda: held.read(s["quantile"]),
        lambda: held.best_of(["k > 3", s["ratio to nothing"], *HARD[:2]]),
        lambda: held.compare("b", "g"),
        lambda: held.is_better(s["variance"], s["correlation"]),
        lambda: held.certify(1),
        lambda: held.read_many(list(HARD)),
        lambda: held.close(["g", s["difference"]]),
    ]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_files(engine, tmp_path):
    """The bytes of the study's own file."""
    samples = [BASE, *(small(seed) for seed in range(5))]
    alike, found = leaks(everything, samples, on_disk(tmp_path, engine))
    assert found == []
    assert alike >= 2, "no two samples agree: this tests nothing"


def small(seed: int) -> Sample:
    """One value moved a little: most outcomes stay."""
    rows = {name: column.copy() for name, column in BASE.items()}
    rng = np.random.default_rng([seed, 9])
    i, j = np.flatnonzero((rows["x"] > 52) & (rows["x"] < 70))[:2] if seed == 0 else rng.choice(N, 2, replace=False)
    rows["x"][i] += 0.1
    rows["x"][j] -= 0.1
    return rows


# controls: mutants that print something private ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ask", "read"])
def test_a_mutant_that_prints_the_private_variance_is_found(monkeypatch, kind):
    """The interval moves by 10⁻¹² of the private sum of squares, which no outcome contains."""
    decide, answer = Everhold.decide, Everhold.answer
    last = {}

    def spying(self, proposal, sums):
        last["second"] = sums[0].second
        return decide(self, proposal, sums)

    def printing(self, proposal, outcome):
        found = answer(self, proposal, outcome)
        return replace(found, high=found.high + 1e-12 * last.get("second", 0) / 2**30)

    monkeypatch.setattr(Everhold, "decide", spying)
    monkeypatch.setattr(Everhold, "answer", printing)
    asked = STATISTICS["mean"]
    alike, found = leaks(lambda h: [lambda: (h.ask if kind == "ask" else h.read)(asked)])
    assert alike >= 2
    assert found


def test_a_mutant_that_refuses_small_groups_is_found(monkeypatch):
    """An error that depends on the private size of a group is one bit."""
    from everhold.mechanism.measures.groups import GroupMeanCells
    from everhold.mechanism.measures.measure import in_steps

    decide = GroupMeanCells.decide

    def refusing(self, sums):
        (first, _), (rest, _) = (in_steps(one, self.inputs.rows) for one in sums)
        if (first + rest) // 65536 % 2:
            raise eh.QuestionError("too few rows")
        return decide(self, sums)

    monkeypatch.setattr(GroupMeanCells, "decide", refusing)
    _, found = leaks(lambda h: [lambda: h.ask(STATISTICS["group mean"])])
    assert found
