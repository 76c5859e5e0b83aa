"""One run: a server, its disk, its clients, and everything that goes wrong, from one seed."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import everhold as eh
from everhold.errors import EverholdError, GateUsedUp, HoldoutClosed, InvalidOutcomes, LedgerBusy
from everhold.gate.gate import Gate
from everhold.ledger.registry import HOME
from everhold.ledger.safe_files import unlock
from everhold.server.app import make_app
from everhold.server.config import Config, StudyAt
from everhold.server.middleware import RequestMiddleware
from everhold.server.state import ServerState
from tests.simulation.boundary import simulated
from tests.simulation.disk import Disk
from tests.simulation.invariants import Promises, Violation, leaves_record, require
from tests.simulation.requests import Request, Requests
from tests.simulation.studies import NAMES, START, Site
from tests.simulation.time_and_threads import CURRENT, Crew, Killed, Loop, Process, Runner, Stuck

GRID_MS = 50
MOST_KILLS, MOST_FAULTS = 4, 3
MOODS = {  # the chance of a kill and of a fault at a step of the disk, and of trouble between requests
    "calm": (0.0, 0.0, 0.0),
    "kills": (0.006, 0.0, 0.5),
    "faults": (0.0, 0.004, 0.2),
    "both": (0.005, 0.002, 0.4),
}
_AGAIN = (429, 503)


@dataclass
class Server:
    """A server that runs, or has run."""

    process: Process
    state: ServerState
    app: Any
    accepting: bool = True
    exchanges: set[asyncio.Future[Any]] = field(default_factory=set)


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        digest: SHA-256 over every event: two runs of a seed have the same.
        trace: every event, as text, where it was kept.
        counts: of events.
        violation: the promise that was broken; None: all were kept.
    """

    seed: int
    digest: str
    trace: list[str]
    counts: Counter[str]
    violation: str | None


class World:
    """Everything of one run.

    Args:
        site: what is served, as it is before the first request.
        seed: decides everything.
        keep: whether events are kept as text.
    """

    _routes: Any = None

    def __init__(self, site: Site, seed: int, *, keep: bool = False) -> None:
        self.site, self.seed = site, seed
        self._streams: dict[str, random.Random] = {}
        self.coins = self._stream("coins of the product")
        self._fate = self._stream("fate")
        self._hash, self._trace, self._keep = hashlib.sha256(), [], keep
        self.counts: Counter[str] = Counter()
        self.loop = Loop()
        self.loop.set_exception_handler(self._unforeseen)
        self.crew = Crew(self.loop, self._stream("threads"))
        chosen = self._fate.sample(NAMES, self._fate.choice((1, 1, 2)))
        self.studies: list[str] = [name for name in NAMES if name in chosen]
        self.mood = self._fate.choice(("calm", "kills", "kills", "faults", "both", "both"))
        self._kill_chance, self._fault_chance, self._trouble = MOODS[self.mood]
        Disk.write_all(site.disk, site.files_of(self.studies))
        self.disk = Disk(site.disk, self.loop.time)
        self.promises = Promises(site, self.disk, GRID_MS / 1000)
        self.server: Server | None = None
        self._processes: list[Process] = []
        self._peace = False
        self._skew = 0.0
        self._faulty: set[Process] = set()
        self._cut = False
        self._done = False
        self._failure: asyncio.Future[None] = self.loop.create_future()
        self._ended = asyncio.Event()

    def _stream(self, name: str) -> random.Random:
        return self._streams.setdefault(name, random.Random(f"{self.seed}/{name}"))

    # what the machine is asked ---------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time of day, which somebody may set."""
        return START + timedelta(seconds=self.loop.time() + self._skew)

    def note(self, *event: object) -> None:
        """Something happened."""
        line = f"{self.loop.time():.6f} {' '.join(map(str, event))}".replace(str(self.site.base), "")
        self._hash.update(line.encode() + b"\n")
        if self._keep:
            self._trace.append(line)

    def failed(self, error: BaseException) -> None:
        """A promise is broken, or the simulator is: the run ends."""
        if not self._failure.done():
            self.note("violation", type(error).__name__, error)
            self._failure.set_exception(error)

    def _unforeseen(self, loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and "never retrieved" not in context["message"] and not isinstance(error, Killed):
            self.failed(error)

    def step(self, process: Process, what: str, name: str) -> int:
        """A program is about to change the disk."""
        self.counts["steps"] += 1
        self.note(process, what, name)
        if not self._peace and (self._kill_chance or self._fault_chance):
            chance = self._fate.random()
            if chance < self._kill_chance:
                if self.counts["kills"] < MOST_KILLS:
                    self.kill(process, power=self._fate.random() < 0.6)
                    return 0
            elif chance < self._kill_chance + self._fault_chance and self.counts["faults"] < MOST_FAULTS:
                return self._fault(process, what, name)
        if self.crew.me is not None and self._fate.random() < 0.3:
            self.crew.pause(self.crew.moment())
        return 0

    def _fault(self, process: Process, what: str, name: str) -> int:
        self.counts["faults"] += 1
        self._faulty.add(process)
        found = self._fate.choice((errno.EIO, errno.ENOSPC)) if what in ("write", "create") else errno.EIO
        self.note("fault", errno.errorcode[found], process, what, name)
        return found

    # processes -------------------------------------------------------------------------------------------------------

    def _process(self, name: str) -> Process:
        self.counts["processes"] += 1
        made = Process(f"{name} {self.counts['processes']}", 100 + self.counts["processes"])
        self._processes.append(made)
        return made

    def kill(self, process: Process, *, power: bool) -> None:
        """End a process at this point, or all of them and the machine's memory."""
        self.counts["kills"] += 1
        self.counts["power cuts"] += power
        self.note("power cut" if power else "kill", process)
        for one in self._processes if power else [process]:
            one.alive = False
            for fd in one.files:  # the system ends its locks at once, also while the loop's own thread waits for one
                unlock(fd)
        self._cut |= power
        server = self.server
        if server is not None and not server.process.alive:
            server.accepting = False
            for exchange in server.exchanges:
                if not exchange.done():
                    exchange.set_result(None)
        self._ended.set()

    async def _bury(self) -> None:
        """Clear away what ended: nothing that it did after its end has an effect."""
        dead = [one for one in self._processes if not one.alive]
        for one in dead:
            self.crew.bury(one)
            for task in one.tasks:
                task.cancel()
            await asyncio.gather(*one.tasks, return_exceptions=True)
            self.crew.bury(one)
            self._let_go(one)
            self._processes.remove(one)
        if self.server is not None and not self.server.process.alive:
            self.server = None
        if self._cut:
            self._cut = False
            self.disk.cut_power(self._stream("what is left"))
            self.note("after the cut", *(f"{name}={_digest(self.site.disk / name)}" for name in sorted(self.disk.names)))
        self._ended.clear()

    def _let_go(self, process: Process) -> None:
        """What the system does when a process ends."""
        process.alive = False
        context = copy_context()
        context.run(CURRENT.set, process)
        for connection in process.connections:
            with suppress(Exception):
                context.run(connection.close)
        for log in process.logs:
            log.close()
        for fd in sorted(process.files):
            with suppress(OSError):
                os.close(fd)
        process.files.clear()

    # servers ---------------------------------------------------------------------------------------------------------

    def _config(self) -> Config:
        return Config(
            studies=tuple(StudyAt(self.site.path(name)) for name in self.studies),
            tokens=self.site.disk / "tokens.json",
            log=Path(os.devnull),
            grid_ms=GRID_MS,
            requests_per_minute=10_000_000,
            burst=1_000_000,
        )

    async def _opened(self, process: Process) -> ServerState:
        """As `everhold serve` does it."""

        def start(_: str, turn: Callable[[], None]) -> Runner:
            return Runner(self.crew, process, turn)

        def made() -> ServerState:
            state = ServerState(self._config(), clock=self.loop.time, start=start)
            process.logs.append(state._log)
            return state

        state: ServerState = await self.crew.run(process, made)
        return state

    async def _start(self) -> None:
        process = self._process("server")
        self.note("start", process)
        self.counts["starts"] += 1
        try:
            state = await self._opened(process)
        except Killed:
            return
        except EverholdError as error:
            self.note("not started", error.__class__.__name__)
            require(process in self._faulty, "a server starts again after a crash", error)
            self._let_go(process)
            self._processes.remove(process)
            return
        if not process.alive:
            return
        if World._routes is None:
            made = make_app(state)
            World._routes = made.app, made._respond
        routes, respond = World._routes
        routes.state.server = state
        self.server = Server(process, state, RequestMiddleware(routes, state, respond))

    async def _stop(self) -> None:
        """As a signal to stop does it: what is under way is answered, then all is closed."""
        server = self.server
        if server is None:
            return
        self.note("stop", server.process)
        self.counts["stops"] += 1
        server.accepting = False
        if server.process.tasks:
            await asyncio.wait(server.process.tasks, timeout=5.0)
        for task in list(server.process.tasks):
            task.cancel()
        with suppress(Killed):
            await self.crew.run(server.process, server.state.close)
        if server.process.alive:
            self._let_go(server.process)
            self._processes.remove(server.process)
        self.server = None

    async def _operate(self) -> None:
        """Keep a server running, and make trouble."""
        coins = self._stream("operator")
        while not self._done:
            await self._bury()
            if self.server is None:
                await asyncio.sleep(0.05 + coins.random() * 0.2)
                if not self._done and not self._ended.is_set():
                    await self._start()
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 0.02 + coins.expovariate(10.0))
                continue
            if not self.server.state.healthy:
                require(self.server.process in self._faulty, "a server without a fault is healthy", self.studies)
                self.note("not healthy")
                await self._end(coins.choice(("stop", "kill")))
            elif not self._peace and coins.random() < self._trouble * 0.25:
                await self._make_trouble(coins)

    async def _end(self, how: str) -> None:
        if how == "stop":
            await self._stop()
        elif self.server is not None:
            self.kill(self.server.process, power=how == "power")

    async def _make_trouble(self, coins: random.Random) -> None:
        kind = coins.choice(("stop", "kill", "power", "second server", "clock"))
        if kind == "clock":
            self._skew += coins.choice((-3600.0, -5.0, 7200.0))
        elif kind == "second server":
            await self._second_server()
        elif kind == "stop" or self.counts["kills"] < MOST_KILLS:
            await self._end(kind)

    async def _second_server(self) -> None:
        """Somebody starts a second one by mistake: a study that is open for asking is refused."""
        process = self._process("second server")
        self.note("start", process)
        first = self.server
        try:
            state = await self._opened(process)
            alone = first is None or not first.process.alive
            require(alone or not {"plain", "private"} & set(self.studies), "one server has a study", self.studies)
            await self.crew.run(process, state.close)
        except Killed:
            return
        except LedgerBusy:
            self.counts["refused servers"] += 1
        except EverholdError as error:
            require(process in self._faulty, "a second server is refused because the study is open", error)
        if process.alive:
            self._let_go(process)
            self._processes.remove(process)

    # clients ---------------------------------------------------------------------------------------------------------

    async def send(self, request: Request, patience: float, secret: str | None = None) -> tuple[int, bytes] | None:
        """Send a request; status and body, or None where none came back."""
        server = self.server
        if server is None or not server.accepting:
            return None
        exchange: asyncio.Future[Any] = self.loop.create_future()
        gone = asyncio.Event()
        context = copy_context()
        context.run(CURRENT.set, server.process)
        work = self._exchange(server, request, exchange, gone, secret or self.site.secrets[request.who])
        task = self.loop.create_task(work, context=context)
        server.process.tasks.add(task)
        server.exchanges.add(exchange)
        task.add_done_callback(server.process.tasks.discard)
        await asyncio.wait({exchange}, timeout=patience)
        server.exchanges.discard(exchange)
        gone.set()
        return exchange.result() if exchange.done() else None

    async def _exchange(
        self, server: Server, request: Request, exchange: asyncio.Future[Any], gone: asyncio.Event, secret: str
    ) -> None:
        arrived = self.loop.time()
        self.promises.arrived(request, arrived)
        parts: list[Any] = [0, b""]
        came = iter([{"type": "http.request", "body": request.body, "more_body": False}])

        async def receive() -> Any:
            if (message := next(came, None)) is not None:
                return message
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                parts[0] = message["status"]
                return
            parts[1] += message.get("body", b"")
            if message.get("more_body") or not server.process.alive:
                return
            self.note("left", request, parts[0], hashlib.sha256(parts[1]).hexdigest()[:12])
            try:
                self.promises.left(request, parts[0], parts[1], arrived, self.loop.time())
            except BaseException as error:
                self.failed(error)
            if not exchange.done():
                exchange.set_result((parts[0], parts[1]))

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": request.headers(secret),
            "client": ("127.0.0.1", 5),
            "server": ("simulation", 80),
        }
        await server.app(scope, receive, send)

    async def _client(self, number: int, requests: list[Request]) -> None:
        coins = self._stream(f"client {number}")
        for request in requests:
            await asyncio.sleep(coins.expovariate(15.0))
            if coins.random() < 0.1 and request.kind != "token":  # impatient: twice at once
                await asyncio.gather(self._insist(request, coins), self._insist(request, coins))
            else:
                await self._insist(request, coins)
            if coins.random() < 0.1:
                await self._conflict(request)

    async def _conflict(self, request: Request) -> None:
        """Another question under the id of one that was answered is refused."""
        if request.kind == "ask" and request in self.promises.shown:
            body = {**json.loads(request.body), "question": "age > 77"}
            other = replace(request, body=json.dumps(body).encode(), kind="conflict")
            found = await self.send(other, 60.0)
            said = found is None or found[0] in (409, *_AGAIN)
            require(said, "a request id stands for one question", request, found)

    async def _insist(self, request: Request, coins: random.Random) -> None:
        """Send it until it is answered, or nobody cares any more."""
        for attempt in range(12):
            await asyncio.sleep(coins.random() * 0.003)
            hurried = coins.random() < 0.15
            self.note("send", request, "again" if attempt else "")
            found = await self.send(request, coins.random() * 0.12 if hurried else 60.0)
            if found is not None and coins.random() >= 0.05:  # else the response is lost on its way
                self.note("got", request, found[0])
                if found[0] not in _AGAIN:
                    self.counts[f"{found[0]}"] += 1
                    self.counts["answers"] += found[0] == 200
                    return
            elif request.kind == "token":
                return
            if coins.random() < 0.03:
                return
            await asyncio.sleep(coins.expovariate(4.0))
        require(not self._peace and self.mood != "calm", "a request is answered in the end", request)

    async def _shell(self, requests: Requests) -> None:
        """Somebody uses a gate or a contest beside the server, in another process."""
        coins = self._stream("shell")
        shared = [name for name in self.studies if name not in ("plain", "private")]
        for _ in range(coins.choice((0, 1, 2)) if shared else 0):
            await asyncio.sleep(coins.expovariate(5.0))
            study = coins.choice(shared)
            request = requests.of("submit" if study in ("duels", "ladder") else "check", study)
            request.details["shell"] = True
            while self._ended.is_set():  # the machine may be off
                await asyncio.sleep(0.05)
            process = self._process("shell")
            self.note("shell", request, process)
            try:
                found = await self.crew.run(process, partial(self._used, request))
            except Killed:
                continue
            except (GateUsedUp, HoldoutClosed, InvalidOutcomes):
                continue
            except EverholdError as error:
                require(process in self._faulty, "a shell works beside a server", type(error).__name__, error)
            else:
                self.counts["shells"] += 1
                body = json.dumps(found).encode()
                now = self.loop.time()
                self.promises.left(request, 200, body, now - 1.0, now)
            finally:
                if process.alive:
                    self._let_go(process)
                    self._processes.remove(process)

    def _used(self, request: Request) -> dict[str, Any]:
        path = self.site.path(request.study)
        if request.kind == "submit":
            contest = eh.Contest(path)
            try:
                return contest.submit("eve", request.body).to_dict()
            finally:
                contest.release()
        body = request.details["sent"]
        with Gate(path) as gate:
            return gate.check(body["outcomes"], name=body.get("name"), request_id=request.request_id, who="eve").to_dict()

    # the run ---------------------------------------------------------------------------------------------------------

    async def _play(self) -> None:
        coins = self._stream("plan")
        requests = Requests(self._stream("requests"), self.studies)
        operator = self.loop.create_task(self._operate())
        operator.add_done_callback(lambda task: task.cancelled() or self._end_of(task))
        plans = [[requests.draw() for _ in range(coins.randint(2, 5))] for _ in range(coins.randint(2, 4))]
        try:
            clients = [self._client(number, plan) for number, plan in enumerate(plans)]
            await self._unless_failed(asyncio.gather(*clients, self._shell(requests)))
            await self._unless_failed(self.loop.create_task(self._revoke(coins)))
            self._peace = True
            await self._unless_failed(self.loop.create_task(self._finish(operator)))
        finally:
            operator.cancel()

    def _end_of(self, task: asyncio.Task[None]) -> None:
        if (error := task.exception()) is not None:
            self.failed(error)

    async def _unless_failed(self, work: asyncio.Future[Any]) -> None:
        await asyncio.wait({work, self._failure}, return_when=asyncio.FIRST_COMPLETED)
        if self._failure.done():
            work.cancel()
            self._failure.result()
        work.result()

    async def _revoke(self, coins: random.Random) -> None:
        """A custodian revokes a token that was made here."""
        while self.promises.live_tokens and coins.random() < 0.5:
            number, secret = self.promises.live_tokens[-1]
            gone = Request(-1, "revoke", "", "cus", "DELETE", f"/v1/tokens/{number}")
            self.promises.live_tokens.pop()
            found = await self.send(gone, 60.0)
            if found is not None and found[0] == 200:
                self.promises.dead_tokens.append(secret)

    async def _finish(self, operator: asyncio.Task[None]) -> None:
        """The last crash, if there is one; then everything that was shown is asked for again."""
        self._done = True
        self._ended.set()
        await asyncio.wait({operator})
        await self._bury()
        await self._end(self._fate.choice(("stop", "kill", "power")))
        await self._bury()
        heads = self.promises.check_files(self.studies)
        self.note("checked", *heads.values())
        await self._start()
        for request in [one for one in self.promises.shown if self._is_recorded(one)]:
            found = None
            for _ in range(50):
                found = await self.send(request, 60.0)
                if found is not None and found[0] not in _AGAIN:
                    break
                await asyncio.sleep(1.0)
            require(found is not None and found[0] == 200, "what was answered is answered again", request, found)
        for status, secrets in ((200, [one for _, one in self.promises.live_tokens]), (401, self.promises.dead_tokens)):
            for secret in secrets:
                look = Request(-1, "status", self.studies[0], "ann", "GET", f"/v1/studies/{self.studies[0]}/status")
                found = await self.send(look, 60.0, secret)
                known = found is not None and found[0] == status
                require(known, "a token works from when it was shown until it was revoked", status, found)
        await self._stop()
        again = self.promises.check_files(self.studies)
        require(again == heads, "a request that was answered is not charged again", heads, again)

    def _is_recorded(self, request: Request) -> bool:
        """Whether its result stands in the record: a candidate that is kept out by its bytes leaves none."""
        found = self.promises.shown[request]
        if "shell" in request.details:
            return False
        if request.kind in ("check", "same"):
            return leaves_record(request, found)
        return request.kind != "token"

    def run(self) -> Outcome:
        """From the beginning to the end."""
        violation = None
        self.note("seed", self.seed, self.mood, *self.studies)
        with _environment(self.site), simulated(self):
            asyncio.set_event_loop(self.loop)
            try:
                self.loop.run_until_complete(self._play())
            except (AssertionError, EverholdError, OSError) as error:
                violation = f"{type(error).__name__}: {error}"
            finally:
                self._clear_away()
        return Outcome(self.seed, self._hash.hexdigest(), self._trace, self.counts, violation)

    def _clear_away(self) -> None:
        for one in self._processes:
            one.alive = False
        for one in self._processes:
            with suppress(Stuck):
                self.crew.bury(one)
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        with suppress(Stuck):
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for one in self._processes:
            self.crew.bury(one)
            self._let_go(one)
        self.crew.close()
        self.loop.close()
        asyncio.set_event_loop(None)
        if self._failure.done() and not self._failure.cancelled():
            self._failure.exception()


@contextmanager
def _environment(site: Site) -> Iterator[None]:
    with patch.dict(os.environ, {HOME: str(site.disk / "home")}):
        yield


def _digest(path: Path) -> str:
    """Of a file's content; where it holds the name of the folder, which is another in every process, its size."""
    if path.suffix == ".key" or path.parent.name == "home":
        return str(path.stat().st_size)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.is_file() else "-"


__all__ = ["Outcome", "Violation", "World"]
