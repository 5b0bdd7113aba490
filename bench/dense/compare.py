"""Times plaudit's policies and critics and PyTorch's in turns on two threads, and prints the ratios.

Needs torch and stable-baselines3. Usage, from the repository:

    cargo bench -p plaudit-nn --bench dense --no-run     # prints the path of the program
    python bench/dense/compare.py PATH_OF_THE_PROGRAM [rounds]
"""

import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")

import torch
from torch import nn

torch.set_num_threads(2)
torch.manual_seed(0)


def mlp(inputs, hidden, activation, outputs):
    layers = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def ppo_update(autocast=False):
    batch = 4096
    actor, critic = mlp(42, [256] * 3, nn.Tanh, 8), mlp(42, [256] * 3, nn.Tanh, 1)
    log_std = nn.Parameter(torch.full((1, 8), -0.5))
    params = [*actor.parameters(), *critic.parameters(), log_std]
    adam = torch.optim.AdamW(params, lr=3e-4, weight_decay=0.01)
    states, actions = torch.randn(batch, 42), torch.randn(batch, 8)
    old_log_probs, advantages, returns, old_values = torch.randn(4, batch)

    def huber(e):
        return torch.where(e.abs() < 10, 0.5 * e * e, 10 * (e.abs() - 5))

    def update():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            means, values = actor(states).float(), critic(states).squeeze(-1).float()
        normal = torch.distributions.Normal(means, log_std.exp().expand_as(means))
        ratio = (normal.log_prob(actions).sum(-1) - old_log_probs).exp()
        policy_loss = torch.max(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2)).mean()
        clipped = old_values + (values - old_values).clamp(-1, 1)
        value_loss = torch.max(huber(values - returns), huber(clipped - returns)).mean()
        adam.zero_grad()
        (policy_loss + value_loss).backward()
        nn.utils.clip_grad_norm_(params, 0.5)
        adam.step()

    return update


def policy(batch):
    net, states = mlp(42, [256] * 3, nn.Tanh, 8), torch.randn(batch, 42)

    @torch.no_grad()
    def act():
        net(states)

    return act


def sac_update():
    """Stable-Baselines3's own update, on Pendulum."""
    from stable_baselines3 import SAC

    model = SAC("MlpPolicy", "Pendulum-v1", buffer_size=10_000, learning_starts=2_000, batch_size=256, seed=1)
    model.learn(1_500)
    return lambda: model.train(gradient_steps=1, batch_size=256)


def conv_encoder():
    layers, channels = [], 3
    for stride in (2, 2, 1, 1):
        layers += [nn.Conv2d(channels, 32, 3, stride), nn.ReLU()]
        channels = 32
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 11 * 11, 50), nn.LayerNorm(50), nn.Tanh())
    net = net.to(memory_format=torch.channels_last)
    images, grad = torch.randint(0, 256, (256, 64, 64, 3), dtype=torch.uint8), torch.randn(256, 50)

    def update():
        net.zero_grad()
        net(images.permute(0, 3, 1, 2).float() / 255 - 0.5).backward(grad)

    return update


def repeat(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main():
    ours = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    # Name of ours, of theirs, the work, repetitions in a round.
    works = [
        ("ppo_update", "PyTorch eager", ppo_update(), 10),
        ("ppo_update_bf16", "PyTorch eager", ppo_update(), 10),
        ("ppo_update_bf16", "PyTorch bf16 autocast", ppo_update(autocast=True), 10),
        ("policy_256", "PyTorch eager", policy(256), 200),
        ("policy_256_bf16", "PyTorch eager", policy(256), 200),
        ("policy_1", "PyTorch eager", policy(1), 500),
        ("sac_update", "Stable-Baselines3", sac_update(), 40),
        ("sac_update_bf16", "Stable-Baselines3", sac_update(), 40),
        ("conv_encoder", "PyTorch channels-last", conv_encoder(), 3),
        ("conv_encoder_bf16", "PyTorch channels-last", conv_encoder(), 3),
    ]
    for name, peer, work, repeats in works:
        repeat(work, 3)
        ratios, mine, theirs = [], [], []
        for _ in range(rounds):
            ours.stdin.write(f"{name} {repeats}\n")
            ours.stdin.flush()
            mine.append(statistics.median(map(float, ours.stdout.readline().split())))
            theirs.append(statistics.median(repeat(work, repeats)))
            ratios.append(theirs[-1] / mine[-1])
        print(
            f"{name:18} {statistics.median(mine):8.3f} ms   {peer:22} {statistics.median(theirs):8.3f} ms   "
            f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


main()
