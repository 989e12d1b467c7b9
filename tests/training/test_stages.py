import numpy as np
import pytest

from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import TrainingError, UsageError
from lmkrag.training.settings import ModelSettings, SetSettings, StageSettings
from lmkrag.training.steps import TrainingSet
from lmkrag.training.student import create_student, load_student
from lmkrag.training.trainer import StageData


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    create_student(ModelSettings(), folder)
    tokenizer = load_student(folder).tokenizer.backend_tokenizer
    return SentenceTokenizer(tokenizer, window=64, landmark="<LMK>", title_tokens=8)


@pytest.fixture(scope="module")
def data(sample_set, tokens):
    return TrainingSet(sample_set, tokens)


def stage_data(data, tokens, task, **changes):
    chosen = SetSettings("sample", task, documents=2, within=changes.pop("within", False))
    stage = StageSettings("one", [chosen], steps=8, tokens=256, windows=[48, 64], **changes)
    return StageData(stage, [data], tokens, seed=1)


def test_evidence_lies_in_the_sentences_it_is_located_in(data):
    for index, question in enumerate(data.questions):
        document = data.document(question.document)
        ((first, stop),) = data.evidence(index)
        (start, end) = question.spans[0]
        assert document.starts[first] <= start < document.ends[first]
        assert document.starts[stop - 1] < end <= document.ends[stop - 1]


@pytest.mark.parametrize("task", ["pairs", "shuffled", "documents"])
def test_a_step_is_sound(data, tokens, task):
    steps = stage_data(data, tokens, task)
    assert len(steps) == 8
    for step in (steps[i] for i in range(8)):
        questions, sentences = step.weights.shape
        assert step.questions.count == questions
        assert step.windows.count == sentences
        assert step.windows.input_ids.shape[1] <= 64 + 2
        assert np.allclose(step.weights.sum(1), 1)
        assert not (step.candidate & (step.weights > 0)).any()
        assert step.same[step.weights > 0].all()
        # Every sentence ends in its landmark.
        assert int(step.windows.is_landmark.sum()) == sentences


@pytest.mark.parametrize("task", ["pairs", "shuffled", "documents"])
def test_a_thorough_teacher_reads_the_same_sentences_in_windows_of_three_lengths(
    data, tokens, task
):
    steps = stage_data(data, tokens, task, thorough=True, titles=1.0)
    plain = stage_data(data, tokens, task, titles=1.0)
    divided = 0
    for step, other in ((steps[i], plain[i]) for i in range(8)):
        whole, halves, quarters = step.taught
        assert np.array_equal(whole.input_ids, other.windows.input_ids)
        assert np.array_equal(halves.input_ids, step.windows.input_ids)
        for batch in step.taught:
            tokens_of = [
                batch.input_ids[batch.owner == sentence].tolist() for sentence in range(batch.count)
            ]
            assert tokens_of == [
                whole.input_ids[whole.owner == sentence].tolist()
                for sentence in range(other.windows.count)
            ]
        divided += len(whole.input_ids) < len(halves.input_ids) < len(quarters.input_ids)
    assert divided or task == "pairs"  # which are short here


def test_what_a_set_teaches_is_left_to_its_own_labels(data, tokens):
    stage = StageSettings(
        "one", [SetSettings("sample", "documents", taught=False)], steps=1, windows=[64]
    )
    assert not StageData(stage, [data], tokens, seed=1)[0].is_taught
    assert stage_data(data, tokens, "documents")[0].is_taught


def test_source_code_is_read_in_groups_of_lines(tokens, write_set, tmp_path):
    text = "def opens():\n    return 9\n\n\ndef shuts():\n    return 17\n"
    documents = [{"doc_id": "gate.py", "title": "gate", "text": text, "kind": "code"}]
    queries = [
        {
            "query_id": "1",
            "query": "When does it shut?",
            "doc_id": "gate.py",
            "spans": [[28, len(text)]],
        }
    ]
    data = TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)
    assert len(data.document(0).ids) == 1


def test_the_end_of_a_span_weighs_most(data, tokens):
    steps = stage_data(data, tokens, "documents", alpha=0.5)
    several = 0
    for step in (steps[i] for i in range(8)):
        for row in step.weights.numpy():
            weights = row[row > 0]
            several += len(weights) > 1
            assert (np.diff(weights) > 0).all()
            assert np.allclose(weights[1:] / weights[:-1], np.exp(0.5))
    assert several


def test_steps_are_a_function_of_the_seed_and_their_number(data, tokens):
    one, two = stage_data(data, tokens, "documents"), stage_data(data, tokens, "documents")
    assert np.array_equal(one[5].windows.input_ids, two[5].windows.input_ids)
    assert np.array_equal(one[5].weights, two[5].weights)
    assert not np.array_equal(one[4].weights, one[5].weights)


def test_within_a_document_other_documents_are_no_negatives(data, tokens):
    steps = stage_data(data, tokens, "documents", within=True)
    across = stage_data(data, tokens, "documents")
    for index in range(4):
        assert not (steps[index].candidate & ~steps[index].same).any()
        assert steps[index].mixing == 1.0
    assert any((across[i].candidate & ~across[i].same).any() for i in range(4))


def test_titles_stand_before_windows_and_are_no_sentences(data, tokens):
    titles = {tuple(title) for title in data.titles}
    assert all(titles)
    steps = stage_data(data, tokens, "documents", titles=1.0)
    for step in (steps[i] for i in range(8)):
        assert step.windows.input_ids.shape[1] <= 64 + 2
        assert int(step.windows.is_landmark.sum()) == step.windows.count
        for ids, owner in zip(
            step.windows.input_ids.tolist(), step.windows.owner.tolist(), strict=True
        ):
            first = next(i for i, sentence in enumerate(owner) if sentence < step.windows.count)
            assert tuple(ids[1:first]) in titles
    without = stage_data(data, tokens, "documents", titles=0.0)[0].windows
    assert (without.owner[:, 1] < without.count).all()


def test_documents_asked_the_same_are_no_negatives(tokens, write_set, tmp_path):
    text = "The gate opens at nine. The gate shuts at noon. Dogs stay out."
    documents = [
        {"doc_id": name, "title": "", "text": f"{name} park. {text} {name} is old."}
        for name in "ab"
    ]
    queries = [
        {"query_id": name, "query": "When does it open?", "doc_id": name, "spans": [[8, 31]]}
        for name in "ab"
    ]
    data = TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)
    step = stage_data(data, tokens, "documents")[0]
    assert not (step.candidate & ~step.same).any()
    assert (step.candidate & step.same).any()


def test_a_set_without_evidence(tokens, write_set, tmp_path):
    documents = [{"doc_id": "a", "title": "", "text": "Nothing."}]
    queries = [{"query_id": "1", "query": "What?", "doc_id": "a", "spans": []}]
    with pytest.raises(UsageError, match="no question has evidence"):
        TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)


def test_a_span_outside_its_document(tokens, write_set, tmp_path):
    documents = [{"doc_id": "a", "title": "", "text": "Nothing."}]
    queries = [{"query_id": "1", "query": "What?", "doc_id": "a", "spans": [[0, 99]]}]
    with pytest.raises(UsageError, match="'1' has a span outside its document"):
        TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)


def test_a_sentence_longer_than_the_windows_is_passed_over(tokens, write_set, tmp_path):
    text = "The gate opens at nine. " + "word " * 58 + "ends. It shuts at noon."
    queries = [
        {"query_id": "1", "query": "What ends?", "doc_id": "a", "spans": [[24, 320]]},
        {
            "query_id": "2",
            "query": "When does it shut?",
            "doc_id": "a",
            "spans": [[len(text) - 18, len(text)]],
        },
    ]
    documents = [{"doc_id": "a", "title": "", "text": text}]
    data = TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)
    chosen = SetSettings("sample", "documents")
    steps = StageData(
        StageSettings("one", [chosen], steps=4, tokens=64, windows=[32]), [data], tokens, seed=0
    )
    for index in range(4):
        assert steps[index].windows.input_ids.shape[1] <= 34


def test_a_set_with_nothing_to_tell_apart_is_refused(tokens, write_set, tmp_path):
    queries = [{"query_id": "1", "query": "What ends?", "doc_id": "a", "spans": [[0, 9]]}]
    documents = [{"doc_id": "a", "title": "", "text": "word " * 58 + "ends."}]
    data = TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)
    chosen = SetSettings("sample", "documents")
    steps = StageData(
        StageSettings("one", [chosen], steps=4, tokens=64, windows=[32]), [data], tokens, seed=0
    )
    with pytest.raises(TrainingError, match="'one': 100 tries"):
        steps[0]


def test_far_from_its_end_evidence_is_still_evidence(tokens, write_set, tmp_path):
    text = " ".join(f"Rule {number} holds here." for number in range(60))
    documents = [{"doc_id": "a", "title": "", "text": text}]
    queries = [
        {
            "query_id": "1",
            "query": "Which rules hold?",
            "doc_id": "a",
            "spans": [[0, len(text) - 60]],
        }
    ]
    data = TrainingSet(write_set(tmp_path / "set", documents, queries), tokens)
    chosen = [SetSettings("sample", "documents")]
    stage = StageSettings("one", chosen, steps=6, tokens=128, windows=[64], alpha=9.0, titles=0.0)
    steps = StageData(stage, [data], tokens, seed=0)
    for step in (steps[index] for index in range(6)):
        assert np.isfinite(step.weights.numpy()).all()
        assert np.allclose(step.weights.sum(1), 1)
        assert int((step.weights > 0).sum()) > 5
