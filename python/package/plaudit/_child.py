"""The process of a run: the command, with its failure reported to the process that started it."""

from __future__ import annotations

import json
import os
import signal
import sys


def main() -> None:
    """`python -m plaudit._child FILE WORDS…`: FILE is an open file descriptor."""
    from plaudit.__main__ import _script
    from plaudit._plaudit import run_command

    report, words = int(sys.argv[1]), sys.argv[2:]
    # Commands that hear of Ctrl-C say so themselves; others end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code, failure = run_command(["plaudit", *words], _script())
    if failure is not None:
        message, hint = failure
        os.write(report, json.dumps({"message": message, "hint": hint}).encode())
    sys.exit(code)


if __name__ == "__main__":
    main()
