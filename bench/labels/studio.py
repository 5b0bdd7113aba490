"""What the studio's proposals are worth: 200 frames that it proposes, compared with 200 at random, from a weak classifier.

    python bench/labels/studio.py PLAUDIT FOLDER --seeds 1 2 3
    python bench/labels/studio.py PLAUDIT FOLDER --table        # what is there already

Of every seed: a weak classifier of a few episodes, a pool of play that it has not seen, and held-out play of the same kind. The script
does what a person does on the pages of `plaudit studio`, by the same requests: it asks for the proposed frames, labels them (by
the recorded success, so that everybody gives the same answers), and has the model retrained. A second copy of the pool gets labels at random.
Both new models are measured on the held-out play. What is done already is not done again.

Needs the Python package, for the recorded success.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import plaudit

LABELS = 200
ORDERS = ["proposed", "random"]


class Studio:
    """A running studio, asked as its pages ask it."""

    def __init__(self, binary, folder):
        words = [str(binary), "studio", ".", "--no-open"]
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        address = next(word for line in self.process.stdout for word in line.split() if "/?token=" in word)
        self.origin, token = address.split("/?token=")
        port = self.origin.rsplit(":", 1)[1]
        self.headers = {"Cookie": f"plaudit_studio_{port}={token}", "Origin": self.origin}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, form=None, **query):
        body = None if form is None else urllib.parse.urlencode(form).encode()
        url = f"{self.origin}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(urllib.request.Request(url, body, self.headers), timeout=120) as answer:
            return answer.read().decode()

    def proposed(self, pool, count):
        """The first frames that the page proposes, which it does once the model has scored every episode."""
        query = {"d": pool, "m": "start", "by": "me"}
        for _ in range(600):
            answer = json.loads(self.ask("/label/next", **query))
            if answer["scored"] == answer["of"]:
                return [(frame["i"], frame["at"]) for frame in answer["frames"]][:count]
            time.sleep(0.5)
        raise RuntimeError(f"the pool was not scored: {answer}")

    def label(self, pool, item, at, success):
        answer = "success" if success else "failure"
        self.ask("/label/add", {"d": pool, "i": item, "s": 0, "start": at, "end": at + 1, "answer": answer, "by": "me"})

    def retrain(self, pool):
        run = json.loads(self.ask("/models/retrain", {"m": "start", "d": pool, "n": 1}))["run"]
        for _ in range(3600):
            try:
                state = self.ask("/runs/state", r=run)
            except urllib.error.HTTPError:  # it has not begun to write
                state = ""
            if ">done<" in state:
                return run
            if ">failed<" in state or ">stopped<" in state:
                raise RuntimeError(f"{run}: {state}")
            time.sleep(0.5)
        raise RuntimeError(f"{run} does not end")


class Seed:
    def __init__(self, options, seed):
        self.options, self.seed = options, seed
        self.folder = options.folder / f"seed_{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, *words):
        with open(self.folder / "log.txt", "a") as log:
            print("$ plaudit", *words, file=log, flush=True)
            words = [self.options.plaudit, "-q", *map(str, words)]
            return subprocess.run(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=log, check=True).stdout.decode()

    def collect(self, name, episodes, noise, number):
        if not (self.folder / name).exists():
            side = self.options.pixels
            self.run("collect", "pickcube_scripted", "--episodes", episodes, f"actor.model.noise={noise}",
                     "env.eval.ignore_terminations=true", f"env.eval.seed={1000 * self.seed + number}",
                     f"env.eval.init_params.sensor_configs={{width:{side},height:{side},hand_camera:{{}}}}",
                     f"env.eval.data_collection.save_dir={name}.part", f"runner.logger.log_path=collected/{name}")
            (self.folder / f"{name}.part").rename(self.folder / name)

    def measure(self, model, name):
        found = self.run("reward", "eval", model, "held_out", "--output-dir", f"measured/{name}", "--json")
        (self.folder / f"{name}.json").write_text(found)

    def everything(self):
        options, side = self.options, self.options.pixels
        self.collect("episodes", options.episodes, options.noise, 1)
        self.collect("proposed", options.pool, options.pool_noise, 2)
        self.collect("held_out", options.held_out, options.pool_noise, 3)
        if not (self.folder / "random").exists():
            shutil.copytree(self.folder / "proposed", self.folder / "random")
        if not (self.folder / "start.json").exists():
            shutil.rmtree(self.folder / "start", ignore_errors=True)
            self.run("reward", "train", "--data", "episodes", "actor.model.arch=resnet10", f"actor.model.image_size=[3,{side},{side}]",
                     "actor.model.image_keys=[main_images,extra_view_images]", f"actor.seed={self.seed}", f"data.seed={self.seed}",
                     f"runner.max_steps={options.steps}", f"runner.val_check_interval={options.steps // 2}",
                     "runner.second_model=false", "runner.logger.log_path=start")
            self.measure("start", "start")
        for order in ORDERS:
            if not (self.folder / f"{order}.json").exists():
                self.label_and_retrain(order)

    def label_and_retrain(self, pool):
        # Nobody says of a reset's frame whether it is a success; everybody who looks sees that it is not.
        truth = [[label is True for label in recording.labels] for recording in plaudit.open(self.folder / pool)]
        frames = [(item, at) for item, labels in enumerate(truth) for at in range(len(labels))]
        chosen, successes = iter(random.Random(self.seed).sample(frames, LABELS)), 0
        with Studio(self.options.plaudit, self.folder) as studio:
            until = time.monotonic() + 60
            while time.monotonic() < until and "start" not in studio.ask("/models"):
                time.sleep(0.2)
            studio.ask("/label/rank", {"d": pool, "m": "start"})
            labelled = 0
            while labelled < LABELS:
                left = LABELS - labelled
                batch = studio.proposed(pool, left) if pool == "proposed" else [next(chosen) for _ in range(left)]
                if not batch:
                    break
                for item, at in batch:
                    studio.label(pool, item, at, truth[item][at])
                    successes += truth[item][at]
                labelled += len(batch)
            run = studio.retrain(pool)
        (self.folder / f"{pool}.labels.json").write_text(json.dumps({"labels": labelled, "successes": successes}))
        self.measure(run, pool)

    def row(self):
        def cell(name):
            path = self.folder / f"{name}.json"
            if not path.exists():
                return "not run"
            metrics = json.loads(path.read_text())["metrics"]
            labels = self.folder / f"{name}.labels.json"
            found = json.loads(labels.read_text()) if labels.exists() else None
            count = f" ({found['successes']} of {found['labels']})" if found else ""
            return f"{metrics['auc']:.3f} / {metrics['average_precision']:.3f}{count}"
        return f"| {self.seed} | " + " | ".join(cell(name) for name in ["start", *ORDERS]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plaudit", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=4, help="that the classifier starts from")
    parser.add_argument("--noise", type=float, default=0.03, help="of the script in those")
    parser.add_argument("--pool", type=int, default=40, help="episodes that frames are chosen from")
    parser.add_argument("--pool-noise", type=float, default=0.1, help="of the script in the pool and in what is held out")
    parser.add_argument("--held-out", type=int, default=40, help="episodes that models are measured on")
    parser.add_argument("--steps", type=int, default=30, help="of the first training")
    parser.add_argument("--table", action="store_true", help="only show what is there")
    options = parser.parse_args()
    options.plaudit, options.folder = options.plaudit.resolve(), options.folder.resolve()
    seeds = [Seed(options, seed) for seed in options.seeds]
    if not options.table:
        for seed in seeds:
            began = time.monotonic()
            seed.everything()
            print(f"seed {seed.seed}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"AUC / average precision on held-out play; in brackets successes among the {LABELS} labels\n")
    print("| seed | weak | proposed | at random |\n|---|---|---|---|")
    for seed in seeds:
        print(seed.row())


if __name__ == "__main__":
    main()
