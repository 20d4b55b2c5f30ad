"""The rules of `records.redact` once more, in Python and by other means: what a test holds the
JVM's against."""

import hashlib
import hmac
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import groupby

from shipper.config.redact import Redaction

Span = tuple[int, int]


def redacted(line: bytes, rules: list[Redaction]) -> bytes:
    parts = [line.decode("utf-8", "surrogateescape")]  # by turns: of the record, put in
    for rule in rules:
        parts = _joined(
            piece
            for index, part in enumerate(parts)
            for piece in ([(part, True)] if index % 2 else _by(rule, part))
        )
    return "".join(parts).encode("utf-8", "surrogateescape")


def _by(rule, text):
    return _by_rule(text, rule) if rule.rule else _by_regex(text, rule)


def _joined(pieces):
    """Put neighbours of one kind together. Text that is empty separates nothing."""
    there = ((text, put) for text, put in pieces if text)
    parts = [""]
    for put, group in groupby(there, key=lambda piece: piece[1]):
        text = "".join(piece[0] for piece in group)
        if put or len(parts) > 1:
            parts.append(text)
        else:
            parts[0] = text
    return parts


def _hash(rule, found):
    key = str(rule.hash_.key.get_secret_value()).encode()
    return hmac.digest(key, found.encode("utf-8", "surrogateescape"), hashlib.sha256).hex()[:32]


def _by_rule(text, rule):
    at = 0
    for start, end in _FINDERS[str(rule.rule)](text):
        yield text[at:start], False
        by_default = f"[{rule.rule}]" if rule.with_ is None else rule.with_
        yield _hash(rule, text[start:end]) if rule.hash_ else by_default, True
        at = end
    yield text[at:], False


def _by_regex(text, rule):
    at = 0
    for found in re.finditer(str(rule.regex), text, flags=re.ASCII):
        if not found[0]:
            continue
        yield text[at : found.start()], False
        at = found.end()
        if rule.hash_ or rule.with_ is None:
            yield _hash(rule, found[0]) if rule.hash_ else "[redacted]", True
            continue
        for token in re.split(r"(\$.)", rule.with_):
            is_group = token[:1] == "$" and token[1:].isdigit()
            yield (
                (found[int(token[1:])] or "") if is_group else token.replace("$$", "$"),
                not is_group,
            )
    yield text[at:], False


def _is_word(character):
    return unicodedata.category(character)[0] in "LMN"


def _emails(text):
    """From each @ to both sides."""
    begin = 0
    tokens = [(found.start(), found[0]) for found in re.finditer(r"%40|.", text, re.DOTALL)]
    for index, (place, token) in enumerate(tokens):
        if token not in ("@", "%40") or place < begin:
            continue
        first = index
        while first and tokens[first - 1][0] >= begin and _in_name(tokens[first - 1][1]):
            first -= 1
        labels, end = [], place + len(token)
        while end < len(text) and (label := _label(text, end)):
            labels.append(label)
            end += len(label)
            if end + 1 >= len(text) or text[end] != "." or not _label(text, end + 1):
                break
            end += 1
        if first < index and len(labels) > 1:
            yield tokens[first][0], end
            begin = end


def _in_name(token):
    return token != "%40" and (_is_word(token) or token in "._+-%")


def _label(text, start):
    end = start
    while end < len(text) and (_is_word(text[end]) or text[end] == "-"):
        end += 1
    return text[start:end]


def _ipv4s(text):
    for found in re.finditer(r"[0-9]+(?:\.[0-9]+)*", text):
        parts = found[0].split(".")
        if len(parts) == 4 and all(len(part) <= 3 and int(part) <= 255 for part in parts):
            yield found.span()


def _ipv6s(text):
    at = 0
    while run := re.compile(r"[0-9A-Za-z:]+").search(text, at):
        found = next(_ipv6s_in(text, run), None)
        if found:
            yield found
        at = found[1] if found else run.end()


def _ipv6s_in(text, run):
    groups, at = [], run.start()
    for group in run[0].split(":"):
        groups.append((at, group))
        at += len(group) + 1
    sequence = []
    for place, group in [*groups, (run.end() + 1, "none")]:
        if re.fullmatch(r"[0-9A-Fa-f]{0,4}", group):
            sequence.append((place, group))
            continue
        if sequence and run[0].count(":") > 1:
            start, end = sequence[0][0], sequence[-1][0] + len(sequence[-1][1])
            if span := _ipv6_of(text, start, end, dotted=end == run.end()):
                yield span
        sequence = []


def _ipv6_of(text, start, end, *, dotted):
    ends = [end]
    if dotted and (more := re.match(r"(?:\.[0-9]{1,3}){3}(?![0-9A-Za-z])(?!\.[0-9])", text[end:])):
        ends.insert(0, end + more.end())
    for stop in ends:
        for first, last in (
            (start, stop),
            (start, stop - 1),
            (start + 1, stop),
            (start + 1, stop - 1),
        ):
            cut = text[start:first] + text[last:stop]
            if set(cut) <= {":"} and first < last and _is_ipv6(text[first:last]):
                return first, last
    return None


def _is_ipv6(text):
    try:
        return ipaddress.IPv6Address(text) is not None and text != "::"
    except ValueError:
        return False


_CARDS = (
    r"[2-6][0-9]{12,18}(?!\w)",
    r"[2-6][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}\1[0-9]{1,3}(?!\w)",
    r"[2-6][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?!\w)",
    r"[2-6][0-9]{3}([ -])[0-9]{6}\1[0-9]{5}(?!\w)",
    r"[2-6][0-9]{3}([ -])[0-9]{6}\1[0-9]{4}(?!\w)",
)


def _cards(text):
    begin = 0
    for start in range(len(text)):
        if start < begin or re.search(r"[0-9]\.\Z|\w\Z", text[max(0, start - 2) : start]):
            continue
        for form in _CARDS:
            found = re.compile(form).match(text, start)
            if found and _luhn([int(digit) for digit in found[0] if digit.isdigit()]):
                yield found.span()
                begin = found.end()
                break


def _luhn(digits):
    doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    return (sum(digits[-1::-2]) + sum(doubled[digit] for digit in digits[-2::-2])) % 10 == 0


def _bearers(text):
    at, lower = (
        0,
        text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text),
    )
    while (at := lower.find("bearer", at)) >= 0:
        before, at = text[at - 1 : at], at + len("bearer")
        between = re.match(r"[ \t:=]+|%20|\+", text[at:])
        token = re.match(r"[A-Za-z0-9._~+/=%-]+", text[at + between.end() :]) if between else None
        if between and token and not (before.isascii() and before.isalnum()):
            start = at + between.end()
            at = start + token.end()
            yield start, at


_FINDERS: dict[str, Callable[[str], Iterator[Span]]] = {
    "email": _emails,
    "ipv4": _ipv4s,
    "ipv6": _ipv6s,
    "card": _cards,
    "bearer": _bearers,
}
