"""plaudit from Python beside PyTorch in the same process, and what a call costs.

    python bench/python/run.py [--checkpoint MODEL]    needs plaudit, gymnasium; torch and torchvision for the comparison

ResNet-18 at 128 px: a network of random weights in PyTorch, one of the same size in plaudit. Without --checkpoint a model is
trained for a few steps first. Both are measured in turns of a tenth of a second, so that what else the machine does falls on both,
and once more call by call. README.md beside this file has the method and what was measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np

import plaudit

BATCHES = (1, 8, 64)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def median_ms(work, repeats: int) -> float:
    """Milliseconds of a call, the median of many."""
    for _ in range(max(3, repeats // 10)):
        work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def call_by_call_ms(works: dict, repeats: int) -> dict[str, float]:
    """Milliseconds of several works, one call of each after the other, again and again: the median of each."""
    for work in works.values():
        for _ in range(max(3, repeats // 10)):
            work()
    times = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return {name: 1e3 * statistics.median(each) for name, each in times.items()}


def calls_for(seconds: float, work) -> float:
    """Milliseconds of a call: the mean of as many as begin within this time."""
    began, calls = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        work()
        calls += 1
    return 1e3 * took / calls


def turns_ms(works: dict, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a call of several works in turns: for each the rounds' means.

    A turn begins with calls that do not count: the work before has emptied the caches, and PyTorch's threads go on
    looking for work for some milliseconds after its last call.
    """
    times = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            calls_for(0.03, work)
            times[name].append(calls_for(0.1, work))
    return times


def beside_pytorch(model, peer, batch: int, rng) -> dict[str, float]:
    """A batch by both; ratios are within rounds, to the faster of PyTorch's memory layouts."""
    images = rng.integers(0, 256, (batch, 128, 128, 3), dtype=np.uint8)
    works = {"plaudit": lambda: model.score(images)}
    if peer is not None:
        works["torch"] = lambda: peer(images)
        works["torch_channels_last"] = lambda: peer(images, True)
    times = turns_ms(works, rounds=9)
    row = {name: statistics.median(each) for name, each in times.items()}
    if peer is not None:
        faster = min("torch", "torch_channels_last", key=row.get)
        ratios = sorted(theirs / own for theirs, own in zip(times[faster], times["plaudit"], strict=True))
        row |= {"ratio": statistics.median(ratios), "ratio_least": ratios[0], "ratio_most": ratios[-1]}
        row["call_by_call"] = call_by_call_ms(works, max(10, 100 // batch))
    return row


def trained(folder: Path) -> Path:
    """A ResNet-18 that has learned for a few steps: its speed is that of any."""
    small = {"env.eval.total_num_envs": 4, "env.eval.data_collection.save_dir": folder / "episodes"}
    noise = {"actor.model.noise": 0.15, "runner.logger.log_path": folder / "collect"}
    plaudit.collect("pickcube_scripted", episodes=8, quiet=True, **small, **noise)
    length = {"runner.max_steps": 2, "runner.val_check_interval": 2, "runner.save_interval": 2}
    where = {"data.data_path": folder / "episodes", "runner.logger.log_path": folder / "reward"}
    plaudit.reward_train(quiet=True, **length, **where, **{"runner.second_model": False})
    return folder / "reward"


def pytorch():
    """A function from bytes to logits, as one would write it."""
    import torch
    import torchvision

    network = torchvision.models.resnet18(num_classes=1).eval()
    last = torchvision.models.resnet18(num_classes=1).eval().to(memory_format=torch.channels_last)
    mean, std = (torch.tensor(of).view(1, 3, 1, 1) for of in (MEAN, STD))

    @torch.inference_mode()
    def score(images, channels_last=False):
        batch = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255).sub(mean).div(std)
        # The permuted batch lies as channels_last already; the other way is torch's own.
        batch = batch.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        return torch.sigmoid((last if channels_last else network)(batch)).numpy()

    return score


def environments(rng) -> dict[str, float]:
    """64 environments: steps per second, and which share of that time is Python's.

    What Python costs is what a step of 64 CartPoles takes, whose own arithmetic takes a few microseconds: an upper bound.
    """
    steps = {}
    for name, shape in (("CartPole-v1", (64,)), ("PickCube-v1", (64, 8))):
        env = plaudit.make_vec(name, 64)
        env.reset(seed=0)
        actions = rng.integers(0, 2, shape) if len(shape) == 1 else rng.uniform(-1, 1, shape)
        actions = actions.astype(np.float32)
        steps[name] = median_ms(lambda: env.step(actions), 300)
    python, pick_cube = steps["CartPole-v1"], steps["PickCube-v1"]
    return {
        "pickcube_steps_per_second": 64e3 / pick_cube,
        "python_us_at_most": 1e3 * python,
        "of_the_rust_rate_at_least": (pick_cube - python) / pick_cube,
    }


def resident_mb(field: str = "VmRSS") -> float:
    """Memory of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def memory(model) -> dict[str, float]:
    """What is held after many calls, and what a large batch takes beside itself: less than itself, if it is not copied."""
    nothing, one = np.zeros((0, 128, 128, 3), np.uint8), np.zeros((1, 32, 32, 3), np.uint8)
    for _ in range(1000):
        model.score(nothing)
        model.score(one)
    before = resident_mb()
    for _ in range(1_000_000):
        model.score(nothing)
    for _ in range(2_000):
        model.score(one)
    grown = resident_mb() - before
    model.score(np.zeros((256, 128, 128, 3), np.uint8))
    batch = np.zeros((8192, 128, 128, 3), np.uint8)
    batch += 1  # every page is there
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins anew
    held = resident_mb()
    model.score(batch)
    extra = resident_mb("VmHWM") - held
    return {"mb_after_a_million_calls": grown, "batch_mb": batch.nbytes / 2**20, "extra_mb_for_it": extra}


class Null(gymnasium.Env):
    """Takes no time, so that what is measured is everything else."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    seen = np.zeros(8, np.float32)

    def reset(self, *, seed=None, options=None):
        return self.seen, {}

    def step(self, action):
        return self.seen, 0.0, False, False, {}


class NullVector(gymnasium.vector.VectorEnv):
    """The same for all rows in one call."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs=1, max_episode_steps=None):
        self.num_envs, self.limit, self.steps = num_envs, max_episode_steps, 0
        self.single_observation_space, self.single_action_space = Null.observation_space, Null.action_space
        self.observation_space = gymnasium.spaces.Box(-1, 1, (num_envs, 8), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (num_envs, 2), np.float32)
        self.seen, self.zeros = np.zeros((num_envs, 8), np.float32), np.zeros(num_envs)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.seen, {}

    def step(self, actions):
        self.steps += 1
        over = np.full(self.num_envs, self.steps >= self.limit)
        info = {"final_obs": np.array([*self.seen, None], object)[:-1], "_final_obs": over} if over[0] else {}
        self.steps *= not over[0]
        return self.seen, self.zeros, np.zeros(self.num_envs, bool), over, info


def custom(envs: int = 16) -> dict[str, float]:
    """Microseconds of a step of an environment of Python's in plaudit's loop: a long evaluation less a short one, by their steps."""
    found = {}
    for name, env in (("rows", Null), ("vector", NullVector)):
        took = {}
        for steps in (1_000, 21_000):
            sizes = {"env.eval.total_num_envs": envs, "env.eval.rollout_epoch": 1, "env.eval.max_episode_steps": steps}
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                plaudit.evaluate("gymnasium_random", env=env, quiet=True, **sizes, runner__logger__log_path=Path(folder) / "run")
                took[steps] = time.perf_counter() - began
        found[f"{name}_us_a_step_of_{envs}"] = 1e6 * (took[21_000] - took[1_000]) / 20_000
    one = Null()
    found["of_which_python_alone"] = 1e3 * median_ms(lambda: [one.step(None) for _ in range(envs)], 2000)
    return found


NULL = "import numpy\n\ndef score(images):\n    return numpy.zeros(len(images))\n"


def own_models(checkpoint) -> dict[str, float]:
    """Microseconds of a call of a function that does nothing, for images of 128 px; and the same network as plaudit's and as anybody's ONNX file."""
    found, rng = {}, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "null.py").write_text(NULL)
        model = plaudit.RewardModel(f"{folder}/null.py:score")
        for batch in (1, 64):
            images = rng.integers(0, 256, (batch, 128, 128, 3), dtype=np.uint8)
            found[f"function_us_of_{batch}"] = 1e3 * median_ms(lambda: model.score(images), 500)
        file = Path(folder) / "model.onnx"
        words = ["reward", "export", str(checkpoint), "--format", "onnx", "--output", str(file)]
        subprocess.run([sys.executable, "-m", "plaudit", *words], check=True, capture_output=True)
        file.with_suffix(".json").write_text('{"output": "logit", "output_name": "logit"}')
        images = rng.integers(0, 256, (8, 128, 128, 3), dtype=np.uint8)
        own, onnx = plaudit.RewardModel(checkpoint, device="cpu"), plaudit.RewardModel(file)
        works = {"plaudit": lambda: own.score(images), "onnx": lambda: onnx.score(images)}
        found |= {f"{name}_ms_of_8": took for name, took in call_by_call_ms(works, 10).items()}
    return found


def importing() -> float:
    """Milliseconds of CPU that `import plaudit` takes: the least of ten."""
    code = "import time; began = time.process_time(); import plaudit; print(time.process_time() - began)"
    run = lambda: float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)  # noqa: E731
    return 1e3 * min(run() for _ in range(10))


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = arguments.checkpoint or trained(Path(folder))
        model = plaudit.RewardModel(checkpoint, device="cpu")
        own = own_models(checkpoint)
    try:
        peer = pytorch()
    except ImportError:
        peer = None
    rng = np.random.default_rng(0)
    found = {"scores_ms": {}}
    for batch in BATCHES:
        found["scores_ms"][batch] = beside_pytorch(model, peer, batch, rng)
    nothing = np.zeros((0, 128, 128, 3), np.uint8)
    found["call_us"] = 1e3 * median_ms(lambda: model.score(nothing), 5000)
    found["envs"] = environments(rng)
    found["custom_env"] = custom()
    found["own_models"] = own
    found["memory"] = memory(model)
    found["import_ms_of_cpu"] = importing()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
