"""Of translations of one page, that in the language of the question comes first."""

import pytest

from lmkrag import Document, Engine
from lmkrag.language.translations import split_language

PAGES = {
    "docs/en/install.md": "# Installation\n\nInstall Kestrel with pip: `pip install kestrel`. Python 3.11 is needed.\n",
    "docs/de/install.md": "# Installation\n\nKestrel wird mit pip installiert: `pip install kestrel`. Nötig ist Python 3.11.\n",
    "docs/fr/install.md": "# Installation\n\nKestrel s'installe avec pip : `pip install kestrel`. Il faut Python 3.11.\n",
    "README.md": "# Kestrel\n\nKestrel watches a folder and sends each new file to a printer.\n",
    "README.de.md": "# Kestrel\n\nKestrel überwacht einen Ordner und schickt jede neue Datei an einen Drucker.\n",
    "docs/en/proxy.md": "# Proxy\n\nBehind a proxy, set KESTREL_PROXY to its address before the start.\n",
    "docs/de/drucker.md": "# Drucker\n\nDer Drucker wird mit KESTREL_PRINTER gewählt; ohne ihn gilt der erste.\n",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "index"
    with Engine.open(path, create=True, encoder="landmark-multilingual", rerank=False) as engine:
        engine.add([Document(name, name, text) for name, text in PAGES.items()])
        yield engine


@pytest.mark.parametrize(
    ("question", "doc_id"),
    [
        ("How do I install Kestrel with pip?", "docs/en/install.md"),
        ("Wie installiere ich Kestrel mit pip?", "docs/de/install.md"),
        ("Comment est-ce que j'installe Kestrel avec pip ?", "docs/fr/install.md"),
        ("What does Kestrel do with each new file?", "README.md"),
        ("Was macht Kestrel mit jeder neuen Datei?", "README.de.md"),
        ("Was muss ich hinter einem Proxy einstellen?", "docs/en/proxy.md"),
        ("How is the printer chosen, KESTREL_PRINTER?", "docs/de/drucker.md"),
    ],
)
@pytest.mark.parametrize("rerank", [False, True])
def test_the_language_of_the_question_comes_first(pages, question, doc_id, rerank):
    assert pages.search(question, rerank=rerank)[0].doc_id == doc_id


def test_a_language_that_no_page_has_changes_nothing(pages):
    found = pages.search("¿Cómo se instala Kestrel con pip en mi ordenador?", explain=True)
    assert found
    names = {factor.name for span in found for factor in span.explanation.factors}
    assert "translation" not in names
    found = pages.search("Wie installiere ich Kestrel mit pip?", explain=True)
    names = {factor.name for span in found for factor in span.explanation.factors}
    assert "translation" in names


def test_source_code_is_in_no_language(encoder, tmp_path):
    files = {
        "user.py": "# Reads the number of a user.\ndef find_user(name):\n    return name\n",
        "user_id.py": "# Makes the number of a user.\ndef make_user(name):\n    return 1\n",
    }
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add([Document(name, name, text, kind="code") for name, text in files.items()])
        found = engine.search("What makes the number of a user?", explain=True)
    names = {factor.name for span in found for factor in span.explanation.factors}
    assert {span.doc_id for span in found} == {*files}
    assert "translation" not in names


@pytest.mark.parametrize(
    ("doc_id", "name", "language"),
    [
        ("docs/de/install.md", "docs/install.md", "de"),
        ("de/install.md", "install.md", "de"),
        ("docs/zh-CN/a.md", "docs/a.md", "zh"),
        ("docs/zh_Hans/a.md", "docs/a.md", "zh"),
        ("README.de.md", "README.md", "de"),
        ("README_pt-BR.md", "README.md", "pt"),
        ("guide-fr.html", "guide.html", "fr"),
        ("index.html.de", "index.html", "de"),
        ("i18n/nb/a.md", "i18n/a.md", "no"),
        ("docs/install.md", "docs/install.md", ""),
        ("how-to.md", "how-to.md", ""),
        ("model/index.md", "model/index.md", ""),
        ("de", "de", ""),
        ("", "", ""),
    ],
)
def test_the_language_of_a_name(doc_id, name, language):
    assert split_language(doc_id) == (name, language)
