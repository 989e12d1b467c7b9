"""Training a reader of passages for real, in miniature: mined, packed, trained, written, and read."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file
from tokenizers import Tokenizer
from torch import nn

from lmkrag import Document
from lmkrag.encoder.spec import find_model
from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.reranker.base import PlacedText
from lmkrag.reranker.passages import PassageReranker
from pipelines.train.loop import Loop
from pipelines.train.mine import Question, choose_documents, mine_questions, mine_set
from pipelines.train.mined import (
    ANSWERS,
    NO_ANSWER,
    NO_SHORT,
    UNKNOWN,
    Mined,
    Passage,
    read_mined,
    write_mined,
)
from pipelines.train.packs import Pack, PackWriter
from pipelines.train.passages import Passages, collate
from pipelines.train.reader import Reader, label_losses, read_start, teacher_losses
from pipelines.train.settings import Training, load_settings
from pipelines.train.train_upper import LowerLayers, Store

RECIPE = """
base = "landmark-mini"
start = "landmark-reranker-l12"
data = {data}
sets = [{{ path = "sample", strings = true }}]

[training]
questions = 3
passages = 4
steps = 1
learning_rate = 0.0

[upper]
trained = 2
questions = 2
passages = 3
epochs = 1
"""
QUESTION = "How often is the clockwork wound?"
TEXTS = [
    "It is wound every three hours. The lens is wiped with leather.",
    "Nobody sings at the lighthouse.",
]
CODES = Mined(
    "Which code has the lens?",
    (
        Passage(
            "Lens", ("The lens has the code XR-20, the lamp XR-4.",), (ANSWERS,), (0, 22, 27), 1
        ),
        Passage("Lamp", ("The lamp has the code XR-4.", " It is old."), (NO_ANSWER, UNKNOWN)),
        Passage("Lens", ("The lens is clear.",), (ANSWERS,), NO_SHORT, 0),
    ),
)


@pytest.fixture(scope="module")
def recipe(sample_set, tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "reader.toml"
    path.write_text(RECIPE.format(data=json.dumps(str(sample_set.parent))))
    return path


@pytest.fixture(scope="module")
def mined(recipe, run_module):
    folder = recipe.parent / "mined"
    run_module("mine", recipe, folder)
    return folder


@pytest.fixture(scope="module")
def coded(recipe):
    folder = recipe.parent / "codes"
    folder.mkdir()
    write_mined(folder / "codes-alike.jsonl.gz", [CODES] * 4)
    return folder


@pytest.fixture(scope="module")
def packed(recipe, mined, coded, run_module):
    path = recipe.parent / "passages.npz"
    run_module("pack_passages", recipe, mined, coded, path)
    return path


def test_passages_hold_the_evidence_and_near_misses(mined):
    questions = read_mined(mined / "sample.jsonl.gz")
    assert len(questions) >= 5
    for question, passages in questions:
        assert any(passage.answers for passage in passages), question
        for passage in passages:
            assert len(passage.sentences) == len(passage.labels)
            if passage.short:
                number, start, end = passage.short
                assert passage.labels[number] == ANSWERS
                assert 0 <= start < end <= len(passage.sentences[number])
    negatives = [
        passage for _, passages in questions for passage in passages if not passage.answers
    ]
    assert len(negatives) > len(questions)
    assert any(UNKNOWN in passage.labels for _, passages in questions for passage in passages)


def test_a_question_that_its_document_does_not_answer(recipe, write_set, tmp_path):
    text = "The lens is wiped with leather. The clockwork is wound every three hours. " * 3
    query = {"query_id": "1", "query": "Who wipes the lamp?", "doc_id": "lens", "spans": []}
    document = {"doc_id": "lens", "title": "Lens", "text": text}
    write_set(tmp_path / "unanswered", [document], [query])
    settings = replace(load_settings(recipe), data=str(tmp_path))
    ((question, passages),) = mine_set(settings, replace(settings.sets[0], path="unanswered"))
    assert question == "Who wipes the lamp?"
    assert passages and not any(passage.answers for passage in passages)


def test_a_passage_that_a_search_missed_has_the_place_of_the_others(monkeypatch):
    monkeypatch.setattr("pipelines.train.mine.RESULTS", 1)
    leave, wick = "The harbour master approves leave. ", "A wick is trimmed after four hours. "
    documents = [
        Document("leave", "leave", leave * 20, "Handbook"),
        Document("lamp", "lamp", wick * 3, "Lamp manual"),
    ]
    asked = Question("Who approves leave?", "lamp", [(0, len(wick))], ())
    ((_, passages),) = mine_questions(documents, [asked], "landmark-mini")
    assert [each.place for each in passages if not each.answers] == ["Handbook"]
    assert [each.place for each in passages if each.answers] == ["Lamp manual"]


def test_an_empty_document_among_those_with_written_questions(write_set, tmp_path):
    texts = {"lamp": "The lamp burns oil.", "blank": ""}
    documents = [{"doc_id": name, "text": text} for name, text in texts.items()]
    query = {"query_id": "1", "query": "What burns?", "doc_id": "lamp", "spans": [[0, 8]]}
    write_set(tmp_path, documents, [query])
    asked = Question("What burns?", "lamp", [(0, 8)], ())
    chosen = choose_documents(load_dataset(tmp_path), [asked])
    assert "lamp" in {document.doc_id for document in chosen}


def test_few_questions_of_few_documents(recipe):
    settings = load_settings(recipe)
    few = replace(settings.sets[0], questions=2, characters=1)
    questions = list(mine_set(settings, few))
    assert len(questions) == 2
    assert len({passage.place for _, passages in questions for passage in passages}) == 1


def test_written_questions_are_mined_but_for_those_of_held_documents(recipe, tmp_path, run_module):
    records: list[dict[str, Any]] = []
    for number in range(12):
        name, text = f"lamp-{number}.csv", f"lamp: Skerry {number} | watts: 1{number}"
        records.append(
            {"set": "tables", "doc_id": name, "title": name, "text": text, "kind": "csv"}
        )
        asked, short = (
            f"power of Skerry {number}",
            [text.index("watts: ") + len("watts: "), len(text)],
        )
        records.append(
            {
                "set": "tables",
                "doc_id": name,
                "question": asked,
                "spans": [[0, len(text)]],
                "short": short,
            }
        )
    path = tmp_path / "questions.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    run_module("mine", recipe, tmp_path / "learnt", "--written", path)
    run_module("mine", recipe, tmp_path / "held", "--written", path, "--held")
    learnt, held = (read_mined(tmp_path / name / "tables.jsonl.gz") for name in ("learnt", "held"))
    assert learnt and held
    assert {question for question, _ in learnt + held} == {
        f"power of Skerry {number}" for number in range(12)
    }
    for question, passages in learnt:
        (good,) = [passage for passage in passages if passage.answers]
        assert good.short is not None
        number, start, end = good.short
        assert good.sentences[number][start:end] == f"1{question.split()[-1]}"


def test_what_is_packed_reads_as_it_was_mined(packed):
    tokenizer = Tokenizer.from_file(str(find_model(None) / "tokenizer.json"))
    pack, data = Pack(packed), Passages(packed, Training(titles=0.0))
    question = int(np.flatnonzero(pack.column("question.set") == 1)[0])
    rng = np.random.default_rng(0)
    first = int(pack.starts("question.passages")[question])
    good, bad, whole = (data.row(question, passage, rng) for passage in range(first, first + 3))
    words = "which code has the lens? lens the lens has the code xr - 20, the lamp xr - 4."
    assert tokenizer.decode(good.tokens) == words  # with its place, as the name of the set asks for
    assert tokenizer.decode(good.tokens[good.ends[0] : good.ends[1] + 1]) == "xr - 20"
    assert tokenizer.decode(good.tokens[good.begin :]).startswith("lens the lens")
    second = [token for token, owner in zip(bad.tokens, bad.owners, strict=True) if owner == 1]
    assert tokenizer.decode(second) == "it is old."
    assert (good.labels, bad.labels, whole.labels) == ([ANSWERS], [NO_ANSWER, UNKNOWN], [ANSWERS])
    assert (bad.ends, whole.ends) == ((UNKNOWN, UNKNOWN), (0, 0))
    assert (good.complete, bad.complete, whole.complete) == (1, UNKNOWN, 0)
    mined = data.row(0, 0, rng)
    assert mined.owners[mined.begin] == 0  # no place
    short = Passages(packed, replace(Training(), passage_tokens=8)).row(question, first, rng)
    assert tokenizer.decode(short.tokens) == "which code has the lens? lens"


def test_a_step_is_a_function_of_its_number(packed):
    data = Passages(packed, Training(questions=3, passages=4))
    one, again, other = data.step(0), data.step(0), data.step(1)
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert one.ids.shape != other.ids.shape or not torch.equal(one.ids, other.ids)
    assert set(one.question.tolist()) == {0, 1, 2}


def test_settings_that_make_no_sense(recipe, tmp_path):
    path = tmp_path / "train.toml"
    for old, new, message in (
        ("steps = 1", "stepps = 1", "unknown key 'stepps'"),
        ("passages = 4", "passages = 1", "a step needs a question, and a question two passages"),
        ("questions = 3", "titles = 2.0", r"titles must be in \[0, 1\]"),
    ):
        path.write_text(recipe.read_text().replace(old, new))
        with pytest.raises(UsageError, match=message):
            load_settings(path)


def test_a_set_with_a_dot_in_its_name_has_its_weight(recipe, tmp_path, run_module):
    path, folder = tmp_path / "reader.toml", tmp_path / "mined"
    named = '{ path = "v1.1/codes", weight = 0.25 }'
    path.write_text(recipe.read_text().replace('{ path = "sample", strings = true }', named))
    folder.mkdir()
    write_mined(folder / "v1.1_codes.jsonl.gz", [CODES])
    run_module("pack_passages", path, folder, tmp_path / "pack.npz")
    (packed_set,) = Pack(tmp_path / "pack.npz").described["sets"]
    assert (packed_set["name"], packed_set["weight"]) == ("mined/v1.1_codes", 0.25)


@pytest.mark.parametrize(
    ("module", "option"),
    [
        ("train_upper", "--teacher"),
        ("train_upper", "--layers"),
        ("train_upper", "--packed"),
        ("train_upper", "--minutes"),
        ("train_upper", "--imitate"),
        ("train_passages", "--hard"),
        ("train_passages", "--epochs"),
    ],
)
def test_an_option_without_effect_is_refused(recipe, run_module, capsys, module, option):
    with pytest.raises(SystemExit):
        run_module(module, recipe, "passages.npz", "out", option, 1)
    assert f"unrecognized arguments: {option} 1" in capsys.readouterr().err


@pytest.mark.parametrize("trained", [0, 12])
def test_upper_layers_that_cannot_learn(recipe, packed, tmp_path, run_module, trained):
    with pytest.raises(UsageError, match=rf"\[upper\] trained: {trained} of the layers of .*-l12"):
        run_module("train_upper", recipe, packed, tmp_path / "out", "--trained", trained)
    assert not list(packed.parent.glob(f"{packed.stem}.*.states"))


def test_texts_are_packed_once(tmp_path):
    pack = PackWriter()
    one, two, again = (pack.add_text(tokens) for tokens in ([1, 2, 3], [70_000], [1, 2, 3]))
    assert one == again != two
    for text, words in ((two, 0), (one, 2)):
        pack.add_row("sentence", text=text, words=words)
    pack.save(tmp_path / "pack.npz", name="small")
    loaded = Pack(tmp_path / "pack.npz")
    assert loaded.described == {"name": "small"}
    assert [loaded.text(text) for text in loaded.column("sentence.text")] == [[70_000], [1, 2, 3]]
    assert loaded.starts("sentence.words").tolist() == [0, 0, 2]
    assert loaded.column("answer.first").tolist() == []


class Point(nn.Module):
    """One number, which is to be that of the step."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))

    def compute(self, step):
        return {"distance": (self.value - step).pow(2).sum(), "unused": self.value.sum()}


def train_point(folder, **limits):
    folder.mkdir(exist_ok=True)
    model, weights = Point(), {"distance": 1.0, "unused": 0.0}
    built = []

    def build(number):
        built.append(number)
        return torch.tensor([float(number)])

    Loop(folder=folder, learning_rate=0.1, warmup=2, **limits).run(
        model, build, model.compute, weights
    )
    return model, built


def test_a_run_that_was_interrupted_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    whole, built = train_point(tmp_path / "whole", steps=25, accumulate=2)
    assert built == [*range(50)]
    monkeypatch.setattr("pipelines.train.loop.SAVED", -1.0)
    build = Point.compute
    calls = []

    def fail(self, step):
        calls.append(step)
        if len(calls) == 31:
            raise KeyboardInterrupt
        return build(self, step)

    monkeypatch.setattr(Point, "compute", fail)
    with pytest.raises(KeyboardInterrupt):
        train_point(tmp_path / "parts", steps=25, accumulate=2)
    further, built = train_point(tmp_path / "parts", steps=25, accumulate=2)
    assert built == [*range(30, 50)]
    assert torch.equal(whole.value, further.value)
    log = (tmp_path / "whole" / "log.txt").read_text()
    assert [line.split(",")[0] for line in log.splitlines()] == ["step 20", "step 25"]
    train_point(tmp_path / "whole", steps=25, accumulate=2)
    assert (tmp_path / "whole" / "log.txt").read_text() == log  # nothing was left to do


def test_a_clock_ends_a_run(tmp_path):
    _, built = train_point(tmp_path / "run", minutes=0.01)
    assert len(built) > 2
    _, built = train_point(tmp_path / "run", minutes=0.01)
    assert built == []


def test_weights_travel_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.train.loop.PART", 100)
    weights = {"a": torch.randn(60), "b": torch.randn(3, 5)}
    Loop(folder=tmp_path, learning_rate=0.0).write_parts(weights)
    parts = sorted(tmp_path.glob("part-*"))
    assert (
        max(part.stat().st_size for part in parts)
        == 100
        < sum(part.stat().st_size for part in parts)
    )
    loaded = load(b"".join(part.read_bytes() for part in parts))
    assert all(torch.equal(loaded[name], weights[name].half()) for name in weights)


def join_parts(run):
    path = run / "trained.safetensors"
    path.write_bytes(b"".join(part.read_bytes() for part in sorted(run.glob("part-*"))))
    return path


@pytest.fixture(scope="module")
def trained(recipe, packed, run_module):
    """A reader of two layers that a step without a rate has left as it was, and its folder."""
    run, out = recipe.parent / "run", recipe.parent / "reader"
    run_module("train_passages", recipe, packed, run, "--layers", 0, 11, "--packed", 1)
    run_module("reader_files", recipe, join_parts(run), out, packed)
    return out


def test_a_reader_that_is_written_scores_as_in_training(trained, monkeypatch):
    monkeypatch.setenv("LMKRAG_PRECISION", "float32")
    tokenizer = Tokenizer.from_file(str(find_model(None) / "tokenizer.json"))
    model = Reader(read_start("landmark-reranker-l12"), [0, 11]).eval()
    encodings = [tokenizer.encode(QUESTION, text) for text in TEXTS]
    expected = []
    for encoding in encodings:
        ids, types = torch.tensor([encoding.ids]), torch.tensor([encoding.type_ids])
        with torch.no_grad():
            states = model.bert(ids, token_type_ids=types).last_hidden_state
            expected.append(float(model.classifier(model.bert.pooler(states))))
    passages = [PlacedText("", text) for text in TEXTS]
    scores = PassageReranker.load(str(trained)).score(QUESTION, passages)
    np.testing.assert_allclose(scores, expected, atol=0.05)  # both layers are in 8 bits
    assert len({path.stat().st_mode for path in trained.iterdir()}) == 1  # for everybody to read
    assert {"float32.onnx", "int8.onnx", "ranges.npz"} < {path.name for path in trained.iterdir()}


def test_the_mean_with_what_a_training_began_with(recipe, packed, trained, run_module):
    learnt = load((recipe.parent / "run" / "trained.safetensors").read_bytes())
    learnt["classifier.bias"] += 1
    path, folder = recipe.parent / "learnt.safetensors", recipe.parent / "mean"
    save_file(learnt, path)
    run_module(
        "reader_files", recipe, path, folder, packed, "--start", str(trained), "--share", "0.5"
    )
    before, after = (load((each / "model.safetensors").read_bytes()) for each in (trained, folder))
    assert before.keys() == after.keys()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == ["classifier.bias"]
    assert float(after[changed[0]] - before[changed[0]]) == pytest.approx(0.5, abs=0.01)


def test_a_reader_goes_on_with_all_its_heads(trained):
    stored = read_start(str(trained))
    for head in ("classifier", "complete", "sentence", "ends"):
        assert f"{head}.weight" in stored
    assert torch.equal(Reader(stored).complete.bias, stored["complete.bias"])


def test_a_reader_of_other_languages_begins_as_the_encoder():
    weights = read_start("landmark-multilingual")
    model = Reader(weights, [0, 1])
    name = "bert.encoder.layer.1.output.dense.weight"
    assert len(model.layers) == 2
    assert torch.equal(model.state_dict()[name], weights[name])


def test_a_student_that_is_its_teacher_has_nothing_to_learn(packed):
    step = Passages(packed, Training(questions=2, passages=3)).step(0)
    model = Reader(read_start("landmark-reranker-l12"), [0, 11]).eval()
    with torch.no_grad():
        scores = model(step)
        other = scores._replace(
            passages=scores.passages + torch.arange(len(scores.passages)),
            ends=scores.ends + torch.arange(scores.ends.shape[1])[:, None],
        )
    same, apart = (teacher_losses(step, each, scores, 2.0) for each in (scores, other))
    assert all(float(loss) == pytest.approx(0, abs=1e-5) for loss in same.values())
    assert apart["teacher's passages"] > 0.005 < apart["teacher's ends"]


def test_losses_of_passages_of_which_little_is_known(packed):
    data = Passages(packed, Training())
    rows = [
        row._replace(labels=[UNKNOWN] * len(row.labels), complete=UNKNOWN)
        for row in data.choose(np.random.default_rng(0))[0]
    ]
    step = collate(rows, [0] * len(rows))
    model = Reader(read_start("landmark-reranker-l12"), [0]).eval()
    losses = label_losses(step, model(step))
    assert all(bool(torch.isfinite(loss)) for loss in losses.values())
    assert losses["completeness"].item() == losses["sentences"].item() == 0


def test_the_upper_layers_learn_from_several_packs_and_their_kept_states(
    recipe, packed, mined, run_module, capsys
):
    other = recipe.parent / "other.npz"
    run_module("pack_passages", recipe, mined, other, "--questions", 3)
    start = str(recipe.parent / "reader")
    arguments = [recipe, packed, other, recipe.parent / "upper", "--start", start, "--trained", 1]
    run_module("train_upper", *arguments, "--prepare")
    states = {path: path.stat().st_mtime_ns for path in recipe.parent.glob("*.states")}
    assert len(states) == 2
    assert not (recipe.parent / "upper" / "last.pt").exists()
    capsys.readouterr()
    run_module("train_upper", *arguments, "--learning-rate", 1e-4)
    assert {path: path.stat().st_mtime_ns for path in recipe.parent.glob("*.states")} == states
    assert "of 0 passages" not in capsys.readouterr().out
    steps = torch.load(recipe.parent / "upper" / "last.pt")["step"]
    assert steps > 2
    run_module("train_upper", *arguments, "--learning-rate", 1e-4, "--steps", steps + 1)  # goes on
    assert torch.load(recipe.parent / "upper" / "last.pt")["step"] == steps + 1


def test_of_what_does_not_answer_the_hardest_is_read(recipe, packed, trained):
    training = Training(passages=4, trained=1, hard=1)
    store = Store(packed, training, Reader(read_start(str(trained))))
    store.fill(LowerLayers(trained, training.trained))
    for every, chosen in zip(store.places(0), store.places(1), strict=True):
        others = [each for each in every if ANSWERS not in store.rows[each[1]].labels]
        kept = [each for each in chosen if each in others]
        assert len(kept) == min(1, len(others))
        assert [each for each in every if each not in others or each in kept] == chosen
        best = max((store.taught[row] for _, row in others), default=None)
        assert all(store.taught[row] == best for _, row in kept)


def test_other_passages_have_states_of_their_own(recipe, packed, run_module):
    start = str(recipe.parent / "reader")
    before = set(recipe.parent.glob("*.states"))
    arguments = [
        recipe,
        packed,
        recipe.parent / "upper",
        "--start",
        start,
        "--trained",
        1,
        "--prepare",
    ]
    run_module("train_upper", *arguments, "--passages", 2)
    assert len(set(recipe.parent.glob("*.states")) - before) == 1


RECIPES = Path(__file__).parents[2] / "pipelines"


@pytest.mark.parametrize(
    "path",
    sorted(RECIPES.rglob("*reader.toml")) + sorted(RECIPES.rglob("landmark-reranker-*.toml")),
    ids=lambda path: path.stem,
)
def test_a_recipe_says_what_can_be_trained(path):
    settings = load_settings(path)
    assert find_model(settings.base).is_dir()
    layers = {int(name.split(".")[3]) for name in read_start(settings.start) if ".layer." in name}
    assert set(settings.training.layers) <= layers
    assert settings.training.packed + settings.upper.trained <= len(layers)
