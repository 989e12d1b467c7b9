import inspect
import re
import threading
from dataclasses import FrozenInstanceError
from datetime import datetime

import numpy as np
import pytest

from lmkrag import Document, Engine, LandmarkEncoder
from lmkrag.errors import IndexMismatch, IndexNotFound, ReaderError, UsageError
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.sentences.split import split_sentences

QUESTIONS = {
    "How long must the lamp burn before the wick is trimmed?": (
        "lighthouse-handbook.md",
        "burned for four hours",
    ),
    "Why was nobody lost when the wave reached the village?": (
        "glass-river.txt",
        "rung the church bell",
    ),
    "What comes first if the money is not enough?": (
        "reports/viaduct-inspection.pdf",
        "scour protection comes first",
    ),
    "On which days are bonfires allowed?": (
        "reports/allotment-minutes.docx",
        "first Sunday of November",
    ),
    "How much honey does a colony need for the winter?": ("beekeeping.html", "15 kilograms"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_format_answers_its_question(engine, question):
    doc_id, words = QUESTIONS[question]
    best = engine.search(question, top_k=3)
    assert best[0].doc_id == doc_id
    assert words in " ".join(" ".join(span.text for span in best).split())


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("level", ["span", "sentence", "document"])
def test_spans_are_exact_ordered_and_apart(engine, question, mode, level):
    spans = engine.search(question, top_k=6, mode=mode, level=level)
    assert 1 <= len(spans) <= 6
    for span in spans:
        assert engine.read(span.doc_id)[span.start : span.end] == span.text
        assert span.text.strip()
        assert level == "document" or span.text == span.text.strip()
        assert span.hits
        assert (span.page is not None) == span.doc_id.endswith(".pdf")
    assert [span.score for span in spans] == sorted((span.score for span in spans), reverse=True)
    for i, one in enumerate(spans):
        for other in spans[i + 1 :]:
            assert one.doc_id != other.doc_id or one.end <= other.start or other.end <= one.start


def test_pages_are_those_of_the_pdf(engine):
    spans = engine.search(
        "coping stones moved by frost, cost of resetting them", top_k=8, filter="kind=pdf"
    )
    text = engine.read("reports/viaduct-inspection.pdf")
    for span in spans:
        later = [text.index("Findings"), text.index("Recommendations and cost")]
        assert span.page == 1 + sum(span.start >= start for start in later)
    assert {span.page for span in spans} >= {2, 3}


def test_top_is_the_number_of_spans_after_merging(engine):
    for top in (1, 2, 5, 10):
        assert len(engine.search("the water of the river", top_k=top)) == top


def test_a_budget_is_kept_and_used(engine):
    for budget in (5, 50, 500, 2_000):
        spans = engine.search("the water of the river", max_tokens=budget)
        used = sum(engine.encoders.encoder.count_tokens(span.text) for span in spans)
        assert budget * (0.5 if budget < 500 else 0.9) <= used <= budget


def test_a_budget_alone_means_as_many_spans_as_fit(engine):
    every = engine.search("the water of the river", max_tokens=100_000)
    assert len(every) > 64
    assert {span.doc_id for span in every} == {document.doc_id for document in engine.documents()}
    assert len(engine.search("the water of the river", max_tokens=100_000, top_k=70)) == 70


def test_a_reader_gets_what_the_budget_holds(engine):
    few, many = (
        engine.ask("Who keeps the lamp?", context_tokens=budget).spans for budget in (300, 1_500)
    )
    count = engine.encoders.encoder.count_tokens
    assert 225 <= sum(count(span.text) for span in few) <= 300
    assert 1_350 <= sum(count(span.text) for span in many) <= 1_500


def test_an_answer_has_what_the_search_finds_in_its_order(engine):
    for options in ({}, {"top_k": 3}, {"filter": "kind=pdf"}, {"rerank": False}, {"mode": "dense"}):
        spans = engine.search("Who keeps the lamp?", **options)
        answer = engine.ask("Who keeps the lamp?", **options)
        assert list(answer.spans) == spans
        assert [citation.span for citation in answer.citations] == spans[: len(answer.citations)]


@pytest.mark.parametrize("budget", [150, 200, 1_000, 2_000, 4_000])
def test_a_context_counts_the_frames_of_its_spans(engine, budget):
    context = engine.build_context("Who keeps the lamp?", context_tokens=budget)
    assert context.tokens == engine.encoders.encoder.count_tokens(context.text)
    assert (0.8 if budget > 500 else 0.3) * budget < context.tokens <= budget
    assert len(context.spans) == context.text.count("<<<SPAN ")


def test_a_context_without_room_is_wrong_usage(engine):
    with pytest.raises(
        UsageError, match="10 tokens hold no span with its source: the best one takes"
    ):
        engine.build_context("Who keeps the lamp?", context_tokens=10)
    nothing = engine.build_context("Who keeps the lamp?", filter="kind=epub")
    assert (nothing.text, nothing.spans, nothing.tokens) == ("", (), 0)


def test_a_plain_context_counts_its_own_frames(tmp_path, encoder):
    text = "The keeper of the lamp is Mara Voss, who lights it an hour before dusk and trims it at midnight."
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(Document("lamp.txt", text=text))
        whole = engine.build_context("Who keeps the lamp?", layout="plain")
        again = engine.build_context(
            "Who keeps the lamp?", layout="plain", context_tokens=whole.tokens + 2
        )
        assert again.spans[0].text == whole.spans[0].text == text


def test_a_filter_with_wildcards_or_without_anything_removes_nothing_else(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        meta = {
            "author": "Jane",
            "tags": ["ferry"],
            "when": datetime(2024, 3, 1, 12),
            "year": 2024.0,
        }
        engine.add(
            [
                Document("a", text="The ferry leaves at seven.", meta=meta),
                Document("b", text="No author."),
            ]
        )
        for condition in ({}, "", "  ", [], {"author": []}):
            with pytest.raises(UsageError):
                engine.remove(filter=condition)
            with pytest.raises(UsageError):
                engine.remove(["a"], filter=condition)
        assert [info.doc_id for info in engine.documents(filter="not author=*")] == ["b"]
        for same in (
            {"when": datetime(2024, 3, 1, 12)},
            {"when": "2024-03"},
            {"year": 2024},
            {"Tags": "ferry"},
        ):
            assert [info.doc_id for info in engine.documents(filter=same)] == ["a"]
        assert engine.remove(filter="author=*") == 1
        assert [info.doc_id for info in engine.documents()] == ["b"]


def test_a_document_is_cut_to_what_was_found_in_it(engine):
    (span,) = engine.search(
        "What comes first if the money is not enough?", level="document", max_tokens=60
    )
    assert "scour protection comes first" in " ".join(span.text.split())
    assert engine.read(span.doc_id)[span.start : span.end] == span.text
    assert span.hits[0].start >= span.start


def test_documents_and_what_is_known_of_them(engine, corpus):
    every = engine.documents()
    assert [document.doc_id for document in every] == sorted(document.doc_id for document in every)
    assert len(every) == 5
    (pdf,) = engine.documents(filter="kind=pdf")
    assert (pdf.pages, pdf.root) == (3, str(corpus))
    handbook = engine.document("lighthouse-handbook.md")
    assert handbook.text == (corpus / "lighthouse-handbook.md").read_text()
    assert (handbook.meta["year"], handbook.kind, handbook.title) == (
        1911,
        "markdown",
        "Keeper's Handbook of Skerry Light",
    )
    (span,) = engine.search("the lamp", top_k=1, filter="kind=markdown")
    assert (span.title, span.kind, span.meta["year"]) == (handbook.title, "markdown", 1911)
    with pytest.raises(UsageError, match="no document 'x'"):
        engine.document("x")


def test_a_filter_finds_by_place_in_either_form(engine, corpus):
    one = str(corpus / "glass-river.txt")
    for expression in (
        "path=glass-*",
        f'path="{one}"',
        "PATH=GLASS-RIVER.TXT",
        f"path={one[:20]}*glass-river.txt",
    ):
        assert [document.doc_id for document in engine.documents(filter=expression)] == [
            "glass-river.txt"
        ]
    assert len(engine.documents(filter="path!=glass-*")) == 4
    assert [document.kind for document in engine.documents(filter="Author='Harbour Trust'")] == [
        "markdown"
    ]


def test_filters(engine):
    reports = ["reports/allotment-minutes.docx", "reports/viaduct-inspection.pdf"]
    assert (
        sorted({s.doc_id for s in engine.search("water", filter="path=reports/*", top_k=30)})
        == reports
    )
    assert {s.doc_id for s in engine.search("water", filter="year=1911")} == {
        "lighthouse-handbook.md"
    }
    assert engine.search("water", filter="kind=epub") == []
    with pytest.raises(UsageError, match="filter 'kind': an operator such as = is missing"):
        engine.search("water", filter="kind")


@pytest.mark.parametrize("query", ["?!", "\0", "\ud800", "日本語", "a" * 10_000, '" OR *'])
def test_odd_queries(engine, query):
    spans = engine.search(query, top_k=2)
    assert len(spans) == 2  # the nearest there are
    for span in spans:
        assert engine.read(span.doc_id)[span.start : span.end] == span.text


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"top_k": 0}, "top_k must be at least 1, not 0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"mode": "fuzzy"}, "mode 'fuzzy': use 'hybrid', 'dense' or 'lexical'"),
        ({"level": "page"}, "level 'page': use 'passage', 'span', 'sentence' or 'document'"),
    ],
)
def test_arguments_out_of_range(engine, how, message):
    with pytest.raises(UsageError, match=message):
        engine.search("x", **how)


def test_ask_cites_exact_places(engine):
    answer = engine.ask("How many turns of the crank wind the clockwork?")
    assert answer.found
    assert "62 turns" in answer.text
    for citation in answer.citations:
        assert engine.read(citation.span.doc_id)[citation.start : citation.end] == citation.quote
        assert answer.spans[citation.number - 1] == citation.span


def test_an_answer_prints_as_text_with_its_places(engine):
    answer = engine.ask("How far have the coping stones moved?")
    said, _, places = str(answer).rpartition("\n\n")
    assert said == answer.text
    place = places.splitlines()[0]
    assert (
        place == f"[1] {answer.citations[0].place}" == "[1] reports/viaduct-inspection.pdf, page 2"
    )
    refused = engine.ask("boiling point of tungsten hexafluoride?", abstain_below=0.3)
    assert str(refused) == "Nothing in these documents answers this."
    assert repr(engine).startswith("Engine('")


def test_words_alone_need_no_encoder_but_an_answer_does(index):
    with Engine.open(index) as engine:
        spans = engine.search("lamp wick", mode="lexical")
        assert engine.encoders._encoder is None
        assert engine.encoders._light is None
        assert all(hit.lexical > 0 == hit.dense for hit in spans[0].hits)
        assert engine.ask(
            "How long must the lamp burn before the wick is trimmed?", mode="lexical"
        ).found
        assert (
            engine.ask(
                "Who won the league of the burning lamp in basketball?", mode="lexical"
            ).label
            != "strong"
        )


class Fussy(ExtractiveReader):
    """A reader of somebody's own, which fails at one question."""

    def answer(self, question, spans):
        if "lamp" in question:
            raise ReaderError("no lamps")
        return super().answer(question, spans)


def test_ask_many_goes_on_after_a_question_that_the_reader_fails_at(engine):
    questions = ["who approves leave?", "what does the lamp show?", "who approves leave?"]
    first, failed, last = engine.ask_many(questions, reader=Fussy())
    assert isinstance(failed, ReaderError) and str(failed) == "no lamps"
    assert first == last == engine.ask(questions[0])
    with pytest.raises(ReaderError, match="no lamps"):
        engine.ask(questions[1], reader=Fussy())


def test_ask_says_when_nothing_answers(engine):
    answer = engine.ask("What is the boiling point of tungsten hexafluoride?")
    assert (answer.found, answer.label) == (False, "weak")
    assert answer.text.startswith("Probably not in these documents. Closest:")
    other = engine.ask("Wie hoch ist die Miete im Monat?")
    assert "which are in another language than the question" in other.text


def test_values_are_frozen(engine):
    (span,) = engine.search("lamp", top_k=1)
    with pytest.raises(FrozenInstanceError):
        span.start = 0


def test_a_question_that_names_a_document_is_about_it(tmp_path, encoder):
    text = "The fee is paid at the gate. Children under six pay nothing. Dogs must be on a lead."
    names = {"a": "Elm Park", "b": "Harbour Museum", "c": "", "d": "Rules"}
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document(doc_id, doc_id, text, title=title) for doc_id, title in names.items()])
        for mode in ("hybrid", "lexical"):
            for doc_id, title in names.items():
                if title:
                    found = engine.search(
                        f"{title}: what do children under six pay?",
                        top_k=4,
                        level="sentence",
                        mode=mode,
                    )
                    assert found[0].doc_id == doc_id
                    assert "nothing" in found[0].text
        plain = engine.search("who pays nothing?", top_k=4, level="sentence", mode="lexical")
        assert len({round(span.score, 5) for span in plain}) == 1
        engine.add(Document("a", "a", text, title="Town Hall"))
        assert engine.search("Town Hall: who pays nothing?", level="sentence")[0].doc_id == "a"
        assert engine.search("Elm Park: who pays nothing?", mode="dense", top_k=4)


def test_a_heading_is_found_with_what_it_heads(tmp_path, encoder):
    text = (
        "# The club\n\nWe meet on Fridays in the old mill.\n\n## How to join\n\nSend a card to the secretary. "
        "The fee is nine shillings.\n\n## Boats\n\n| boat | oars |\n|------|------|\n| Ida | four |\n\n"
        "These are under repair until the spring:\n\n- Ruth\n- Eleanor\n"
    )
    outline = "# Rowing in winter\n\n## Ice on the slipway\n\n## Lamps for boats\n"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document("club", "club", text), Document("outline", "outline", outline)])
        for level in ("span", "sentence"):
            for query in ("How to join", "the club", "boats and oars"):
                for span in engine.search(query, top_k=20, level=level, filter="path=club"):
                    lines = [line for line in span.text.splitlines() if line]
                    assert not lines[-1].startswith(("#", "|--")), (level, query, span.text)
        (repair,) = engine.search("What is under repair until the spring?", top_k=1, level="span")
        assert repair.text == "These are under repair until the spring:\n\n- Ruth"
        assert "Send a card" in engine.search("How do I join?", top_k=1)[0].text
        assert (
            engine.search("ice on the slipway", top_k=1, level="span")[0].text
            == "## Ice on the slipway"
        )


def test_a_heading_without_markup_is_found_with_what_it_heads(tmp_path, encoder):
    text = (
        "QUESTIONS TO THE LIBRARY\n\nHow do I get a new card?\n\nBring a photograph to the desk. It takes a minute.\n\n"
        "How long may I keep a book?\n\nFour weeks, unless another reader waits for it.\n\nRenewals\n\n"
        "Three are possible. Ask by telephone."
    )
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document("faq", "faq", text)])
        for question, answer in (
            ("How do I get a new card?", "Bring a photograph"),
            ("How long may I keep a book?", "Four weeks"),
            ("Renewals", "Three are possible"),
        ):
            for level in ("span", "sentence"):
                (best,) = engine.search(question, top_k=1, level=level)
                assert answer in best.text, (question, level)


def test_a_question_is_found_with_its_answer(tmp_path, encoder):
    text = (
        "Q: How do I join the club?\nA: Send a card to the secretary.\n\n"
        "Q: What does a boat cost?\nA: Nine shillings an hour, oars included.\n"
    )
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document("club", "club", text)])
        assert "Nine shillings" in engine.search("What does a boat cost?", top_k=1)[0].text
        assert "a card" in engine.search("How do I join the club?", top_k=1)[0].text


def test_titles_are_in_the_vectors(tmp_path, encoder):
    """What tells two leases of the same text apart is what they are called; a new name makes new vectors."""
    text = "The deposit is two months' rent. It is due when the keys are handed over. Pets need a letter from the owner."
    question = "How much is the deposit at Beech Mill?"
    with Engine.open(tmp_path / "ix", create=True, encoder=encoder) as engine:
        for alder, beech in (("a", "b"), ("b", "a")):
            engine.add([Document(alder, alder, text, title="Lease of Alder Cottage")])
            engine.add([Document(beech, beech, text, title="Lease of Beech Mill")])
            best, *_ = engine.search(question, mode="dense")
            assert best.doc_id == beech


def test_documents_as_values(engine):
    text = "The ferry to Inchmore leaves at nine. It carries bicycles free of charge."
    report = engine.add(
        [
            Document("memo:1", "notion://1", text, meta={"team": "ops"}),
            Document("memo:2", "x", "\ufeff  "),
        ]
    )
    assert (report.added, [s.reason for s in report.skipped]) == (1, ["no text in it"])
    (span,) = engine.search("when does the ferry leave?", top_k=1, filter="team=ops")
    assert (span.doc_id, span.path) == ("memo:1", "notion://1")
    assert text[span.start : span.end] == span.text
    assert engine.add(Document("memo:1", "notion://1", text, meta={"team": "ops"})).unchanged == 1
    assert engine.add(Document("memo:1", "notion://1", text, meta={"team": "sea"})).updated == 1
    assert engine.search("ferry", top_k=1, filter="team=sea")[0].doc_id == "memo:1"
    twice = [Document("memo:3", "x", "One text."), Document("memo:3", "y", "Another text.")]
    report = engine.add(twice)
    assert (report.added, report.skipped[0].reason) == (
        1,
        "another document of this run has this doc_id",
    )
    assert engine.read("memo:3") == "One text."
    assert engine.verify() == ()


def test_incremental_indexing(tmp_path, encoder):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("The mill was built in 1801.")
    (docs / "b.md").write_text("The bridge was painted green.")
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        assert engine.add(docs).added == 2
        again = engine.add(docs)
        assert (again.added, again.unchanged, again.sentences) == (0, 2, 0)
        (docs / "a.md").write_text("The mill was built in 1803, not before.")
        (docs / "b.md").unlink()
        (docs / "c.md").write_text("The church has two bells.")
        report = engine.add(docs)
        assert (report.added, report.updated, report.removed) == (1, 1, 0)
        assert "1803" in engine.read("a.md")
        assert engine.search("bridge", top_k=1)[0].doc_id == "b.md"
        assert engine.add(docs, prune=True).removed == 1
        with pytest.raises(UsageError, match=r"no document 'b\.md'"):
            engine.read("b.md")
        assert {span.doc_id for span in engine.search("painted green bridge", top_k=5)} == {
            "a.md",
            "c.md",
        }
        engine.compact()
        assert engine.status().dead == 0
        assert engine.verify() == ()


def test_an_index_inside_its_corpus_is_not_read(tmp_path, encoder):
    (tmp_path / "a.md").write_text("The mill was built in 1801.")
    with Engine.open(tmp_path / "indexes" / "default", create=True, encoder=encoder) as engine:
        report = engine.add(tmp_path)
        assert (report.added, report.skipped) == (1, ())


def test_two_files_of_one_name(tmp_path, encoder):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"This is {name}.")
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        report = engine.add([tmp_path / "one", tmp_path / "two"])
        assert (report.added, report.skipped) == (2, ())
        assert engine.read("one/README.md") == "This is one."
        assert engine.read("two/README.md") == "This is two."
        again = engine.add([tmp_path / "two", tmp_path / "one"])
        assert (again.added, again.unchanged) == (0, 2)
        assert engine.add(tmp_path).unchanged == 2


def test_the_same_content_in_another_order_gives_the_same_index(corpus, tmp_path, encoder):
    documents = [Document(p.name, p.name, p.read_text()) for p in sorted(corpus.glob("*.*"))]
    engines = []
    for number, order in enumerate((documents, documents[::-1])):
        engines.append(
            Engine.open(tmp_path / str(number), create=True, encoder=encoder, rerank=False)
        )
        for document in order:
            engines[-1].add(document)
    for question in QUESTIONS:
        one, two = (engine.search(question, top_k=5) for engine in engines)
        assert [(s.doc_id, s.start, s.end) for s in one] == [
            (s.doc_id, s.start, s.end) for s in two
        ]
        np.testing.assert_allclose([s.score for s in one], [s.score for s in two], atol=0.02)


def test_opening(tmp_path, built_index, encoder):
    with pytest.raises(IndexNotFound, match="no index here"):
        Engine.open(tmp_path / "none")
    with pytest.raises(UsageError, match="made with recipe 'auto'"):
        Engine.open(built_index, recipe="flat")
    with pytest.raises(UsageError, match="unknown recipe 'nope'"):
        Engine.open(tmp_path / "new", create=True, recipe="nope", encoder=encoder)
    other = LandmarkEncoder.load(window=100)
    with pytest.raises(IndexMismatch, match="made with encoder 'landmark-mini'"):
        Engine.open(built_index, encoder=other)
    with pytest.raises(UsageError, match="add paths or documents, not both"):
        Engine.open(built_index).add(["x", Document("a", "a", "b")])


def test_a_shipped_encoder_reads_each_token_once(tmp_path, encoder, corpus):
    text = (corpus / "glass-river.txt").read_text()
    half = LandmarkEncoder.load(overlap=0.5)
    path = tmp_path / "index"
    with Engine.open(path, create=True) as engine:
        engine.add(Document("a", "a", text))
        single = engine.encoders.encoder
    windows = [list(reader.windows(text, split_sentences(text))) for reader in (single, half)]
    assert len(windows[0]) < 0.7 * len(windows[1])
    assert all(window.first == window.own_first for window, _ in windows[0])
    for how in ({}, {"encoder": "landmark-mini"}, {"encoder": single}, {"encoder": encoder}):
        with Engine.open(path, **how) as engine:
            assert engine.encoders.encoder.spec.overlap == 0.0
            engine.add(Document("b", "b", "The heron waits."))
            assert engine.search("Who waits?", top_k=1)[0].doc_id == "b"
    with Engine.open(tmp_path / "half", create=True, encoder=half) as engine:
        engine.add(Document("a", "a", text))
    with Engine.open(tmp_path / "half") as engine:
        assert engine.encoders.encoder.spec.overlap == 0.5


def test_threads_search_at_once(engine):
    expected = {question: engine.search(question, top_k=3) for question in QUESTIONS}
    failures = []

    def work():
        for question, spans in expected.items():
            found = engine.search(question, top_k=3)
            if [(s.doc_id, s.start) for s in found] != [(s.doc_id, s.start) for s in spans]:
                failures.append(question)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


class Counted:
    """Counts the windows that an encoder's model reads."""

    def __init__(self, encoder, monkeypatch):
        self.windows = 0
        inner = encoder.model.read

        def read(windows, titles, *, exact):
            self.windows += len(windows)
            return inner(windows, titles, exact=exact)

        monkeypatch.setattr(encoder.model, "read", read)


def vectors_of(engine, doc_id):
    with engine._store.reader.snapshot() as snapshot:
        row = snapshot.find_document(doc_id)
        return snapshot.read_vectors(
            np.arange(row.first_sentence, row.first_sentence + row.sentences)
        )


def test_copies_are_encoded_once(encoder, corpus, tmp_path, monkeypatch):
    text = (corpus / "glass-river.txt").read_text("utf-8")
    folder = tmp_path / "docs"

    def write(names, text):
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / "LICENCE.txt").write_text(text, "utf-8")

    counted = Counted(encoder, monkeypatch)
    write("a", text)
    with Engine.open(tmp_path / "one", create=True, encoder=encoder) as engine:
        engine.add(folder)
    alone, counted.windows = counted.windows, 0
    write("b", text)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(folder)
        assert counted.windows == alone  # in one run
        write("c", text)
        assert engine.add(folder).added == 1
        assert counted.windows == alone  # in a later one
        first, *others = (vectors_of(engine, f"{name}/LICENCE.txt") for name in "abc")
        for other in others:
            np.testing.assert_array_equal(first, other)
        write(
            "abc", "Nobody sails alone."
        )  # all that had the words have others now, and a new file has them
        write("d", text)
        engine.add(folder)
        assert engine.verify() == ()
        np.testing.assert_allclose(vectors_of(engine, "d/LICENCE.txt"), first, atol=2e-3)


def test_an_edit_encodes_only_the_windows_near_it(encoder, corpus, tmp_path, monkeypatch):
    chapters = [
        (corpus / name).read_text("utf-8") for name in ("glass-river.txt", "lighthouse-handbook.md")
    ]
    articles = (" the ", " that ")  # no window is a copy of another
    text = "\n\n".join(
        chapter.replace(" the ", article) for article in articles for chapter in chapters
    )
    middle = text.index("\n\n", len(text) // 2) + 2
    path = tmp_path / "long.txt"
    path.write_text(text, "utf-8")
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        counted = Counted(encoder, monkeypatch)
        engine.add(path)
        every, counted.windows = counted.windows, 0
        edited = (
            text[:middle]
            + "The harbour cat, Marmalade, was struck by lightning in 1907.\n\n"
            + text[middle:]
        )
        path.write_text(edited, "utf-8")
        assert engine.add(path).updated == 1
        assert 1 <= counted.windows <= 10 < every
        counted.windows = 0
        path.write_text(edited + "\n\nA last line: the log goes on.\n", "utf-8")
        assert engine.add(path).updated == 1
        assert 1 <= counted.windows <= 2
        assert engine.verify() == ()
        assert (
            "Marmalade" in engine.search("which animal was struck by lightning?", top_k=1)[0].text
        )
        with Engine.open(tmp_path / "fresh", create=True, encoder=encoder) as fresh:
            fresh.add(path)
            with engine._store.reader.snapshot() as ours, fresh._store.reader.snapshot() as theirs:
                assert engine.read("long.txt") == fresh.read("long.txt")
                assert ours.documents.sentences == theirs.documents.sentences
                mine = ours.read_vectors(np.arange(ours.documents.first[0], ours.documents.stop[0]))
                other = theirs.read_vectors(
                    np.arange(theirs.documents.first[0], theirs.documents.stop[0])
                )
            assert (mine * other).sum(1).min() > 0.999


def test_texts_are_added_as_people_begin(tmp_path, encoder):
    texts = ["The ferry leaves at nine.", "The museum opens at ten.", "The ferry leaves at nine."]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        assert engine.add(Document(text=text) for text in texts).added == 2
        assert engine.add(Document(text=texts[0])).unchanged == 1
        engine.add(
            [
                Document("a", text=texts[0], meta={"year": 2023}),
                Document("b", text=texts[1], meta={"year": 2024, "place": "Bergen"}),
            ]
        )
        assert [info.doc_id for info in engine.documents(filter={"year": [2023, 2024]})] == [
            "a",
            "b",
        ]
        assert [span.doc_id for span in engine.search("ferry", filter={"year": 2023})] == ["a"]
        assert not engine.search("ferry", filter={"year": 2024, "place": "Oslo"})
        assert engine.search("ferry", filter={}) == engine.search("ferry")
        for wrong in ({"": 1}, {"year": None}, {1: 2}):
            with pytest.raises(UsageError):
                engine.search("ferry", filter=wrong)
        assert engine.remove(filter={"place": "Bergen"}) == 1
        assert engine.remove(filter="year=1900") == 0
        for both_or_neither in ({}, {"doc_ids": "a", "filter": "year=2023"}):
            with pytest.raises(UsageError, match="by their ids, or by a filter"):
                engine.remove(**both_or_neither)


def test_a_citation_prints_as_one_line(engine):
    (citation, *_) = engine.ask("who approves leave?").citations
    assert repr(citation).startswith(f"<Citation [1] {citation.place}: '")
    assert "\n" not in repr(citation)
    assert len(repr(citation)) < 200


def test_the_docstring_of_a_search_lists_its_options():
    options = [
        name
        for name, parameter in inspect.signature(Engine.search).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    listed = re.findall(r"``(\w+)``", Engine.search.__doc__.split("Returns:")[0])
    assert set(listed) == set(options)
