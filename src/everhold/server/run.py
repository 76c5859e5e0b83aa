"""A server that runs until it gets a signal to stop, and then ends what it has begun."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from everhold.errors import SettingError
from everhold.server.app import make_app
from everhold.server.config import Config
from everhold.server.state import ServerState

__all__ = ["run"]

_SWITCH_SECONDS = 0.0005
"""Between threads: a writer waits for Python's lock after every pass over the rows, and 5 ms (the default) is a question."""


class _Connection(H11Protocol):
    """A connection that has to say what it wants within some seconds: idle and dribbling ones would use up the machine."""

    header_seconds: ClassVar[float] = 15.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_head()

    def _expect_head(self) -> None:
        """From now on; a request that has begun meanwhile is another cycle."""
        before: object = self.cycle
        self.loop.call_later(self.header_seconds, self._close_if_silent, before)

    def _close_if_silent(self, before: object) -> None:
        if self.cycle is before and (before is None or self.cycle.response_complete):
            self.transport.close()


class _Server(uvicorn.Server):
    """Uvicorn, which says when it listens, and which ends after a signal, whatever runs."""

    ready: Callable[[str], None] = staticmethod(lambda _: None)
    last_seconds: float = 60.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; what has not ended by itself after some seconds is cut off. Returned answers are recorded."""
        if not self.should_exit:
            watch = Timer(self.last_seconds, os._exit, [0])
            watch.daemon = True
            watch.start()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal to stop is done with when everything is closed: it is not raised once more."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            for server in self.servers:
                for listener in server.sockets:
                    host, port = listener.getsockname()[:2]
                    scheme = "https" if self.config.ssl_certfile else "http"
                    self.ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
                    return


def _listen(config: Config) -> socket.socket:
    """The port, before anything is opened."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingError(f"cannot listen on {config.host}, port {config.port}: {reason}. Choose another --port.") from None


def run(config: Config, *, say: Callable[[str], None], ready: Callable[[str], None]) -> None:
    """Open the studies and serve them. SIGTERM or Ctrl-C: requests under way are answered, then all is closed."""
    listening = _listen(config)
    try:
        state = ServerState(config, say=say)
    except BaseException:
        listening.close()
        raise
    sys.setswitchinterval(_SWITCH_SECONDS)
    _Connection.header_seconds = float(config.header_seconds)
    settings = uvicorn.Config(
        make_app(state),
        host=config.host,
        port=config.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=list(config.trusted_proxies),
        ssl_certfile=None if config.certificate is None else str(config.certificate),
        ssl_keyfile=None if config.private_key is None else str(config.private_key),
        timeout_graceful_shutdown=config.shutdown_seconds,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=65_536,
        http=_Connection,
        lifespan="on",
    )
    server = _Server(settings)
    server.ready = ready
    server.last_seconds = 2.0 * config.shutdown_seconds + 1.0
    try:
        server.run(sockets=[listening])
    finally:
        state.close()
