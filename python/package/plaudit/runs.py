"""Runs: training, collecting, auditing. Each is a process of its own, so that Ctrl-C, memory and threads are its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, Iterator

from plaudit import custom, notebook
from plaudit.errors import InputError, RunError
from plaudit.results import Audit, Result

__all__ = ["Audit", "Result", "Run", "audit", "collect", "evaluate", "reward_eval", "reward_train", "train"]

# How often the log of a run is looked at, in seconds.
_LOOK_EVERY = 0.1
# How long a run may take to save what it has when it is asked to stop, in seconds.
_PATIENCE = 120.0


def _notebook(run: "Run"):
    """What shows a run in a notebook while it goes on; None elsewhere."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython.display import HTML, display

    shown = display(HTML(run._repr_html_()), display_id=True)
    return lambda run: shown.update(HTML(run._repr_html_()))


def _interrupt(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)


class Run:
    """A run that is going on. A loop over it gives its events as dicts; `result()` waits for its end.

    for event in plaudit.train("cartpole_ppo", wait=False):
        if event["event"] == "metrics":
            print(event["step"], event["values"])
    """

    def __init__(self, words: list[str], path: Path | None, quiet: bool, kind: type[Result] = Result) -> None:
        self._kind = kind
        self.command = ["plaudit", *words]
        self.path = path
        self.metrics: dict[str, float] = {}
        self.history: dict[str, list[tuple[float, float]]] = {}
        self.step, self.steps, self.unit = 0, None, "steps"
        self._report = tempfile.TemporaryFile()
        self._out = tempfile.TemporaryFile()
        self._read = 0
        self._result: Result | None = None
        shows = sys.stderr is not None and sys.stderr.isatty() and not quiet
        self._errors = None if shows else tempfile.TemporaryFile()
        program = [sys.executable, "-m", "plaudit._child", str(self._report.fileno()), *words]
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._errors,
            pass_fds=(self._report.fileno(),),
            # Ctrl-C reaches this process, which asks the run to stop; in its group it would hear of it twice.
            start_new_session=True,
        )
        # A run that nobody holds any more, or whose Python ends, is asked to stop: it saves, and can be resumed.
        weakref.finalize(self, _interrupt, self._process)
        self._view = None if quiet or shows else _notebook(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The events of the run, as they come: `started`, `progress`, `metrics`, `saved`, `notice`, `ended`."""
        try:
            while True:
                ended = self._process.poll() is not None
                yield from self._new_events()
                if ended:
                    break
                time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:
            self.stop()
            raise
        self.result()

    def result(self) -> Result:
        """Waits for the end. A run that failed raises `plaudit.RunError` with plaudit's words."""
        if self._result is None:
            try:
                while self._process.poll() is None:
                    for _ in self._new_events():
                        pass
                    time.sleep(_LOOK_EVERY)
            except KeyboardInterrupt:
                self.stop()
                raise
            for _ in self._new_events():
                pass
            self._result = self._finished()
        return self._result

    def stop(self) -> None:
        """Asks the run to stop: it finishes its step, saves, and can be resumed with `runner.resume_dir`."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _new_events(self) -> Iterator[dict[str, Any]]:
        """The whole lines that the log of the run has by now."""
        log = None if self.path is None else self.path / "events.jsonl"
        if log is None or not log.exists():
            return
        with open(log, "rb") as file:
            file.seek(self._read)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._read += len(line)
            event = json.loads(line)
            if event.get("event") == "metrics":
                event["values"] = {name: float(value) for name, value in event["values"]}
                self.metrics.update(event["values"])
                for name, value in event["values"].items():
                    self.history.setdefault(name, []).append((event["step"], value))
            self._note(event)
            yield event

    def _note(self, event: dict[str, Any]) -> None:
        """How far it is, for those who look."""
        self.step = event.get("step", self.step)
        if event.get("event") == "started":
            self.steps, self.unit = event.get("steps"), event.get("unit", self.unit)
        if self._view is not None and event.get("event") in ("started", "progress", "metrics", "ended"):
            self._view(self)

    def __repr__(self) -> str:
        of = f" of {self.steps}" if self.steps else ""
        return f"Run({' '.join(self.command)}: {self.step}{of} {self.unit})"

    def _repr_html_(self) -> str:
        of = f" of {self.steps}" if self.steps else ""
        bar = f"<progress value='{self.step}' max='{self.steps}'></progress> " if self.steps else ""
        metrics = notebook.folded(f"{len(self.metrics)} metrics", notebook.table(self.metrics)) if self.metrics else ""
        return f"<p>{bar}{self.step}{of} {notebook.escaped(self.unit)}</p>{notebook.curves(self.history)}{metrics}"

    def _finished(self) -> Result:
        code, text = self._process.returncode, _read(self._out)
        if code not in (0, 3):
            raise self._failure(code)
        data = None
        if text.startswith(("{", "[")):
            data = json.loads(text)
        return self._kind(self.command, self.path, self.metrics, self.history, data, text, code)

    def _failure(self, code: int) -> RunError:
        report = _read(self._report)
        if report:
            told = json.loads(report)
            return RunError(told["message"], told["hint"], code)
        said = "" if self._errors is None else _read(self._errors).strip()
        if code < 0:
            return RunError(f"{' '.join(self.command)} was ended by signal {-code}", None, code)
        return RunError(said or f"{' '.join(self.command)} stopped before its end", None, code)


def _read(file) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _word(value: Any) -> str:
    """A value as it stands after `key=`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_word(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}: {_word(item)}" for key, item in value.items()) + "}"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _words(overrides: dict[str, Any]) -> list[str]:
    """Overrides as the command takes them; in names of Python's, `__` stands for a dot."""
    return [f"{key.replace('__', '.')}={_word(value)}" for key, value in overrides.items()]


def _run(words: list[str], overrides: dict[str, Any], job: str, wait: bool, quiet: bool, flags=(), env=None):
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    path = _directory(named)
    if path is None:
        path = (
            Path("logs")
            / f"{time.strftime('%Y%m%d-%H:%M:%S')}-{job}-{os.getpid()}-{time.monotonic_ns() % 10**6}"
        )
        named["runner.logger.log_path"] = path
    if env is not None:
        named = custom.environment(env, path) | named
    run = Run([*words, *_words(named), *flags] + (["--quiet"] if quiet else []), path, quiet)
    return run.result() if wait else run


def _directory(named: dict[str, Any]) -> Path | None:
    """Where a run will be, if that is said: a run that goes on stays where it is, and one from a checkpoint is a new one."""
    path = named.get("runner.logger.log_path")
    resumed = named.get("runner.resume_dir")
    if path is None and resumed is not None and not Path(resumed).name.startswith("global_step_"):
        path = resumed
    return None if path is None else Path(path)


def train(config: str, /, *, env: Any = None, wait: bool = True, quiet: bool = False, **overrides: Any):
    """Trains a policy by a recipe or a config file: `plaudit train`.

    Overrides are keys of the config, with `__` for a dot: `train("cartpole_ppo", runner__max_epochs=5)`, or `**{"runner.max_epochs": 5}`.
    With `wait=False` it gives the `Run` at once.

    `env` is an environment written in Python, a `gymnasium.Env` or a `VectorEnv`: its class, a function that makes one, an id that
    Gymnasium knows, or `path/to/file.py:Class`. `train("gymnasium_ppo", env=MyEnv)` is a config for any of them.
    """
    return _run(["train", _config(config)], overrides, Path(config).stem, wait, quiet, env=env)


def collect(
    config: str,
    /,
    *,
    env: Any = None,
    episodes: int | None = None,
    wait: bool = True,
    quiet: bool = False,
    **overrides: Any,
):
    """Collects episodes by a recipe or a config file: `plaudit collect`. `episodes` is how many, `env` as in `train`."""
    flags = [] if episodes is None else ["--episodes", str(int(episodes))]
    return _run(["collect", _config(config)], overrides, Path(config).stem, wait, quiet, flags, env)


def evaluate(config: str, /, *, env: Any = None, wait: bool = True, quiet: bool = False, **overrides: Any):
    """Evaluates a policy by the environment's ground truth: `plaudit eval`. `env` as in `train`."""
    return _run(["eval", _config(config)], overrides, Path(config).stem, wait, quiet, env=env)


def reward_train(
    config: str = "reward_training", /, *, wait: bool = True, quiet: bool = False, **overrides: Any
):
    """Trains a reward model by a recipe or a config file: `plaudit reward train`."""
    return _run(["reward", "train", _config(config)], overrides, Path(config).stem, wait, quiet)


def reward_eval(model, data, *, flags: list[str] | tuple[str, ...] = (), quiet: bool = True) -> Result:
    """Measures a reward model on labelled data: `plaudit reward eval --json`. `data` of the result has the numbers."""
    words = ["reward", "eval", os.fspath(model), *_paths(data), "--json", *flags]
    return Run(words + (["--quiet"] if quiet else []), None, quiet).result()


def audit(model, data, *, flags: list[str] | tuple[str, ...] = (), output=None, quiet: bool = True) -> Audit:
    """Finds out whether a reward model can be trusted: `plaudit reward audit --json`.

    `passed` of the result says whether it can; `data` has the numbers. Threshold and temperature are stored in the model, unless
    `flags` has `--no-store`.
    """
    where = [] if output is None else ["--output", os.fspath(output)]
    words = ["reward", "audit", os.fspath(model), *_paths(data), "--json", *where, *flags]
    return Run(words + (["--quiet"] if quiet else []), None, quiet, Audit).result()


def _paths(data) -> list[str]:
    several = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    return [os.fspath(path) for path in several]


def _config(config: Any) -> str:
    if not isinstance(config, (str, os.PathLike)):
        raise InputError(
            f"{type(config).__name__} is no config", "pass a recipe's name or the path of a YAML file"
        )
    return os.fspath(config)
