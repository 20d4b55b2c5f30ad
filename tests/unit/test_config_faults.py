"""What a user reads when something in the configuration is wrong: the exact line, with file, line
and column."""

import re
from pathlib import Path

import pytest
from faults import names_in

from shipper.config.load import load_all, load_cluster, load_pipeline
from shipper.errors import ConfigError

RIGHT = """\
pipeline: web
source: s3a://logs/web/
topic: logs.web
clusters: [local]
"""
LOCAL = "cluster: local\nbootstrap: 127.0.0.1:9092\n"


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "clusters").mkdir()
    (folder / "clusters" / "local.yaml").write_text(LOCAL)
    return Path("config")


def faults_of(text, name="web", kind="pipelines"):
    """The faults of one file, without the part of the line that is the same for all."""
    path = Path("config", kind, f"{name}.yaml")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = [str(fault) for fault in load_all(Path("config")).faults]
    return [line.removeprefix(f"{path}:") for line in found if line.startswith(str(path))]


def pipeline(more):
    return RIGHT + more


def changed(lines):
    """Return the right pipeline with ``lines`` instead of its own of the same keys, or without a
    key (``- topic``)."""
    own = {line.partition(":")[0]: line for line in RIGHT.splitlines()}
    more = []
    for line in lines:
        key = line.removeprefix("- ").partition(":")[0]
        if key in own:
            own[key] = "" if line.startswith("- ") else line
        else:
            more.append(line)
    return "\n".join([*filter(None, own.values()), *more]) + "\n"


#: What is changed in a right pipeline, and the one fault: its place, and the keys, words and bounds
#: that the fault names. How it is worded is free.
_BLOCKS = (Path(__file__).parent / "config_faults.txt").read_text(encoding="utf-8").split("\n\n")


@pytest.mark.parametrize("block", _BLOCKS)
def test_fault_shows_the_users_own_path_line_and_column(block):
    *lines, expected = block.strip().splitlines()
    line, column, field, *names = re.split(r": ?", expected.removeprefix("=> "), maxsplit=3)
    [fault] = faults_of(changed([line for line in lines if not line.startswith("#")]))
    assert fault.startswith(f"{line}:{column}: {field}: ")
    assert set(", ".join(names).split(", ")) <= {*names_in(fault), ""}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "1:1"),
        ("# nothing yet\n", "1:1"),
        ("- a\n", "1:1"),
        (RIGHT + "delivery:\n  lanes: 2\n\tlease: 3s\n", "7:1"),
        (RIGHT + "owner: [a\nrunner: x\n", "6:7"),
        (RIGHT + "owner: 'a\n", "5:8"),
        (RIGHT + "owner: a: b\n", "5:9"),
        (RIGHT + "schedule: @hourly\n", "5:11"),
        (RIGHT + "owner: *team\n", "5:8"),
        (RIGHT + "owner: !team a\n", "5:8: owner"),
        (RIGHT + "---\na: b\n", "5:1"),
        (RIGHT + "records: {headers: {404: a}}\n", "5:21: records.headers"),
        (RIGHT + "owner: a\x07b\n", "5:9"),
        (RIGHT.encode() + b"owner: caf\xe9\n", "5:11"),
    ],
)
def test_text_that_is_not_yaml_is_shown_where_it_breaks(text, place):
    [fault] = faults_of(text)
    assert fault.startswith(f"{place}: ")


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault():
    assert faults_of(b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode()) == []


def test_all_faults_of_all_files_come_at_once_in_the_order_of_files_and_lines():
    Path("config/clusters/far.yaml").write_text("cluster: far\nbootstrp: x\n")
    Path("config/pipelines/b.yaml").write_text(
        "pipeline: b\nsource: x\ntopic: 'a b'\nclusters: [far, lcal]\nowner: 1\n"
    )
    Path("config/pipelines/a.yaml").write_text("- a\n")
    places = [
        (fault.file, fault.line, fault.column, fault.field)
        for fault in load_all(Path("config")).faults
    ]
    assert places == [
        ("config/clusters/far.yaml", 1, 1, "bootstrap"),
        ("config/clusters/far.yaml", 2, 1, "bootstrp"),
        ("config/pipelines/a.yaml", 1, 1, ""),
        ("config/pipelines/b.yaml", 3, 8, "topic"),
        ("config/pipelines/b.yaml", 4, 17, "clusters[1]"),
        ("config/pipelines/b.yaml", 5, 8, "owner"),
    ]


# --- The environment


def test_variable_that_is_not_set_is_named_with_its_place(monkeypatch):
    monkeypatch.delenv("SHIPPER_NOWHERE", raising=False)
    where = (
        "the environment variable SHIPPER_NOWHERE is not set; set it, or write a default: "
        "${SHIPPER_NOWHERE:-…}"
    )
    assert faults_of(RIGHT.replace("s3a:/", "${SHIPPER_NOWHERE}")) == [f"2:9: source: {where}"]
    assert faults_of(pipeline("runs_uri: x/${SHIPPER_NOWHERE}\n")) == [f"5:11: runs_uri: {where}"]
    assert faults_of(RIGHT) == []
    secret = LOCAL + "properties:\n  sasl.password: ${SHIPPER_NOWHERE}\n"
    assert faults_of(secret, "local", "clusters") == [f"4:18: properties.sasl.password: {where}"]


def test_reference_that_is_not_closed_is_a_fault():
    wrong = "`${` begins a reference to the environment; write ${NAME} or ${NAME:-default}"
    assert faults_of(LOCAL.replace("127.0.0.1:9092", "${HOST"), "local", "clusters") == [
        f"2:12: bootstrap: {wrong}"
    ]


@pytest.mark.parametrize(
    "properties",
    [
        "sasl.password: {hunter2: 1}",
        "sasl.password: {hunter2}",
        "sasl.password: [hunter2]",
        "sasl.password: *hunter2",
        "sasl.password: !hunter2!x y",
        "sasl.password: !hunter2 y",
        "sasl.password: &hunter2",
        "sasl.password: @hunter2",
        "sasl.password: %hunter2",
        "sasl.password: 'hunter2",
        'sasl.password: "hunter2\\d"',
        "sasl.password: a: hunter2",
        "sasl.password: {hunter2: 1, hunter2: 2}",
        "sasl.password: x\n  sasl.password: hunter2",
        "acks: hunter2",
        "sasl.password: ${hunter2 }",
    ],
)
def test_no_fault_prints_a_value_of_properties(properties):
    found = faults_of(LOCAL + f"properties:\n  {properties}\n", "local", "clusters")
    assert len(found) == 1
    assert "hunter2" not in found[0]
    assert found[0].startswith(("4:", "5:"))


def test_value_from_the_environment_is_not_printed(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    text = (
        LOCAL
        + "ledger: {topic: 'a b ${SECRET}', replication_factor: '${SECRET}', create: '${SECRET}'}\n"
    )
    found = faults_of(text, "local", "clusters")
    assert [line.split("; ")[0] for line in found] == [
        "3:17: ledger.topic: found 'a b ${SECRET}'",
        "3:54: ledger.replication_factor: found '${SECRET}'",
        "3:75: ledger.create: found '${SECRET}'",
    ]
    assert "hunter2" not in "".join(found)


# --- Folders and names


def test_other_ending_is_said_and_not_ignored():
    Path("config/pipelines/web.yml").write_text(RIGHT)
    loaded = load_all(Path("config"))
    said = "config/pipelines/web.yml: ignored because of its ending; rename it to web.yaml"
    assert [str(fault) for fault in loaded.faults] == [said]
    assert list(loaded.broken) == ["web"]
    with pytest.raises(ConfigError) as error:
        load_pipeline(Path("config"), "web")
    assert error.value.message == f"{said} [SHIP-202]"


def test_names_that_differ_in_letter_case_only_are_refused():
    Path("config/pipelines/web.yaml").write_text(RIGHT)
    Path("config/pipelines/Web.yaml").write_text(RIGHT)
    loaded = load_all(Path("config"))
    assert (
        "config/pipelines/web.yaml: differs from Web.yaml in letter case only; rename one of them"
        in map(str, loaded.faults)
    )
    assert "Web" in loaded.broken


def test_unknown_names_are_answered_with_those_that_there_are():
    Path("config/pipelines/web.yaml").write_text(RIGHT)
    with pytest.raises(ConfigError) as pipeline_error:
        load_pipeline(Path("config"), "wab")
    assert names_in(pipeline_error.value.message) == {"wab", "web"}
    with pytest.raises(ConfigError) as cluster_error:
        load_cluster(Path("config"), "../pipelines/web")
    assert cluster_error.value.message.endswith("local [SHIP-202]")
    for file in ("config/pipelines/web.yaml", "web.yaml", "/elsewhere/pipelines/web.yml"):
        with pytest.raises(ConfigError, match=r"no pipeline '.*did you mean 'web'\?"):
            load_pipeline(Path("config"), file)
    with pytest.raises(ConfigError, match=r"no pipeline 'wab\.yaml'; did you mean"):
        load_pipeline(Path("config"), "wab.yaml")
    assert cluster_error.value.exit_code == 2


def test_folder_that_is_not_there_is_said():
    [fault] = load_all(Path("nowhere")).faults
    assert (fault.file, fault.code) == ("nowhere", "SHIP-203")
    assert str(Path.cwd()) in fault.message
    with pytest.raises(ConfigError, match="no such folder"):
        load_pipeline(Path("nowhere"), "web")


def test_no_pipeline_at_all_is_a_fault():
    [fault] = load_all(Path("config")).faults
    assert (fault.file, fault.code) == ("config/pipelines", "SHIP-203")


@pytest.mark.parametrize(
    ("cron", "fires"),
    [
        ("0 0 30 2 *", False),
        ("0 0 31 2,4,jun *", False),
        ("0 0 31 9-11 *", True),
        ("0 0 30,29 feb *", True),
        ("0 0 30 2 mon", True),
        ("0 0 31 */2 *", True),
        ("0 0 L 2 *", True),
        ("0 0 30 1/2 *", True),
        ("0 0 28-31 2 *", True),
    ],
)
def test_a_cron_that_never_fires_is_refused(cron, fires):
    found = faults_of(pipeline(f"schedule: '{cron}'\n"))
    assert (found == []) is fires, found
    assert fires or "never fires" in found[0]


@pytest.mark.parametrize(
    ("bootstrap", "why"),
    [
        ("kafka-1", "'kafka-1' is no host:port"),
        ("kafka-1:9092,kafka-2", "'kafka-2' is no host:port"),
        ("kafka-1:99999", "'kafka-1:99999' is no host:port"),
        ("http://kafka-1:9092", "is a URL; write host:port"),
        ("SASL_SSL://kafka-1:9092", "is a URL; write host:port"),
        ("kafka-1:9092,", "'' is no host:port"),
        ("kafka 1:9092", "is no host:port"),
    ],
)
def test_a_bootstrap_that_is_none_is_refused(bootstrap, why):
    found = faults_of(f"cluster: far\nbootstrap: '{bootstrap}'\n", "far", "clusters")
    assert len(found) == 1
    assert found[0].startswith("2:12: bootstrap: ")
    assert why in found[0]


def test_globs_on_names_may_be_one_or_a_list(config):
    for written, globs in (("'*.log'", ("*.log",)), ("['*.log', '*.gz']", ("*.log", "*.gz"))):
        text = RIGHT.replace("source: s3a://logs/web/", f"source: {{path: x, include: {written}}}")
        assert faults_of(text) == []
        assert load_pipeline(config, "web").source.include_globs == globs


def test_bootstrap_may_be_a_list(config):
    listed = LOCAL.replace("127.0.0.1:9092", "['127.0.0.1:9092', '127.0.0.1:9093']")
    assert faults_of(listed, "local", "clusters") == []
    assert load_cluster(config, "local").bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert faults_of(listed.replace(":9093", ""), "local", "clusters") != []


def test_a_former_name_is_of_no_other_pipeline(config):
    """Two pipelines on one ledger would each take the other's windows for shipped, or send them
    again."""
    old = config / "pipelines" / "old.yaml"
    assert faults_of(pipeline("formerly: old\n")) == []
    old.write_text(RIGHT.replace("pipeline: web", "pipeline: old"))
    (fault,) = faults_of(pipeline("formerly: old\n"))
    assert fault.startswith("5:11: formerly: pipeline 'old' exists")
    (fault,) = faults_of(pipeline("formerly: [older, old]\n"))
    assert fault.startswith("5:19: formerly[1]: pipeline 'old' exists")
    with pytest.raises(ConfigError, match="pipeline 'old' exists"):
        load_pipeline(config, "web")
    # A circle.
    old.write_text(RIGHT.replace("pipeline: web", "pipeline: old") + "formerly: web\n")
    assert len(faults_of(pipeline("formerly: old\n"))) == 1
    assert len(load_all(config).faults) == 2
    # Two that were one.
    old.write_text(RIGHT.replace("pipeline: web", "pipeline: old") + "formerly: [oldest]\n")
    (fault,) = faults_of(pipeline("formerly: oldest\n"))
    assert "pipeline 'old' was formerly 'oldest' too" in fault
    with pytest.raises(ConfigError, match="was formerly 'oldest' too"):
        load_pipeline(config, "web")
    old.unlink()
    for wrong in ("web", "Old", "[old, old]", "../old"):
        assert len(faults_of(pipeline(f"formerly: {wrong}\n"))) == 1, wrong


def test_a_renamed_pipeline_is_kept_under_the_first_of_its_names(config):
    for text, key in (
        ("", "web"),
        ("formerly: old\n", "old"),
        ("formerly: [old, oldest]\n", "oldest"),
    ):
        assert faults_of(pipeline(text)) == []
        assert load_pipeline(config, "web").key == key
    # Its errors and old notices name that one.
    with pytest.raises(ConfigError, match="it is 'web' now") as error:
        load_pipeline(config, "oldest")
    assert error.value.code == "SHIP-202"


def test_a_clusters_file_among_pipelines_is_told_as_that():
    (fault,) = faults_of(LOCAL, "near")
    assert fault.startswith("1:1: ")
    assert "`clusters`" in fault


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("pipeline:\u00a0web\nsource: x\n", "1:10"),
        ("pipeline: web\nsource:\n  \u00a0path: x\n", "3:3"),
    ],
)
def test_a_no_break_space_is_named_at_its_place(text, place):
    (fault,) = faults_of(text)
    assert fault.startswith(f"{place}: a no-break space")


def test_a_no_break_space_in_a_text_is_a_part_of_it():
    assert faults_of(pipeline("records: {drop: {nbsp: \"value = 'a\u00a0b'\"}}  # \u00a0\n")) == []


def test_a_folder_of_files_that_nobody_reads_is_named(config):
    (config / "pipelines/web.yaml").write_text(RIGHT)
    (config / "pipelines/team").mkdir()
    assert load_all(config).faults == ()
    (config / "pipelines/team/x.yaml").write_text(RIGHT)
    loaded = load_all(config)
    assert [(fault.file, fault.line) for fault in loaded.faults] == [
        ("config/pipelines/team", None)
    ]
    assert loaded.broken == {}


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("properties: {sasl.password: hunter2}", "properties.sasl.password"),
        ("properties: {ssl.key.password: '{hunter2'}", "properties.ssl.key.password"),
        ("schema_registry: {url: 'https://r', token: hunter2}", "schema_registry.token"),
        ("properties: {sasl.password: '${HUNTER2}', sasl.username: web}", None),
    ],
)
def test_a_secret_in_clear_is_warned_of_without_being_shown(config, line, path, monkeypatch):
    monkeypatch.setenv("HUNTER2", "hunter2")
    (config / "pipelines/web.yaml").write_text(RIGHT)
    (config / "clusters/local.yaml").write_text(f"{LOCAL}{line}\n")
    loaded = load_all(config)
    assert loaded.faults == ()
    found = [fault for fault in loaded.warnings if "in clear" in fault.message]
    assert [fault.field for fault in found] == ([path] if path else [])
    assert "hunter2" not in str(found).lower()
