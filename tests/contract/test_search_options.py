"""An option of a search is declared once; every surface has it from there."""

from dataclasses import fields

import pytest

from lmkrag.cli import main
from lmkrag.integrations.langchain import LandmarkRetriever
from lmkrag.search.request import AskOptions, SearchOptions, SearchRequest, option_of
from lmkrag.server.schemas import AskBody, SearchBody

DECLARED = {declared.name: declared for declared in fields(SearchRequest)}
SEARCH, ASK = set(SearchOptions.__annotations__), set(AskOptions.__annotations__)


def test_every_option_is_one_of_search_or_ask():
    assert set(DECLARED) == SEARCH | ASK


@pytest.mark.parametrize("name", sorted(SEARCH))
def test_search_has_it(name):
    option = option_of(DECLARED[name])
    assert SearchBody.model_fields[name].description == option.help
    assert SearchBody.model_fields[name].default == DECLARED[name].default
    assert name == "top_k" or name in LandmarkRetriever.model_fields
    if name != "operators":  # always on there
        (flag,) = [one for one in main.commands["search"].params if one.name == name]
        assert flag.help == option.help and flag.envvar == option.variable


@pytest.mark.parametrize("name", sorted(ASK))
def test_ask_has_it(name):
    assert name in AskBody.model_fields
    for command in ("ask", "chat"):
        assert [one for one in main.commands[command].params if one.name == name], command
