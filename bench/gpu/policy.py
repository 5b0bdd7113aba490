"""An update of RLPD on images in PyTorch, as `crates/rl/examples/policy_gpu.rs` times it: two cameras of 64 x 64, four convolutions of
32 channels, keypoints, five critics of 256 x 2 with layer norms, behaviour cloning in every update, DrQ shifts, the policy at every
second update. Eager, and as CUDA graphs (batch already on the GPU, so that copies of images are not in its time).

    python3 bench/gpu/policy.py

Needs PyTorch 2 with CUDA. Prints milliseconds of an update: the median of five runs of 200.
"""

import time

import torch
from torch import nn
from torch.nn import functional as F

CAMERAS, STATES, ACTIONS, HEADS = 2, 29, 4, 5
DEVICE = "cuda"


def squashed(inputs, width):
    return nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width), nn.Tanh())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        strides, layers, channels = [2, 2, 1, 1], [], 3
        for at, stride in enumerate(strides):
            layers.append(nn.Conv2d(channels, 32, 3, stride, bias=at < 3))
            if at < 3:
                layers.append(nn.ReLU())
            channels = 32
        self.convolutions = nn.Sequential(*layers)
        self.head = squashed(64, 256)
        line = torch.linspace(-1, 1, 11)
        self.register_buffer("x", line.repeat(11), persistent=False)
        self.register_buffer("y", line.repeat_interleave(11), persistent=False)

    def forward(self, images):
        p = self.convolutions(images.float() / 255.0 - 0.5).flatten(2).softmax(-1)
        return self.head(torch.cat([p @ self.x, p @ self.y], -1))


class Critics(nn.Module):
    """Five networks of one shape as batched products."""

    def __init__(self, inputs):
        super().__init__()
        sizes = [inputs, 256, 256, 1]
        self.weights = nn.ParameterList(nn.Parameter(0.05 * torch.randn(HEADS, a, b)) for a, b in zip(sizes, sizes[1:]))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(HEADS, 1, b)) for b in sizes[1:])
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(HEADS, 1, 256)) for _ in range(2))
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(HEADS, 1, 256)) for _ in range(2))

    def forward(self, x):
        x = x.expand(HEADS, *x.shape)
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = torch.baddbmm(bias, x, weight)
            if at < 2:
                x = torch.tanh(F.layer_norm(x, (256,)) * self.scales[at] + self.shifts[at])
        return x.squeeze(-1)


class Sight(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoders = nn.ModuleList(Encoder() for _ in range(CAMERAS))
        self.state = squashed(STATES, 64)

    def forward(self, images, states):
        return torch.cat([encoder(images[at]) for at, encoder in enumerate(self.encoders)] + [self.state(states)], -1)


class Learner:
    def __init__(self, n):
        torch.manual_seed(0)
        encoded = CAMERAS * 256 + 64
        self.n = n
        self.sight, self.critics = Sight().to(DEVICE), Critics(encoded + ACTIONS).to(DEVICE)
        self.target_sight, self.target_critics = Sight().to(DEVICE), Critics(encoded + ACTIONS).to(DEVICE)
        self.policy = nn.Sequential(squashed(encoded, 256), squashed(256, 256), nn.Linear(256, 2 * ACTIONS)).to(DEVICE)
        self.online = [*self.sight.parameters(), *self.critics.parameters()]
        self.followers = [*self.target_sight.parameters(), *self.target_critics.parameters()]
        adam = {"lr": 3e-5, "capturable": True, "fused": True}
        self.critic_adam, self.policy_adam = torch.optim.Adam(self.online, **adam), torch.optim.Adam(self.policy.parameters(), **adam)
        images = lambda: torch.randint(0, 256, (CAMERAS, n, 3, 64, 64), dtype=torch.uint8, device=DEVICE)
        self.images, self.next_images = images(), images()
        self.states, self.next_states = torch.randn(n, STATES, device=DEVICE), torch.randn(n, STATES, device=DEVICE)
        self.actions, self.rewards = torch.rand(n, ACTIONS, device=DEVICE), torch.rand(n, device=DEVICE)
        self.goes_on = torch.ones(n, device=DEVICE)

    def shift(self, images):
        """Every image by up to four pixels; edges repeat."""
        by = torch.randint(-4, 5, (2, CAMERAS * self.n, 1), device=DEVICE)
        line = torch.arange(64, device=DEVICE)
        rows, columns = (line + by[0]).clamp(0, 63), (line + by[1]).clamp(0, 63)
        flat = images.flatten(0, 1)
        at = torch.arange(len(flat), device=DEVICE)[:, None, None]
        return flat.permute(0, 2, 3, 1)[at, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).view_as(images)

    def sample(self, encoded):
        mean, std = self.policy(encoded).chunk(2, -1)
        std = F.softplus(std) + 1e-4
        noise = torch.randn_like(mean)
        action = torch.tanh(mean + std * noise)
        log_prob = (-0.5 * noise**2 - std.log() - 0.919 - torch.log(1 - action**2 + 1e-6)).sum(-1)
        return torch.tanh(mean), action, log_prob

    def critic_step(self):
        self.now, after = self.shift(self.images), self.shift(self.next_images)
        with torch.no_grad():
            _, action, _ = self.sample(self.sight(after, self.next_states))
            next_values = self.target_critics(torch.cat([self.target_sight(after, self.next_states), action], -1))
            y = (self.rewards + 0.97 * self.goes_on * next_values.amin(0)).clamp(0, 1)
        encoded = self.sight(self.now, self.states)
        values = self.critics(torch.cat([encoded, self.actions], -1))
        demos = self.n // 2
        mode, _, _ = self.sample(encoded[demos:])
        loss = F.mse_loss(values, y.expand_as(values)) + 20 * 0.5 * F.mse_loss(mode, self.actions[demos:])
        self.critic_adam.zero_grad(set_to_none=True)
        loss.backward(inputs=self.online)
        torch.nn.utils.clip_grad_norm_(self.online, 1000.0)
        self.critic_adam.step()

    def policy_step(self):
        with torch.no_grad():
            encoded = self.sight(self.now, self.states)
        mode, action, log_prob = self.sample(encoded)
        values = self.critics(torch.cat([encoded, action], -1)).amin(0)
        demos = self.n // 2
        loss = (0.001 * log_prob - values).mean() + 20 * values.detach().abs().mean() * F.mse_loss(mode[demos:], self.actions[demos:])
        self.policy_adam.zero_grad(set_to_none=True)
        loss.backward(inputs=list(self.policy.parameters()))
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1000.0)
        self.policy_adam.step()

    def follow(self):
        with torch.no_grad():
            torch._foreach_lerp_(self.followers, self.online, 0.01)


def graph(work):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        work()
    return recorded.replay


def timed(critics, policy):
    def run(updates):
        for update in range(updates):
            critics()
            if update % 2 == 0:
                policy()
        torch.cuda.synchronize()

    run(20)
    took = []
    for _ in range(5):
        start = time.perf_counter()
        run(200)
        took.append((time.perf_counter() - start) / 200 * 1e3)
    return sorted(took)[2]


for tf32 in [False, True]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    for n in [64, 256]:
        learner = Learner(n)
        both = lambda: (learner.critic_step(), learner.follow())
        numbers = "tf32" if tf32 else "f32"
        print(f"PyTorch, {numbers}, batch {n}, eager: {timed(both, learner.policy_step):.3f} ms an update", flush=True)
        replay_critics, replay_policy = graph(both), graph(learner.policy_step)
        print(f"PyTorch, {numbers}, batch {n}, CUDA graphs: {timed(replay_critics, replay_policy):.3f} ms an update", flush=True)
