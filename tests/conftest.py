"""Real parts for every test: the shipped encoder, the sample corpus, an index of it made once."""

import os
import shutil
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def encoder():
    from lmkrag import LandmarkEncoder

    return LandmarkEncoder.load()


@pytest.fixture(scope="session")
def corpus() -> Path:
    return DATA / "corpus"


@pytest.fixture(scope="session")
def built_index(encoder, corpus, tmp_path_factory) -> Path:
    from lmkrag import Engine

    path = tmp_path_factory.mktemp("built") / "index"
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(corpus)
    return path


@pytest.fixture
def engine(built_index, encoder, tmp_path):
    """An engine over a copy of the sample index that the test may change."""
    from lmkrag import Engine

    path = tmp_path / "index"
    shutil.copytree(built_index, path)
    with Engine.open(path, encoder=encoder) as opened:
        yield opened
