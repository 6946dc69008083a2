"""A picture of what delays lose, as SVG: for each delay the share of events that are late, in two orders."""

from __future__ import annotations

from html import escape

from controller.cli.log_checks.assess.model import Assessed

WIDTH, HEIGHT = 840, 400
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 90, 60
ARRIVED, REPLAYED, INK, LINE = "#1f6f8b", "#d1495b", "#222222", "#dddddd"


def delay_text(delay_ms: int) -> str:
    """A delay in the largest unit that says it exactly."""
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if delay_ms and not delay_ms % size_ms:
            return f"{delay_ms // size_ms} {unit}"
    return f"{delay_ms} ms"


def picture(name: str, arrived: Assessed, replayed: Assessed | None, fast: str | None, skew: int) -> str:
    """One bar for each delay, or two beside each other if there was a replay."""
    series = [(ARRIVED, "in order of arrival", arrived)]
    if replayed is not None:
        series.append((REPLAYED, f"in a replay that reads {(fast or '')[:40]} {skew} times as fast", replayed))
    wide = (WIDTH - LEFT - RIGHT) / len(arrived.delays_ms)
    bar = wide * 0.7 / len(series)
    high = HEIGHT - TOP - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="What delays lose">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, f"What a watermark of greatest time − delay loses: {name[:80]}", size=15),
    ]
    for percent in range(0, 101, 25):
        y = TOP + high * (1 - percent / 100)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{LINE}"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{percent} %", anchor="end"))
    for number, (colour, label, assessed) in enumerate(series):
        parts.append(f'<rect x="{LEFT}" y="{36 + 18 * number}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(LEFT + 18, 46 + 18 * number, label))
        for place, late in enumerate(assessed.total.late):
            share = late / assessed.total.events
            x = LEFT + wide * (place + 0.15) + bar * number
            y = TOP + high * (1 - share)
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{high * share:.1f}" fill="{colour}">'
                f"<title>{late:,} of {assessed.total.events:,}</title></rect>"
            )
            if late:
                parts.append(_text(x + bar / 2, y - 3, f"{100 * share:.1f}", anchor="middle", size=10))
    for place, delay_ms in enumerate(arrived.delays_ms):
        x = LEFT + wide * (place + 0.5)
        parts.append(_text(x, HEIGHT - BOTTOM + 18, delay_text(delay_ms), anchor="middle"))
    parts.append(_text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 16, "delay", anchor="middle"))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{escape(text)}</text>'
