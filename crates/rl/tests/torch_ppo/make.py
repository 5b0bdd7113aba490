"""What PPO should compute, by PyTorch: advantages, losses, gradients, and the weights after some steps of AdamW.

Run in this folder; needs torch (made with 2.x on a CPU). Writes one .pt file and one .json file per case.
Everything is float32 apart from the advantages' recursion, which is written down as the definition says.
"""

import json

import torch
from torch import nn

STATES, HIDDEN = 5, [8, 8, 8]
CAMERAS, SIDE = 2, 7  # images of 7 x 7 x 3, as rows of numbers behind the state
PIXELS = SIDE * SIDE * 3
T, B = 12, 4  # steps, environments

COMMON = dict(
    gamma=0.9, gae_lambda=0.8, always=False, normalize=True, clip_low=0.2, clip_high=0.3, clip_c=None,
    value_clip=None, huber_delta=10.0, entropy_bonus=0.0, kl_beta=0.0, chunk=1, reward_level="action",
    log_prob_level="action", entropy_level="action", lr=3e-3, value_lr=1e-3, weight_decay=0.01, clip_grad=0.5,
    epochs=3, by_state=False, choices=0, width=3, encoder=None,
)
CASES = {
    "independent": dict(clip_c=1.5, value_clip=0.05, huber_delta=0.4, entropy_bonus=0.01),
    "by_state": dict(by_state=True, always=True, normalize=False, kl_beta=0.3, entropy_bonus=0.02),
    "choice": dict(choices=3, width=1, clip_grad=100.0, entropy_bonus=0.05),
    "chunk_of_actions": dict(chunk=3, entropy_bonus=0.01),
    "chunk_of_rewards": dict(chunk=3, reward_level="chunk", log_prob_level="action", always=True),
    "chunk_as_a_whole": dict(chunk=3, reward_level="chunk", log_prob_level="chunk", entropy_level="chunk",
                             entropy_bonus=0.01, clip_c=2.0),
    "images_learned": dict(encoder="learned", entropy_bonus=0.01, value_clip=0.05),
    "images_frozen": dict(encoder="frozen", by_state=True),
}


class Learned(nn.Module):
    """Convolutions over bytes from -0.5 to 0.5."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 5, 3, 1), nn.ReLU())
        self.mlp = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh())

    def forward(self, images):
        return self.mlp(self.conv(images / 255 - 0.5).flatten(1))


class Frozen(nn.Module):
    """Spatial learned embeddings over a trunk that is an average over 2 x 2 pixels."""

    def __init__(self):
        super().__init__()
        self.pooling_layer = nn.Module()
        self.pooling_layer.kernel = nn.Parameter(torch.randn(3, 3, 3, 2))
        self.mlp = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Tanh())

    def forward(self, images):
        features = nn.functional.avg_pool2d(images / 255, 2).detach()
        return self.mlp(torch.einsum("bchw,chwf->bcf", features, self.pooling_layer.kernel).flatten(1))


class Policy(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        out = case["chunk"] * (case["choices"] or case["width"])
        values = case["chunk"] if case["reward_level"] == "action" else 1
        activation = nn.Tanh
        if case["encoder"]:
            self.encoders = nn.ModuleList((Learned if case["encoder"] == "learned" else Frozen)() for _ in range(CAMERAS))
            self.state_proj = nn.Sequential(nn.Linear(STATES, 4), nn.LayerNorm(4), nn.Tanh())
            self.mix_proj = nn.Sequential(nn.Linear(6 * CAMERAS + 4, 8), nn.LayerNorm(8), nn.Tanh(),
                                          nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh())
            inputs, activation = 8, nn.ReLU
            if case["encoder"] == "frozen":
                self.register_buffer("img_mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 1, 1, 3))
                self.register_buffer("img_std", torch.tensor([0.229, 0.224, 0.225]).view(1, 1, 1, 3))
        else:
            inputs = STATES
            self.backbone = stack(STATES)
        self.actor_mean = nn.Linear(HIDDEN[-1], out)
        if case["by_state"]:
            self.actor_logstd = nn.Linear(HIDDEN[-1], out)
        elif not case["choices"]:
            self.actor_logstd = nn.Parameter(torch.full((1, out), -0.5) + 0.2 * torch.randn(1, out))
        self.value_head = nn.Module()
        self.value_head.mlp = nn.Sequential(*stack(inputs, activation), nn.Linear(HIDDEN[-1], values, bias=False))

    def mixed(self, rows):
        """The features of actor and critic, from the state and the images behind it."""
        encoded = []
        for camera, encoder in enumerate(self.encoders):
            start = STATES + camera * PIXELS
            images = rows[:, start : start + PIXELS].view(-1, SIDE, SIDE, 3).permute(0, 3, 1, 2)
            encoded.append(encoder(images))
        return self.mix_proj(torch.cat([*encoded, self.state_proj(rows[:, :STATES])], -1))

    def value(self, row):
        row = row[None] if row.dim() == 1 else row
        values = self.value_head.mlp(self.mixed(row) if self.case["encoder"] else row)
        return values[0] if len(values) == 1 else values

    def distribution(self, states):
        """Over [n, chunk, width] (or [n, chunk] choices)."""
        n, case = len(states), self.case
        feature = self.mixed(states) if case["encoder"] else self.backbone(states)
        mean = self.actor_mean(feature)
        if case["choices"]:
            return torch.distributions.Categorical(logits=mean.view(n, case["chunk"], case["choices"]))
        log_std = self.actor_logstd(feature) if case["by_state"] else self.actor_logstd.expand_as(mean)
        shape = (n, case["chunk"], case["width"])
        return torch.distributions.Normal(mean.view(shape), log_std.view(shape).exp())


def stack(inputs, activation=nn.Tanh):
    layers = []
    for width in HIDDEN:
        layers += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*layers)


def log_prob(distribution, actions, case):
    """[n, chunk], summed over the dimensions of an action."""
    if case["choices"]:
        return distribution.log_prob(actions.squeeze(-1))
    return distribution.log_prob(actions).sum(-1)


def rollout(policy, case):
    """Random states and rewards; ends and, every `chunk` steps or after an end, decisions of an older policy."""
    states, last = torch.randn(T + 1, B, STATES), torch.randn(T, B, STATES)
    if case["encoder"]:
        images = lambda steps: torch.randint(0, 256, (steps, B, CAMERAS * PIXELS)).float()
        states, last = torch.cat([states, images(T + 1)], -1), torch.cat([last, images(T)], -1)
    rewards = torch.randn(T, B)
    end = torch.tensor([0, 0, 0, 0, 1, 2])[torch.randint(0, 6, (T, B))]  # 1 terminated, 2 truncated
    fresh = torch.zeros(T, B, dtype=torch.bool)
    fresh[:: case["chunk"]] = True
    fresh[1:] |= end[:-1] != 0
    older = Policy(case)
    older.load_state_dict({k: v + 0.15 * torch.randn_like(v) for k, v in policy.state_dict().items()})
    actions = torch.zeros(T, B, case["width"])
    old_log_prob = torch.zeros(T, B, case["width"])
    with torch.no_grad():
        for b in range(B):
            for t in range(T):
                if fresh[t, b]:
                    start, distribution = t, older.distribution(states[t, b][None])
                    sampled = distribution.sample()
                    sampled_log_prob = distribution.log_prob(sampled)
                    if case["choices"]:
                        sampled, sampled_log_prob = sampled[..., None], sampled_log_prob[..., None]
                actions[t, b], old_log_prob[t, b] = sampled[0, t - start], sampled_log_prob[0, t - start]
    return dict(states=states, last=last, rewards=rewards, end=end.float(), fresh=fresh.float(), actions=actions,
                old_log_prob=old_log_prob)


def decisions(r):
    """(t, b, length) in the order of t, then b."""
    found = []
    for t in range(T):
        for b in range(B):
            if r["fresh"][t, b]:
                stop = t + 1
                while stop < T and not r["fresh"][stop, b]:
                    stop += 1
                found.append((t, b, stop - t))
    return found


def advantages(policy, r, case):
    """By the recursion, over units of time: actions or chunks. Returns, per decision, lists of (A, R, V)."""
    value = policy.value
    chunk_level = case["reward_level"] == "chunk"
    made = {}
    with torch.no_grad():
        for b in range(B):
            units = []  # t, reward, value, value of what it led to, ended
            for t, row, length in decisions(r):
                if row != b:
                    continue
                v = value(r["states"][t, b])
                for c in range(1 if chunk_level else length):
                    stop = t + length if chunk_level else t + c + 1
                    reward = r["rewards"][t if chunk_level else t + c : stop, b].sum()
                    kind = int(r["end"][stop - 1, b])
                    if kind == 1 and not case["always"]:
                        after = torch.tensor(0.0)
                    elif kind:
                        after = value(r["last"][stop - 1, b])[0]
                    elif chunk_level or c == length - 1:
                        after = value(r["states"][stop, b])[0]
                    else:
                        after = v[c + 1]
                    units.append((t, c, reward, v[c], after, kind != 0))
            carried = 0.0
            for t, c, reward, v, after, ended in reversed(units):
                if ended:
                    carried = 0.0
                carried = (reward + case["gamma"] * after - v) + case["gamma"] * case["gae_lambda"] * carried
                made[t, b, c] = (carried, carried + v, v)
    return [[made[t, b, c] for c in range(1 if chunk_level else length)] for t, b, length in decisions(r)]


def losses(policy, r, units, advantage, case):
    """The loss of all decisions as one batch."""
    chosen = decisions(r)
    states = torch.stack([r["states"][t, b] for t, b, _ in chosen])
    distribution, values = policy.distribution(states), policy.value(states)
    policy_losses, value_losses, entropies, kls = [], [], [], []
    padded = torch.zeros(len(chosen), case["chunk"], case["width"])
    for i, (t, b, length) in enumerate(chosen):
        padded[i, :length] = r["actions"][t : t + length, b]
    new, entropy = log_prob(distribution, padded, case), distribution.entropy()
    if not case["choices"]:
        entropy = entropy.sum(-1)
    at = 0
    for i, (t, b, length) in enumerate(chosen):
        old = r["old_log_prob"][t : t + length, b].sum(-1)
        of_unit = advantage[at : at + len(units[i])]
        at += len(units[i])
        lp, h, adv = new[i, :length], entropy[i, :length], of_unit
        if case["log_prob_level"] == "chunk":
            lp, old = lp.sum()[None], old.sum()[None]
        if case["entropy_level"] == "chunk":
            h = h.sum()[None]
        ratio = (lp - old).exp()
        clipped = ratio.clamp(1 - case["clip_low"], 1 + case["clip_high"])
        loss = torch.max(-adv * ratio, -adv * clipped)
        if case["clip_c"]:
            loss = torch.min(loss, torch.sign(adv) * case["clip_c"] * adv)
        kl = ratio - 1 - (lp - old)
        kls += list(kl)
        policy_losses += list(loss + case["kl_beta"] * kl)
        entropies += list(h)
        for c, (_, target, v_old) in enumerate(units[i]):
            v = values[i, c]
            error = huber(v - target, case["huber_delta"])
            if case["value_clip"]:
                near = v_old + (v - v_old).clamp(-case["value_clip"], case["value_clip"])
                error = torch.max(error, huber(near - target, case["huber_delta"]))
            value_losses.append(error)
    mean = lambda parts: torch.stack(parts).mean()
    parts = dict(policy_loss=mean(policy_losses), value_loss=mean(value_losses), entropy_loss=mean(entropies),
                 approx_kl=mean(kls))
    parts["total_loss"] = parts["policy_loss"] + parts["value_loss"] - case["entropy_bonus"] * parts["entropy_loss"]
    return parts


def huber(error, delta):
    return torch.where(error.abs() < delta, 0.5 * error**2, delta * (error.abs() - 0.5 * delta))


def make(name, case):
    policy = Policy(case)
    r = rollout(policy, case)
    tensors = {f"before/{k}": v.clone() for k, v in policy.state_dict().items()}
    tensors |= {f"rollout/{k}": v for k, v in r.items()}
    units = advantages(policy, r, case)
    flat = [unit for decision in units for unit in decision]
    advantage = torch.stack([a for a, _, _ in flat])
    tensors["advantage"], tensors["target"] = advantage, torch.stack([t for _, t, _ in flat])
    if case["normalize"]:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
    heads = [p for n, p in policy.named_parameters() if "value_head" in n]
    rest = [p for n, p in policy.named_parameters() if "value_head" not in n]
    optimizer = torch.optim.AdamW(
        [dict(params=rest, lr=case["lr"]), dict(params=heads, lr=case["value_lr"])],
        betas=(0.9, 0.999), eps=1e-8, weight_decay=case["weight_decay"])
    metrics = {}
    for epoch in range(case["epochs"]):
        optimizer.zero_grad()
        parts = losses(policy, r, units, advantage, case)
        parts["total_loss"].backward()
        if epoch == 0:
            tensors |= {f"grad/{k}": v.grad.clone() for k, v in policy.named_parameters()}
        norm = nn.utils.clip_grad_norm_(policy.parameters(), case["clip_grad"])
        optimizer.step()
        if epoch == 0:
            tensors |= {f"after_one/{k}": v.clone() for k, v in policy.state_dict().items()}
        for key, value in (parts | dict(grad_norm=norm)).items():
            metrics.setdefault(key, []).append(value.item())
    tensors |= {f"after/{k}": v.clone() for k, v in policy.state_dict().items()}
    torch.save(tensors, f"{name}.pt")
    with open(f"{name}.json", "w") as file:
        json.dump(dict(settings=case, metrics=metrics), file, indent=1)


for seed, (name, changes) in enumerate(CASES.items()):
    torch.manual_seed(seed)
    make(name, COMMON | changes)
