"""Small judges, tuned and random, read in every way: what is each readout worth, and what does a policy make of the best?

    python3 bench/judges/run.py PLAUDIT FOLDER --jobs 16 --limit 540
    python3 bench/judges/run.py PLAUDIT FOLDER --seeds 1 --tasks pickcube --size 0.1 --steps 20 --updates 2     # whether it works
    python3 bench/judges/run.py PLAUDIT FOLDER --table        # what is there already

Of every task and seed, below FOLDER: episodes to learn from, held-out episodes, and for each objective a judge that is tuned from scratch
(`pickcube_trend_sft`) and the same judge before its first step, the random one. `plaudit reward eval --readout` measures both on the
held-out episodes. PickCube is played by a script and by clones of it, and its held-out episodes last as long as those of a rewarded
policy; PegInsertion is played by its script, with more noise and less. Then policies learn PickCube as in `pickcube_ppo_trend_reward`,
each rewarded by one of its seed's judges (--policies).

A job runs on a core of its own (`taskset`), `--jobs` of them at a time; the chains that lead to policies come first. What is done is
not done again, so that a stopped call can be repeated. Windows are removed once their judge is tuned: they take gigabytes.
Needs Python's standard library alone.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import threading
import time

CAMERAS = "{width:64,height:64,hand_camera:{}}"
WORDS = ["--words", "yes,no", "--prompt", "Is this task done: {task}? Answer yes or no."]
# A judge: how its windows are cut.
JUDGES = {
    "trend_30": ["--objective", "trend", "--window-size", "30", "--stride", "4", "--delta-threshold", "0.3", "--tail-unclear-ratio", "0"],
    "success": ["--objective", "success", "--window-size", "8", "--stride", "2"],
    "progress": ["--objective", "progress", "--window-size", "8", "--stride", "2", "--no-balance-labels"],
    "trend_5": ["--objective", "trend", "--window-size", "5", "--delta-threshold", "0.01", "--tail-unclear-ratio", "0"],
    "preference": ["--objective", "preference", "--window-size", "8", "--stride", "4", "--extra-views", "none"],
}
# A readout: its name in the table, whose judge, how it is asked.
READOUTS = {
    "trend_5": ("trend, 5 frames", "trend_5", ["--readout", "trend"]),
    "trend_30": ("trend, 30 frames", "trend_30", ["--readout", "trend"]),
    "progress": ("progress", "progress", ["--readout", "progress"]),
    "success": ("success", "success", ["--readout", "success"]),
    "preference": ("preference", "preference", ["--readout", "preference"]),
    "words": ("words, of the judge of success", "success", ["--readout", "words", *WORDS]),
    "topreward": ("topreward, of the judge of success", "success", ["--readout", "topreward"]),
    "gvl": ("gvl, of the judge of success", "success", ["--readout", "gvl"]),
}
# What a policy is rewarded by: the judge and its readout.
REWARDS = {
    "trend_30": ("trend_30", []),
    "success": ("success", ["reward.model.readout=success"]),
    "progress": ("progress", ["reward.model.readout=progress"]),
    "none": ("trend_30", ["reward.reward_weight=0"]),
}


def script(recipe, into, episodes, seed, noise, more=()):
    """Episodes of a script."""
    return ["collect", recipe, "-q", "--episodes", str(episodes), f"env.eval.total_num_envs={min(episodes, 50)}", f"env.eval.seed={seed}",
            f"actor.model.noise={noise}", "env.eval.ignore_terminations=true", "env.eval.use_full_state=true",
            "env.eval.init_params.obs_mode=rgb", f"env.eval.init_params.sensor_configs={CAMERAS}", "env.eval.data_collection.enabled=true",
            f"env.eval.data_collection.save_dir={into}", f"runner.logger.log_path={into}.run", *more]


def play(into, demos, episodes, seed, std=0.1, more=()):
    """Episodes of a clone of demonstrations."""
    return ["train", "pickcube_trend_play", "-q", f"env.train.total_num_envs={episodes}", f"env.train.seed={seed}", f"actor.seed={seed}",
            f"algorithm.cloning.load_path={demos}", f"algorithm.cloning.std={std}", f"env.train.data_collection.save_dir={into}",
            f"runner.logger.log_path={into}.run", *more]


class Jobs:
    """What a task and a seed need: name -> (what it waits for, steps). A step is words for plaudit, or a function."""

    def __init__(self, folder, task, seed, options):
        self.folder, self.task, self.seed, self.options = folder / task / f"s{seed}", task, seed, options
        self.all = {}
        {"pickcube": self.pickcube, "peginsertion": self.peginsertion}[task]()
        for judge in JUDGES:
            self.judge(judge)
        for readout in READOUTS:
            self.evals(readout)
        if task == "pickcube":
            for reward in options.policies:
                self.policy(reward)

    def at(self, *names):
        return str(self.folder.joinpath(*names))

    def count(self, episodes):
        return max(8, round(episodes * self.options.size))

    def pickcube(self):
        seed, count = 1000 * self.seed, self.count
        demos = lambda name, number, more: script("pickcube_demos", self.at(name), number, seed + more, 0.1,
                                                  ["env.eval.data_collection.only_success=true",
                                                   f"env.eval.data_collection.target_success={number}"])
        self.all["demos"] = [], [demos("demos", 20, 1)]
        self.all["demos_40"] = [], [demos("demos_40", 40, 2)]
        self.all["script"] = [], [script("pickcube_trend_collect", self.at("episodes", "script"), count(100), seed + 3, 0.05)]
        for name, by, episodes, more, std in [("beginner", "demos", 256, 4, 0.1), ("player", "demos_40", 256, 5, 0.1),
                                              ("wild", "demos_40", 128, 6, 0.3)]:
            self.all[name] = [by], [play(self.at("episodes", name), self.at(by), count(episodes), seed + more, std)]
        # As long as the episodes of a rewarded policy.
        short = ["env.train.max_episode_steps=30", "env.train.max_steps_per_rollout_epoch=30"]
        for name, by, more in [("held_beginner", "demos", 7), ("held_player", "demos_40", 8)]:
            self.all[name] = [by], [play(self.at("held_out", name), self.at(by), count(100), seed + more, 0.1, short)]
        self.episodes, self.held_out = ["script", "beginner", "player", "wild"], ["held_beginner", "held_player"]

    def peginsertion(self):
        seed = 1000 * self.seed + 500
        run = lambda folder, name, episodes, more, noise: script("peginsertion_scripted", self.at(folder, name), self.count(episodes),
                                                                 seed + more, noise)
        self.all["steady"] = [], [run("episodes", "steady", 100, 1, 0.05)]
        self.all["noisy"] = [], [run("episodes", "noisy", 150, 2, 0.15)]
        self.all["held_noisy"] = [], [run("held_out", "noisy", 100, 3, 0.15)]
        self.episodes, self.held_out = ["steady", "noisy"], ["held_noisy"]

    def judge(self, name):
        """Windows, the tuned judge, and the random one: after a step of no size."""
        options, windows = self.options, self.at("windows", name)
        most = 300 if name == "progress" else 1500
        cut = ["dataset", "windows", "--raw-data-path", self.at("episodes"), "--output-dir", windows, "--max-samples-per-label", str(most),
               "--eval-max-samples-per-label", str(most // 10), "--seed", str(self.seed), *JUDGES[name]]
        sft = lambda kind, steps, more: ["reward", "sft", "pickcube_trend_sft", "-q", "--device", "cpu", f"data.data_root={windows}",
                                         f"actor.seed={self.seed}", f"runner.max_steps={steps}", f"runner.save_interval={steps}",
                                         f"runner.val_check_interval={max(1, steps // 8)}", f"runner.logger.log_path={self.at(kind, name)}", *more]
        # Two clips are compared by the main view alone.
        main_view = ["data.dataset_name=simple_vlm_trend_reward_sft"] if name == "preference" else []
        task = lambda: pathlib.Path(self.at(f"{name}.task")).write_text(task_of(windows))
        self.all[f"judge_{name}"] = self.episodes, [
            lambda: shutil.rmtree(windows, ignore_errors=True), cut, task, sft("tuned", options.steps, ["--json", *main_view]),
            sft("random", 1, ["actor.optim.lr=0", *main_view]), lambda: shutil.rmtree(windows)]

    def evals(self, readout):
        _, judge, words = READOUTS[readout]
        steps = []
        for kind in ["tuned", "random"]:
            # A judge of trends is asked as it was tuned; others hear the task as their windows had it.
            task = [] if "trend" in words else ["--task", self.task_file(judge)]
            steps.append(["reward", "eval", self.at(kind, judge), self.at("held_out"), "-q", "--json", "--device", "cpu",
                          "--output-dir", self.at("eval", f"{readout}_{kind}"), *words, *task])
        self.all[f"eval_{readout}"] = [f"judge_{judge}", *self.held_out], steps

    def task_file(self, judge):
        """A word that stands for what a file says: it is not there yet."""
        return "@" + self.at(f"{judge}.task")

    def policy(self, reward):
        judge, more = REWARDS[reward]
        run = ["train", "pickcube_ppo_trend_reward", "-q", f"reward.model.model_path={self.at('tuned', judge)}", "reward.model.device=cpu",
               f"algorithm.cloning.load_path={self.at('demos')}", f"actor.seed={self.seed}", f"env.train.seed={self.seed}",
               f"runner.max_epochs={self.options.updates}", "runner.save_interval=-1", f"runner.logger.log_path={self.at('policy', reward)}", *more]
        self.all[f"policy_{reward}"] = ["demos", f"judge_{judge}"], [run]


def task_of(windows):
    with open(pathlib.Path(windows) / "train/segments.jsonl") as lines:
        return json.loads(lines.readline())["task"]


class Scheduler:
    """Runs jobs as soon as what they wait for is done, each on a core of its own."""

    def __init__(self, plaudit, options):
        self.plaudit, self.limit, self.began = plaudit, options.limit, time.monotonic()
        self.cores = sorted(os.sched_getaffinity(0))[:options.jobs]
        self.changed, self.done, self.failed, self.left = threading.Condition(), set(), set(), []

    def run(self, of_seeds):
        # Policies take longest and wait for judges: they and what they need come first.
        self.left = [(jobs, name) for jobs in of_seeds for name in jobs.all]
        urgent = {(id(jobs), name) for jobs in of_seeds for name in needed(jobs, [name for name in jobs.all if name.startswith("policy")])}
        self.left.sort(key=lambda job: (id(job[0]), job[1]) not in urgent)
        threads = [threading.Thread(target=self.work, args=(core,)) for core in self.cores]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    def work(self, core):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self.left or self.next() is not None)
                if not self.left:
                    return
                jobs, name = self.left.pop(self.next())
            began, state = time.monotonic(), self.job(jobs, name, core)
            with self.changed:
                (self.failed if state == "FAILED" else self.done).add((id(jobs), name))
                # What waits for a failure is not tried.
                self.left = [(other, job) for other, job in self.left if not {(id(other), before) for before in needed(other, [job])} & self.failed]
                self.changed.notify_all()
            if state != "there":
                print(f"{time.monotonic() - self.began:4.0f} s: {jobs.task} seed {jobs.seed} {name} {state} in "
                      f"{time.monotonic() - began:.0f} s", flush=True)

    def next(self):
        ready = (at for at, (jobs, name) in enumerate(self.left) if all((id(jobs), before) in self.done for before in jobs.all[name][0]))
        return next(ready, None)

    def job(self, jobs, name, core):
        mark = jobs.folder / f"{name}.done"
        if mark.exists():
            return "there"
        mark.parent.mkdir(parents=True, exist_ok=True)
        printed = []
        with open(mark.with_suffix(".log"), "w") as log:
            for step in jobs.all[name][1]:
                try:
                    printed.append(step() if callable(step) else self.plaudit_run(step, core, log))
                except (OSError, subprocess.SubprocessError) as error:
                    print(error, file=log, flush=True)
                    return "FAILED"
        found = [json.loads(text) for text in printed if isinstance(text, str) and text.startswith("{\"")]
        mark.write_text(json.dumps(found))
        return "done"

    def plaudit_run(self, words, core, log):
        """What plaudit prints. A stage that was stopped begins anew, in an empty folder."""
        words = [pathlib.Path(word[1:]).read_text() if word.startswith("@") else word for word in words]
        for word in words:
            key, _, folder = word.partition("=")
            if key in ["runner.logger.log_path", "env.eval.data_collection.save_dir", "env.train.data_collection.save_dir"]:
                shutil.rmtree(folder, ignore_errors=True)
        left = self.limit - (time.monotonic() - self.began)
        if left <= 0:
            raise subprocess.SubprocessError("out of time")
        print("$ plaudit", *words, file=log, flush=True)
        done = subprocess.run(["taskset", "-c", str(core), self.plaudit, *words], stdout=subprocess.PIPE, stderr=log, timeout=left, check=True)
        text = done.stdout.decode()
        log.write(text)
        return text


def needed(jobs, names):
    """These jobs and all that they wait for."""
    found = set(names)
    for name in names:
        found |= needed(jobs, jobs.all[name][0])
    return found


def results(jobs, name):
    mark = jobs.folder / f"{name}.done"
    return json.loads(mark.read_text() or "[]") if mark.exists() else []


def over_seeds(numbers, digits=2):
    """The mean of seeds, and the range where there are several."""
    numbers = [number for number in numbers if number is not None]
    if not numbers:
        return "–"
    text = f"{statistics.mean(numbers):.{digits}f}"
    return text if len(numbers) == 1 else f"{text} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"


def value(found, *keys):
    for key in keys:
        found = (found or {}).get(key)
    return (found or {}).get("value")


def readout_table(of_task):
    print("| readout | judge | VOC | success AUC | balanced accuracy | answers on held-out windows | ms per question | no number |")
    print("|---|---|---|---|---|---|---|---|")
    for readout, (title, judge, _) in READOUTS.items():
        for number, kind in enumerate(["tuned", "random"]):
            found = [results(jobs, f"eval_{readout}")[number] for jobs in of_task if results(jobs, f"eval_{readout}")]
            tuned = [results(jobs, f"judge_{judge}")[0] for jobs in of_task if results(jobs, f"judge_{judge}")]
            answers = [one["metrics"]["balanced_accuracy"] for one in tuned] if kind == "tuned" and readout in JUDGES else []
            auc = [value(one, "prefers_solved") if "pairs" in one else value(one, "progress", "last_frame_auc") for one in found]
            rows = [rows_of(jobs, readout, kind) for jobs in of_task if results(jobs, f"eval_{readout}")]
            cells = [over_seeds([value(one, "progress", "voc") for one in found]), over_seeds(auc),
                     over_seeds([one.get("progress", {}).get("balanced_accuracy") for one in found]), over_seeds(answers),
                     over_seeds([1e3 * one["seconds_per_question"] for one in found], 1), over_seeds(map(share_unread, rows))]
            print(f"| {title} | {kind} | " + " | ".join(cells) + " |")


def rows_of(jobs, readout, kind):
    """Every value of an evaluation, or every pair."""
    with open(jobs.folder / "eval" / f"{readout}_{kind}" / "episodes.csv", newline="") as file:
        return list(csv.DictReader(file))


def share_unread(rows):
    """The share of answers without a number."""
    return sum(row.get("value", row.get("prefers_solved")) == "" for row in rows) / len(rows)


def success_curve(run):
    """Success by simulator ground truth at each evaluation of a run: [(step, value)]."""
    events = (json.loads(line) for line in (run / "events.jsonl").read_text().splitlines() if "eval/success_once" in line)
    found = {event["step"]: value for event in events for name, value in event["values"] if name == "eval/success_once"}
    return sorted(found.items())


def policy_table(of_task, policies):
    print("| rewarded by | seed | success rate (simulator ground truth) at steps |")
    print("|---|---|---|")
    for reward in policies:
        for jobs in of_task:
            if (jobs.folder / f"policy_{reward}.done").exists():
                curve = ", ".join(f"{step}: {value:.2f}" for step, value in success_curve(jobs.folder / "policy" / reward))
                print(f"| {reward} | {jobs.seed} | {curve} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plaudit")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tasks", nargs="+", default=["pickcube", "peginsertion"], choices=["pickcube", "peginsertion"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="jobs at a time, each on its own core")
    parser.add_argument("--limit", type=float, default=86400, help="seconds after which jobs are stopped")
    parser.add_argument("--size", type=float, default=1.0, help="share of the episodes")
    parser.add_argument("--steps", type=int, default=800, help="of a judge's tuning")
    parser.add_argument("--updates", type=int, default=40, help="of a policy")
    parser.add_argument("--policies", nargs="*", default=["trend_30", "success", "progress"], choices=list(REWARDS))
    parser.add_argument("--table", action="store_true", help="only show what is there")
    options = parser.parse_args()
    folder = options.folder.resolve()
    of_seeds = [Jobs(folder, task, seed, options) for task in options.tasks for seed in options.seeds]
    if not options.table:
        Scheduler(str(pathlib.Path(options.plaudit).resolve()), options).run(of_seeds)
    for task in options.tasks:
        of_task = [jobs for jobs in of_seeds if jobs.task == task]
        print(f"\n## {task}, {len(of_task)} seeds\n")
        readout_table(of_task)
        if task == "pickcube" and options.policies:
            print()
            policy_table(of_task, options.policies)


if __name__ == "__main__":
    main()
