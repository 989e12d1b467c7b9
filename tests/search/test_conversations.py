"""A message is a unit of a search: who speaks and when, and whose messages a question is about."""

import json

import pytest

from lmkrag import Document, Engine

ANSWER = "\n\n".join(
    f"- Part {number}: the harbour project needs a plan, a database and a deadline for its moorings."
    for number in range(1, 30)
)
CHAT = f"""**User:** I chose PostgreSQL as the database of my harbour project. The deadline is 3 May.

**Assistant:** A database for your harbour project: here is a plan.

{ANSWER}

**User:** Now I use SQLite as the database, since my deadline is near.

**Assistant:** SQLite suits a harbour project. I recommend a backup of the database.

{ANSWER}
"""
CREW = {
    "name": "Harbour crew",
    "messages": [
        {"date": "2024-06-01T10:00:00", "from": "Maria Lopez", "text": "The gate code is 8832."},
        {"date": "2024-06-02T08:00:00", "from": "Ben Marsh", "text": "The old gate code was 4471."},
    ],
}
MAILS = """From ada@example.org Mon Jun  3 12:00:00 2024
From: Ada Quill <ada@example.org>
Date: Mon, 3 Jun 2024 12:00:00 +0000
Subject: Gate

The gate code is written on the board.

From ben@example.org Tue Jun  4 12:00:00 2024
From: ben@example.org
Date: Tue, 4 Jun 2024 12:00:00 +0000
Subject: Re: Gate

The gate code was changed again.
"""


@pytest.fixture(scope="module")
def chats(tmp_path_factory, encoder):
    folder = tmp_path_factory.mktemp("chats")
    (folder / "files").mkdir()
    (folder / "files/project.md").write_text(CHAT)
    (folder / "files/result.json").write_text(json.dumps(CREW))
    (folder / "files/gate.mbox").write_text(MAILS)
    (folder / "files/notes.md").write_text("# Notes\n\nThe gate code is a number.\n")
    with Engine.open(folder / "index", encoder=encoder, create=True) as engine:
        engine.add(folder / "files", progress=False)
        yield engine


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_a_question_about_oneself_is_answered_by_ones_own_messages(chats, mode):
    spans = chats.search(
        "Which database did I choose for my harbour project?", mode=mode, rerank=False
    )
    assert [span.speaker for span in spans[:2]] == ["User", "User"]


def test_a_question_about_the_assistant_is_not_kept_from_its_messages(chats):
    span, *_ = chats.search("What did you say suits a harbour project?", mode="lexical", top_k=1)
    assert span.speaker == "Assistant"


def test_a_long_answer_has_two_passages_at_most(chats):
    spans = chats.search("plan and deadline for moorings", filter="kind=chat", rerank=False)
    chat = chats.document("project.md").text
    border = chat.index("Now I use SQLite")
    answers = [span for span in spans if span.speaker == "Assistant"]
    assert sum(span.start < border for span in answers) == 2
    assert sum(span.start > border for span in answers) == 2


def test_no_passage_crosses_messages(chats):
    spans = chats.search(
        "database of the harbour project", top_k=20, filter="kind=chat", rerank=False
    )
    assert {span.speaker for span in spans} >= {"User", "Assistant"}
    for span in spans:
        assert ":**" not in span.text.removeprefix(f"**{span.speaker}:**")


@pytest.mark.parametrize(
    ("condition", "speakers"),
    [
        ('speaker="Maria Lopez"', {"Maria Lopez"}),
        ("speaker=maria*", {"Maria Lopez"}),
        ("speaker in (user, 'Ben Marsh')", {"User", "Ben Marsh"}),
        ("speaker!=assistant and kind=chat", {"User", "Maria Lopez", "Ben Marsh"}),
        ("speaker=* and kind=mail", {"Ada Quill", "ben@example.org"}),
        ("not speaker=*", {""}),
        ("speaker=nobody", set()),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_a_filter_keeps_the_messages_of_a_speaker(chats, condition, speakers, mode):
    spans = chats.search(
        "gate code, database or project", filter=condition, mode=mode, top_k=20, rerank=False
    )
    assert {span.speaker for span in spans} == speakers


def test_documents_are_listed_by_who_speaks_in_them(chats):
    assert [each.doc_id for each in chats.documents(filter="speaker=ben*")] == [
        "gate.mbox",
        "result.json",
    ]


def test_a_result_says_who_spoke_and_when(chats):
    span, *_ = chats.search("What is the gate code?", filter="speaker=maria*", rerank=False)
    assert (span.speaker, span.time) == ("Maria Lopez", "2024-06-01 10:00")
    assert span.section == "Harbour crew > Maria Lopez, 2024-06-01 10:00"
    assert (span.date, span.date_source) == ("2024-06-01", "header")
    assert span.to_dict()["speaker"] == "Maria Lopez"
    mail, *_ = chats.search("gate code on the board", filter="kind=mail", rerank=False)
    assert (mail.speaker, mail.time) == ("Ada Quill", "2024-06-03 12:00")


def test_a_period_keeps_the_messages_from_it(chats):
    spans = chats.search("gate code", since="2024-06-02", until="2024-06-03", filter="kind=chat")
    assert [span.speaker for span in spans] == ["Ben Marsh"]


def test_lines_of_a_chat_in_markdown_are_those_of_the_file(chats):
    span, *_ = chats.search("Now I use SQLite", filter="path=project.md", mode="lexical")
    line = CHAT[: span.start].count("\n") + 1
    assert span.place == f"project.md:{line}"


def test_a_piece_of_a_message_is_found_by_all_of_its_words(tmp_path, encoder):
    items = "\n".join(f"- {word} mooring ropes" for word in ("red", "blue", "green", "grey"))
    question = "When is the deadline of the mooring ropes at the north quay?"
    told = "The ropes are ordered. They lie at the north quay. The deadline of the mooring is May."
    text = f"**User:** {told}\n\n**Assistant:** Ropes:\n\n{items}\n"
    with Engine.open(tmp_path, encoder=encoder, create=True) as engine:
        engine.add(Document("chat.md", text=text, kind="chat"))
        span, *_ = engine.search(question, mode="lexical")
    assert span.speaker == "User"


def test_messages_are_reranked_only_if_asked_for(chats):
    def scores(rerank):
        spans = chats.search("database of the harbour", filter="kind=chat", rerank=rerank)
        return [span.score for span in spans]

    assert scores(None) == scores(False) != scores(True)


RIDE = """01/05/2026, 18:03 - Lena: Where do we meet on Sunday?
01/05/2026, 18:05 - Marek: At the weir, 9:30 sharp
01/05/2026, 18:06 - Odile: I bring the pump and two tubes
"""


def test_a_question_of_a_chat_comes_with_its_reply_and_who_speaks_stands_beside(encoder, tmp_path):
    (tmp_path / "WhatsApp Chat.txt").write_text(RIDE)
    with Engine.open(tmp_path / "index", encoder=encoder, create=True) as engine:
        engine.add(tmp_path / "WhatsApp Chat.txt")
        (asked, *_) = engine.search("where do they meet on Sunday?")
        (told, *_) = engine.search("Who brings the pump?")
    assert (
        asked.text
        == "Where do we meet on Sunday?\n01/05/2026, 18:05 - Marek: At the weir, 9:30 sharp"
    )
    assert (told.text, told.speaker) == ("I bring the pump and two tubes", "Odile")


@pytest.fixture
def open_file(encoder, tmp_path):
    """Return an engine with one file."""
    opened = []

    def open_one(name, text):
        (tmp_path / name).write_text(text)
        engine = Engine.open(tmp_path / "index", encoder=encoder, create=True)
        opened.append(engine)
        engine.add(tmp_path / name, progress=False)
        return engine

    yield open_one
    for engine in opened:
        engine.close()


@pytest.mark.parametrize("level", ["passage", "span", "sentence"])
@pytest.mark.parametrize("name", ["Lena", "Marek", "Odile"])
def test_what_a_filter_of_a_speaker_finds_are_words_of_that_speaker_alone(open_file, level, name):
    said = {line.split(" - ")[1].split(": ")[0]: line.split(": ")[1] for line in RIDE.splitlines()}
    engine = open_file("WhatsApp Chat.txt", RIDE)
    for question in ("where do they meet on Sunday?", "at the weir", "pump and tubes"):
        (span,) = engine.search(question, filter=f"speaker={name}", level=level)
        assert (span.speaker, span.text.rpartition(f"{name}: ")[2]) == (name, said[name])


def test_a_passage_is_of_who_begins_it_also_if_the_reply_was_found_first(open_file):
    engine = open_file("WhatsApp Chat.txt", RIDE)
    found = engine.search("at the weir, 9:30 sharp", mode="lexical")
    (span,) = (span for span in found if "weir" in span.text)
    assert span.text.startswith("Where do we meet")
    assert (span.speaker, span.time) == ("Lena", "01/05/2026, 18:03")
    assert span.headings == ("Lena, 01/05/2026, 18:03",)


def test_no_span_crosses_messages(open_file):
    lines = (f"01/05/2026, 18:03 - {who}: The pump is red\n" for who in ("Ada", "Ben", "Ida"))
    spans = open_file("chat.txt", "".join(lines)).search("Ben Ida pump", level="span")
    assert [span.text.count(" - ") for span in spans] == [1, 1, 1]


@pytest.mark.parametrize(
    ("dates", "since", "found"),
    [
        (("3/5/24", "3/25/24"), "2024-05", []),
        (("3/5/24", "25/5/24"), "2024-05", ["gate", "rope"]),
        (("12.03.24", "12.04.24"), "2024-04", ["rope"]),
        (("3/5/24", "4/1/24"), "2024-04", ["rope"]),
        (("3/5/24", "3/6/24"), "2024-05", ["gate", "rope"]),
    ],
    ids=["a 25th day", "a 25th day before the month", "dots", "ascending", "unknown"],
)
def test_all_dates_of_a_chat_are_read_in_one_order(open_file, dates, since, found):
    lines = (
        f"{day}, 10:00 - {who}"
        for day, who in zip(dates, ["Ada: a gate", "Ben: a rope"], strict=True)
    )
    engine = open_file("chat.txt", "\n".join(lines))
    spans = engine.search("gate, rope", since=since, mode="lexical")
    assert sorted(span.text.split()[-1] for span in spans) == found


def test_messages_of_a_log_of_irc_are_of_who_wrote_them(open_file):
    log = """09:00 -!- rook has joined #quay
09:30 <@ada> the crane is red
09:31 < rook> when is the crane green
09:32 -!- ben has quit
09:33 <@ada> at noon
09:34 < rook> fine
"""
    engine = open_file("irc.log", log)
    (span, *_) = engine.search("crane green", mode="lexical", filter="speaker=rook")
    assert (span.speaker, span.time, span.text) == ("rook", "09:31", "when is the crane green")
    assert {span.speaker for span in engine.search("crane", top_k=20)} == {"ada", "rook", ""}


CREDIT = """From ben@example.org Tue Jun  4 12:00:00 2024
From: Ben Marsh <ben@example.org>
Date: Tue, 4 Jun 2024 12:00:00 +0000
Subject: Re: Crane

The crane stays red, whatever the others say about it.

{quoted}
"""
SAID = (
    "The lighter belongs to the fishery\nand sails at noon on every single working day of the week."
)
MARKED = "> The lighter belongs to the fishery\n> and sails at noon on every single working day of the week."
HEADED = "{rule}{who}: Jane Roe <jane@example.org>\n{sent}: Friday, May 3, 2024 10:00\n{to}: Ben\n{about}: Crane\n\n"


@pytest.mark.parametrize(
    ("quoted", "speaker"),
    [
        (f"On 3 May, Jane Roe wrote:\n{MARKED}", "Jane Roe"),
        (f"On Fri, May 3, 2024 at 10:00 AM Jane Roe <jane@example.org>\nwrote:\n\n{MARKED}", "Jane Roe"),
        (f"Am 03.05.2024 um 10:00 Uhr schrieb Jane Roe:\n{MARKED}", "Jane Roe"),
        (f"Jane Roe a écrit le vendredi 3 mai :\n{MARKED}", "Jane Roe"),
        (f"jane@example.org:\n{MARKED}", "jane@example.org"),
        (f"See my answer below:\n{MARKED}\nand so it does, but for Sundays.", ""),
        (MARKED, ""),
        (f"{MARKED}\nand I agree.", ""),
        (f"On 3 May, Ada Quill wrote:\n> On 2 May, Jane Roe wrote:\n{MARKED.replace('> ', '> > ')}\n> Yes.", "Jane Roe"),
        (HEADED.format(rule="-----Original Message-----\n", who="From", sent="Sent", to="To", about="Subject") + SAID, "Jane Roe"),
        (HEADED.format(rule=f"{'_' * 30}\n", who="Von", sent="Gesendet", to="An", about="Betreff") + SAID, "Jane Roe"),
        (HEADED.format(rule="", who="*Van", sent="*Verzonden", to="*Aan", about="*Onderwerp") + SAID, "Jane Roe"),
    ],
    ids=["on", "wrapped", "German", "French", "an address", "a lead of one's own", "no lead",
         "a reply below", "twice", "Outlook", "Outlook in German", "no rule"],
)  # fmt: skip
def test_what_a_mail_quotes_is_of_its_own_author(open_file, quoted, speaker):
    engine = open_file("crane.mbox", CREDIT.format(quoted=quoted))
    (span, *_) = engine.search("When does the lighter sail?", level="sentence", rerank=False)
    assert "sails at noon" in span.text and span.speaker == speaker
    (span, *_) = engine.search("Which colour has the crane?", level="sentence", rerank=False)
    assert span.speaker == "Ben Marsh"
    spans = engine.search("lighter, fishery", filter="speaker=ben*", level="span", mode="lexical")
    assert all("noon" not in span.text for span in spans)


def test_who_replies_between_quotations_speaks_there(open_file):
    lines = "On 3 May, Jane Roe wrote:\n> Who has the key of the gate?\nMaria keeps it at home.\n> And the code?\nIt is 8832."
    engine = open_file("a.eml", CREDIT.format(quoted=lines).partition("\n")[2])
    said = {span.text: span.speaker for span in engine.search("gate", level="sentence", top_k=20)}
    assert said["Maria keeps it at home."] == said["It is 8832."] == "Ben Marsh"
    assert said["> Who has the key of the gate?"] == said["> And the code?"] == "Jane Roe"


@pytest.mark.parametrize(
    "wrap",
    [
        "On 3 May, Jane Roe wrote:\n{0}",
        "-----Original Message-----\nFrom: Jane Roe\nSent: 3 May\n\n{1}",
    ],
    ids=["marked", "headed"],
)
def test_an_original_stands_before_the_mails_that_quote_it(tmp_path, encoder, wrap):
    folder = tmp_path / "mails"
    folder.mkdir()
    text = f"From: Jane Roe <jane@example.org>\nSubject: Boats\n\nDear all,\n\n{SAID}\n"
    (folder / "z.eml").write_text(text)
    for name, reply in (("a", "Thanks, the lighter it is."), ("b", "Noon is late for a lighter.")):
        text = f"Subject: Re: When the lighter of the fishery sails\n\n{reply}\n\n"
        text += wrap.format(MARKED, SAID)
        (folder / f"{name}.eml").write_text(f"From: Ben Marsh <ben@example.org>\n{text}\n")
    with Engine.open(tmp_path / "index", encoder=encoder, create=True) as engine:
        engine.add(folder, progress=False)
        spans = engine.search("When does the lighter of the fishery sail?")
    (said,) = (span for span in spans if "sails at noon" in span.text)
    assert (said.doc_id, said.speaker, set(said.also_in)) == (
        "z.eml", "Jane Roe", {"a.eml", "b.eml"}
    )  # fmt: skip
    assert {span.speaker for span in spans if span.doc_id != "z.eml"} <= {"Ben Marsh"}


def test_a_quoted_question_stays_with_the_reply_below_it(tmp_path, encoder):
    asked = "Who has the key of the north gate by the fishery?"
    (tmp_path / "z.eml").write_text(f"From: Jane Roe <jane@example.org>\nSubject: Key\n\n{asked}\n")
    text = f"On 3 May, Jane Roe wrote:\n> {asked}\nMaria has it at home.\n"
    (tmp_path / "a.eml").write_text(
        f"From: Ben Marsh <ben@example.org>\nSubject: Re: Key\n\n{text}"
    )
    with Engine.open(tmp_path / "index", encoder=encoder, create=True) as engine:
        engine.add([tmp_path / "z.eml", tmp_path / "a.eml"], progress=False)
        spans = [span for span in engine.search(asked) if "> Who" in span.text]
    assert [(span.text.partition("> ")[2], span.speaker) for span in spans] == [
        (f"{asked}\nMaria has it at home.", "Ben Marsh")
    ]
