"""Limit searches to the passages of a period."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lmkrag.language.dates import find_date, first_day
from lmkrag.search.candidates import Candidates
from lmkrag.search.dating import DATE_KEYS, WITH_PROPERTIES, date_name, date_passage
from lmkrag.search.filters import Expression, PredicateFilter, Test, parse_filter
from lmkrag.search.messages import CALENDAR, KINDS
from lmkrag.search.results import find_headings

_OF_MANY_DAYS = KINDS | {CALENDAR}  # kinds of documents whose parts have days of their own
_DAY = 10  # characters of a date that names a day
_FORMATS = {4: "%Y", 7: "%B %Y", _DAY: "%d %B %Y"}


def _write(day: str) -> str:
    return format(first_day(day), _FORMATS[len(day)]).lstrip("0") if day else ""


class Period(NamedTuple):
    """From a day, month or year to another, both included; empty where open."""

    since: str
    until: str

    def __str__(self) -> str:
        since, until = _write(self.since), _write(self.until)
        if self.since == self.until:
            return f"{'on' if len(self.since) == _DAY else 'in'} {since}"
        if self.since and self.until:
            return f"from {since.removesuffix(until.partition(' ')[2]).strip() or since} to {until}"
        return f"since {since}" if since else f"until {until}"

    @property
    def is_limited(self) -> bool:
        """Whether it begins or ends."""
        return bool(self.since or self.until)

    def has(self, day: str) -> bool:
        """Return whether a date is in the period, or may be in it where it is less precise."""
        since, until = self.since[: len(day)], self.until[: len(day)]
        return bool(day) and day[: len(since)] >= since and day[: len(until)] <= until


def filter_period(expression: Expression | None, period: Period) -> PredicateFilter:
    """Return a filter for documents that may have passages from a period, and that match an
    expression if given.
    """
    keeps = parse_filter(expression) if expression else None
    later = period._replace(until="")
    read_name = cache(date_name)

    def read(value: Any) -> str:
        return find_date(str(value or ""), years=True)

    def predicate(match: Callable[[str, Test], Any]) -> Any:
        by_meta = match("kind", lambda kind: kind not in WITH_PROPERTIES)
        # in the period by its date, without a date yet
        may, open_ = (by_meta & False, by_meta | True)
        for key in DATE_KEYS:
            if key != "modified":  # that of the file
                may |= open_ & by_meta & match(key, lambda value: period.has(read(value)))
                open_ &= ~(by_meta & match(key, lambda value: bool(read(value))))
        may |= open_ & match("kind", lambda kind: kind in _OF_MANY_DAYS)
        may |= open_ & match("doc_id", lambda name: period.has(read_name(name or "")))
        open_ &= match("doc_id", lambda name: not read_name(name or ""))
        may |= open_ & match("modified", lambda changed: not changed or later.has(changed))
        return may if keeps is None else may & keeps(match)

    return PredicateFilter(f"{period.since}..{period.until} {expression or ''}", predicate)


def keep_period(period: Period, candidates: Candidates) -> Candidates:
    """Return the candidates that are from a period, all if it has no limit."""
    dates: dict[tuple[str, int | None], str] = {}
    if not period.is_limited:
        return candidates

    def read_date(candidate: int) -> str:
        view, ordinal = candidates.view(candidate), candidates.ordinal(candidate)
        key = view.row.doc_id, next(view.headings_before(ordinal), None)
        if key not in dates:
            dates[key] = date_passage(view, ordinal, find_headings(view, ordinal)).date
        return dates[key]

    inside = [period.has(read_date(candidate)) for candidate in range(len(candidates.sentences))]
    return candidates.keep(np.array(inside, bool))
