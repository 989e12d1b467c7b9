"""What counts as one word, however it is written."""

import pytest

from lmkrag.language.terms import find_words, hash_forms, hash_words, query_words, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Café CAFÉ cafe\u0301", ["cafe", "cafe", "cafe"]),
        ("\ufb01le \uff26ull", ["file", "full"]),
        ("dam\u00adpers \ufeffstart word\u2060joiner", ["dampers", "start", "wordjoiner"]),
        ("zero\u200bwidth no\u00a0break", ["zero", "width", "no", "break"]),
        (
            "VX-1007 well-known v2.1",
            ["vx", "1007", "vx-1007", "well", "known", "v2", "1", "v2.1", "2.1"],
        ),
        ("大桥 opened", ["大", "桥", "opened"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("", []),
    ],
)
def test_words(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("language", "text", "asked"),
    [
        ("de", "Die Häuser am Hafen.", "Haus"),
        ("es", "Los empleados cobraban tarde.", "cobrar"),
        ("fi", "Taloissa asuu kolme perhettä.", "talo"),
        ("hu", "A házakban három család él.", "ház"),
        ("pl", "Regulamin urlopów pracowniczych.", "urlop"),
        ("ru", "Список договоров аренды.", "договор"),
        ("el", "Οι συμβάσεις των εργαζομένων.", "σύμβαση"),
    ],
)
def test_words_are_stemmed_in_the_language_of_their_text(language, text, asked):
    words = set(hash_words(text, language).tolist())
    assert words & set(query_words(asked, [language]).tolist())
    assert not set(hash_words(text).tolist()) & set(query_words(asked).tolist()), (
        "English rules find it, too"
    )
    assert find_words(text, query_words(asked, [language]).tolist(), [language])


def test_a_question_keeps_its_english_stems_in_any_index():
    asked = "Who approves the leases?"
    assert set(query_words(asked).tolist()) < set(query_words(asked, ["de", "ru"]).tolist())


def test_texts_without_spaces_are_compared_by_groups_of_characters():
    thai = set(hash_words("ภาษาไทยเป็นภาษาราชการของประเทศไทย").tolist())
    assert set(query_words("ภาษาราชการ").tolist()) <= thai
    assert not set(query_words("โรงพยาบาล").tolist()) & thai
    chinese = set(hash_words("东边的北京人口").tolist())
    assert set(query_words("北京").tolist()) <= chinese
    assert (
        not set(query_words("东京").tolist()) <= chinese
    )  # both characters are there, but not together


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("getUserById", "get user by id"),
        ("HTTPServer", "http server"),
        ("MyURLParser", "my url parser"),
        ("parse_XMLFile", "parse xml file"),
    ],
)
def test_identifiers_are_divided_in_source_code(identifier, words):
    assert set(hash_words(words).tolist()) <= set(
        hash_words(f"x = {identifier}(y)", "code").tolist()
    )
    assert set(query_words(identifier, ["code"]).tolist()) & set(
        hash_words(words.split()[-1]).tolist()
    )
    assert (
        hash_words(f"The word {identifier}.", "en").tolist()
        != hash_words(f"The word {identifier}.", "code").tolist()
    )
    for word in ("plain", "Camel", "UPPER", "snake_case"):
        assert hash_words(word, "en").tolist() == hash_words(word, "code").tolist()


TEXT = "Die Häuser am Hafen; les maisons, the houses. 東京の getUserById VX-1007 ภาษาไทย Договоров"


@pytest.mark.parametrize(
    "languages", [[], ["code"], ["de"], ["de", "fr", "ru", "nb", "nn"], ["code", "tr", "en"]]
)
def test_forms_are_the_words_of_all_languages(languages):
    words = [hash_words(TEXT, language).tolist() for language in ("en", *languages)]
    assert hash_forms(TEXT, languages) == set().union(*words)
