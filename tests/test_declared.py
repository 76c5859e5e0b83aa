"""Every package that is imported is declared, where it is needed, and its oldest allowed version is tested."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS_OF_ROOM = {
    "adapters": {"adapters"},
    "cli": {"cli", "demo"},
    "client": {"client"},
    "data": {"postgres", "spark"},
    "learn": {"learn"},
    "mcp.py": {"mcp"},
    "plots.py": {"plot"},
    "progress.py": {"cli"},
    "report": {"plot", "sign"},
    "results.py": {"frames"},
    "server": {"serve"},
}
"""The other rooms use the dependencies that everybody has."""

COMMAND_LINE = {"rich", "typer"}
"""Installed for everybody, and imported by the command line and by progress bars alone."""

CALLED = {"inspect_ai": "inspect-ai", "mlflow": "mlflow-skinny", "sklearn": "scikit-learn", "xdist": "pytest-xdist"}
"""What is imported under another name than it is installed."""

NOT_IMPORTED = {"python-multipart"}
"""Starlette reads forms with it."""

OURS = {"benchmarks", "everhold", "tests"}


def requirements(extra: str | None = None) -> dict[str, str]:
    """Names and versions of the dependencies, or of an extra with those that it contains."""
    listed = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    found: dict[str, str] = {}
    for one in listed:
        name, inner, versions = re.fullmatch(r"([\w-]+)(?:\[([\w,]+)\])?(.*)", one).groups()
        if name == "everhold":
            for part in inner.split(","):
                found |= requirements(part)
        else:
            found[name] = versions
    return found


def pins(file: str) -> dict[str, str]:
    """The versions in a file of pins."""
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / file).read_text(encoding="utf-8"), flags=re.M))


def imported(text: str) -> set[str]:
    """The packages of others that a module imports, at its top or anywhere below."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.append(node.module)
    tops = {name.partition(".")[0] for name in names}
    return {CALLED.get(name, name) for name in tops - set(sys.stdlib_module_names) - OURS}


def undeclared(text: str, room: str) -> set[str]:
    """What a module of a room imports without being entitled to it."""
    allowed = set(requirements()) - COMMAND_LINE
    for extra in EXTRAS_OF_ROOM.get(room, ()):
        allowed |= set(requirements(extra))
    return imported(text) - allowed


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "src" / "everhold").parts[0]


@pytest.mark.parametrize("path", modules("src/everhold"), ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_room_imports_what_its_extra_declares(path):
    assert not undeclared(path.read_text(encoding="utf-8"), room_of(path))


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "tests"])
def test_what_developers_import_is_declared(folder):
    for path in modules(folder):
        extras = ("dev", "adapters") if path.parent.name == "adapters" else ("dev", "spark")
        allowed = set(requirements()).union(*(requirements(extra) for extra in extras))
        assert not imported(path.read_text(encoding="utf-8")) - allowed, path


@pytest.mark.parametrize(
    ("text", "room", "found"),
    [
        ("import requests", "server", {"requests"}),
        ("def f():\n    from sklearn.base import clone", "session", {"scikit-learn"}),
        ("import typer", "server", {"typer"}),
        ("import fastapi.routing", "client", {"fastapi"}),
        ("import duckdb, json\nfrom . import x\nfrom everhold.errors import DataError", "data", set()),
        ("import typer, rich, matplotlib.figure", "cli", set()),
    ],
)
def test_the_check_finds_what_is_missing(text, room, found):
    assert undeclared(text, room) == found


def test_nothing_is_declared_that_is_not_imported():
    """But for adapters: their hosts are not part of everhold."""
    paths = [path for path in modules("src/everhold") if room_of(path) != "adapters"]
    used = set().union(*(imported(path.read_text(encoding="utf-8")) for path in paths))
    assert (
        set(requirements()) | set(requirements("all")) | set(requirements("sign")) | set(requirements("spark"))
        == used | NOT_IMPORTED
    )


def test_the_oldest_allowed_versions_are_the_ones_that_are_tested():
    """`make test-oldest` installs what `make oldest` found. Where a bound is lower than that, nobody tests it."""
    pinned, wanted = pins("constraints-oldest.txt"), requirements() | requirements("dev")
    assert len(wanted) > 25
    for name, versions in wanted.items():
        lowest = re.match(r">=([\d.]+)", versions)
        assert lowest, f"{name} has no lower bound"
        assert _numbers(pinned[name]) == _numbers(lowest[1]), name


def _numbers(version: str) -> list[int]:
    """1.26.0 and 1.26 are the same."""
    found = [int(part) for part in version.split(".")]
    while found and not found[-1]:
        found.pop()
    return found


@pytest.mark.parametrize("name", ["uvicorn", "mcp"])
def test_what_changes_under_us_has_an_upper_bound(name):
    """Parts of uvicorn that are not its interface are subclassed, and mcp is young."""
    assert re.search(r",<\d", (requirements() | requirements("all"))[name])


@pytest.mark.parametrize(
    "file", ["constraints.txt", "constraints-adapters.txt", "constraints-docs.txt", "deploy/requirements.lock"]
)
def test_pinned_versions_are_allowed_ones(file):
    """Otherwise `make test` and a server would run something else than what is declared."""
    pinned = pins(file)
    known = {"constraints.txt": ["dev"], "constraints-adapters.txt": ["adapters"], "constraints-docs.txt": ["docs"]}
    extras = known.get(file, ["cli", "client", "postgres", "serve", "mcp"])
    wanted = requirements()
    for extra in extras:
        wanted |= requirements(extra)
    for name, versions in wanted.items():
        lowest, below = re.fullmatch(r">=([\d.]+)(?:,<([\d.]+))?", versions).groups()
        assert _numbers(lowest) <= _numbers(pinned[name]), name
        assert below is None or _numbers(pinned[name]) < _numbers(below), name


def test_the_lock_has_a_hash_of_every_file_at_the_versions_that_are_tested():
    text = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    entries = [one for one in text.replace("\\\n", " ").splitlines() if not one.startswith("#")]
    assert all("--hash=sha256:" in one for one in entries)
    tested, served = pins("constraints.txt"), pins("deploy/requirements.lock")
    assert len(served) == len(entries)
    both = set(tested) & set(served)
    assert len(both) > 30
    assert {name: served[name] for name in both} == {name: tested[name] for name in both}


@pytest.mark.parametrize("file", [*(one.name for one in ROOT.glob("constraints*.txt")), "deploy/requirements.lock"])
def test_pins_name_no_registry(file):
    assert "://" not in (ROOT / file).read_text(encoding="utf-8")
