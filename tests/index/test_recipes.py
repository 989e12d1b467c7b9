import json
from dataclasses import asdict

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.index.vectors.recipes import build_recipe, choose_recipe, list_recipes, load_recipe


def test_the_recipes_that_ship():
    assert [recipe.name for recipe in list_recipes()] == [
        "auto",
        "flat",
        "hnsw",
        "ivf-rabitq",
        "ivf-sq8",
    ]


@pytest.mark.parametrize(
    ("name", "rows", "chosen"),
    [
        ("auto", 1, "flat"),
        ("auto", 200_000, "flat"),
        ("auto", 200_001, "ivf-sq8"),
        ("auto", 5_000_001, "ivf-sq8"),
        ("hnsw", 100, "flat"),
        ("hnsw", 20_000, "hnsw"),
        ("ivf-rabitq", 99_999, "flat"),
    ],
)
def test_a_small_segment_is_never_approximate(name, rows, chosen):
    assert choose_recipe(load_recipe(name), rows).name == chosen


def test_a_part_of_a_large_index_is_stored_as_the_whole_is():
    assert choose_recipe(load_recipe("auto"), 100_000, of=300_000).name == "ivf-sq8"
    assert choose_recipe(load_recipe("auto"), 100, of=300_000).name == "flat"


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda recipe: recipe.name)
def test_json_and_back(recipe):
    assert build_recipe(json.loads(json.dumps(asdict(recipe)))) == recipe


def test_a_recipe_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('factory = "SQ8"\n')
    assert load_recipe(str(path)).factory == "SQ8"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("factory = ", "not a TOML file"),
        ('factory = "SQ8"\ncolour = 1', "unknown key 'colour'"),
        ("minimum = 3", "needs a 'factory' or 'tiers'"),
        ("factory = 8", "factory = 8 is not a FAISS index description"),
        ('factory = "SQ8"\nminimum = "many"', "minimum = 'many' is not a number of sentences"),
        ('factory = "SQ8"\ntrain = -1', "train = -1 is not a number of sentences"),
        ('factory = "SQ8"\nsearch = 3', "search = 3 is not a table of numbers"),
        ('factory = "SQ8"\n[search]\nnprobe = "all"', "is not a table of numbers"),
        ("tiers = 3", "tiers = 3 is not a list of"),
        ("tiers = [[5]]", r"tiers = \[\[5\]\] is not a list of"),
        ('tiers = [[5, "quick"]]', "is not a list of"),
    ],
)
def test_a_bad_recipe_file(tmp_path, content, message):
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        load_recipe(str(path))


@pytest.mark.parametrize("name", ["quick", "../flat", "/etc/passwd", ""])
def test_unknown_names(name):
    with pytest.raises(
        UsageError, match=r"unknown recipe .*: one of auto, flat, hnsw, ivf-rabitq, ivf-sq8"
    ):
        load_recipe(name)


def test_a_missing_file():
    with pytest.raises(UsageError, match="no such file"):
        load_recipe("nowhere.toml")


def test_a_recipe_that_faiss_can_not_build_is_refused_before_anything_is_encoded(tmp_path, encoder):
    path = tmp_path / "mine.toml"
    path.write_text('factory = "SQ9000"\n')
    with pytest.raises(UsageError, match="recipe 'mine': FAISS can't build 'SQ9000'"):
        Engine.open(tmp_path / "index", create=True, encoder=encoder, recipe=str(path))
    assert not (tmp_path / "index").exists()


def test_a_recipe_file_can_be_given_again(tmp_path, encoder):
    path = tmp_path / "mine.toml"
    path.write_text('factory = "SQ8"\n')
    for _ in range(2):
        with Engine.open(
            tmp_path / "index", create=True, encoder=encoder, recipe=str(path)
        ) as engine:
            engine.add(Document("a", "a", "The bridge is closed."))
            assert engine.status().recipe == "mine"
    path.write_text('factory = "SQ4"\n')
    with pytest.raises(UsageError, match="made with recipe 'mine'; run lmkrag index-tools reindex"):
        Engine.open(tmp_path / "index", recipe=str(path))
