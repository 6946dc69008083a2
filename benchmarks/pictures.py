"""Draws curves: a picture for each subject, with a panel for each thing that it grows with, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Curve

STYLE: Final[Any] = {
    "svg.fonttype": "none",  # letters, not outlines: small files
    "svg.hashsalt": "strandline",  # equal curves give equal files
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
PANEL_INCHES: Final = (3.6, 2.9)
COLOURS: Final = ("#1f5fa8", "#c2571a", "#2d8055")
DECADES: Final = 2  # of cost in each panel at least, so that what hardly grows looks like it


def file_of(picture: str) -> Path:
    return Path("docs/images") / f"growth-{picture}.svg"


def draw(curves: Sequence[Curve], root: Path) -> None:
    """Draws all pictures of these curves."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    for picture in dict.fromkeys(curve.picture for curve in curves):
        panels: dict[str, list[Curve]] = {}
        for curve in curves:
            if curve.picture == picture:
                panels.setdefault(curve.against, []).append(curve)
        with pyplot.rc_context(STYLE):
            size = (PANEL_INCHES[0] * len(panels), PANEL_INCHES[1])
            figure, axes = pyplot.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
            for panel, (against, shown) in zip(axes[0], panels.items(), strict=True):
                _panel(panel, against, shown)
            figure.savefig(root / file_of(picture), metadata={"Date": None})
            pyplot.close(figure)


def _panel(axes: Any, against: str, curves: Iterable[Curve]) -> None:
    costs: list[float] = []
    all_sizes: set[int] = set()
    for curve, colour in zip(curves, COLOURS, strict=False):
        sizes, of_curve = zip(*curve.points, strict=True)
        costs.extend(of_curve)
        all_sizes.update(sizes)
        label = f"{curve.what} [{curve.unit}]\ngrows by the power {curve.exponent:.2f}"
        axes.plot(sizes, of_curve, marker="o", markersize=4, linewidth=1.4, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = (math.log10(each) for each in (min(costs), max(costs)))
    spare = max(0.0, DECADES - (high - low)) / 2
    axes.set_ylim(10 ** (low - spare - 0.2), 10 ** (high + spare + 0.9))  # room for the legend above
    axes.minorticks_off()
    if max(all_sizes) < 10 * min(all_sizes):  # there may be no power of ten between them
        axes.set_xticks(sorted(all_sizes), [f"{size:,}" for size in sorted(all_sizes)])
    axes.set_xlabel(against)
    axes.legend(loc="upper left", fontsize=8)
