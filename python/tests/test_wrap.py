"""The learned reward in environments: plaudit's modes."""

import gymnasium as gym
import numpy as np
import pytest

import plaudit


def env_with_images(**options):
    return gym.make("plaudit/PickCube-v1", obs_mode="rgb", **options)


def steps(env, count, seed=0):
    env.reset(seed=seed)
    env.action_space.seed(seed)
    taken = []
    for _ in range(count):
        taken.append(env.step(env.action_space.sample()))
        if taken[-1][2] or taken[-1][3]:
            env.reset()
    return taken


def test_every_step_is_rewarded_with_its_score(model):
    env = plaudit.wrap(env_with_images(), model, threshold="none")
    for obs, reward, _, _, info in steps(env, 4):
        assert reward == pytest.approx(model.score(obs["base_camera"]), rel=1e-5)
        assert info["reward_terms"]["model"] == pytest.approx(reward)
        assert info["reward_terms"]["env"] == info["env_reward"]
        assert info["reward_score"] == pytest.approx(reward)


def test_a_threshold_a_hold_and_amounts(model):
    plain = steps(plaudit.wrap(env_with_images(), model, threshold="none"), 6)
    scores = [info["reward_score"] for *_, info in plain]
    level = float(np.sort(scores)[2]) + 1e-7
    above = [score > level for score in scores]
    env = plaudit.wrap(env_with_images(), model, threshold=level, success_reward=2.0, fail_reward=-0.5)
    assert [reward for _, reward, *_ in steps(env, 6)] == [2.0 if one else -0.5 for one in above]
    env = plaudit.wrap(env_with_images(), model, threshold=0.0, hold=3, success_reward=1.0)
    assert [reward for _, reward, *_ in steps(env, 5)] == [0, 0, 1, 1, 1]
    env = plaudit.wrap(env_with_images(), model, hysteresis=(level, 0.0), success_reward=1.0)
    assert [reward for _, reward, *_ in steps(env, 6)] == [float(any(above[: at + 1])) for at in range(6)]


def test_a_terminal_reward_comes_at_the_end(model):
    env = plaudit.wrap(env_with_images(max_episode_steps=3), model, mode="terminal", threshold="none")
    taken = steps(env, 6)
    assert [reward > 0 for _, reward, *_ in taken] == [False, False, True] * 2
    assert taken[2][1] == pytest.approx(model.score(taken[2][0]["base_camera"]), rel=1e-5)


def test_a_potential_is_the_change_of_the_score(model):
    env = plaudit.wrap(env_with_images(), model, mode="potential", gamma=0.9)
    obs, _ = env.reset(seed=0)
    before = model.score(obs["base_camera"])
    for _ in range(3):
        obs, reward, *_ = env.step(np.zeros(8, np.float32))
        after = model.score(obs["base_camera"])
        assert reward == pytest.approx(0.9 * after - before, abs=1e-5)
        before = after


def test_a_window_is_rewarded_when_it_is_full(model):
    env = plaudit.wrap(env_with_images(), model, mode="history_buffer", window=3, threshold="none")
    taken = steps(env, 6)
    scores = [model.score(obs["base_camera"]) for obs, *_ in taken]
    expected = [0, 0, np.mean(scores[:3]), 0, 0, np.mean(scores[3:])]
    np.testing.assert_allclose([reward for _, reward, *_ in taken], expected, rtol=1e-4, atol=1e-7)


def test_guards_and_weights(model):
    env = plaudit.wrap(env_with_images(), model, guards=["state[0] > 100"], success_reward=1.0, threshold=0.0)
    assert all(reward == 0 for _, reward, *_ in steps(env, 3))
    env = plaudit.wrap(env_with_images(), model, reward_weight=0.5, env_reward_weight=2.0, threshold="none")
    for _, reward, _, _, info in steps(env, 3):
        terms = info["reward_terms"]
        assert reward == pytest.approx(0.5 * terms["model"] + 2 * terms["env"], rel=1e-5)
    with pytest.raises(plaudit.InputError):
        plaudit.wrap(env_with_images(), model, guards=["height > 1"]).reset()


@pytest.mark.parametrize("mode", ["per_step", "terminal", "potential", "history_buffer"])
def test_a_batch_is_rewarded_as_its_environments_are(model, mode):
    """The same episodes, one by one and together: in a batch that resets in the same step, and in one that resets in the next."""
    options = {"mode": mode, "threshold": "none", "window": 2, "gamma": 0.9}
    settings = {"obs_mode": "rgb", "max_episode_steps": 3}
    together = plaudit.wrap(plaudit.make_vec("PickCube-v1", 2, **settings), model, **options)
    together.reset(seed=4)
    actions = np.random.default_rng(0).uniform(-1, 1, (7, 2, 8)).astype(np.float32)
    seen = [together.step(action) for action in actions]

    def alone(row):
        env = plaudit.make_vec("PickCube-v1", 2, **settings)
        obs, _ = env.reset(seed=4)
        before, count, scores, rewards = model.score(obs["base_camera"])[row], 0, [], []
        for action in actions:
            obs, _, terminated, truncated, info = env.step(action)
            ended = bool(truncated[row])
            image = info["final_obs"][row]["base_camera"] if ended else obs["base_camera"][row]
            score, count = model.score(image), count + 1
            scores.append(score)
            rewards.append(
                {
                    "per_step": score,
                    "terminal": score if ended else 0.0,
                    "potential": 0.9 * score - before,
                    "history_buffer": np.mean(scores[-2:]) if count % 2 == 0 else 0.0,
                }[mode]
            )
            before = score
            if ended:
                before, count = model.score(obs["base_camera"][row]), 0
        return rewards

    for row in (0, 1):
        np.testing.assert_allclose([step[1][row] for step in seen], alone(row), rtol=1e-4, atol=1e-6)


def test_environments_that_reset_in_the_next_step(model):
    make = lambda: env_with_images(max_episode_steps=2)  # noqa: E731
    env = plaudit.wrap(gym.vector.SyncVectorEnv([make] * 2), model, threshold="none")
    env.reset(seed=0)
    rewards = [env.step(np.zeros((2, 8), np.float32))[1] for _ in range(6)]
    assert [bool(reward.any()) for reward in rewards] == [True, True, False, True, True, False]


class Nested(gym.vector.VectorEnv):
    """Episodes of three steps whose images brighten, in dicts within dicts and in one library's arrays: as ManiSkill's vectors are."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs, numbers):
        self.num_envs, self.numbers, self.steps = num_envs, numbers, 0
        image = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)
        camera = gym.spaces.Dict({"base_camera": gym.spaces.Dict({"rgb": image})})
        self.single_observation_space = gym.spaces.Dict({"sensor_data": camera})
        self.single_action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    def shown(self, step):
        images = np.stack([np.full((32, 32, 3), 60 * step + row, np.uint8) for row in range(self.num_envs)])
        return {"sensor_data": {"base_camera": {"rgb": self.numbers(images)}}}

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.shown(0), {}

    def step(self, actions):
        self.steps += 1
        over = np.full(self.num_envs, self.steps % 3 == 0)
        never = self.numbers(np.zeros(self.num_envs, bool))
        info = {"success": never}
        if over.any():
            info |= {"final_observation": self.shown(3), "_final_observation": self.numbers(over)}
        reward = self.numbers(np.zeros(self.num_envs, np.int64))
        return self.shown(self.steps % 3), reward, never, self.numbers(over), info


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_observations_in_dicts_and_tensors(model, library):
    numbers = np.asarray if library == "numpy" else pytest.importorskip("torch").as_tensor
    env = plaudit.wrap(Nested(2, numbers), model, threshold="none")
    env.reset(seed=0)
    for step in (1, 2, 3, 1):  # what the third step leads to is shown as the last observation alone
        _, reward, *_, info = env.step(np.zeros((2, 2), np.float32))
        assert type(reward) is type(numbers(np.zeros(1)))
        seen = Nested(2, np.asarray).shown(step)["sensor_data"]["base_camera"]["rgb"]
        np.testing.assert_allclose(np.asarray(reward), model.score(seen), rtol=1e-5)
        np.testing.assert_allclose(info["reward_score"], np.asarray(reward), rtol=1e-5)


def test_images_may_be_rendered_or_made(model):
    env = gym.make("plaudit/PickCube-v1", render_mode="rgb_array")
    wrapped = plaudit.wrap(env, model, threshold="none")
    _, reward, _, _, info = steps(wrapped, 1)[0]
    assert reward == pytest.approx(model.score(env.render()), rel=1e-5)
    dark = lambda obs: {"main_images": np.zeros((32, 32, 3), np.uint8)}  # noqa: E731
    wrapped = plaudit.wrap(gym.make("plaudit/PickCube-v1"), model, images=dark, threshold="none")
    _, reward, *_ = steps(wrapped, 1)[0]
    assert reward == pytest.approx(model.score(np.zeros((32, 32, 3), np.uint8)), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "sometimes"}, "no mode"),
        ({"threshold": "high"}, "threshold"),
        ({"hold": 0}, "hold"),
        ({"mode": "history_buffer", "hold": 2}, "single frames"),
        ({"cameras": ["top"]}, "no camera `top`"),
        ({"cameras": ["a", "b"]}, "2 cameras"),
    ],
)
def test_what_cannot_be_wrapped_is_named(model, options, words):
    with pytest.raises(plaudit.InputError) as refused:
        plaudit.wrap(env_with_images(), model, **options).reset()
    assert words in str(refused.value), refused.value


def test_what_is_no_environment_and_no_model(model):
    with pytest.raises(plaudit.InputError, match="no environment"):
        plaudit.wrap("CartPole-v1", model)
    with pytest.raises(plaudit.InputError, match="no reward model"):
        plaudit.wrap(env_with_images(), "model")
    with pytest.raises(plaudit.InputError, match="shows no images"):
        plaudit.wrap(gym.make("plaudit/PickCube-v1"), model).reset()
