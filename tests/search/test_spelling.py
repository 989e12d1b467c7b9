"""One wrong letter in a word of a question costs nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.language.spelling import near_words

TEXTS = {
    "yard.txt": "The shipyard paints each hull twice. Bitumen is brought up from the cellar.",
    "tide.txt": "The pilot boat returns with the tide. Its skipper is Halvorsen, model VX-1007.",
    "share.txt": "Every partner gets a share of the catch, and the cook gets half of one. All files "
    "stay there at night.",
    "hafen.txt": "Die Hafenmeisterei öffnet um sieben Uhr. Der Schlüssel hängt neben der Treppe. "
    "Wer ihn nimmt, trägt sich in das Buch ein und gibt ihn am selben Tag zurück.",
    "порт.txt": "Ключ от склада хранится у сторожа. Баржа уходит в среду. "
    "Тот, кто берёт ключ, записывает своё имя в журнал и возвращает его вечером того же дня.",
}

ODD = {  # words that no language has, each near to one that a language has
    "zamek.txt": "Gracz wraca do zamku; zabać i weaść to błędy w druku.",
    "misprint.txt": "A nickness is what nobody has, and soliders stand in no other text.",
    "druck.txt": "Der Homen gehört dem Konnern, und jeder Schlüssel hängt neben der Treppe.",
}


@pytest.fixture(scope="module")
def harbour(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("harbour") / "index"
    with Engine.open(path, create=True, encoder=encoder, rerank=False) as engine:
        engine.add([Document(name, name, text) for name, text in TEXTS.items()])
        yield engine


@pytest.mark.parametrize(
    ("question", "written", "read", "doc_id"),
    [
        pytest.param("who paints the shipyrad", "shipyrad", "shipyard", "yard.txt", id="exchanged"),
        pytest.param("where is the bitumn?", "bitumn", "bitumen", "yard.txt", id="missing"),
        pytest.param("skippper of the boat", "skippper", "skipper", "tide.txt", id="one too many"),
        pytest.param("Who is Halvorsem?", "Halvorsem", "halvorsen", "tide.txt", id="a name"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_a_wrong_letter_is_mended_and_told(harbour, question, written, read, doc_id, mode):
    found = harbour.search(question, mode=mode, explain=True)
    assert found[0].doc_id == doc_id
    assert found.notes == (f'no document has "{written}": "{read}" is searched for',)
    right = harbour.search(question.replace(written, read), mode=mode, explain=True)
    assert [span.explanation for span in found] == [span.explanation for span in right]


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("who paints the hull twice?", id="all words are known"),
        pytest.param("painting of hulls", id="in another form"),
        pytest.param("what fixes the hull?", id="a form of a common word, near to files"),
        pytest.param("Wer darf nicht allein an die Leiter?", id="another language"),
        pytest.param("is there any shade on deck?", id="a word of the language, near to share"),
        pytest.param("what does model VX-1107 do?", id="a code"),
        pytest.param("hulk", id="a short word"),
        pytest.param("Who is Pirot?", id="a short name"),
        pytest.param('"shipyrad" of the skipper', id="quoted"),
        pytest.param("the hull -shipyrad", id="excluded"),
        pytest.param("shipYrad", id="capitals inside"),
        pytest.param("/home/shipyrad/list", id="a path"),
        pytest.param("zyqqxwvut", id="near to nothing"),
        pytest.param("x" * 5_000, id="endless"),
    ],
)
def test_what_stays(harbour, question):
    assert harbour.search(question).notes == ()


def test_no_more_than_four_words_are_mended(harbour):
    found = harbour.search("shipyrad bitumn skippper halvorsem catsh partnre")
    assert len(found.notes) == 4


@pytest.fixture(scope="module")
def hafen(tmp_path_factory):
    path, encoder = tmp_path_factory.mktemp("hafen") / "index", "landmark-multilingual"
    with Engine.open(path, create=True, encoder=encoder, rerank=False) as engine:
        engine.add([Document(name, name, text) for name, text in {**TEXTS, **ODD}.items()])
        yield engine


@pytest.mark.parametrize(
    ("question", "written", "read", "doc_id"),
    [
        pytest.param("Schlpssel Treppe", "Schlpssel", "schlussel", "hafen.txt", id="an umlaut"),
        pytest.param("где хранится слкада", "слкада", "склада", "порт.txt", id="Cyrillic"),
    ],
)
def test_a_wrong_letter_is_mended_in_other_languages(hafen, question, written, read, doc_id):
    found = hafen.search(question)
    assert found[0].doc_id == doc_id
    assert found.notes == (f'no document has "{written}": "{read}" is searched for',)


@pytest.mark.parametrize(
    "question",
    [
        "Czy mogę zabrać skarb i wejść do zamku?",
        "Which soldiers died of sickness?",
        "Wo soll ich ihn für den Konzern holen?",
    ],
)
def test_a_right_word_stays_in_every_language(hafen, question):
    assert hafen.search(question).notes == ()


@pytest.fixture(scope="module")
def yards(encoder, tmp_path_factory):
    texts = {
        "a.txt": "Die Stellplätze für Fahrräder liegen hinter dem Haus. Wer einen davon braucht, "
        "fragt den Verwalter oder schreibt ihm einen Brief.",
        "b.txt": "Die Garage öffnet um sechs. Im Keller stehen die Tonnen, und der Garten gehört "
        "allen, die in diesem Haus wohnen und ihn pflegen.",
        "c.txt": "Eine Liste aller Versicherungen: Das Haus ist gegen Feuer versichert, die Leitung "
        "gegen Frost, und was darin steht, gegen Diebe.",
    }
    path = tmp_path_factory.mktemp("yards") / "index"
    with Engine.open(path, create=True, encoder=encoder, rerank=False) as engine:
        engine.add([Document(name, name, text) for name, text in texts.items()])
        yield engine


@pytest.mark.parametrize(
    ("question", "doc_id", "words"),
    [
        ("Fahrradstellplatz", "a.txt", ("stellplätze", "fahrräder")),
        ("Versicherungsliste", "c.txt", ("liste", "versicherungen")),
    ],
)
def test_parts_of_a_compound_are_words_of_a_question(yards, question, doc_id, words):
    span = yards.search(question, mode="lexical", explain=True)[0]
    assert span.doc_id == doc_id
    assert set(words) <= set(span.explanation.words)


@pytest.mark.parametrize("question", ["Fahrradxyzabc", "Fahr", "Hausxyz"])
def test_a_word_with_an_unknown_part_is_not_divided(yards, question):
    assert not yards.search(question, mode="lexical")


def test_what_was_removed_is_no_longer_known(encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        assert engine.search("shipyrad").notes == ()
        engine.add([Document(name, name, text) for name, text in TEXTS.items()])
        engine.add(Document("odd", "odd", "A shipyrad is what nobody has."))
        assert engine.search("shipyrad").notes == ()
        engine.remove("odd")
        assert engine.search("shipyrad").notes != ()


def test_an_answer_tells_it(harbour):
    answer = harbour.ask("Which colour does the shipyrad paint each hull twice with?")
    assert answer.warnings[0] == 'no document has "shipyrad": "shipyard" is searched for'


@given(st.text(alphabet="abcxyzäß", min_size=1, max_size=8))
def test_a_word_is_near_to_those_that_are_near_to_it(word):
    for other in near_words(word):
        assert abs(len(other) - len(word)) <= 1
        if other and set(word) <= set("abcxyz"):
            assert word in near_words(other)
