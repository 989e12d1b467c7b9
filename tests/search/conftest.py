import pytest

from lmkrag.index import catalog
from lmkrag.index.staged import SentenceTable, Staged
from lmkrag.index.view import DocumentView
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document


@pytest.fixture(scope="session")
def make_view(tmp_path_factory):
    """Put a document into a real catalog and look at it."""
    connection = catalog.connect(tmp_path_factory.mktemp("views") / "catalog.sqlite", create=True)
    catalog.create_schema(connection, {"encoder": "", "recipe": ""})
    made = 0

    def view(text: str, kind: str = "text") -> DocumentView:
        nonlocal made
        made += 1
        sentences = SentenceTable.of(split_sentences(text, kind=kind))
        document = Document(f"d{made}", f"d{made}", text, kind=kind)
        catalog.insert_document(connection, Staged(document, text, sentences, "", (1, 1)))
        row = catalog.find_row(connection, document.doc_id)
        return DocumentView(row, connection)

    yield view
    connection.close()
