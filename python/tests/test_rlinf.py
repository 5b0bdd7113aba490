"""The adapter for RLinf, between a model of plaudit's and a stand-in of RLinf's registry and reward worker.

The stand-in does what RLinf's do to a reward model, as its interface is described: a class is found by name, made from the block
`reward.model` (a mapping with `get`, to which `num_envs` is added), moved to a device, set to evaluation, and asked for the rewards of
observations, which are a batch of what environments show. What comes back is a tensor `[B]`, and becomes `[B, 1]` on the CPU.
"""

import inspect

import numpy as np
import pytest

import plaudit

torch = pytest.importorskip("torch")

from plaudit.rlinf import PlauditRewardModel  # noqa: E402


class Cfg(dict):
    """As much of OmegaConf's DictConfig as reward models use."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


reward_model_registry = {"plaudit": PlauditRewardModel}


class RewardWorker:
    """What RLinf's worker does with a reward model."""

    def __init__(self, cfg, num_envs, device="cpu"):
        model = cfg.reward.model
        model.num_envs = num_envs
        self.model = reward_model_registry[model.model_type](model)
        self.model = self.model.to(device)
        self.model.eval()

    def compute_reward(self, observations):
        rewards = self.model.compute_reward(observations)
        if rewards is not None and rewards.dim() == 1:
            rewards = rewards.unsqueeze(-1)
        return rewards.detach().cpu()


def worker(path, num_envs=3, **model):
    block = Cfg(model_type="plaudit", model_path=str(path), device="cpu", **model)
    return RewardWorker(Cfg(reward=Cfg(use_reward_model=True, model=block)), num_envs)


@pytest.fixture
def images():
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8))


def observations(images, **more):
    """What an environment worker sends: keys that an environment does not have are None."""
    there = {"main_images": images, "wrist_images": None, "extra_view_images": None, "states": torch.zeros(3, 9)}
    return there | {"task_descriptions": ["pick up the cube"] * 3, "dones": torch.zeros(3, dtype=torch.bool)} | more


def test_the_signatures_are_rlinfs():
    assert issubclass(PlauditRewardModel, torch.nn.Module)
    assert list(inspect.signature(PlauditRewardModel.__init__).parameters) == ["self", "cfg"]
    compute = inspect.signature(PlauditRewardModel.compute_reward).parameters
    assert list(compute)[:2] == ["self", "observations"]
    assert all(one.default is not inspect.Parameter.empty for one in list(compute.values())[2:])


def test_a_worker_scores_a_batch(checkpoint, model, images):
    scored = worker(checkpoint)
    rewards = scored.compute_reward(observations(images))
    assert rewards.shape == (3, 1) and rewards.dtype == torch.float32 and rewards.device.type == "cpu"
    np.testing.assert_allclose(rewards[:, 0].numpy(), model.score(images.numpy()), rtol=1e-5)
    assert scored.model.model_type == "classifier"
    channels_first = observations(images.permute(0, 3, 1, 2).contiguous())
    np.testing.assert_allclose(scored.compute_reward(channels_first), rewards, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="plaudit reward train"):
        scored.model(images, None)


def test_a_threshold_and_names_of_cameras(checkpoint, model, images):
    scores = model.score(images.numpy())
    level = float(np.sort(scores)[1])
    filtered = worker(checkpoint, reward_threshold=level).compute_reward(observations(images))[:, 0].numpy()
    np.testing.assert_allclose(filtered, np.where(scores > np.float32(level), scores, 0), rtol=1e-5)
    other = observations(torch.zeros_like(images), extra_view_images=torch.stack([images, images], 1))
    by_name = worker(checkpoint, image_keys={"main_images": "extra_view_images[1]"})
    np.testing.assert_allclose(by_name.compute_reward(other)[:, 0].numpy(), scores, rtol=1e-5)
    with pytest.raises(ValueError, match="has 2 views"):
        worker(checkpoint, image_keys={"main_images": "extra_view_images[2]"}).compute_reward(other)
    with pytest.raises(ValueError, match="reward.model.image_keys"):
        worker(checkpoint, image_keys={"main_images": "wrist_images"}).compute_reward(observations(images))


def test_windows_are_rewarded_where_one_is_due(checkpoint, model, images):
    due = [[images[0], images[1]], [], [images[2]]]
    history = {"history_window": {"main_images": due}}
    rewards = worker(checkpoint, interval_reward=-0.5).compute_reward(observations(images, history_input=history))
    scores = model.score(images.numpy())
    np.testing.assert_allclose(rewards[:, 0].numpy(), [scores[:2].mean(), -0.5, scores[2]], rtol=1e-5)
    nothing = worker(checkpoint, interval_reward=0.25).compute_reward(observations(images, history_input={}))
    np.testing.assert_array_equal(nothing[:, 0].numpy(), [0.25] * 3)


def test_a_judge_is_asked_with_each_environments_task(images):
    from test_judge import FOLDER

    if not (FOLDER / "model.safetensors").exists():
        pytest.skip("needs the repository")
    judge = plaudit.RewardModel(FOLDER, device="cpu")
    tasks = ["pick up the cube", "open the door", "pick up the cube"]
    history = {"history_window": {"main_images": [list(images[:2]), [], list(images[1:])]}}
    scored = worker(FOLDER, readout="trend")
    rewards = scored.compute_reward(observations(images, history_input=history, task_descriptions=tasks))
    expected = [judge.score_windows(images[:2].numpy(), task=tasks[0]), 0, judge.score_windows(images[1:].numpy(), task=tasks[2])]
    np.testing.assert_allclose(rewards[:, 0].numpy(), expected, rtol=1e-4, atol=1e-5)
    frames = scored.compute_reward(observations(images, task_descriptions=tasks))[:, 0].numpy()
    each = [judge.score(images[row].numpy(), task=tasks[row]) for row in range(3)]
    np.testing.assert_allclose(frames, each, rtol=1e-4, atol=1e-5)


def test_a_block_without_a_model_is_refused():
    with pytest.raises(ValueError, match="reward.model.model_path"):
        PlauditRewardModel(Cfg(model_type="plaudit"))
    with pytest.raises(plaudit.Error, match="nothing-here"):
        PlauditRewardModel(Cfg(model_path="nothing-here"))
