"""Trajectories recorded by ManiSkill itself, with the states of its simulator: without observations, and with full states.

    pip install mani_skill==3.0.1 torch
    python make_maniskill.py

PickCube-v1 and PegInsertionSide-v1 run on the CPU by PhysX, and `RecordEpisode` writes the files. Nothing is drawn: a machine without a GPU has
no renderer for ManiSkill, so that whatever is only seen is replaced by nothing here.
"""

import shutil
from pathlib import Path

import sapien
import sapien.wrapper.actor_builder as actor_builder
import sapien.wrapper.urdf_loader as urdf_loader


class Unseen:
    """A material, a texture or a renderer that nobody needs."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, _):
        return lambda *_, **__: None


for name in ("RenderMaterial", "RenderTexture2D", "RenderSystem"):
    setattr(sapien.render, name, Unseen)
    setattr(urdf_loader, name, Unseen)
for name in dir(actor_builder.ActorBuilder):
    if name.startswith("add_") and "visual" in name:
        setattr(actor_builder.ActorBuilder, name, lambda self, *_, **__: self)

import gymnasium as gym  # noqa: E402  (after what it would draw with is gone)
import mani_skill.envs  # noqa: E402, F401
from mani_skill.utils.wrappers.record import RecordEpisode  # noqa: E402

HERE = Path(__file__).parent / "maniskill_recorded"
STEPS = 8


def record(env_id, obs_mode, name):
    env = gym.make(
        env_id, obs_mode=obs_mode, control_mode="pd_joint_delta_pos", render_backend="none", sim_backend="physx_cpu", num_envs=1
    )
    env = RecordEpisode(env, HERE, trajectory_name=name, save_video=False, record_env_state=True)
    for seed in range(2):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(STEPS):
            env.step(env.action_space.sample())
    env.close()


shutil.rmtree(HERE, ignore_errors=True)
HERE.mkdir()
record("PickCube-v1", "none", "pick_cube.none")
record("PickCube-v1", "state", "pick_cube.state")
record("PegInsertionSide-v1", "state", "peg_insertion.state")
