"""Soft actor-critic in plain PyTorch, to check ours against: losses, gradients, optimisers, targets.

    python make_fixtures.py            # needs torch and numpy; writes cases.pkl and images.pkl beside this file

Each case holds the settings, the initial weights, the batch, the noise and what is logged of every step, and all weights
and moments after the last. Everything is small, and in 64 bits until it is written.
"""

import math
import pickle
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)

STATES, ROWS, HIDDEN = 5, 7, [8, 6]
SIDE = 7  # images of 7 x 7 x 3, as numbers behind the state
LOW, HIGH = torch.tensor([-1.0, -3.0]), torch.tensor([1.0, 1.0])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 5, 3, 1), nn.ReLU())
        self.mlp = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh())


class VisionEncoder(nn.Module):
    """The encoder of policy and critics: images and state, each through layers of its own."""

    def __init__(self):
        super().__init__()
        self.encoders = nn.ModuleList([Encoder()])
        self.state_proj = nn.Sequential(nn.Linear(STATES, 4), nn.LayerNorm(4), nn.Tanh())

    def forward(self, rows):
        images = rows[:, STATES:].view(-1, SIDE, SIDE, 3).permute(0, 3, 1, 2)
        encoder = self.encoders[0]
        encoded = encoder.mlp(encoder.conv(images / 255 - 0.5).flatten(1))
        return torch.cat([encoded, self.state_proj(rows[:, :STATES])], -1)


class Policy(nn.Module):
    def __init__(self, chunk, spread, images=False):
        super().__init__()
        widths = [10 if images else STATES, *HIDDEN]
        layers = []
        for inputs, outputs in zip(widths, widths[1:]):
            layers += [nn.Linear(inputs, outputs), *([nn.LayerNorm(outputs)] if images else []), nn.Tanh()]
        self.hidden = "mix_proj" if images else "backbone"
        setattr(self, self.hidden, nn.Sequential(*layers))
        self.actor_mean = nn.Linear(HIDDEN[-1], chunk * len(LOW))
        self.actor_logstd = nn.Linear(HIDDEN[-1], chunk * len(LOW))
        self.register_buffer("action_scale", ((HIGH - LOW) / 2).repeat(chunk))
        self.register_buffer("action_bias", ((HIGH + LOW) / 2).repeat(chunk))
        self.spread = spread

    def forward(self, state, noise):
        hidden = getattr(self, self.hidden)(state)
        return self.sample(self.actor_mean(hidden), self.actor_logstd(hidden), noise)

    def sample(self, mean, x, noise):
        if self.spread == "soft":
            std = (-5 + 3.5 * (torch.tanh(x) + 1)).exp()
        else:
            std = x.exp().clamp(1e-5, 5)
        sampled = mean + std * noise
        squashed = torch.tanh(sampled)
        log_prob = torch.distributions.Normal(mean, std).log_prob(sampled)
        log_prob = log_prob - torch.log(self.action_scale * (1 - squashed**2) + 1e-6)
        return squashed * self.action_scale + self.action_bias, log_prob.sum(-1)


class BatchRenorm(nn.Module):
    """Ioffe, 2017: normalised by the batch, corrected towards the running statistics."""

    def __init__(self, width, eps=1e-3, momentum=1e-3, r_max=3.0, d_max=5.0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))
        self.eps, self.momentum, self.r_max, self.d_max = eps, momentum, r_max, d_max
        self.batch_statistics = None

    def forward(self, x):
        running_std = (self.running_var + self.eps).sqrt()
        if not self.training:
            return (x - self.running_mean) / running_std * self.weight + self.bias
        mean, var = x.mean(0), x.var(0, unbiased=False)
        std = (var + self.eps).sqrt()
        r = (std / running_std).clamp(1 / self.r_max, self.r_max).detach()
        d = ((mean - self.running_mean) / running_std).clamp(-self.d_max, self.d_max).detach()
        self.batch_statistics = mean.detach(), var.detach()
        return ((x - mean) / std * r + d) * self.weight + self.bias

    def update_statistics(self):
        mean, var = self.batch_statistics
        self.running_mean += self.momentum * (mean - self.running_mean)
        self.running_var += self.momentum * (var - self.running_var)


class Critics(nn.Module):
    def __init__(self, chunk, heads, kind, images=False):
        super().__init__()
        widths = [(10 if images else STATES) + chunk * len(LOW), *HIDDEN]

        def net():
            layers = []
            for inputs, outputs in zip(widths, widths[1:]):
                if kind == "crossq":
                    layers += [BatchRenorm(inputs), nn.Linear(inputs, outputs), nn.Tanh()]
                else:
                    norm = [nn.LayerNorm(outputs)] if kind == "layer_norm" else []
                    layers += [nn.Linear(inputs, outputs), *norm, nn.Tanh()]
            if kind == "crossq":
                layers += [BatchRenorm(widths[-1])]
            return nn.Sequential(*layers, nn.Linear(widths[-1], 1))

        self.qs = nn.ModuleList()
        for _ in range(heads):
            head = nn.Module()
            head.net = net()
            self.qs.append(head)

    def forward(self, state, action):
        joined = torch.cat([state, action], -1)
        return torch.cat([head.net(joined) for head in self.qs], -1)


def aggregate(values, how):
    return values.min(-1).values if how == "min" else values.mean(-1)


class Sac:
    def __init__(self, case):
        self.case = case
        images = case.get("images", False)
        self.policy = Policy(case["chunk"], "cut" if images else "soft", images)
        self.critics = Critics(case["chunk"], case["heads"], case["kind"], images)
        self.encoder, self.target_encoder = (VisionEncoder(), VisionEncoder()) if images else (nn.Identity(), nn.Identity())
        with torch.no_grad():  # unlike what a fresh network begins with, every number matters here
            for parameter in [*self.policy.parameters(), *self.critics.parameters(), *self.encoder.parameters()]:
                parameter += 0.3 * torch.randn_like(parameter)
                parameter.copy_(parameter.float())
        self.target = None
        if case["kind"] != "crossq":
            self.target = Critics(case["chunk"], case["heads"], case["kind"], images)
            self.target.load_state_dict(self.critics.state_dict())
            self.target_encoder.load_state_dict(self.encoder.state_dict())
        start = case["initial_alpha"]
        start = {"softplus": math.log(math.expm1(start)), "exp": math.log(start), "fixed": start}[case["alpha"]]
        self.x = nn.Parameter(torch.tensor(start))
        self.policy_adam = torch.optim.Adam(self.policy.parameters(), lr=case["lr"], eps=case["eps"])
        self.critic_parameters = [*self.encoder.parameters(), *self.critics.parameters()]  # only the critics' loss trains the encoder
        self.critic_adam = torch.optim.Adam(self.critic_parameters, lr=case["critic_lr"], eps=case["eps"])
        self.alpha_adam = torch.optim.Adam([self.x], lr=case["alpha_lr"])
        self.updates = 0

    def alpha(self):
        return {"softplus": F.softplus, "exp": torch.exp, "fixed": lambda x: x}[self.case["alpha"]](self.x)

    def update(self, batch):
        case, logged = self.case, {}
        alpha = self.alpha().detach()
        with torch.no_grad():
            next_action, next_log_prob = self.policy(self.encoder(batch["next_state"]), batch["next_noise"])
        if self.target is None:
            self.critics.train()
            both = self.critics(
                torch.cat([batch["state"], batch["next_state"]]), torch.cat([batch["action"], next_action])
            )
            q, next_q = both[:ROWS], both[ROWS:].detach()
        else:
            with torch.no_grad():
                next_q = self.target(self.target_encoder(batch["next_state"]), next_action)
            q = self.critics(self.encoder(batch["state"]), batch["action"])
        next_q = aggregate(next_q[:, batch["heads"]], case["agg_q"])
        if case["backup_entropy"]:
            next_q = next_q - alpha * next_log_prob
        goes_on = torch.ones(ROWS) if case["bootstrap"] == "always" else 1.0 - (batch["end"] == 1).double()
        y = batch["reward"] + case["gamma"] * goes_on * next_q
        loss = F.mse_loss(q, y[:, None].expand_as(q))
        self.critic_adam.zero_grad()
        loss.backward()
        if self.target is None:
            for module in self.critics.modules():
                if isinstance(module, BatchRenorm):
                    module.update_statistics()
        logged["train/critic/grad_norm"] = nn.utils.clip_grad_norm_(self.critic_parameters, case["clip_grad"])
        self.critic_adam.step()
        logged["train/sac/critic_loss"], logged["train/critic/q_data"] = loss, q.mean()

        if self.updates % case["critic_actor_ratio"] == 0:
            self.critics.eval()
            encoded = self.encoder(batch["state"]).detach()
            action, log_prob = self.policy(encoded, batch["noise"])
            q_pi = aggregate(self.critics(encoded, action), case["actor_agg_q"])
            loss = (alpha * log_prob - q_pi).mean()
            self.policy_adam.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.policy.parameters(), case["clip_grad"])
            self.policy_adam.step()
            logged |= {"train/sac/actor_loss": loss, "train/actor/grad_norm": norm, "train/actor/q_pi": q_pi.mean()}
            logged["train/actor/entropy"] = -log_prob.mean()
            if case["alpha"] != "fixed":
                loss = -self.alpha() * (log_prob.mean().detach() + case["target_entropy"])
                self.alpha_adam.zero_grad()
                loss.backward()
                logged["train/alpha/grad_norm"] = nn.utils.clip_grad_norm_([self.x], case["clip_grad"])
                self.alpha_adam.step()
                logged["train/sac/alpha_loss"] = loss
        logged["train/sac/alpha"] = self.alpha()
        self.updates += 1
        if self.target is not None and self.updates % case["target_update_freq"] == 0:
            with torch.no_grad():
                slow_ones = [*self.target_encoder.parameters(), *self.target.parameters()]
                for slow, fast in zip(slow_ones, self.critic_parameters):
                    slow += case["tau"] * (fast - slow)
        return {name: float(torch.as_tensor(value).detach()) for name, value in logged.items()}

    def networks(self):
        named = dict(self.policy.state_dict()) | self.encoder.state_dict()
        return named | {f"q_head.{name}": tensor for name, tensor in self.critics.state_dict().items()}

    def moments(self, which):
        found = {}
        for prefix, module, adam in [
            ("", self.policy, self.policy_adam),
            ("", self.encoder, self.critic_adam),
            ("q_head.", self.critics, self.critic_adam),
        ]:
            for name, parameter in module.named_parameters():
                state = adam.state.get(parameter, {})
                found[prefix + name] = state.get(which, torch.zeros_like(parameter))
        return found

    def everything(self):
        found = {"networks": self.networks(), "adam_m": self.moments("exp_avg"), "adam_v": self.moments("exp_avg_sq")}
        if self.target is not None:
            found["target"] = {f"q_head.{name}": tensor for name, tensor in self.target.state_dict().items()}
            found["target"] |= self.target_encoder.state_dict()
        return {f"{part}/{name}": f32(tensor) for part, tensors in found.items() for name, tensor in tensors.items()}


def f32(tensor):
    return tensor.detach().float().numpy()


def rounded(tensor):
    """To what the file will hold, so that both sides begin with the same numbers."""
    return tensor.float().double()


def batch_of(case):
    action_width = case["chunk"] * len(LOW)
    scale, bias = ((HIGH - LOW) / 2).repeat(case["chunk"]), ((HIGH + LOW) / 2).repeat(case["chunk"])

    def observed():
        states = torch.randn(ROWS, STATES)
        if not case.get("images"):
            return states
        return torch.cat([states, torch.randint(0, 256, (ROWS, SIDE * SIDE * 3)).double()], -1)

    sampled = {
        "state": observed(),
        "next_state": observed(),
        "action": torch.tanh(torch.randn(ROWS, action_width)) * scale + bias,
        "reward": torch.randn(ROWS),
        "end": torch.arange(ROWS) % 3,  # goes on, terminated, truncated
        "next_noise": torch.randn(ROWS, action_width),
        "noise": torch.randn(ROWS, action_width),
        "heads": torch.arange(case["heads"])
        if case["subsample"] is None
        else torch.randint(case["heads"], (case["subsample"],)),
    }
    return {name: rounded(t) if t.is_floating_point() else t for name, t in sampled.items()}


COMMON = {
    "chunk": 1, "heads": 2, "kind": "layer_norm", "agg_q": "min", "actor_agg_q": "min", "subsample": None,
    "backup_entropy": True, "bootstrap": "standard", "gamma": 0.9, "tau": 0.1, "target_update_freq": 1,
    "critic_actor_ratio": 1, "alpha": "softplus", "initial_alpha": 0.5, "target_entropy": -2.0, "lr": 1e-2,
    "critic_lr": 2e-2, "alpha_lr": 3e-2, "clip_grad": 1e6, "eps": 1e-8,
}  # fmt: skip
CASES = {
    "sac": {},
    "redq": {
        "heads": 5, "subsample": 2, "actor_agg_q": "mean", "backup_entropy": False, "bootstrap": "always",
        "critic_actor_ratio": 2, "target_update_freq": 2, "alpha": "exp", "chunk": 2, "clip_grad": 0.05,
    },
    # A bias before a batch norm has no gradient but rounding, which a small eps would blow up.
    "crossq": {"kind": "crossq", "alpha": "fixed", "heads": 3, "agg_q": "mean", "eps": 1e-3},
    "plain": {"kind": "plain", "alpha": "exp"},
}  # fmt: skip


def tanh_gaussian():
    """Samples and gradients of both bounds of σ, far into the flat parts of tanh."""
    found = {}
    for spread in ["soft", "cut"]:
        policy = Policy(1, spread)
        mean = torch.tensor([[0.1, -0.4], [2.0, -3.0], [-4.0, 4.5], [0.0, 0.0]], requires_grad=True)
        x = torch.tensor([[0.0, 1.0], [-2.0, 2.0], [0.5, -20.0], [3.0, -0.3]], requires_grad=True)
        noise, by_action = rounded(torch.randn(4, 2)), rounded(torch.randn(4, 2))
        action, log_prob = policy.sample(mean, x, noise)
        ((by_action * action).sum() + 0.7 * log_prob.sum()).backward()
        found[spread] = {
            "outputs": f32(torch.cat([mean, x], -1)), "noise": f32(noise), "by_action": f32(by_action),
            "action": f32(action), "log_prob": f32(log_prob), "mode": f32(torch.tanh(mean) * policy.action_scale + policy.action_bias),
            "by_output": f32(torch.cat([mean.grad, x.grad], -1)),
        }  # fmt: skip
    return found


# Of two or more critics, and with the clip over the encoder too.
IMAGES = {"images": {"images": True, "heads": 3, "actor_agg_q": "mean", "critic_actor_ratio": 2, "clip_grad": 0.5}}


def learned(cases):
    made = {}
    for name, changes in cases.items():
        case = COMMON | changes
        sac = Sac(case)
        initial, steps = {name: f32(tensor) for name, tensor in sac.networks().items()}, []
        for _ in range(3):
            batch = batch_of(case)
            logged = sac.update(batch)
            steps.append({"batch": {name: f32(t) for name, t in batch.items()}, "logged": logged})
        made[name] = {"settings": case, "initial": initial, "steps": steps, "after": sac.everything()}
    return made


def main():
    cases = {"cases": learned(CASES), "tanh_gaussian": tanh_gaussian()}
    for name, found in [("cases", cases), ("images", {"cases": learned(IMAGES)})]:
        with Path(__file__).with_name(f"{name}.pkl").open("wb") as file:
            pickle.dump(found, file, protocol=4)


if __name__ == "__main__":
    main()
