"""Runs the steps of deploy/Dockerfile without Docker, in a bare Debian root: `sudo make try-image`.

The root is made by debootstrap with Debian's own Python, in place of the image that the Dockerfile starts from. COPY, RUN,
WORKDIR, ENV and USER are then done as written, in a chroot. At the end a study is made inside, the server is started with
the image's own entry point and command as the image's own user, and the image's own health check has to pass.
What this does not try: Docker itself, the layers, the official Python image, and the published port.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
SUITE = os.environ.get("SUITE", "bookworm")
MIRROR = os.environ.get("MIRROR", "http://deb.debian.org/debian")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Every instruction of a Dockerfile with its arguments; lines that go on are joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        yield word.upper(), rest.strip()


class Image:
    """A root folder, and what the instructions so far have set."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {"PATH": "/opt/python/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"}
        self.folder, self.user = "/", "0"
        self.entry: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []

    def start(self, command: list[str], extra: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A process inside, as the user and in the folder that are set."""
        inside = f"cd {shlex.quote(self.folder)} && exec {shlex.join(command)}"
        user = [] if self.user == "0" else [f"--userspec={self.user}:{self.user}"]
        return subprocess.Popen(
            ["chroot", *user, self.root, "/bin/sh", "-c", inside], env=self.environment | dict(extra or {})
        )

    def run(self, command: list[str], extra: Mapping[str, str] | None = None) -> None:
        """A command inside, which must succeed."""
        if code := self.start(command, extra).wait():
            sys.exit(f"error: {shlex.join(command)} failed with exit code {code}")

    def path(self, name: str) -> Path:
        """A path inside, as seen from outside."""
        return self.root / (Path(self.folder) / name).relative_to("/")

    def do(self, word: str, rest: str) -> None:
        """One instruction."""
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                to = self.path(target)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, to)
        elif word == "RUN":
            # What the machine's own settings say about its package index; an image is built without them.
            pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            self.run(["/bin/sh", "-c", rest], pip)
        elif word == "WORKDIR":
            self.folder = rest
            self.path("").mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            self.environment |= dict(one.split("=", 1) for one in shlex.split(rest))
        elif word == "USER":
            self.user = rest
            users = (self.root / "etc" / "passwd").read_text(encoding="utf-8").splitlines()
            self.environment["HOME"] = next(line.split(":")[5] for line in users if line.split(":")[2] == rest)
        elif word == "ENTRYPOINT":
            self.entry = json.loads(rest)
        elif word == "CMD":
            self.command = json.loads(rest)
        elif word == "HEALTHCHECK":
            self.health = json.loads(rest[rest.index("CMD") + 3 :])
        elif word not in ("FROM", "VOLUME", "EXPOSE", "STOPSIGNAL"):
            sys.exit(f"error: {word} is not known here. Add it to deploy/try_image.py.")


def bare(root: Path) -> Image:
    """A Debian root whose pip and python are the ones of an environment, as in the official Python images."""
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, root, MIRROR],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for name in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)
    image = Image(root)
    image.run(["python3", "-m", "venv", "/opt/python"])
    return image


SETTINGS = 'tokens = "/studies/tokens.json"\nhost = "127.0.0.1"\n[[study]]\npath = "/studies/demo.everhold"\n'


def main() -> None:
    """All steps, then the server and its health."""
    if os.geteuid():
        sys.exit("error: only root may make a Debian root and enter it. Run: sudo make try-image")
    if shutil.which("debootstrap") is None:
        sys.exit("error: debootstrap is not installed. On Debian: apt-get install debootstrap")
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        Path(folder).chmod(0o755)  # the image's user has to enter it
        image = bare(Path(folder))
        print(f"a bare Debian {SUITE}: {time.monotonic() - started:.0f} s", flush=True)
        for word, rest in instructions((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")):
            image.do(word, rest)
        print(f"all steps of the Dockerfile: {time.monotonic() - started:.0f} s", flush=True)
        shutil.chown(image.path("/studies"), int(image.user), int(image.user))  # as a folder of that user would be mounted
        image.run(["python", "-m", "everhold.cli.demo_study", "/studies/demo.everhold"])
        image.run(["everhold", "token", "create", "me", "--scope", "custodian", "--tokens", "/studies/tokens.json"])
        image.path("/studies/everhold.toml").write_text(SETTINGS, encoding="utf-8")
        server = image.start([*image.entry, *image.command])
        try:
            for _ in range(60):
                if server.poll() is not None:
                    sys.exit(f"error: the server ended with exit code {server.returncode}")
                if image.start(image.health).wait() == 0:
                    print("the server is up, and its health check passes")
                    break
                time.sleep(0.5)
            else:
                sys.exit("error: the health check never passed")
        finally:
            server.terminate()
            server.wait()
        print(f"stopped by SIGTERM with exit code {server.returncode}")


if __name__ == "__main__":
    main()
