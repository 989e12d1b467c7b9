"""Choose the encoder of a new index by the languages of its files."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from lmkrag.encoder.spec import MULTILINGUAL_ENCODER
from lmkrag.errors import DocumentError
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.ingest.walk import Found, walk
from lmkrag.sentences.languages import document_language
from lmkrag.specs import ENGLISH

MIN_FOREIGN = 0.2
"""The least share of the characters in other languages than English for the multilingual encoder."""

_PROSE = frozenset(
    [
        *(".txt", ".md", ".rst", ".adoc", ".tex", ".org", ".html", ".htm", ".pdf"),
        *(".docx", ".odt", ".odp", ".rtf", ".pptx", ".epub", ".eml", ".srt", ".vtt"),
    ]
)
_LISTED, _SAMPLED = 10_000, 24  # files that are looked for, and of those that are read
_MAX_BYTES = 2 << 20
_MOST = 2_000  # characters of a file that count


def choose_encoder(sources: Sequence[Path], *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> str | None:
    """Return the multilingual encoder where a sample of the files is not mostly English; None for the default one.

    Files of prose are sampled; source code and tables have no language.

    Args:
        sources: files and directories.
        include: globs; only files that match.
        exclude: globs; no files that match.

    Raises:
        UsageError: a source does not exist, or a glob can't be parsed.
    """
    items = (item for source in sources for item in walk(source, include=include, exclude=exclude))
    files = [
        item
        for item in islice(items, _LISTED)
        if isinstance(item, Found) and item.path.suffix.lower() in _PROSE and item.stamp.size <= _MAX_BYTES
    ]
    counts = {True: 0, False: 0}
    with IsolatedLoader() as loader:
        for file in files[:: max(1, len(files) // _SAMPLED)]:
            try:
                document = loader.load(file.path, file.doc_id)
            except DocumentError:
                continue
            counts[document_language(document.text, document.kind) == ENGLISH] += min(len(document.text), _MOST)
    return MULTILINGUAL_ENCODER if counts[False] > MIN_FOREIGN * sum(counts.values()) else None
