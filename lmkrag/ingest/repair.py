"""The repair job: save what is whole of a damaged index, and read the rest from its files again."""

import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import IndexCorrupt
from lmkrag.index.files import Tables, lock_index
from lmkrag.index.salvage import keep_damaged, salvage_index
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.verify import find_problems
from lmkrag.index.words.postings import PostingsBuilder
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest.ingest import restore_files
from lmkrag.sentences.languages import document_language
from lmkrag.sentences.split import with_contexts
from lmkrag.sentences.structure import ParagraphTracker, StructureTable
from lmkrag.specs import CODE, SENTENCE_KINDS, RepairReport, Sentence

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder


def repair_index(
    path: Path, *, encoder: "Callable[[], LandmarkEncoder] | None" = None, recipe: str | None = None
) -> RepairReport:
    """Rebuild a damaged index: what is whole is kept, the rest is read from its files again, if they are there.

    The damaged index is kept beside the new one, which takes its place. Searches of open engines go on. Nothing is done
    to an index without problems. Only repair an index you made: the files it names are read. ``encoder`` and ``recipe``
    are for an index that can't say what made it.

    Raises IndexCorrupt: not even the encoder can be read. StorageError: there is no room for a second copy, or somebody
    writes.
    """
    work = WorkingFolder(path, "repair")
    work.finish_interrupted()
    keep_damaged(work)
    with contextlib.suppress(IndexCorrupt), contextlib.closing(IndexStore.open(path)) as store:
        if not find_problems(store):
            return RepairReport(store.status().documents, 0, (), 0, "")
    with lock_index(path):
        spec = None if encoder is None else lambda: encoder().spec
        salvage = salvage_index(path, work, read_tables, encoder=spec, recipe=recipe)
        work.take_place()
    damaged = keep_damaged(work)
    with contextlib.closing(IndexStore.open(path)) as store:
        restored = restore_files(store, encoder or (lambda: IndexEncoders(path, store.encoder).encoder), salvage.lost)
    lost = tuple(item.path for item in restored.skipped)
    return RepairReport(salvage.kept, restored.added, lost, salvage.unknown, str(damaged))


def read_tables(documents: Sequence[Staged]) -> tuple[Tables, Tables]:
    """Return the words and the structure of documents, laid end to end: see :data:`lmkrag.index.salvage.ReadTables`."""
    words, structure = PostingsBuilder(), StructureTable()
    for staged in documents:
        kinds = [SENTENCE_KINDS[kind] for kind in staged.sentences.kinds.tolist()]
        borders = pairwise([0, *staged.sentences.ends.tolist()])
        sentences = [Sentence(start, end, kind) for (start, end), kind in zip(borders, kinds, strict=True)]
        texts = [sentence.read(staged.text) for sentence in with_contexts(staged.text, sentences, staged.document.kind)]
        document = staged.document
        title = "" if document.kind == CODE else document.title
        words.add(texts, document_language(staged.text, document.kind), title)
        structure.add(((staged.text[each.start : each.end], each.kind) for each in sentences), ParagraphTracker())
    return words.take(len(words)), structure.take(len(structure))
