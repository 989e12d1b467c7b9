"""Say what a comparison found: a table to read, JSON to keep, a page with plots."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.arrays import Floats
from lmkrag.errors import needs
from lmkrag.evaluation.compare import OURS, Comparison
from lmkrag.evaluation.metrics import macro_interval, paired_interval
from lmkrag.version import __version__

_PAGE = Path(__file__).with_name("report.html")


@dataclass(frozen=True, slots=True)
class Difference:
    """Recall of lmkrag minus a baseline's at a budget: mean and 95 % interval, and where it is significant."""

    system: str
    budget: int
    mean: float
    low: float
    high: float
    better: list[str]
    worse: list[str]


def differences(comparison: Comparison) -> list[Difference]:
    """Compare lmkrag's recall with every baseline's by the paired bootstrap, every set weighing the same."""
    ours, *others = comparison.scores
    gains = []
    for system in others:
        for index, budget in enumerate(comparison.budgets):
            by_set = {
                name: scores.overlaps[:, index, 0] - comparison.scores[system][name].overlaps[:, index, 0]
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
    """Return a system's ``[budgets, measures]`` and ``[rank measures]``, every set weighing the same."""
    sets = comparison.scores[system].values()
    overlaps: Floats = np.mean([scores.overlaps.mean(0) for scores in sets], axis=0)
    ranks: Floats = np.mean([scores.ranks.mean(0) for scores in sets], axis=0)
    return overlaps, ranks


def to_json(comparison: Comparison, gains: Sequence[Difference]) -> dict[str, Any]:
    """Return everything but the per-query scores, shares between 0 and 1."""
    return {
        "version": __version__,
        "queries": {name: len(ids) for name, ids in comparison.queries.items()},
        "systems": {
            system: {
                "macro": _named(comparison, *macro(comparison, system)),
                "sets": {
                    name: _named(comparison, scores.overlaps.mean(0), scores.ranks.mean(0))
                    for name, scores in sets.items()
                },
            }
            for system, sets in comparison.scores.items()
        },
        "differences": [{name: getattr(difference, name) for name in Difference.__slots__} for difference in gains],
    }


def _named(comparison: Comparison, overlaps: Floats, ranks: Floats) -> dict[str, Any]:
    by_measure = {
        measure: dict(zip(map(str, comparison.budgets), overlaps[:, column].tolist(), strict=True))
        for column, measure in enumerate(comparison.measures)
    }
    return by_measure | dict(zip(comparison.rank_measures, ranks.tolist(), strict=True))


def to_text(comparison: Comparison, gains: Sequence[Difference]) -> str:
    """Return Markdown tables: the macro average, each set's recall, the differences."""
    return "\n".join(_lines(comparison, gains))


def _lines(comparison: Comparison, gains: Sequence[Difference]) -> Iterator[str]:
    budgets = " / ".join(map(str, comparison.budgets))
    count = sum(map(len, comparison.queries.values()))
    yield f"Average over {len(comparison.queries)} sets ({count} questions), in %; budgets {budgets} characters\n"
    yield "| system | " + " | ".join((*comparison.measures, *comparison.rank_measures)) + " |"
    yield "|---" * (1 + len(comparison.measures) + len(comparison.rank_measures)) + "|"
    for system in comparison.scores:
        overlaps, ranks = macro(comparison, system)
        cells = [_percent(overlaps[:, column]) for column in range(len(comparison.measures))]
        yield f"| {system} | " + " | ".join([*cells, *(f"{100 * value:.1f}" for value in ranks)]) + " |"
    yield f"\nRecall of each set at {budgets} characters\n"
    yield "| set | questions | " + " | ".join(comparison.scores) + " |"
    yield "|---" * (2 + len(comparison.scores)) + "|"
    for name, ids in comparison.queries.items():
        cells = [_percent(sets[name].overlaps.mean(0)[:, 0]) for sets in comparison.scores.values()]
        yield f"| {name} | {len(ids)} | " + " | ".join(cells) + " |"
    if not gains:
        return
    yield f"\nRecall of {OURS} minus another's, in points, with its 95 % interval (paired bootstrap)\n"
    yield "| against | budget | difference | sets significantly better | worse |"
    yield "|---|---|---|---|---|"
    for d in gains:
        worse = f"{len(d.worse)}" + (f" ({', '.join(d.worse)})" if d.worse else "")
        span = f"{100 * d.mean:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
        yield f"| {d.system} | {d.budget} | {span} | {len(d.better)} | {worse} |"


def _percent(values: Floats) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in values)


def write_report(comparison: Comparison, gains: Sequence[Difference], out: Path) -> tuple[Path, Path]:
    """Write ``report.json`` and ``report.html``, and return their paths. Raises MissingExtra: the ``eval`` extra."""
    with needs("eval", "jinja2"):
        from jinja2 import Environment
    out.mkdir(parents=True, exist_ok=True)
    values = to_json(comparison, gains)
    (out / "report.json").write_text(json.dumps(values, indent=1) + "\n", "utf-8")
    page = Environment(autoescape=True).from_string(_PAGE.read_text("utf-8"))
    plots = [_plot(comparison, name) for name in (None, *comparison.queries)]
    html = page.render(
        report=values, plots=plots, budgets=[str(budget) for budget in comparison.budgets], measures=comparison.measures
    )
    (out / "report.html").write_text(html, "utf-8")
    return out / "report.json", out / "report.html"


def _plot(comparison: Comparison, name: str | None) -> str:
    """Recall against budget as SVG: of a set, or the average without one."""
    with needs("eval", "matplotlib"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(7, 4.2) if name is None else (3.6, 2.6), layout="constrained")
    axes = figure.add_subplot()
    for system, sets in comparison.scores.items():
        means = macro(comparison, system)[0] if name is None else sets[name].overlaps.mean(0)
        axes.plot(comparison.budgets, 100 * means[:, 0], marker="o", linewidth=2.5 if system == OURS else 1.2)
        axes.lines[-1].set_label(system)
    axes.set_xscale("log", base=2)
    axes.set_xticks(comparison.budgets, [f"{budget:,}" for budget in comparison.budgets])
    axes.set(title=name or "average over sets", ylim=(0, 100))
    axes.grid(alpha=0.3)
    if name is None:
        axes.set(xlabel="characters retrieved", ylabel="evidence found, %")
        axes.legend()
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]
