"""Writes samples.csv and sklearn.csv for whitening.rs: shrinkage, covariance, and distances from the first sample. Needs scikit-learn.

Seven numbers of which some go together and one hardly changes, 30 samples; scaled by their standard deviations first, as whitening.rs does.
"""

import pathlib

import numpy
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import ledoit_wolf

here = pathlib.Path(__file__).parent
rng = numpy.random.default_rng(1)
hidden = rng.normal(size=(30, 3))
samples = hidden @ rng.normal(size=(3, 7)) + 0.2 * rng.normal(size=(30, 7))
samples[:, 6] = 2 + 1e-4 * samples[:, 6]
samples = samples.astype(numpy.float32).astype(float)
lines = lambda rows: "\n".join(",".join(repr(float(x)) for x in row) for row in rows) + "\n"
here.joinpath("samples.csv").write_text(lines(samples))
scaled = (samples - samples.mean(0)) / (samples.std(0) + 1e-3)
covariance, shrinkage = ledoit_wolf(scaled, assume_centered=True)
inverse = numpy.linalg.inv(covariance)
distances = [mahalanobis(scaled[0], other, inverse) for other in scaled[1:]]
here.joinpath("sklearn.csv").write_text(lines([[shrinkage], *covariance, distances]))
