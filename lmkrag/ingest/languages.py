"""Choose the encoder of a new index by the languages of its first documents."""

from collections.abc import Iterable, Iterator, Sequence

from lmkrag.encoder.index_encoder import load_new_encoder
from lmkrag.encoder.spec import DEFAULT_ENCODER, MULTILINGUAL_ENCODER
from lmkrag.errors import DocumentError
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.index.store import IndexStore
from lmkrag.ingest.report import Run
from lmkrag.ingest.walk import Found
from lmkrag.sentences.languages import document_language
from lmkrag.specs import CODE, ENGLISH
from lmkrag.types import Document

SAMPLED = 24  # the most documents that are looked at
_MIN_FOREIGN = 0.2  # share of other languages than English that takes the multilingual encoder
_PROSE = {".txt", ".md", ".rst", ".adoc", ".tex", ".org", ".html", ".htm", ".pdf"}
_PROSE |= {".docx", ".odt", ".odp", ".rtf", ".pptx", ".epub", ".eml", ".srt", ".vtt"}
_MAX_BYTES = 2 << 20
_MOST = 2_000  # characters of a document that count


def sample_files(files: Sequence[Found]) -> Iterator[Document]:
    """Read some of the files that hold prose, evenly spread; source code and tables have no language."""
    prose = [file for file in files if file.path.suffix.lower() in _PROSE and file.stamp.size <= _MAX_BYTES]
    with IsolatedLoader() as loader:
        for file in prose[:: len(prose) // SAMPLED + 1]:
            try:
                yield loader.load(file.path, file.doc_id)
            except DocumentError:
                continue


def choose_encoder(store: IndexStore, run: Run, sample: Iterable[Document]) -> None:
    """Record the multilingual encoder, unless one was chosen, in a new index that is not mostly English, and warn."""
    if run.known or not store.chooses_encoder:
        return
    counts = {True: 0, False: 0}
    for document in sample:
        language = document_language(document.text, document.kind)
        if language != CODE:
            counts[language == ENGLISH] += min(len(document.text), _MOST)
    foreign = counts[False] / max(1, sum(counts.values()))
    name = MULTILINGUAL_ENCODER if foreign > _MIN_FOREIGN else DEFAULT_ENCODER
    if name != store.encoder.name:
        store.change_encoder(load_new_encoder(name).spec)
    if name == MULTILINGUAL_ENCODER:
        run.warnings.append(f"{foreign:.0%} of the text sampled is not in English: encoder {name} was chosen")


def warn_of_languages(store: IndexStore, run: Run) -> None:
    """Warn where an index whose encoder reads English got documents in other languages."""
    documents = run.added + run.updated
    if store.encoder.name == DEFAULT_ENCODER and run.foreign > _MIN_FOREIGN * documents:
        run.warnings.append(
            f"{run.foreign} of {documents} documents are not in English, which {DEFAULT_ENCODER} reads: make the index "
            f"with encoder {MULTILINGUAL_ENCODER}, or change it by lmkrag index-tools reindex --encoder "
            f"{MULTILINGUAL_ENCODER}"
        )
