"""Shares of successes by best bin estimation (Garg et al., 2021), from its definition: writes shares.csv. Needs numpy.

    python3 make_shares.py
"""

import numpy as np

DELTA, GAMMA = 0.1, 0.01


def share(successes, unlabelled):
    width = lambda scores: np.sqrt(np.log(4 / DELTA) / (2 * len(scores)))
    best = (np.inf, 1.0)
    for c in np.unique(successes)[::-1]:
        q_p, q_u = np.mean(successes >= c), np.mean(unlabelled >= c)
        bound = q_u / q_p + (1 + GAMMA) / q_p * (width(successes) + width(unlabelled))
        if bound < best[0]:
            best = (bound, q_u / q_p)
    return min(best[1], 1.0)


def scores(count, step, of, every):
    """Every so many of them high, the others low."""
    x = np.array([at * step % of / of for at in range(count)])
    return np.where(np.arange(count) % every == 0, 0.4 + 0.6 * x, 0.5 * x)


with open("shares.csv", "w") as file:
    print("successes,unlabelled,of,every,share", file=file)
    for count, others, of, every in [(100, 300, 101, 3), (600, 1000, 997, 2), (60, 500, 997, 5), (400, 900, 1009, 4), (50, 40, 11, 3),
                                     (300, 1000, 701, 1), (1, 1, 7, 1), (800, 1000, 13, 10)]:
        found = share(scores(count, 7, of, 1), scores(others, 3, of, every))
        print(f"{count},{others},{of},{every},{float(found)!r}", file=file)
