"""The server in simulated time, on a simulated disk: seeds without a violation, and bugs that it finds.

A seed replays exactly, so these tests do not depend on luck: a change of the product may bring another seed to light, and
that is then a finding about the product or about the simulator. What a violation's seed shows is printed with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.studies import make_site
from tests.simulation.world import World

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated disk follows Linux"),
    pytest.mark.filterwarnings("ignore"),
]

SEEDS = range(200)
"""Half a minute of processor time; `.ci/run` has a thousand, `.github/workflows/nightly.yml` hours, with other seeds."""
FOUND_WITHIN = 1_000


@pytest.fixture(scope="module")
def site():
    return make_site()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_seeds_without_a_violation(site, part):
    counts = Counter()
    for seed in SEEDS[part::2]:
        found = World(site, seed).run()
        assert found.violation is None, f"seed {seed}: {found.violation}\npython -m tests.simulation --seed {seed}"
        counts += found.counts
    assert counts["answers"] > len(SEEDS[part::2]), "clients got few answers: too little was tested"
    assert counts["kills"]
    assert counts["faults"]


def test_some_seeds_without_a_violation(site):
    for seed in range(12):
        assert World(site, seed).run().violation is None, seed


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        ("lost flush", "durable before it is shown|cannot be read|charged once|what readers see is durable"),
        ("double answer", "a request gets one answer|charged once|not charged again|answered twice"),
        ("early reveal", "an answer is durable before it is shown"),
        ("reordered rounds", "cannot follow|dense|starts again|without a fault is healthy|begins before|never began"),
        ("stale lock", "a server starts again after a crash"),
        ("no lock", "one server has a study|beside a server|charged once|without a fault"),
        ("no folder sync", "durable"),
        ("off the grid", "an answer leaves on the grid"),
        ("free interruption", "an interrupted act is charged"),
    ],
)
def test_a_planted_bug_is_found(site, bug, promise):
    """Controls. The first five are those that the project names; each is found by the promise that it breaks."""
    with BUGS[bug]():
        for seed in range(FOUND_WITHIN):
            found = World(site, seed).run()
            if found.violation is not None:
                break
    assert found.violation is not None, f"{bug} was not found within {FOUND_WITHIN:,} seeds"
    assert re.search(promise, found.violation), found.violation


@pytest.mark.parametrize("seed", [0, 3, 7, 11])
def test_a_seed_replays_exactly(site, seed):
    first, again = World(site, seed, keep=True).run(), World(site, seed, keep=True).run()
    assert first.trace == again.trace
    assert first.digest == again.digest
    assert len(first.trace) > 50
    assert World(site, seed + 1).run().digest != first.digest


def test_a_seed_replays_exactly_in_another_process(site):
    """Also where strings hash otherwise, and files lie elsewhere."""
    here = [World(site, seed).run().digest for seed in range(4)]
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from tests.simulation.studies import make_site\n"
        "from tests.simulation.world import World\n"
        "site = make_site()\n"
        "print(*[World(site, seed).run().digest for seed in range(4)])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "5", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.split() == here


def test_the_command_shows_every_event(capsys, monkeypatch):
    from tests.simulation.__main__ import main

    monkeypatch.setattr(sys, "argv", ["simulation", "--seed", "1"])
    assert main() == 0
    said = capsys.readouterr().out
    assert "start server 1" in said
    assert said.endswith("no violation\n")
    monkeypatch.setattr(sys, "argv", ["simulation", "--seeds", "0:3", "--bug", "off the grid"])
    assert main() == 1
    said = capsys.readouterr().out
    assert "replay: python -m tests.simulation --seed" in said
