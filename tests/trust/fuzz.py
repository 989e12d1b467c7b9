"""Coverage-guided fuzzing of everything that sees foreign bytes.

    pip install atheris
    python tests/trust/fuzz.py html -max_total_time=600          see TARGETS for the others
    python tests/trust/fuzz.py all -max_total_time=60            each in turn

Each target checks what must hold, not only that nothing crashes: sentences tile the text, windows own each sentence
once, spans stay apart, a reader gives a document or a DocumentError. Starts from the files of tests/data; a finding is
kept by libFuzzer as ``crash-*`` in the working directory.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["lmkrag", "csv", "docx", "zipfile", "chardet"]):
    from lmkrag.encoder.windows import plan_windows
    from lmkrag.errors import DocumentError, UsageError
    from lmkrag.formats.load import load_bytes
    from lmkrag.index.words.postings import PostingsBuilder
    from lmkrag.language.terms import query_words
    from lmkrag.search.filters import parse_filter
    from lmkrag.search.growth import grow_spans
    from lmkrag.search.weights import WEIGHTS
    from lmkrag.sentences.split import split_sentences
from lmkrag.specs import SENTENCE_KINDS

DATA = Path(__file__).parents[1] / "data" / "corpus"
KINDS = ("text", "markdown", "code", "html", "csv")


def check_sentences(data: bytes) -> None:
    """Sentences tile any text, lone surrogates too."""
    provider = atheris.FuzzedDataProvider(data)
    kind = KINDS[provider.ConsumeIntInRange(0, len(KINDS) - 1)]
    text = provider.ConsumeUnicode(1 << 16)
    sentences = split_sentences(text, kind=kind)
    assert "".join(text[sentence.start : sentence.end] for sentence in sentences) == text
    assert all(
        sentence.start < sentence.end and sentence.kind in SENTENCE_KINDS for sentence in sentences
    )
    borders = [0, *(sentence.end for sentence in sentences)]
    assert [sentence.start for sentence in sentences] == borders[:-1]


def check_windows(data: bytes) -> None:
    """Windows hold whole sentences within their budget, and own each once."""
    provider = atheris.FuzzedDataProvider(data)
    budget = provider.ConsumeIntInRange(1, 600)
    overlap = provider.ConsumeIntInRange(0, 99) / 100
    counts = [
        provider.ConsumeIntInRange(1, budget) for _ in range(provider.ConsumeIntInRange(0, 400))
    ]
    owned: list[int] = []
    for window in plan_windows(counts, budget=budget, overlap=overlap):
        assert sum(counts[window.first : window.stop]) == window.tokens <= budget
        assert window.first <= window.own_first <= window.own_stop <= window.stop
        owned += range(window.own_first, window.own_stop)
    assert owned == list(range(len(counts)))


def check_growth(data: bytes) -> None:
    """Spans never overlap, hold their hit, stay in a document and leave nothing out."""
    provider = atheris.FuzzedDataProvider(data)
    count = provider.ConsumeIntInRange(1, 200)
    scores = np.array([provider.ConsumeFloatInRange(-1, 1) for _ in range(count)], np.float32)
    sentences = np.cumsum([provider.ConsumeIntInRange(1, 3) for _ in range(count)])
    documents = np.cumsum([provider.ConsumeIntInRange(0, 9) == 0 for _ in range(count)])
    before = provider.ConsumeIntInRange(-1, 5)
    taken: list[int] = []
    for first, stop, hit in grow_spans(
        scores,
        sentences,
        documents,
        weights=replace(WEIGHTS, sentences_before=None if before < 0 else before),
    ):
        assert first <= hit < stop
        assert (np.diff(sentences[first:stop]) == 1).all()
        assert len(set(documents[first:stop].tolist())) == 1
        taken += range(first, stop)
    assert sorted(taken) == list(range(count))


def check_filter(data: bytes) -> None:
    """A filter is parsed, or refused as a wrong use; what is parsed can be asked."""
    text = atheris.FuzzedDataProvider(data).ConsumeUnicode(4_096)
    try:
        keep = parse_filter(text)
    except UsageError:
        return
    fields = {"path": "docs/a.md", "year": 1911, "tags": ["x", 2], "kind": "pdf"}
    assert keep(lambda key, test: np.array(test(fields.get(key)))) in (True, False)


def check_words(data: bytes) -> None:
    """Words of any text are counted, and a question about it finds some of them."""
    text = atheris.FuzzedDataProvider(data).ConsumeUnicode(1 << 14)
    words = PostingsBuilder()
    words.add([text, ""])
    tables = words.take(2)
    assert tables["starts"][-1] == len(tables["rows"]) == len(tables["counts"])
    assert set(query_words(text).tolist()) <= set(tables["words"].tolist())


def reader(name: str) -> Callable[[bytes], None]:
    """A check that a file of some name is read or refused."""

    def check(data: bytes) -> None:
        try:
            document = load_bytes(data, name, doc_id="d", path="p")
        except DocumentError as error:
            assert str(error).strip()
            assert "\n" not in str(error)
            return
        assert document.text.strip()
        json.dumps(
            [document.text, document.title, document.meta], allow_nan=False, ensure_ascii=False
        ).encode("utf-8")
        assert list(document.page_starts) == sorted(document.page_starts)

    return check


TARGETS: dict[str, tuple[Callable[[bytes], None], str]] = {
    "sentences": (check_sentences, "*.md"),
    "windows": (check_windows, "*.txt"),
    "growth": (check_growth, "*.txt"),
    "filters": (check_filter, "*.none"),
    "words": (check_words, "*.txt"),
    **{
        suffix: (reader(f"x.{suffix}"), f"*.{suffix}")
        for suffix in (
            *(
                "txt",
                "md",
                "rst",
                "html",
                "epub",
                "pdf",
                "docx",
                "odt",
                "rtf",
                "pptx",
                "xlsx",
                "ipynb",
                "csv",
                "tsv",
            ),
            *("json", "jsonl", "eml", "mbox", "srt", "vtt", "gz"),
        )
    },
}


def main() -> None:
    """Fuzz one target, or each in a process of its own."""
    if len(sys.argv) < 2 or sys.argv[1] not in (*TARGETS, "all"):
        sys.exit(f"{__doc__}\nTARGETS: {', '.join(TARGETS)}")
    if sys.argv[1] == "all":
        for name in TARGETS:
            done = subprocess.run(
                [sys.executable, __file__, name, *sys.argv[2:]], capture_output=True, text=True
            )
            last = [line for line in done.stderr.splitlines() if line.startswith("Done")]
            print(f"{name}: {last[-1] if last else done.stderr[-2_000:]}", flush=True)
            if done.returncode:
                sys.exit(1)
        return
    check, seeds = TARGETS[sys.argv.pop(1)]
    corpus = Path(tempfile.mkdtemp())
    for path in DATA.rglob(seeds):
        shutil.copy(path, corpus / path.name)
    atheris.Setup([*sys.argv, "-timeout=60", "-rss_limit_mb=4096", str(corpus)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
