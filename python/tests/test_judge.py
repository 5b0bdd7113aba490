"""A vision-language judge: a tiny one with random weights, which knows nothing and shows that everything is connected."""

from pathlib import Path

import numpy as np
import pytest

import plaudit

FOLDER = Path(__file__).parents[2] / "crates" / "nn" / "tests" / "qwen3_vl" / "model"

pytestmark = pytest.mark.skipif(not (FOLDER / "model.safetensors").exists(), reason="needs the repository")


@pytest.fixture(scope="module")
def judge():
    return plaudit.RewardModel(FOLDER, device="cpu")


@pytest.fixture
def frames():
    return np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)


def test_a_judge_scores_windows_and_frames(judge, frames):
    assert judge.kind == "judge" and judge.image_keys == [] and judge.threshold is None
    one = judge.score_windows(frames, task="pick up the cube")
    assert 0 < one < 1
    two = judge.score_windows({"a": frames[None], "b": frames[None]}, task="pick up the cube")
    assert two.shape == (1,) and two[0] != pytest.approx(one, abs=1e-9)
    for readout in ("progress", "success"):
        assert np.isfinite(judge.score_windows(frames, task="pick up the cube", readout=readout))
    assert 0 <= judge.score(frames[0], task="pick up the cube") <= 1
    assert "labels" in judge.card


def test_what_a_judge_cannot_do_is_named(judge, frames):
    for use, words in [
        (lambda: judge.logits(frames), "logits"),
        (lambda: judge.success(frames, task="lift"), "threshold"),
        (lambda: judge.score_windows(frames), "task"),
        (lambda: judge.score_windows(frames, task="lift", readout="mood"), "no readout"),
        (lambda: judge.score_windows(frames[:0], task="lift"), "without frames"),
        (lambda: judge.score_windows(frames.astype(np.float32) / 255, task="lift"), "uint8"),
    ]:
        with pytest.raises(plaudit.Error, match=words):
            use()


def test_a_judge_rewards_windows_of_an_environment(judge):
    pytest.importorskip("gymnasium")
    env = plaudit.make(
        "PickCube-v1", obs_mode="rgb", cameras=[{"name": "base_camera", "width": 64, "height": 64}]
    )
    env = plaudit.wrap(env, judge, mode="history_buffer", window=2, task="pick up the cube")
    env.reset(seed=0)
    seen = [env.step(np.zeros(8, np.float32)) for _ in range(4)]
    words = [set(info["reward_terms"]) for *_, info in seen]
    assert {"model", "env", "model/positive"} <= words[0]
    said = [sum(v for k, v in info["reward_terms"].items() if k.startswith("model/")) for *_, info in seen]
    assert said == [0, 1, 0, 1], "a window every second step"
