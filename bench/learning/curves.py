"""Learning curves of several seeds: run folders in, one CSV and one PNG out.

    python bench/learning/curves.py OUT METRIC TITLE RUN...

OUT.csv has a row for each evaluation (seed, step, seconds, value); OUT.png draws every seed.
RUN is a run directory of `plaudit train`; seeds are counted in the order given. Needs matplotlib.

To compare, write GROUP=RUN: seeds are counted in each group, a group has one colour, and values are drawn over steps.
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


def main(out, metric, title, *runs):
    counts, curves = {}, []
    for group, run in map(grouped, runs):
        counts[group] = counts.get(group, 0) + 1
        curves.append((group, counts[group], read(run, metric)))
    table(out, metric, curves)
    draw(out, metric, title, curves)
    for group, seed, rows in curves:
        best = max(rows, key=lambda row: row[2])
        name = f"{group} seed {seed}".strip()
        print(f"{name}: first {rows[0][2]:.3f}, last {rows[-1][2]:.3f} after {rows[-1][1]:.0f} s, "
              f"best {best[2]:.3f} at {best[1]:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
