"""Dify's external knowledge API, as its documentation describes it."""

from itertools import pairwise

import pytest

from lmkrag import UsageError
from lmkrag.server.routes.dify import Condition, MetadataCondition, to_filter

BODY = {
    "knowledge_id": "demo",
    "query": "how is leave accrued?",
    "retrieval_setting": {"top_k": 3, "score_threshold": 0.1},
}


def test_records(client):
    records = client.post("/retrieval", json=BODY).raise_for_status().json()["records"]
    assert len(records) == 3
    assert records[0].keys() == {"content", "score", "title", "metadata"}
    assert records[0]["content"].startswith("Leave is accrued by the month")
    assert records[0]["metadata"]["place"] == "lighthouse-handbook.md:50"
    assert all(1 >= one["score"] >= other["score"] >= 0.1 for one, other in pairwise(records))


def test_threshold(client):
    setting = {"top_k": 8, "score_threshold": 0.4}
    records = client.post("/retrieval", json={**BODY, "retrieval_setting": setting}).json()[
        "records"
    ]
    assert 0 < len(records) < 8
    assert all(record["score"] >= 0.4 for record in records)


def test_conditions(client):
    conditions = [{"name": ["kind"], "comparison_operator": "is", "value": "pdf"}]
    body = {
        **BODY,
        "query": "How far have the stones moved?",
        "metadata_condition": {"logical_operator": "and", "conditions": conditions},
    }
    records = client.post("/retrieval", json=body).json()["records"]
    assert {record["metadata"]["kind"] for record in records} == {"pdf"}


@pytest.mark.parametrize(
    ("operator", "value"),
    [("not empty", None), ("contains", ""), ("start with", ""), ("empty", None)],
)
def test_documents_without_a_value(client, operator, value):
    condition = {"name": ["author"], "comparison_operator": operator, "value": value}
    body = {**BODY, "retrieval_setting": {"top_k": 50, "score_threshold": 0}}
    records = client.post(
        "/retrieval", json={**body, "metadata_condition": {"conditions": [condition]}}
    ).json()
    having = {"author" in record["metadata"] for record in records["records"]}
    assert having == {operator != "empty"}


@pytest.mark.parametrize(
    ("operator", "value", "expression"),
    [
        ("is", 'a "b"', '(key="a \\"b\\"")'),
        ("≠", 3, '(key!="3")'),
        ("contains", "two words", "(key=*two?words*)"),
        ("not contains", "x", "(not key=*x*)"),
        ("start with", "x", "(key=x*)"),
        ("end with", "x", "(key=*x)"),
        ("after", "2024-01-01", '(key>"2024-01-01")'),
        ("≤", 5, '(key<="5")'),
        ("empty", None, "(not key=*)"),
        ("not empty", None, "(key=*)"),
    ],
)
def test_operators(operator, value, expression):
    from lmkrag.search.filters import parse_filter

    condition = Condition(name=["key"], comparison_operator=operator, value=value)
    assert to_filter(MetadataCondition(conditions=[condition])) == expression
    parse_filter(expression)


def test_several_conditions_and_names():
    conditions = [
        Condition(name=["a", "b"], comparison_operator="is", value="x"),
        Condition(name=["c"], comparison_operator=">", value=1),
    ]
    condition = MetadataCondition(logical_operator="or", conditions=conditions)
    assert to_filter(condition) == '(a="x" or b="x") or (c>"1")'
    assert to_filter(MetadataCondition()) is None
    with pytest.raises(UsageError, match="is not known"):
        to_filter(MetadataCondition(conditions=[Condition(name=["a"], comparison_operator="like")]))
    names = ["a) or (b", "Last Modified"]
    assert to_filter(
        MetadataCondition(conditions=[Condition(name=names, comparison_operator="empty")])
    ) == ('(not "a) or (b"=* or not "Last Modified"=*)')
    with pytest.raises(UsageError, match="is no key of a filter"):
        to_filter(MetadataCondition(conditions=[Condition(name=[""], comparison_operator="is")]))


def test_errors_are_difys(client, serve, built_index, tmp_path):
    missing = client.post("/retrieval", json={**BODY, "knowledge_id": "none"})
    assert missing.status_code == 404
    assert missing.json() == {"error_code": 2001, "error_msg": "no index 'none': there is demo"}
    with (
        serve(tmp_path, "--index", built_index, LMKRAG_TOKEN="a-token-of-tests") as running,
        running.client() as other,
    ):
        assert other.post("/retrieval", json=BODY).json()["error_code"] == 1002
