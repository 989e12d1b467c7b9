"""Contacts are a record a person; a calendar says what is done, due, cancelled, and who comes."""

import os

import pytest

from lmkrag import Engine
from lmkrag.formats.load import load_bytes


def load(text: str, name: str):
    return load_bytes(text.encode(), name, doc_id=name, path=name)


def card(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCARD", *lines, "END:VCARD", ""])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("VERSION:3.0", "N:Quill;Ada;;;", "FN:Ada Quill", "ORG:Brightwater Ltd;Sales"),
            "Name: Ada Quill | Organisation: Brightwater Ltd, Sales",
        ),
        (
            ("VERSION:2.1", "N:Quill;Ada;;Dr;", "TEL;CELL;VOICE:+44 1"),
            "Name: Ada Quill | Mobile phone: +44 1",
        ),
        (
            (
                "FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:J=C3=BCrgen Wei=",
                "=C3=9F",
                "NOTE:a\\, b\\nc",
            ),
            "Name: Jürgen Weiß | Note: a, b c",
        ),
        (
            ("FN:Tom", "TEL;TYPE=WORK:+44 20 7946 0", " 321"),
            "Name: Tom | Work phone: +44 20 7946 0321",
        ),
        (
            (
                "VERSION:4.0",
                "FN:Tom",
                'TEL;VALUE=uri;TYPE="voice,home":tel:+1-555',
                "BDAY:19800322",
            ),
            "Name: Tom | Home phone: +1-555 | Birthday: 1980-03-22",
        ),
        (("FN:Tom", "BDAY:--0322", "KEY:AAAA", "UID:7"), "Name: Tom | Birthday: 03-22"),
        (
            ("FN:Tom", "BDAY;X-APPLE-OMIT-YEAR=1604:1604-03-22"),
            "Name: Tom | Birthday: 03-22",
        ),
        (
            ("FN:Tom", "RELATED;TYPE=spouse:Ann", "X-SOCIALPROFILE:https://example.org/tom"),
            "Name: Tom | Spouse related: Ann | Web page: https://example.org/tom",
        ),
        (
            (
                "FN:Tom",
                "item1.ADR;type=HOME:;;14 Quay Street\\nFloor 2;Northport;;4471;",
                "X-MS-SPOUSE:Ann",
            ),
            "Name: Tom | Home address: 14 Quay Street Floor 2, Northport, 4471 | Spouse: Ann",
        ),
        (
            (
                "FN:Tom",
                "item2.X-ABRELATEDNAMES:Ann",
                "item2.X-ABLabel:_$!<Sister>!$_",
                "PHOTO;ENCODING=b:/9j/",
                " 4AAQ",
            ),
            "Name: Tom | Sister: Ann",
        ),
    ],
)
def test_a_contact_is_a_record(lines, expected):
    assert load(card(*lines).replace("\r\n", "\r"), "a.vcf").text == expected
    loaded = load(card(*lines), "a.vcf")
    assert (loaded.text, loaded.kind) == (expected, "contacts")


def calendar(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", *lines, "END:VCALENDAR", ""])


def test_a_calendar_says_what_is_done_and_who_comes():
    task = (
        "BEGIN:VTODO",
        "SUMMARY:Repaint",
        "DUE:20250610",
        "STATUS:COMPLETED",
        "COMPLETED:20250604T101500Z",
    )
    event = (
        "BEGIN:VEVENT",
        "SUMMARY:Drill",
        "STATUS:CONFIRMED",
        "URL:https://example.org/drill",
        'ATTENDEE;CN="Marsh, Ben";PARTSTAT=DECLINED:mailto:ben@example.org',
        "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:ada@example.org",
    )
    loaded = load(
        calendar("X-WR-CALNAME:Harbour jobs", *task, "END:VTODO", *event, "END:VEVENT"), "a.ics"
    )
    assert (loaded.kind, loaded.title) == ("calendar", "Harbour jobs")
    assert loaded.text.splitlines() == [
        "## Repaint, 2025-06-10",
        "",
        "Due: 2025-06-10",
        "Status: completed",
        "Completed: 2025-06-04 10:15 UTC",
        "",
        "## Drill",
        "",
        "Web page: https://example.org/drill",
        "Attendee: Marsh, Ben <ben@example.org> (declined)",
        "Attendee: ada@example.org (no answer)",
    ]


def test_times_are_told_in_the_zone_of_the_calendar():
    event = ("BEGIN:VEVENT", "SUMMARY:Drill", "DTSTART:20250702T080000Z", "END:VEVENT")
    assert (
        "Start: 2025-07-02 09:00 Europe/London"
        in load(calendar("X-WR-TIMEZONE:Europe/London", *event), "a.ics").text
    )
    assert (
        "Start: 2025-07-02 08:00 UTC"
        in load(calendar("X-WR-TIMEZONE:Nowhere/At all", *event), "a.ics").text
    )


def test_times_are_told_in_the_zone_that_a_calendar_defines():
    zone = ("BEGIN:VTIMEZONE", "TZID:Asia/Tokyo", "END:VTIMEZONE")
    event = ("BEGIN:VEVENT", "SUMMARY:Drill", "DTSTART:20250702T080000Z", "END:VEVENT")
    text = load(calendar(*zone, *event), "a.ics").text
    assert text == "## Drill, 2025-07-02\n\nStart: 2025-07-02 17:00 Asia/Tokyo"


@pytest.mark.parametrize(
    ("ended", "shown"),
    [
        ("20250704", "2025-07-03"),
        ("20250701", "2025-07-01"),
        ("20250701T120000", "2025-07-01 12:00"),
    ],
)
def test_an_event_of_whole_days_ends_on_its_last_day(ended, shown):
    event = ("BEGIN:VEVENT", "DTSTART;VALUE=DATE:20250701", f"DTEND:{ended}", "END:VEVENT")
    assert load(calendar(*event), "a.ics").text.endswith(f"End: {shown}")


def test_answers_in_calendars_of_version_1():
    event = ("BEGIN:VEVENT", "ATTENDEE;STATUS=DECLINED:Ben <ben@example.org>", "END:VEVENT")
    text = load(calendar(*event), "a.vcs").text
    assert text == "Attendee: Ben <ben@example.org> (declined)"


def test_questions_find_contacts_and_what_is_done(tmp_path):
    ada = card("FN:Ada Quill", "TEL;TYPE=CELL:+44 7700 900118", "BDAY:1980-03-22")
    tom = card("FN:Tom Ellery", "TEL;TYPE=WORK:+44 20 7946 0321")
    (tmp_path / "people.vcf").write_text(ada + tom)
    (tmp_path / "chat.txt").write_text("Ada Quill wrote on 12 May: the code of the gate is 4471.\n")
    task = (
        "BEGIN:VTODO",
        "SUMMARY:Repaint the pilot ladder",
        "DUE:20250610",
        "STATUS:COMPLETED",
        "COMPLETED:20250604T101500Z",
    )
    (tmp_path / "jobs.ics").write_text(calendar(*task, "END:VTODO"))
    with Engine.open(tmp_path / "index", create=True, encoder="landmark-mini") as engine:
        engine.add(sorted(tmp_path.glob("*.*")))
        assert "+44 7700 900118" in engine.ask("What is Ada Quill's mobile number?").text
        assert "1980-03-22" in engine.ask("When is Ada Quill's birthday?").text
        answer = engine.ask("When was the pilot ladder repainted?").text
        assert "Completed: 2025-06-04" in answer and not answer.startswith("2025-06-10")


def test_a_calendar_says_where_to_call_in_what_to_read_and_which_date_was_moved():
    event = [
        "RECURRENCE-ID:20260414T180000Z",
        "SUMMARY:Committee",
        "X-GOOGLE-CONFERENCE:https://meet.example/abc",
        "CONFERENCE;VALUE=URI;LABEL=Zoom:https://zoom.example/j/7788",
        "ATTACH:https://docs.example/agenda.pdf",
        "ATTACH;ENCODING=BASE64;VALUE=BINARY:R0lGODlhAQABAAAAACw=",
    ]
    text = load(calendar("BEGIN:VEVENT", *event, "END:VEVENT"), "a.ics").text
    assert text.splitlines() == [
        "## Committee",
        "",
        "Instead of: 2026-04-14 18:00 UTC",
        "Call: https://meet.example/abc",
        "Call: https://zoom.example/j/7788",
        "Attachment: https://docs.example/agenda.pdf",
    ]


def test_a_description_keeps_its_lines_and_loses_its_tags():
    plain = ["SUMMARY:Talk", "DESCRIPTION:Agenda:\\n\\n- budget\\n- boats\\, new"]
    tagged = ["SUMMARY:Call", "DESCRIPTION:Hello <b>all</b><br>Bring <i>the list</i>"]
    events = [line for event in (plain, tagged) for line in ("BEGIN:VEVENT", *event, "END:VEVENT")]
    text = load(calendar(*events), "a.ics").text
    assert (
        text
        == "## Talk\n\nAgenda:\n\n- budget\n- boats, new\n\n## Call\n\nHello all\nBring the list"
    )


def test_an_event_that_says_nothing_is_left_out():
    empty = ("BEGIN:VEVENT", "UID:7", "END:VEVENT")
    drill = ("BEGIN:VEVENT", "SUMMARY:Drill", "END:VEVENT")
    assert load(calendar(*empty, *drill, *empty), "a.ics").text == "## Drill"


def test_an_event_that_a_file_breaks_off_in_is_read():
    text = load("BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Drill\nLOCATION:Pier 3\n", "a.ics").text
    assert text == "## Drill\n\nLocation: Pier 3"


def test_an_event_is_found_whole_and_alone(tmp_path):
    cleaning = (
        "SUMMARY:Spring cleaning of the boathouse",
        "DTSTART:20260412T090000Z",
        "LOCATION:Pier 3",
        "DESCRIPTION:Bring gloves. We begin with the racks. Whoever can't come tells Maren.",
    )
    regatta = ("SUMMARY:Regatta", "DTSTART;VALUE=DATE:20260503", "LOCATION:North lake")
    events = [
        line for event in (cleaning, regatta) for line in ("BEGIN:VEVENT", *event, "END:VEVENT")
    ]
    path = tmp_path / "club.ics"
    path.write_text(calendar(*events))
    os.utime(path, (1_700_000_000, 1_700_000_000))  # before its events
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(path)
        first = engine.search("Where is the spring cleaning?")[0]
        assert first.headings[-1] == "Spring cleaning of the boathouse, 2026-04-12"
        assert first.date == "2026-04-12"
        assert "Pier 3" in first.text and "tells Maren" in first.text
        assert "Regatta" not in first.text
        (later,) = engine.search("What takes place?", since="2026-05")
        assert "North lake" in later.text
