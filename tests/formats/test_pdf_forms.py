"""PDFs whose forms draw each other: those that can't be drawn to an end are refused by the memory they take."""

import zlib

import pytest

from lmkrag.errors import DocumentError
from lmkrag.formats.isolated import IsolatedLoader


def form(draws: str, resources: str = "", *, packed: bool = False, text: str = "") -> bytes:
    """A form with a text that draws others by their names, which its resources have."""
    content = f"{f'BT /A 12 Tf 10 30 Td ({text}) Tj ET ' if text else ''}{draws}".encode()
    content = zlib.compress(content) if packed else content
    filters = "/Filter /FlateDecode " if packed else ""
    head = f"<</Type/XObject/Subtype/Form/BBox[0 0 200 200]{resources}{filters}/Length {len(content)}>>"
    return head.encode() + b"stream\n" + content + b"\nendstream"


def write(*forms: bytes, others: tuple[bytes, ...] = ()) -> bytes:
    """A PDF of a page that draws the first form, /F10; forms are objects from 10 on, others from 30 on."""
    names = " ".join(f"/F{10 + number} {10 + number} 0 R" for number in range(len(forms)))
    font = "/Font<</A<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    content = "BT /A 12 Tf 10 10 Td (lamp light) Tj ET /F10 Do"
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources 5 0 R>>",
        4: f"<</Length {len(content)}>>stream\n{content}\nendstream".encode(),
        5: f"<</XObject<<{names}>>{font}>>".encode(),
        **dict(enumerate(forms, 10)),
        **dict(enumerate(others, 30)),
    }
    body = b"".join(b"%d 0 obj%s endobj\n" % each for each in objects.items())
    return b"%PDF-1.5\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF"


OWN, SHARED = "/Resources<</XObject<</F10 10 0 R/F11 11 0 R>>>>", "/Resources 5 0 R"


@pytest.fixture(scope="module")
def loader():
    with IsolatedLoader() as loader:
        yield loader


@pytest.mark.parametrize(
    "forms",
    [
        pytest.param([form("/F10 Do /F10 Do", OWN, packed=True)], id="itself"),
        pytest.param([form("/F11 Do /F11 Do", OWN), form("/F10 Do", OWN)], id="by turns"),
        pytest.param(
            [
                *(
                    form("/N Do " * 10, f"/Resources<</XObject<</N {11 + number} 0 R>>>>")
                    for number in range(9)
                ),
                form(""),
            ],
            id="a thousand million times, not in a circle",
        ),
    ],
)
def test_forms_that_are_drawn_too_often_are_refused(tmp_path, loader, forms):
    path = tmp_path / "x.pdf"
    path.write_bytes(write(*forms))
    with pytest.raises(DocumentError, match="broken PDF") as raised:
        loader.load(path, "x.pdf")
    assert raised.value.lasting


def test_other_forms_are_read(tmp_path, loader):
    forms = [form("/F11 Do " * 50, OWN, packed=True), form("/Other Do", SHARED, text="at dusk")]
    (tmp_path / "x.pdf").write_bytes(write(*forms))
    assert "lamp light" in loader.load(tmp_path / "x.pdf", "x.pdf").text
