"""What can go wrong: one kind of exception, in plaudit's words."""

from __future__ import annotations


class Error(Exception):
    """plaudit refused or failed. `message` says what is wrong, `hint` what to do, where that is known."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  help: {self.hint}"


class InputError(Error, ValueError):
    """What was passed cannot be taken: its type, shape, device or value. The message says what was expected."""


class RunError(Error):
    """A run or a command failed. `code` is the exit code of the command."""

    def __init__(self, message: str, hint: str | None = None, code: int = 1) -> None:
        super().__init__(message, hint)
        self.code = code

    def __reduce__(self):
        return type(self), (self.message, self.hint, self.code)


class MissingPackage(Error, ImportError):
    """A package that is needed here is not installed."""


def needs(package: str, extra: str) -> MissingPackage:
    """The exception for a package that an extra would have brought."""
    return MissingPackage(f"this needs {package}, which is not installed", f"pip install 'plaudit[{extra}]'")
