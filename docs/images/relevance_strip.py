"""Draw docs/images/relevance-strip.png: how well each sentence of a document answers.

python docs/images/relevance_strip.py
"""

import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

from lmkrag import Engine

ROOT = Path(__file__).parents[2]
QUESTION = "How long must the lamp burn before the wick may be trimmed?"


def main() -> None:
    """Index the sample corpus, ask, draw."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(f"{folder}/index", create=True) as engine,
    ):
        engine.add(ROOT / "tests/data/corpus")
        span = engine.search(QUESTION, top_k=1)[0]
        scores = engine.score_sentences(QUESTION, span.doc_id)
    edges = [scores[0].start, *(score.end for score in scores)]
    figure, (strip, text) = plt.subplots(2, 1, figsize=(10, 2.6), height_ratios=(1, 1.5), dpi=150)
    strip.pcolormesh(edges, [0, 1], [[score.score for score in scores]], cmap="magma")
    strip.plot(
        [span.start, span.end],
        [1.12, 1.12],
        color="tab:green",
        linewidth=6,
        clip_on=False,
        solid_capstyle="butt",
    )
    strip.set_yticks([])
    strip.set_xlabel(
        f"{span.doc_id}, character by character: brighter sentences fit the question better",
        fontsize=8,
    )
    strip.tick_params(labelsize=7)
    strip.set_title(f"“{QUESTION}”", fontsize=10, loc="left", pad=12)
    text.axis("off")
    lines = textwrap.fill(" ".join(span.text.split()), 118)
    text.text(
        0,
        0.75,
        f"{span.place}   {span.section}\n\n{lines}",
        fontsize=8.5,
        va="top",
        color="tab:green",
    )
    figure.tight_layout()
    figure.savefig(ROOT / "docs/images/relevance-strip.png")


if __name__ == "__main__":
    main()
