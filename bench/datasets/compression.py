"""What a reward model loses on compressed frames: trained on raw frames and on H.264 videos, measured on the same raw frames.

    python bench/datasets/compression.py PLAUDIT FOLDER --seeds 1 2 3
    python bench/datasets/compression.py PLAUDIT FOLDER --table      # what is there already

One collection of PickCube by a noisy script trains, another one measures. The first is exported as a LeRobot dataset with PNG images and
as one with H.264 videos. For each seed a ResNet-10 is trained from scratch on both, with the same steps, and measured on the second
collection as it was recorded. What is done already is not done again. Needs Python's standard library alone.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

VIDEO = {"png": "none", "h264": "h264"}


def run(options, *words):
    with open(options.folder / "log.txt", "a") as log:
        print("$ plaudit", *words, file=log, flush=True)
        done = subprocess.run([options.plaudit, *map(str, words)], cwd=options.folder, stdout=subprocess.PIPE, stderr=log, check=True)
    return done.stdout.decode()


def collect(options, name, seed):
    if not (options.folder / name).exists():
        side = options.pixels
        run(options, "-q", "collect", "pickcube_scripted", "--episodes", options.episodes, f"actor.model.noise={options.noise}",
            "env.eval.ignore_terminations=true", f"env.eval.seed={seed}", "env.eval.total_num_envs=10",
            f"env.eval.init_params.sensor_configs={{width:{side},height:{side}}}", f"env.eval.data_collection.save_dir={name}.part",
            f"runner.logger.log_path={name}.run")
        (options.folder / f"{name}.part").rename(options.folder / name)


def size(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def everything(options):
    collect(options, "episodes", 1001)
    collect(options, "held_out", 1002)
    for name, video in VIDEO.items():
        if not (options.folder / name).exists():
            run(options, "-q", "dataset", "export", "episodes", "--format", "lerobot", "--video", video, "--fps", 20, "--output-dir", name)
    side = options.pixels
    for seed in options.seeds:
        for name in VIDEO:
            model = f"{name}_{seed}"
            if not (options.folder / model).exists():
                run(options, "-q", "reward", "train", "--data", name, "actor.model.arch=resnet10", f"actor.model.image_size=[3,{side},{side}]",
                    "data.num_samples_per_episode=0", "data.fail_success_ratio=0", f"actor.seed={seed}", f"data.seed={seed}",
                    "actor.model.image_keys=[main_images]", f"runner.max_steps={options.steps}",
                    f"runner.val_check_interval={options.steps // 2}", f"runner.logger.log_path={model}.part")
                (options.folder / f"{model}.part").rename(options.folder / model)
            found = options.folder / f"{model}.json"
            if not found.exists():
                found.write_text(run(options, "-q", "reward", "eval", model, "held_out", "--output-dir", f"{model}.eval", "--json"))


def table(options):
    values = {name: [] for name in VIDEO}
    for name in VIDEO:
        for file in sorted(options.folder.glob(f"{name}_*.json")):
            values[name].append(json.loads(file.read_text())["metrics"]["auc"])
    print("| trained on | images, MB | AUC on raw frames, by seed | mean |\n|---|---|---|---|")
    for name, found in values.items():
        mean = f"{statistics.mean(found):.4f}" if found else ""
        print(f"| {name} | {size(options.folder / name) / 1e6:.1f} | {', '.join(f'{auc:.4f}' for auc in found)} | {mean} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plaudit", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--episodes", type=int, default=120)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        everything(options)
    table(options)


main()
