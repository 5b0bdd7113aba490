"""The `plaudit` command: the same program as the binary, from the code of this package."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig


def _script() -> str | None:
    """What starts this program again, for commands that run others."""
    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) == "plaudit" and os.access(own, os.X_OK):
        return own
    beside = os.path.join(sysconfig.get_path("scripts"), "plaudit")
    return beside if os.access(beside, os.X_OK) else None


def main() -> None:
    """Runs the command line and exits with its code."""
    from plaudit._plaudit import run_command

    # Python would note Ctrl-C and let the command go on. It ends, or hears of it itself, as the binary does.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    code, _ = run_command(["plaudit", *sys.argv[1:]], _script())
    sys.exit(code)


if __name__ == "__main__":
    main()
