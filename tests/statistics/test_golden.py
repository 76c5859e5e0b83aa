"""Every statistic gives what it gave before it was rewritten, to the bit."""

import json

from tests.statistics.golden import PLACE, results


def test_all_answers_are_as_they_were():
    kept, now = json.loads(PLACE.read_text(encoding="utf-8")), json.loads(json.dumps(results()))
    assert now["names"] == kept["names"]
    for asked in ("asked", "rehearsed"):
        for one, other in zip(now[asked], kept[asked], strict=True):
            assert one == other
    assert now["price"] == kept["price"]
