"""Checks plaudit's environments with Gymnasium's checker, and with what it does not ask.

    python check_env.py path/to/step_server            # needs gymnasium 1.x and numpy

A warning fails the check unless it is listed below with a reason; so does a listed one that never came.
"""

import re
import sys
import warnings

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env, data_equivalence

from served_env import ImageEnv, Refused, ServedEnv, ServedVectorEnv, Server, gives_images

EXPECTED_WARNINGS = {
    r"Box observation space m(in|ax)imum value is -?infinity": "speeds have no bounds, and Gymnasium's own "
    "CartPole says the same",
    r"recommend using a symmetric and normalized space": "Pendulum's torque is Gymnasium's own, and "
    "pd_joint_pos takes joint angles in radians, as ManiSkill does",
    r"CartPole-v0 is out of date": "Gymnasium says so when asked for its own; ours stays for old recipes",
}
CONTROL_MODES = ["pd_joint_delta_pos", "pd_joint_pos", "pd_ee_delta_pos", "pd_ee_delta_pose"]
ROWS = 3


def variants(program, ids):
    """What to check: every id as it comes, and PickCube in every way that changes its spaces or its physics."""
    for name in ids:
        yield {"id": name}
        if name.startswith("PickCube"):
            yield {"id": name, "pick_cube": {"obs_mode": "rgb"}}
    for mode in CONTROL_MODES:
        yield {"id": "PickCube-v1", "pick_cube": {"control_mode": mode}}
    yield {"id": "PickCube-v1", "pick_cube": {"use_rel_reward": True, "reward_mode": "dense"}}
    mujoco = {"id": "PickCube-v1", "pick_cube": {"engine": "mujoco"}}
    if is_built_in(program, mujoco):
        yield mujoco


def is_built_in(program, settings):
    server = Server(program, None)
    try:
        server.ask({"make": {**settings, "num_envs": 1}})
    except Refused as refusal:
        assert "needs a build with MuJoCo" in str(refusal), refusal
        return False
    finally:
        server.close()
    return True


def own_state_space(settings):
    """Gymnasium's bounds, where it has the environment too."""
    known = gymnasium.registry.get(settings["id"])
    if known is None:
        return None
    env = gymnasium.make(settings["id"])
    space = env.observation_space
    env.close()
    return space


def check_gymnasium(program, settings):
    served = Server(program, {**settings, "num_envs": 1})
    entry = ImageEnv if served.spec["cameras"] else ServedEnv
    served.close()
    gymnasium.register(
        "plaudit/Served-v0",
        entry_point=entry,
        kwargs={"program": program, "settings": settings, "state_space": own_state_space(settings)},
        order_enforce=False,
        disable_env_checker=True,
    )
    env = gymnasium.make("plaudit/Served-v0").unwrapped
    check_env(env)
    env.close()
    del gymnasium.registry["plaudit/Served-v0"]


def check_same_as_gymnasium(program, settings):
    """Action space and time limit are Gymnasium's, where it has the environment too."""
    known = gymnasium.registry.get(settings["id"])
    if known is None:
        return
    theirs = gymnasium.make(settings["id"])
    ours = ServedEnv(program, settings)
    assert ours.action_space == theirs.action_space, (ours.action_space, theirs.action_space)
    assert ours.server.spec["max_episode_steps"] == known.max_episode_steps
    assert ours.observation_space.shape == theirs.observation_space.shape
    ours.close(), theirs.close()


def check_episodes(program, settings):
    """Two episodes and a bit: spaces, types, the clock, and steps beyond an end."""
    env = ServedEnv(program, settings, own_state_space(settings))
    limit, clock, ends = env.server.spec["max_episode_steps"], 0, 0
    env.action_space.seed(1)
    env.reset(seed=1)
    for _ in range(2 * limit + 5):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        clock += 1
        assert obs in env.observation_space, obs
        assert isinstance(reward, float) and np.isfinite(reward), reward
        assert isinstance(terminated, bool) and isinstance(truncated, bool)
        assert isinstance(info["success"], bool)
        assert all(isinstance(fact, float) for name, fact in info.items() if name != "success"), info
        assert truncated == (clock == limit and not terminated), (clock, limit)
        if terminated or truncated:
            # No reset: the next step is the first of the next episode.
            clock, ends = 0, ends + 1
    assert ends >= 2, ends
    env.close()


def rollout(env, seed, steps=20):
    env.action_space.seed(seed)
    trajectory = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        trajectory.append(env.step(env.action_space.sample()))
    return trajectory


def check_determinism(program, settings):
    """A seed determines a trajectory, bit-exact and in another process too."""
    first, second = (ServedEnv(program, settings) for _ in range(2))
    trajectory = rollout(first, 5)
    assert data_equivalence(trajectory, rollout(first, 5), exact=True)
    assert data_equivalence(trajectory, rollout(second, 5), exact=True)
    assert not data_equivalence(trajectory[0], rollout(second, 6)[0])
    first.close(), second.close()


def check_refusals(program, settings):
    """What is no action is refused in words, and a refusal changes nothing."""
    env, twin = (ServedEnv(program, settings) for _ in range(2))
    width = int(np.prod(env.action_space.shape))
    nothing = env.action_space.sample()
    refuses(env, nothing, "stepped before they were reset")
    for each in (env, twin):
        each.reset(seed=3)
    refuses(env, np.zeros(width + 1), f"need {width} values, got {width + 1}")
    refuses(env, np.full(width, 1e39), "is no possible action")
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        for wrong in (-1, env.action_space.n, 0.5):
            refuses(env, wrong, "is no possible action")
    assert data_equivalence(env.step(nothing), twin.step(nothing), exact=True)
    env.close(), twin.close()


def refuses(env, action, words):
    try:
        env.step(action)
    except Refused as refusal:
        assert words in str(refusal), refusal
    else:
        raise AssertionError(f"{action} was accepted")


def check_bounds(program, settings):
    """Beyond its bounds an action is the one at the bounds."""
    env = ServedEnv(program, settings)
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Box):
        for edge in (space.low, space.high):
            env.reset(seed=4)
            at_edge = env.step(edge)[0]
            env.reset(seed=4)
            beyond = env.step(10 * edge)[0]
            assert data_equivalence(at_edge, beyond), (at_edge, beyond)
    env.close()


def row_of(obs, row):
    return {key: value[row] for key, value in obs.items()} if isinstance(obs, dict) else obs[row]


def check_vector(program, settings):
    """A batch fits its spaces, and each row is what it would be alone."""
    batch = ServedVectorEnv(program, settings, ROWS, own_state_space(settings))
    alone = [ServedEnv(program, {**settings, "first_row": row}) for row in range(ROWS)]
    steps = batch.server.spec["max_episode_steps"] + 3
    batch.action_space.seed(2)
    obs, _ = batch.reset(seed=9)
    assert obs in batch.observation_space
    for row, env in enumerate(alone):
        assert data_equivalence(env.reset(seed=9)[0], row_of(obs, row), exact=True)
    for _ in range(steps):
        actions = batch.action_space.sample()
        obs, reward, terminated, truncated, info = batch.step(actions)
        assert obs in batch.observation_space
        assert reward.shape == terminated.shape == truncated.shape == (ROWS,)
        assert (reward.dtype, terminated.dtype, truncated.dtype) == (np.float32, bool, bool)
        for row, env in enumerate(alone):
            mine = env.step(actions[row])
            ended = terminated[row] or truncated[row]
            shown = info["final_obs"][row] if ended else row_of(obs, row)
            assert data_equivalence(mine[0], shown, exact=True)
            assert mine[1:4] == (reward[row], terminated[row], truncated[row])
            assert shown in batch.single_observation_space
    batch.close()
    for env in alone:
        env.close()


CHECKS = [
    check_gymnasium,
    check_same_as_gymnasium,
    check_episodes,
    check_determinism,
    check_refusals,
    check_bounds,
    check_vector,
]


def main(program):
    server = Server(program, None)
    ids = server.ask("ids")["ids"]
    server.close()
    seen = set()
    for settings in variants(program, ids):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for check in CHECKS:
                try:
                    check(program, settings)
                except Exception as failure:
                    raise SystemExit(f"{settings}: {check.__name__}: {failure!r}") from failure
        for warning in caught:
            words = str(warning.message)
            listed = [known for known in EXPECTED_WARNINGS if re.search(known, words)]
            if not listed:
                raise SystemExit(f"{settings}: a warning that is not listed: {words}")
            seen.update(listed)
        images = ", images" if gives_images(settings) else ""
        print(f"{settings}: passed {len(CHECKS)} checks{images}")
    for known in EXPECTED_WARNINGS.keys() - seen:
        raise SystemExit(f"a listed warning never came, take it off the list: {known}")


main(sys.argv[1])
