"""One cluster of a run: its results, compared with each other per topic. Pure; the page draws it.

The sums of one cluster::

    read  +  unread  =  delivered  +  before  +  filtered  +  quarantined      Spark's count and the ledger's before  =  the receipts'
    ledger  =  delivered  +  before                                           read anew after the run  =  the receipts'

What was parked until the end is read and not sent: a run with such records has failed.
"""  # noqa: E501

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from shipper.config.units import number
from shipper.finding import Finding
from shipper.report.markup import words
from shipper.report.plan_result import ClusterPlan
from shipper.report.results import Count, DeliveryGateResult, RunReport, ShipResult, TopicAccount

State = Literal["shipped", "nothing", "doubt", "blocked", "failed"]
"""End of a run, on a cluster or as a whole: everything is shipped; there was nothing to ship; a
person should look at what was shipped; the source gate is closed; it failed."""


def dispositions(ship: ShipResult) -> dict[str, int]:
    """Return disposition → lines of a ship, by the tasks' receipts. They add up to the lines that
    were read or did not need reading, unless the ship failed."""
    return {
        "filtered": sum(ship.filtered.values()),
        "quarantined": sum(ship.quarantined.values()),
        "delivered": ship.delivered,
        "there before": ship.before,
    }


@dataclass(frozen=True)
class ClusterView:
    """Planned files of a cluster, the results of its steps, and the figures of its topics."""

    cluster: str
    plan: ClusterPlan | None
    ship: ShipResult | None
    gate: DeliveryGateResult | None
    topics: tuple[TopicAccount, ...]
    state: State = "nothing"
    doubts: tuple[Finding, ...] = ()
    """Findings of the run that shake trust in what this cluster got."""
    line: str = ""
    """``frankfurt: shipped, 1,224,291 delivered, 13 quarantined, 1,250 before``."""

    @property
    def ship_failed(self) -> bool:
        return self.ship is not None and self.ship.status == "failed"

    @property
    def read(self) -> int | None:
        """Lines read; None: Spark's count was lost, since it comes only with the end of a job that
        went well."""
        if self.ship is None or (self.ship_failed and self.ship.read == 0):
            return None
        return self.ship.read

    @property
    def unread(self) -> int:
        return self.ship.unread if self.ship else 0

    @property
    def unread_files(self) -> int:
        return self.ship.unread_files if self.ship else 0

    @property
    def delivered(self) -> int:
        return sum(topic.delivered for topic in self.topics if not topic.quarantine)

    @property
    def before(self) -> int:
        """Records already committed, in the quarantine topic too."""
        return sum(topic.before for topic in self.topics)

    @property
    def filtered(self) -> dict[str, int]:
        """Rule → lines that it took out."""
        return _positive(self.ship.filtered) if self.ship else {}

    @property
    def quarantined(self) -> dict[str, int]:
        """Reason → records that this run sent to the quarantine topic."""
        return _positive(self.ship.quarantined) if self.ship else {}

    @property
    def parked(self) -> int:
        """Read and not sent, since their topics could not be written to until the end."""
        return sum(topic.parked for topic in self.topics)

    @property
    def aside(self) -> dict[str, int]:
        """Word → records that were not delivered, if any: filtered, quarantined or parked."""
        filtered, quarantined = sum(self.filtered.values()), sum(self.quarantined.values())
        return _positive({"filtered": filtered, "quarantined": quarantined, "parked": self.parked})

    @property
    def unconfirmed(self) -> int:
        """Records of this run that a failed ship's timeline (the ledger) knows and its receipts do
        not."""
        if self.ship is None or not self.ship_failed:
            return 0
        return max(
            0,
            sum(point.records for point in self.ship.timeline)
            - self.delivered
            - sum(self.quarantined.values()),
        )

    @property
    def sent(self) -> int:
        """Records that this run certainly delivered, by receipt or by ledger."""
        return self.delivered + self.unconfirmed

    @property
    def gap(self) -> int:
        """Records that should be accounted for and are not; negative: more accounted for than there
        should be."""
        if self.ship is None or self.read is None:
            return 0
        return (
            self.read
            + self.unread
            - sum(dispositions(self.ship).values())
            - self.unconfirmed
            - self.parked
        )

    @property
    def counts(self) -> list[Count]:
        """Each figure as counted in places that do not know of each other; empty where no gate has
        compared them."""
        return self.gate.account if self.gate else []

    @property
    def ledger(self) -> int | None:
        """Records in the ledger; None unless they were counted for every topic."""
        counts = [topic.ledger for topic in self.topics if topic.ledger is not None]
        return sum(counts) if counts and len(counts) == len(self.topics) else None

    @property
    def there(self) -> int:
        """Records of the window on the cluster after the run, from the best source at hand."""
        if self.ledger is not None:
            return self.ledger
        return max(self.sent + self.before, self.plan.records_there if self.plan else 0)

    @property
    def failed(self) -> bool:
        return self.ship_failed or (self.gate is not None and self.gate.status == "failed")

    @property
    def is_silent(self) -> bool:
        """True if a ship step should have said what it did, and left no result. The plan saw
        something to ship: only a ship step that ran can say that it was already committed."""
        if self.failed or self.delivered or self.quarantined:
            return False
        if self.plan is not None and (self.plan.problem or self.plan.left_files):
            return self.ship is None or self.ship.status != "succeeded"
        return self.ship is None and self.plan is None


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def cluster_views(report: RunReport) -> list[ClusterView]:
    """Return a view of each cluster, in the plan's order; then those that only a later step
    knows. Their states come from :func:`shipper.report.run_view.run_view`."""
    plans = {plan.cluster: plan for plan in report.plan.clusters} if report.plan else {}
    ships = {ship.cluster: ship for ship in report.ships}
    gates = {gate.cluster: gate for gate in report.delivery_gates}
    return [
        ClusterView(
            name,
            plans.get(name),
            ship := ships.get(name),
            gate := gates.get(name),
            _topics(ship, gate),
        )
        for name in dict.fromkeys([*plans, *ships, *gates])
    ]


def _topics(ship: ShipResult | None, gate: DeliveryGateResult | None) -> tuple[TopicAccount, ...]:
    """Return the ship step's figures, with the ledger's and the read-back's from the gate. The
    largest topic first, then by name."""
    counted = {account.topic: account for account in gate.topics} if gate else {}
    shipped = {account.topic: account for account in ship.topics} if ship else counted
    topics = []
    for name in dict.fromkeys([*shipped, *counted]):
        # A topic that only the gate knows got nothing from this run.
        mine = shipped.get(name, TopicAccount(topic=name))
        after = counted.get(name, mine)
        known = {
            "ledger": after.ledger,
            "read_back": after.read_back,
            "quarantine": mine.quarantine or after.quarantine,
        }
        topics.append(mine.model_copy(update=known))
    return tuple(sorted(topics, key=_rank))


def _rank(topic: TopicAccount) -> tuple[bool, int, int, str]:
    """Rank topics, the quarantine topic last."""
    return (
        topic.quarantine,
        -topic.delivered - topic.before - topic.parked,
        -(topic.ledger or 0),
        topic.topic,
    )


def disagreement(count: Count) -> str:
    """Return ``ledger 21 fewer``, compared with what two places or more say; without two that
    agree, ``receipts and ledger differ``. Empty if all agree."""
    places = {"Spark": count.spark, "receipts": count.receipts, "ledger": count.ledger}
    places["read-back"] = count.read_back
    figures = {place: figure for place, figure in places.items() if figure is not None}
    if len({*figures.values()}) < 2:
        return ""
    (usual, times), *_ = Counter(figures.values()).most_common(1)
    if times == 1:
        return f"{words([*figures])} differ"
    return ", ".join(
        f"{place} {number(abs(figure - usual))} {'more' if figure > usual else 'fewer'}"
        for place, figure in figures.items()
        if figure != usual
    )
