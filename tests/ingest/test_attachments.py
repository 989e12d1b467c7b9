"""What is attached to mail is documents of their own, indexed, changed and removed with it."""

import mailbox
import os
from email.message import EmailMessage

import pytest

from lmkrag import Engine
from lmkrag.formats.load import load_with_attachments
from lmkrag.ingest import pipeline as encoding


def message(subject: str, **attached: bytes) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = (
        "Ruth Okafor <ruth@example.org>",
        "all@example.org",
        subject,
    )
    made.set_content(f"The list of {subject} is attached.")
    for name, data in attached.items():
        stem, _, suffix = name.rpartition("_")
        made.add_attachment(
            data, maintype="application", subtype="octet-stream", filename=f"{stem}.{suffix}"
        )
    return made


VALVES = b"Code,Pressure\nVX-1007,10 bar\nVX-1020,12 bar\n"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mail"
    folder.mkdir()
    return folder


@pytest.fixture
def mail(folder, tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        yield engine


def ids(engine) -> list[str]:
    return [info.doc_id for info in engine.documents()]


def test_attachments_are_documents(mail, folder):
    (folder / "valves.eml").write_bytes(
        message("valves", valves_csv=VALVES, photo_gif=b"GIF89a").as_bytes()
    )
    os.utime(folder / "valves.eml", (1_700_000_000, 1_700_000_000))  # long unchanged
    report = mail.add(folder)
    assert (report.added, [(one.path, one.reason) for one in report.skipped]) == (
        2,
        [("valves.eml/photo.gif", "unsupported format (.gif)")],
    )
    assert ids(mail) == ["valves.eml", "valves.eml/valves.csv"]
    (found, *_) = mail.search("pressure of VX-1007")
    assert (found.doc_id, found.path) == ("valves.eml/valves.csv", str(folder / "valves.eml"))
    assert "VX-1007" in found.text
    assert mail.search("pressure", filter="attached_to=valves.eml")
    again = mail.add(folder)
    assert (again.added, again.updated, again.unchanged) == (0, 0, 1)
    assert [one.path for one in again.skipped] == ["valves.eml/photo.gif"]  # still not in the index


def test_a_changed_mail_changes_its_attachments(mail, folder):
    file = folder / "valves.eml"
    file.write_bytes(
        message(
            "valves", valves_csv=VALVES, old_txt=b"An old note.", broken_pdf=b"%PDF-x"
        ).as_bytes()
    )
    assert mail.add(folder).added == 3
    file.write_bytes(
        message("pumps", valves_csv=VALVES, new_txt=b"A new note on rotors.").as_bytes()
    )
    report = mail.add(folder)
    assert (report.added, report.updated, report.unchanged, report.removed, report.skipped) == (
        1,
        1,
        1,
        1,
        (),
    )
    assert ids(mail) == ["valves.eml", "valves.eml/new.txt", "valves.eml/valves.csv"]
    assert not mail.verify()


def test_attachments_go_with_their_mail(mail, folder):
    for name in ("one", "two"):
        (folder / f"{name}.eml").write_bytes(
            message(name, valves_csv=VALVES, photo_gif=b"GIF89a").as_bytes()
        )
    mail.add(folder)
    mail.remove("one.eml")
    assert ids(mail) == ["two.eml", "two.eml/valves.csv"]
    (folder / "two.eml").unlink()
    report = mail.add(folder, prune="all")
    assert ids(mail) == ["one.eml", "one.eml/valves.csv"]
    assert [one.path for one in report.skipped] == ["one.eml/photo.gif"]


def test_what_is_skipped_inside_is_remembered_beside_other_folders(mail, folder, tmp_path):
    (folder / "valves.eml").write_bytes(message("valves", photo_gif=b"GIF89a").as_bytes())
    other = tmp_path / "notes"
    other.mkdir()
    (other / "a.txt").write_text("A note on rotors.")
    mail.add(folder)
    mail.add(other)
    assert [one.path for one in mail.add(folder).skipped] == ["valves.eml/photo.gif"]


@pytest.mark.parametrize("rows", [1, 16_384])
@pytest.mark.parametrize("stop", ["letter.eml/new.csv", "letter.eml"])
def test_a_changed_mail_and_its_attachments_are_one_commit(mail, folder, monkeypatch, rows, stop):
    """Interrupted after any document, the mail that was there is whole, its attachments with it."""
    path = folder / "letter.eml"
    path.write_bytes(message("winter", old_csv=VALVES, kept_csv=VALVES).as_bytes())
    (folder / "a.txt").write_text("A note that comes first.")
    mail.add(folder)
    before = {info.doc_id: info.fingerprint for info in mail.documents()}
    path.write_bytes(
        message("summer", new_csv=VALVES, kept_csv=VALVES + b"VX-1030,9 bar\n").as_bytes()
    )
    (folder / "a.txt").write_text("A note that comes first, changed.")
    monkeypatch.setattr(encoding, "_COMMIT_SENTENCES", 1)
    monkeypatch.setattr(encoding, "_SEGMENT_ROWS", rows)
    original = encoding._PendingCommit.extend

    def extend(self, item, part):
        original(self, item, part)
        if item.document.doc_id == stop:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(encoding._PendingCommit, "extend", extend)
        mail.add(folder)
    after = {info.doc_id: info.fingerprint for info in mail.documents()}
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"a.txt"}
    assert mail.verify() == ()
    report = mail.add(folder)
    assert (report.added, report.updated, report.removed) == (1, 2, 1)
    assert ids(mail) == ["a.txt", "letter.eml", "letter.eml/kept.csv", "letter.eml/new.csv"]
    assert mail.verify() == ()


def test_names_meet_and_mails_are_nested(folder):
    inner = message("inner", deep_txt=b"Deep water.").as_bytes()
    outer = message("outer", note_txt=b"One.", inner_eml=inner)
    outer.add_attachment(b"Two.", maintype="text", subtype="plain", filename="note.txt")
    outer.add_attachment(b"Three.", maintype="text", subtype="plain", filename="../up/note.txt")
    (folder / "outer.eml").write_bytes(outer.as_bytes())
    document, attached, skipped, _ = load_with_attachments(folder / "outer.eml", "outer.eml")
    assert [one.doc_id for one in attached] == [
        "outer.eml/note.txt",
        "outer.eml/inner.eml",
        "outer.eml/note (2).txt",
        "outer.eml/.._up_note.txt",
        "outer.eml/inner.eml/deep.txt",
    ]
    assert {one.meta["attached_to"] for one in attached} == {"outer.eml"}
    assert (document.doc_id, skipped) == ("outer.eml", [])


def test_a_mailbox_has_the_attachments_of_its_messages(mail, folder):
    box = mailbox.mbox(folder / "box.mbox")
    for subject in ("one", "two"):
        box.add(message(subject, valves_csv=VALVES))
    box.close()
    mail.add(folder)
    assert ids(mail) == ["box.mbox", "box.mbox/valves (2).csv", "box.mbox/valves.csv"]


def test_a_mail_in_a_folder_whose_name_is_not_utf8(mail, folder):
    inner = folder / os.fsdecode(b"bad\xff")
    inner.mkdir()
    (inner / "leave.eml").write_bytes(message("Leave", days_csv=b"Code,Days\nA-1,12\n").as_bytes())
    report = mail.add(inner)
    assert report.skipped == ()
    assert ids(mail) == ["leave.eml", "leave.eml/days.csv"]


def test_front_matter_is_no_attachment(mail, folder):
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text("---\nattached_to: notes\n---\nA note on rotors.")
    (folder / "notes" / "b.md").write_text("A note on seals.")
    mail.add(folder)
    assert mail.add(folder).unchanged == 2
    assert ids(mail) == ["notes/a.md", "notes/b.md"]
