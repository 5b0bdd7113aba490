"""Tells Gymnasium about the simulator's environments as soon as both are imported, whichever comes first.

Importing Gymnasium takes longer than `import plaudit` may, so it is waited for.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys

_GYMNASIUM = "gymnasium"


NAMESPACE = "plaudit"


def register() -> None:
    """Tells Gymnasium about the environments, which are made when somebody asks for one."""
    # Gymnasium 0.29 looks for plugins while it is being imported: its own names for these are not there yet.
    from gymnasium.envs import registration

    from plaudit._plaudit import Simulator

    for name in Simulator.ids():
        own_id = f"{NAMESPACE}/{name}"
        if own_id not in registration.registry:
            registration.register(
                id=own_id,
                entry_point="plaudit.envs:Env",
                vector_entry_point="plaudit.envs:VectorEnv",
                kwargs={"name": name},
            )


class _WhenImported(importlib.abc.MetaPathFinder):
    """Finds nothing itself; registers once Gymnasium was found and loaded by whoever finds it."""

    def find_spec(self, name, path, target=None):
        if name != _GYMNASIUM:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module):
                load(module)
                register()

            spec.loader.exec_module = load_and_register
        return spec


def watch() -> None:
    """Registers now, or when Gymnasium is imported."""
    if _GYMNASIUM in sys.modules:
        register()
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())
