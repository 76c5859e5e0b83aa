"""How a server is set up: one readable TOML file, each setting of which the environment may override."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from everhold.data.database_urls import is_url
from everhold.errors import SettingError, did_you_mean

__all__ = ["EXAMPLE", "Config", "StudyAt"]

_WORDS = ("title", "description", "custodian", "contact")
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class StudyAt:
    """A study to serve.

    Attributes:
        path: its file.
        data: where its private rows are, a file or a URL, if the key file does not say.
        grid_ms: its own grid, if it is not the server's.
        charges_each: of a private study, how many surprises, readings and choices each token's name may cause; None: any.
        expect_head: a head that was noted before; a file that does not contain it is not served.
        title, description: what people see of it on the page; its name where there is no title.
        custodian, contact: who holds the private rows, and how to reach them; also in the certificate.
    """

    path: Path
    data: str | None = None
    grid_ms: int | None = None
    charges_each: int | None = None
    title: str = ""
    description: str = ""
    custodian: str = ""
    contact: str = ""
    expect_head: str | None = None

    def __post_init__(self) -> None:
        _require_grid(self.grid_ms)
        for name in _WORDS:
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > _LONGEST:
                raise SettingError(
                    f"a [[study]] has {name} = {str(text)[:40]!r}. Expected a text of up to {_LONGEST:,} letters."
                )


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting of a server. In the environment `port` is EVERHOLD_PORT, and so on.

    Attributes:
        studies: what to serve; a study's name is its file's stem. A contest's study serves the contest.
        host, port: where to listen.
        tokens: the file of tokens.
        log: a file for the record of requests; None: the error stream.
        grid_ms: answers leave at whole multiples of this after the question arrived: time reveals nothing; 0: at once. None:
            50, and 1,000 for a study whose rows are in a database.
        requests_per_minute, burst: how much a token may ask; a batch counts a tenth of its questions.
        anonymous_per_minute: requests without a live token from one address, before they must wait.
        max_body_bytes: bytes of a request's body; submissions of a contest have the contest's own limit.
        most_questions: of one batch.
        question_seconds: how long a question may take on the public rows before it is refused.
        certificate, private_key: PEM files, to speak TLS without a proxy.
        trusted_proxies: addresses whose X-Forwarded-* headers count.
        public_url: how people reach the server, if not by host and port; with https the page's cookie is for https alone.
        shutdown_seconds: how long a stopping server waits for requests under way; it ends after twice that, whatever runs.
        header_seconds, body_seconds: how long a request may take to say what it wants.
        session_hours: how long somebody stays signed in on the page.
    """

    studies: tuple[StudyAt, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8080
    tokens: Path = Path("everhold.tokens.json")
    log: Path | None = None
    grid_ms: int | None = None
    requests_per_minute: int = 3_000
    burst: int = 300
    anonymous_per_minute: int = 120
    max_body_bytes: int = 1_000_000
    most_questions: int = 1_000
    question_seconds: float = 20.0
    certificate: Path | None = None
    private_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    public_url: str | None = None
    shutdown_seconds: int = 30
    header_seconds: int = 15
    body_seconds: int = 120
    session_hours: float = 12.0

    def __post_init__(self) -> None:
        limits = {
            "port": (0, 65_535),
            "requests_per_minute": (1, 10_000_000),
            "burst": (1, 1_000_000),
            "anonymous_per_minute": (1, 10_000_000),
            "max_body_bytes": (1_000, 1_000_000_000),
            "most_questions": (1, 100_000),
            "question_seconds": (0.01, 3_600),
            "shutdown_seconds": (0, 3_600),
            "header_seconds": (1, 3_600),
            "body_seconds": (1, 3_600),
            "session_hours": (0.01, 8_760),
        }
        _require_grid(self.grid_ms)
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise SettingError(f"{name} is {value!r}. Expected a number from {low:,} to {high:,}.")
        if (self.certificate is None) != (self.private_key is None):
            missing = "private_key" if self.private_key is None else "certificate"
            raise SettingError(f"{missing} is missing. TLS needs both certificate and private_key: set both, or neither.")
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise SettingError(f"public_url is {self.public_url!r}. Expected an address such as https://data.example.org.")
        names = [study.path.stem for study in self.studies]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SettingError(f"two studies are called {twice!r}. Rename one of the files: a study's name is its stem.")

    @property
    def secure(self) -> bool:
        """Whether people reach the server by https."""
        return self.certificate is not None or (self.public_url or "").startswith("https://")

    @classmethod
    def load(cls, path: Path | None, *, environment: Mapping[str, str] = os.environ) -> Config:
        """From a file, if there is one, and the environment; paths in the file are relative to its folder."""
        given: dict[str, Any] = {}
        if path is not None:
            try:
                given = tomllib.loads(path.read_text(encoding="utf-8"))
            except OSError as error:
                raise SettingError(f"{path} could not be read: {error.strerror}.") from None
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise SettingError(
                    f"{path} cannot be read as TOML: {error}. `everhold serve --example` prints a file that can."
                ) from None
        names = [setting.name for setting in fields(cls) if setting.name != "studies"]
        folder = path.parent if path is not None else Path()
        studies = _studies(given.pop("study", []), folder)
        for name in given:
            if name not in names:
                raise SettingError(f"{path}: there is no setting {name!r}.{did_you_mean(name, [*names, 'study'])}")
        settings = {name: _value(name, value, folder, str(path)) for name, value in given.items()}
        for name in names:
            if (text := environment.get(f"EVERHOLD_{name.upper()}")) is not None:
                settings[name] = _value(name, _parsed(name, text), Path(), f"EVERHOLD_{name.upper()}")
        return cls(studies=studies, **settings)

    def with_studies(self, more: Sequence[Path], expect_head: str | None = None) -> Config:
        """The same with more studies. An expected head is that of the one study that is served."""
        studies = (*self.studies, *(StudyAt(path) for path in more))
        if expect_head is not None:
            if len(studies) != 1:
                raise SettingError(
                    f"--expect-head goes with one study, and there are {len(studies)}. Expected expect_head = "
                    '"<records>:<64 hex digits>" under the [[study]] it belongs to, in the file of settings.'
                )
            studies = (replace(studies[0], expect_head=expect_head),)
        return replace(self, studies=studies)


def _require_grid(value: object) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and isinstance(value, int) and 0 <= value <= 60_000):
        raise SettingError(f"grid_ms is {value!r}. Expected a number from 0 to 60,000.")


_PATHS = ("tokens", "log", "certificate", "private_key")
_NUMBERS = (
    "port",
    "grid_ms",
    "requests_per_minute",
    "burst",
    "anonymous_per_minute",
    "max_body_bytes",
    "most_questions",
    "shutdown_seconds",
    "header_seconds",
    "body_seconds",
)
_REAL = ("question_seconds", "session_hours")
_OF_STUDY = ("path", "data", "grid_ms", "charges_each", "expect_head", *_WORDS)


def _studies(given: object, folder: Path) -> tuple[StudyAt, ...]:
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise SettingError(
            "'study' is not a list of tables. Expected for each study a line [[study]], and below it a line such as "
            'path = "patients.everhold".'
        )
    studies = []
    for table in given:
        if unknown := set(table) - set(_OF_STUDY):
            name = sorted(unknown)[0]
            raise SettingError(
                f"a [[study]] has no setting {name!r}. Expected path, data where the rows moved, grid_ms, title, "
                "description, custodian, contact, expect_head after a restored backup, and charges_each for a private study."
                f"{did_you_mean(name, _OF_STUDY)}"
            )
        if not isinstance(head := table.get("expect_head"), str | None):
            raise SettingError(f"a [[study]] has expect_head = {head!r}. Expected a text, as `everhold status` prints it.")
        each = table.get("charges_each")
        if each is not None and (type(each) is not int or each < 1):
            raise SettingError(f"a [[study]] has charges_each = {each!r}. Expected a whole number of at least 1.")
        if not isinstance(table.get("path"), str) or not isinstance(table.get("data"), str | None):
            raise SettingError(
                f"a [[study]] has path = {table.get('path')!r} and data = {table.get('data')!r}. Expected path as a text, "
                'such as "patients.everhold"; data is a text too, or left out.'
            )
        data = table.get("data")
        where = data if data is None or is_url(data) else str(folder / data)
        words = {name: table[name] for name in _WORDS if name in table}
        studies.append(StudyAt(folder / table["path"], where, table.get("grid_ms"), each, expect_head=head, **words))
    return tuple(studies)


def _parsed(name: str, text: str) -> Any:
    """A setting of the environment."""
    if name in _NUMBERS + _REAL:
        try:
            return float(text) if name in _REAL else int(text)
        except ValueError:
            raise SettingError(f"EVERHOLD_{name.upper()} is {text!r}. Expected a number.") from None
    return [address.strip() for address in text.split(",") if address.strip()] if name == "trusted_proxies" else text


def _value(name: str, value: Any, folder: Path, where: str) -> Any:
    """A setting of the right kind."""
    if name in _NUMBERS + _REAL:
        return value  # checked with its range
    if name == "trusted_proxies":
        if not isinstance(value, list) or not all(isinstance(address, str) for address in value):
            raise SettingError(
                f'{where}: trusted_proxies is {value!r}. Expected a list of addresses, such as ["127.0.0.1", "::1"].'
            )
        return tuple(value)
    if not isinstance(value, str):
        raise SettingError(f"{where}: {name} is {value!r}. Expected a text.")
    return folder / value if name in _PATHS else value


EXAMPLE = """\
# everhold.toml: start with `everhold serve --config everhold.toml`.
# Every setting but the studies can be overridden: port by EVERHOLD_PORT, and so on. Paths are relative to this file.
host = "127.0.0.1"
port = 8080
tokens = "everhold.tokens.json"
# log = "everhold.access.jsonl"      # who asked what; the error stream if left out
# grid_ms = 50                       # answers leave at whole multiples of this, so that time reveals nothing
requests_per_minute = 3000           # a token
burst = 300
anonymous_per_minute = 120           # an address without a live token
max_body_bytes = 1_000_000                # bytes of a request
most_questions = 1000                # of one batch
question_seconds = 20                # for a question on the public rows
# certificate = "tls/fullchain.pem"  # TLS without a proxy; both are needed
# private_key = "tls/privkey.pem"
# public_url = "https://data.example.org"   # behind a proxy that speaks TLS
trusted_proxies = ["127.0.0.1", "::1"]
shutdown_seconds = 30
header_seconds = 15                    # for a request to say what it wants, and
body_seconds = 120                   # to send it
session_hours = 12

[[study]]
path = "patients.everhold"
# title = "Patients of 2026"         # for people: on the page and in the certificate
# description = "Adults seen in our four clinics. The public table is last year's."
# custodian = "The clinics' data office"
# contact = "data@example.org"
# data = "patients.parquet"          # if the rows are not where the study was made from; also a URL, without a password
# grid_ms = 1000                     # a grid of its own; this is the default where rows are in a database
# charges_each = 5                   # of a private study: surprises, readings and choices that each token's name may cause
# expect_head = "120:9f2c..."        # refuse a file that does not contain this head, such as an older backup
"""
