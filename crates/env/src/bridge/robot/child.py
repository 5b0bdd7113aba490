"""The Python side of a LeRobot arm: connects to a robot and a teleoperator, reads the one and moves the other.

It runs in the user's interpreter and needs lerobot (0.4 or later). link.py stands before it in the same program.

    in    u32 length, JSON          settings; later the layout of the shared memory
    in    b"o", 0                   observe: the robot's numbers and images, the teleoperator's action and events
    in    b"a", 0                   act: send the targets that lie in shared memory
    out   b"k"                      done: the answer lies in shared memory
    out   b"j", u32 length, JSON    what the robot is like
    out   b"e", u32 length, JSON    what went wrong

Nothing here decides where the robot goes. When plaudit is gone, nothing more is sent: the motors keep their last goal.
"""

import dataclasses
import difflib
import os
import pkgutil

EVENTS = ("is_intervention", "success", "failure", "terminate_episode", "rerecord_episode")


# ------------------------------------------------------------------------------------------------- making


def register_plugins():
    """Imports packages that are called lerobot_robot_..., as lerobot's own scripts do."""
    from lerobot.utils import import_utils

    for name in ("register_third_party_plugins", "register_third_party_devices"):
        if hasattr(import_utils, name):
            getattr(import_utils, name)()
            return


def import_until(package, registry, wanted):
    """Imports what is in `package`, part by part, until `wanted` is registered. Returns parts that cannot be imported."""
    broken = []
    for part in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if wanted in registry.get_known_choices():
            break
        try:
            importlib.import_module(part.name)
        except Exception as error:  # its maker's library is not installed; another part may be the one
            broken.append("%s (%s)" % (part.name, error))
    return broken


def config_of(registry, package, written, what):
    """The config that `written` describes, with its `type`."""
    import draccus

    kind = written.get("type")
    if not isinstance(kind, str) or not kind:
        raise Refused("the %s has no type; name one, such as %s" % (what, example_of(what)))
    broken = import_until(package, registry, kind)
    known = registry.get_known_choices()
    if kind not in known:
        near = difflib.get_close_matches(kind, known, 1, 0.6)
        hint = "did you mean %r? " % near[0] if near else ""
        missing = "; these could not be imported: %s" % "; ".join(broken) if broken else ""
        words = (what, kind, hint, ", ".join(sorted(known)), missing)
        raise Refused("lerobot has no %s of type %r; %sit has %s%s" % words)
    written = dict(written)
    fields = {field.name for field in dataclasses.fields(known[kind])}
    unknown = sorted(set(written) - fields - {"type"})
    if unknown:
        words = (what, kind, unknown[0], ", ".join(sorted(fields)))
        raise Refused("the %s %r has no setting %r; it has %s" % words)
    if "disable_torque_on_disconnect" in fields:
        # An arm without torque falls: it keeps it unless somebody asks otherwise.
        written.setdefault("disable_torque_on_disconnect", False)
    try:
        return draccus.decode(registry, written)
    except Exception as error:
        raise Refused("the settings of the %s %r cannot be used: %s" % (what, kind, error))


def example_of(what):
    return "so101_follower" if what == "robot" else "so101_leader"


def make_robot(written):
    import lerobot.cameras
    import lerobot.robots

    if written.get("cameras"):
        for camera in written["cameras"].values():
            import_until(lerobot.cameras, lerobot.cameras.CameraConfig, (camera or {}).get("type"))
    config = config_of(lerobot.robots.RobotConfig, lerobot.robots, written, "robot")
    return lerobot.robots.make_robot_from_config(config)


def make_teleop(written):
    import lerobot.teleoperators

    config = config_of(lerobot.teleoperators.TeleoperatorConfig, lerobot.teleoperators, written, "teleoperator")
    return lerobot.teleoperators.make_teleoperator_from_config(config)


def connect(device, what):
    """Connects without calibrating, which would ask a person here, where there is none."""
    device.connect(calibrate=False)
    if device.is_calibrated is False:
        device.disconnect()
        raise Refused("the %s is not calibrated; calibrate it with lerobot-calibrate first" % what)


# ------------------------------------------------------------------------------------------------- features


def numbers_and_cameras(features):
    """Names of numbers, and names of images with their shapes, in the robot's own order."""
    numbers, cameras = [], []
    for name, feature in features.items():
        if feature in (float, int, bool):
            numbers.append(name)
        elif isinstance(feature, (tuple, list)) and len(feature) == 3 and feature[2] == 3:
            cameras.append((name, tuple(int(side) for side in feature)))
        else:
            words = "the robot's observation %r is %s; numbers and colour images (height, width, 3) can be used"
            raise Refused(words % (name, feature))
    return numbers, cameras


def joints_of(robot, numbers):
    joints = list(robot.action_features)
    for name in joints:
        if robot.action_features[name] not in (float, int):
            raise Refused("the robot's action %r is %s, not a number" % (name, robot.action_features[name]))
        if not name.endswith(".pos"):
            raise Refused("the robot's action %r is no joint position (`.pos`), which is all that can be guarded" % name)
        if name not in numbers:
            raise Refused("the robot does not observe %r, so nobody could tell where that joint is" % name)
    if not joints:
        raise Refused("the robot has no action")
    return joints


def check_teleop(teleop, joints):
    given = list(teleop.action_features)
    missing = [name for name in joints if name not in given]
    if missing:
        words = "the teleoperator gives %s, not the robot's %s; a leader arm of the same kind does"
        raise Refused(words % (", ".join(map(repr, given)) or "nothing", ", ".join(map(repr, missing))))


# ----------------------------------------------------------------------------------------------------- loop


class Arm:
    """A robot, perhaps a teleoperator, and where their numbers are written."""

    def __init__(self, robot, teleop):
        self.robot, self.teleop = robot, teleop
        self.numbers, self.cameras = numbers_and_cameras(robot.observation_features)
        self.joints = joints_of(robot, self.numbers)
        if teleop is not None:
            check_teleop(teleop, self.joints)
        self.has_events = hasattr(teleop, "get_teleop_events")

    def hello(self):
        cameras = [dict(zip(("name", "height", "width", "channels"), (name,) + shape)) for name, shape in self.cameras]
        return {
            "state": self.numbers,
            "joints": self.joints,
            "cameras": cameras,
            "has_teleop": self.teleop is not None,
            "has_events": self.has_events,
        }

    def join(self, arrays):
        self.arrays = arrays

    def observe(self):
        seen, arrays = self.robot.get_observation(), self.arrays
        for at, name in enumerate(self.numbers):
            arrays["state"][0, at] = float(self.find(seen, name, "robot"))
        for at, (name, shape) in enumerate(self.cameras):
            image = np.asarray(self.find(seen, name, "robot"))
            if image.shape != shape or image.dtype != np.uint8:
                raise Refused("camera %r shows %s of %s, not uint8 of %s" % (name, image.dtype, image.shape, shape))
            arrays["camera_%d" % at][0] = image
        if self.teleop is not None:
            led = self.teleop.get_action()
            for at, name in enumerate(self.joints):
                arrays["leader"][0, at] = float(self.find(led, name, "teleoperator"))
        if self.has_events:
            events = {str(getattr(key, "value", key)): value for key, value in self.teleop.get_teleop_events().items()}
            arrays["events"][0] = [bool(events.get(name, False)) for name in EVENTS]

    @staticmethod
    def find(values, name, what):
        if name not in values:
            raise Refused("the %s did not report %r, which it has among its features" % (what, name))
        return values[name]

    def act(self):
        targets = self.arrays["targets"][0]
        wanted = {name: float(targets[at]) for at, name in enumerate(self.joints)}
        sent = self.robot.send_action(dict(wanted)) or wanted
        for at, name in enumerate(self.joints):
            self.arrays["sent"][0, at] = float(sent.get(name, wanted[name]))

    def close(self):
        for device in (self.teleop, self.robot):
            try:
                if device is not None and device.is_connected:
                    device.disconnect()
            except Exception:
                traceback.print_exc()


def start(link, settings):
    import lerobot  # first of all, so that its absence is what is reported

    register_plugins()
    for name in settings["import"]:
        bring_in(name)
    robot = make_robot(settings["robot"])
    teleop = make_teleop(settings["teleop"]) if settings["teleop"] is not None else None
    arm = Arm(robot, teleop)  # what cannot be used is refused before anything is connected
    try:
        connect(robot, "robot")
        if teleop is not None:
            connect(teleop, "teleoperator")
        link.send(b"j", arm.hello())
        arm.join(link.map(link.read_json()))
    except BaseException:
        arm.close()
        raise
    os.write(link.socket, b"k")
    return arm


def serve(link, arm):
    orders = {b"o": arm.observe, b"a": arm.act}
    while True:
        order = link.read_order()
        if len(order) < 2:
            break
        try:
            orders[order[:1]]()
            os.write(link.socket, b"k")
        except Exception as error:
            link.send(b"e", report_of(error, ()))


def main():
    global np
    link = Link()
    die_with_parent()
    explain_crashes()
    settings = link.read_json()
    try:
        import numpy as np

        arm = start(link, settings)
    except EOFError:
        return
    except Exception as error:
        link.send(b"e", report_of(error, ("numpy", "lerobot")))
        return
    try:
        serve(link, arm)
    except (BrokenPipeError, ConnectionResetError):
        pass
    arm.close()


main()
