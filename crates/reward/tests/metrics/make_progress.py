"""What SciPy and scikit-learn say of scores over time. Needs numpy, scipy and scikit-learn; writes progress.json beside itself."""

import json
import pathlib

import numpy as np
from scipy import stats
from sklearn import metrics


def mean(values):
    values = [value for value in values if not np.isnan(value)]
    return float(np.mean(values)) if values else None


def case(episodes):
    voc, tau = [], []
    for scores, truth in episodes:
        if not any(truth):
            continue
        end = truth.index(True)
        time = np.arange(end + 1)
        if end > 0 and len(set(scores[: end + 1])) > 1:
            voc.append(stats.spearmanr(time, scores[: end + 1]).statistic)
            tau.append(stats.kendalltau(time, scores[: end + 1], variant="b").statistic)
    last = [(scores[-1], truth[-1]) for scores, truth in episodes]
    labels = [truth for _, truth in last]
    auc = None
    if 0 < sum(labels) < len(labels):
        auc = float(metrics.roc_auc_score(labels, [score for score, _ in last]))
    return {"episodes": episodes, "voc": mean(voc), "kendall": mean(tau), "last_frame_auc": auc, "balanced_accuracy": held_out(last)}


def held_out(last):
    """Balanced accuracy where each half of the episodes is called by the other half's best threshold."""
    kinds = [[one for one in last if one[1] == kind] for kind in [True, False]]
    if min(map(len, kinds)) < 2:
        return None
    halves = [[one for kind in kinds for one in kind[at::2]] for at in range(2)]
    accuracy = lambda half, threshold: metrics.balanced_accuracy_score([truth for _, truth in half], [score > threshold for score, _ in half])
    found = []
    for half, other in [halves, halves[::-1]]:
        levels = np.unique([score for score, _ in other])
        thresholds = [levels[0] - 1, *(levels[1:] + levels[:-1]) / 2, levels[-1]]
        found.append(accuracy(half, max(reversed(thresholds), key=lambda threshold: accuracy(other, threshold))))
    return float(np.mean(found))


def episode(rng, steps, success_at, lost_at, noise, digits):
    time = np.arange(steps) / max(success_at or steps, 1)
    scores = np.clip(time, 0, 1) + rng.normal(0, noise, steps)
    truth = [success_at is not None and at >= success_at and (lost_at is None or at < lost_at) for at in range(steps)]
    return [round(float(score), digits) for score in scores], truth


rng = np.random.default_rng(5)
cases = [
    case([episode(rng, 30, 20, None, noise, digits) for _ in range(4)] + [episode(rng, 25, None, None, noise, digits)] * 2)
    for noise, digits in [(0.02, 6), (0.3, 6), (0.2, 1)]
]
cases.append(case([episode(rng, 20, 12, 18, 0.1, 6), episode(rng, 20, 0, None, 0.1, 6), episode(rng, 20, 15, None, 0.1, 6)]))
cases.append(case([episode(rng, 10, None, None, 0.1, 6)]))
cases.append(case([([0.5] * 6, [False] * 4 + [True] * 2), ([0.5, 0.4], [False, False])]))

# Last scores that overlap, with ties and without.
for digits in [6, 1]:
    ends = [(round(float(rng.normal(0.6 * solved, 0.5)), digits), solved) for solved in [True, False] * 7 + [False] * 5]
    cases.append(case([([0.0, score], [False, bool(solved)]) for score, solved in ends]))

path = pathlib.Path(__file__).with_name("progress.json")
path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
