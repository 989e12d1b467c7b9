"""Numbers and dates are found however they are written."""

import time

import pytest

from lmkrag.language.dates import find_days
from lmkrag.language.keys import add_fiscal_years, find_exact_words, find_keys, holds
from lmkrag.language.quantities import add_spellings, find_numbers, respell


@pytest.mark.parametrize(
    "asked",
    [
        "1,250,000",
        "1.250.000",
        "1 250 000",
        "1\u00a0250\u202f000".replace("\u202f", "\u00a0"),
        "1250000",
        "1'250'000",
    ],
)
@pytest.mark.parametrize(
    "told",
    ["1,250,000", "1.250.000", "1 250 000", "1\u202f250\u202f000", "1250000", "1,250,000.00"],
)
def test_a_number_is_one_number_however_it_is_grouped(asked, told):
    (key,) = find_keys(f"What cost {asked} euros?")
    assert key == asked
    assert holds(f"The dredging cost {told} euros.", key)
    assert not holds("The dredging cost 1,250,001 euros, 250,000 of them in 2024.", key)


DATES = [
    "3 January 2024",
    "January 3, 2024",
    "Jan 3 2024",
    "3rd of January 2024",
    "2024-01-03",
    "2024/1/3",
    "03/01/2024",
    "3.1.2024",
]
DATES += ["3. Januar 2024", "3 janvier 2024", "3 de enero de 2024", "01/03/2024", "3.1.24"]


@pytest.mark.parametrize("asked", [*DATES, "January 3"])
@pytest.mark.parametrize("told", DATES)
def test_a_day_is_one_day_however_it_is_written(asked, told):
    assert find_exact_words(f"What was the high tide on {asked}?") == (asked,)
    assert find_keys(f"What was the high tide on {asked}?") == (asked,)
    assert holds(f"The tide of {told} was high.", asked)
    assert not holds("The tide of 2024-01-04 was high, and so was that of 4 January 2024.", asked)


def test_words_that_are_no_dates_and_numbers_that_are_others():
    assert find_keys("how many boats may 12 crews use?") == ("12",)
    assert not holds("on 3 January 2023", "3 January 2024")
    assert not holds("The rent is 480 euros.", "2 480")
    assert find_keys("What happened on 32.13.2024?") == ("32.13.2024",)


def test_find_exact_words_by_example():
    assert find_exact_words(
        'Which release dropped 4.1, and how many B-7 does "steam pump" need?'
    ) == (
        "steam pump",
        "4.1",
        "B-7",
    )


def test_spaces_after_a_quotation_mark_take_no_time():
    began = time.monotonic()
    assert find_exact_words('"' + " " * 9_000 + "x") == ()
    assert time.monotonic() - began < 1
    assert find_exact_words('Who called it "  the old\u00a0lamp "?') == ("the old\u00a0lamp",)


def test_find_keys_by_example():
    assert find_keys("In 2021, what did Ann pay for B-7?") == ("B-7", "2021", "Ann")


def test_add_fiscal_years_by_example():
    assert add_fiscal_years("What was the FY23 capex?") == "What was the FY23 2023 capex?"


def test_holds_by_example():
    assert (
        holds("B-77 and 4.10", "B-7"),
        holds("see 4.1.", "4.1"),
        holds("the apples", "Apple"),
    ) == (
        False,
        True,
        True,
    )
    assert (
        holds("v2.0.13 | go1.25", "2.0.13"),
        holds("in 2.0.13", "v2.0.13"),
        holds("v2.0.13", "2.0.1"),
    ) == (
        True,
        True,
        False,
    )
    assert (holds("The exit code is 1.", "code 1"), holds("lock 7, closed in 2019", "lock 9")) == (
        True,
        False,
    )
    assert (
        holds("on 2024-01-03", "January 3, 2024"),
        holds("cost 1.250.000 euros", "1,250,000"),
    ) == (True, True)


def test_find_days_by_example():
    assert [
        (written, [str(day.month) for day in sorted(days)])
        for written, days in find_days("Jan. 3, 2024 or 05.02.24")
    ] == [("05.02.24", ["2", "5"]), ("Jan. 3, 2024", ["1"])]


def test_find_numbers_by_example():
    assert [*find_numbers("1,250,000 or 1.250,50 or 2 480 of 4 in 2024")] == [
        ("1,250,000", "1250000"),
        ("1.250,50", "1250.5"),
        ("2 480", "2480"),
        ("2024", "2024"),
    ]


def test_add_spellings_by_example():
    assert (
        add_spellings("Who paid 1,250 on 3 May 2024?")
        == "Who paid 1,250 on 3 May 2024? 2024-05-03 1250"
    )


def test_respell_by_example():
    assert (
        respell(
            "What cost 1250000 euros on 2025-05-12?",
            "On 12 May 2025 the crane was bought for 1,250,000 euros.",
        )
        == "What cost 1,250,000 euros on 12 May 2025?"
    )
