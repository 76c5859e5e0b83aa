"""What is loaded when: names, commands and heavy packages at their first use. Counted in modules, not in seconds."""

import subprocess
import sys

import pytest
import typer

from everhold.cli.main import COMMANDS, app, loaded

HEAVY = ("numpy", "scipy", "scipy.special", "scipy.linalg", "duckdb", "sklearn", "fastapi", "httpx2", "typer", "pandas")


def _loaded(code):
    """Which heavy packages a fresh process has loaded after some code."""
    check = f"import sys; print(*[one for one in {HEAVY!r} if one in sys.modules])"
    found = subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True).stdout
    return set(found.splitlines()[-1].split()) if found.strip() else set()


def test_importing_everhold_loads_nothing_heavy():
    assert _loaded("import everhold") == set()
    assert _loaded("import everhold; everhold.QuestionError") == set()


def test_a_holdout_in_memory_needs_numpy_alone():
    code = (
        "import everhold as eh, numpy as np\n"
        "x = {'x': np.arange(100.0)}\n"
        "held = eh.Holdout(x, prior=eh.Reference({'x': np.arange(50.0) + 0.5}), seed=0)\n"
        "held.ask('x > 30')"
    )
    assert _loaded(code) == {"numpy"}
    assert "duckdb" in _loaded("import everhold.data.duckdb_files as files; files.connection()")  # the check can see it


def test_help_loads_no_command():
    code = "import sys\nsys.argv = ['everhold', '--help']\nfrom everhold.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: pass"
    assert _loaded(code) == {"typer"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_list_of_commands_says_what_each_says(name):
    command = loaded(name)
    assert (command.help or "").strip().split("\n")[0] == COMMANDS[name][1]


def test_every_registered_command_is_listed():
    """All that the modules register, and nothing else."""
    from importlib import import_module

    registered = set()
    for module in {module for module, _ in COMMANDS.values()}:
        some = typer.Typer(rich_markup_mode=None)
        some.callback()(lambda: None)
        import_module(f"everhold.cli.{module}").register(some)
        registered |= set(typer.main.get_command(some).commands)
    assert registered == set(COMMANDS)
    assert typer.main.get_command(app).list_commands(None) == list(COMMANDS)
