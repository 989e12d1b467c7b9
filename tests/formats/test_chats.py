"""Exports of chats, and chats as Markdown and text, are read as messages."""

import json

import pytest

from lmkrag.formats.load import load_bytes, load_with_attachments
from lmkrag.language.messages import is_conversation, read_opener
from lmkrag.sentences.split import split_sentences

CHATGPT = {
    "title": "Moorings",
    "current_node": "c",
    "mapping": {
        "root": {"message": None, "parent": None, "children": ["a"]},
        "a": {
            "message": {
                "author": {"role": "user"},
                "create_time": 1717236000.5,
                "content": {"content_type": "text", "parts": ["Which rope holds best?"]},
            },
            "parent": "root",
        },
        "b": {
            "message": {
                "author": {"role": "assistant"},
                "content": {"parts": ["Hemp, said first."]},
            },
            "parent": "a",
        },
        "c": {
            "message": {"author": {"role": "assistant"}, "content": {"parts": ["## User\nNylon."]}},
            "parent": "a",
        },
    },
}
CLAUDE = {
    "name": "Fees",
    "chat_messages": [
        {"sender": "human", "created_at": "2024-06-01T10:00:00.123Z", "text": "What is the fee?"},
        {"sender": "assistant", "created_at": "2024-06-01T10:01:00Z", "text": "", "content": [
            {"type": "text", "text": "It is 40 euros."}]},
    ],
}  # fmt: skip
SLACK = [
    {"type": "message", "user": "U1", "user_profile": {"real_name": "Maria Lopez"},
     "ts": "1717236000.000100", "text": "See <https://tides.example.net|tides>, <@U2> &amp; all"},
    {"type": "message", "user": "U2", "user_profile": {"real_name": "Ben Marsh"},
     "ts": "1717236060.000100", "text": "Thanks"},
]  # fmt: skip
TELEGRAM = {
    "name": "Harbour crew",
    "messages": [
        {"id": 1, "type": "message", "date": "2024-06-01T10:00:00", "from": "Maria Lopez",
         "text": ["The new ", {"type": "bold", "text": "gate code"}, " is 8832"]},
        {"id": 2, "type": "service", "date": "2024-06-01T10:01:00", "actor": "Ben", "text": ""},
        {"id": 3, "type": "message", "date": "2024-06-01T10:05:00", "from": "Ben Marsh", "text": "Thanks"},
    ],
}  # fmt: skip
TEAMS = {
    "value": [
        {"createdDateTime": "2024-06-01T10:05:00Z", "from": {"user": {"displayName": "Ben Marsh"}},
         "body": {"contentType": "html", "content": "<p>On the <b>quay</b></p>"}},
        {"createdDateTime": "2024-06-01T10:00:00Z", "from": {"user": {"displayName": "Ada Quill"}},
         "body": {"contentType": "html", "content": "<p>Where is it?</p>"}},
    ],
}  # fmt: skip


def read(value, name="chat.json"):
    data = value if isinstance(value, str) else json.dumps(value)
    return load_bytes(data.encode(), name, doc_id=name, path=name)


@pytest.mark.parametrize(
    ("value", "title", "text"),
    [
        (
            CHATGPT,
            "Moorings",
            "## User, 2024-06-01 10:00\n\nWhich rope holds best?\n\n## Assistant\n\n ## User\nNylon.",
        ),
        (
            CLAUDE,
            "Fees",
            "## Human, 2024-06-01 10:00\n\nWhat is the fee?\n\n"
            "## Assistant, 2024-06-01 10:01\n\nIt is 40 euros.",
        ),
        (
            SLACK,
            "chat",
            "## Maria Lopez, 2024-06-01 10:00\n\n"
            "See tides (https://tides.example.net), @Ben Marsh & all\n\n"
            "## Ben Marsh, 2024-06-01 10:01\n\nThanks",
        ),
        (
            TELEGRAM,
            "Harbour crew",
            "## Maria Lopez, 2024-06-01 10:00\n\nThe new gate code is 8832\n\n"
            "## Ben Marsh, 2024-06-01 10:05\n\nThanks",
        ),
        (
            TEAMS,
            "chat",
            "## Ada Quill, 2024-06-01 10:00\n\nWhere is it?\n\n"
            "## Ben Marsh, 2024-06-01 10:05\n\nOn the quay",
        ),
        (
            [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}],
            "chat",
            "## User\n\nHello\n\n## Assistant\n\nGood day",
        ),
    ],
    ids=["chatgpt", "claude", "slack", "telegram", "teams", "roles"],
)
def test_an_export_is_its_messages(value, title, text):
    document = read(value)
    assert (document.kind, document.title, document.text) == ("chat", title, text)


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "captain", "content": "Steers"}, {"role": "mate", "content": "Helps"}],
        [{"author": "Ada", "date": "2024-06-01", "text": "Good boat", "stars": 5}] * 3,
        {"messages": [{"id": 1, "level": "error", "text": "No tide"}]},
        [{"role": "user", "content": "Hello"}, {"id": 1}, {"id": 2}],
    ],
    ids=["roles of a crew", "reviews", "log", "one message among records"],
)
def test_other_records_stay_records(value):
    assert read(value).kind == "json"


def test_chats_without_a_name_or_a_message_are_of_an_export_too(tmp_path):
    saved = {"type": "saved_messages", "messages": TELEGRAM["messages"][:1]}
    joined = {"name": "Ida", "messages": [{"id": 1, "type": "service", "text": ""}]}
    file = tmp_path / "result.json"
    file.write_text(json.dumps({"chats": {"list": [TELEGRAM, saved, joined, joined]}}))
    loaded = load_with_attachments(file, "result.json")
    assert [each.doc_id for each in loaded.attached] == [
        "result.json/Harbour crew.json",
        "result.json/chat.json",
    ]
    assert {each.kind for each in loaded.attached} == {"chat"}


def test_texts_of_meta_are_read_as_what_their_bytes_are():
    def write(name, text):
        value = {"sender_name": name, "timestamp_ms": 1717236000000, "content": text}
        return json.dumps({"title": name, "messages": [value]}, ensure_ascii=False)

    mangled = write("José", "12 € 👍").encode().decode("latin-1")
    document = read(mangled, "message_1.json")
    assert document.title == "José"
    assert document.text == "## José, 2024-06-01 10:00\n\n12 € 👍"
    assert "JosÃ© – é" in read(write("Ida", "JosÃ© – é")).text  # not all are such texts


def test_what_was_pasted_into_a_message_of_claude_is_of_it():
    files = [{"file_name": "paste.txt", "extracted_content": "The rent is 40 euros."}, {"id": 1}]
    export = json.loads(json.dumps(CLAUDE))
    export["chat_messages"][0]["attachments"] = files
    text = read(export).text
    assert "What is the fee?\n\nThe rent is 40 euros.\n\n## Assistant" in text


def test_days_and_groups_of_slack_are_shown_as_they_are():
    text = "Due <!date^1709942400^{date}|Mar 9>, <!here>, <!subteam^S1|@crew>, <#C1|quay>"
    assert "Due Mar 9, @here, @crew, #quay" in read([{**SLACK[0], "text": text}]).text


def test_subtitles_with_several_speakers_are_a_conversation():
    words = ["<v Ada>Is it open?", "Ben: No.", "<v.loud Ada>Why?", "Ben: It is late."]
    cues = [f"00:0{number}.000 --> 00:0{number}.900\n{each}" for number, each in enumerate(words)]
    document = read("\n\n".join(["WEBVTT", *cues]), "talk.vtt")
    assert document.kind == "chat"
    assert document.text.startswith("[00:00:00] Ada: Is it open?\n[00:00:01] Ben: No.\n")


def test_several_conversations_are_documents_of_their_own(tmp_path):
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([CHATGPT, {**CHATGPT, "title": "Sails/Rigs"}]))
    loaded = load_with_attachments(file, "conversations.json")
    assert loaded.document.text.splitlines() == [
        "title: Moorings | messages: 2 | begun: 2024-06-01 10:00",
        "title: Sails/Rigs | messages: 2 | begun: 2024-06-01 10:00",
    ]
    assert [(each.doc_id, each.title, each.kind) for each in loaded.attached] == [
        ("conversations.json/Moorings.json", "Moorings", "chat"),
        ("conversations.json/Sails_Rigs.json", "Sails/Rigs", "chat"),
    ]


@pytest.mark.parametrize(
    ("line", "speaker", "time"),
    [
        ("## User", "User", ""),
        ("#### ChatGPT said:", "ChatGPT", ""),
        ("**User:** Hello", "User", ""),
        ("**Human**: Hello", "Human", ""),
        ("User: Hello", "User", ""),
        ("### Assistant (2024-06-01 10:00)", "Assistant", "2024-06-01 10:00"),
        ("**Maria Lopez** (2024-06-01 10:00): Hello", "Maria Lopez", "2024-06-01 10:00"),
        ("[01.06.24, 10:00:05] Maria: Hello", "Maria", "01.06.24, 10:00:05"),
        ("6/1/24, 10:05\u202fAM - Ben: Hello", "Ben", "6/1/24, 10:05\u202fAM"),
        ("1/6/24, 8:17 p.\xa0m. - Ana: Hola", "Ana", "1/6/24, 8:17 p.\xa0m."),
        ("01/06/2024 à 10:00 - Ana : Salut", "Ana", "01/06/2024 à 10:00"),
        ("01/06/2024, 10:00 - +49\xa0151 12345: Hi", "+49 151 12345", "01/06/2024, 10:00"),
        (
            "[01.06.24, 10:00:05] \u202a+49 151 12345\u202c: Hi",
            "+49 151 12345",
            "01.06.24, 10:00:05",
        ),
        ("[01.06.24, 10:00:05] ~\u202fOpa Karl: Hi", "Opa Karl", "01.06.24, 10:00:05"),
        ("01/06/2024, 10:00 - 🌸 Lena: Hi", "🌸 Lena", "01/06/2024, 10:00"),
        ("01/06/2024, 10:00 - Tom (work): Hi", "Tom (work)", "01/06/2024, 10:00"),
        ("01/06/2024, 10:00 - Tom left", "", "01/06/2024, 10:00"),
        ("## 🌸 Tom (work), 2024-06-01 10:00", "🌸 Tom (work)", "2024-06-01 10:00"),
        ("09:31 < rook> Hi", "rook", "09:31"),
        ("09:31 <@rook> Hi", "rook", "09:31"),
        ("[10:00:15]  * rook waves", "rook", "10:00:15"),
        ("09:31 -!- rook has joined", "", "09:31"),
        ("Jun 01 10:00:00 <rook>\tHi", "rook", "Jun 01 10:00:00"),
        ("2024-06-01 10:00:00\t@rook\tHi", "rook", "2024-06-01 10:00:00"),
        ("[00:00:05] Ada Quill: Hi", "Ada Quill", "00:00:05"),
        ("10:00:12\t From  Ada Quill  to  Ben(Direct Message) : Hi", "Ada Quill", "10:00:12"),
        ("2024-06-01 10:00:12 From Ada Quill to Everyone:", "Ada Quill", "2024-06-01 10:00:12"),
    ],
)
def test_a_message_begins_with_its_speaker(line, speaker, time):
    opener = read_opener(line)
    assert opener is not None
    assert (opener.speaker, opener.time) == (speaker, time)


@pytest.mark.parametrize(
    "line",
    [
        "## User model",
        "**Note:** see below",
        "Users: 3",
        "2024-06-01 10:00 - INFO: started",
        "## Plan, 2024",
        "09:00 - Lunch: soup",
        "Jun 01 10:00:00 harbour sshd[12]: started",
    ],
)
def test_other_lines_begin_no_message(line):
    assert read_opener(line) is None


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("**User:** Where?\n\n**Assistant:** On the quay.\n", "a.md", "chat"),
        ("# Boats\n\n## User\n\nWhere?\n\n## Assistant\n\nHere.\n", "a.md", "chat"),
        ("01/06/2024, 10:00 - Ada: Hi\n01/06/2024, 10:01 - Ben: Yes\n", "chat.txt", "chat"),
        ("# Roles\n\n## User\n\nOne who reads.\n\n## Group\n\nMany.\n", "a.md", "markdown"),
        ("Model: T4\nTool: hammer\n", "a.txt", "text"),
        ("You: who?\nMe: I.\n", "a.txt", "text"),
        (
            "09:31 < rook> Where?\n09:32 <@ada> Here.\n09:33 < rook> So.\n09:34 <@ada> Bye\n",
            "a.log",
            "chat",
        ),
        ("[00:10] Opening: hall\n[00:20] Talks: room 2\n[00:30] Talks: hall\n", "a.txt", "text"),
        ("2024-06-01 10:00:00 - INFO: up\n2024-06-01 10:00:01 - WARN: down\n", "a.log", "text"),
    ],
)
def test_a_text_with_messages_of_several_is_a_chat(text, name, kind):
    assert read(text, name).kind == kind
    assert is_conversation(text) == (kind == "chat")


def test_messages_are_cut_at_their_openers_also_inside_of_code_that_does_not_end():
    text = "**User:** Run it.\n\n**Assistant:** So:\n```\nrun\n\n**User:** Thanks. Bye.\n"
    sentences = split_sentences(text, kind="chat")
    shown = [(text[each.start : each.end].strip(), each.kind) for each in sentences]
    assert shown == [
        ("**User:**", "heading"),
        ("Run it.", "text"),
        ("**Assistant:**", "heading"),
        ("So:", "text"),
        ("```\nrun", "code"),
        ("**User:**", "heading"),
        ("Thanks.", "text"),
        ("Bye.", "text"),
    ]
