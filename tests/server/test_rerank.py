"""Ranking texts of one's own over HTTP."""

import pytest

TEXTS = ["The ferry leaves at nine.", "Pears ripen in October. Apples are picked in May."]
QUERY = "When are apples picked?"


def test_texts_are_ranked_and_their_sentences_scored(client):
    reply = client.post(
        "/v1/rerank", json={"model": "any", "query": QUERY, "documents": TEXTS}
    ).raise_for_status()
    first, second = reply.json()["results"]
    assert (first["index"], second["index"]) == (1, 0)
    assert 1 >= first["relevance_score"] > second["relevance_score"] >= 0
    best = max(first["highlights"], key=lambda one: one["score"])
    assert TEXTS[1][best["start"] : best["end"]] == "Apples are picked in May."
    assert "document" not in first


def test_top_n_and_documents_as_objects(client):
    body = {
        "query": QUERY,
        "documents": [{"text": text} for text in TEXTS],
        "top_n": 1,
        "return_documents": True,
    }
    (only,) = client.post("/v1/rerank", json=body).raise_for_status().json()["results"]
    assert only["document"] == {"text": TEXTS[1]}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"documents": []}, 422),
        ({"documents": ["x"] * 257}, 422),
        ({"documents": ["x" * 19_000] * 11}, 413),
        ({"documents": ["x" * 20_001]}, 422),
        ({"query": ""}, 422),
        ({"top_n": 0}, 422),
    ],
)
def test_what_is_refused(client, change, status):
    reply = client.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS, **change})
    assert reply.status_code == status


@pytest.mark.parametrize("value", [0, -1, "yes", 1e9])
def test_what_a_search_may_not_say(client, value):
    assert client.post("/api/search", json={"query": QUERY, "rerank": value}).status_code == 422
