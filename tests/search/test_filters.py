import contextlib
from datetime import date, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.errors import UsageError
from lmkrag.index.columns import fields_of
from lmkrag.search.filters import parse_filter, quote, to_expression

FIELDS = {
    "path": "docs/a b.md",
    "kind": "pdf",
    "year": 1911,
    "tags": ["x", "y"],
    "author": 'Jane "J" Roe',
    "date": "2020-03-01",
    "name": "a[1].md",
    "draft": True,
    "reviewer": "jane",
    "empty": "",
    "nothing": ["", None, []],
    "score": 2024.0,
}


def keeps(expression, fields):
    return bool(parse_filter(expression)(lambda key, test: np.array(test(fields.get(key)))))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("kind=pdf", True),
        ("kind=PDF", True),
        ("kind!=pdf", False),
        ("path=docs/*", True),
        ("path=*.txt", False),
        ('path="docs/*"', False),
        ("path='docs/a b.md'", True),
        ("year>=1911 and year<2000", True),
        ("year<900", False),
        ("date>2019-12-31", True),
        ("tags=y", True),
        ("tags=z", False),
        ("missing=x", False),
        ("missing!=x", True),
        ("missing<3", False),
        ('author="Jane \\"J\\" Roe"', True),
        ("not kind=pdf", False),
        ("not (kind=md or kind=html) and year=1911", True),
        ("kind=md or kind=html or kind=pdf", True),
        ("kind=md and kind=pdf or year=1911", True),
        ("name=a[1].md", True),
        ("name=*[1]*", True),
        ("name=a1.md", False),
        ("KIND=pdf and Year>=1911", True),
        ("draft=true", True),
        ('draft="true"', True),
        ("draft!=true", False),
        ("reviewer>=JAN and reviewer<K", True),
        ('reviewer>"JAN"', True),
        ("tags>=Y", True),
        ("kind in (docx, PDF)", True),
        ("kind in (docx,html)", False),
        ("kind not in (docx, html) and year=1911", True),
        ("not kind in (docx, pdf)", False),
        ('author in ("Jane \\"J\\" Roe", someone)', True),
        ("kind in (p*)", True),
        ("tags in (y, z)", True),
        ("date=2020", True),
        ("date=2020-03", True),
        ("date=2020-04", False),
        ("date<=2020-03", True),
        ("date<2020-03", False),
        ("date>2020", False),
        ("date>=2020 and date<2021", True),
        ("date in (2019, 2020)", True),
        ('date="2020"', False),
        ("author=*", True),
        ("tags=*", True),
        ("draft=*", True),
        ("missing=*", False),
        ("not missing=*", True),
        ("missing=**", False),
        ("missing in (x, *)", False),
        ('missing=""', False),
        ("empty=*", False),
        ('empty=""', True),
        ("nothing=*", False),
        ("year=1911.0", True),
        ("score=2024", True),
        ("score=2024.0", True),
        ("score=2024.5", False),
    ],
)
def test_meaning(expression, expected):
    assert keeps(expression, FIELDS) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("path=manuals", True),
        ("path=manuals/", True),
        ("path=manuals/pumps", True),
        ('path="manuals/pumps"', True),
        ("path=/srv/docs/manuals", True),
        ("path=man", False),
        ("path=pumps", False),
        ("path in (letters, manuals)", True),
        ("path!=manuals", False),
        ("path=manuals/pumps/p*.md", True),
        ("modified=2024-02", True),
        ("modified>=2024-02-29 and modified<2024-03", True),
        ("modified>2024-02", False),
    ],
)
def test_folders_and_dates_of_documents(expression, expected):
    row = SimpleNamespace(
        doc_id="manuals/pumps/p-3.md",
        path="/srv/docs/manuals/pumps/p-3.md",
        title="P-3",
        kind="markdown",
        root="/srv/docs",
        meta={},
        mtime_ns=1_709_208_000_000_000_000,  # 29 February 2024
    )
    assert keeps(expression, fields_of(row)) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "it ends too early"),
        ("kind", "an operator such as = is missing after 'kind'"),
        ("kind=", "it ends too early"),
        ("kind pdf", "an operator such as = is missing after 'kind'"),
        ("kind=pdf and year (2020)", "an operator such as = is missing after 'year'"),
        ("=pdf x", "expected: key operator value"),
        ("(kind=pdf", r"a '\)' is missing"),
        ("kind=pdf)", r"'\)' is not expected"),
        ("kind=pdf year=3", "'year' is not expected"),
        ('kind="pdf', "can't be read at character 6"),
        ("kind in pdf", r"expected a list after 'in'"),
        ("kind in ()", "the list is empty"),
        ("kind in (pdf", "it ends too early"),
        ("kind in (pdf = 3)", "'=' is not expected in a list"),
        ("kind not pdf", "expected 'in' after 'not'"),
        ("(" * 100 + "a=b" + ")" * 100, "nested too deeply"),
    ],
)
def test_mistakes_are_explained(expression, message):
    with pytest.raises(UsageError, match=message):
        parse_filter(expression)


@given(st.text())
def test_any_text_is_parsed_or_refused(expression):
    with contextlib.suppress(UsageError):
        keeps(expression, FIELDS)


@given(st.text())
def test_a_quoted_value_is_exact(value):
    assert keeps(f"key={quote(value)}", {"key": value})
    assert not keeps(f"key={quote(value)}", {"key": value + "x"})


def test_patterns_are_bounded_and_end_soon():
    assert not keeps("title=" + "*a" * 400 + "b", {"title": "a" * 5_000})
    assert keeps("title=" + "*a" * 400 + "?", {"title": "a" * 5_000})
    with pytest.raises(UsageError, match="a value with wildcards has at most 1,000 characters"):
        parse_filter("title=" + "*a" * 600)
    assert keeps("title=" + "a" * 5_000, {"title": "A" * 5_000})
    assert keeps("title=[x]*", {"title": "[X]y"})
    assert keeps("n>5", {"n": 10**400}) in (True, False)


def test_to_expression_by_example():
    assert (
        to_expression({"kind": "pdf", "year": [2023, 2024]})
        == 'kind="pdf" and year in (2023, 2024)'
    )
    assert to_expression({"Last Modified": "x", "in": 1}) == '"Last Modified"="x" and "in"="1"'
    assert to_expression({"doc_id": "2024-03"}) == 'doc_id="2024-03"'  # a name is no date
    for wrong in ({"": 1}, {1: 1}, {"kind": None}, {"kind": []}, {"kind": {}}):
        with pytest.raises(UsageError):
            to_expression(wrong)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("2024-03", "2024-03-01"),
        (date(2024, 3, 1), "2024-03-01T09:00:00"),
        (datetime(2024, 3, 1, 12), "2024-03-01T12:00:00"),
        (2024, 2024.0),
        (2024.0, 2024),
        (3, 3.0),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (True, True),
        ([5, np.int64(2024)], 2024),
    ],
)
def test_a_mapping_compares_values_as_they_are_stored(value, stored):
    assert keeps(to_expression({"key": value}), {"key": stored})
    assert not keeps(to_expression({"key": value}), {"key": "other"})
