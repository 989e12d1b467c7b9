"""Recipes: how vectors are stored, read from ``indexes/*.toml``.

A recipe is a FAISS factory string, such as ``HNSW32,SQ8``, or tiers that choose another recipe by
size.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from lmkrag.errors import UsageError
from lmkrag.specs import Recipe

DEFAULT_RECIPE = "auto"
_MEANING = {
    "name": "a text",
    "description": "a text",
    "factory": "a FAISS index description",
    "minimum": "a number of sentences",
    "train": "a number of sentences",
    "search": "a table of numbers",
    "tiers": "a list of [most sentences, name of a shipped recipe]",
}


def _folders() -> list[Path]:
    """Return the folders of packaged recipes: in the package, and beside it in an editable
    install.
    """
    package = Path(str(files("lmkrag")))
    return [package / "recipes", package.parent / "indexes"]


def list_recipes() -> list[Recipe]:
    """Return the packaged recipes, by name."""
    paths = {path.stem: path for folder in reversed(_folders()) for path in folder.glob("*.toml")}
    return [_read(path) for _, path in sorted(paths.items())]


def load_recipe(name: str) -> Recipe:
    """Return a recipe by its name, or from a ``.toml`` file.

    Raises:
        UsageError: there is no such recipe, or the file is not a recipe.
    """
    if not isinstance(name, str):
        raise UsageError(f"a recipe is a name or a .toml file, not {name!r}")
    if name.endswith(".toml"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise UsageError(f"recipe {name!r}: no such file")
        return _read(path)
    for folder in _folders():
        path = folder / f"{name}.toml"
        if name.replace("-", "").isalnum() and path.is_file():
            return _read(path)
    known = ", ".join(recipe.name for recipe in list_recipes())
    raise UsageError(f"unknown recipe {name!r}: one of {known}, or a .toml file")


def choose_recipe(recipe: Recipe, rows: int, *, of: int = 0) -> Recipe:
    """Return the recipe that stores the vectors of a segment.

    Args:
        recipe: the recipe of the index, a factory or tiers.
        rows: number of sentences of the segment.
        of: number of sentences of the index; a tier is chosen by the larger of both.

    Returns:
        A recipe with a factory: exact (``flat``) if the segment has fewer rows than the recipe's
            minimum.
    """
    for limit, name in recipe.tiers:
        if limit == 0 or max(rows, of) <= limit:
            return choose_recipe(load_recipe(name), rows)
    return recipe if rows >= recipe.minimum else load_recipe("flat")


def _read(path: Path) -> Recipe:
    """Read a recipe from a TOML file, and check each value."""
    try:
        fields = tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"recipe {path}: not a TOML file ({error})") from error
    unknown = sorted(fields.keys() - _MEANING.keys())
    if unknown:
        raise UsageError(
            f"recipe {path}: unknown key {unknown[0]!r}: use {', '.join(sorted(_MEANING))}"
        )
    if not fields.get("factory") and not fields.get("tiers"):
        raise UsageError(f"recipe {path}: needs a 'factory' or 'tiers'")
    for key, value in fields.items():
        if not _is_valid(key, value):
            raise UsageError(f"recipe {path}: {key} = {value!r} is not {_MEANING[key]}")
    return build_recipe({"name": path.stem, **fields})


def _is_valid(key: str, value: Any) -> bool:
    """Return whether a key of a recipe may have a value."""
    if key in ("name", "description", "factory"):
        return isinstance(value, str)
    if key in ("minimum", "train"):
        return _is_count(value)
    if key == "search":
        return isinstance(value, dict) and all(
            type(number) in (int, float) for number in value.values()
        )
    shipped = {path.stem for folder in _folders() for path in folder.glob("*.toml")}
    return isinstance(value, list) and all(
        isinstance(tier, list) and len(tier) == 2 and _is_count(tier[0]) and tier[1] in shipped
        for tier in value
    )


def _is_count(value: Any) -> bool:
    """Return whether a value is a whole number of at least 0."""
    return type(value) is int and value >= 0


def build_recipe(fields: dict[str, Any]) -> Recipe:
    """Return a recipe from its fields by name, such as the catalog has as JSON."""
    tiers = tuple((int(limit), str(name)) for limit, name in fields.pop("tiers", ()))
    return Recipe(**fields, tiers=tiers)
