"""A notifier that is not there is found without importing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipper.cli.lint import why_missing


@pytest.fixture
def packages(tmp_path: Path) -> list[str]:
    """As providers are installed: parts of one package in several folders."""
    (tmp_path / "a" / "house").mkdir(parents=True)
    (tmp_path / "b" / "house" / "slack").mkdir(parents=True)
    (tmp_path / "a" / "house" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "b" / "house" / "slack" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "b" / "house" / "slack" / "notices.py").write_text("class SlackNotifier: ...\nraise SystemExit('imported')")
    return [str(tmp_path / "a"), str(tmp_path / "b")]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("house.slack.notices.SlackNotifier", None),
        ("house.slack.notices.SlakNotifier", "house.slack.notices holds no SlakNotifier"),
        ("house.slak.notices.SlackNotifier", "there is no module house.slak.notices here, and house is"),
        ("elsewhere.notices.Notifier", None),
    ],
)
def test_a_notifier_that_is_not_there_is_found(packages: list[str], name: str, why: str | None) -> None:
    found = why_missing(name, packages)
    assert found is None if why is None else str(found).startswith(why)
