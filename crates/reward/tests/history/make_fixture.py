"""What RLinf's HistoryManager would show a reward model, step by step, simulated from its documented rules.

Writes windows.json beside this file. Needs Python 3 alone.

Each environment has a manager of its own here. RLinf has one for a whole batch, whose answers differ only if several
buffers have different intervals: a buffer that is due for one environment then counts as asked for in all. Where there
is one buffer, this script checks that both ways agree.
"""

import json
import random
from pathlib import Path


class HistoryManager:
    """The rules, as documented: append every step, build windows, clear what ended."""

    def __init__(self, buffers, num_envs):
        self.buffers = buffers
        self.num_envs = num_envs
        self.max_size = max(buffer["history_size"] for buffer in buffers.values())
        self.entries = [[] for _ in range(num_envs)]
        self.counts = [0] * num_envs

    def append(self, frames):
        for env, frame in enumerate(frames):
            self.entries[env].append(frame)
            self.counts[env] += 1

    def build(self, dones):
        """{buffer: [frames of each environment]}; a buffer appears if some environment was due."""
        assert len(dones) == self.num_envs
        windows = {}
        for name, buffer in self.buffers.items():
            slices, due = [], False
            for env in range(self.num_envs):
                piece = self.slice(buffer, env, dones[env])
                due = due or piece is not None
                slices.append(piece or [])
            if due:
                windows[name] = slices
        for env, done in enumerate(dones):
            if done:
                self.entries[env], self.counts[env] = [], 0
            else:
                self.entries[env] = self.entries[env][-self.max_size :]
        return windows

    def slice(self, buffer, env, done):
        entries, count = self.entries[env], self.counts[env]
        interval = buffer.get("input_interval") or max(buffer["history_size"], 1)
        if len(entries) < buffer.get("min_history_size", 0):
            return []
        if count % interval == 0:
            return entries[-buffer["history_size"] :]
        if done and buffer.get("input_on_done", False):
            return entries[-(count % interval) :]
        return None


def valid(windows, env):
    """The model is asked about an environment if every buffer that appears has frames of it."""
    return bool(windows) and all(slices[env] for slices in windows.values())


def play(case):
    """Clips per step and environment, and rewards with each window's output given to all of its steps."""
    num_envs, steps, buffers = case["num_envs"], case["steps"], case["buffers"]
    managers = [HistoryManager(buffers, 1) for _ in range(num_envs)]
    together = HistoryManager(buffers, num_envs)
    clips = []
    rewards = [[] for _ in range(num_envs)]
    for t in range(steps):
        frames = [f"{t}.{env}" for env in range(num_envs)]
        dones = case["dones"][t]
        together.append(frames)
        whole = together.build(dones)
        for env in range(num_envs):
            managers[env].append([frames[env]])
            windows = managers[env].build([dones[env]])
            is_valid = valid(windows, 0)
            if len(buffers) == 1:
                name = next(iter(buffers))
                assert valid(whole, env) == is_valid
                assert not is_valid or whole[name][env] == windows[name][0]
            shown = {name: slices[0] for name, slices in windows.items()} if is_valid else {}
            if is_valid:
                clips.append({"t": t, "env": env, "buffers": shown})
            output = case["outputs"][t][env] if is_valid else case["interval_reward"]
            rewards[env].append(output)
            if is_valid:
                length = min(min(len(piece) for piece in shown.values()), len(rewards[env]))
                for back in range(2, length + 1):
                    rewards[env][-back] += output
    return {"clips": clips, "rewards": [[rewards[env][t] for env in range(num_envs)] for t in range(steps)]}


BUFFERS = [
    {"window": {"history_size": 5, "min_history_size": 5, "input_interval": 1}},
    {"window": {"history_size": 3}},
    {"window": {"history_size": 3, "input_on_done": True}},
    {"window": {"history_size": 2, "input_interval": 7, "input_on_done": True}},
    {"window": {"history_size": 4, "min_history_size": 2, "input_interval": 3, "input_on_done": True}},
    {"window": {"history_size": 1, "input_interval": 1}},
    {"short": {"history_size": 2, "input_interval": 2}, "long": {"history_size": 6, "input_interval": 3}},
    {
        "short": {"history_size": 1, "min_history_size": 3, "input_interval": 1},
        "long": {"history_size": 4, "input_interval": 5, "input_on_done": True},
    },
]


def main():
    rng = random.Random(7)
    cases = []
    for buffers in BUFFERS:
        num_envs, steps = 3, 24
        case = {
            "num_envs": num_envs,
            "steps": steps,
            "buffers": buffers,
            "interval_reward": 0.25,
            "dones": [[rng.random() < 0.13 for _ in range(num_envs)] for _ in range(steps)],
            # Eighths add up without rounding.
            "outputs": [[rng.randrange(-8, 9) / 8 for _ in range(num_envs)] for _ in range(steps)],
        }
        cases.append(case | play(case))
    path = Path(__file__).with_name("windows.json")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
