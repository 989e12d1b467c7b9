"""Parts of mails: attachments with odd names or none, reports on delivery, calendars."""

import pytest

from lmkrag.formats.load import load_with_attachments

RECORDS = '[{"pier": "north", "depth": 7.5}, {"pier": "south", "depth": 4.2}]'


@pytest.fixture
def read(tmp_path):
    def read_parts(*parts: str, kind: str = "multipart/mixed"):
        body = "".join(f"--b1\r\n{part}\r\n" for part in parts)
        mail = "From: Ada <ada@example.org>\r\nSubject: Depths\r\nMIME-Version: 1.0\r\n"
        mail += f'Content-Type: {kind}; boundary="b1"\r\n\r\n{body}--b1--\r\n'
        path = tmp_path / "a.eml"
        path.write_bytes(mail.encode())
        return load_with_attachments(path, "a.eml")

    return read_parts


@pytest.mark.parametrize(
    ("kind", "name"), [("text/csv", "attachment.csv"), ("text/x-vcard", "attachment.vcf")]
)
def test_a_table_or_a_contact_without_a_name_is_an_attachment(read, kind, name):
    content = "BEGIN:VCARD\r\nFN:Ada\r\nEND:VCARD" if "card" in kind else "Name\r\nAda"
    loaded = read("Content-Type: text/plain\r\n\r\nSee.", f"Content-Type: {kind}\r\n\r\n{content}")
    assert [(each.doc_id, each.text) for each in loaded.attached] == [
        (f"a.eml/{name}", "Name: Ada")
    ]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("filename==?utf-8?B?VGllZmUgTcOkcnouanNvbg==?=", "Tiefe März.json"),
        (
            "\r\n filename==?utf-8?Q?Tiefe=20?=\r\n =?utf-8?Q?M=C3=A4rz.json?=; size=9",
            "Tiefe März.json",
        ),
        ("filename*=UTF-8''Tiefe%20[2].json", "Tiefe [2].json"),
        ("filename=x.bin; filename*=UTF-8'de'M%C3%A4rz%20(2).json", "März (2).json"),
        ("filename*=iso-8859-1''M%E4rz.json", "März.json"),
        ("filename=Tiefe (2), neu.json", "Tiefe (2), neu.json"),
        ("filename=März.json", "März.json"),
        ('filename="Tiefe [2]; neu.json"', "Tiefe [2]; neu.json"),
        ("filename*0*=UTF-8''M%C3%A4; filename*1*=rz.json", "März.json"),
        ("name=depth.json", "depth.json"),
        ("", "attachment.json"),
    ],
)
def test_an_attachment_is_read_whatever_its_name_looks_like(read, disposition, name):
    kind = "application/octet-stream" if disposition else "application/json"
    head = f"Content-Type: {kind}\r\nContent-Disposition: attachment; {disposition}\r\n\r\n"
    loaded = read("Content-Type: text/plain\r\n\r\nSee there.", head + RECORDS)
    (attached,) = loaded.attached
    assert (attached.doc_id, loaded.skipped) == (f"a.eml/{name}", [])
    assert "pier: south | depth: 4.2" in attached.text
    assert f"Attachments: {name}" in loaded.document.text


def test_attachments_without_names_are_read_by_their_types_or_reported(read):
    head = "Content-Type: {}\r\nContent-Disposition: attachment\r\n\r\n{}"
    loaded = read(
        head.format("text/csv", "pier,depth\r\nsouth,4.2\r\nnorth,7"),
        head.format("application/ics", "BEGIN:VEVENT\r\nSUMMARY:Dredging\r\nEND:VEVENT"),
        head.format("application/octet-stream", "\0\1"),
        head.format("text/plain", "A note."),
        head.format("application/pgp-signature", "x"),
        "Content-Type: image/png\r\n\r\nx",
    )
    assert [attached.doc_id for attached in loaded.attached] == [
        "a.eml/attachment.csv",
        "a.eml/attachment.ics",
    ]
    (skipped,) = loaded.skipped
    assert (skipped.path, skipped.reason) == ("a.eml/attachment.bin", "unsupported format (.bin)")
    assert "A note." in loaded.document.text


def test_a_bounce_says_to_whom_and_why(read):
    report = (
        "Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example.org\r\n\r\n"
        "Final-Recipient: rfc822; ben@example.net\r\nStatus: 5.1.1\r\n"
        "Diagnostic-Code: smtp; 550 no mailbox\r\n of that name\r\n"
    )
    shown = read("Content-Type: text/plain\r\n\r\nSorry.", report, kind="multipart/report").document
    assert "Final-Recipient: rfc822; ben@example.net\nStatus: 5.1.1" in shown.text
    assert "Diagnostic-Code: smtp; 550 no mailbox of that name" in shown.text


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("ada@example.org (Ada Quill)", "Ada Quill <ada@example.org>"),
        ("ada at example.org (Ada N. Quill)", '"Ada N. Quill" <"ada at example.org">'),
        ("Ada Quill <ada@example.org>", "Ada Quill <ada@example.org>"),
    ],
)
def test_a_name_behind_the_address_is_kept(tmp_path, header, shown):
    path = tmp_path / "a.eml"
    path.write_text(f"From: {header}\nDate: Wed, 5 Jan 2011 11:00:00 +0100 (CET)\n\nSee.\n")
    loaded = load_with_attachments(path, "a.eml").document
    assert loaded.meta == {"author": shown, "date": "2011-01-05"}
