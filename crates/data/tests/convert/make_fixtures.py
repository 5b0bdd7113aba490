"""Writes the episodes and the expected results that the conversion tests compare with.

    python make_fixtures.py [--torch]

Needs numpy. With torch installed, `episodes_torch/` is made too (tensors inside a plain pickle); without, it stays.
The rules are written down here once more, from the description of RLinf's scripts and not from the Rust code: if the
two disagree, one of them is wrong. Images are named by the CRC-32 of their bytes.
"""

import itertools
import json
import pathlib
import pickle
import random
import shutil
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent
RAW = "{RAW}"
OUT = "{OUT}"
rng = np.random.default_rng(7)


def image(height=6, width=8, channels=3):
    return rng.integers(0, 256, (height, width, channels), dtype=np.uint8)


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


# ---- episodes ---------------------------------------------------------------------------------------------------


def episode(number, steps, first_success, wrap, style):
    """One episode of `steps` actions in the collector's layout. `style` varies what real files vary."""
    obs, infos, rewards = [], [], []
    value = 0.0
    for at in range(steps + 1):
        seen = {"main_images": wrap(image()), "states": wrap(np.zeros(4, np.float32))}
        if style == "third":
            seen["third_view_images"] = wrap(image())
        elif style == "extra3":
            seen["extra_view_images"] = wrap(image())
        else:
            seen["extra_view_images"] = wrap(np.stack([image(), image()]))
        if style == "strided":
            seen["main_images"] = wrap(image(), strided=True)
        if style == "holes" and at in (3, 7):
            seen["main_images"] = None
        if style == "no_extra_late" and at > steps - 3:
            seen["extra_view_images"] = None
        done = first_success is not None and at >= first_success
        if at == 0:
            infos.append({})
        elif style == "sticky":
            infos.append({"episode": {"success_once": wrap(np.array(done)), "return": wrap(np.float32(at))}})
        else:
            infos.append({"success": wrap(np.array(done)), "is_obj_placed": wrap(np.array(not done)), "episode": {"success_once": wrap(np.array(False))}})
        obs.append(seen)
        value += float(rng.normal(0.0, 0.06))
        rewards.append(0.0 if at == 0 else wrap(np.array(value, np.float32)))
    data = {
        "rank": 0, "env_idx": number % 3, "episode_id": number, "step": 50 * number, "success": first_success is not None,
        "observations": obs, "actions": [np.zeros(3, np.float32)] * steps, "rewards": rewards,
        "terminated": [False] * (steps + 1), "truncated": [False] * steps + [True], "infos": infos,
    }
    if style == "gae":
        data["gae"] = [float(x) for x in np.cumsum(rng.normal(0, 0.2, steps + 1))]
    if style == "task":
        data["task"] = "lift the \"red\" cube – 拿起"
    if style == "third":
        data["task_description"] = "push"
    return data


STYLES = ["plain", "sticky", "holes", "third", "gae", "task", "extra3", "no_extra_late", "plain", "plain", "sticky", "strided", "plain"]


def make_episodes(folder, wrap):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, style in enumerate(STYLES):
        steps = [9, 12, 10, 7, 14, 9, 11, 12, 3, 20, 8, 9, 10][number]
        first_success = None if number % 4 == 3 else steps - number % 5
        outcome = "fail" if first_success is None else "success"
        name = f"rank_0_env_{number % 3}_episode_{number}_step_{50 * number}_{outcome}.pkl"
        with open(folder / name, "wb") as file:
            pickle.dump(episode(number, steps, first_success, wrap, style), file, protocol=4)


def load(folder):
    files = sorted(str(path) for path in folder.glob("*.pkl"))
    found = []
    for path in files:
        with open(path, "rb") as file:
            found.append((f"{RAW}/{pathlib.Path(path).name}", pickle.load(file)))
    return found


# ---- the rules for images ---------------------------------------------------------------------------------------


def pick_indices(n, k, keep_last):
    if not 0 < k < n:
        return list(range(n))
    if k == 1:
        return [n - 1]
    if not keep_last:
        return sorted({int(i * (n - 1) / (k - 1)) for i in range(k)})
    rest, m = n - 1, k - 1
    if m >= rest:
        chosen = list(range(rest))
    elif m == 1:
        chosen = [0]
    else:
        chosen = [int(i * (rest - 1) / (m - 1)) for i in range(m)]
    return sorted({*chosen, n - 1})


def is_success(info):
    if "success" in info:
        return bool(info["success"])
    return bool(info.get("episode", {}).get("success_once", False))


def labelled_frames(data, k, keep_last):
    pairs = []
    for seen, info in zip(data["observations"], data["infos"]):
        if seen["main_images"] is not None:
            pairs.append((crc(np.asarray(seen["main_images"])), int(is_success(info))))
    return [pairs[i] for i in pick_indices(len(pairs), k, keep_last)]


def even_out(part, ratio, generator):
    good = [pair for frames in part for pair in frames if pair[1]]
    poor = [pair for frames in part for pair in frames if not pair[1]]
    if not good:
        return []
    generator.shuffle(poor)
    mixed = good + poor[: int(len(good) * ratio)]
    generator.shuffle(mixed)
    return mixed


def expect_images(episodes, k, keep_last, val_split, ratio, seed):
    frames = [labelled_frames(data, k, keep_last) for _, data in episodes]
    generator = random.Random(seed)
    generator.shuffle(frames)
    cut = max(1, int(len(frames) * val_split))
    val, train = frames[:cut], frames[cut:]
    return {
        "train": even_out(train, ratio, generator),
        "val_balanced": even_out(val, ratio, generator),
        "val": [pair for part in val for pair in part],
    }


def image_cases(episodes):
    cases = []
    grid = itertools.product([0, 1, 2, 3, 5, 9, 100], [True, False], [(0.2, 2.0, 42), (0.35, 0.5, -3), (0.5, 3.7, 2**40 + 7), (0.0, 0.0, 0)])
    for k, keep_last, (val_split, ratio, seed) in grid:
        options = {"num_samples_per_episode": k, "keep_last_frame": keep_last, "val_split": val_split, "fail_success_ratio": ratio, "seed": seed}
        found = expect_images(episodes, k, keep_last, val_split, ratio, seed)
        cases.append({"options": options, **{part: [list(pair) for pair in pairs] for part, pairs in found.items()}})
    return cases


# ---- the rules for windows --------------------------------------------------------------------------------------

DEFAULTS = {
    "window_size": 5, "stride": 1, "delta_threshold": 0.05, "tail_unclear_ratio": 0.15, "num_samples_per_episode": 0,
    "keep_last_window": True, "val_split": 0.1, "balance_labels": True, "max_samples_per_label": None,
    "eval_max_samples_per_label": None, "reverse_positive_as_negative": True, "fps": 2, "task_description": None, "random_seed": 42,
}


def second_view(seen):
    if seen.get("third_view_images") is not None:
        return np.asarray(seen["third_view_images"])
    extra = seen.get("extra_view_images")
    if extra is None:
        return None
    extra = np.asarray(extra)
    return extra if extra.ndim == 3 else extra[0]


def windows_of(path, data, o):
    scores, source = (data["gae"], "gae") if data.get("gae") else (data["rewards"], "rewards")
    scores = [float(x) for x in scores]
    length, width = min(len(data["observations"]), len(scores)), o["window_size"]
    if length < width:
        return []
    starts = range(0, length - width + 1, o["stride"])
    tail = int(len(starts) * (1.0 - o["tail_unclear_ratio"]))
    task = data.get("task") or data.get("task_description") or o["task_description"] or "robot manipulation progress judgment"
    found = []
    for ordinal, start in enumerate(starts):
        end = start + width - 1
        seen = data["observations"][start : end + 1]
        main, extra = [s["main_images"] for s in seen], [second_view(s) for s in seen]
        if any(x is None for x in main + extra):
            continue
        delta = scores[end] - scores[start]
        label = "unclear" if abs(delta) <= o["delta_threshold"] or ordinal >= tail else "positive" if delta > 0 else "negative"
        found.append({
            "id": f"{pathlib.Path(path).stem}_frames_{start:04d}_{end:04d}", "label": label, "score": delta, "task": task, "path": path,
            "start": start, "end": end, "scores": (scores[start], scores[end]), "source": source, "aug": None,
            "frames": [crc(np.asarray(x)) for x in main], "extra": [crc(x) for x in extra],
            "about": {key: data[key] for key in ("episode_id", "env_idx", "success")},
        })
    return [found[i] for i in pick_indices(len(found), o["num_samples_per_episode"], o["keep_last_window"])]


def backwards(sample):
    return {**sample, "id": sample["id"] + "_reverse_negative", "label": "negative", "score": -abs(sample["score"]), "aug": "reverse_positive",
            "frames": sample["frames"][::-1], "extra": sample["extra"][::-1]}


def gather(part, cap, o, generator):
    groups = {"positive": [], "negative": [], "unclear": []}
    for sample in (sample for samples in part for sample in samples):
        groups[sample["label"]].append(sample)
        if sample["label"] == "positive" and o["reverse_positive_as_negative"]:
            groups["negative"].append(backwards(sample))
    for group in groups.values():
        generator.shuffle(group)
    sizes = [len(group) for group in groups.values() if group]
    keep = cap
    if o["balance_labels"] and len(sizes) >= 2:
        keep = min(sizes) if cap is None else min(*sizes, cap)
    merged = [sample for group in groups.values() for sample in (group if keep is None else group[:keep])]
    generator.shuffle(merged)
    return merged


def prompt(task, width):
    return (
        f"You are currently performing the task: {task}. You are given two synchronized {width}-frame videos from different camera views "
        "(main view and third-person view) of the same robot action window. Judge whether the action trend is positive, negative, or "
        "unclear. Answer with exactly one word: positive, negative, or unclear."
    )


def row(sample, part, o):
    text = prompt(sample["task"], o["window_size"])
    said = [{"role": who, "content": [{"type": "text", "text": what}]} for who, what in (("user", text), ("assistant", sample["label"]))]
    return {
        "task": sample["task"], "prompt": text, "question": text, "answer": sample["label"],
        "pkl_path": f"{OUT}/{part}/pkl/{sample['label']}_{sample['id']}.pkl", "messages": said, "source_episode_path": sample["path"],
        "segment_metadata": {"start_step": sample["start"], "end_step": sample["end"], "window_size": o["window_size"], **sample["about"],
                             "augmentation": sample["aug"], "views": ["main_images", "extra_view_images[0]"]},
        "supervision": {"label": sample["label"], "score": sample["score"], "score_name": "gae_delta_window", "score_source": sample["source"],
                        "delta_threshold": o["delta_threshold"], "start_gae": sample["scores"][0], "end_gae": sample["scores"][1]},
    }


def expect_windows(episodes, given):
    o = {**DEFAULTS, **given}
    all_windows = [found for found in (windows_of(path, data, o) for path, data in episodes) if found]
    generator = random.Random(o["random_seed"])
    generator.shuffle(all_windows)
    cut = max(1, int(len(all_windows) * o["val_split"]))
    held, train = all_windows[:cut], all_windows[cut:]
    cap, held_cap = o["max_samples_per_label"], o["eval_max_samples_per_label"]
    if held_cap is None and cap is not None:
        held_cap = max(1, round(cap * (len(held) / max(1, len(train)))))
    parts = {"train": gather(train, cap, o, generator)}
    parts["eval"] = gather(held, held_cap, o, generator)
    counts = {}
    for part, samples in parts.items():
        counts[part] = {}
        for sample in samples:
            counts[part][sample["label"]] = counts[part].get(sample["label"], 0) + 1
    info = {
        "raw_data_path": RAW, "output_dir": OUT, **o, "load_workers": 256, "write_workers": 512, "export_format": "pkl",
        "num_train_samples": len(parts["train"]), "num_eval_samples": len(parts["eval"]), "train_label_counts": counts["train"],
        "eval_label_counts": counts["eval"], "train_manifest": f"{OUT}/train/segments.jsonl", "eval_manifest": f"{OUT}/eval/segments.jsonl",
    }
    lines = {part: [json.dumps(row(sample, part, o), ensure_ascii=False) for sample in samples] for part, samples in parts.items()}
    frames = {part: [[sample["frames"], sample["extra"]] for sample in samples] for part, samples in parts.items()}
    return info, lines, frames


def window_cases(episodes):
    options = [
        {}, {"window_size": 3}, {"window_size": 3, "stride": 2}, {"stride": 3, "val_split": 0.3}, {"balance_labels": False},
        {"reverse_positive_as_negative": False}, {"balance_labels": False, "reverse_positive_as_negative": False, "val_split": 0.4},
        {"max_samples_per_label": 4}, {"max_samples_per_label": 6, "eval_max_samples_per_label": 2, "val_split": 0.4},
        {"balance_labels": False, "max_samples_per_label": 5, "val_split": 0.5}, {"num_samples_per_episode": 3},
        {"num_samples_per_episode": 4, "keep_last_window": False}, {"num_samples_per_episode": 1, "delta_threshold": 0.001},
        {"delta_threshold": 0.0, "tail_unclear_ratio": 0.0}, {"delta_threshold": 0.2, "tail_unclear_ratio": 0.5, "random_seed": -9},
        {"delta_threshold": 9.0}, {"delta_threshold": 9.0, "max_samples_per_label": 3}, {"tail_unclear_ratio": 1.0, "random_seed": 2**40 + 7},
        {"window_size": 8, "task_description": "stack the blocks"}, {"window_size": 1, "delta_threshold": 1e-05},
        {"max_samples_per_label": 1, "val_split": 0.0},
    ]
    cases = []
    for given in options:
        info, lines, frames = expect_windows(episodes, given)
        crcs = {part: [zlib.crc32(line.encode()) for line in found] for part, found in lines.items()}
        frames = {part: [zlib.crc32(json.dumps(sample, separators=(",", ":")).encode()) for sample in found] for part, found in frames.items()}
        case = {"options": given, "info": json.dumps(info, indent=2, ensure_ascii=False), "lines": crcs, "frames": frames}
        if given == {"max_samples_per_label": 4}:
            case["whole_lines"] = lines
        cases.append(case)
    return cases


def as_numpy(array, strided=False):
    return np.asfortranarray(array) if strided else array


def as_torch(array, strided=False):
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array)).reshape(np.shape(array))
    return tensor.transpose(0, 1).contiguous().transpose(0, 1) if strided else tensor


def main():
    numpy_dir, torch_dir = HERE / "episodes_numpy", HERE / "episodes_torch"
    make_episodes(numpy_dir, as_numpy)
    if "--torch" in sys.argv:
        make_episodes(torch_dir, as_torch)
    for name, folder in (("numpy", numpy_dir), ("torch", torch_dir)):
        if name == "torch" and "--torch" not in sys.argv:
            continue
        episodes = load(folder)
        expected = {"images": image_cases(episodes), "windows": window_cases(episodes)}
        text = json.dumps(expected, separators=(",", ":")).replace('},{"options"', '},\n{"options"')
        (HERE / f"expected_{name}.json").write_text(text + "\n")


main()
