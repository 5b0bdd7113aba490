"""Follows a run's events.jsonl and gives them to a logger in Python: Weights & Biases, MLflow or trackio.

The first line of the standard input says which, and where. When the standard input ends, so does the run. How far the log was
given on is kept beside it, so that a run that goes on is one run there too.
"""

import json
import os
import re
import sys
import threading
import time


class Wandb:
    def __init__(self, settings, identity):
        import wandb

        self.wandb = wandb
        self.run = wandb.init(
            project=settings["project"], name=settings["name"], id=identity, resume="allow", dir=settings["folder"], config=settings["config"]
        )
        self.identity = self.run.id

    def metrics(self, step, values):
        self.run.log(values, step=step)

    def histogram(self, step, name, values):
        self.run.log({name: self.wandb.Histogram(values)}, step=step)

    def image(self, step, name, path):
        self.run.log({name: self.wandb.Image(path)}, step=step)

    def video(self, step, name, path):
        kind = os.path.splitext(path)[1][1:]
        # An animated PNG is an image there.
        shown = self.wandb.Video(path, format=kind) if kind in ("mp4", "gif", "webm") else self.wandb.Image(path)
        self.run.log({name: shown}, step=step)

    def audit(self, path, numbers, findings):
        self.run.summary.update(numbers)
        rows = [[finding["severity"], finding["what"], finding["hint"]] for finding in findings]
        self.run.log({"audit/findings": self.wandb.Table(columns=["severity", "what", "hint"], data=rows)}, step=0)
        self.run.save(path, base_path=os.path.dirname(path), policy="now")

    def end(self, reason):
        self.run.finish(exit_code=0 if reason == "done" else 1)


class Mlflow:
    def __init__(self, settings, identity):
        import mlflow

        self.mlflow = mlflow
        mlflow.set_experiment(settings["project"])
        if identity is None:
            run = mlflow.start_run(run_name=settings["name"])
            flat = list(flattened(settings["config"]))
            for first in range(0, len(flat), 100):
                mlflow.log_params(dict(flat[first : first + 100]))
        else:
            run = mlflow.start_run(run_id=identity)
        self.identity = run.info.run_id

    def metrics(self, step, values):
        self.mlflow.log_metrics({mlflow_name(name): value for name, value in values.items()}, step=step)

    def histogram(self, step, name, values):
        pass  # MLflow has none; docs/loggers.md says so

    def image(self, step, name, path):
        self.mlflow.log_artifact(path, "images")

    def video(self, step, name, path):
        self.mlflow.log_artifact(path, name)

    def audit(self, path, numbers, findings):
        self.mlflow.log_metrics({mlflow_name(name): value for name, value in numbers.items()}, step=0)
        self.mlflow.log_artifact(path, "audit")

    def end(self, reason):
        status = {"done": "FINISHED", "interrupted": "KILLED"}.get(reason, "FAILED")
        self.mlflow.end_run(status)


class Trackio:
    def __init__(self, settings, identity):
        import trackio

        self.trackio = trackio
        name = identity or settings["name"]
        trackio.init(project=settings["project"], name=name, config=settings["config"], resume="allow")
        self.identity = name

    def metrics(self, step, values):
        self.trackio.log(values, step=step)

    def histogram(self, step, name, values):
        pass  # as for MLflow

    def image(self, step, name, path):
        self.trackio.log({name: self.trackio.Image(path)}, step=step)

    def video(self, step, name, path):
        kind = os.path.splitext(path)[1][1:]
        shown = self.trackio.Video(path, format=kind) if kind in ("mp4", "gif", "webm") else self.trackio.Image(path)
        self.trackio.log({name: shown}, step=step)

    def audit(self, path, numbers, findings):
        self.trackio.log(numbers, step=0)

    def end(self, reason):
        self.trackio.finish()


LOGGERS = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio}


def flattened(tree, path=""):
    """Keys with dots; MLflow takes values of 500 characters at least."""
    for key, value in tree.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict) and value:
            yield from flattened(value, name)
        else:
            yield mlflow_name(name), str(value)[:500]


def mlflow_name(name):
    return re.sub(r"[^\w.\- :/]", "_", name)


class Place:
    """How far the log was given on, with which videos, and the run's name there."""

    def __init__(self, path):
        self.path, self.identity, self.read, self.videos, self.step = path, None, 0, [], 0
        if os.path.exists(path):
            with open(path) as file:
                state = json.load(file)
            self.identity, self.read = state["identity"], state["read"]
            self.videos, self.step = state.get("videos", []), state.get("step", 0)

    def keep(self):
        state = {"identity": self.identity, "read": self.read, "videos": self.videos, "step": self.step}
        with open(self.path + ".new", "w") as file:
            json.dump(state, file)
        os.replace(self.path + ".new", self.path)


def give(logger, folder, line):
    """Gives one event on. Says how the run ended, if this is its end."""
    event = json.loads(line)
    kind, step = event["event"], event.get("step", 0)
    if kind == "metrics" and event["values"]:
        logger.metrics(step, {name: float(value) for name, value in event["values"]})
    elif kind == "histogram":
        logger.histogram(step, event["name"], [float(value) for value in event["values"]])
    elif kind == "image" and event.get("file"):
        logger.image(step, event["name"], os.path.join(folder, event["file"]))
    elif kind == "ended":
        return event["reason"]["kind"]
    return None


def give_videos(logger, place, folder):
    """Gives the videos on that appeared. Loggers want steps in order: it is the newest one, and the file's name says which video it is."""
    for root, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            path = os.path.join(root, name)
            is_video = os.path.splitext(name)[1] in (".mp4", ".png", ".apng")
            if is_video and path not in place.videos:
                under = os.path.relpath(root, folder)
                logger.video(place.step, "video" if under == "." else "video/" + under, path)
                place.videos.append(path)


def give_audit(logger, path):
    """Gives on what was found of the model that rewards the run."""
    with open(path) as file:
        found = json.load(file)
    operating, auc = found.get("operating") or {}, found.get("auc") or found.get("balanced_accuracy") or {}
    alarms = operating.get("alarms") or {}
    numbers = {
        "audit/passed": float(bool(found.get("passed"))),
        "audit/threshold": operating.get("threshold"),
        "audit/false_alarms_at_most": alarms.get("bound"),
        "audit/ranking": auc.get("value"),
        "audit/episodes": found.get("episodes"),
    }
    findings = (found.get("verdict") or {}).get("findings") or []
    logger.audit(path, {name: float(value) for name, value in numbers.items() if value is not None}, findings)


def follow(settings, logger, place, parent_gone):
    end = None
    if settings["audit"] and place.read == 0:
        give_audit(logger, settings["audit"])
    with open(os.path.join(settings["folder"], "events.jsonl"), "rb") as log:
        log.seek(place.read)
        while end is None:
            is_last = parent_gone.is_set()  # looked at first: what was written before it is read below
            line = log.readline()
            if line.endswith(b"\n"):
                if b'"ended"' in line:  # before it, since a logger takes nothing after its end
                    give_videos(logger, place, settings["videos"])
                ended = give(logger, settings["folder"], line)
                place.step = max(place.step, json.loads(line).get("step", 0))
                # What ended before this run began was an earlier part of it.
                end = ended if place.read >= settings["begins_at"] else None
                place.read = log.tell()
                continue
            log.seek(place.read)
            give_videos(logger, place, settings["videos"])
            place.keep()
            if is_last:
                break
            time.sleep(0.2)
    place.keep()
    logger.end(end or "killed")


def main():
    # Loggers print where they like: the standard output is for one word to plaudit.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    place = Place(settings["state"])
    logger = LOGGERS[settings["backend"]](settings, place.identity)
    place.identity = logger.identity
    place.keep()
    print("ready", file=answer, flush=True)
    parent_gone = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), parent_gone.set()), daemon=True).start()
    follow(settings, logger, place, parent_gone)


main()
