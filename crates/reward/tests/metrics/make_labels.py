"""What scikit-learn and SciPy say of three labels. Needs numpy, scipy and scikit-learn; writes labels.json beside itself."""

import json
import pathlib
import warnings

import numpy as np
import scipy
import sklearn
from scipy import optimize, special, stats
from sklearn import metrics
from sklearn.calibration import calibration_curve

BINS = 15
SIZE = 90
LABELS = [0, 1, 2]


def ece(happened, promised):
    """Weights the distances of calibration_curve's points by how many windows are in their bins."""
    if happened.all() or not happened.any():
        # calibration_curve wants both classes; the bins are the same without it.
        edges = np.linspace(0.0, 1.0, BINS + 1)
        bins = np.searchsorted(edges[1:-1], promised)
        apart = [abs(happened[bins == b].sum() - promised[bins == b].sum()) for b in np.unique(bins)]
        return float(sum(apart) / len(promised))
    share, mean = calibration_curve(happened, promised, n_bins=BINS, strategy="uniform")
    edges = np.linspace(0.0, 1.0, BINS + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], promised), minlength=BINS)
    counts = counts[counts > 0]
    return float(np.sum(counts * np.abs(share - mean)) / len(promised))


def temperature(logits, truth):
    """The temperature of the least log loss."""
    if len(np.unique(truth)) < 2:
        return None

    def loss(log_sharpness):
        rows = special.log_softmax(logits * np.exp(log_sharpness), axis=1)
        return -rows[np.arange(len(truth)), truth].mean()

    bounds = (np.log(0.01), np.log(100.0))
    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    return float(np.exp(-found.x))


def case(name, logits, truth, progress):
    # Judges answer in single precision.
    logits = logits.astype(np.float32).astype(np.float64)
    likely = special.softmax(logits, axis=1)
    said = likely.argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = dict(labels=LABELS, average=None)
        nan = float("nan")
        precision = metrics.precision_score(truth, said, zero_division=nan, **both)
        recall = metrics.recall_score(truth, said, zero_division=nan, **both)
        f1 = metrics.f1_score(truth, said, zero_division=nan, **both)
        some = lambda row: [None if np.isnan(number) else float(number) for number in row]
        votes = likely[:, 0] - likely[:, 1]
        return {
            "name": name,
            "logits": logits.tolist(),
            "truth": truth.tolist(),
            "progress": progress.tolist(),
            "confusion": metrics.confusion_matrix(truth, said, labels=LABELS).tolist(),
            "accuracy": float(metrics.accuracy_score(truth, said)),
            "balanced_accuracy": float(metrics.balanced_accuracy_score(truth, said)),
            "precision": some(precision),
            "recall": some(recall),
            "f1": some(f1),
            "ece": ece(said == truth, likely.max(axis=1)),
            "label_ece": [ece(truth == label, likely[:, label]) for label in LABELS],
            "brier": float(metrics.brier_score_loss(truth, likely, labels=LABELS, scale_by_half=False)),
            "log_loss": float(metrics.log_loss(truth, likely, labels=LABELS)),
            "temperature": temperature(logits, truth),
            "rank": float(stats.spearmanr(votes, progress).statistic),
        }


def main():
    rng = np.random.default_rng(11)
    truth = rng.integers(0, 3, SIZE)
    noise = rng.normal(size=(SIZE, 3))
    right = np.eye(3)[truth]
    progress = np.where(truth == 0, 0.05, np.where(truth == 1, -0.05, 0.0)) + rng.normal(scale=0.02, size=SIZE)
    two = rng.integers(0, 2, SIZE)
    rare = np.where(rng.random(SIZE) < 0.9, 2, rng.integers(0, 2, SIZE))
    cases = [
        case("good", 3.0 * right + noise, truth, progress),
        case("too sure", 12.0 * right + 6.0 * noise, truth, progress),
        case("not sure enough", 0.3 * right + 0.1 * noise, truth, progress),
        case("chance", noise, truth, progress),
        case("backwards", -3.0 * right + noise, truth, progress),
        case("unclear is never right", 2.0 * np.eye(3)[two] + noise, two, progress),
        case("mostly unclear", 2.0 * np.eye(3)[rare] + noise, rare, np.round(progress, 2)),
        case("one label", 2.0 * np.eye(3)[np.zeros(SIZE, int)] + noise, np.zeros(SIZE, int), progress),
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"scikit_learn": "{sklearn.__version__}", "scipy": "{scipy.__version__}", "cases": [\n{lines}\n]}}'
    pathlib.Path(__file__).with_name("labels.json").write_text(text + "\n")


main()
