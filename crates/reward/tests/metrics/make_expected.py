"""What scikit-learn says of some scores. Needs numpy and scikit-learn; writes expected.json beside itself."""

import json
import pathlib
import warnings

import numpy as np
import sklearn
from sklearn import metrics
from sklearn.calibration import calibration_curve

BINS = 15
SIZE = 80


def ece(truth, scores):
    """Weights the distances of calibration_curve's points by how many frames are in their bins."""
    happened, promised = calibration_curve(truth, scores, n_bins=BINS, strategy="uniform")
    edges = np.linspace(0.0, 1.0, BINS + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], scores), minlength=BINS)
    counts = counts[counts > 0]
    return float(np.sum(counts * np.abs(happened - promised)) / len(scores))


def curves(truth, scores):
    """Points from the highest threshold down; scikit-learn ends precision and recall with a point of its own."""
    if not truth.any() or truth.all():
        return None, None
    false, true, _ = metrics.roc_curve(truth, scores, drop_intermediate=False)
    precision, recall, _ = metrics.precision_recall_curve(truth, scores)
    pairs = list(zip(recall[:-1].tolist(), precision[:-1].tolist()))
    return list(zip(false.tolist(), true.tolist())), pairs[::-1]


def case(name, scores, truth, threshold):
    called = scores > threshold
    roc, precision_recall = curves(truth, scores)
    both = 0 < truth.sum() < len(truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (tn, fp), (fn, tp) = metrics.confusion_matrix(truth, called, labels=[False, True])
        return {
            "name": name,
            "scores": scores.tolist(),
            "truth": truth.tolist(),
            "threshold": threshold,
            "auc": float(metrics.roc_auc_score(truth, scores)) if both else None,
            "average_precision": float(metrics.average_precision_score(truth, scores)) if truth.any() else None,
            "precision": float(metrics.precision_score(truth, called)) if called.any() else None,
            "recall": float(metrics.recall_score(truth, called)) if truth.any() else None,
            "f1": float(metrics.f1_score(truth, called)) if called.any() or truth.any() else None,
            "accuracy": float(metrics.accuracy_score(truth, called)),
            "brier": float(metrics.brier_score_loss(truth, scores, pos_label=True)),
            "log_loss": float(metrics.log_loss(truth, scores, labels=[False, True])),
            "ece": ece(truth, scores),
            "confusion": [int(tp), int(fp), int(tn), int(fn)],
            "roc": roc,
            "precision_recall": precision_recall,
        }


def main():
    rng = np.random.default_rng(5)
    truth = rng.random(SIZE) < 0.2
    good = np.clip(rng.normal(np.where(truth, 0.75, 0.2), 0.18), 0.0, 1.0)
    coarse = np.round(good, 1)
    chance = rng.random(SIZE)
    cases = [
        case("good", good, truth, 0.5),
        case("good, high threshold", good, truth, 0.9),
        case("many ties", coarse, truth, 0.4),
        case("chance", chance, truth, 0.5),
        case("certain and wrong", (~truth).astype(float), truth, 0.5),
        case("single precision", good.astype(np.float32).astype(float), truth, 0.3),
        case("all the same", np.full(SIZE, 0.25), truth, 0.25),
        case("only successes", good, np.ones(SIZE, dtype=bool), 0.5),
        case("only failures", good, np.zeros(SIZE, dtype=bool), 0.5),
        case("two frames", np.array([0.2, 0.7]), np.array([False, True]), 0.5),
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"scikit_learn": "{sklearn.__version__}", "cases": [\n{lines}\n]}}'
    pathlib.Path(__file__).with_name("expected.json").write_text(text + "\n")


main()
