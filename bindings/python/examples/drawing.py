"""Draws lines as SVG: enough for the plots of README.md and tutorial.md, with nothing to install."""

from __future__ import annotations

from collections.abc import Sequence

COLOURS = ("#b05030", "#206090", "#508030")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 56, 20, 40, 40
ACROSS, UP = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM


def lines(title: str, labels: Sequence[str], series: dict[str, Sequence[float]], *, digits: int = 0) -> str:
    """Draws each of `series` as a line over evenly spaced points, of which some are labelled."""
    most = 1.05 * max(max(values) for values in series.values())
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-weight="bold">{title}</text>',
    ]
    for part in range(5):
        y = HEIGHT - BOTTOM - UP * part / 4
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8d8d8"/>')
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{most * part / 4:.{digits}f}</text>')
    for number, label in enumerate(labels):
        x = LEFT + ACROSS * number / (len(labels) - 1)
        anchor = "end" if number == len(labels) - 1 else "middle"
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 16}" text-anchor="{anchor}">{label}</text>')
    for number, (name, values) in enumerate(series.items()):
        colour, last = COLOURS[number], len(values) - 1
        points = [(LEFT + ACROSS * at / last, HEIGHT - BOTTOM - UP * value / most) for at, value in enumerate(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        # Names stand in a corner of their own, so that they hide no line.
        y = TOP + 14 + 18 * number
        drawn.append(f'<text x="{LEFT + 12}" y="{y}" fill="{colour}">— {name}</text>')
    return "\n".join([*drawn, "</svg>", ""])
