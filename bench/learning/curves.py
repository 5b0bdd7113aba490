"""Learning curves of several seeds: run folders in, one CSV and one PNG out.

    python bench/learning/curves.py OUT METRIC TITLE RUN...

OUT.csv has a row for each evaluation (seed, step, seconds, value); OUT.png draws every seed.
RUN is a run directory of `plaudit train`; seeds are counted in the order given. Needs matplotlib.

To compare, write GROUP=RUN: seeds are counted in each group, a group has one colour, and values are drawn over steps.

--mean N before OUT: the mean of the last N values, for a metric of single episodes, such as a robot's env/success_alone.
--clock SPEED: seconds are those of a simulated robot whose clock was so fast (env.train.override_cfg.sim_speed); with commas, of each run.
"""

import argparse
import csv
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Okabe and Ito's colours, which people with poor colour vision tell apart.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000"]


def read(run, metric):
    """(step, seconds, value) of every evaluation of a run."""
    rows = []
    for line in (pathlib.Path(run) / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event.get("event") == "metrics":
            values = dict(event["values"])
            if metric in values:
                rows.append((event["step"], event["elapsed_secs"], values[metric]))
    return rows


def smoothed(rows, count):
    """Each value as the mean of itself and those before it, `count` in all; what has fewer before it is left out."""
    means = (sum(row[2] for row in rows[end - count:end]) / count for end in range(count, len(rows) + 1))
    return [(*row[:2], mean) for row, mean in zip(rows[count - 1:], means)]


def grouped(run):
    """The group of an argument, if it names one, and the run."""
    group, found, path = run.partition("=")
    return (group, path) if found else ("", run)


def table(out, metric, curves):
    """Writes every evaluation; the column of groups is there if there are groups."""
    groups = any(group for group, _, _ in curves)
    with open(f"{out}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((["group"] if groups else []) + ["seed", "step", "seconds", metric])
        for group, seed, rows in curves:
            own = [group] if groups else []
            writer.writerows(own + [seed, step, round(seconds, 1), round(value, 4)] for step, seconds, value in rows)


def draw(out, metric, title, curves):
    """Every seed over time; of groups, over steps, which do not depend on what else a machine does."""
    figure, axes = plt.subplots(figsize=(6, 3.6), dpi=110)
    groups = list(dict.fromkeys(group for group, _, _ in curves))
    longest = max(seconds for _, _, rows in curves for _, seconds, _ in rows)
    unit, name = (60, "minutes") if longest > 120 else (1, "seconds")
    if groups != [""]:
        name = "steps"
    for group, seed, rows in curves:
        colour = COLOURS[(groups.index(group) if group else seed - 1) % len(COLOURS)]
        label = f"seed {seed}" if not group else group if seed == 1 else None
        places = [row[0] if group else row[1] / unit for row in rows]
        axes.plot(places, [row[2] for row in rows], lw=1.4, color=colour, label=label)
    axes.set(xlabel=name, ylabel=metric, title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(f"{out}.png", metadata={"Software": None})


def main(out, metric, title, runs, mean=1, clock="1"):
    counts, curves = {}, []
    speeds = [float(speed) for speed in clock.split(",")]
    speeds += speeds[-1:] * (len(runs) - len(speeds))
    for (group, run), speed in zip(map(grouped, runs), speeds):
        counts[group] = counts.get(group, 0) + 1
        rows = [(step, seconds * speed, value) for step, seconds, value in read(run, metric)]
        curves.append((group, counts[group], smoothed(rows, mean)))
    table(out, metric, curves)
    draw(out, metric, title, curves)
    for group, seed, rows in curves:
        best = max(rows, key=lambda row: row[2])
        name = f"{group} seed {seed}".strip()
        print(f"{name}: first {rows[0][2]:.3f}, last {rows[-1][2]:.3f} after {rows[-1][1]:.0f} s, "
              f"best {best[2]:.3f} at {best[1]:.0f} s")


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--mean", type=int, default=1)
    words.add_argument("--clock", default="1")
    for name in ("out", "metric", "title"):
        words.add_argument(name)
    words.add_argument("runs", nargs="+")
    main(**vars(words.parse_args()))
