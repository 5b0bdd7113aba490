"""A robot and two teleoperators without hardware, registered with lerobot as a plugin's are.

The arm has three joints that follow their goals with lag in real time, and one camera. It writes down every goal it is
sent, and breaks where its config says so.
"""

import json
import os
import time
from dataclasses import dataclass

import numpy as np
from lerobot.robots import Robot, RobotConfig
from lerobot.teleoperators import Teleoperator, TeleoperatorConfig
from lerobot.teleoperators.utils import TeleopEvents

JOINTS = ("shoulder.pos", "elbow.pos", "gripper.pos")
RATE_HZ = 20.0  # of the way to its goal that a joint covers in a second


@RobotConfig.register_subclass("desk_arm")
@dataclass
class DeskArmConfig(RobotConfig):
    log: str = ""  # where goals are written down
    disable_torque_on_disconnect: bool = True
    calibrated: bool = True
    extra_action: str = ""  # one more action feature, which need not be a position
    depth: bool = False  # a camera that shows depth
    fail: str = ""  # raise, hang, exit or nan
    fail_from: int = -1  # at which observation, counted from 0
    fail_until: int = 1 << 30
    fail_secs: float = 1e9  # or for so long, however often it is asked
    hang_secs: float = 3600.0


class DeskArm(Robot):
    config_class = DeskArmConfig
    name = "desk_arm"

    def __init__(self, config):
        super().__init__(config)
        self.config, self.connected, self.observed = config, False, 0
        self.failed = None  # since when
        self.at, self.goal, self.moved = np.array([10.0, -20.0, 50.0]), None, time.monotonic()

    @property
    def observation_features(self):
        features = {name: float for name in JOINTS}
        features["load"] = float
        features["front"] = (48, 64, 3)
        if self.config.depth:
            features["depth"] = (48, 64, 1)
        return features

    @property
    def action_features(self):
        extra = [self.config.extra_action] if self.config.extra_action else []
        return {name: float for name in list(JOINTS) + extra}

    @property
    def is_connected(self):
        return self.connected

    def connect(self, calibrate=True):
        self.connected = True
        self.write({"connect": calibrate})

    @property
    def is_calibrated(self):
        return self.config.calibrated

    def calibrate(self):
        raise RuntimeError("nobody asked for this")

    def configure(self):
        pass

    def move(self):
        now = time.monotonic()
        if self.goal is not None:
            self.at = self.at + (self.goal - self.at) * (1.0 - np.exp(-RATE_HZ * (now - self.moved)))
        self.moved = now

    def get_observation(self):
        count, self.observed = self.observed, self.observed + 1
        self.move()
        seen = {name: float(at) for name, at in zip(JOINTS, self.at)}
        fails = self.config.fail_from >= 0 and self.config.fail_from <= count < self.config.fail_until
        if fails and self.failed is None:
            self.failed = time.monotonic()
        if fails and time.monotonic() - self.failed < self.config.fail_secs:
            if self.config.fail == "raise":
                raise TimeoutError("camera `front` has no new frame")
            if self.config.fail == "hang":
                time.sleep(self.config.hang_secs)
            if self.config.fail == "exit":
                os._exit(3)
            if self.config.fail == "nan":
                seen["elbow.pos"] = float("nan")
        seen["load"] = 0.5
        image = np.zeros((48, 64, 3), dtype=np.uint8)
        image[:, :, 0] = 200
        image[:, :, 1] = int(np.clip(self.at[0], 0, 255))
        seen["front"] = image
        return seen

    def send_action(self, action):
        self.move()
        self.goal = np.array([action[name] for name in JOINTS])
        self.write({"goal": self.goal.tolist(), "at": self.at.tolist()})
        return dict(action)

    def disconnect(self):
        self.connected = False
        self.write({"disconnect": self.config.disable_torque_on_disconnect})

    def write(self, line):
        if self.config.log:
            with open(self.config.log, "a") as log:
                log.write(json.dumps(line) + "\n")


@TeleoperatorConfig.register_subclass("desk_leader")
@dataclass
class DeskLeaderConfig(TeleoperatorConfig):
    still_secs: float = 0.0  # stands still at first
    names: str = ""  # other actions than the robot's, separated by commas


class DeskLeader(Teleoperator):
    """Swings the shoulder, and goes far outside of what the elbow may do."""

    config_class = DeskLeaderConfig
    name = "desk_leader"

    def __init__(self, config):
        super().__init__(config)
        self.config, self.connected, self.began = config, False, time.monotonic()

    @property
    def action_features(self):
        names = self.config.names.split(",") if self.config.names else JOINTS
        return {name: float for name in names}

    @property
    def feedback_features(self):
        return {}

    @property
    def is_connected(self):
        return self.connected

    def connect(self, calibrate=True):
        self.connected, self.began = True, time.monotonic()

    @property
    def is_calibrated(self):
        return True

    def calibrate(self):
        pass

    def configure(self):
        pass

    def secs(self):
        return max(0.0, time.monotonic() - self.began - self.config.still_secs)

    def get_action(self):
        secs = self.secs()
        swing = 10.0 + 30.0 * float(np.sin(secs))
        return dict(zip(JOINTS, (swing, -20.0 - 500.0 * min(secs, 1.0), 50.0)))

    def send_feedback(self, feedback):
        pass

    def disconnect(self):
        self.connected = False


@TeleoperatorConfig.register_subclass("desk_leader_events")
@dataclass
class DeskLeaderEventsConfig(DeskLeaderConfig):
    success_at: float = 1.0
    rerecord_at: float = -1.0


class DeskLeaderEvents(DeskLeader):
    """Tells when it acts, and that the episode succeeded: once in every so many seconds."""

    config_class = DeskLeaderEventsConfig
    name = "desk_leader_events"

    def get_teleop_events(self):
        secs = self.secs()
        events = {TeleopEvents.IS_INTERVENTION: secs > 0.3}
        if self.config.success_at >= 0 and secs >= self.config.success_at:
            events[TeleopEvents.SUCCESS] = True
            self.began = time.monotonic()
        if 0 <= self.config.rerecord_at <= secs:
            events[TeleopEvents.RERECORD_EPISODE] = True
            self.began, self.config.rerecord_at = time.monotonic(), -1.0
        return events
