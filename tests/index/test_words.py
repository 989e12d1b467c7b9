"""What counts as one word, however it is written."""

import pytest

from lmkrag.index.words.terms import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Café CAFÉ cafe\u0301", ["cafe", "cafe", "cafe"]),
        ("\ufb01le \uff26ull", ["file", "full"]),
        ("dam\u00adpers \ufeffstart word\u2060joiner", ["dampers", "start", "wordjoiner"]),
        ("zero\u200bwidth no\u00a0break", ["zero", "width", "no", "break"]),
        ("VX-1007 well-known v2.1", ["vx", "1007", "vx-1007", "well", "known", "v2", "1", "v2.1"]),
        ("大桥 opened", ["大", "桥", "opened"]),
        ("", []),
    ],
)
def test_words(text, words):
    assert split_words(text) == words
