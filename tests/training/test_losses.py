import math

import pytest
import torch

from lmkrag.training.student import anchor_loss, imitation_loss, landmark_loss


def example(seed=0, questions=3, sentences=8):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(questions, sentences, generator=generator) * 2 - 1
    weights = torch.zeros(questions, sentences)
    for row in range(questions):
        weights[row, row : row + 2] = torch.tensor([0.4, 0.6])
    same = torch.zeros(questions, sentences, dtype=torch.bool)
    same[:, :5] = True
    return scores, weights, weights == 0, same


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
def test_the_loss_against_a_loop(mixing):
    scores, weights, candidate, same = example()
    expected = 0.0
    for q in range(3):
        for share, inside in ((mixing, True), (1 - mixing, False)):
            crowd = [n for n in range(8) if candidate[q, n] and bool(same[q, n]) == inside]
            for n in range(8):
                if weights[q, n] > 0:
                    own = math.exp(scores[q, n] / 0.1)
                    total = own + sum(math.exp(scores[q, m] / 0.1) for m in crowd)
                    expected -= share * float(weights[q, n]) * math.log(own / total) / 3
    loss = landmark_loss(scores, weights, candidate, same, mixing=mixing, temperature=0.1)
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_more_weight_more_pull():
    scores, weights, candidate, same = example()
    scores[:] = 0.1
    scores.requires_grad_()
    landmark_loss(scores, weights, candidate, same, mixing=0.5, temperature=0.1).backward()
    pulled = -scores.grad[0, :2]
    assert pulled[1] > pulled[0] > 0
    assert scores.grad[0, 2] > 0


def test_what_is_no_candidate_has_no_gradient():
    scores, weights, candidate, same = example()
    candidate[:, 7] = False
    scores.requires_grad_()
    landmark_loss(scores, weights, candidate, same, mixing=0.5, temperature=0.1).backward()
    assert not scores.grad[:, 7].any()


def test_without_negatives_there_is_nothing_to_learn():
    scores, weights, candidate, same = example()
    candidate[:] = False
    assert float(
        landmark_loss(scores, weights, candidate, same, mixing=0.5, temperature=0.05)
    ) == pytest.approx(0)


def test_the_anchor_is_zero_at_the_base():
    vectors = torch.nn.functional.normalize(torch.randn(4, 6), dim=1)
    assert float(anchor_loss(vectors, vectors)) == pytest.approx(0, abs=1e-6)
    assert float(anchor_loss(vectors, -vectors)) == pytest.approx(2, abs=1e-6)


def test_imitation_is_the_divergence_from_the_teacher():
    scores, *_ = example()
    taught, *_ = example(seed=1)
    expected = 0.0
    for own, other in zip(scores.tolist(), taught.tolist(), strict=True):
        student, teacher = ([math.exp(score / 0.2) for score in row] for row in (own, other))
        for one, two in zip(student, teacher, strict=True):
            one, two = one / sum(student), two / sum(teacher)
            expected += two * math.log(two / one) / 3
    assert float(imitation_loss(scores, taught, temperature=0.2)) == pytest.approx(
        expected, rel=1e-4
    )
    assert float(imitation_loss(taught, taught, temperature=0.2)) == pytest.approx(0, abs=1e-6)
