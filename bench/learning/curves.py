"""Learning curves of several seeds: run folders in, one CSV and one PNG out.

    python bench/learning/curves.py OUT METRIC TITLE RUN...

OUT.csv has a row for each evaluation (seed, step, seconds, value); OUT.png draws every seed.
RUN is a run directory of `plaudit train`; seeds are counted in the order given. Needs matplotlib.
"""

import csv
import json
import pathlib
import sys

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


def main(out, metric, title, *runs):
    curves = [read(run, metric) for run in runs]
    with open(f"{out}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "step", "seconds", metric])
        for seed, rows in enumerate(curves, 1):
            writer.writerows([seed, step, round(seconds, 1), round(value, 4)] for step, seconds, value in rows)
    figure, axes = plt.subplots(figsize=(6, 3.6), dpi=110)
    longest = max(seconds for rows in curves for _, seconds, _ in rows)
    unit, name = (60, "minutes") if longest > 120 else (1, "seconds")
    for seed, rows in enumerate(curves, 1):
        colour = COLOURS[(seed - 1) % len(COLOURS)]
        axes.plot([row[1] / unit for row in rows], [row[2] for row in rows], lw=1.4, color=colour, label=f"seed {seed}")
    axes.set(xlabel=name, ylabel=metric, title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(f"{out}.png", metadata={"Software": None})
    for seed, rows in enumerate(curves, 1):
        best = max(rows, key=lambda row: row[2])
        print(f"seed {seed}: last {rows[-1][2]:.3f} after {rows[-1][1]:.0f} s, best {best[2]:.3f} at {best[1]:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
