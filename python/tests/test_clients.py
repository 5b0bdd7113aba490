"""Programs of others on plaudit's environments, models and data, as their users run them. `--long` runs these."""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import plaudit

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

# A pole is up for 500 steps at most; one that was learned falls rarely.
SOLVED = 475.0
# As plaudit's recipe `cartpole_ppo` has them.
PPO = {"n_steps": 64, "batch_size": 256, "n_epochs": 8, "gamma": 0.98, "gae_lambda": 0.9, "clip_range": 0.2}


def test_stable_baselines3_learns_what_plaudits_ppo_learns(tmp_path):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO as Learner
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    ours = plaudit.train("cartpole_ppo", quiet=True, runner__logger__log_path=tmp_path / "ours")
    envs = make_vec_env("plaudit/CartPole-v1", n_envs=32, seed=1)
    theirs = Learner("MlpPolicy", envs, learning_rate=lambda left: 1e-3 * left, device="cpu", seed=1, **PPO)
    theirs.learn(60 * 64 * 32)
    mean, _ = evaluate_policy(theirs, gym.make("plaudit/CartPole-v1"), n_eval_episodes=20, warn=False)
    assert ours.metrics["eval/return"] >= SOLVED and mean >= SOLVED, (ours.metrics["eval/return"], mean)


class Reach(gym.Env):
    """A point that is to be brought to a target, seen from above. It has no reward of its own."""

    metadata = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.point, self.target, self.steps = *self.np_random.uniform(-0.9, 0.9, 2), 0
        return self.seen(), {}

    def step(self, action):
        self.point = float(np.clip(self.point + 0.3 * float(action[0]), -1, 1))
        self.steps += 1
        return self.seen(), 0.0, False, self.steps >= 12, {"success": abs(self.point - self.target) < 0.15}

    def seen(self):
        return np.array([self.point, self.target], np.float32)

    def render(self):
        image = np.full((32, 32, 3), 30, np.uint8)
        for value, colour, rows in ((self.target, (40, 220, 40), slice(8, 24)), (self.point, (240, 60, 40), slice(13, 19))):
            at = int(2 + (value + 1) / 2 * 27)
            image[rows, max(at - 2, 0) : at + 2] = colour
        return image


@pytest.fixture(scope="module")
def reach_model(tmp_path_factory):
    """A reward model of that task, from episodes of which half end at the target."""
    work, env, rng = tmp_path_factory.mktemp("reach"), Reach(), np.random.default_rng(0)
    with plaudit.Recorder(work / "episodes") as recorder:
        for seed in range(120):
            obs, _ = env.reset(seed=seed)
            recorder.begin({"camera": env.render(), "state": obs})
            over, gain = False, rng.choice([3.0, 0.5, -1.0])
            while not over:
                action = np.clip([gain * (obs[1] - obs[0]) + rng.normal(0, 0.2)], -1, 1).astype(np.float32)
                obs, reward, terminated, truncated, info = env.step(action)
                over = recorder.step(action, {"camera": env.render(), "state": obs}, reward, terminated, truncated, info)
    run = plaudit.reward_train(
        quiet=True,
        data__data_path=work / "episodes",
        actor__model__arch="resnet10",
        actor__model__image_size=[3, 32, 32],
        runner__max_steps=200,
        runner__val_check_interval=50,
        runner__save_interval=100,
        runner__second_model=False,
        runner__logger__log_path=work / "reward",
    )
    return run.path


def solved(policy, episodes=40):
    """How often a policy brings the point to the target, by the environment's own word."""
    env, count = Reach(), 0
    for seed in range(episodes):
        obs, _ = env.reset(seed=10_000 + seed)
        for _ in range(12):
            obs, _, _, _, info = env.step(policy(obs))
        count += info["success"]
    return count / episodes


def test_under_a_learned_reward_it_learns_what_plaudits_ppo_learns(reach_model, tmp_path):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO as Learner
    from stable_baselines3.common.vec_env import DummyVecEnv

    def rewarded():
        model = plaudit.RewardModel(reach_model, device="cpu")
        return plaudit.wrap(Reach(), model, threshold="none")

    sizes = {"env.train.total_num_envs": 16, "env.train.max_steps_per_rollout_epoch": 48, "env.eval.total_num_envs": 16}
    ours = plaudit.train(
        "gymnasium_ppo",
        env=rewarded,
        quiet=True,
        **sizes,
        algorithm__gamma=0.9,
        actor__global_batch_size=256,
        actor__micro_batch_size=256,
        runner__max_epochs=60,
        runner__val_check_interval=60,
        runner__logger__log_path=tmp_path / "ours",
    )
    envs = DummyVecEnv([rewarded] * 16)
    theirs = Learner("MlpPolicy", envs, n_steps=48, batch_size=256, n_epochs=10, gamma=0.9, learning_rate=1e-3, seed=1, device="cpu")
    theirs.learn(60 * 48 * 16)
    own, other = ours.metrics["eval/success_at_end"], solved(lambda obs: theirs.predict(obs, deterministic=True)[0])
    assert min(own, other) > 0.7 and abs(own - other) < 0.3, (own, other)


REWARDED = """
import gymnasium, numpy as np, plaudit
model = plaudit.RewardModel({model!r}, device="cpu")
def make(render_mode=None):
    env = gymnasium.make("plaudit/CartPole-v1").unwrapped
    dark = lambda obs: {{"main_images": np.full((32, 32, 3), 100 + int(100 * np.clip(obs[2], -1, 1)), np.uint8)}}
    return plaudit.wrap(env, model, images=dark, threshold="none", env_reward_weight=1.0)
gymnasium.register("Rewarded-v0", entry_point=make, max_episode_steps=100)
"""


def _python_of(variable: str, package: str) -> str:
    """A Python of its own, for what needs other versions than the tests."""
    python = os.environ.get(variable)
    if python is None or subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode != 0:
        pytest.skip(f"{variable} names no Python that has {package}")
    return python


# Its algorithms, each in a script of its own, and the sizes that make them short.
CLEANRL = {
    "dqn": ("plaudit/CartPole-v1", ["--total-timesteps", "3000", "--learning-starts", "500"]),
    "dqn, rewarded": ("rewarded:Rewarded-v0", ["--total-timesteps", "3000", "--learning-starts", "500"]),
    "ppo_continuous_action": ("plaudit/PickCube-v1", ["--total-timesteps", "4096"]),
}


@pytest.mark.parametrize("case", CLEANRL)
def test_cleanrl_trains_unchanged(case, checkpoint, tmp_path):
    """Its scripts as they are, with the Gymnasium they are made for: 0.29."""
    python = _python_of("PLAUDIT_CLEANRL_PYTHON", "cleanrl")
    ask = "import gymnasium, importlib.metadata as m; print(gymnasium.__version__, *(f.locate() for f in m.files('cleanrl')), sep='\\n')"
    version, *files = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split("\n")
    assert version.startswith("0.29"), version
    script = next(file for file in files if file.endswith(f"cleanrl/{case.split(',')[0]}.py"))
    (tmp_path / "rewarded.py").write_text(REWARDED.format(model=str(checkpoint)))
    env_id, sizes = CLEANRL[case]
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    words = [python, script, "--env-id", env_id, "--cuda", "False", *sizes]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("episodic_return", done.stdout)) > 20, done.stdout


OLDER = """
import gymnasium, plaudit
from gymnasium.utils.env_checker import check_env
assert gymnasium.__version__.startswith("0.29")
check_env(gymnasium.make("plaudit/PickCube-v1").unwrapped, skip_render_check=True)
model = plaudit.RewardModel({model!r}, device="cpu")
shown = lambda: gymnasium.make("plaudit/PickCube-v1", obs_mode="rgb")
env = plaudit.wrap(shown(), model)
env.reset(seed=0)
assert "reward_score" in env.step(env.action_space.sample())[4]
envs = plaudit.wrap(gymnasium.vector.SyncVectorEnv([shown] * 3), model, threshold="none")
envs.reset(seed=0)
for step in range(60):  # an episode is 50 steps, so that all of them begin anew
    obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert reward.shape == (3,) and info["reward_score"].shape == (3,)
    assert not truncated.any() or "final_observation" in info
try:
    plaudit.make_vec("PickCube-v1", 2)
except plaudit.MissingPackage as error:
    assert "need Gymnasium 1.1, and this is 0.29" in str(error), error
else:
    raise AssertionError("vectors of plaudit's own need Gymnasium 1.1")
"""


@pytest.mark.parametrize("first", ["gymnasium", "plaudit"])
def test_gymnasium_0_29_has_the_environments_and_their_wrappers(first, checkpoint):
    """ManiSkill and CleanRL are made for it, and it looks for plugins in the middle of being imported."""
    python = _python_of("PLAUDIT_CLEANRL_PYTHON", "cleanrl")
    code = f"import {first}\n" + OLDER.format(model=str(checkpoint))
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_images_of_transformers_processors_are_scored(model):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    images = [np.random.default_rng(at).integers(0, 256, (48, 64, 3), dtype=np.uint8) for at in range(3)]
    size = {"height": 32, "width": 32}
    for kind in ("ViTImageProcessor", "ViTImageProcessorFast"):
        processor = getattr(transformers, kind, None)
        if processor is None:
            continue
        prepared = processor(do_resize=True, size=size, do_rescale=True, do_normalize=False)(images, return_tensors="pt")
        pixels = prepared["pixel_values"]
        assert pixels.shape == (3, 3, 32, 32)
        scores = model.score(pixels)
        assert scores.shape == (3,) and np.all(np.isfinite(scores))
        bytes_of = (pixels * 255).round().to(dtype=__import__("torch").uint8)
        np.testing.assert_allclose(scores, model.score(bytes_of), atol=1e-3)
    # What is normalised already is no image any more, and is refused.
    normalised = transformers.ViTImageProcessor(size=size)(images, return_tensors="pt")["pixel_values"]
    with pytest.raises(plaudit.InputError, match="0..1"):
        model.score(normalised)


def test_what_lerobot_writes_is_read(tmp_path):
    datasets = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    features = {
        "observation.images.top": {"dtype": "image", "shape": (48, 64, 3), "names": ["height", "width", "channels"]},
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    }
    rng = np.random.default_rng(0)
    dataset = datasets.LeRobotDataset.create("local/made", fps=10, features=features, root=tmp_path / "made", use_videos=False)
    seen = []
    for episode in range(2):
        images = rng.integers(0, 256, (6, 48, 64, 3), dtype=np.uint8)
        for at, image in enumerate(images):
            frame = {
                "observation.images.top": image,
                "observation.state": np.full(2, at, np.float32),
                "action": np.full(2, -at, np.float32),
                "next.success": np.array([episode == 1 and at == 5]),
                "task": "stack the blocks",
            }
            dataset.add_frame(frame)
        dataset.save_episode()
        seen.append(images)
    if hasattr(dataset, "finalize"):
        dataset.finalize()
    found = list(plaudit.open(tmp_path / "made"))
    assert [len(recording) for recording in found] == [6, 6]
    for recording, images in zip(found, seen):
        np.testing.assert_array_equal(recording.frames(), images)
        np.testing.assert_array_equal(recording.states[:, 0], np.arange(6))
        assert recording.task == "stack the blocks"
    assert [recording.success for recording in found] == [False, True]


LOGGERS = {
    "wandb": {"WANDB_MODE": "offline"},
    "mlflow": {"MLFLOW_TRACKING_URI": "sqlite:///{folder}/mlflow.db"},
    "trackio": {"TRACKIO_DIR": "{folder}/trackio"},
}


@pytest.mark.parametrize("backend", LOGGERS)
def test_loggers_get_metrics_videos_and_the_audit(backend, checkpoint, tmp_path, monkeypatch):
    import shutil

    python = _python_of("PLAUDIT_LOGGER_PYTHON", backend)
    for name, value in LOGGERS[backend].items():
        monkeypatch.setenv(name, value.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)  # MLflow puts files below the folder it runs in
    model = shutil.copytree(checkpoint, tmp_path / "model")
    # On episodes of its training an audit is not stored.
    plaudit.collect(
        "pickcube_scripted",
        episodes=8,
        quiet=True,
        env__eval__total_num_envs=4,
        env__eval__seed=77,
        env__eval__data_collection__save_dir=tmp_path / "others",
        actor__model__noise=0.15,
        runner__logger__log_path=tmp_path / "collect",
    )
    plaudit.audit(model, tmp_path / "others", output=tmp_path / "audit")
    assert list(model.glob("**/*.audit.json")), "an audit that is stored leaves its result beside the model"
    run = plaudit.train(
        "pickcube_ppo",
        quiet=True,
        reward__use_reward_model=True,
        reward__model__model_path=model,
        runner__max_epochs=1,
        runner__val_check_interval=1,
        env__train__total_num_envs=2,
        env__eval__total_num_envs=1,
        env__eval__video_cfg__save_video=True,
        actor__global_batch_size=10,
        actor__micro_batch_size=10,
        algorithm__update_epoch=1,
        **{"runner.logger.logger_backends": ["tensorboard", backend], "runner.logger.python": python},
        runner__logger__log_path=tmp_path / "run",
    )
    said = (run.path / "loggers" / f"{backend}.txt").read_text()
    assert "Traceback" not in said, said
    files = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    there = "\n".join(files)
    if backend == "wandb":
        assert re.search(r"run/wandb/offline-run-.*/files/media/videos/.*mp4", there), there
        assert re.search(r"files/media/table/audit/findings", there), there
        assert "audit.json" in there.split("offline-run")[-1] or "files/model.audit.json" in there, there
    if backend == "mlflow":
        assert re.search(r"artifacts/video.*mp4", there) and re.search(r"artifacts/audit/.*audit.json", there), there
        with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as base:
            names = {name for (name,) in base.execute("SELECT DISTINCT key FROM metrics")}
        assert "audit/threshold" in names and any(name.startswith("env/") for name in names), names
    if backend == "trackio":
        assert re.search(r"trackio/.*\.(db|sqlite)", there) and ".mp4" in there.split("trackio/", 1)[1], there


def test_a_script_shows_that_ctrl_c_in_a_notebook_cell_stops_a_run(tmp_path):
    """Jupyter interrupts a cell by SIGINT to the kernel."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cell = f"""
    import _thread, threading
    import plaudit
    threading.Timer(8, _thread.interrupt_main).start()
    try:
        plaudit.train("cartpole_ppo", runner__max_epochs=100_000, runner__logger__log_path={str(tmp_path / "run")!r})
        print("came to its end")
    except KeyboardInterrupt:
        print("interrupted")
    """
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell))])
    nbclient.NotebookClient(book, timeout=300).execute()
    outputs = book.cells[0].outputs
    text = "".join(output.get("text", "") for output in outputs)
    assert "interrupted" in text, outputs
    assert any("<progress" in str(output) for output in outputs)
