"""Short pages of PDFs whose fonts have no table of characters: legible ones are read, others are left to OCR."""

import pytest

from lmkrag.formats.legible import is_legible
from lmkrag.formats.pdf import read


def write(text: str) -> bytes:
    """A PDF with a line in a font of drawings (Type 3), which says no characters but names of glyphs."""
    stream = f"BT /F1 14 Tf 60 260 Td ({text}) Tj ET"
    letters = sorted({letter for letter in text if letter.isalpha()})
    names = " ".join(f"{ord(letter)} /{letter}" for letter in letters)
    procedures = " ".join(f"/{letter} 6 0 R" for letter in [*letters, "space"])
    parts = [
        "1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj",
        "2 0 obj << /Type /Pages /Kids [3 0 R] /Count 1 >> endobj",
        "3 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 595 300] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >> endobj",
        f"4 0 obj << /Length {len(stream)} >> stream\n{stream}\nendstream endobj",
        "5 0 obj << /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [0.001 0 0 0.001 0 0] "
        f"/FirstChar 32 /LastChar 122 /Widths [{'500 ' * 91}] "
        f"/Encoding << /Differences [32 /space {names}] >> "
        f"/CharProcs << {procedures} >> /Resources << >> >> endobj",
        "6 0 obj << /Length 37 >> stream\n500 0 0 0 400 700 d1 0 0 400 700 re f\nendstream endobj",
    ]
    return ("%PDF-1.4\n" + "\n".join(parts) + "\ntrailer << /Root 1 0 R >>\n%%EOF").encode()


@pytest.mark.parametrize(
    "text", ["Berth certificate of the Kestrel", "KEY INVESTOR INFORMATION", "Arial"]
)
def test_a_short_page_is_read_if_its_letters_are_those_of_a_language(text):
    loaded = read(write(text), "a.pdf")
    assert (loaded.text, loaded.scanned) == (text, ())


def test_a_short_page_of_other_letters_is_left_to_ocr(monkeypatch):
    monkeypatch.setattr("lmkrag.formats.pdf.is_installed", lambda: True)
    loaded = read(write("Cfsui dfsujgjdbuf pg uif Lftusfm"), "a.pdf")
    assert (loaded.text, loaded.scanned) == ("", (1,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Výbava na přání", True),
        ("日本語のページです。印刷してください", True),
        ("Hello 日本語のページ", True),
        ("中国人民大会", True),
        ("Правила порта", True),
        ("7KH .HVWUHO PD\\ PRRU DW EHUWK", False),
        ("Ïðèâåò ìèð äîáðûé äåíü", False),
        ("仡佗侂儞 冝凊匸", False),
        ("Ωж日ก", False),
        ("12.50 40", False),
    ],
)
def test_letters_say_whether_a_text_is_legible(text, expected):
    assert is_legible(text) == expected
