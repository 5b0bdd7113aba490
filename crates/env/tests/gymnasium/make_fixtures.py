"""Writes fixtures.json: what Gymnasium's classic control does from given states under given actions.

    python make_fixtures.py            # needs gymnasium 1.x and numpy

Every episode starts from a state set by hand, so no random generator has to be reproduced. Numbers are
written so that they come back exactly: float64 by repr, float32 by the shortest decimal that names it.
"""

import json
import pathlib

import gymnasium
import numpy as np

RNG = np.random.default_rng(20)


def f32(value):
    return float(str(np.float32(value)))


def episode(name, state, policy, steps):
    env = gymnasium.make(name)
    env.reset(seed=0)
    env.unwrapped.state = state
    out = {"id": name, "start": [float(x) for x in state], "single": state.dtype == np.float32}
    out |= {"actions": [], "obs": [], "reward": []}
    terminated = truncated = False
    for t in range(steps):
        action = policy(t, np.array(env.unwrapped.state, dtype=np.float64))
        written = np.float32(action) if isinstance(env.action_space, gymnasium.spaces.Box) else int(action)
        given = np.array([written], dtype=np.float32) if isinstance(written, np.float32) else written
        obs, reward, terminated, truncated, _ = env.step(given)
        assert obs.dtype == np.float32
        out["actions"].append(f32(written))
        out["obs"].append([f32(x) for x in obs])
        out["reward"].append(float(reward))
        if terminated or truncated:
            break
    out["final"] = [float(x) for x in env.unwrapped.state]
    out |= {"terminated": bool(terminated), "truncated": bool(truncated)}
    return out


def cart_pole(name):
    balance = lambda t, s: int(s[0] * 0.3 + s[1] * 0.5 + s[2] * 8 + s[3] * 2 > 0)
    uniform = lambda t, s: int(RNG.integers(2))
    right = lambda t, s: 1
    for policy in (balance, right, uniform):
        yield episode(name, RNG.uniform(-0.05, 0.05, 4), policy, 600)
    # Leaves the track sideways with the pole still up.
    yield episode(name, np.array([2.3, 1.0, 0.0, 0.5]), balance, 600)


def pendulum():
    swing = lambda t, s: 2.0 * np.sign(s[1]) if s[1] != 0 else 2.0
    uniform = lambda t, s: RNG.uniform(-3.0, 3.0)  # beyond the limits: Gymnasium clips
    for policy in (swing, uniform):
        yield episode("Pendulum-v1", RNG.uniform([-np.pi, -1.0], [np.pi, 1.0]), policy, 300)
    # Many turns away from zero, and faster than the speed limit.
    yield episode("Pendulum-v1", np.array([-25.0, 7.9]), swing, 300)


def acrobot():
    uniform = lambda t, s: int(RNG.integers(3))
    pump = lambda t, s: 2 if s[3] > 0 else 0
    yield episode("Acrobot-v1", RNG.uniform(-0.1, 0.1, 4).astype(np.float32), uniform, 600)
    yield episode("Acrobot-v1", RNG.uniform(-0.1, 0.1, 4).astype(np.float32), pump, 600)
    yield episode("Acrobot-v1", np.array([1.0, -3.0, 11.0, -27.0], dtype=np.float32), uniform, 600)


def mountain_car():
    pump = lambda t, s: 1.0 if s[1] >= 0 else -1.0
    uniform = lambda t, s: RNG.uniform(-1.0, 1.0)
    beyond = lambda t, s: 1.7 if s[1] >= 0 else -1.3  # the force is clipped, its cost is not
    still = lambda t, s: 0.05 * np.sin(0.1 * t)
    for policy, steps in ((pump, 1100), (uniform, 300), (beyond, 1100), (still, 1100)):
        yield episode("MountainCarContinuous-v0", np.array([RNG.uniform(-0.6, -0.4), 0.0]), policy, steps)
    yield episode("MountainCarContinuous-v0", np.array([-1.1, -0.06], dtype=np.float32), uniform, 300)


EPISODES = [*cart_pole("CartPole-v1"), *cart_pole("CartPole-v0"), *pendulum(), *acrobot(), *mountain_car()]

if __name__ == "__main__":
    lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in EPISODES)
    path = pathlib.Path(__file__).with_name("fixtures.json")
    path.write_text(f'{{"gymnasium":"{gymnasium.__version__}","numpy":"{np.__version__}","episodes":[\n{lines}\n]}}\n')
    for e in EPISODES:
        print(e["id"], len(e["actions"]), "terminated" if e["terminated"] else "truncated" if e["truncated"] else "open")
