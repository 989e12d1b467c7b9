"""PDFs whose forms draw each other: those that PDFium could not draw to an end are refused before it begins."""

import time
import zlib

import pytest

from lmkrag.errors import DocumentError
from lmkrag.formats.pdf import read


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


@pytest.mark.parametrize(
    ("forms", "others"),
    [
        pytest.param([form("/F10 Do /F10 Do", OWN)], (), id="itself"),
        pytest.param([form("/F10 Do /F10 Do", OWN, packed=True)], (), id="itself, packed"),
        pytest.param([form("/F10 Do /F10 Do", SHARED)], (), id="by the resources of the page"),
        pytest.param(
            [form("/F10 Do /F10 Do", f"{OWN}/Filter/Odd")], (), id="packed in a way that is none"
        ),
        pytest.param([form("/F11 Do /F11 Do", OWN), form("/F10 Do", OWN)], (), id="by turns"),
        pytest.param(
            [form("/F10 Do /F10 Do", "/Resources 40 0 R")],
            (
                b"<</Type/ObjStm/N 1/First 5/Length 40>>stream\n40 0 <</XObject<</F10 10 0 R>>>>\nendstream",
            ),
            id="by resources that are packed",
        ),
        pytest.param(
            [
                *(
                    form("/N Do /N Do /N Do", f"/Resources<</XObject<</N {11 + number} 0 R>>>>")
                    for number in range(12)
                ),
                form(""),
            ],
            (),
            id="3^12 times, not in a circle",
        ),
    ],
)
def test_forms_that_are_drawn_too_often_are_refused(forms, others):
    began = time.process_time()
    with pytest.raises(
        DocumentError, match=r"broken PDF \(a form draws itself, or others too often\)"
    ):
        read(write(*forms, others=others), "x.pdf")
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "forms",
    [
        pytest.param([form("", text="at dusk")], id="a text"),
        pytest.param([form("/F11 Do", SHARED), form("", SHARED, text="at dusk")], id="another one"),
        pytest.param(
            [form("/F11 Do " * 50, OWN, packed=True), form("", text="at dusk")],
            id="another one often",
        ),
        pytest.param([form("/F10 Do", OWN, text="at dusk")], id="itself once, which PDFium ends"),
        pytest.param([form("/Other Do /Other Do", SHARED, text="at dusk")], id="what is not there"),
    ],
)
def test_other_forms_are_read(forms):
    assert "lamp light" in read(write(*forms), "x.pdf").text
