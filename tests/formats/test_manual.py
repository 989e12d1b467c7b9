"""Manual pages, as man and as mdoc write them."""

import gzip
from pathlib import Path

import pytest

from lmkrag.formats.load import load_bytes

MAN = r"""\" Written by hand.
.TH LAMP 1 "2026\-11\-29" "lamp 2" "User Commands"
.de URL
\\$2 <\\$1>
..
.SH NAME
lamp \- light the harbour
.SH "OPTIONS AND KEYS"
.PP
It burns \fBcolza\fP oil\&. The keeper\(aqs key is
.IR key ,
in
.BR lampd (8).
.TP
\fB\-\-dim\fR=\fIHOURS\fR
dims the lamp
for some hours.
.TP
.B \-q
says nothing.
.IP \(bu 2
Never dim it at dusk.
.SS Example
.nf
$ lamp --dim=2
.fi
.PP
Ask the office.
"""
MDOC = r""".\" Of BSD.
.Dd November 29, 2026
.Dt LAMPD 8
.Os
.Sh NAME
.Nm lampd
.Nd light the harbour all night
.Sh SYNOPSIS
.Nm
.Op Fl q
.Op Fl d Ar hours
.Ar file ...
.Sh DESCRIPTION
The
.Nm
daemon reads
.Pa /etc/lampd.conf .
.Bl -tag -width Ds
.It Fl d Ar hours
Dim it.
.It Fl q
Say nothing.
.El
.Bd -literal
lampd -q
.Ed
"""


def read(text: str, name: str):
    return load_bytes(text.encode(), name, doc_id=name, path=name)


def test_macros_of_man():
    page = read(MAN, "lamp.1")
    assert (page.kind, page.title) == ("man", "lamp(1)")
    assert page.text.split("\n\n") == [
        "# lamp(1)",
        "## NAME",
        "lamp - light the harbour",
        "## OPTIONS AND KEYS",
        "It burns colza oil. The keeper's key is key, in lampd(8).\n"
        "- --dim=HOURS: dims the lamp for some hours.\n- -q: says nothing.\n"
        "- Never dim it at dusk.",
        "### Example",
        "```\n$ lamp --dim=2\n```",
        "Ask the office.",
    ]


def test_a_definition_is_indented_below_its_term():
    page = read(
        ".TH LAMP 1\n.SH OPTIONS\n.PP\n\\-q\n.RS 4\nSays nothing.\n.sp\nNot at dusk.\n.RE\n.PP\nAsk.\n",
        "lamp.1",
    )
    assert page.text.endswith("\n\n-q\n  Says nothing.\n\n  Not at dusk.\n\nAsk.")


def test_further_paragraphs_of_an_item_belong_to_it():
    page = read(
        '.TH LAMP 1\n.SH OPTIONS\n.IP "\\-\\-size=SIZE"\nLamps larger than SIZE stay dark. A size may\nhave a unit.\n'
        ".IP\nThe letter of a unit is B,\nK or M.\n.sp\n.nf\n$ lamp --size=2K\n.fi\n.IP \\-q\nSays nothing.\n.PP\nAsk.\n",
        "lamp.1",
    )
    assert page.text.endswith(
        "- --size=SIZE: Lamps larger than SIZE stay dark. A size may have a unit.\n\n"
        "  The letter of a unit is B, K or M.\n\n```\n$ lamp --size=2K\n```\n- -q: Says nothing.\n\nAsk."
    )


def test_strings_of_pod2man_and_terms_with_a_colon():
    page = read(
        '.TH LAMP 1\n.SH OPTIONS\n.TP\n.B DAILY OPTIONS:\n.TP\n.B \\-q:\nDoesn\\*(Aqt say \\*(L"ahoy\\*(R".\n',
        "lamp.1",
    )
    assert page.text.endswith("\n\n- DAILY OPTIONS:\n- -q: Doesn't say “ahoy”.")


def test_of_two_branches_one_is_shown():
    page = read(
        ".TH LAMP 1\n.SH USE\n.RS 4\n.ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n.el \\{\n.  sp -1\n.  IP \\(bu 2.3\n.\\}\n"
        "Dim it.\n.RE\n.PP\nAsk.\n",
        "lamp.1",
    )
    assert page.text.endswith("## USE\n\n  - Dim it.\n\nAsk.")


def test_entries_of_mdoc_keep_their_terms_and_paragraphs():
    page = read(
        MDOC
        + """.Sh KEYS
.Bl -tag -width Ds
.It o
Show messages from
.Nm ,
if any.
.It Up
.It Left, Right
Turn the lamp.
.It Xo Ic server-access
.Op Fl ad
.Op Ar user
.Xc
Let another
.Ar user
in, or leave
.Fl Fl all
out:
.Dl lampd -a ada
.Pp
.Fl a
and
.Fl d
give and take access.
.El
""",
        "lampd.8",
    )
    assert page.text.endswith(
        "- o: Show messages from lampd, if any.\n- Up, Left, Right: Turn the lamp.\n"
        "- server-access [-ad] [user]: Let another user in, or leave --all out:\n```\nlampd -a ada\n```\n\n  -a and -d give and take access."
    )


TABLES = r""".TH FEES 5
.SH FEES
.TS
allbox tab(|);
lb lb lw(1.5i)
l l l.
Boat|Fee|Remark
_
\fBHeron\fP|40|T{
Paid
.B in October
T}
Skua|50|none
.TE
After it.
.TS
l l.
Port	Master
Brest	Ada
"""


def test_a_table_has_its_rows_between_bars():
    loaded = load_bytes(TABLES.encode(), "fees.5", doc_id="a", path="fees.5")
    rows = [line for line in loaded.text.split("\n") if line]
    assert rows[2:6] == [
        "| Boat | Fee | Remark |",
        "| --- | --- | --- |",
        "| Heron | 40 | Paid in October |",
        "| Skua | 50 | none |",
    ]
    assert rows[6:] == ["After it.", "| Port | Master |", "| --- | --- |", "| Brest | Ada |"]


def test_macros_of_mdoc():
    page = read(MDOC, "lampd.8")
    assert page.title == "lampd(8)"
    assert "lampd - light the harbour all night" in page.text
    assert "lampd [-q] [-d hours] file ..." in page.text
    assert "The lampd daemon reads /etc/lampd.conf." in page.text
    assert "- -d hours: Dim it.\n- -q: Say nothing.\n\n```\nlampd -q\n```" in page.text


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (MAN, "lamp.1posix", "man"),
        (MAN, "lamp.de.man", "man"),
        ("A log without macros.\nThe .TH as a word, and no page.", "lamp.1", "text"),
        ("lamp 1.2 was released.\n", "lamp-1.2", "text"),
    ],
)
def test_a_page_is_known_by_its_name_and_first_macro(text, name, kind):
    assert read(text, name).kind == kind


def test_pages_of_this_machine():
    pages = sorted(Path("/usr/share/man").glob("man[1-8]/*.gz"))[::50]
    if not pages:
        pytest.skip("no manual pages here")
    for path in pages:
        data = gzip.decompress(path.read_bytes())
        if b"\n.SH" in data and b"\n.TH" in data[:4096]:
            page = load_bytes(path.read_bytes(), path.name, doc_id="page", path=path.name)
            assert page.kind == "man"
            assert "\\fB" not in page.text
            assert "\n.SH" not in page.text
