"""Vectors of environments, in the Gymnasium that is installed: how they reset themselves came into words with 1.1."""

from __future__ import annotations

from plaudit.errors import MissingPackage, needs

try:
    import gymnasium
    from gymnasium.vector import VectorEnv
except ImportError as error:
    raise needs("gymnasium", "gymnasium") from error

try:
    from gymnasium.vector import AutoresetMode
except ImportError:
    import enum

    class AutoresetMode(enum.Enum):
        """As Gymnasium 1.1 has it."""

        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"
        DISABLED = "Disabled"

    HAS_MODES = False
    # Environments of 0.29 show the last observation beside the first of the next episode, those of 1.0 a step earlier.
    UNSAID = AutoresetMode.SAME_STEP if gymnasium.__version__.startswith("0.") else AutoresetMode.NEXT_STEP
else:
    HAS_MODES = True
    UNSAID = AutoresetMode.NEXT_STEP

# What wraps vectors has changed its name.
VectorWrapper = getattr(gymnasium.vector, "VectorWrapper", None) or gymnasium.vector.VectorEnvWrapper

__all__ = ["HAS_MODES", "UNSAID", "AutoresetMode", "VectorEnv", "VectorWrapper", "require_modes"]


def require_modes() -> None:
    """Refuses what older versions have no words for."""
    if not HAS_MODES:
        message = f"plaudit's vectors of environments need Gymnasium 1.1, and this is {gymnasium.__version__}"
        hint = 'pip install "gymnasium>=1.1", or put single ones into gymnasium.vector.SyncVectorEnv'
        raise MissingPackage(message, hint)
