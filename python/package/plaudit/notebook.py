"""How things look in a notebook: HTML without scripts, so that it shows in any viewer and stays when the notebook is saved."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from pathlib import Path
from typing import Any, Iterable, Sequence

import numpy as np

Points = Sequence[tuple[float, float]]

# Curves and frames that are shown at once: a cell is looked at, not studied.
MOST_CURVES = 12
MOST_POINTS = 300
MOST_ROWS = 6
FRAMES_OF_A_ROW = 6
SIDE = 96
# Bytes of images that a run wrote, in one cell.
MOST_BYTES = 4 << 20

_COLOURS = ("#2b6cb0", "#c05621", "#2f855a")
_WIDTH, _HEIGHT, _EDGE = 230, 84, 4


def escaped(text: Any) -> str:
    """Text as it may stand in HTML."""
    return html.escape(str(text))


def shown(value: Any) -> str:
    """A value as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(numbers: dict[str, Any]) -> str:
    """Names and values."""
    rows = "".join(
        f"<tr><td>{escaped(name)}</td><td>{escaped(shown(value))}</td></tr>"
        for name, value in numbers.items()
    )
    return f"<table>{rows}</table>"


def folded(title: str, body: str) -> str:
    """What is there for those who open it."""
    return f"<details><summary>{escaped(title)}</summary>{body}</details>"


def curves(history: dict[str, Points]) -> str:
    """The curve of each metric that has one: those of the environment, of evaluation and of reward first."""
    drawn = {name: points for name, points in history.items() if len(points) > 1}
    first = [name for group in _ORDER for name in drawn if name.startswith(group)]
    names = list(dict.fromkeys([*first, *drawn]))[:MOST_CURVES]
    return "".join(chart(name, {"": drawn[name]}, shown(float(drawn[name][-1][1]))) for name in names)


_ORDER = ("eval/success", "eval/", "env/success", "env/return", "env/", "reward/", "train/loss")


def chart(title: str, lines: dict[str, Points], note: str = "") -> str:
    """Lines over one another, with the range of both axes."""
    finite = {name: [point for point in points if all(map(math.isfinite, point))] for name, points in lines.items()}
    every = [point for points in finite.values() for point in points]
    if not every:
        return ""
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*every))

    def place(x: float, y: float) -> str:
        across = _EDGE + (_WIDTH - 2 * _EDGE) * (x - left) / ((right - left) or 1)
        down = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (y - low) / ((high - low) or 1)
        return f"{across:.1f},{down:.1f}"

    drawn = "".join(
        f"<polyline fill='none' stroke='{colour}' stroke-width='1.5' points='{' '.join(place(*point) for point in thinned(points))}'/>"
        for colour, points in zip(_COLOURS, finite.values())
    )
    names = " ".join(
        f"<span style='color:{colour}'>{escaped(name)}</span>" for colour, name in zip(_COLOURS, finite) if name
    )
    words = f"<b>{escaped(title)}</b> {escaped(note)} {names}"
    about = f"{shown(float(low))} to {shown(float(high))}, from {shown(float(left))} to {shown(float(right))}"
    return (
        f"<div style='display:inline-block;margin:4px;font-size:11px' title='{escaped(about)}'>{words}<br>"
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' style='background:#f7fafc;border:1px solid #cbd5e0'>{drawn}</svg></div>"
    )


def thinned(points: Points) -> Points:
    """No more points than can be told apart, with the last one."""
    every = max(1, math.ceil(len(points) / MOST_POINTS))
    return points if every == 1 else [*points[:-1:every], points[-1]]


def image(data: bytes, title: str = "", border: str = "#cbd5e0") -> str:
    """A PNG."""
    coded = base64.b64encode(data).decode()
    return f"<img title='{escaped(title)}' style='border:2px solid {border};margin:1px' src='data:image/png;base64,{coded}'>"


def images(files: Iterable[Path]) -> str:
    """PNG files, as many as a cell should hold."""
    parts, left = [], MOST_BYTES
    for file in files:
        left -= file.stat().st_size
        if left < 0:
            break
        parts.append(f"<p>{escaped(file.stem)}<br>{image(file.read_bytes(), file.name)}</p>")
    return "".join(parts)


def png(pixels: np.ndarray) -> bytes:
    """An image of height, width and one or three colours as a PNG file."""
    pixels = np.ascontiguousarray(pixels, np.uint8)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    height, width, colours = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[colours]
    rows = np.zeros((height, 1 + width * colours), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(rows.tobytes(), 6)) + part(b"IEND", b"")


def small(pixels: np.ndarray) -> np.ndarray:
    """Every so many pixels of an image that is larger than a cell needs."""
    every = max(1, math.ceil(max(pixels.shape[:2]) / SIDE))
    return pixels[::every, ::every]


def spread(count: int, most: int) -> list[int]:
    """Numbers from 0 to count, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


def recording(one: Any) -> str:
    """Some frames of a recording, from the first to the last, with a border that says how each is labelled."""
    colours = {True: "#2f855a", False: "#c53030", None: "#a0aec0"}
    mark = {True: "success", False: "no success", None: "nobody said whether it is a success"}[one.success]
    frames = ""
    if one.cameras:
        # Labels that follow actions say nothing of what a reset shows.
        labels = [None, *one.labels] if one.follows_actions else one.labels
        for at in spread(len(one), FRAMES_OF_A_ROW):
            label = labels[at] if at < len(labels) else None
            frames += image(png(small(one.frame(at))), f"frame {at}", colours[label])
    about = f"{len(one)} frames, {mark}" + (f", {one.task}" if one.task else "")
    return f"<div style='font-size:11px'><b>{escaped(one.name)}</b> {escaped(about)}<br>{frames}</div>"


def recordings(every: Any) -> str:
    """A contact sheet: some of the recordings that lie at a path. Only those are read."""
    count = len(every)
    rows = []
    for number in spread(count, MOST_ROWS):
        try:
            rows.append(recording(every.read(number)[0]))
        except Exception as error:  # a file that cannot be read is a row of the sheet, not the end of it
            rows.append(f"<div style='font-size:11px'>item {number}: {escaped(error)}</div>")
    title = f"<b>{escaped(every.path)}</b> ({escaped(every.format)}): {len(rows)} of {count}"
    return f"<p>{title}; green is labelled a success, red a failure</p>{''.join(rows)}"
