"""What the page says, read from its parsed HTML as a person or a screen reader would find it."""

import datetime as dt
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from shipper.finding import warn
from shipper.report.page import render
from shipper.report.results import GateResult, RunReport
from shipper.report.run_view import run_view
from shipper.report.throughput import spans
from shipper.request import RunRequest
from tests.samples import reports as samples

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """The page as a list of elements with their text, by section. Fails on tags that do not
    match."""

    def __init__(self, report):
        super().__init__()
        self.report, self.html = report, render(report)
        self.tags = Counter()
        self.attributes = []
        self.texts = {}
        self.tables = {}
        self._open = []
        self.feed(self.html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append((tag, dict(attrs).get("id")))
        if tag == "tr":
            self.tables.setdefault(self._section(), []).append([])
        if tag in ("td", "th"):
            self.tables[self._section()][-1].append("")

    def handle_endtag(self, tag):
        opened, _ = self._open.pop()
        assert opened == tag

    def handle_data(self, data):
        for tag, _ in self._open:
            self.texts.setdefault(tag, []).append(data)
        self.texts.setdefault(f"#{self._section()}", []).append(data)
        if any(tag in ("td", "th") for tag, _ in self._open):
            self.tables[self._section()][-1][-1] += data

    def _section(self):
        return next((name or "" for tag, name in reversed(self._open) if tag == "section"), "")

    def text(self, place):
        return "".join(self.texts.get(place, []))

    def body_class(self):
        return next(
            value for tag, name, value in self.attributes if tag == "body" and name == "class"
        )

    def rows(self, section):
        head = []
        found = []
        for row in self.tables.get(section, []):
            if row[0] in ("Check", "File", "Entry", "Step", "Figure"):
                head = row
            else:
                found.append(dict(zip(head, row, strict=True)))
        return found


@pytest.fixture(
    scope="module",
    params=[one for one in samples.SAMPLES if one is not samples.large],
    ids=lambda sample: sample.__name__,
)
def each(request):
    """The page of each sample but `large`, which is more of the same."""
    return Page(request.param())


@pytest.fixture(scope="module")
def large():
    """The page of 5,000 files and 40 topics."""
    return Page(samples.large())


def test_green_run_shows_gates_topics_files_and_steps():
    page = Page(samples.shipped())
    gates = {row["Check"]: row for row in page.rows("gates")}
    assert gates["files"]["Expected"] == "at least 12"
    assert gates["files"]["Result"] == "✓ passed"
    assert gates["fresh(modified)"] == {
        "Check": "fresh(modified)",
        "Gate": "Source",
        "Expected": "at most 1h old",
        "Observed": "1h10m4s",
        "Severity": "warn",
        "Result": "! failed",
    }
    errors = next(row for row in page.rows("figures") if row["Figure"] == "errors.web")
    assert errors["Receipts"] == errors["Ledger"] == "43,027"
    assert errors["Before"] == "1,250"
    assert errors["Bytes"] == "6.8 MB"
    assert errors["Agree"] == "✓ yes"
    assert len(page.rows("files")) == 12
    assert page.rows("left-out")[0]["Reason"] == "modified 4m ago, settles after 10m"
    assert [row["Status"] for row in page.rows("steps")] == ["✓ succeeded"] * 4


def test_a_ledger_that_is_less_durable_than_the_data_is_on_the_page_and_in_the_notice():
    report = samples.nothing_to_do()
    report.plan.clusters[0].findings.append(
        warn("the ledger _shipper.web has replication factor 1", "raise it", "ledger", "frankfurt")
    )
    found, page = run_view(report), Page(report)
    assert found.state == "doubt"
    assert found.headline.endswith(", but something needs attention")
    assert "replication factor 1" in page.text("#verdict")
    assert "replication factor 1" in page.text("#notes")
    assert found.event == "warning"
    assert found.remedy == "Raise it."
    assert "replication factor 1" in (found.why or "")


def test_sum_shows_what_was_filtered_by_rule_and_quarantined_by_reason():
    page = Page(samples.set_aside())
    assert page.body_class() == "shipped"
    says = (
        "1,259,204 read = 1,224,291 delivered + 1,250 before + 33,650 filtered + 13 quarantined. "
        "The sum closes."
    )
    assert says in page.text("figcaption")
    picture = page.text("#sum")
    for row in (
        "health_checks31,446 filtered",
        "debug2,204 filtered",
        "unparseable9 quarantined",
        "too_large4 quarantined",
    ):
        assert row in picture
    assert "13 records quarantined" in page.text("#verdict")
    assert "quarantine.webquarantine" in [row["Figure"] for row in page.rows("figures")]


def test_quarantined_records_are_not_called_delivered():
    report = samples.set_aside()
    report.ships[0].topics = [topic for topic in report.ships[0].topics if topic.quarantine]
    report.ships[0].read = 33_650 + 13
    report.delivery_gates[0].topics = report.delivery_gates[0].topics[-1:]
    page = Page(report)
    assert page.text("h1") == "Shipped nothing but 13 quarantined records"
    assert (
        "33,663 read = 0 delivered + 0 before + 33,650 filtered + 13 quarantined. The sum closes."
        in page.text("figcaption")
    )


@pytest.mark.parametrize(
    ("place", "column", "says"),
    [
        ("spark", "Spark", "✗ Spark 7 more"),
        ("receipts", "Receipts", "✗ receipts 7 more"),
        ("ledger", "Ledger", "✗ ledger 7 more"),
        ("read_back", "Read-back", "✗ read-back 7 more"),
    ],
)
def test_account_marks_the_place_that_disagrees_with_the_others(place, column, says):
    report = samples.set_aside()
    wrong = next(count for count in report.delivery_gates[0].account if count.name == "errors.web")
    setattr(wrong, place, getattr(wrong, place) + 7)
    page = Page(report)
    assert page.body_class() == "doubt"
    assert f"frankfurt: counts disagree on errors.web ({says[2:]})." in page.text("#verdict")
    first = page.rows("figures")[0]
    assert first["Figure"] == "errors.web"
    assert first["Agree"] == says
    assert first[column] == "43,034"


def test_parked_topic_is_part_of_the_sum_and_comes_first_in_its_tables():
    page = Page(samples.topic_parked())
    assert page.text("h1") == "Failed while shipping to frankfurt, after 1,221,981 records"
    says = page.text("figcaption")
    assert (
        "1,225,541 read = 1,221,981 delivered + 1,250 before + 2,310 parked. Every line is "
        "accounted for, but not all" in says
    )
    assert page.rows("files")[0]["File"] == "host=web-03/access-0003.log.gz"
    assert page.rows("figures")[0]["Figure"] == "audit.web"
    assert page.rows("figures")[0]["Parked"] == "2,310"


def test_a_run_with_much_in_quarantine_is_not_plainly_green():
    report = samples.set_aside()
    report.ships[0].quarantined = {"unparseable": report.ships[0].read // 3}
    found = run_view(report)
    assert found.state == "doubt"
    assert any("33 %) went to quarantine" in doubt.text for doubt in found.doubts)


def test_window_without_files_is_not_called_complete():
    empty = samples.plan(0)
    empty.clusters[0] = empty.clusters[0].model_copy(update={"left_files": 0, "records_there": 0})
    assert (
        Page(samples.report(plan=empty)).text("h1") == "Nothing to ship: the window holds no files"
    )


def test_closed_source_gate_says_that_nothing_was_sent_and_why():
    page = Page(samples.gate_closed())
    assert page.body_class() == "blocked"
    assert page.text("h1") == "Failed at the source gate: nothing was sent"
    verdict = page.text("#verdict")
    assert "not_null(value) expected all, observed 97.2 %" in verdict
    assert "shipper run web_access --window 2026-11-21T11:00:00Z/2026-11-21T12:00:00Z" in verdict
    assert {row["Step"]: row["Status"] for row in page.rows("steps")}[
        "Ship, frankfurt"
    ] == "not run"
    assert [row["Result"] for row in page.rows("gates")] == ["✗ failed", "! failed", "✓ passed"]


def test_failed_ship_counts_what_the_ledger_holds_and_leaves_the_rest_open():
    page = Page(samples.ship_failed())
    assert (
        page.text("h1")
        == "Failed while shipping to singapore, after 559,987 records; frankfurt has everything"
    )
    verdict = page.text("#verdict")
    assert "broker 2 (kafka-2.sg.example:9093) has not answered for 2m" in verdict
    assert "frankfurt: shipped, 1,224,291 delivered" in verdict
    assert "singapore: failed, 559,987 delivered" in verdict
    says = page.text("figcaption")
    assert "519,520 delivered, 0 before and 40,467 without a receipt" in says
    assert "Spark's own count of the records was lost" in says
    missing = page.rows("files")[0]
    assert missing["Cluster"] == "singapore"
    assert missing["Missing"] == "12,480"


def test_crash_before_the_plan_still_makes_a_page():
    page = Page(samples.crashed())
    assert page.text("h1") == "Failed before there was a plan"
    assert "did you mean 'status'?" in page.text("#verdict")
    assert [row["Status"] for row in page.rows("steps")] == ["no result", "not run"]
    assert page.tags["svg"] == 0


def test_report_that_calls_itself_green_cannot_hide_a_failed_step():
    report = samples.ship_failed().model_copy(update={"status": "succeeded", "error": None})
    assert Page(report).body_class() == "failed"


def test_killed_ship_is_named_although_a_later_step_failed_too():
    green = samples.shipped()
    gate = green.delivery_gates[0].model_copy(
        update={"status": "failed", "error": "step ship left no result", "topics": []}
    )
    cause = "step ship:frankfurt left no result: it was killed or never ran"
    page = Page(
        green.model_copy(
            update={"ships": [], "delivery_gates": [gate], "status": "failed", "error": cause}
        )
    )
    assert page.text("h1") == "Failed: no result of the step “Ship, frankfurt”"
    assert cause in page.text("#verdict")
    assert "Records that were sent, if any, are in the ledger" in page.text("#verdict")


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"ships": [], "delivery_gates": []}, "frankfurt: the ship step left no result"),
        ({"delivery_gates": []}, "frankfurt: the delivery gate left no result"),
        ({"gate_source": None}, "The source gate left no result"),
    ],
)
def test_missing_step_turns_green_into_a_doubt(missing, says):
    page = Page(samples.shipped().model_copy(update=missing))
    assert page.body_class() == "doubt"
    assert says in page.text("#verdict")


def test_figures_that_disagree_turn_green_into_a_doubt():
    report = samples.shipped()
    ledger = report.delivery_gates[0].topics[0].ledger
    assert ledger is not None
    report.delivery_gates[0].topics[0].ledger = ledger + 3
    report.ships[0].read -= 1
    page = Page(report)
    assert page.body_class() == "doubt"
    assert "disagree on logs.web" in page.text("#verdict")
    assert "1 record more accounted for than expected" in page.text("#verdict")
    assert page.rows("figures")[0]["Figure"] == "logs.web"


def test_open_blocking_check_in_a_passed_gate_is_a_doubt():
    report = samples.shipped()
    gate = report.gate_source
    assert isinstance(gate, GateResult)
    gate.checks[0].passed = False
    assert "Source: files failed" in Page(report).text("#verdict")


def test_hostile_text_stays_text():
    page = Page(samples.hostile())
    assert page.tags["script"] == 0
    assert "<script>alert(" in page.text("#verdict")
    assert "\u202e" not in page.html
    assert "\x00" not in page.html
    assert "\\u202egpj.exe" in page.text("#files")
    page.html.encode()  # a lone surrogate would fail here


def test_file_name_with_a_lone_surrogate_can_be_written():
    report = samples.shipped()
    name = b"caf\xe9.log".decode(errors="surrogateescape")
    report = report.model_copy(update={"error": name, "status": "failed"})
    assert "caf\\udce9.log" in render(report).encode().decode()


def test_5000_files_and_40_topics_stay_readable(large):
    assert len(large.rows("files")) == 200
    assert "14,800 more rows in report.json." in large.text("#files")
    assert "60 more rows in report.json." in large.text("#left-out")
    assert len(large.rows("figures")) >= 3 * 40
    assert "33 more topics" in large.text("#sum")
    assert len(large.html) < 500_000


def test_files_that_do_not_add_up_come_first_then_the_largest():
    report = samples.shipped()
    report.ships[0].files[3].delivered -= 7
    report.ships[0].files[5].records += 1
    report.ships[0].files[5].delivered += 1
    rows = Page(report).rows("files")
    assert rows[0]["Missing"] == "7"
    assert rows[0]["File"].endswith("access-0003.log.gz")
    assert rows[1]["File"].endswith("access-0005.log.gz")


def test_page_needs_nothing_but_itself(each):
    links = [value for _, name, value in each.attributes if name in ("href", "src", "xlink:href")]
    assert all(
        link.startswith(("#", "data:image/svg+xml,")) or link == "report.json" for link in links
    )
    assert "url(" not in each.text("style")
    assert "@import" not in each.text("style")
    assert not {"script", "iframe", "img", "object"} & each.tags.keys()


@pytest.mark.parametrize(("address", "leads"), [("https://airflow/runs/1", 1), ("javascript:1", 0)])
def test_a_run_of_airflow_leads_to_its_log(address, leads):
    report = samples.shipped()
    report.asked = RunRequest(log_url=address)
    links = [value for _, name, value in Page(report).attributes if name == "href"]
    assert links.count(address) == leads


def test_links_and_labels_lead_somewhere(each):
    ids = Counter(value for _, name, value in each.attributes if name == "id")
    assert max(ids.values()) == 1
    targets = [
        value[1:] for _, name, value in each.attributes if name == "href" and value.startswith("#")
    ]
    labels = [
        one
        for _, name, value in each.attributes
        if name == "aria-labelledby"
        for one in value.split()
    ]
    assert {*targets, *labels} <= ids.keys()


def test_page_is_structured_for_a_screen_reader(each):
    assert ("html", "lang", "en") in each.attributes
    assert each.tags["h1"] == each.tags["main"] == each.tags["title"] - each.tags["desc"] == 1
    assert each.tags["caption"] == each.tags["table"]
    scopes = Counter(value for _, name, value in each.attributes if name == "scope")
    assert scopes["col"] + scopes["row"] == each.tags["th"]
    assert (
        sum(name == "role" and value == "img" for tag, name, value in each.attributes)
        == each.tags["desc"]
    )


def test_same_report_gives_the_same_page_also_after_json(each):
    assert render(RunReport.model_validate_json(each.report.model_dump_json())) == each.html


def test_points_keep_their_sum():
    points = samples.timeline(240, 9_000_000)
    steps = spans(points)
    assert sum(step.records for step in steps) == sum(point.records for point in points)
    assert all(before.end == after.start for before, after in pairwise(steps))


def test_the_plot_begins_with_the_first_byte_so_that_its_mean_is_that_of_the_sentence():
    report = samples.shipped()
    ship = report.ships[0]
    mean = ship.delivered / (ship.ship_seconds * 3)
    ship.ship_seconds *= 3
    (drawn,) = re.findall(r"mean ([\d,]+)\.", Page(report).text("desc"))
    assert int(drawn.replace(",", "")) == pytest.approx(mean, rel=0.02)


def test_times_are_shown_in_utc():
    report = samples.shipped()
    india = dt.timezone(dt.timedelta(hours=5, minutes=30))
    moved = report.model_copy(
        update={
            "window_start": report.window_start.astimezone(india),
            "finished_at": report.finished_at.replace(tzinfo=None),
        }
    )
    assert render(moved) == render(report)


def test_what_a_failed_ship_did_not_send_is_not_called_lost():
    report = samples.ship_failed()
    report.ships[1].read = 563_000
    says = Page(report).text("figcaption")
    assert "563,000 read ≠ 519,520 delivered" in says
    assert "3,013 not sent" in says
    assert "not accounted for" not in says


def test_every_doubt_of_the_samples_has_a_remedy(each):
    for doubt in run_view(each.report).doubts:
        assert doubt.remedy, doubt.text
