"""Environment steps per second of PPO, end to end: plaudit compared with Stable-Baselines3 and CleanRL.

    python bench/ppo/bench.py PLAUDIT CLEANRL [rounds]

PLAUDIT is the binary, CLEANRL the folder `cleanrl` of its package (`pip download cleanrl --no-deps`, 0.4.8). Needs
stable-baselines3, gymnasium and tensorboard. All three learn with CleanRL's settings: the same number of environments,
steps, batches, passes and hidden units. Each runs in a process of its own, in turns; what is timed is learning, without
the seconds in which Python loads torch. CleanRL's file runs as it is; a few lines here give it today's Gymnasium under
the names of the one it was written for.
"""

import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

TASKS = {"CartPole-v1": ("cartpole_ppo", "ppo.py"), "Pendulum-v1": ("pendulum_ppo", "ppo_continuous_action.py")}
ENVS, STEPS, BATCHES, PASSES = 4, 128, 4, 4
PYTHON_STEPS, PLAUDIT_STEPS = 512 * 30, 512 * 200  # long enough for each to forget its start


def plaudit(binary, task):
    recipe, _ = TASKS[task]
    with tempfile.TemporaryDirectory() as folder:
        words = [
            binary, "-q", "train", recipe, f"runner.logger.log_path={folder}/run", "runner.val_check_interval=-1",
            f"runner.max_epochs={PLAUDIT_STEPS // (ENVS * STEPS)}", f"env.train.total_num_envs={ENVS}",
            f"env.train.max_steps_per_rollout_epoch={STEPS}", f"algorithm.update_epoch={PASSES}",
            f"actor.global_batch_size={ENVS * STEPS // BATCHES}", f"actor.micro_batch_size={ENVS * STEPS // BATCHES}",
            "actor.model.hidden_sizes=[64,64]", "algorithm.entropy_bonus=0.01", "algorithm.value_clip=0.2",
            "algorithm.gamma=0.99", "algorithm.gae_lambda=0.95", "actor.optim.lr=2.5e-4",
        ]
        began = time.time()
        subprocess.run(words, check=True)
        return PLAUDIT_STEPS / (time.time() - began)  # the whole process, from its first to its last moment


def stable_baselines(task):
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(task, n_envs=ENVS, seed=1)
    learner = PPO("MlpPolicy", envs, n_steps=STEPS, batch_size=ENVS * STEPS // BATCHES, n_epochs=PASSES, gamma=0.99,
                  gae_lambda=0.95, learning_rate=2.5e-4, ent_coef=0.01, clip_range_vf=0.2, device="cpu", seed=1,
                  policy_kwargs=dict(net_arch=[64, 64]))
    began = time.time()
    learner.learn(PYTHON_STEPS)
    return PYTHON_STEPS / (time.time() - began), torch.get_num_threads()


def cleanrl(folder, task):
    import torch

    lend_gymnasium_as_gym()
    _, file = TASKS[task]
    words = [f"--gym-id={task}", f"--num-envs={ENVS}", f"--num-steps={STEPS}", f"--n-minibatch={BATCHES}",
             f"--update-epochs={PASSES}", f"--total-timesteps={PYTHON_STEPS}", "--cuda=False", "--learning-rate=2.5e-4",
             "--gae-lambda=0.95", "--gamma=0.99", "--ent-coef=0.01"]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        sys.argv = [file] + words
        import torch.utils.tensorboard  # noqa: F401  (loading is not learning)
        import stable_baselines3.common.vec_env  # noqa: F401

        began = time.time()
        sys.stdout = open(os.devnull, "w")
        runpy.run_path(os.path.join(folder, file), run_name="__main__")
        sys.stdout = sys.__stdout__
        return PYTHON_STEPS / (time.time() - began), torch.get_num_threads()


def lend_gymnasium_as_gym():
    """CleanRL 0.4.8 was written for gym, whose steps gave four things; what it uses of it, over today's Gymnasium."""
    import types

    import gymnasium
    import numpy as np
    from gymnasium.wrappers import TimeLimit
    from stable_baselines3.common import vec_env

    class Older(gymnasium.Wrapper):
        def seed(self, seed):
            self.next_seed = seed

        def reset(self, **_):
            seed, self.next_seed = getattr(self, "next_seed", None), None
            return self.env.reset(seed=seed)[0]

        def step(self, action):
            obs, reward, terminated, truncated, info = self.env.step(action)
            return obs, reward, terminated or truncated, info

    class RecordEpisodeStatistics(gymnasium.Wrapper):
        def reset(self, **_):
            self.total, self.length = 0.0, 0
            return self.env.reset()

        def step(self, action):
            obs, reward, done, info = self.env.step(action)
            self.total, self.length = self.total + reward, self.length + 1
            if done:
                info["episode"] = {"r": self.total, "l": self.length}
            return obs, reward, done, info

        def seed(self, seed):
            self.env.seed(seed)

    class Newer(gymnasium.Wrapper):
        def reset(self, **_):
            return self.env.reset(), {}

        def step(self, action):
            obs, reward, done, info = self.env.step(action)
            return obs, float(np.asarray(reward).item()), done, False, info

    class Wrapper(gymnasium.Wrapper):
        def seed(self, seed):
            self.env.seed(seed)

    gym = types.ModuleType("gym")
    gym.Wrapper, gym.spaces, gym.Env = Wrapper, gymnasium.spaces, gymnasium.Env
    gym.core, gym.wrappers = types.ModuleType("gym.core"), types.ModuleType("gym.wrappers")
    gym.core.Wrapper = Wrapper
    gym.make = lambda task: Older(gymnasium.make(task))
    gym.wrappers.TimeLimit, gym.wrappers.Monitor = TimeLimit, lambda env, *_: env  # no videos
    gym.wrappers.RecordEpisodeStatistics = RecordEpisodeStatistics
    modules = {"gym": gym, "gym.core": gym.core, "gym.wrappers": gym.wrappers, "gym.spaces": gymnasium.spaces}
    modules["pybullet_envs"] = types.ModuleType("pybullet_envs")  # more tasks, none of which are used
    sys.modules.update(modules)
    side_by_side = vec_env.DummyVecEnv
    vec_env.DummyVecEnv = lambda makers: side_by_side([lambda make=make: Newer(make()) for make in makers])


def in_its_own_process(*words):
    output = subprocess.run([sys.executable, __file__, "--one", *words], check=True, capture_output=True, text=True)
    return json.loads(output.stdout.splitlines()[-1])


def main():
    if sys.argv[1] == "--one":
        which, task, *rest = sys.argv[2:]
        result = stable_baselines(task) if which == "sb3" else cleanrl(rest[0], task)
        print(json.dumps(result))
        return
    binary, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    for task in TASKS:
        rates = {"plaudit": [], "sb3": [], "cleanrl": []}
        for _ in range(rounds):
            rates["plaudit"].append(plaudit(binary, task))
            rate, threads = in_its_own_process("sb3", task)
            rates["sb3"].append(rate)
            rates["cleanrl"].append(in_its_own_process("cleanrl", task, folder)[0])
        print(f"{task} ({threads} threads each)")
        for name, values in rates.items():
            ratios = [ours / theirs for ours, theirs in zip(rates["plaudit"], values)]
            spread = f"{statistics.median(ratios):.1f}x ({min(ratios):.1f}-{max(ratios):.1f})"
            print(f"  {name:8} {statistics.median(values):9.0f} steps/s ({min(values):.0f}-{max(values):.0f})  {spread}")


main()
