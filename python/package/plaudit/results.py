"""What runs and commands came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from plaudit import notebook

_COLOURS = {"fatal": "#c53030", "warning": "#b7791f", "note": "#4a5568"}


class Result:
    """What a run or a command came to.

    `path` is the run directory (None for a command without one), `metrics` the newest value of each metric, `history` all of them with
    their steps, `data` what the command reported as JSON, `text` what it printed.
    """

    def __init__(
        self,
        command: list[str],
        path: Path | None,
        metrics: dict[str, float],
        history: dict[str, list[tuple[float, float]]],
        data: Any,
        text: str,
        code: int,
    ) -> None:
        self.command, self.path, self.metrics, self.history = command, path, metrics, history
        self.data, self.text, self.code = data, text, code

    @property
    def passed(self) -> bool:
        """Whether an audit was passed; True of everything else that came to its end."""
        return self.code == 0

    @property
    def images(self) -> list[Path]:
        """The images that the run wrote, such as its worst mistakes; the newest first."""
        if self.path is None:
            return []
        return sorted((self.path / "images").glob("**/*.png"), key=lambda file: file.stat().st_mtime, reverse=True)

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return f"Result({' '.join(self.command)}{where}, {len(self.metrics)} metrics)"

    def _repr_html_(self) -> str:
        title = notebook.escaped(" ".join(self.command))
        where = f"<p>{notebook.escaped(self.path)}</p>" if self.path else ""
        return f"<p><b>{title}</b></p>{where}{self._body()}"

    def _body(self) -> str:
        if not self.metrics:
            return notebook.table(dict(_scalars(self.data)))
        body = notebook.curves(self.history) + notebook.images(self.images[:2])
        metrics = notebook.table(self.metrics)
        return body + notebook.folded(f"{len(self.metrics)} metrics", metrics) if body else metrics


class Audit(Result):
    """What an audit found: `passed`, and in `data` everything that its page shows."""

    @property
    def findings(self) -> list[dict[str, str]]:
        """What speaks for and against the model, the worst first: `code`, `severity`, `what`, `hint`."""
        return (self.data or {}).get("verdict", {}).get("findings", [])

    @property
    def threshold(self) -> float | None:
        """Scores above it count as success."""
        return (self.data or {}).get("operating", {}).get("threshold")

    def __repr__(self) -> str:
        words = "passed" if self.passed else "not passed"
        return f"Audit({words}, {len(self.findings)} findings: {' '.join(self.command)})"

    def _body(self) -> str:
        colour, words = ("#2f855a", "passed") if self.passed else ("#c53030", "not passed")
        findings = "".join(
            f"<li><b style='color:{_COLOURS.get(one['severity'], '#4a5568')}'>{notebook.escaped(one['severity'])}</b> "
            f"{notebook.escaped(one['what'])} <i>{notebook.escaped(one['hint'])}</i></li>"
            for one in self.findings
        )
        verdict = f"<p style='color:{colour}'><b>{words}</b></p><ul>{findings}</ul>"
        return verdict + self._charts() + notebook.folded("every number", notebook.table(dict(_scalars(self.data))))

    def _charts(self) -> str:
        data = self.data or {}
        charts = [
            notebook.chart(title, {"": _points(data.get(key), "at", "value")})
            for title, key in (("ROC", "roc"), ("precision over recall", "precision_recall"))
        ]
        lines = {
            name: _points(data.get(key), "frame", "mean")
            for name, key in (("successes", "scores_of_successes"), ("failures", "scores_of_failures"))
        }
        return "".join(charts) + notebook.chart("scores over time", {name: line for name, line in lines.items() if line})


def _points(rows: Any, across: str, up: str) -> list[tuple[float, float]]:
    """Two numbers of each row, where they are numbers."""
    found = [(row.get(across), row.get(up)) for row in rows or []]
    return [(float(x), float(y)) for x, y in found if isinstance(x, (int, float)) and isinstance(y, (int, float))]


def _scalars(data: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _scalars(value, f"{name}.{key}" if name else str(key))
    elif isinstance(data, (int, float, str, bool)):
        yield name, data
