"""`ask` in other languages than English, without a language model."""

import pytest

from lmkrag import Document, Engine
from lmkrag.language.languages import asks_in_english
from lmkrag.reranker.base import DEFAULT_RERANKER, MULTILINGUAL_RERANKER

TEXTS = {
    "urlaub": "Der Abteilungsleiter genehmigt den Urlaub. Anträge müssen vier Wochen vorher gestellt werden.",
    "faehre": "Die Fähre nach Norderney fährt im Winter dreimal am Tag. Die Überfahrt dauert 55 Minuten.",
    "phare": "Le phare fut construit en 1871. Sa lampe brûle de l'huile et doit être nettoyée chaque matin.",
    "灯台": "灯台は1871年に建てられた。ランプは毎朝掃除しなければならない。霧の日には鐘を鳴らす。",
    "маяк": "Маяк построили в 1871 году. Смотритель поднимается наверх каждый вечер и зажигает лампу.",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("languages") / "index"


@pytest.fixture(scope="module")
def engine(path):
    with Engine.open(path, create=True, encoder="landmark-multilingual") as opened:
        opened.add([Document(name, text=text) for name, text in TEXTS.items()])
        yield opened


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Wer genehmigt den Urlaub?", "Abteilungsleiter"),
        ("Wie lange dauert die Überfahrt?", "55 Minuten"),
        ("Quand le phare a-t-il été construit ?", "1871"),
        ("ランプはいつ掃除しますか？", "毎朝"),
        ("Кто зажигает лампу?", "Смотритель"),
    ],
)
def test_what_the_documents_answer_is_answered(engine, question, words):
    answer = engine.ask(question)
    assert answer.found
    assert words in answer.text
    assert answer.confidence is not None and answer.confidence > 0.3


def test_questions_of_other_languages_are_reranked_by_what_reads_them(engine, path):
    question = "Wie oft wird die Lampe gereinigt?"

    def scores(**options):
        return [span.score for span in engine.search(question, top_k=3, **options)]

    assert scores() == scores(rerank=True) != scores(rerank=False)
    with Engine.open(path, reranker=MULTILINGUAL_RERANKER) as named:
        assert [span.score for span in named.search(question, top_k=3)] == scores()
    with Engine.open(path, reranker=DEFAULT_RERANKER) as english:
        assert [span.score for span in english.search(question, top_k=3)] != scores()


@pytest.mark.parametrize(
    ("question", "is_english"),
    [
        ("Was kostet die Überfahrt nach Norderney?", False),
        ("In welchem Jahr wurde der Leuchtturm gebaut?", False),
        ("Will man die Lampe reinigen, was braucht man?", False),
        ("In quale anno fu costruito il faro?", False),
        ("On nettoie la lampe quand ?", False),
        ("Do kiedy kursuje prom?", False),
        ("Was the lamp cleaned?", True),
        ("In which year was the lighthouse built?", True),
        ("On Sundays, does the ferry leave later?", True),
        ("Is Keeper Roe still in office?", True),
        ("Who cleans the lamp?", True),
    ],
)
def test_words_that_begin_questions_in_several_languages(question, is_english):
    assert asks_in_english(question) is is_english


@pytest.mark.parametrize(
    "question",
    [
        "Was ist die Hauptstadt von Norwegen?",
        "Comment faire cuire un gâteau au chocolat ?",
        "株価はどうやって計算しますか？",
        "Сколько стоит билет в Большой театр?",
    ],
)
def test_what_is_about_something_else_is_refused(engine, question):
    answer = engine.ask(question)
    assert (answer.found, answer.label) == (False, "weak")
