"""How many frames before success should a reward be no false alarm? `plaudit reward audit --grace N`, by measurement.

    plaudit reward eval MODEL HELD_OUT --output-dir scores_1        # once for each model, on whole episodes
    python3 bench/audit/grace.py scores_1/scores.csv scores_2/scores.csv

The episodes are halved at random, many times. One half chooses the threshold as the audit does (at most `--rate` of episodes raise a
false alarm, with `--confidence`; any frame can be rewarded); on the other half, means over the halvings: the share of success frames
above the threshold, of successful episodes detected, of episodes with a false alarm, the share of halvings in which that is above the
rate, and how many frames of a successful episode are rewarded before success. Needs nothing beyond Python.
"""

import argparse
import csv
import math
import random


def read(path):
    """[(scores, truth)] of every episode. Episodes of several folders may have one name: a new one begins where frames begin anew."""
    episodes, last = [], None
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            at = (row["episode"], int(row["frame"]))
            if last is None or at[0] != last[0] or at[1] <= last[1]:
                episodes.append(([], []))
            episodes[-1][0].append(float(row["score"]))
            episodes[-1][1].append(row["success"] == "1")
            last = at
    return episodes


def allowed(count, rate, confidence):
    """How many false alarms among `count` episodes still bound the rate: P(Binomial(count, rate) <= j) <= 1 - confidence."""
    total, found = 0.0, -1
    for j in range(count + 1):
        total += math.comb(count, j) * rate**j * (1 - rate) ** (count - j)
        if total > 1 - confidence:
            return found
        found = j
    return found


def level(episode, grace):
    """The highest score of a frame without success that success does not follow within `grace` frames."""
    scores, truth = episode
    return max((score for at, score in enumerate(scores) if not any(truth[at : at + grace + 1])), default=-1.0)


def measure(episodes, levels, chosen, rate, confidence):
    """What the threshold of one half does on the other; None if the half is too small."""
    half, other = chosen
    j = allowed(len(half), rate, confidence)
    if j < 0:
        return None
    threshold = max(sorted((levels[number] for number in half), reverse=True)[j], 0.0)
    frames = above = solved = detected = early = 0
    for number in other:
        scores, truth = episodes[number]
        success = [score > threshold for score, true in zip(scores, truth) if true]
        frames, above = frames + len(success), above + sum(success)
        solved, detected = solved + bool(success), detected + any(success)
        if success:
            first = truth.index(True)
            early += sum(score > threshold for score in scores[:first])
    false = sum(levels[number] > threshold for number in other) / len(other)
    return above / max(frames, 1), detected / max(solved, 1), false, false > rate, early / max(solved, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", nargs="+")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--halvings", type=int, default=200)
    parser.add_argument("--most", type=int, default=8, help="the longest grace that is tried")
    options = parser.parse_args()
    for path in options.scores:
        episodes = read(path)
        solved = sum(any(truth) for _, truth in episodes)
        print(f"\n{path}: {len(episodes)} episodes, {solved} with success\n")
        print("| grace | success frames rewarded | successful episodes detected | episodes with a false alarm | halvings above the rate | frames rewarded before success |")
        print("|---|---|---|---|---|---|")
        for grace in range(options.most + 1):
            levels, rng, found = [level(one, grace) for one in episodes], random.Random(0), []
            for _ in range(options.halvings):
                order = rng.sample(range(len(episodes)), len(episodes))
                found.append(measure(episodes, levels, (order[::2], order[1::2]), options.rate, options.confidence))
            if None in found:
                print(f"| {grace} | too few episodes | | | | |")
                continue
            mean = [sum(one[k] for one in found) / len(found) for k in range(5)]
            print(f"| {grace} | {mean[0]:.1%} | {mean[1]:.1%} | {mean[2]:.1%} | {mean[3]:.1%} | {mean[4]:.2f} |")


if __name__ == "__main__":
    main()
