"""A person who labels by key: runs `plaudit robot label` at a pseudo-terminal and presses its keys.

The person sees where the cube is (the simulated robot's ground truth), as somebody at the bench does, and presses late, as people do:
`c` when it is at its goal, `a` when it no longer is. Whether the arm stands still, which the task also asks for, no eye can tell. Needs Python alone. Usage:

    python bench/robot/person.py http://127.0.0.1:5000 plaudit robot label --server http://127.0.0.1:5000 ...
"""

import json
import os
import pty
import select
import sys
import time
import urllib.request

REACTION_SECS = 0.3
LOOKS_EVERY_SECS = 0.05


def is_solved(server):
    request = urllib.request.Request(f"{server}/plaudit/truth", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=2) as reply:
        truth = json.load(reply)
    return bool(truth["facts"].get("is_obj_placed", truth["success"]))


def main(server, command):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    pressed, seen, noticed, next_look = None, [], None, 0.0
    while True:
        if select.select([terminal], [], [], 0.01)[0]:
            try:
                shown = os.read(terminal, 4096)
            except OSError:  # the command has ended
                break
            if not shown:
                break
            seen.append(shown)
        now = time.monotonic()
        if now >= next_look:
            next_look = now + LOOKS_EVERY_SECS
            try:
                key = b"c" if is_solved(server) else b"a"
            except OSError:
                continue  # somebody who sees nothing presses nothing
            if key != pressed and noticed is None:
                noticed = now
            if key == pressed:
                noticed = None  # it was over before a finger moved
            if noticed is not None and now - noticed >= REACTION_SECS:
                os.write(terminal, key)
                pressed, noticed = key, None
    sys.stdout.write(b"".join(seen).decode(errors="replace")[-3000:])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
