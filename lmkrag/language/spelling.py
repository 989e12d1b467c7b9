"""Words that differ from another by one letter."""

from lmkrag.language.terms import fold

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяёєіїґ",
    "αβγδεζηθικλμνξοπρστυφχψως",
)
"""Letters that are tried in a word; those with marks count as those without."""


def near_words(word: str) -> set[str]:
    """Return all words that differ from a word in lower case by one letter.

    One letter is missing, one too many, one another, or two neighbours are exchanged (Damerau, "A
    technique for computer detection and correction of spelling errors", 1964). Words of scripts
    other than Latin, Cyrillic and Greek have none.
    """
    alphabet = next((letters for letters in _ALPHABETS if fold(word)[:1] in letters), "")
    near: set[str] = set()
    for place in range(len(word)):
        before, letter, after = word[:place], word[place], word[place + 1 :]
        near.add(before + after)
        near.add(before + after[:1] + letter + after[1:])
        for other in alphabet:
            near.add(before + other + after)
            near.add(before + other + letter + after)
    near.update(word + other for other in alphabet)
    return near - {word}
