"""What a release is made of: its version, a README that stands alone, the recipe, the workflows, what is pinned."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import everhold

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_changelog_has_a_section_for_the_version_with_its_date():
    assert re.search(rf"^## \[{re.escape(everhold.__version__)}\] - 20\d\d-\d\d-\d\d$", text("CHANGELOG.md"), flags=re.M)
    sections = re.findall(r"^## \[(.+?)\]", text("CHANGELOG.md"), flags=re.M)
    assert sections[0] == "Unreleased"
    for name in sections:
        assert f"[{name}]: https://github.com/everhold/everhold/" in text("CHANGELOG.md")


def on_the_index(readme, version):
    """README.md as the package index shows it, by the substitutions in pyproject.toml."""
    for one in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        readme = re.sub(one["pattern"], one["replacement"].replace("$HFPR_VERSION", version), readme)
    return readme


def test_links_and_pictures_of_the_readme_are_absolute_on_the_package_index():
    readme = text("README.md")
    local = re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", readme)
    assert len(local) > 30
    shown = on_the_index(readme, "0.2.0")
    assert re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", shown) == []
    assert "(https://raw.githubusercontent.com/everhold/everhold/v0.2.0/docs/figures/demo.png)" in shown
    assert "(https://github.com/everhold/everhold/blob/v0.2.0/docs/howto/acts.md)" in shown
    for link in local:
        assert (ROOT / link.partition("#")[0]).exists()


def test_the_recipe_says_what_the_project_says():
    recipe = text("recipe/recipe.yaml")
    assert f'version: "{everhold.__version__}"' in recipe
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe
    run = re.search(r"  run:\n((?:    - .+\n)+)", recipe)[1]
    wanted = {one.replace(">=", " >=").replace("duckdb", "python-duckdb") for one in PROJECT["dependencies"]}
    assert set(re.findall(r"- (.+)", run)) == {*wanted, "python >=${{ python_min }}"}
    host = re.search(r"  host:\n((?:    - .+\n)+)", recipe)[1]
    assert {one.replace(">=", " >=") for one in SETTINGS["build-system"]["requires"]} <= set(re.findall(r"- (.+)", host))
    assert f"everhold = {PROJECT['scripts']['everhold']}" in recipe
    assert PROJECT["license"] in recipe


def test_every_extra_of_users_is_tried():
    spec = importlib.util.spec_from_file_location("try_release", ROOT / "deploy" / "try_release.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    not_tried = {"adapters", "dev", "docs", "release", "spark"}  # for developers, or too large
    assert set(script.EXTRAS) == {"", *PROJECT["optional-dependencies"]} - not_tried
    listed = {one.removeprefix("Programming Language :: Python :: ") for one in PROJECT["classifiers"]}
    assert set(script.VERSIONS) == {one for one in listed if re.fullmatch(r"3\.\d+", one)}


def test_the_tools_of_a_release_are_pinned():
    tools = re.search(r"^TOOLS := (.+)$", text("Makefile"), flags=re.M)[1].replace("'", "").split()
    names = {re.match(r"[\w-]+", one)[0] for one in tools}
    assert names == {re.match(r"[\w-]+", one)[0] for one in PROJECT["optional-dependencies"]["release"]}
    assert names <= set(re.findall(r"^([\w-]+)==", text("constraints-release.txt"), flags=re.M))


def test_the_container_has_what_builds_the_package():
    """It installs without isolation, from the lock alone."""
    pinned = set(re.findall(r"^([\w-]+)==", text("deploy/requirements.lock"), flags=re.M))
    assert {re.match(r"[\w-]+", one)[0] for one in SETTINGS["build-system"]["requires"]} <= pinned


def jobs(workflow):
    """The jobs of a workflow with their text; enough of YAML for files that are indented by two."""
    body = text(f".github/workflows/{workflow}").partition("\njobs:\n")[2]
    parts = re.split(r"^  ([\w-]+):\n", body, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_only_the_job_that_uploads_has_an_identity_and_it_runs_no_code():
    found = jobs("release.yml")
    assert {name for name, job in found.items() if "id-token" in job} == {"publish"}
    assert "run:" not in found["publish"]
    assert "checkout" not in found["publish"]
    assert "download-artifact" in found["publish"]
    assert re.search(r"needs: \[test, build\]", found["publish"])
    assert "make dist" in found["build"]


@pytest.mark.parametrize("workflow", [one.name for one in (ROOT / ".github" / "workflows").glob("*.yml")])
def test_workflows_may_read_and_nothing_else_unless_a_job_says_so(workflow):
    head = text(f".github/workflows/{workflow}").partition("\njobs:\n")[0]
    assert "permissions:\n  contents: read" in head


def test_a_short_check_runs_first_and_only_pull_requests_are_cancelled():
    head, _, jobs = text(".github/workflows/ci.yml").partition("\njobs:\n")
    assert "cancel-in-progress: ${{ github.event_name == 'pull_request' }}" in head
    assert "run_id" in head  # two runs of main are not in one group
    names = re.findall(r"^  (\w+):$", jobs, flags=re.M)
    assert names[0] == "check"
    assert len(names) > 3
    assert "needs:" not in jobs


def test_urls_agree():
    assert PROJECT["urls"]["Repository"] == "https://github.com/everhold/everhold"
    for name in (
        "CITATION.cff",
        "recipe/recipe.yaml",
        ".github/ISSUE_TEMPLATE/config.yml",
        "docs/conf.py",
        "docs/publish.py",
    ):
        hosts = set(re.findall(r"https://(?:github\.com/everhold/[\w-]+|[\w-]+\.github\.io/[\w-]+)", text(name)))
        assert hosts <= {"https://github.com/everhold/everhold", "https://everhold.github.io/everhold"}
        assert hosts, name
