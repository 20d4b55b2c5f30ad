"""The forms in which a person may name a window, and how the commands say what a form meant."""

import datetime as dt

import pytest

from shipper.cli.run_options import new_job
from shipper.errors import WindowError
from shipper.request import RunRequest
from shipper.windows.expression import parse_expression

NOW = dt.datetime(2026, 11, 1, 12, 34, 56, 789, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("2026-11-01T06:00/2026-11-01T07:00", "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"),
        ("2026-11-01T06/2026-11-01T07", "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"),
        ("2026-11-01T06", "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"),
        ("2026-11-01 06", "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"),
        ("2026-11-01T06Z", "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"),
        ("2026-11-01T06+05:30", "2026-11-01T00:30:00Z/2026-11-01T01:30:00Z"),
        ("2026-11-01", "2026-11-01T00:00:00Z/2026-11-02T00:00:00Z"),
        ("2026-11-01T06/PT1H", "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"),
        ("PT90M/2026-11-01T06", "2026-11-01T04:30:00Z/2026-11-01T06:00:00Z"),
        ("2026-11-01/P1W", "2026-11-01T00:00:00Z/2026-11-08T00:00:00Z"),
        ("2026-11-01 / p1dt6h", "2026-11-01T00:00:00Z/2026-11-02T06:00:00Z"),
        ("yesterday", "2026-10-31T00:00:00Z/2026-11-01T00:00:00Z"),
        ("last day", "2026-10-31T00:00:00Z/2026-11-01T00:00:00Z"),
        ("Last  Hour", "2026-11-01T11:00:00Z/2026-11-01T12:00:00Z"),
        ("last 6 hours", "2026-11-01T06:00:00Z/2026-11-01T12:00:00Z"),
        ("last 7 days", "2026-10-25T00:00:00Z/2026-11-01T00:00:00Z"),
    ],
)
def test_each_form_names_its_window(text, window):
    assert str(parse_expression(text, now=NOW)) == window


@pytest.mark.parametrize(
    ("zone", "now", "text", "window"),
    [
        # 25 October 2026 has 25 hours in Berlin, 29 March 23.
        (
            "Europe/Berlin",
            "2026-10-26T08",
            "yesterday",
            "2026-10-24T22:00:00Z/2026-10-25T23:00:00Z",
        ),
        (
            "Europe/Berlin",
            "2026-03-30T08",
            "yesterday",
            "2026-03-28T23:00:00Z/2026-03-29T22:00:00Z",
        ),
        # Half past two, for the second time.
        (
            "Europe/Berlin",
            "2026-10-25T01:30",
            "last hour",
            "2026-10-25T00:00:00Z/2026-10-25T01:00:00Z",
        ),
        (
            "Asia/Kolkata",
            "2026-11-01T12:34",
            "last hour",
            "2026-11-01T11:30:00Z/2026-11-01T12:30:00Z",
        ),
        # It is the 2nd there already.
        (
            "Pacific/Auckland",
            "2026-11-01T12:34",
            "yesterday",
            "2026-10-31T11:00:00Z/2026-11-01T11:00:00Z",
        ),
        # The night of 24 April 2026 has no midnight in Cairo: the day begins at one o'clock.
        ("Africa/Cairo", "2026-04-25T08", "yesterday", "2026-04-23T22:00:00Z/2026-04-24T21:00:00Z"),
        # What is no relative word is UTC in every zone.
        (
            "Asia/Kolkata",
            "2026-11-01T12",
            "2026-11-01",
            "2026-11-01T00:00:00Z/2026-11-02T00:00:00Z",
        ),
    ],
)
def test_days_and_hours_are_those_of_the_zone(zone, now, text, window):
    moment = dt.datetime.fromisoformat(now).replace(tzinfo=dt.UTC)
    assert str(parse_expression(text, zone, moment)) == window


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("never", "last hour"),
        ("", "START/END"),
        ("2026-11-01T06:15", "2026-11-01T06:15/PT1H"),
        ("PT1H/PT1H", "START/PT1H"),
        ("2026-11-01/P1M", "Months"),
        ("2026-11-01/P", "not a length"),
        ("2026-11-01/PT", "not a length"),
        ("2026-11-01/PT0H", "empty"),
        ("2026-11-01/P9999999999999D", "Shorten"),
        ("2026-11-01/P99999999D", "Shorten"),
        ("P99999999D/2026-11-01", "Shorten"),
        ("P700000D/2026-11-01", "Shorten"),
        ("2026-11-01/P2900000D", "Shorten"),
        ("last 50000 days", "Shorten"),
        ("2026-11-02/2026-11-01", "SHIP-222"),
        ("2026-11-01T06:00:00.25/PT1H", "whole seconds"),
        ("2026-11-01T06:00/2026-11-01T07:00:00.000001", "whole seconds"),
        ("last 0 hours", "empty"),
        ("yesterday/today", "not a date or time"),
        ("2026-13-01", "START/END"),
        ("9999-12-31", "Shorten"),
        ("0001-01-01", "Shorten"),
        ("0001-01-01T00:00+14:00/PT1H", "Shorten"),
        ("2026-W45", "2026-11-02/P1W"),
        ("last 9999999 days", "START/END"),
    ],
)
def test_what_names_no_window_is_refused_with_what_does(text, says):
    with pytest.raises(WindowError, match=says):
        parse_expression(text, now=NOW)


@pytest.fixture
def pipeline(config):
    """A configuration with the pipeline `web`, scheduled by the clock of Kolkata."""
    (config / "pipelines" / "web.yaml").write_text(
        "pipeline: web\nschedule: {cron: '@hourly', timezone: Asia/Kolkata}\nsource: logs\n"
        "topic: t\nclusters: [local]\n"
    )
    return config


def test_a_relative_window_is_that_of_the_schedules_clock(pipeline):
    job = new_job("web", "yesterday", pipeline, (), RunRequest())
    assert (job.window.start.hour, job.window.start.minute) == (18, 30)
    assert job.window.end - job.window.start == dt.timedelta(days=1)


@pytest.mark.parametrize("command", ["plan", "run", "preview", "replay", "ledger show"])
def test_every_command_takes_every_form_and_says_what_it_meant(pipeline, shipper, command):
    (pipeline / "shipper.yaml").write_text("allow: {sources: [logs]}\n")
    refused = {  # each is refused for another reason, once its window is known
        "plan": ("--scheduled", "--reship"),
        "run": ("--reship",),
        "preview": ("--file", "/elsewhere/a.log"),
        "replay": ("--reason", "r"),
        "ledger show": ("--cluster", "none"),
    }

    def said(window):
        done = shipper(
            *f"{command} web --window".split(),
            window,
            *refused[command],
            *("--config", str(pipeline)),
        )
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z" in said("2026-11-01T06/PT1H")
    assert "30:00Z, by the clock of Asia/Kolkata" in said("last hour")
    assert "--window 2026-11-01" not in said("2026-11-01T06:00:00Z/2026-11-01T07:00:00Z")
    assert "SHIP-221" in said("2026-11-01T06:00:00.5/2026-11-01T07")
