# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the results."""

from __future__ import annotations

import math
import statistics
from typing import Optional, Sequence, Union

from .measures import Measure
from .results import Figure, Results, Summary, geometric_mean
from .suite import size_text


def render(results: Results, measure: Measure, subject: str) -> str:
    names = results.shown(measure)
    bounds = [name for name in names if name in results.bounds]
    direction = "lower" if measure.lower_is_better else "higher"
    rows = [
        (size_text(size) if size else "-", measure, size)
        for size in results.sizes(measure)
    ]
    lines = [f"{measure.title}, {measure.shown_unit} ({direction} is better)"]
    lines += _aligned(_beside(results, "size", rows, names, subject), ">")

    ratios = results.ratios(measure, subject, names) if subject in names else []
    if len(ratios) > 1:
        mean = geometric_mean(ratio.value for ratio in ratios)
        lines.append(
            f"geometric mean of {subject}/best over {len(ratios)} sizes: {mean:.3f}"
        )
    lines += [f"({name}): {results.bounds[name]}" for name in bounds]
    for name in names:
        if results.failed(measure, name):
            lines.append(f"{name} FAILED: {results.failures[measure, name]}")
    return "\n".join(lines)


def matrix(
    results: Results,
    title: str,
    rows: Sequence[tuple[str, Measure, int]],
    subject: str,
) -> str:
    """A table with a row for each label, measure and size, and a column for each transport."""
    names = results.transports
    return "\n".join([title, *_aligned(_beside(results, "", rows, names, subject), "<")])


def _beside(
    results: Results,
    head: str,
    rows: Sequence[tuple[str, Measure, int]],
    names: Sequence[str],
    subject: str,
) -> list[list[str]]:
    """The transports beside each other, then the subject's ratios to the best peer and to bounds."""
    bounds = [name for name in names if name in results.bounds]
    compared = subject in names and len(names) > 1 + len(bounds)
    bounded = bounds if subject in names else []
    cells = [[head, *(f"({name})" if name in bounds else name for name in names)]]
    cells[0] += [f"{subject}/best"] if compared else []
    cells[0] += [f"{subject}/{name}" for name in bounded]
    for label, measure, size in rows:
        row = [label, *(_cell(results, measure, name, size) for name in names)]
        if compared:
            ratio = results.ratio(measure, subject, names, size)
            row.append(f"{ratio.value:.2f} {ratio.peer}" if ratio else "-")
        for name in bounded:
            share = results.ratio_to_bound(measure, subject, name, size)
            row.append(f"{share:.2f}" if share else "-")
        cells.append(row)
    return cells


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and the range if there are several values."""
    if not values:
        return "-"
    text = f"{statistics.median(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} {max(values):.{digits}f})"
    return text


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns of equal width, aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths)).rstrip()
        for row in rows
    ]


def _aligned(rows: Sequence[Sequence[str]], first: str) -> list[str]:
    """Lines with columns of equal width, the first one aligned as given."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        f"  {row[0]:{first}{widths[0]}}"
        + "".join(f"  {text:>{width}}" for text, width in zip(row[1:], widths[1:]))
        for row in rows
    ]


def grid(
    results: Results,
    title: str,
    rows: Sequence[tuple[str, str, int]],
    columns: Sequence[tuple[str, Union[Measure, Figure]]],
) -> str:
    """
    A table with a row for each label, transport and size, and a column for each
    head and quantity. Rows without values are left out; empty if all are.
    """
    cells = [["", *(head for head, _ in columns)]]
    for label, transport, size in rows:
        shown = [_cell(results, what, transport, size) for _, what in columns]
        if any(text != "-" for text in shown):
            cells.append([label, *shown])
    if len(cells) == 1:
        return ""
    return "\n".join([title, *_aligned(cells, "<")])


def _cell(
    results: Results, what: Union[Measure, Figure], transport: str, size: int
) -> str:
    if isinstance(what, Measure):
        if results.failed(what, transport):
            return "failed"
        return _summary_text(results.summary(what, transport, size), what)
    value = results.figure(what, transport, size)
    return "-" if value is None else f"{value:.3f}"


def _summary_text(summary: Optional[Summary], measure: Measure) -> str:
    if summary is None:
        return "-"
    text = digits(summary.median * measure.scale)
    return f"{text} ({summary.spread:4.0%})" if summary.repetitions > 1 else text


def digits(value: float) -> str:
    """Format with three significant digits and without an exponent."""
    if not value:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{decimals}f}"
