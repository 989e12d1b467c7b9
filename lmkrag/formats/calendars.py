"""Calendars (RFC 5545) and contacts (vCard 2.1 to 4.0), which share the form of their lines."""

import quopri
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from lmkrag.formats.base import Loaded, fold
from lmkrag.formats.html import extract
from lmkrag.formats.tabular import format_record
from lmkrag.formats.text import decode

_LINE = re.compile(r'(?:([\w-]+)\.)?([\w-]+)((?:;[\w-]+(?:=(?:"[^"\n]*"|[^";:\n])*)?)*):(.*)')
_OPTION = re.compile(r';([\w-]+)(?:=("[^"]*"|[^";]*(?:"[^"]*"[^";]*)*))?')
_ESCAPE = re.compile(r"\\([,;:nN\\])")
_COMPONENTS = ("VEVENT", "VTODO", "VJOURNAL", "VFREEBUSY", "AVAILABLE")
_PEOPLE = ("ORGANIZER", "ATTENDEE")
_TIMES = {  # of an event, with the names that readers know
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "RECURRENCE-ID": "Instead of",
    "RRULE": "Repeats",
    "RDATE": "Also on",
    "EXDATE": "Not on",
    "COMPLETED": "Completed",
    "FREEBUSY": "Busy",
}
_EVENT = {
    **_TIMES,
    "DURATION": "Duration",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "CONTACT": "Contact",
    "RESOURCES": "Resources",
    "CATEGORIES": "Categories",
    "STATUS": "Status",
    "PRIORITY": "Priority",
    "PERCENT-COMPLETE": "Percent complete",
    "URL": "Web page",
    "ATTACH": "Attachment",
    "CONFERENCE": "Call",
    "X-GOOGLE-CONFERENCE": "Call",
    "X-MICROSOFT-SKYPETEAMSMEETINGURL": "Call",
    "COMMENT": "Comment",
}
_TEXTS = ("SUMMARY", "DESCRIPTION")
_TAG = re.compile(r"</?(?:a|b|br|div|html|li|ol|p|span|u|ul)\b[^<>]*>", re.IGNORECASE)
_SAYS_NOTHING = ("", "CONFIRMED")  # as most are
_NAMES = ("X-WR-CALNAME", "NAME")  # of a calendar
_STAMP = re.compile(r"\b(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?\b")
_FIELDS = {  # of a contact
    "FN": "Name",
    "NICKNAME": "Nickname",
    "ORG": "Organisation",
    "TITLE": "Title",
    "ROLE": "Role",
    "TEL": "phone",
    "EMAIL": "email",
    "ADR": "address",
    "URL": "web page",
    "BDAY": "Birthday",
    "ANNIVERSARY": "Anniversary",
    "NOTE": "Note",
    "CATEGORIES": "Groups",
    "RELATED": "related",
    "IMPP": "chat",
    "O": "Organisation",
    "LABEL": "address",
    "X-ABRELATEDNAMES": "Related",
    "X-ABDATE": "Date",
    "X-SOCIALPROFILE": "web page",
}
_OTHER_FIELD = re.compile(
    r"X-(?:\w+-)*(SPOUSE|MANAGER|ASSISTANT|ANNIVERSARY|PROFESSION|SKYPE|JABBER|ICQ|AIM|SIGNAL)"
)
# of phones and addresses, that readers ask for
_KINDS = ("mobile", "home", "work", "fax", "pager", "car", "main", "spouse", "child")
_MOBILE = re.compile("cell|iphone")
_DAY = re.compile(r"(\d{4}|-)-?(\d\d)-?(\d\d)(?:T.*)?")


class _Property(NamedTuple):
    """A line of a calendar or a contact: its group, name, options by name, and value."""

    group: str
    name: str
    options: dict[str, list[str]]
    value: str

    def find(self, option: str) -> str:
        """Return the first value of an option; an empty string if there is none."""
        return next(iter(self.options.get(option, ())), "")


def _read_lines(data: bytes) -> Iterator[_Property]:
    """Yield the properties of a file, decoded; a value still has its escapes."""
    text = decode(data).replace("\r\n", "\n").replace("\r", "\n")
    ends = r"\n[ \t]|=\n" if "QUOTED-PRINTABLE" in text.upper() else r"\n[ \t]"
    for line in re.sub(ends, "", text).split("\n"):
        if (match := _LINE.match(line.strip())) is None:
            continue
        options: dict[str, list[str]] = {}
        for key, value in _OPTION.findall(match[3]):  # ;CELL of version 2.1 is ;TYPE=CELL
            name, value = (key.upper(), value) if value else ("TYPE", key)
            values = value.replace('"', "").split(",") if name == "TYPE" else [value.strip('"')]
            options.setdefault(name, []).extend(values)
        value = match[4].strip()
        if "QUOTED-PRINTABLE" in match[3].upper():
            value = decode(quopri.decodestring(value.encode()))
        yield _Property(match[1] or "", match[2].upper(), options, value)


def _unescape(value: str) -> str:
    return fold(_ESCAPE.sub(lambda sign: " " if sign[1] in "nN" else sign[1], value))


def read_calendar(data: bytes, name: str) -> Loaded:
    """Read an .ics file: a section for each event, which says what happens, when, where and with
    whom, in the zone of the calendar.
    """
    names = (each.value for each in _read_lines(data) if each.name in _NAMES)
    return Loaded("\n\n".join(read_events(data)), "calendar", _unescape(next(names, "")))


def read_events(data: bytes) -> Iterator[str]:
    """Yield the events, tasks, journals and busy times of a calendar (RFC 5545), each as a heading,
    fields and a text; alarms and time zones are left out.
    """
    inside: list[str] = []
    event: list[_Property] = []
    zone = ""
    for each in _read_lines(data):
        if each.name == "BEGIN":
            inside.append(each.value.upper())
        elif each.name == "END":
            if inside and inside.pop() in _COMPONENTS and event:
                yield _show_event(event, zone)
                event = []
        elif each.name == "X-WR-TIMEZONE" or (each.name == "TZID" and not zone):
            zone = each.value
        elif inside and inside[-1] in _COMPONENTS and _is_for_readers(each):
            event.append(each)
    if event:  # the file ends within it
        yield _show_event(event, zone)


def _show_event(event: list[_Property], zone: str) -> str:
    """Return an event: its summary and day as a heading, its fields, and its description."""
    values = {each.name: each.value for each in event}
    begun = values.get("DTSTART", values.get("DUE", ""))
    lines = [
        f"{_EVENT[each.name]}: {_show_value(each, begun, zone)}"
        for each in event
        if each.name in _EVENT
    ]
    summary, day = _unescape(values.get("SUMMARY", "")), _STAMP.match(begun)
    dated = f"{summary}, {day[1]}-{day[2]}-{day[3]}" if day else summary
    heading = f"## {dated}" if summary else ""
    description = _read_description(values.get("DESCRIPTION", ""))
    return "\n\n".join(filter(None, (heading, "\n".join(lines), description)))


def _read_description(value: str) -> str:
    """Return a description with its lines; some calendars write it as HTML."""
    text = _ESCAPE.sub(lambda sign: "\n" if sign[1] in "nN" else sign[1], value)
    if _TAG.search(text):
        return extract(text.encode("utf-8", "replace"))
    return "\n".join(map(fold, text.split("\n"))).strip()


def _find_last_day(begun: str, ended: str) -> str:
    """Return the last day of an event of whole days, which ends on the day after it by the
    standard; a time as it is.
    """
    if not begun.isdecimal() or not ended.isdecimal():
        return ended
    with suppress(ValueError):
        return max(begun, f"{date.fromisoformat(ended) - timedelta(days=1):%Y%m%d}")
    return ended


def _is_for_readers(each: _Property) -> bool:
    is_file = bool(each.find("ENCODING")) and each.name == "ATTACH"  # in base64
    is_told = each.name in _EVENT or each.name in _TEXTS
    return is_told and not is_file and each.value.upper() not in _SAYS_NOTHING


def _show_value(each: _Property, begun: str, zone: str) -> str:
    """Return the value of a property of an event that has ``begun``; times in UTC are told in a
    zone.
    """
    value = _find_last_day(begun, each.value) if each.name == "DTEND" else each.value
    if each.name in _TIMES:
        own = each.find("TZID").strip("/")
        shown = _STAMP.sub(lambda stamp: _show_time(stamp, zone), value)
        return _unescape(shown) + (f" {own}" if own else "")
    if each.name == "STATUS":
        return value.lower().replace("-", " ")
    if each.name not in _PEOPLE:
        return _unescape(value)
    address = re.sub("(?i)^mailto:", "", _unescape(value))
    shown = f"{each.find('CN')} <{address}>" if each.find("CN") else address
    answer = each.find("PARTSTAT") or each.find("STATUS")  # of versions 2.0 and 1.0
    answer = answer.lower().replace("needs-action", "no answer")
    return f"{shown} ({answer})" if answer else shown


def _show_time(stamp: re.Match[str], zone: str) -> str:
    year, month, day, hour, minute, utc = stamp.groups()
    told = f"{year}-{month}-{day}" + (f" {hour}:{minute}" if hour else "")
    if utc and zone:
        with suppress(KeyError, ValueError, OSError):  # of zones that nobody knows
            moment = datetime.fromisoformat(told).replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
            return f"{moment:%Y-%m-%d %H:%M} {zone}"
    return told + (" UTC" if utc else "")


def read_contacts(data: bytes, name: str) -> Loaded:
    """Read a .vcf file: a record for each person, without pictures and keys."""
    lines: list[str] = []
    names: list[str] = []
    fields: list[_Property] = []
    for each in _read_lines(data):
        if each.name == "END":
            pairs = [*_show_contact(fields)]
            lines.append(format_record(pairs))
            names += [value for field, value in pairs if field == "Name"]
        if each.name in ("BEGIN", "END"):
            fields = []
        fields.append(each)
    title = names[0] if len(lines) == len(names) == 1 else ""
    return Loaded("\n".join(filter(None, lines)), "contacts", title)


def _show_contact(fields: list[_Property]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a contact with the names that readers ask for."""
    labels = {each.group: each.value for each in fields if each.name == "X-ABLABEL"}
    if not any(each.name == "FN" and each.value for each in fields):
        for each in fields:
            if each.name == "N":
                family, *given = each.value.split(";")
                yield "Name", fold(_unescape(" ".join([*given[:2], family])))
    for each in fields:
        other = _OTHER_FIELD.fullmatch(each.name)
        field = _FIELDS.get(each.name) or (other[1].capitalize() if other else "")
        parts = [_unescape(part) for part in re.split(r"(?<!\\);", each.value)]
        value = re.sub("(?i)^(?:tel|mailto):", "", ", ".join(filter(None, parts)))
        if field and value:
            label = labels.get(each.group, "").strip("_$!<>") if each.group else ""
            no_year = f"{each.find('X-APPLE-OMIT-YEAR') or 'none'}-"  # such as 1604
            yield _name_field(field, label, each), _show_day(value).removeprefix(no_year)


def _name_field(field: str, label: str, each: _Property) -> str:
    """Return the name of a field with its kind: ``Mobile phone``."""
    if not field[0].islower():
        return label or field
    if label:
        return f"{label} {field}"
    types = [_MOBILE.sub("mobile", kind.lower()) for kind in each.options.get("TYPE", ())]
    kinds = [kind for kind in dict.fromkeys(types) if kind in _KINDS]
    return " ".join([*kinds, field]).capitalize()


def _show_day(value: str) -> str:
    """Return a day as ISO 8601 has it; any other value as it is."""
    day = _DAY.fullmatch(value)
    return "-".join(day.groups()).replace("--", "") if day else value
