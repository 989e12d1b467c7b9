"""From when passages are, and searches limited to a period."""

import os
from datetime import UTC, date, datetime, timedelta

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.search.dating import date_meta, date_name

QUESTION = "what does the keeper of the lamp earn?"


def note(pay: int) -> str:
    return f"The keeper of the lamp earns {pay} euros a month.\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dates")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "changes.md").write_text(
        f"# Changes\n\n## Release 17, November 2026\n\n{note(1700)}\n## Release 16, 3 May 2024\n\n{note(1600)}"
    )
    (docs / "front.md").write_text(f"---\ndate: 2023-04-05\n---\n# Pay\n\n{note(1500)}")
    (docs / "amendment.txt").write_text(
        f"Second amendment, effective 1 January 2025\n\n{note(1400)}"
    )
    (docs / "pay-2022-06.txt").write_text(note(1300))
    (docs / "mail.eml").write_text(
        f"From: a@example.org\nDate: Tue, 09 Mar 2021 10:00:00 +0000\nSubject: Pay\n\n{note(1200)}"
    )
    (docs / "plain.txt").write_text(note(1100))
    with Engine.open(folder / "index", create=True) as opened:
        opened.add(docs)
        opened.add(Document("value", text=note(1000)))
        yield opened


def pays(spans):
    return {
        next(word for word in span.text.split() if word.isdigit() and len(word) == 4)
        for span in spans
    }


def test_each_passage_has_a_date_and_where_it_stands(engine):
    found = engine.search(QUESTION, top_k=20, level="sentence", filter="not doc_id=plain.txt")
    dated = {
        (span.doc_id, *pays([span])): (span.date, span.date_source)
        for span in found
        if "earns" in span.text
    }
    assert dated == {
        ("changes.md", "1700"): ("2026-11", "heading"),
        ("changes.md", "1600"): ("2024-05-03", "heading"),
        ("front.md", "1500"): ("2023-04-05", "front matter"),
        ("amendment.txt", "1400"): ("2025-01-01", "header"),
        ("pay-2022-06.txt", "1300"): ("2022-06", "file name"),
        ("mail.eml", "1200"): ("2021-03-09", "header"),
        ("value", "1000"): ("", ""),
    }
    (plain,) = engine.search(QUESTION, filter="doc_id=plain.txt")
    assert plain.date_source == "file" and date.fromisoformat(
        plain.date
    ) <= date.today() + timedelta(1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"since": "2024-05", "until": "2025"}, {"1600", "1400"}),
        ({"until": "2022-06-15"}, {"1300", "1200"}),
        ({"since": "2026-11", "until": "2026-11"}, {"1700"}),
        ({"since": "2023-04-05", "until": "2023-04-05"}, {"1500"}),
        ({"since": "2023", "until": "2024", "filter": "kind=markdown"}, {"1500", "1600"}),
    ],
)
def test_since_and_until_keep_passages(engine, options, expected):
    found = engine.search(QUESTION, top_k=20, level="sentence", **options)
    assert {pay for span in found if "earns" in span.text for pay in pays([span])} - {
        "1100"
    } == expected


@pytest.mark.parametrize("option", ["since", "until"])
@pytest.mark.parametrize("date", ["March", "2025-02-29", "3045-02-31", "2026-13", "0000"])
def test_wrong_dates_are_refused(engine, option, date):
    message = f"{option} must be a day, month or year such as 2026-03-01, not '{date}'"
    with pytest.raises(UsageError, match=message):
        engine.search(QUESTION, **{option: date})


def test_a_period_says_what_it_leaves_out(engine):
    found = engine.search(QUESTION, since="2026-11")
    assert (
        "only passages since November 2026; 3 of 7 documents are from another time" in found.notes
    )
    nothing = engine.search(QUESTION, since="2031")
    assert nothing == [] and nothing.notes == (
        "only passages since 2031; 6 of 7 documents are from another time",
    )
    of_mails = engine.search(QUESTION, until="2020", filter="kind=mail")
    assert of_mails.notes == ("only passages until 2020; 1 of 1 documents are from another time",)


@pytest.mark.parametrize(
    ("name", "text", "question", "answer"),
    [
        (
            "rules.md",
            "Anyone who leaves in spring must give notice before April.",
            "who must give notice before April?",
            "notice",
        ),
        (
            "fees.md",
            "The fee was raised to 40 euros last week.",
            "what was raised last week?",
            "40 euros",
        ),
        (
            "sales.csv",
            "region,quarter,revenue\nSouth,Q2,1810\nSouth,Q3,1975\nNorth,Q3,2230\n",
            "what was the revenue of the South in Q3?",
            "1975",
        ),
    ],
)
def test_dates_in_a_question_are_words_of_it(tmp_path, name, text, question, answer):
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / name
    file.write_text(text)
    written = datetime(2019, 5, 3, tzinfo=UTC).timestamp()
    os.utime(file, (written, written))
    (tmp_path / "docs" / "lamp.md").write_text(
        "---\ndate: 2026-11-20\n---\nThe lamp is trimmed every evening."
    )
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "docs")
        assert answer in engine.search(question)[0].text
        assert engine.ask(question).found


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("03.2024.md", "2024-03"),
        ("2024-02-30.md", "2024"),
        ("prices Q2_2025.xlsx", "2025-04"),
        ("2. Quartal 2025.txt", "2025-04"),
        ("report v2 final 2023.docx", "2023"),
        ("prices2025.csv", "2025"),
        ("budget_FY2025.xlsx", "2025"),
        ("2024_march.md", "2024-03"),
        ("Protokoll_2024-3.md", "2024-03"),
        ("1er aout 2024.txt", "2024-08-01"),
        ("議事録 2024年5月3日.txt", "2024-05-03"),
        ("release 2024.1.md", "2024"),
        ("rfc 2024.txt", ""),
        ("port-2049.md", ""),
        ("ISO 9001:2015.md", ""),
        ("cpu 2000mhz.md", ""),
    ],
)
def test_names_of_files_have_dates(name, day):
    assert date_name(name) == day


@pytest.mark.parametrize(
    "key", ["Date", "last_updated", "effective-date", "og:published_time", "dcterms.modified"]
)
def test_keys_of_front_matter_are_read_as_people_write_them(key):
    assert date_meta({key: "3 May 2024"}) == "2024-05-03"


def mail(
    day: str, subject: str, text: str, to: str = "team@b.org", sender: str = "Ann <a@b.org>"
) -> str:
    headers = f"From: {sender}\nTo: {to}\n{f'Date: {day} 10:00:00 +0000' if day else 'X-Date: no'}\nSubject: {subject}"
    return f"From a@b.org Wed Feb  3 10:00:00 2021\n{headers}\n\n{text}\n\n"


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory):
    last_week = date.today() - timedelta(date.today().weekday() + 4)
    many = ", ".join(f"member{number}@example.org" for number in range(60))
    mails = [
        mail("Wed, 3 Feb 2021", "Server room", "The server room code is 1188."),
        mail("Tue, 9 May 2023", "Re: Server room", "We changed it: the server room code is 4021."),
        mail(
            "Mon, 18 Nov 2024",
            "Printer of 2019",
            "The printer on the second floor is out of toner.",
            many,
        ),
        mail("", "Anchor", "The anchor of the lightship weighs two tons."),
        mail(f"{last_week:%a, %d %b %Y}", "Crane", "The crane was repaired with a new rope."),
    ]
    folder = tmp_path_factory.mktemp("mailbox")
    (folder / "archive-2020.mbox").write_text("".join(mails))
    with Engine.open(folder / "index", create=True) as opened:
        opened.add(folder / "archive-2020.mbox")
        yield opened


@pytest.mark.parametrize(
    ("question", "day", "source"),
    [
        ("1188", "2021-02-03", "header"),
        ("4021", "2023-05-09", "header"),
        ("printer out of toner", "2024-11-18", "header"),
        ("how heavy is the anchor of the lightship?", "", ""),
    ],
)
def test_a_passage_of_a_mailbox_is_from_the_day_of_its_mail(mailbox, question, day, source):
    first = mailbox.search(question, top_k=1)[0]
    assert (first.date, first.date_source) == (day, source)


def test_periods_are_those_of_the_mails_of_a_mailbox(mailbox):
    (found,) = {
        span.section for span in mailbox.search("printer toner", since="2024-11", until="2024-11")
    }
    assert found.endswith("Printer of 2019")
    assert {span.date for span in mailbox.search("server room code", until="2022")} == {
        "2021-02-03"
    }
    (crane,) = {span.section for span in mailbox.search("what was repaired?", since="2026")}
    assert crane.endswith("Crane")


def test_the_correction_in_a_later_mail_comes_first(mailbox):
    answer = mailbox.ask("what is the server room code?")
    assert "4021" in answer.citations[0].quote
    assert answer.spans[1].superseded_by == answer.spans[0].place
