"""Environments written in Python, in plaudit's own learners."""

import json
import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import plaudit

SMALL = {
    "runner.max_epochs": 2,
    "runner.val_check_interval": 2,
    "env.train.total_num_envs": 4,
    "env.train.max_steps_per_rollout_epoch": 20,
    "env.eval.total_num_envs": 2,
    "actor.global_batch_size": 80,
    "actor.micro_batch_size": 80,
    "algorithm.update_epoch": 2,
}


class Reach(gymnasium.Env):
    """A point on a line moves to a target."""

    def __init__(self, reach=0.1, length=10):
        self.reach, self.length = reach, length
        self.observation_space = spaces.Box(-4.0, 4.0, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.point, self.target, self.steps = *self.np_random.uniform(-1.0, 1.0, 2), 0
        return self.seen(), {}

    def step(self, action):
        self.point = float(np.clip(self.point + self.reach * float(action[0]), -4, 4))
        self.steps += 1
        distance = abs(self.point - self.target)
        return self.seen(), -distance, False, self.steps >= self.length, {"success": bool(distance < 0.05)}

    def seen(self):
        return np.array([self.point, self.target], np.float32)


class Reaches(gymnasium.vector.VectorEnv):
    """The same for all rows in one call."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs=1, length=10):
        self.num_envs, self.length = num_envs, length
        self.single_observation_space = spaces.Box(-4.0, 4.0, (2,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = spaces.Box(-4.0, 4.0, (num_envs, 2), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (num_envs, 1), np.float32)

    def reset(self, *, seed=None, options=None):
        self.rng, self.steps = np.random.default_rng(seed), np.zeros(self.num_envs, int)
        self.state = self.rng.uniform(-1, 1, (self.num_envs, 2)).astype(np.float32)
        return self.state.copy(), {}

    def step(self, actions):
        assert actions.shape == (self.num_envs, 1), "one call for all rows"
        self.state[:, 0] = np.clip(self.state[:, 0] + 0.1 * actions[:, 0], -4, 4)
        self.steps += 1
        distance = np.abs(self.state[:, 0] - self.state[:, 1])
        over = self.steps >= self.length
        info = {"success": distance < 0.05}
        if over.any():
            final = np.full(self.num_envs, None, object)
            for row in np.flatnonzero(over):
                final[row] = self.state[row].copy()
            info |= {"final_obs": final, "_final_obs": over}
            self.state[over] = self.rng.uniform(-1, 1, (int(over.sum()), 2))
            self.steps[over] = 0
        return self.state.copy(), -distance, np.zeros(self.num_envs, bool), over, info


def train(tmp_path, env, **overrides):
    where = {"runner.logger.log_path": tmp_path / "run"}
    return plaudit.train("gymnasium_ppo", env=env, quiet=True, **{**SMALL, **where, **overrides})


def local():
    """A class that no module has by name."""

    class Elsewhere(Reach):
        pass

    return Elsewhere


@pytest.mark.parametrize(
    "env", [Reach, Reaches, lambda: Reach(reach=0.2), local()], ids=["class", "vector", "function", "local"]
)
def test_a_class_or_a_function_is_an_environment(tmp_path, env):
    run = train(tmp_path, env)
    assert run.metrics["env/episode_len"] == 10
    assert 0 <= run.metrics["eval/success_once"] <= 1
    assert (run.path / "environment.py").exists()


def test_arguments_of_the_class_stand_in_the_config(tmp_path):
    run = train(tmp_path, Reach, **{"+env.train.init_params.length": 5})
    assert run.metrics["env/episode_len"] == 5


def test_a_run_goes_on_with_the_environment_it_began_with(tmp_path):
    first = train(tmp_path, Reach)
    assert first.metrics["env/episode_len"] == 10
    again = plaudit.train(
        "gymnasium_ppo", env=Reach, quiet=True, runner__resume_dir=first.path, **{**SMALL, "runner.max_epochs": 3}
    )
    assert again.path == first.path
    steps = [json.loads(line)["step"] for line in (first.path / "events.jsonl").read_text().splitlines() if '"metrics"' in line]
    assert max(steps) == 3


def test_a_file_and_its_class_are_an_environment(tmp_path):
    file = tmp_path / "my_env.py"
    file.write_text(
        textwrap.dedent(
            """
            from gymnasium.envs.classic_control import CartPoleEnv
            class Pole(CartPoleEnv):
                pass
            """
        )
    )
    run = train(tmp_path, f"{file}:Pole", env__train__max_episode_steps=12)
    assert run.metrics["env/episode_len"] <= 12
    with pytest.raises(plaudit.RunError) as refused:
        train(tmp_path / "other", f"{file}:Pol")
    assert "has no 'Pol'; it has" in str(refused.value) and "Pole" in str(refused.value)
    assert plaudit.evaluate("gymnasium_random", env="CartPole-v1", quiet=True, runner__logger__log_path=tmp_path / "id").passed


def test_a_class_of_a_script_is_sent_along(tmp_path):
    code = """
    import gymnasium, plaudit
    from gymnasium.envs.classic_control import CartPoleEnv

    class Mine(CartPoleEnv):
        pass

    if __name__ == "__main__":
        run = plaudit.evaluate("gymnasium_random", env=Mine, quiet=True, env__eval__max_episode_steps=20)
        print(run.metrics["eval/episode_len"])
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) <= 20


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Reach(), "was made already"),
        (3, "env is a int"),
        ("nothing.py:Env", "there is no such file"),
        ("no_such_module:Env", "No module named 'no_such_module'"),
    ],
)
def test_what_is_no_environment_is_refused(tmp_path, env, words):
    with pytest.raises(plaudit.Error) as refused:
        train(tmp_path, env)
    assert words in str(refused.value), refused.value


class Broken(Reach):
    def step(self, action):
        raise RuntimeError("the cable is out")


def test_a_mistake_in_the_environment_has_its_traceback(tmp_path):
    with pytest.raises(plaudit.RunError) as failed:
        train(tmp_path, Broken)
    assert "the cable is out" in str(failed.value) and "test_custom.py" in str(failed.value)


def test_embedded_environments_take_no_class(tmp_path):
    with pytest.raises(plaudit.RunError, match="only Gymnasium makes an environment of an entry point"):
        plaudit.train(
            "cartpole_ppo",
            quiet=True,
            runner__logger__log_path=tmp_path / "run",
            env__train__init_params__entry_point="math:sqrt",
        )
