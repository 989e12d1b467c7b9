"""Documents are stemmed in their language, and questions in those of the index."""

import pytest

from lmkrag import Document, Engine
from lmkrag.language.languages import detect_language
from lmkrag.sentences.languages import document_language

GERMAN = """Die alten Häuser am Hafen wurden im Winter neu gedeckt. Der Hafenmeister prüft die Dächer jedes Jahr und
schreibt auf, was fehlt. Für die Boote gibt es einen Schuppen, der im Winter voll ist."""
RUSSIAN = """Список договоров аренды хранится у смотрителя маяка. Он проверяет лодки каждую весну и записывает всё, что
нужно починить. Летом сарай открыт, а зимой в нём стоят лодки и старые сети."""
ENGLISH = """The keeper of the lighthouse approves all leases and keeps a list of them in the office. The boats are
checked every spring, and whatever has to be repaired is written down. In summer the shed is open."""
CODE = "class SessionStore:\n    def refuseExpiredToken(self, token):\n        raise TokenExpired(token)\n"
TEXTS = {"de.txt": GERMAN, "ru.txt": RUSSIAN, "en.txt": ENGLISH, "store.py": CODE}
QUESTIONS = {
    "Haus am Hafen": "de.txt",
    "Dach": "de.txt",
    "договор": "ru.txt",
    "lease": "en.txt",
    "leases": "en.txt",
    "expired session": "store.py",
}


@pytest.mark.parametrize(
    ("text", "kind", "language"),
    [
        (GERMAN, "text", "de"),
        (RUSSIAN, "text", "ru"),
        (ENGLISH, "text", "en"),
        (GERMAN, "code", "code"),
        (GERMAN, "csv", "en"),
        ("Ort: Hafen | Bericht: " + " ".join(GERMAN.split() * 2), "csv", "de"),
        ("Ein kurzer Satz.", "text", "en"),
        ("", "text", "en"),
        ("7 " * 500, "text", "en"),
    ],
)
def test_the_language_of_a_document(text, kind, language):
    assert document_language(text, kind) == language


def test_words_are_found_by_the_rules_of_their_language(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        kinds = {name: "code" if name.endswith(".py") else "text" for name in TEXTS}
        engine.add([Document(name, name, text, kind=kinds[name]) for name, text in TEXTS.items()])

        def check():
            for question, doc_id in QUESTIONS.items():
                found = engine.search(question, mode="lexical", explain=True)
                assert [span.doc_id for span in found] == [doc_id], question
                assert found[0].explanation.words
                assert found[0].coverage > 0.9

        check()
        for number in range(12):  # until segments are merged
            engine.add(Document(f"{number}.txt", "", f"Buoy number {number} is painted red."))
        check()
        engine.compact()
        check()


def test_an_index_for_english_says_so_where_documents_are_not(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        assert engine.add(Document("en.txt", "", ENGLISH)).warnings == ()
        report = engine.add(
            [Document("de.txt", "", GERMAN), Document("code.py", "", CODE, kind="code")]
        )
        (warning,) = report.warnings
        assert warning.startswith("1 of 2 documents are not in English, which landmark-mini reads")


def test_detect_language_by_example():
    assert (
        detect_language("Das Boot ist rot und fährt nach Bergen."),
        detect_language("The boat is red."),
    ) == (
        "de",
        "en",
    )
