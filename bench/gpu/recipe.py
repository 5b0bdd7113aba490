"""Where the time of `plaudit reward train` on a GPU goes, second by second, and how busy the GPU is meanwhile.

    python3 bench/gpu/recipe.py --program target/release/plaudit --episodes episodes      # no packages; nvidia-smi

Runs the recipe `reward_training` in bf16 as a user would, and reads what happened when from its events. How busy the GPU is comes
from two sides: what nvidia-smi says (the share of time in which a kernel ran, every 50 ms), and steps times what the kernels of one step
take (`--step-ms`, from training.py). With --steps the training is that long, and has no second model. --cpu runs the same on the CPU.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time


def busy_while(run):
    """What `run` gives, and what nvidia-smi said meanwhile: times and percentages."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "50"]
    if not shutil.which("nvidia-smi"):
        return run(), []
    sampler = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
    began = time.time()
    try:
        result = run()
    finally:
        ended = time.time()
        sampler.terminate()
    found = [int(line) for line in sampler.stdout.read().split() if line.isdigit()]
    every = (ended - began) / max(len(found), 1)
    return result, [(began + every * at, percent) for at, percent in enumerate(found)]


def mean(numbers):
    return statistics.mean(numbers) if numbers else 0.0


def profile(options, folder, words):
    command = [options.program, "reward", "train", "reward_training", f"data.data_path={options.episodes}", "data.num_samples_per_episode=0",
               f"runner.logger.log_path={folder}", "--device", "cpu" if options.cpu else "cuda",
               f"actor.model.precision={'fp32' if options.cpu else options.precision}", "--json", *words]
    shutil.rmtree(folder, ignore_errors=True)
    began = time.time()
    done, samples = busy_while(lambda: subprocess.run(command, capture_output=True, text=True))
    ended = time.time()
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    metrics = [event for event in events if event["event"] == "metrics"]
    values = lambda name: [value for event in metrics for key, value in event["values"] if key == name]
    steps = [event for event in metrics if any(key == "train/loss" for key, _ in event["values"])]
    started = next(event["wall_secs"] for event in events if event["event"] == "started")
    first, last = steps[0]["wall_secs"], steps[-1]["wall_secs"]
    evaluating, saving = sum(values("time/evaluate_secs")), sum(values("time/save_secs"))
    seconds = values("time/step_secs")
    found = {
        "wall": ended - began,
        "until the run begins (reading, hashing, opening the GPU)": started - began,
        "until the first step is done (images of the augmentation, tiles, graphs)": first - started,
        "steps after it": last - first - evaluating - saving,
        "validations": evaluating,
        "checkpoints, as far as they are waited for": saving,
        "the rest (last checkpoint, second model, summary)": ended - last,
    }
    for name, took in found.items():
        print(f"  {took:8.3f} s  {name}")
    print(f"  {len(steps)} steps: {statistics.median(seconds) * 1e3:.3f} ms each (median), {mean(seconds[1:]) * 1e3:.3f} on average; "
          f"waiting for batches {mean(values('time/data_secs')[1:]) * 1e3:.3f} ms each")
    whole = mean([percent for _, percent in samples])
    training = mean([percent for at, percent in samples if first <= at <= last])
    print(f"  nvidia-smi: busy {whole:.0f} % of the whole, {training:.0f} % from the first step to the last", flush=True)
    if options.step_ms and len(steps) > 1:
        share = (len(steps) - 1) * options.step_ms / 1e3 / (last - first)
        print(f"  {options.step_ms} ms of kernels a step: {100 * share:.0f} % from the first step to the last", flush=True)
    metrics = json.loads(done.stdout)["metrics"]
    print(f"  AUC {metrics['auc']:.4f}, average precision {metrics['average_precision']:.4f}", flush=True)
    return {"seconds": found, "step_secs": seconds, "busy": [whole, training], "auc": metrics["auc"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="plaudit")
    parser.add_argument("--episodes", required=True, help="a folder of episodes")
    parser.add_argument("--steps", type=int, help="so many, without a second model")
    parser.add_argument("--seeds", type=int, default=1, help="how many trainings")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--step-ms", type=float, default=0.0)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("recipe-runs"))
    parser.add_argument("--output", help="a file for all numbers, as JSON")
    parser.add_argument("words", nargs="*", help="overrides of the config")
    options = parser.parse_args()
    words = list(options.words)
    if options.steps:
        words += [f"runner.max_steps={options.steps}", "runner.second_model=false", "runner.early_stop.enabled=false"]
    found = []
    for seed in range(1, options.seeds + 1):
        print(f"seed {seed}" + f", {options.steps} steps" * bool(options.steps) + ", CPU" * options.cpu)
        found.append(profile(options, options.folder / f"seed_{seed}", [*words, f"actor.seed={seed}"]))
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
