"""Milliseconds per update of soft actor-critic: plaudit compared with Stable-Baselines3.

    python bench/sac/bench.py PLAUDIT [rounds]

PLAUDIT is the binary. Needs stable-baselines3 and gymnasium. Both learn Pendulum with two critics, hidden layers 256 and
256 (ReLU), batches of 256, a tuned temperature and a target that follows at every update; an update is one step of the
critics, of the policy and of the temperature, sampling the batch included. Each runs in a process of its own, in turns;
what is timed is updates alone, after the first hundred.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 20  # training steps, of 50 updates each; the first two are not counted


def plaudit(binary, head):
    with tempfile.TemporaryDirectory() as folder:
        words = [
            binary, "-q", "train", "pendulum_sac", f"runner.logger.log_path={folder}/run", "runner.val_check_interval=-1",
            f"runner.max_epochs={STEPS}", "env.train.max_steps_per_rollout_epoch=512", "algorithm.update_epoch=50",
            "algorithm.replay_buffer.min_buffer_size=0", "actor.model.hidden_sizes=[256,256]",
            f"algorithm.q_head_type={head}",
        ]
        subprocess.run(words, check=True)
        times = []
        for line in open(f"{folder}/run/events.jsonl"):
            event = json.loads(line)
            if event["event"] == "metrics" and event["step"] > 2:
                times.append(dict(event["values"])["time/actor_training"] / 50 * 1000)
        return statistics.mean(times)


def stable_baselines():
    import gymnasium
    import torch
    from stable_baselines3 import SAC

    learner = SAC("MlpPolicy", gymnasium.make("Pendulum-v1"), batch_size=256, device="cpu", seed=1,
                  learning_starts=1000, policy_kwargs=dict(net_arch=[256, 256]))
    learner.learn(1001)  # fills the replay buffer at random
    learner.train(gradient_steps=100, batch_size=256)
    updates = 50 * (STEPS - 2)
    began = time.perf_counter()
    learner.train(gradient_steps=updates, batch_size=256)
    return (time.perf_counter() - began) / updates * 1000, torch.get_num_threads()


def main():
    if sys.argv[1] == "--one":
        print(json.dumps(stable_baselines()))
        return
    binary = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    # Critics without norms are what Stable-Baselines3 has; with layer norms, what plaudit has by default.
    ours, theirs = {"plain": [], "default": []}, []
    for _ in range(rounds):
        for head, times in ours.items():
            times.append(plaudit(binary, head))
        words = [sys.executable, __file__, "--one"]
        output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        milliseconds, threads = json.loads(output.splitlines()[-1])
        theirs.append(milliseconds)
    print(f"{threads} threads each; the median of {rounds} rounds, and their range")
    print(f"sb3       {spread(theirs)} ms/update")
    for head, times in ours.items():
        ratios = [slow / fast for fast, slow in zip(times, theirs)]
        print(f"{head:9} {spread(times)} ms/update: {spread(ratios)} times as fast")


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


main()
