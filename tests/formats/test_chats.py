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
