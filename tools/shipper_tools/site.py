"""A hook of mkdocs: the site's pages that lie outside of ``docs/``, and links to them.

A link in Markdown is written as it works in the repository. On the site, a link to an adopted page
leads to the page's place there. Any other link out of ``docs/`` fails the build in strict mode:
name such a file without a link.

The page of the command line ends with every option, as the commands themselves declare them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.main import get_command

from shipper.cli.main import app

#: File in the repository → its page on the site.
ADOPTED = {
    "CHANGELOG.md": "reference/changes.md",
    "SECURITY.md": "understand/security.md",
    "config/schema/REFERENCE.md": "reference/options.md",
}
_SOURCES = {page: source for source, page in ADOPTED.items()}
_COMMANDS = "reference/cli.md"
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the adopted pages."""
    root = Path(config.config_file_path).parent
    for source, page in ADOPTED.items():
        files.append(File.generated(config, page, abs_src_path=str(root / source)))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that lead to pages of the site."""
    place = page.file.src_uri
    folder = posixpath.dirname(_SOURCES.get(place, f"docs/{place}"))

    def on_the_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target not in ADOPTED and not target.startswith("docs/"):
            return link[0]
        there = ADOPTED.get(target, target.removeprefix("docs/"))
        return link[1] + posixpath.relpath(there, posixpath.dirname(place) or ".")

    if place == _COMMANDS:
        markdown = "\n\n".join(
            [markdown, "## Every option", *_options_of(get_command(app), "shipper")]
        )
    return _LINK.sub(on_the_site, markdown)


def _options_of(command: Any, name: str) -> Iterator[str]:
    """Return Markdown of each command below ``command``, which is called ``name``."""
    if hasattr(command, "list_commands"):
        context = command.context_class(command)
        for each in command.list_commands(context):
            yield from _options_of(command.get_command(context, each), f"{name} {each}")
        return
    yield f"### {name}"
    yield command.help or ""
    yield "\n".join(["| Option | Meaning |", "|---|---|", *map(_row, command.params)])


def _row(option: Any) -> str:
    words = ", ".join(f"`{word}`" for word in [*option.opts, *option.secondary_opts])
    meaning = " ".join((option.help or "").split()).replace("|", "\\|")
    return f"| {words} | {meaning} |"
