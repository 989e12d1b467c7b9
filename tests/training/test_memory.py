"""Sentences of earlier steps as negatives."""

import pytest
import torch

from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.training.data import TrainingSet
from lmkrag.training.memory import Remembered, SentenceMemory
from lmkrag.training.settings import ModelSettings, SetSettings, StageSettings
from lmkrag.training.stages import StageData
from lmkrag.training.student import LandmarkObjective, create_student, load_student


def test_the_last_sentences_of_each_set_are_kept():
    memory = SentenceMemory(4)
    assert memory.recall("a") is None
    for number in range(3):
        memory.keep("a", Remembered(torch.full((2, 3), float(number)), torch.zeros(2, 3), torch.tensor([number] * 2)))
    memory.keep("b", Remembered(torch.ones(1, 3), torch.zeros(1, 3), torch.tensor([7])))
    kept = memory.recall("a")
    assert kept.owners.tolist() == [1, 1, 2, 2]
    assert kept.vectors[:, 0].tolist() == [1, 1, 2, 2]
    assert memory.recall("b").owners.tolist() == [7]


@pytest.fixture(scope="module")
def student_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    create_student(ModelSettings(window=64), folder)
    return folder


def steps_of(sample_set, student, **changes):
    """One document a step, so that all other documents are remembered ones."""
    tokens = SentenceTokenizer(student.tokenizer.backend_tokenizer, window=64, landmark="<LMK>")
    chosen = SetSettings("sample", "documents", documents=1, **changes)
    stage = StageSettings("one", [chosen], steps=16, tokens=256, windows=[64], duplicate=1.0, memory=100)
    data = StageData(stage, [TrainingSet(sample_set, tokens)], tokens, seed=1)
    steps = [data[number] for number in range(16)]
    assert all(len(set(step.owners.tolist())) == 1 for step in steps)
    return stage, steps


def loss_of(objective, step):
    with torch.no_grad():
        return float(objective(step)["loss"])


def test_sentences_of_other_documents_are_remembered_as_negatives(sample_set, student_folder):
    student = load_student(student_folder)
    stage, steps = steps_of(sample_set, student)
    first = steps[0]
    other = next(step for step in steps if not set(step.owners.tolist()) & set(first.excluded.flatten().tolist()))
    alone = loss_of(LandmarkObjective(student, stage, None), first)
    objective = LandmarkObjective(student, stage, None)
    assert loss_of(objective, first) == pytest.approx(alone)
    assert loss_of(objective, first) == pytest.approx(alone)  # its own document, remembered, is no negative
    loss_of(objective, other)
    assert loss_of(objective, first) > alone + 0.001


def test_questions_about_their_own_document_remember_nothing(sample_set, student_folder):
    student = load_student(student_folder)
    stage, steps = steps_of(sample_set, student, within=True)
    assert {step.source for step in steps} == {None}
    objective = LandmarkObjective(student, stage, None)
    alone = loss_of(objective, steps[0])
    for step in steps[1:4]:
        loss_of(objective, step)
    assert loss_of(objective, steps[0]) == pytest.approx(alone)
