# SPDX-License-Identifier: BSD-3-Clause
"""SVG plots, drawn by gnuplot."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Sequence

from .measures import BANDWIDTH, LATENCY, Measure
from .results import Results
from .suite import size_text

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_COLOURS += ("#F0E442", "#999999")
_NO_GNUPLOT = "no plots: gnuplot is not installed (Debian: gnuplot-nox)"
_POINTS = (7, 5, 9, 11, 13, 6, 4, 8, 10)


def draw(results: Results, folder: Path, subject: str, caption: str) -> Optional[str]:
    """Draw a plot for each measure. Return None, or why there are no plots."""
    if not shutil.which("gnuplot"):
        return _NO_GNUPLOT
    scripts = {
        measure.name: _measure_script(results, measure, caption)
        for measure in results.measures()
        if measure.axis and results.sizes(measure)
    }
    ratio = _ratio_script(results, subject, caption)
    if ratio:
        scripts["ratio"] = ratio
    for name, script in scripts.items():
        reason = _gnuplot(folder / f"{name}.svg", script)
        if reason:
            return reason
    return None


def draw_time(
    path: Path,
    title: str,
    step: float,
    rates: Mapping[str, Sequence[float]],
    events: Optional[Mapping[float, str]] = None,
) -> Optional[str]:
    """Draw MB/s over time, with events at times. Return None, or why there is no plot."""
    if not shutil.which("gnuplot"):
        return _NO_GNUPLOT
    lines = [
        f'set title "{_quoted(title)}" noenhanced',
        'set ylabel "MB/s"',
        'set xlabel "seconds"',
        "set yrange [0:*]",
        "set key outside top center horizontal",
    ]
    for time, event in (events or {}).items():
        lines.append(
            f"set arrow from {time:.3f}, graph 0 to {time:.3f}, graph 1 nohead dt 2"
        )
        lines.append(
            f'set label "{_quoted(event)}" at {time:.3f}, graph 0.03 offset 0.5, 0 noenhanced'
        )
    curves = []
    for index, (name, values) in enumerate(rates.items()):
        rows = [f"{(i + 0.5) * step:.6g} {rate:.6g}" for i, rate in enumerate(values)]
        lines.append(_block(index, rows))
        curves.append(
            f"$data{index} using 1:2 with lines "
            f"title \"{_quoted(name)}\" noenhanced lc rgb '{_COLOURS[index % len(_COLOURS)]}' lw 2"
        )
    return _gnuplot(path, "\n".join(lines) + "\nplot " + ", ".join(curves) + "\n")


def draw_shares(
    path: Path,
    title: str,
    groups: Sequence[str],
    shares: Mapping[str, Sequence[Sequence[float]]],
) -> Optional[str]:
    """
    Draw bars for the shares of each name in each group, each a list of samples: the
    median and the range. Return None, or why there is no plot.
    """
    if not shutil.which("gnuplot"):
        return _NO_GNUPLOT
    ticks = ", ".join(f'"{_quoted(name)}" {index}' for index, name in enumerate(groups))
    lines = [
        f'set title "{_quoted(title)}" noenhanced',
        'set ylabel "share"',
        "set yrange [0:1]",
        f"set xrange [-0.5:{len(groups) - 0.5}]",
        f"set xtics ({ticks}) noenhanced",
        "set key outside top center horizontal",
        "set style fill solid 0.8",
    ]
    curves = ["0.5 notitle lc rgb '#000000' dt 2 lw 1"]
    width = 0.8 / len(shares)
    for index, (name, samples) in enumerate(shares.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        rows = [
            f"{group + (index - (len(shares) - 1) / 2) * width:.6g} "
            f"{statistics.median(values):.6g} {min(values):.6g} {max(values):.6g}"
            for group, values in enumerate(samples)
            if values
        ]
        lines.append(_block(index, rows))
        curves.append(
            f"$data{index} using 1:2:({width * 0.9:.6g}) with boxes "
            f"title \"{_quoted(name)}\" noenhanced lc rgb '{colour}'"
        )
        curves.append(
            f"$data{index} using 1:2:3:4 with yerrorbars notitle "
            "lc rgb '#000000' lw 1 pt 7 ps 0.3"
        )
    return _gnuplot(path, "\n".join(lines) + "\nplot " + ", ".join(curves) + "\n")


@dataclass(frozen=True)
class Panel:
    """A part of a plot: curves over the same x, each point a list of samples."""

    title: str
    # By name and x.
    curves: Mapping[str, Mapping[float, Sequence[float]]]
    # The end of the y axis; None: as the samples need it.
    highest: Optional[float] = None


def draw_panels(path: Path, title: str, xlabel: str, panels: Sequence[Panel]) -> Optional[str]:
    """
    Draw panels of medians and ranges, with a logarithmic x axis, two in a row. Return None,
    or why there is no plot.
    """
    if not shutil.which("gnuplot"):
        return _NO_GNUPLOT
    lines, plots = [], []
    for panel in panels:
        curves = []
        for index, (name, points) in enumerate(panel.curves.items()):
            rows = [
                f"{x:g} {statistics.median(values):.6g} {min(values):.6g} {max(values):.6g}"
                for x, values in sorted(points.items())
            ]
            block = len(plots) * len(panel.curves) + index
            lines.append(_block(block, rows))
            curves.append(
                f"$data{block} using 1:2:3:4 with yerrorlines "
                f'title "{_quoted(name)}" noenhanced {_style(index)}'
            )
        highest = "*" if panel.highest is None else f"{panel.highest:g}"
        plots.append(
            f'set title "{_quoted(panel.title)}" noenhanced\n'
            f"set yrange [0:{highest}]\n"
            "plot " + ", ".join(curves) + "\n"
            # One key is enough.
            "unset key\n"
        )
    ticks = sorted({x for panel in panels for points in panel.curves.values() for x in points})
    lines += [
        "set logscale x 2",
        f"set xrange [{ticks[0] / 1.2:g}:{ticks[-1] * 1.2:g}]",
        "set xtics (" + ", ".join(f"{x:g}" for x in ticks) + ") font ',10'",
        f'set xlabel "{_quoted(xlabel)}" noenhanced',
        "set key bottom left Left reverse samplen 1 font ',11'",
        f'set multiplot layout {(len(panels) + 1) // 2},2 title "{_quoted(title)}" noenhanced',
    ]
    script = "\n".join(lines) + "\n" + "".join(plots) + "unset multiplot\n"
    return _gnuplot(path, script, height=350 * ((len(panels) + 1) // 2))


def _gnuplot(path: Path, script: str, height: int = 500) -> Optional[str]:
    done = subprocess.run(
        ["gnuplot"], input=_terminal(path, height) + script, capture_output=True, text=True
    )
    if not done.returncode:
        return None
    last = done.stderr.strip().splitlines()[-1:]
    return f"no {path.name}: gnuplot: {' '.join(last)}"


def _terminal(path: Path, height: int) -> str:
    name = str(path).replace("'", "''")
    return (
        f"set terminal svg size 800,{height} dynamic font 'sans-serif,13' "
        "background '#ffffff'\n"
        f"set output '{name}'\n"
        "set encoding utf8\n"
        "set grid ytics lc rgb '#dddddd' lt 1\n"
        "set border 3\n"
        "set tics nomirror out\n"
    )


def _size_axis(sizes: Sequence[int]) -> str:
    # Labels of all sizes would overlap.
    ticks = ", ".join(f'"{size_text(size)}" {size}' for size in sizes[::2])
    return (
        "set logscale x 2\n"
        f"set xrange [{sizes[0] / 1.3}:{sizes[-1] * 1.3}]\n"
        f"set xtics ({ticks})\n"
        'set xlabel "message size, bytes"\n'
    )


def _measure_script(results: Results, measure: Measure, caption: str) -> str:
    lines = [
        f'set title "{_quoted(measure.title)}\\n{_quoted(caption)}" noenhanced',
        f'set ylabel "{measure.shown_unit}"',
        _size_axis(results.sizes(measure)),
    ]
    lines.append("set yrange [0:*]" if measure.axis == "zero" else "set logscale y 10")
    lines.append("set key top left")
    blocks, curves = [], []
    for index, name in enumerate(results.transports):
        rows = []
        for size in results.sizes(measure):
            summary = results.summary(measure, name, size)
            if summary:
                values = (summary.median, summary.minimum, summary.maximum)
                shown = " ".join(f"{value * measure.scale:.6g}" for value in values)
                rows.append(f"{size} {shown}")
        if rows:
            blocks.append(_block(index, rows))
            bound = results.bounds.get(name)
            title = f"{name} ({bound})" if bound else name
            style = "lc rgb '#000000' dt 2 lw 1 pt 1 ps 0.6" if bound else _style(index)
            curves.append(
                f"$data{index} using 1:2:3:4 with yerrorlines "
                f'title "{_quoted(title)}" noenhanced {style}'
            )
    if not curves:
        return ""
    return "\n".join(lines + blocks) + "\nplot " + ", \\\n\t".join(curves) + "\n"


def _ratio_script(results: Results, subject: str, caption: str) -> str:
    blocks, curves = [], []
    sizes: set[int] = set()
    for index, measure in enumerate((LATENCY, BANDWIDTH)):
        ratios = results.ratios(measure, subject, results.transports)
        if not ratios:
            continue
        sizes.update(ratio.size for ratio in ratios)
        blocks.append(_block(index, [f"{r.size} {r.value:.6g}" for r in ratios]))
        direction = "lower" if measure.lower_is_better else "higher"
        curves.append(
            f"$data{index} using 1:2 with linespoints "
            f'title "{measure.title.lower()} ({direction} is better)" {_style(index)}'
        )
    if not curves:
        return ""
    lines = [
        f'set title "{subject} / best peer\\n{_quoted(caption)}" noenhanced',
        'set ylabel "ratio"',
        "set logscale y 2",
        "set key bottom left",
        _size_axis(sorted(sizes)),
    ]
    curves.insert(0, "1 notitle lc rgb '#000000' dt 2 lw 1")
    return "\n".join(lines + blocks) + "\nplot " + ", \\\n\t".join(curves) + "\n"


def _block(index: int, rows: list[str]) -> str:
    return f"$data{index} << END\n" + "\n".join(rows) + "\nEND"


def _style(index: int) -> str:
    colour = _COLOURS[index % len(_COLOURS)]
    point = _POINTS[index % len(_POINTS)]
    return f"lc rgb '{colour}' lw 2 pt {point} ps 0.6"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
