"""What the scripts beside this file share: plaudit's programs, which answer line by line, and PyTorch's time on the GPU."""

import json
import subprocess
import sys


class Plaudit:
    """A program of plaudit, asked line by line."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the program ended"}')
        if isinstance(answer, dict) and "error" in answer:
            sys.exit(f"{request}: {answer['error']}")
        return answer


def torch_milliseconds(run, calls=16):
    """The mean of some calls of what runs on the GPU."""
    import torch

    run()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / calls


def add_options(parser):
    """The options that checking and timing scripts have alike."""
    parser.add_argument("--program", required=True)
    parser.add_argument("--compile", action="store_true", help="time torch.compile too; it takes a minute for each batch")
    parser.add_argument("--only-check", action="store_true", help="time nothing")
    parser.add_argument("--skip-checks", action="store_true", help="time at once")
    parser.add_argument("--output", help="a file for all numbers, as JSON")
