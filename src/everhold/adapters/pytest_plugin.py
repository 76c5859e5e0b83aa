"""`pytest --everhold-gate gate.everhold`: every test is a case, and the run is a candidate.

pytest loads this file in every run, so nothing of everhold is imported before the option is used. Cases are sealed: what
pytest would print about single tests, or write for `--last-failed`, is left out unless `--everhold-show` is given.
With pytest-xdist the processes that run tests do nothing here: the one that gathers their reports checks the gate.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["GatedRun", "pytest_addoption", "pytest_configure"]

KEPT, INVALID, USED_UP = 1, 3, 6
"""Exit codes beside 0, promoted: those of `everhold gate check`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("everhold", "everhold: a gate for whatever the tests test")
    group.addoption("--everhold-gate", metavar="GATE", help="check this run's outcomes at a gate: promote or keep")
    group.addoption("--everhold-create", action="store_true", help="make the gate from this run, as its first incumbent")
    group.addoption("--everhold-name", metavar="NAME", help="what the candidate is called, a commit for example")
    group.addoption("--everhold-artifact", metavar="FILE", help="the candidate's file: the incumbent's bytes are refused")
    group.addoption("--everhold-show", action="store_true", help="show the outcomes of single tests, as pytest does")
    group.addoption(
        "--everhold-exit",
        choices=["verdict", "tests"],
        default="verdict",
        help="whose exit status: the gate's (0 promote, 1 keep, 3 invalid, 6 used up) or that of the tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run where a gate is given."""
    if config.getoption("everhold_gate") is None:
        if config.getoption("everhold_create"):
            raise pytest.UsageError("--everhold-create needs the path of the gate to make: --everhold-gate gate.everhold")
        return
    if config.getoption("maxfail", 0):
        pytest.exit(
            "everhold gate: -x and --maxfail stop at a failure, and a gate needs every test. Leave them out. Nothing was "
            "charged.",
            returncode=INVALID,
        )
    if not config.getoption("everhold_show"):
        config.pluginmanager.register(_Sealed(config), "everhold-sealed")
    config.pluginmanager.register(Contained(), "everhold-contained")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(GatedRun(config), "everhold-gated-run")


class GatedRun:
    """Collects one outcome a test, and checks the gate when the run has ended, however it did."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: dict[str, bool] = {}
        self._passed: dict[str, bool] = {}
        self._not_collected = False
        self.said = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Every test that is to run fails until it passes: one that is not reached as well."""
        self._collected.update(dict.fromkeys((item.nodeid for item in session.items), False))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """The same in a process that runs tests."""
        self._collected.update(dict.fromkeys(ids, False))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test passes if it was called and passed, and nothing around it failed. A repeated one starts again."""
        if report.when == "setup":
            self._passed[report.nodeid] = False
        elif report.when == "call":
            self._passed[report.nodeid] = report.passed
        elif report.failed:
            self._passed[report.nodeid] = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported, or skips itself: its tests are failures of the candidate."""
        self._not_collected = self._not_collected or not report.passed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """A module that stops the run on import."""
        try:
            return (yield)
        except BaseException:
            self._not_collected = True
            raise

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Check, also a run that was cut short: a candidate can cut it short, and must not learn anything for nothing."""
        option = self._config.getoption
        none = exitstatus in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
        none = none and not self._collected and not self._not_collected
        whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if none or option("collectonly", False):
            status, self.said = INVALID, "not checked: no test was run. Nothing was charged."
        elif option("everhold_create") and not whole:
            status, self.said = INVALID, "not made: the run did not end as usual. Expected an incumbent that can be run."
        else:
            status, self.said = self._verdict()
        if option("everhold_exit") == "verdict":
            session.exitstatus = status

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The verdict."""
        if self.said:
            terminalreporter.section("everhold gate")
            terminalreporter.write_line(self.said)

    def _verdict(self) -> tuple[int, str]:
        from everhold.errors import EverholdError, GateUsedUp

        try:
            return self._checked()
        except GateUsedUp as error:
            return USED_UP, str(error)
        except EverholdError as error:
            return INVALID, str(error)

    def _checked(self) -> tuple[int, str]:
        from everhold.errors import InvalidOutcomes
        from everhold.gate.gate import Gate

        option = self._config.getoption
        path, artifact = Path(option("everhold_gate")), option("everhold_artifact")
        outcomes = cases_of(self._collected | self._passed, int(option("count", 1) or 1))
        if option("everhold_create"):
            named = {} if option("everhold_name") is None else {"name": option("everhold_name")}
            created = Gate.create(path, outcomes, artifact=artifact, **named)
            return 0, f"made {path}: {created.rules.cases:,} sealed cases"
        with Gate(path) as gate:
            known = gate.rules.cases + gate.rules.visible
            if 0 < len(outcomes) < known and not self._not_collected:
                raise InvalidOutcomes(
                    f"this run has {len(outcomes):,} of the gate's {known:,} tests. Expected all of them: leave out -k, -m "
                    "and paths. Nothing was charged."
                )
            result = gate.check(outcomes, name=option("everhold_name"), artifact=artifact)
        return 0 if result.promoted else KEPT, str(result)


class _Stopped(Exception):
    """A test tried to stop the run."""


@contextmanager
def _failing() -> Iterator[None]:
    """What would stop the run is a failure of the test: else it would show which test did it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
        raise _Stopped(f"{type(error).__name__} in a test") from None


class Contained:
    """No test stops the run, and no text of what stops it on import is shown. In every process that runs tests."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Importing a module."""
        try:
            return (yield)
        except (KeyboardInterrupt, SystemExit) as error:
            raise KeyboardInterrupt(f"{type(error).__name__} on import") from None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Before a test."""
        with _failing():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """The test itself."""
        with _failing():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """After it."""
        with _failing():
            return (yield)


class _Sealed:
    """Says nothing about single tests: neither on the screen nor in pytest's cache."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.verbose = -1
        for name in ("lfplugin", "nfplugin", "stepwiseplugin", "terminalprogress-plugin"):
            if config.pluginmanager.has_plugin(name):
                config.pluginmanager.unregister(name=name)
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """Nothing, not even a dot: how long a test takes, and where a run ends, is up to the candidate."""
        return ("", "", "")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, Any, Any]:
        """Warnings name tests, and errors of modules that cannot be imported hold their text."""
        for kind in ("warnings", "error", "failed", "skipped"):
            terminalreporter.stats.pop(kind, None)
        return (yield)


def cases_of(passed: dict[str, bool], count: int) -> dict[str, Any]:
    """Outcomes by case: the runs of pytest-repeat (`--count 3`) are runs of one case.

    >>> cases_of({"a.py::test[1-2]": True, "a.py::test[2-2]": False, "a.py::other[x-1-2]": True}, 2)
    {'a.py::test': [True, False], 'a.py::other[x]': [True]}
    >>> cases_of({"a.py::test[1-2]": True}, 1)
    {'a.py::test[1-2]': True}
    """
    if count == 1:
        return dict(passed)
    cases: dict[str, list[bool]] = {}
    for name, outcome in passed.items():
        cases.setdefault(re.sub(rf"\[(?:(.*)-)?\d+-{count}\]$", _without_run, name), []).append(outcome)
    return cases


def _without_run(match: re.Match[str]) -> str:
    return f"[{match[1]}]" if match[1] else ""
