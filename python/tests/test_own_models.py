"""Reward models of one's own making, as an ONNX file and as a function in Python: scored, measured, audited, served, and rewarding runs."""

import multiprocessing
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import plaudit

RED = '''
import numpy as np

def score(images):
    images = images.astype(np.float32)
    return np.clip((images[..., 0] - images[..., 1:].max(-1)).mean((1, 2)) / 255, 0, 1)

def two(cameras):
    assert sorted(cameras) == ["main", "wrist"]
    return (cameras["main"].mean((1, 2, 3)) + cameras["wrist"].mean((1, 2, 3))) / 510

class Callable:
    def __call__(self, images):
        images[:] = 0  # its own copy
        return [0.25] * len(images)

thing = Callable()

def raises(images):
    raise RuntimeError("the lamp is out")

def dies(images):
    import os
    os._exit(3)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(RED)
    (folder / "mine.two.json").write_text('{"image_keys": ["main", "wrist"]}')
    return folder


@pytest.fixture(scope="module")
def onnx(folder, checkpoint):
    """plaudit's own model, as anybody's."""
    words = [sys.executable, "-m", "plaudit", "reward", "export", str(checkpoint), "--format", "onnx"]
    subprocess.run([*words, "--output", str(folder / "model.onnx")], check=True, capture_output=True)
    (folder / "model.json").write_text('{"output": "logit", "output_name": "logit", "threshold": 0.5}')
    return folder / "model.onnx"


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (300, 40, 48, 3), dtype=np.uint8)


def test_a_function_scores(folder, images):
    with plaudit.RewardModel(f"{folder / 'mine.py'}:score") as model:
        assert (model.device, model.kind, model.image_keys) == ("python", "classifier", ["main_images"])
        floats = images.astype(np.float32)
        expected = np.clip((floats[..., 0] - floats[..., 1:].max(-1)).mean((1, 2)) / 255, 0, 1)
        np.testing.assert_allclose(model.score(images), expected, atol=1e-6)
        chw = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        np.testing.assert_allclose(model.score(chw), expected, atol=1e-6)
        red = np.zeros((8, 8, 3), np.uint8)
        red[..., 0] = 255
        assert model.score(red) == pytest.approx(1.0)
        with pytest.raises(plaudit.Error, match="images of bytes"):
            model.score(floats / 255)
    two = plaudit.RewardModel(f"{folder / 'mine.py'}:two")
    assert two.image_keys == ["main", "wrist"]
    score = two.score({"main": images[:2], "wrist": images[:2, :20]})
    assert score.shape == (2,)
    thing = plaudit.RewardModel(f"{folder / 'mine.py'}:thing")
    before = images.copy()
    np.testing.assert_allclose(thing.score(images), 0.25, atol=1e-6)
    np.testing.assert_array_equal(images, before)


def test_what_a_function_does_wrong_is_an_exception(folder, images):
    raises = plaudit.RewardModel(f"{folder / 'mine.py'}:raises")
    for _ in range(2):
        with pytest.raises(plaudit.Error, match="the lamp is out"):
            raises.score(images)
    dies = plaudit.RewardModel(f"{folder / 'mine.py'}:dies")
    for _ in range(2):
        with pytest.raises(plaudit.Error, match="its Python process"):
            dies.score(images)
    with pytest.raises(plaudit.Error, match="there is no function `absent`"):
        plaudit.RewardModel(f"{folder / 'mine.py'}:absent")
    with pytest.raises(plaudit.Error, match="name it"):
        plaudit.RewardModel(folder / "mine.py")


def test_an_onnx_file_scores_as_the_model_that_it_was(onnx, checkpoint, images):
    own, model = plaudit.RewardModel(checkpoint, device="cpu"), plaudit.RewardModel(onnx)
    assert (model.device, model.threshold) == ("cpu", 0.5)
    np.testing.assert_allclose(model.score(images), own.score(images), atol=1e-4)
    np.testing.assert_allclose(model.logits(images[0]), own.logits(images[0]), atol=1e-3)
    assert model.success(images).shape == (300,) and model.card["format"] == "an ONNX model"


def _score(model, images, answers):
    try:
        answers.put(model.score(images))
    except plaudit.Error as error:
        answers.put(str(error))


def test_in_a_forked_process(folder, onnx, images):
    context = multiprocessing.get_context("fork")
    for path, scores in ((onnx, True), (f"{folder / 'mine.py'}:score", False)):
        model = plaudit.RewardModel(path)
        expected, answers = model.score(images), context.Queue()
        worker = context.Process(target=_score, args=(model, images, answers))
        worker.start()
        found = answers.get(timeout=60)
        worker.join(30)
        assert worker.exitcode == 0
        if scores:
            np.testing.assert_array_equal(found, expected)
        else:
            assert "forked" in found or "process" in found, found
        np.testing.assert_array_equal(model.score(images), expected)


def models(folder, onnx):
    return [str(onnx), f"{folder / 'mine.py'}:score"]


@pytest.mark.parametrize("at", [0, 1], ids=["onnx", "python"])
def test_measured_audited_and_rewarding(at, folder, onnx, episodes, tmp_path):
    for file in (onnx, folder / "model.json", folder / "mine.py"):
        shutil.copy(file, tmp_path)
    model = [str(tmp_path / "model.onnx"), f"{tmp_path / 'mine.py'}:score"][at]
    found = plaudit.reward_eval(model, episodes, flags=["--threshold", "0.5"])
    assert 0 <= found.data["metrics"]["auc"] <= 1
    audit = plaudit.audit(model, episodes, output=tmp_path / "audit", flags=["--max-fpr", "0.9", "--stress-frames", "1"])
    assert isinstance(audit.passed, bool) and Path(tmp_path / "audit" / "audit.html").exists()
    card = plaudit.RewardModel(model).card
    assert card["temperature"] == pytest.approx(audit.data["operating"]["temperature"])
    run = plaudit.train(
        "pickcube_ppo",
        quiet=True,
        reward__model__model_type="custom",
        reward__model__model_path=model,
        reward__use_reward_model=True,
        runner__max_epochs=1,
        runner__val_check_interval=-1,
        env__train__total_num_envs=2,
        actor__global_batch_size=10,
        actor__micro_batch_size=10,
        algorithm__update_epoch=1,
        runner__logger__log_path=tmp_path / "run",
    )
    assert any(name.startswith("reward/") for name in run.metrics), run.metrics


@pytest.mark.parametrize("at", [0, 1], ids=["onnx", "python"])
def test_served(at, folder, onnx, images):
    path = models(folder, onnx)[at]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "plaudit", "serve", path, "--port", str(port), "--threshold", "0.5"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert "listening on" in server.stdout.readline()
        remote, here = plaudit.RewardModel(f"http://127.0.0.1:{port}"), plaudit.RewardModel(path)
        np.testing.assert_allclose(remote.score(images), here.score(images), atol=1e-5)
        assert remote.threshold == pytest.approx(0.5)
    finally:
        server.terminate()
        server.wait(30)


def test_a_function_rewards_a_gymnasium_environment(folder):
    model = plaudit.RewardModel(f"{folder / 'mine.py'}:score")
    env = plaudit.wrap(gym.make("plaudit/PickCube-v1", obs_mode="rgb"), model, threshold="none")
    env.reset(seed=0)
    _, reward, _, _, info = env.step(env.action_space.sample())
    assert 0 <= reward <= 1 and info["reward_score"] == pytest.approx(reward)
