"""Tries a built release as a stranger would, outside the clone: `python deploy/try_release.py dist [--every]`.

In an empty environment with nothing but the wheel: `everhold price`, `everhold demo` and a first answer from the study that
the demo makes. With `--every` also the source distribution, uvx, pipx, and every extra on every Python that can be found.
Needs uv and pipx beside the Python that runs it (`make dist` has them).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOOLS = Path(sys.executable).parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PRICE = ("price", "--rows", "500", "--looks", "100", "--kept", "15", "--score", "0.83")
PRICED = "After 100 looks with 15 kept: 0.132 to 1.000 if every score was seen,"

_HOLDOUT = """
import numpy as np, everhold as eh
rng = np.random.default_rng(0)
people = lambda size: {"age": rng.integers(18, 90, size), "smoker": rng.random(size) < 0.2}
holdout = eh.Holdout(people(5000), prior=eh.Reference(people(5000)), seed=1)
assert 49 / 72 in holdout.ask("age > 40").interval
assert holdout.audit().ok
"""
EXTRAS = {
    "": _HOLDOUT,
    "cli": "from everhold.cli.main import COMMANDS, loaded\n"
    "[loaded(name) for name in COMMANDS if name not in ('serve', 'mcp')]",
    "plot": "from typer.testing import CliRunner; from everhold.cli.main import app; from pathlib import Path\n"
    "CliRunner().invoke(app, 'price --rows 500 --looks 100 --kept 15 --score 0.83 --plot price.png'.split())\n"
    "assert Path('price.png').read_bytes()[1:4] == b'PNG'",
    "demo": "import everhold.cli.demo, matplotlib.figure",
    "learn": """
import everhold as eh
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
X_train, X_test, y_train, y_test = train_test_split(*load_iris(return_X_y=True), random_state=0)
test = eh.TestSet(X_test, y_test, reference=(X_train, y_train), seed=1)
test.enter(DecisionTreeClassifier(random_state=0).fit(X_train, y_train))
assert 0.5 < test.winner().score.value <= 1
""",
    "frames": """
import pandas as pd, everhold as eh
frame = pd.DataFrame({"age": range(2000), "smoker": [k % 3 == 0 for k in range(2000)]})
assert eh.Holdout(frame, prior=eh.Split(0.5), seed=1).ask("smoker").interval.high < 1
""",
    "sign": "from pathlib import Path; from everhold.report import signature\n"
    "signature.create_key(Path('a.key')); assert signature.sign({}, Path('a.key'))['signatures']",
    "client": "import everhold as eh, httpx2; eh.connect; eh.connect_async; eh.Server",
    "serve": "import everhold.server.app, everhold.server.run, uvicorn",
    "mcp": "import everhold.mcp",
    "postgres": "import psycopg, everhold as eh; eh.Postgres('postgresql://reader@localhost/clinic', table='patients')",
    "all": "import everhold.server.app, everhold.mcp, sklearn, pandas, matplotlib, psycopg\n" + _HOLDOUT,
}
"""A few lines for every extra that users install; `spark` is too large to try here, and has `make test-spark`."""


def interpreters() -> dict[str, str]:
    """The Pythons that can be had, by version."""
    found = {}
    for version in VERSIONS:
        pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
        for path in (shutil.which(f"python{version}"), *map(str, reversed(pyenv))):
            check = "import sys; print('%d.%d' % sys.version_info[:2])"
            if path and _silent([path, "-c", check]) == version:
                found[version] = path
                break
    return found


def _silent(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Trial:
    """A folder of its own, in which commands run without anything of the clone or of the user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = ("PATH", "LANG", "SSL_CERT_FILE", "UV_CACHE_DIR", "PIP_CERT")
        home = Path(os.environ.get("HOME", folder))
        self.environment = {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(folder),
            "EVERHOLD_HOME": str(folder / "data"),
            "PIPX_HOME": str(folder / "pipx"),
            "PIP_CACHE_DIR": str(home / ".cache" / "pip"),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(home / ".cache" / "uv")),
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def run(self, *command: str | Path, says: str = "") -> str:
        """Runs a command; it must succeed, and print this among other things."""
        done = subprocess.run(
            [str(one) for one in command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode or says not in " ".join(done.stdout.split()):
            shown = " ".join(str(one) for one in command)
            sys.exit(f"error: {shown}\nfailed with exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def environment_with(self, python: str, requirement: str, *, constrained: bool = True) -> Path:
        """An empty virtual environment with this installed; where its programs are."""
        place = self.folder / "environment"
        uv, pinned = TOOLS / "uv", ("--constraint", ROOT / "constraints.txt") if constrained else ()
        self.run(uv, "venv", "--no-config", "--quiet", "--clear", "--python", python, place)
        self.run(uv, "pip", "install", "--no-config", "--quiet", "--python", place, *pinned, requirement)
        return place / "bin"


def first_minute(trial: Trial, everhold: Sequence[str | Path]) -> None:
    """What a stranger does first, with the time that it takes."""
    for arguments, says in (
        (PRICE, PRICED),
        (("demo",), "without the private rows: 2,010 answers, 0 differ."),
        (("ask", "out/demo.everhold", "smoker AND age > 60"), "in ["),
    ):
        started = time.perf_counter()
        trial.run(*everhold, *arguments, says=says)
        print(f"  everhold {arguments[0]:<6} {time.perf_counter() - started:5.1f} s")


def main() -> None:
    """Tries everything; stops at the first failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--every", action="store_true", help="every extra on every Python, the sdist, uvx and pipx")
    given = parser.parse_args()
    (wheel,), (sdist,) = (list(given.dist.resolve().glob(one)) for one in ("*.whl", "*.tar.gz"))
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        started = time.perf_counter()
        programs = trial.environment_with(sys.executable, str(wheel))
        print(f"{wheel.name} in an empty environment: {time.perf_counter() - started:.1f} s")
        first_minute(trial, [programs / "everhold"])
        trial.run(programs / "python", "-c", _HOLDOUT)
        print(f"  all of it       {time.perf_counter() - started:5.1f} s")
    if given.every:
        every(wheel, sdist)


def every(wheel: Path, sdist: Path) -> None:
    """The sdist, uvx, pipx, and every extra on every Python."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        programs = trial.environment_with(sys.executable, str(sdist))
        trial.run(programs / "everhold", *PRICE, says=PRICED)
        print(f"{sdist.name}: built and installed")
        trial.run(TOOLS / "uvx", "--no-config", "--from", wheel, "everhold", *PRICE, says=PRICED)
        print("uvx --from …whl everhold price: works")
        pipx = (TOOLS / "pipx", "run", "--python", sys.executable, "--spec", wheel, "everhold")
        trial.run(*pipx, *PRICE, says=PRICED)
        trial.run(*pipx, "demo", says="0 differ.")
        print("pipx run --spec …whl everhold price, demo: work")
    for version, python in interpreters().items():
        for extra, code in EXTRAS.items():
            with tempfile.TemporaryDirectory() as folder:
                trial = Trial(Path(folder))
                programs = trial.environment_with(python, f"{wheel}[{extra}]" if extra else str(wheel))
                trial.run(programs / "everhold", *PRICE, says=PRICED)
                trial.run(programs / "python", "-W", "error", "-c", code)
        print(f"Python {version}: works without an extra, and with {', '.join(filter(None, EXTRAS))}")
    missing = [version for version in VERSIONS if version not in interpreters()]
    if missing:
        print(f"Not tried, because there is no interpreter here: Python {', '.join(missing)}")


if __name__ == "__main__":
    main()
