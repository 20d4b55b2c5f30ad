"""What `shipper validate` warns of in `source.path`, and `--strict`."""

import json

import pytest

HOURLY, DAILY = '"0 * * * *"', '"@daily"'


def write(config, schedule, path, more=""):
    source = f"{{path: '{path}'{more}}}" if more else f"'{path}'"
    (config / "pipelines" / "web.yaml").write_text(
        f"pipeline: web\nsource: {source}\ntopic: t\nclusters: [local]\n"
        + (f"schedule: {schedule}\n" if schedule else "")
    )


def warnings(shipper, config):
    done = shipper("validate", "--json", "--no-sql", "--config", str(config))
    assert done.returncode == 0
    return list(json.loads(done.stdout)["warnings"])


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("logs/{window_start:%Y/%d}/", "%m"),
        ("logs/{window_start:%-m/%-d}/", "%Y"),
        ("logs/{window_start:%H}/", "%Y, %m, %d"),
        ("logs/{window_start:%Y-%m-%d}/{window_start:%M}/", "%H"),
        ("logs/{window_end:%j}/", "%Y"),
    ],
)
def test_a_folder_whose_name_comes_again_is_a_warning(shipper, config, path, missing):
    for schedule in (None, DAILY):
        write(config, schedule, path)
        [said] = warnings(shipper, config)
        assert "web.yaml:2:9: source: " in said
        assert f"because {missing} is not in it" in said


@pytest.mark.parametrize(
    ("schedule", "path", "shared"),
    [
        (HOURLY, "logs/{window_start:%Y/%m/%d}/", "logs/2026/03/01/"),
        (DAILY, "logs/{window_start:%Y/%m}/", "logs/2026/03/"),
        ('"30 * * * *"', "logs/{window_start:%Y%m%d%H}/", "logs/2026030100/"),
        ('"0 */12 * * *"', "logs/{window_start:%Y/%m/%d}/", "logs/2026/03/01/"),
        # A day in Berlin has hours of two days in UTC.
        (
            "{cron: '@daily', timezone: Europe/Berlin}",
            "logs/{window_start:%Y/%j}/",
            "logs/2026/060/",
        ),
    ],
)
def test_a_folder_that_several_windows_of_the_schedule_read_is_a_warning(
    shipper, config, schedule, path, shared
):
    write(config, schedule, path)
    [said] = warnings(shipper, config)
    assert f" both have {shared}. " in said


@pytest.mark.parametrize(
    ("schedule", "path"),
    [
        (HOURLY, "logs/{window_start:%Y/%m/%d/%H}/"),
        (DAILY, "logs/{window_start:%Y/%m/%d/%H}/"),
        (DAILY, "logs/{window_start:%Y-%-m-%-d}/"),
        ('"@weekly"', "logs/{window_start:%Y/%m/%d}/"),
        ('"@monthly"', "logs/{window_start:%Y/%m}/"),
        ('"*/15 * * * *"', "logs/{window_start:%Y/%m/%d/%H/%M}/"),
        ('"0 0 29 2 *"', "logs/{window_start:%Y%m%d%H%M%S}/"),
        (HOURLY, "logs/"),
        (None, "logs/{window_start:%Y/%m/%d}/"),
        (HOURLY, "logs/{window_end:%Y/%m/%d/%H}/"),
    ],
)
def test_a_pattern_that_fits_is_not_warned_of(shipper, config, schedule, path):
    write(config, schedule, path)
    assert warnings(shipper, config) == []


@pytest.mark.parametrize("path", ["logs/$(date +%F)/", "logs/`date`/", "C:\\\\logs\\\\"])
def test_a_path_for_a_shell_or_for_windows_is_a_warning(shipper, config, path):
    write(config, None, path)
    [said] = warnings(shipper, config)
    assert "web.yaml:2:9: source: " in said


def test_strict_makes_an_exit_code_of_a_warning(shipper, config):
    asked = ("validate", "--no-sql", "--config", str(config))
    write(config, HOURLY, "logs/{window_start:%Y/%m/%d}/")
    assert shipper(*asked).returncode == 0
    assert shipper(*asked, "--strict").returncode == 3
    write(config, HOURLY, "logs/{window_start:%Y/%m/%d}/", ", shared_folders: true")
    assert shipper(*asked, "--strict").returncode == 0, "it is meant so"
    write(config, HOURLY, "logs/{window_start:%Y/%m/%d/%H}/")
    assert shipper(*asked, "--strict").returncode == 0
    write(config, "nonsense", "logs/{window_start:%Y/%m/%d}/")
    assert shipper(*asked, "--strict").returncode == 2, "a fault is more than a warning"
