"""docs/outcomes.md, made from the table: ``python -m shipper.kafka.outcomes_page`` prints it (`make schema` writes it)."""

from __future__ import annotations

from shipper.kafka.outcomes import NOT_HERE, OTHERWISE, TABLE, Action, Outcome, Verdict

_INTRODUCTION = """\
# What a Kafka error means

Made from the table in `shipper/kafka/outcomes.py`; do not edit. The names are librdkafka's, as they stand in messages and logs. Those
that begin with `_` come from the client, the others from a broker.

Whatever the error, a lane recovers in one way: it throws its producer away, opens a new one with the same transactional.id, which ends
the old transaction one way or the other, and asks the ledger which chunks are there. So **outcome** is what the client can know when the
error comes, and never what is counted in the end. Tries are bounded by `delivery.metadata_wait`.
"""
_OUTCOMES = {
    Outcome.NOT_DELIVERED: "the transaction will not be committed",
    Outcome.UNKNOWN: "the transaction may have been committed; the ledger tells",
}
_WORDS = {Action.REOPEN: "reopen", Action.SMALLER_BATCHES: "smaller batches", Action.PARK: "park", Action.FAIL: "fail"}


def outcomes_page() -> str:
    """The page, in Markdown."""
    parts = [
        _INTRODUCTION.strip(),
        "\n".join(["| Outcome | |\n|---|---|", *(f"| {outcome.value} | {text} |" for outcome, text in _OUTCOMES.items())]),
        "\n".join(["| Action | |\n|---|---|", *(f"| {word} | {action.value} |" for action, word in _WORDS.items())]),
        "\n".join(["| Error | Outcome | Action | Why |\n|---|---|---|---|", *(_row(f"`{n}`", v) for n, v in TABLE.items())]),
        "\n".join(
            ["| Any other | Outcome | Action | Why |\n|---|---|---|---|", _row("(a name of a newer librdkafka)", OTHERWISE)]
        ),
        "## Names that a lane never sees",
        "\n".join(f"- **{why}**: {', '.join(f'`{name}`' for name in names.split())}" for why, names in NOT_HERE.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _row(name: str, verdict: Verdict) -> str:
    return f"| {name} | {verdict.outcome.value} | {_WORDS[verdict.action]} | {verdict.reason} |"


if __name__ == "__main__":
    print(outcomes_page(), end="")
