"""Batches of frames to a Ray actor and their scores back: what `link_bench` does over plaudit's links, in Ray.

    pip install ray numpy
    python ray_actors.py 5                  # seconds for each of the two measurements
"""

import sys
import time

import numpy as np
import ray

FRAMES, SHAPE = 64, (128, 128, 3)
IN_FLIGHT = 4


@ray.remote
class Reward:
    """The mean of each frame: as cheap as a model can be."""

    def score(self, frames):
        return frames.mean(axis=(1, 2, 3), dtype=np.float32)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    reward = Reward.remote()
    frames = (np.arange(FRAMES * np.prod(SHAPE)) * 31 % 251).astype(np.uint8).reshape(FRAMES, *SHAPE)
    expected = frames.mean(axis=(1, 2, 3), dtype=np.float32)
    for _ in range(5):
        assert np.array_equal(ray.get(reward.score.remote(frames)), expected)

    times, began = [], time.perf_counter()
    while time.perf_counter() - began < seconds:
        asked = time.perf_counter()
        ray.get(reward.score.remote(frames))
        times.append(1e3 * (time.perf_counter() - asked))
    p50, p99 = np.percentile(times, [50, 99])
    print(f"RESULT Ray one at a time: {len(times)} batches, p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)

    done, waiting, began = 0, [], time.perf_counter()
    while time.perf_counter() - began < seconds:
        waiting.append(reward.score.remote(frames))
        if len(waiting) == IN_FLIGHT:
            ready, waiting = ray.wait(waiting, num_returns=1)
            ray.get(ready)
            done += len(ready)
    done += len(ray.get(waiting))
    rate = done / (time.perf_counter() - began)
    print(f"RESULT Ray four at a time: {rate:.0f} batches/s, {rate * frames.nbytes / 1e9:.2f} GB/s", flush=True)


if __name__ == "__main__":
    main()
