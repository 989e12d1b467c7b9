"""Numbers and dates are found however they are written."""

import pytest

from lmkrag.index.words.exact import find_exact_words, find_keys, holds


@pytest.mark.parametrize(
    "asked",
    ["1,250,000", "1.250.000", "1 250 000", "1\u00a0250\u202f000".replace("\u202f", "\u00a0"), "1250000", "1'250'000"],
)
@pytest.mark.parametrize(
    "told", ["1,250,000", "1.250.000", "1 250 000", "1\u202f250\u202f000", "1250000", "1,250,000.00"]
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
