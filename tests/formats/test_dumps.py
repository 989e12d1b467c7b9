"""What programs dump: rows of databases in SQL, and rich text in JSON."""

import json
import time

import pytest

from lmkrag.formats.load import load_bytes


def read(content: object, name: str) -> str:
    data = content if isinstance(content, str) else json.dumps(content)
    return load_bytes(data.encode(), name, doc_id=name, path=name).text


MYSQL = r"""-- Boats of the harbour
CREATE TABLE `boat` (`id` int NOT NULL, `name` varchar(60) DEFAULT 'x, y', `fee` decimal(10,2),
  PRIMARY KEY (`id`), KEY `named` (`name`));
LOCK TABLES `boat` WRITE;
INSERT INTO `boat` VALUES (1,'Ida''s \'Kestrel\'; (new)',40.50),(2,NULL,-3),(3,_binary 'Tern',0);
INSERT INTO `boat` VALUES (4,'Heron',35);
"""
POSTGRESQL = """SET statement_timeout = 0;
CREATE TABLE public.city (id integer NOT NULL, name text);
COPY public.city (id, name, note) FROM stdin;
1\tOslo\t\\N
2\tKiel\tquay\\twest
\\.
INSERT INTO public.city VALUES (3, 'C:\\new\\');
"""
SQL_SERVER = """INSERT [dbo].[Staff] ([Id], [Last Name], [Born]) VALUES (1, N'Voss', CAST(N'1990-02-01' AS Date))
GO
INSERT [dbo].[Staff] ([Id], [Last Name], [Born]) VALUES (2, N'Müller', NULL)
GO
"""
SQLITE = """PRAGMA foreign_keys=OFF;
CREATE TABLE IF NOT EXISTS "pier" ("name" TEXT, depth REAL);
INSERT INTO pier VALUES('North',7.5);
INSERT INTO pier VALUES('South' || ' quay',4.2);
"""


@pytest.mark.parametrize(
    ("dump", "expected"),
    [
        pytest.param(
            MYSQL,
            [
                "# boat",
                "id: 1 | name: Ida's 'Kestrel'; (new) | fee: 40.50",
                "id: 2 | fee: -3",
                "id: 3 | name: Tern | fee: 0",
                "id: 4 | name: Heron | fee: 35",
            ],
            id="mysql",
        ),
        pytest.param(
            POSTGRESQL,
            [
                "# city",
                "id: 1 | name: Oslo",
                "id: 2 | name: Kiel | note: quay west",
                "id: 3 | name: C:\\new\\",
            ],
            id="postgresql",
        ),
        pytest.param(
            SQL_SERVER,
            [
                "# Staff",
                "Id: 1 | Last Name: Voss | Born: 1990-02-01",
                "Id: 2 | Last Name: Müller",
            ],
            id="sql-server",
        ),
        pytest.param(
            SQLITE,
            ["# pier", "name: North | depth: 7.5", "name: South quay | depth: 4.2"],
            id="sqlite",
        ),
    ],
)
def test_rows_of_a_dump_stand_beside_the_names_of_their_columns(dump, expected):
    lines = [line for line in read(dump, "dump.sql").splitlines() if line]
    assert lines[-len(expected) :] == expected
    assert "LOCK" not in "".join(lines)


@pytest.mark.parametrize(
    ("dump", "expected"),
    [
        pytest.param(
            "INSERT INTO boat (id, name) VALUES (1,'O\\'Neil');\n"
            "INSERT INTO boat (id, name) VALUES (2,'Tern');\n",
            ["# boat", "id: 1 | name: O'Neil", "id: 2 | name: Tern"],
            id="mysql-without-quoted-names",
        ),
        pytest.param(
            "REM INSERTING into BOAT\nSET DEFINE OFF;\nINSERT ALL\n"
            "  INTO boat (name, built) VALUES ('Tern', to_date('01-05-1988', 'DD-MM-YYYY'))\n"
            "  INTO boat (name, built) VALUES ('Skua', NULL)\nSELECT 1 FROM dual;\n",
            ["# boat", "name: Tern | built: 01-05-1988", "name: Skua"],
            id="oracle",
        ),
        pytest.param(
            "-- On hold\nINSERT INTO note VALUES (1, 'a') ON CONFLICT DO NOTHING;\n",
            ["-- On hold", "# note", "1 | a"],
            id="comments-stay-and-conflicts-do-not",
        ),
        pytest.param(
            "INSERT INTO note VALUES(1,replace('old\\nred','\\n',char(10)));\n",
            ["# note", "1 | old red"],
            id="sqlite-line-end",
        ),
        pytest.param(
            "INSERT [Fee] ([Id], [Amount], [Due])\n"
            "VALUES (1, CAST(12.50 AS Decimal(18, 2)), CAST(NULL AS Date))\n",
            ["# Fee", "Id: 1 | Amount: 12.50"],
            id="sql-server-casts",
        ),
        pytest.param(
            "-- On hold\nINSERT INTO a VALUES (1, (2, 'x');\nINSERT INTO a VALUES (3, 'y');\n",
            ["# a", "3 | y"],
            id="row-that-is-not-closed",
        ),
    ],
)
def test_rows_of_other_dialects(dump, expected):
    lines = [line for line in read(dump, "dump.sql").splitlines() if line]
    assert lines[-len(expected) :] == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("<p>The fee is <b>45</b> euros.</p>", "The fee is 45 euros."),
        ("<!-- wp:paragraph -->\n<p>Fee</p>\n<ul><li>45</li></ul>", "Fee - 45"),
        ("<p>not closed", "<p>not closed"),
        ("<kbd>Tab</kbd>", "<kbd>Tab</kbd>"),
        ("a < b", "a < b"),
    ],
)
def test_values_that_are_pages_are_read_without_their_marks(value, shown):
    dump = f"INSERT INTO `post` (`id`, `body`) VALUES (1, '{value}'), (2, 'Tern');\n"
    assert read(dump, "dump.sql").splitlines()[2] == f"id: 1 | body: {shown}"
    assert (
        read([{"id": 1, "body": {"rendered": value}}], "a.json")
        == f"id: 1 | body.rendered: {shown}"
    )


def test_rows_that_are_not_closed_cost_no_more_than_others():
    dump = "INSERT INTO a VALUES (1, (SELECT 2, 'Tern');\n" * 20_000
    began = time.process_time()
    read(dump + "INSERT INTO a VALUES (3, 'y');\n", "dump.sql")
    assert time.process_time() - began < 5


def test_a_file_of_sql_that_is_mostly_code_stays_as_it_is():
    code = "CREATE FUNCTION f() RETURNS int AS $$\nBEGIN\n  RETURN 1;\nEND $$;\n" * 9
    code += "INSERT INTO log (id, text) VALUES (1, 'made');\n"
    document = load_bytes(code.encode(), "f.sql", doc_id="f.sql", path="f.sql")
    assert (document.text, document.kind) == (code, "code")
    insert = "INSERT INTO log (id, text) VALUES (?, ?);\n"
    assert read(insert, "f.sql") == insert


def text(words: str, **styles: object) -> dict[str, object]:
    return {"type": "text", "text": words, **styles}


TELEGRAM = ["The gate code is ", {"type": "code", "text": "8832"}, " from Monday"]
SLACK = [text("The gate code is "), text("8832", style={"bold": True}), text(" from Monday")]
NOTION = [
    {**text("x"), "text": {"content": part}, "annotations": {}, "plain_text": part}
    for part in ("The gate code is ", "8832", " from Monday")
]
LEXICAL = {"type": "root", "format": "", "indent": 0, "children": SLACK}
PORTABLE = [{"_type": "span", "_key": str(number), **part} for number, part in enumerate(SLACK)]
SLATE = [{"text": "The gate code is "}, {"text": "8832", "bold": True}, {"text": " from Monday"}]
QUILL: list[dict[str, object]] = [{"insert": part["text"]} for part in SLATE]
QUILL[1]["attributes"] = {"bold": True}
QUILL[2]["insert"] = " from Monday\n"
CONTENTFUL = {
    "nodeType": "document",
    "data": {},
    "content": [
        {
            "nodeType": "paragraph",
            "data": {},
            "content": [
                {
                    "nodeType": "text",
                    "value": part["text"],
                    "marks": [part] if "bold" in part else [],
                    "data": {},
                }
                for part in SLATE
            ],
        }
    ],
}
SECTION = {"type": "rich_text_section", "elements": SLACK}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(TELEGRAM, id="telegram"),
        pytest.param(NOTION, id="notion"),
        pytest.param([{"type": "rich_text", "block_id": "b", "elements": [SECTION]}], id="slack"),
        pytest.param({"root": LEXICAL}, id="lexical"),
        pytest.param([{"_type": "block", "markDefs": [], "children": PORTABLE}], id="portable"),
        pytest.param([{"type": "paragraph", "children": SLATE}], id="slate"),
        pytest.param({"ops": QUILL}, id="quill"),
        pytest.param(CONTENTFUL, id="contentful"),
        pytest.param(
            {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": SLACK}]},
            id="prosemirror",
        ),
    ],
)
def test_pieces_of_a_rich_text_are_one_text(pieces):
    shown = read([{"from": "Ada", "body": pieces}, {"from": "Ben", "body": "Thanks"}], "chat.json")
    name = "body.root" if "root" in pieces else "body"
    assert shown.splitlines()[0] == f"from: Ada | {name}: The gate code is 8832 from Monday"


def test_a_text_that_is_there_twice_is_read_once_and_keeps_its_addresses():
    link = {"type": "text_link", "text": "the tides", "href": "https://tides.example.net"}
    messages = [{"id": 1, "text": ["See ", link], "text_entities": [text("See "), link]}]
    assert read(messages, "a.json") == "id: 1 | text: See the tides (https://tides.example.net)"


def test_paragraphs_of_a_document_in_json_are_lines():
    blocks = [
        {"type": "heading", "attrs": {"level": 1}, "content": [text("Fees")]},
        {"type": "paragraph", "content": [text("Pay "), {"type": "hardBreak"}, text("40 euros")]},
        {"type": "paragraph"},
        {"type": "bulletList", "content": [{"type": "listItem", "content": [text("in May")]}]},
    ]
    assert read({"type": "doc", "content": blocks}, "a.json") == "Fees\nPay\n40 euros\nin May"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([{"type": "bug", "text": "It sinks"}, {"type": "wish", "text": "A bell"}], 2),
        ({"type": "menu", "children": [{"text": "Home"}, {"text": "About"}]}, 1),
        ({"parts": [text("one"), text("two")]}, 2),
        ({"type": "quiz", "content": ["A", "B"]}, 1),
        ([{"type": "section", "title": "Fees", "children": [text("40")]}, {"type": "end"}], 2),
    ],
)
def test_records_with_types_and_texts_stay_records(records, expected):
    lines = read(records, "a.json").splitlines()
    assert len(lines) >= expected
    assert all(": " in line for line in lines)
    assert "HomeAbout" not in "".join(lines)


def test_lines_of_old_notebooks_stay_apart():
    cells = [
        {"cell_type": "markdown", "source": ["# Tides", "The gauge at the north", "mole."]},
        {"cell_type": "code", "input": ["level = 3.4", "print(level)"], "outputs": []},
    ]
    old = {"worksheets": [{"cells": cells}], "nbformat": 2}
    shown = "# Tides\nThe gauge at the north\nmole.\n\n```\nlevel = 3.4\nprint(level)\n```"
    assert read(old, "a.ipynb") == shown
    result = {"output_type": "pyout", "text": ["array([1,", "2])"]}
    printed = [{"output_type": "stream", "text": ["3.4", "4.5"]}, result]
    code = {"cell_type": "code", "input": ["f()"], "outputs": printed}
    first = {"worksheets": [{"cells": [code]}], "nbformat": 2}
    assert read(first, "a.ipynb") == "```\nf()\n```\n\n```\n3.4\n4.5\narray([1,\n2])\n```"
    new = [{"cell_type": "markdown", "source": ["# Tides\n", "of the ", "mole"]}]
    assert read({"cells": new}, "a.ipynb") == "# Tides\nof the mole"
