"""Writes scipy.csv: chances of a rise between two shares, for rate_test.rs. Needs scipy.

Without tolerance by scipy.stats.fisher_exact, with it by scipy.integrate.quad over the beta distribution of the rate before.
"""

import pathlib

from scipy import integrate, stats

CASES = [(0, 256, 6, 256), (4, 256, 12, 96), (18, 1260, 23, 464), (143, 1000, 60, 256), (2, 128, 3, 64), (60, 128, 50, 64), (1, 130, 12, 64),
         (38, 192, 46, 48), (20, 1280, 38, 256), (300, 2048, 210, 1024)]


def chance(seen_before, before, seen_after, after, tolerated):
    if tolerated == 0:
        table = [[seen_after, after - seen_after], [seen_before, before - seen_before]]
        return stats.fisher_exact(table, alternative="greater")[1]
    rate = stats.beta(seen_before + 1, before - seen_before)
    above = lambda p: rate.pdf(p) * stats.binom.sf(seen_after - 1, after, min(p + tolerated, 1))
    low, high = max(rate.mean() - 14 * rate.std(), 0), min(rate.mean() + 14 * rate.std(), 1)
    return integrate.quad(above, low, high, limit=500, epsabs=0, epsrel=1e-10)[0]


lines = ["seen_before,before,seen_after,after,tolerated,chance"]
for case in CASES:
    for tolerated in [0, 0.01, 0.05]:
        lines.append(",".join(map(str, [*case, tolerated, repr(float(chance(*case, tolerated)))])))
pathlib.Path(__file__).with_name("scipy.csv").write_text("\n".join(lines) + "\n")
