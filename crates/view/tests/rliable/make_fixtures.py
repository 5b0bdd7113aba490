"""Has rliable aggregate scores, and writes down what it finds.

    pip install rliable==1.2.* "pandas<3"
    python make_fixtures.py            # rewrites scores.json beside this file

Scores are matrices of runs by tasks. Point estimates are exact; the ends of intervals are of a bootstrap with 20,000
resamples, and differ a little from another bootstrap's.
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

REPS = 20_000
THRESHOLDS = [round(0.1 * at, 1) for at in range(11)]


def cases(rng):
    def beta(a, b, runs, tasks):
        return rng.beta(a, b, size=(runs, tasks)).round(4)

    yield "five seeds, one task", beta(4, 2, 5, 1), beta(2, 4, 5, 1)
    yield "three seeds, one task", beta(8, 2, 3, 1), beta(6, 2, 3, 1)
    yield "ten seeds, three tasks", beta(4, 2, 10, 3), beta(3, 3, 10, 3)
    yield "six against four seeds", beta(5, 2, 6, 2), beta(5, 3, 4, 2)
    yield "success rates with ties", rng.integers(0, 5, (8, 2)) / 4, rng.integers(0, 5, (8, 2)) / 4
    yield "the same scores", np.full((4, 2), 0.5), np.full((4, 2), 0.5)
    yield "returns", rng.normal(200, 80, (7, 1)).round(2), rng.normal(120, 20, (7, 1)).round(2)


def aggregated(scores):
    return np.array([metrics.aggregate_iqm(scores), metrics.aggregate_median(scores), metrics.aggregate_mean(scores)])


def main():
    rng = np.random.default_rng(7)
    found = []
    for name, one, other in cases(rng):
        points, ends = library.get_interval_estimates(
            {"one": one, "other": other}, aggregated, reps=REPS, random_state=np.random.RandomState(1)
        )
        improvement, improvement_ends = library.get_interval_estimates(
            {"pair": (one, other)}, metrics.probability_of_improvement, reps=REPS, random_state=np.random.RandomState(2)
        )
        thresholds = THRESHOLDS if one.max() <= 1 else [50.0 * at for at in range(9)]
        profiles, bands = library.create_performance_profile(
            {"one": one, "other": other}, np.array(thresholds), reps=2000
        )
        found.append({
            "name": name,
            "scores": {"one": one.T.tolist(), "other": other.T.tolist()},  # by task
            "aggregates": {key: value.tolist() for key, value in points.items()},  # IQM, median, mean
            "ends": {key: value.T.tolist() for key, value in ends.items()},
            "improvement": float(np.atleast_1d(improvement["pair"])[0]),
            "improvement_ends": np.ravel(improvement_ends["pair"]).tolist(),
            "thresholds": thresholds,
            "profiles": {key: value.tolist() for key, value in profiles.items()},
            "bands": {key: value.T.tolist() for key, value in bands.items()},
        })
    path = Path(__file__).with_name("scores.json")
    path.write_text("[\n" + ",\n".join(json.dumps(one) for one in found) + "\n]\n")
    print(f"{len(found)} cases, {path.stat().st_size} bytes")


main()
