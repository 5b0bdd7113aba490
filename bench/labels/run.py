"""What labels are worth: the most uncertain frames first, compared with frames at random.

    python bench/labels/run.py PLAUDIT FOLDER --seeds 1 2 3
    python bench/labels/run.py PLAUDIT FOLDER --table        # what is there already

Of every seed: a weak classifier, trained on a script that nearly always succeeds; a pool of play that it has not seen, by the same
script with much more noise, which often fails; and held-out play of the same kind. `plaudit reward label --annotator recorded` chooses
frames of the pool, actively and at random. After 50, 100 and 200 labels the classifier is trained anew from the same start with all
labels so far (`reward train --from START --add LABELS`, always as many steps), measured on the held-out play, and chooses the next
frames. What is done already is not done again, so that a stopped call can be repeated.

Needs Python's standard library alone.
"""

import argparse
import json
import pathlib
import subprocess
import time

COUNTS = [50, 100, 200]
ORDERS = ["active", "random"]


class Seed:
    def __init__(self, options, seed):
        self.plaudit, self.seed, self.options = options.plaudit, seed, options
        self.folder = options.folder / f"seed_{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, *words):
        """Runs plaudit in the folder of this seed; gives what it prints."""
        with open(self.folder / "log.txt", "a") as log:
            print("$ plaudit", *words, file=log, flush=True)
            done = subprocess.run([self.plaudit, *map(str, words)], cwd=self.folder, stdout=subprocess.PIPE, stderr=log, check=True)
        return done.stdout.decode()

    def collect(self, name, episodes, noise, number):
        if not (self.folder / name).exists():
            side = self.options.pixels
            self.run("-q", "collect", "pickcube_scripted", "--episodes", episodes, f"actor.model.noise={noise}",
                     "env.eval.ignore_terminations=true", f"env.eval.seed={1000 * self.seed + number}", "env.eval.total_num_envs=20",
                     f"env.eval.init_params.sensor_configs={{width:{side},height:{side},hand_camera:{{}}}}",
                     f"env.eval.data_collection.save_dir={name}.part", f"runner.logger.log_path={name}.run")
            (self.folder / f"{name}.part").rename(self.folder / name)

    def train(self, name, *words):
        if not (self.folder / name).exists():
            self.run("-q", "reward", "train", "--data", "episodes", *words, "data.num_samples_per_episode=0", "data.fail_success_ratio=0",
                     f"actor.seed={self.seed}", f"data.seed={self.seed}", f"runner.logger.log_path={name}.part")
            (self.folder / f"{name}.part").rename(self.folder / name)

    def measure(self, model):
        path = self.folder / f"{model}.json"
        if not path.exists():
            found = self.run("-q", "reward", "eval", model, "held_out", "--output-dir", f"{model}.eval", "--json")
            path.write_text(found)
        return json.loads(path.read_text())["metrics"]

    def label(self, order, count, model):
        words = ["-q", "reward", "label", model, "pool", "--annotator", "recorded", "--order", order, "--count", count, "--check-every", 0,
                 "--seed", self.seed, "--output-dir", f"labels_{order}", "--json"]
        return json.loads(self.run(*words))["labels"]

    def everything(self):
        options, began = self.options, time.monotonic()
        self.collect("episodes", options.episodes, options.noise, 1)
        self.collect("pool", options.pool, options.pool_noise, 2)
        self.collect("held_out", options.held_out, options.pool_noise, 3)
        side = options.pixels
        self.train("start", "actor.model.arch=resnet10", f"actor.model.image_size=[3,{side},{side}]",
                   "actor.model.image_keys=[main_images,extra_view_images]",
                   f"runner.max_steps={options.steps}", f"runner.val_check_interval={options.steps // 2}")
        self.measure("start")
        for order in ORDERS:
            model = "start"
            for count in COUNTS:
                trained = f"{order}_{count}"
                if not (self.folder / trained).exists():
                    labels = self.label(order, count, model)
                    (self.folder / f"{trained}.labels.json").write_text(json.dumps(labels))
                self.train(trained, "--from", "start", "--add", f"labels_{order}", f"runner.max_steps={options.tune_steps}",
                           f"runner.val_check_interval={options.tune_steps // 2}", f"runner.second_model={str(order == 'active').lower()}")
                self.measure(trained)
                model = trained
        print(f"seed {self.seed}: {time.monotonic() - began:.0f} s", flush=True)

    def row(self, order):
        def cell(name):
            path = self.folder / f"{name}.json"
            if not path.exists():
                return "not run"
            metrics = json.loads(path.read_text())["metrics"]
            return f"{metrics['auc']:.3f} / {metrics['average_precision']:.3f}"
        path = self.folder / f"{order}_{COUNTS[-1]}.labels.json"
        labels = json.loads(path.read_text()) if path.exists() else {}
        cells = [cell("start"), *(cell(f"{order}_{count}") for count in COUNTS), labels.get("successes", "")]
        return f"| {self.seed} | {order} | " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plaudit", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=10, help="that the classifier starts from")
    parser.add_argument("--noise", type=float, default=0.03, help="of the script in those")
    parser.add_argument("--pool", type=int, default=40, help="episodes that frames are chosen from")
    parser.add_argument("--pool-noise", type=float, default=0.05, help="of the script in the pool and in what is held out")
    parser.add_argument("--held-out", type=int, default=40, help="episodes that models are measured on")
    parser.add_argument("--steps", type=int, default=80, help="of the first training")
    parser.add_argument("--tune-steps", type=int, default=100, help="of each training with labels")
    parser.add_argument("--table", action="store_true", help="only show what is there")
    options = parser.parse_args()
    options.plaudit, options.folder = options.plaudit.resolve(), options.folder.resolve()
    seeds = [Seed(options, seed) for seed in options.seeds]
    if not options.table:
        for seed in seeds:
            seed.everything()
    print("| seed | order | AUC / average precision before | " + " | ".join(f"{count} labels" for count in COUNTS) + " | successes among the labels |")
    print("|" + "---|" * (len(COUNTS) + 4))
    for seed in seeds:
        for order in ORDERS:
            print(seed.row(order))


if __name__ == "__main__":
    main()
