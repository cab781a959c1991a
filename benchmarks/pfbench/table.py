# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the results."""

from __future__ import annotations

import math
from typing import Optional, Sequence, Union

from .measures import Measure
from .results import Figure, Ratio, Results, Summary, geometric_mean
from .suite import size_text

_SIZE_WIDTH = 7
_RATIO_WIDTH = 16


def render(results: Results, measure: Measure, subject: str) -> str:
    compared = subject in results.transports and len(results.transports) > 1
    width = max(14, *(len(name) + 2 for name in results.transports))
    direction = "lower" if measure.lower_is_better else "higher"
    lines = [f"{measure.title}, {measure.shown_unit} ({direction} is better)"]

    heads = [f"{name:>{width}}" for name in results.transports]
    if compared:
        heads.append(f"{subject + '/best':>{_RATIO_WIDTH}}")
    lines.append(f"{'size':>{_SIZE_WIDTH}}" + "".join(heads))

    for size in results.sizes(measure):
        cells = [
            _cell(results, measure, name, size, width) for name in results.transports
        ]
        if compared:
            ratio = results.ratio(measure, subject, results.transports, size)
            cells.append(f"{_ratio_text(ratio):>{_RATIO_WIDTH}}")
        label = size_text(size) if size else "-"
        lines.append(f"{label:>{_SIZE_WIDTH}}" + "".join(cells))

    ratios = results.ratios(measure, subject, results.transports) if compared else []
    if len(ratios) > 1:
        mean = geometric_mean(ratio.value for ratio in ratios)
        lines.append(
            f"geometric mean of {subject}/best over {len(ratios)} sizes: {mean:.3f}"
        )
    for transport in results.transports:
        if results.failed(measure, transport):
            lines.append(f"{transport} FAILED: {results.failures[measure, transport]}")
    return "\n".join(lines)


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
        shown = [_grid_text(results, what, transport, size) for _, what in columns]
        if any(text != "-" for text in shown):
            cells.append([label, *shown])
    if len(cells) == 1:
        return ""
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join(
        [title]
        + [
            f"  {row[0]:<{widths[0]}}"
            + "".join(f"  {text:>{width}}" for text, width in zip(row[1:], widths[1:]))
            for row in cells
        ]
    )


def _grid_text(
    results: Results, what: Union[Measure, Figure], transport: str, size: int
) -> str:
    if isinstance(what, Measure):
        if results.failed(what, transport):
            return "failed"
        return _summary_text(results.summary(what, transport, size), what)
    value = results.figure(what, transport, size)
    return "-" if value is None else f"{value:.3f}"


def _cell(
    results: Results, measure: Measure, transport: str, size: int, width: int
) -> str:
    if results.failed(measure, transport):
        return f"{'failed':>{width}}"
    summary = results.summary(measure, transport, size)
    return f"{_summary_text(summary, measure):>{width}}"


def _summary_text(summary: Optional[Summary], measure: Measure) -> str:
    if summary is None:
        return "-"
    text = digits(summary.median * measure.scale)
    return f"{text} ({summary.spread:4.0%})" if summary.repetitions > 1 else text


def _ratio_text(ratio: Optional[Ratio]) -> str:
    return f"{ratio.value:.2f} {ratio.peer}" if ratio else "-"


def digits(value: float) -> str:
    """Format with three significant digits and without an exponent."""
    decimals = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{decimals}f}"
