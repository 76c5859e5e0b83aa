"""A server that runs until it is told to stop, and then ends what it has begun."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from everhold.serve.app import make_app
from everhold.serve.config import Config
from everhold.serve.house import House

__all__ = ["run"]

_HEAD_SECONDS = 15.0


class _Connection(H11Protocol):
    """A connection that has to say what it wants within some seconds: idle ones would use up the machine."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_HEAD_SECONDS, self._expect_head)

    def _expect_head(self) -> None:
        began: object = self.cycle  # of the first request, when its head is whole
        if began is None:
            self.transport.close()


class _Server(uvicorn.Server):
    """Uvicorn, which says when it listens."""

    ready: Callable[[str], None] = staticmethod(lambda _: None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal to stop is done with when everything is closed: it is not raised once more."""
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            for server in self.servers:
                for socket in server.sockets:
                    host, port = socket.getsockname()[:2]
                    scheme = "https" if self.config.ssl_certfile else "http"
                    self.ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
                    return


def run(config: Config, *, say: Callable[[str], None], ready: Callable[[str], None]) -> None:
    """Open the studies and serve them. SIGTERM or Ctrl-C: requests under way are answered, then all is closed."""
    house = House(config, say=say)
    settings = uvicorn.Config(
        make_app(house),
        host=config.host,
        port=config.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=list(config.trusted_proxies),
        ssl_certfile=None if config.certificate is None else str(config.certificate),
        ssl_keyfile=None if config.private_key is None else str(config.private_key),
        timeout_graceful_shutdown=config.stop_seconds,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=65_536,
        http=_Connection,
        lifespan="on",
    )
    server = _Server(settings)
    server.ready = ready
    try:
        server.run()
    finally:
        house.close()
