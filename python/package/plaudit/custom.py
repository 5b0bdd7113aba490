"""What users wrote in Python and plaudit's own runs use: environments."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from typing import Any

from plaudit.errors import InputError, needs

# What the written file calls the thing that makes an environment.
_MAKE = "make"
_FILE = '''\
"""The environment that was passed to plaudit as `env=`. A run makes it of this, now and when it is resumed."""

import base64
import sys

sys.path += [path for path in {paths!r} if path not in sys.path]

import cloudpickle

{make} = cloudpickle.loads(base64.b64decode({pickled!r}))
'''


def environment(env: Any, run: Path) -> dict[str, Any]:
    """The overrides that let a run use an environment of Python's.

    A word is an id that Gymnasium knows, or an entry point: `module:Class` or `path/to/file.py:Class`. A class, or a function that makes
    an environment, is written into the run directory, so that the run's own process can make it too.
    """
    if isinstance(env, str):
        named = {"entry_point": env} if _is_entry_point(env) else {"id": env}
    else:
        named = {"entry_point": f"{_written(env, run)}:{_MAKE}"}
    found: dict[str, Any] = {}
    for block in ("env.train", "env.eval"):
        found |= {f"{block}.env_type": "gymnasium", f"{block}.python": sys.executable}
        found |= {f"{block}.init_params.{key}": value for key, value in named.items()}
    return found


def _is_entry_point(word: str) -> bool:
    """`module:Class`, where `module:Id-v0` is an id that a module registers."""
    return ":" in word and not re.search(r"-v\d+$", word)


def _written(env: Any, run: Path) -> Path:
    """The file that makes what was passed. Objects of modules are kept by name, those of a notebook or a script as they are."""
    if hasattr(env, "step") and not isinstance(env, type):
        message = f"env is a {type(env).__name__} that was made already, and a run makes several"
        raise InputError(message, "pass its class, or a function that makes one: env=lambda: MyEnv(…)")
    if not callable(env):
        hint = "pass a class, a function that makes an environment, an id, or file.py:Class"
        raise InputError(f"env is a {type(env).__name__}", hint)
    try:
        import cloudpickle
    except ImportError as error:
        raise needs("cloudpickle", "gymnasium") from error
    try:
        pickled = cloudpickle.dumps(env)
    except Exception as error:  # whatever its parts raise
        hint = "put the environment into a file, and pass env='file.py:Class'"
        raise InputError(f"env cannot be sent to the run's process: {error}", hint) from error
    paths = [str(Path(path or ".").resolve()) for path in sys.path]
    text = _FILE.format(paths=paths, make=_MAKE, pickled=base64.b64encode(pickled).decode())
    run.mkdir(parents=True, exist_ok=True)
    file = run.resolve() / "environment.py"
    partial = file.with_suffix(".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
    return file
