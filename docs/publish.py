"""Puts a built site beside the earlier ones: `python docs/publish.py out/site PAGES 0.2.0`.

PAGES is a folder with a folder for each version, as it is served. The version may be `dev`. The newest release is also
copied to `stable`; the first page leads there, or to `dev` before the first release. `versions.json` is the list that the
button with the version shows, and `llms.txt` stands at the root.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

ADDRESS = "https://everhold.github.io/everhold"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def publish(built: Path, pages: Path, version: str) -> None:
    """Adds or replaces one version."""
    if version != "dev" and not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is not a version. Expected dev, or three numbers such as 0.2.0.")
    _replace(built, pages / version)
    releases = sorted((one.name for one in pages.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+", one.name)), key=_numbers)
    if releases and releases[-1] == version:
        _replace(built, pages / "stable")
    first = "stable" if releases else "dev"
    listed = [{"version": one, "url": f"{ADDRESS}/{one}/"} for one in reversed(releases)]
    if listed:
        listed[0] |= {"name": f"{releases[-1]} (stable)", "url": f"{ADDRESS}/stable/", "preferred": True}
    if (pages / "dev").is_dir():
        listed.append({"version": "dev", "url": f"{ADDRESS}/dev/"})
    (pages / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (pages / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>everhold</title><meta http-equiv="refresh" content="0; url={first}/">'
        f'<link rel="canonical" href="{ADDRESS}/{first}/"><a href="{first}/">everhold</a>\n',
        encoding="utf-8",
    )
    text = (pages / first / "llms.txt").read_text(encoding="utf-8")
    (pages / "llms.txt").write_text(text.replace("](_sources/", f"]({first}/_sources/"), encoding="utf-8")
    (pages / ".nojekyll").touch()  # folders that begin with an underscore are served too


def _replace(built: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(built, folder)


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
