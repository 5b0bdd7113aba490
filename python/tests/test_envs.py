"""The simulator as Gymnasium environments."""

import subprocess
import sys
import time
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import plaudit


@pytest.mark.parametrize("name", ["PickCube-v1", "PegInsertionSide-v1", "CartPole-v1", "Pendulum-v1"])
def test_gymnasium_accepts_it(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(gym.make(f"plaudit/{name}").unwrapped, skip_render_check=True)


def test_gymnasium_accepts_it_with_cameras():
    env = gym.make(
        "plaudit/PickCube-v1", obs_mode="rgb", render_mode="rgb_array", cameras=["base_camera", "hand_camera"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped, skip_render_check=True)
    obs, _ = env.reset(seed=3)
    assert set(obs) == {"state", "base_camera", "hand_camera"}
    assert obs["state"].shape == (29,) and obs["base_camera"].shape == (128, 128, 3)
    assert env.render().shape == (128, 128, 3) and env.render().any()


@pytest.mark.parametrize(
    "imports",
    ["import gymnasium, plaudit", "import plaudit, gymnasium", "import plaudit, gymnasium; plaudit.make('CartPole-v1')",
     "import plaudit; plaudit.make('CartPole-v1'); import gymnasium", "import plaudit.envs, gymnasium"],
)  # fmt: skip
def test_whichever_is_imported_first(imports):
    code = f"{imports}; gymnasium.make('plaudit/CartPole-v1').reset(seed=0); gymnasium.make('CartPole-v1')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_seed_decides_an_episode():
    env = plaudit.make("PickCube-v1")
    first, _ = env.reset(seed=5)
    other, _ = env.reset(seed=6)
    again, _ = env.reset(seed=5)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    following, _ = env.reset()
    assert not np.array_equal(following, again)


def test_an_episode_ends_with_what_it_saw_last():
    env = plaudit.make("CartPole-v1")
    env.reset(seed=0)
    for _ in range(500):
        obs, reward, terminated, truncated, info = env.step(1)
        if terminated:
            break
    assert terminated and abs(obs[2]) > 0.2, "the pole has fallen in the last observation"
    with pytest.raises(plaudit.InputError, match="reset"):
        env.step(1)
    obs, _ = env.reset()
    assert abs(obs[2]) < 0.06


def test_a_batch_steps_as_its_environments_would():
    batch = gym.make_vec("plaudit/PickCube-v1", num_envs=3, max_episode_steps=4)
    assert batch.observation_space.shape == (3, 42) and batch.action_space.shape == (3, 8)
    batch.reset(seed=7)
    actions = np.zeros((3, 8), np.float32)
    for step in range(4):
        obs, reward, terminated, truncated, info = batch.step(actions)
        assert reward.shape == (3,) and info["success"].shape == (3,)
    assert truncated.all()
    assert info["_final_obs"].all() and info["final_obs"][1].shape == (42,)
    assert not np.array_equal(info["final_obs"][1], obs[1])
    obs, *_ = batch.step(actions)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: plaudit.make("PickCub-v1"), "did you mean `PickCube-v1`"),
        (lambda: plaudit.make("PickCube-v1", colour="red"), "colour"),
        (lambda: plaudit.make("PickCube-v1", obs_mode="rgbd"), "rgbd"),
        (lambda: plaudit.make("CartPole-v1", obs_mode="rgb"), "obs_mode"),
        (lambda: plaudit.make("PickCube-v1", cameras=["top"]), "top"),
        (
            lambda: plaudit.make("PickCube-v1", cameras=[{"name": "base_camera", "width": 0, "height": 9}]),
            "pixels",
        ),
        (lambda: plaudit.make_vec("PickCube-v1", 0), "num_envs"),
        (lambda: plaudit.make("PickCube-v1", render_mode="human"), "render_mode"),
        (lambda: plaudit.make("PickCube-v1", max_episode_steps=0), "max_episode_steps"),
    ],
)
def test_what_cannot_be_made_is_named(make, words):
    with pytest.raises(plaudit.Error) as refused:
        make()
    assert words in str(refused.value), refused.value


def test_bad_actions_and_orders_are_refused():
    env = plaudit.make_vec("PickCube-v1", 2)
    with pytest.raises(plaudit.Error, match="reset"):
        env.step(np.zeros((2, 8)))
    env.reset(seed=0)
    for actions, words in [
        (np.zeros((2, 7)), "shape"),
        (np.full((2, 8), np.nan), "NaN"),
        ("left", "no numbers"),
    ]:
        with pytest.raises(plaudit.Error, match=words):
            env.step(actions)
    env.step(np.zeros((2, 8)))
    env.close()
    with pytest.raises(plaudit.Error, match="closed"):
        env.reset(seed=0)


def test_forked_workers_have_environments_of_their_own():
    plaudit.make_vec("PickCube-v1", 16).reset(seed=0)
    env = gym.vector.AsyncVectorEnv([lambda: gym.make("plaudit/PickCube-v1")] * 2, context="fork")
    obs, _ = env.reset(seed=1)
    env.step(env.action_space.sample())
    assert obs.shape == (2, 42)
    env.close()


def test_stepping_is_fast():
    """Python may cost a fifth of what 64 environments take; what Rust does of it is measured by bench/python."""
    env = plaudit.make_vec("PickCube-v1", 64)
    env.reset(seed=0)
    actions = np.zeros((64, 8), np.float32)
    began = time.perf_counter()
    for _ in range(20):
        env.step(actions)
    assert (time.perf_counter() - began) / 20 < 0.5
