"""Files beside a study: each carries the number of its format, and one that is not known is refused in a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

import everhold as eh
from everhold.ledger.safe_files import JSON_FORMAT, read_json, to_json, write_atomic
from everhold.server.tokens import Tokens


def rows(size, seed=0):
    return {"age": np.random.default_rng(seed).integers(18, 90, size)}


def key_file(folder):
    eh.Holdout.create(folder / "s.everhold", rows(300), prior=eh.Reference(rows(3_000, 1)), seed=0).release()
    return folder / "s.everhold.key", lambda: eh.Holdout.open(folder / "s.everhold", data=rows(300)).release()


def contest_file(folder):
    eh.Contest.create(folder / "c.everhold", [0, 1] * 50, classes=[0, 1], seed=1)
    return folder / "c.everhold.contest.json", lambda: eh.Contest(folder / "c.everhold")


def label_file(folder):
    eh.Contest.create(folder / "c.everhold", [0, 1] * 50, classes=[0, 1], seed=1)
    return folder / "c.everhold.labels", lambda: eh.Contest(folder / "c.everhold").require_ready()


def token_file(folder):
    Tokens(folder / "tokens.json").create("ann", "analyst")
    return folder / "tokens.json", lambda: Tokens(folder / "tokens.json").all()


@pytest.mark.parametrize("make", [key_file, contest_file, label_file, token_file])
def test_each_file_carries_its_format_and_refuses_another(tmp_path, make):
    path, read = make(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["format"] == JSON_FORMAT == 1
    read()
    for other in (2, 0, "1", True, None):
        path.write_text(json.dumps({**content, "format": other}), encoding="utf-8")
        with pytest.raises(eh.LedgerError, match=rf"has format {other!r}, and this version of everhold reads format 1"):
            read()
    path.write_text(json.dumps({name: value for name, value in content.items() if name != "format"}), encoding="utf-8")
    with pytest.raises(eh.LedgerError, match="has format None"):
        read()
    path.write_text(json.dumps(content), encoding="utf-8")
    read()


def test_what_was_written_is_read(tmp_path):
    content = {"key": "ä", "rows": [1, 2.5, None]}
    write_atomic(tmp_path / "x.json", to_json(content))
    assert read_json(tmp_path / "x.json") == content
    for wrong in ("", "[]", "7"):
        (tmp_path / "x.json").write_text(wrong)
        with pytest.raises(ValueError, match=r"JSON|Expecting"):
            read_json(tmp_path / "x.json")
