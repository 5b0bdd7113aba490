"""With the packages that people use: torch, stable-baselines3, lerobot. `--long` runs them."""

import gymnasium as gym
import numpy as np
import pytest

import plaudit

pytestmark = pytest.mark.long


def test_tensors_are_images(model):
    torch = pytest.importorskip("torch")
    images = np.random.default_rng(0).integers(0, 256, (4, 40, 40, 3), dtype=np.uint8)
    expected = model.score(images)
    batch = torch.from_numpy(images)
    for what, tensor in [("as it lies", batch), ("channels first", batch.permute(0, 3, 1, 2).contiguous()),
                         ("floats", batch.float() / 255), ("a view", batch.permute(0, 3, 1, 2))]:  # fmt: skip
        np.testing.assert_allclose(model.score(tensor), expected, rtol=1e-4, err_msg=what)
    for wrong, words in [
        (batch.double(), "float64"),
        (batch.half(), "float16"),
        (batch.to(torch.bfloat16), "cannot be read"),
        ((batch.float() / 255).requires_grad_(), "detach"),
        (batch.to("meta"), "meta"),
    ]:
        with pytest.raises(plaudit.Error, match=words):
            model.score(wrong)
    if torch.cuda.is_available():
        np.testing.assert_allclose(model.score(batch.cuda()), expected, rtol=1e-5)
        with pytest.raises(plaudit.Error, match="detach"):
            model.score((batch.float() / 255).cuda().requires_grad_())


def test_a_dataset_feeds_a_loader_with_workers(episodes):
    torch = pytest.importorskip("torch")
    from plaudit.torch import FrameDataset

    dataset = FrameDataset(episodes)
    assert len(dataset) == len(dataset.targets) > 100
    image, label = dataset[0]
    assert image.shape == (3, 128, 128) and image.dtype == torch.uint8 and label in (0.0, 1.0)
    expected = torch.stack([dataset[at][0] for at in range(16)])
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(dataset, 16, num_workers=2, multiprocessing_context=context)
        batches = [images for images, _ in loader]
        assert torch.equal(batches[0], expected), context
        assert sum(len(images) for images in batches) == len(dataset)
    train, val = (FrameDataset(episodes, split=split) for split in ("train", "val"))
    names = [{part.origin(at)[0] for at in range(len(part))} for part in (train, val)]
    assert not names[0] & names[1] and len(train) + len(val) == len(dataset)


@pytest.mark.filterwarnings("ignore")
def test_stable_baselines3_trains_unchanged(model):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO

    env = gym.make("plaudit/PickCube-v1")
    PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, device="cpu").learn(64)
    dark = lambda obs: {"main_images": np.zeros((32, 32, 3), np.uint8)}  # noqa: E731
    env = plaudit.wrap(gym.make("plaudit/PickCube-v1"), model, images=dark, threshold="none")
    PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, device="cpu").learn(64)
    env = plaudit.wrap(gym.make("plaudit/PickCube-v1", obs_mode="rgb"), model)
    PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(16)


def test_lerobot_reads_what_was_recorded(tmp_path):
    lerobot = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    from test_data import record

    seen = record(tmp_path / "dataset", "lerobot")
    folder = next((tmp_path / "dataset").glob("**/meta")).parent
    dataset = lerobot.LeRobotDataset("local/episodes", root=folder)
    assert dataset.num_episodes == 2 and len(dataset) == sum(len(images) - 1 for images in seen)
    images = [key for key in dataset[0] if "image" in key and not key.endswith("is_pad")]
    first = dataset[0][images[0]].numpy()
    first = first.transpose(1, 2, 0) if first.shape[0] == 3 else first
    np.testing.assert_allclose(first * (255 if first.max() <= 1 else 1), seen[0][0], atol=1)
