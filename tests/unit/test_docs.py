"""References to documentation that the build of the site does not check."""

import re
import subprocess
from pathlib import Path

import pytest
from pymdownx.slugs import slugify

from shipper.config.load import load_all

ROOT = Path(__file__).resolve().parents[2]
_FILES = subprocess.run(
    ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split("\n")
_OUTSIDE = [name for name in _FILES if name.endswith(".md") and not name.startswith("docs/")]
_CODE = [
    name
    for name in _FILES
    if name.endswith((".py", ".java", ".j2", ".yaml", ".yml", ".json", ".toml", ".pml"))
]


def anchors(page):
    """Return the anchors of the page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    slug = slugify(case="lower")
    return {slug(title, "-") for title in re.findall(r"^#+ (.+)$", text, re.M)}


def leads(page, anchor):
    """Return True if the file or folder exists and, if there is an anchor, has that heading."""
    return page.exists() and (not anchor or anchor in anchors(page))


@pytest.mark.parametrize("name", _OUTSIDE)
def test_relative_links_lead_somewhere(name):
    links = re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)", (ROOT / name).read_text())
    folder = (ROOT / name).parent
    broken = [
        f"{path}#{anchor}"
        for path, anchor in links
        if not leads(folder / path if path else ROOT / name, anchor)
    ]
    assert broken == []


@pytest.mark.parametrize("name", [name for name in _FILES if name.endswith(".md")])
def test_each_table_has_a_head(name):
    """Rows behind a blank line are no table: they are shown as text, with their bars."""
    begins = re.compile(r"^\n\|.*\n(?!\|[-:| ]+\|$)", re.M)
    assert begins.findall((ROOT / name).read_text()) == []


def test_pages_that_code_names_are_there():
    broken = [
        f"{name}: {page}#{anchor}"
        for name in _CODE
        if (ROOT / name).is_file()
        for page, anchor in re.findall(
            r"\b(docs/[\w/-]+\.md)#?([\w-]*)", (ROOT / name).read_text(encoding="utf-8")
        )
        if not leads(ROOT / page, anchor)
    ]
    assert broken == []


def test_the_runbook_leads_to_each_error_code():
    runbook = (ROOT / "docs/how-to/on-call.md").read_text(encoding="utf-8")
    led = re.findall(r"\[(SHIP-\d+)\]\(\.\./reference/errors\.md#(ship-\d+)\)", runbook)
    errors = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    codes = re.findall(r"^### (SHIP-\d+)$", errors, re.M)
    assert sorted(led) == [(code, code.lower()) for code in codes]


def yaml_blocks():
    """Return (page, kind, name, text) of each complete pipeline or cluster file in the docs."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S):
            found = re.match(r"(?:#.*\n)*(pipeline|cluster): (\w+)\n", block)
            if found and ("clusters:" in block or found[1] == "cluster"):
                yield str(page.relative_to(ROOT)), found[1], found[2], block


@pytest.mark.parametrize(("page", "kind", "name", "text"), list(yaml_blocks()))
def test_configuration_in_the_docs_loads(page, kind, name, text, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    some = "pipeline: some\nsource: logs\ntopic: logs\nclusters: [any]\n"
    written = {("pipeline", "some"): some, (kind, name): text}
    for cluster in ["any", *re.findall(r"^clusters: \[(.*)\]", text, re.M)]:
        for each in cluster.split(", "):
            written["cluster", each] = f"cluster: {each}\nbootstrap: 127.0.0.1:1\n"
    for (of, called), content in written.items():
        file = tmp_path / "config" / f"{of}s" / f"{called}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert [str(fault) for fault in load_all(tmp_path / "config").faults] == [], page
