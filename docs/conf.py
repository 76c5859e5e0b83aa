"""The settings of the site, for Sphinx. `make docs` runs it on what docs/assemble.py has put together."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VERSION = re.search(r'VERSION = "(.+)"', (HERE.parent / "src" / "everhold" / "version.py").read_text(encoding="utf-8"))[1]
PUBLISHED = os.environ.get("SITE_VERSION", VERSION).removeprefix("v")
"""Under which name the site is published: its version, or dev."""

MARK = HERE.parent / "src" / "everhold" / "server" / "static" / "everhold.svg"

project = "everhold"
author = "The everhold authors"
copyright = "the everhold authors, Apache-2.0"
version, release = VERSION, PUBLISHED

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
default_role = "literal"
napoleon_use_ivar = True
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
# The names of attributes in docstrings become links where that is possible; a name of several classes stays plain.
suppress_warnings = ["config.cache", "ref.python"]

html_theme = "pydata_sphinx_theme"
html_title = "everhold"
html_static_path = [str(HERE / "_static")]
templates_path = [str(HERE / "_templates")]
html_css_files = ["everhold.css"]
html_favicon = str(MARK)
html_show_sourcelink = False
html_copy_source = True
html_theme_options = {
    "logo": {"text": "everhold", "image_light": str(MARK), "image_dark": str(MARK)},
    "github_url": "https://github.com/everhold/everhold",
    "switcher": {"json_url": "https://everhold.github.io/everhold/versions.json", "version_match": PUBLISHED},
    "check_switcher": False,  # the list is written when a version is published
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "gallery": []}


def _sources(app: Any, config: Any) -> None:
    """Files that are copied to the root of the site as they are stand beside its pages."""
    config.html_extra_path = [str(Path(app.srcdir) / "_extra")]


def _anchors(app: Any, doctree: Any) -> None:
    """`<a id="x"></a>` in a page can be linked to, as on GitHub: MyST knows headings only."""
    from docutils import nodes

    slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for raw in doctree.findall(nodes.raw):
        for anchor in re.findall(r'<a id="([^"]+)">', raw.astext()):
            slugs[anchor] = (raw.line or 0, anchor, "")


def _plain(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are prose with `code`: what reStructuredText would read as markup is escaped outside of code."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else _escaped(line) for line in lines]


def _escaped(line: str) -> str:
    parts = re.split(r"(`+[^`]+`+)", line)
    for k, part in enumerate(parts):
        if k % 2:
            parts[k] = f"``{part.strip('`')}``" if not re.search(r":\w+:$", parts[k - 1]) else part
        else:
            parts[k] = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part).replace("|", r"\|")
    return "".join(parts)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("config-inited", _sources)
    app.connect("doctree-read", _anchors)
    app.connect("autodoc-process-docstring", _plain, priority=400)  # before napoleon
