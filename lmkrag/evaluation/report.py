"""Report a comparison: tables to read and JSON to keep."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.evaluation.compare import OURS, Comparison
from lmkrag.evaluation.metrics import BUDGETS, Overlap, Ranks, macro_interval, paired_interval
from lmkrag.models.files import write_json
from lmkrag.types.arrays import Floats
from lmkrag.version import __version__


@dataclass(frozen=True, slots=True)
class Difference:
    """Recall of lmkrag minus that of another system at one budget.

    Attributes:
        system: the other system.
        budget: the budget in characters.
        mean: mean over sets, each weighing the same.
        low: lower border of the 95 % interval.
        high: upper border.
        better: sets on which lmkrag is significantly better.
        worse: sets on which it is significantly worse.
    """

    system: str
    budget: int
    mean: float
    low: float
    high: float
    better: list[str]
    worse: list[str]


def differences(comparison: Comparison) -> list[Difference]:
    """Compare lmkrag's recall with every other system's by the paired bootstrap."""
    ours, *others = comparison.scores
    gains = []
    for system in others:
        for index, budget in enumerate(BUDGETS):
            by_set = {
                name: scores.overlaps[:, index, 0]
                - comparison.scores[system][name].overlaps[:, index, 0]
                for name, scores in comparison.scores[ours].items()
            }
            bounds = {name: paired_interval(values)[1:] for name, values in by_set.items()}
            gains.append(
                Difference(
                    system,
                    budget,
                    *macro_interval(list(by_set.values())),
                    better=[name for name, (low, _) in bounds.items() if low > 0],
                    worse=[name for name, (_, high) in bounds.items() if high < 0],
                )
            )
    return gains


def macro(comparison: Comparison, system: str) -> tuple[Floats, Floats]:
    """Return the mean scores of a system, every set weighing the same.

    Returns:
        ``[budgets, measures]`` and ``[rank measures]``, 0 to 1.
    """
    sets = comparison.scores[system].values()
    overlaps: Floats = np.mean([scores.overlaps.mean(0) for scores in sets], axis=0)
    ranks: Floats = np.mean([scores.ranks.mean(0) for scores in sets], axis=0)
    return overlaps, ranks


def to_json(comparison: Comparison, gains: Sequence[Difference]) -> dict[str, Any]:
    """Return the mean scores and the differences as JSON values, 0 to 1; scores of single queries
    are left out.
    """
    return {
        "version": __version__,
        "queries": {name: len(ids) for name, ids in comparison.queries.items()},
        "systems": {
            system: {
                "macro": _named(*macro(comparison, system)),
                "sets": {
                    name: _named(scores.overlaps.mean(0), scores.ranks.mean(0))
                    for name, scores in sets.items()
                },
            }
            for system, sets in comparison.scores.items()
        },
        "differences": [asdict(difference) for difference in gains],
    }


def _named(overlaps: Floats, ranks: Floats) -> dict[str, Any]:
    """Return mean scores by the names of their measures."""
    by_measure = {
        measure: dict(zip(map(str, BUDGETS), overlaps[:, column].tolist(), strict=True))
        for column, measure in enumerate(Overlap._fields)
    }
    return by_measure | dict(zip(Ranks._fields, ranks.tolist(), strict=True))


def to_text(comparison: Comparison, gains: Sequence[Difference]) -> str:
    """Return Markdown tables: the average over sets, each set's recall, and the differences."""
    return "\n".join(_lines(comparison, gains))


def _lines(comparison: Comparison, gains: Sequence[Difference]) -> Iterator[str]:
    budgets = " / ".join(map(str, BUDGETS))
    count = sum(map(len, comparison.queries.values()))
    yield (
        f"Average over {len(comparison.queries)} sets ({count} questions), in %; budgets "
        f"{budgets} characters\n"
    )
    yield "| system | " + " | ".join((*Overlap._fields, *Ranks._fields)) + " |"
    yield "|---" * (1 + len(Overlap._fields) + len(Ranks._fields)) + "|"
    for system in comparison.scores:
        overlaps, ranks = macro(comparison, system)
        cells = [_percent(overlaps[:, column]) for column in range(len(Overlap._fields))]
        yield (
            f"| {system} | "
            + " | ".join([*cells, *(f"{100 * value:.1f}" for value in ranks)])
            + " |"
        )
    yield f"\nRecall of each set at {budgets} characters\n"
    yield "| set | questions | " + " | ".join(comparison.scores) + " |"
    yield "|---" * (2 + len(comparison.scores)) + "|"
    for name, ids in comparison.queries.items():
        cells = [_percent(sets[name].overlaps.mean(0)[:, 0]) for sets in comparison.scores.values()]
        yield f"| {name} | {len(ids)} | " + " | ".join(cells) + " |"
    if not gains:
        return
    yield (
        f"\nRecall of {OURS} minus another's, in points, with its 95 % interval (paired "
        "bootstrap)\n"
    )
    yield "| against | budget | difference | sets significantly better | worse |"
    yield "|---|---|---|---|---|"
    for d in gains:
        worse = f"{len(d.worse)}" + (f" ({', '.join(d.worse)})" if d.worse else "")
        span = f"{100 * d.mean:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
        yield f"| {d.system} | {d.budget} | {span} | {len(d.better)} | {worse} |"


def _percent(values: Floats) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in values)


def write_report(
    comparison: Comparison, gains: Sequence[Difference], out: Path
) -> tuple[Path, Path]:
    """Write ``report.json`` and ``report.md``.

    Args:
        comparison: the scores.
        gains: the differences, from :func:`differences`.
        out: the directory; created if it is missing.

    Returns:
        The paths of both files.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "report.json", to_json(comparison, gains))
    (out / "report.md").write_text(to_text(comparison, gains) + "\n", "utf-8")
    return out / "report.json", out / "report.md"
