"""Recordings of robots in MCAP, by the mcap package and its friends, and what was written.

    pip install mcap mcap-protobuf-support mcap-ros2-support foxglove-schemas-protobuf pillow numpy
    python make_fixtures.py

One file each: Foxglove's messages as protobuf and as JSON, ROS 2's as CDR; chunks by zstd, by lz4, and not compressed.
Frames come at 10 Hz, states at 50, actions at 10 with 20 ms after each frame.
"""

import base64
import io
import json
from pathlib import Path

import numpy as np
from foxglove_schemas_protobuf.CompressedImage_pb2 import CompressedImage
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.writer import CompressionType, Writer
from mcap_protobuf.writer import Writer as ProtobufWriter
from mcap_ros2.writer import Writer as Ros2Writer
from PIL import Image

HERE = Path(__file__).parent
HEIGHT, WIDTH, STEPS = 16, 20, 6
START, FRAME = 1_700_000_000_000_000_000, 100_000_000


def images(seed):
    return np.random.default_rng(seed).integers(0, 255, (STEPS, HEIGHT, WIDTH, 3), dtype=np.uint8)


def png(image):
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


FRONT, WRIST = images(1), images(2)
STATES = np.random.default_rng(3).normal(size=(5 * STEPS + 1, 4))
ACTIONS = np.random.default_rng(4).normal(size=(STEPS, 3))
# States begin 50 ms before the first frame, so that all frames have one.
EVENTS = sorted(
    [(START + FRAME * at, "frame", at) for at in range(STEPS)]
    + [(START - FRAME // 2 + FRAME // 5 * at, "state", at) for at in range(len(STATES))]
    + [(START + FRAME * at + FRAME // 5, "action", at) for at in range(STEPS)]
)


def padded(image):
    """Rows with bytes after the last pixel, as some cameras give them."""
    rows = image.reshape(HEIGHT, -1)
    return np.concatenate([rows, np.full((HEIGHT, 4), 77, np.uint8)], 1).tobytes()


def protobuf(path):
    with open(path, "wb") as file, ProtobufWriter(file, compression=CompressionType.ZSTD, chunk_size=8000) as writer:
        # Numbers of any schema are read from JSON; protobuf has them here as messages of Foxglove's images alone.
        schema = writer._writer.register_schema(name="numbers", encoding="jsonschema", data=b"{}")
        topics = {name: writer._writer.register_channel(topic=f"/{name}", message_encoding="json", schema_id=schema)
                  for name in ("state", "action", "success")}
        for time, what, at in EVENTS:
            if what == "frame":
                front = CompressedImage(data=png(FRONT[at]), format="png", frame_id="front")
                front.timestamp.FromNanoseconds(time)
                wrist = RawImage(data=WRIST[at][:, :, ::-1].tobytes(), width=WIDTH, height=HEIGHT, encoding="bgr8", step=WIDTH * 3)
                writer.write_message("/camera/front", front, log_time=time, publish_time=time)
                writer.write_message("/camera/wrist", wrist, log_time=time - 1_000_000, publish_time=time)
            else:
                numbers = STATES[at] if what == "state" else ACTIONS[at]
                text = json.dumps({"data": numbers.tolist()}).encode()
                writer._writer.add_message(topics[what], log_time=time, data=text, publish_time=time)
        end = START + FRAME * STEPS
        writer._writer.add_message(topics["success"], log_time=end, data=b'{"data": true}', publish_time=end)


def foxglove_json(path):
    with open(path, "wb") as file:
        writer = Writer(file, compression=CompressionType.LZ4, chunk_size=8000)
        writer.start(profile="", library="test")
        schema = lambda name: writer.register_schema(name=name, encoding="jsonschema", data=b"{}")
        channel = lambda topic, name: writer.register_channel(topic=topic, message_encoding="json", schema_id=schema(name))
        front, wrist = channel("/camera/front", "foxglove.CompressedImage"), channel("/camera/wrist", "foxglove.RawImage")
        numbers = {name: channel(f"/robot/{name}", "numbers") for name in ("state", "action", "success", "reward", "task")}
        add = lambda where, time, value: writer.add_message(where, log_time=time, data=json.dumps(value).encode(), publish_time=time)
        text = lambda data: base64.b64encode(data).decode()
        stamp = {"sec": 1, "nsec": 2}
        add(numbers["task"], START, {"data": "pick the cube"})
        for time, what, at in EVENTS:
            if what == "frame":
                add(front, time, {"timestamp": stamp, "frame_id": "f", "data": text(png(FRONT[at])), "format": "png"})
                raw = {"encoding": "rgb8", "width": WIDTH, "height": HEIGHT, "step": WIDTH * 3 + 4, "data": text(padded(WRIST[at]))}
                add(wrist, time, {"timestamp": stamp, "frame_id": "w", **raw})
                add(numbers["success"], time, {"success": at >= STEPS - 2})
                add(numbers["reward"], time, {"reward": at / 10})
            elif what == "state":
                add(numbers["state"], time, {"position": STATES[at].tolist(), "name": list("abcd")})
            else:
                add(numbers["action"], time, {"data": ACTIONS[at].tolist()})
        writer.finish()


HEADER = "std_msgs/Header header\n"
PARTS = """================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
LAYOUT = """================================================================================
MSG: std_msgs/MultiArrayLayout
std_msgs/MultiArrayDimension[] dim
uint32 data_offset
================================================================================
MSG: std_msgs/MultiArrayDimension
string label
uint32 size
uint32 stride
"""
ROS2 = {
    "sensor_msgs/msg/Image": HEADER + "uint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\nuint32 step\nuint8[] data\n" + PARTS,
    "sensor_msgs/msg/CompressedImage": HEADER + "string format\nuint8[] data\n" + PARTS,
    "sensor_msgs/msg/JointState": HEADER + "string[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n" + PARTS,
    "std_msgs/msg/Float64MultiArray": "std_msgs/MultiArrayLayout layout\nfloat64[] data\n" + LAYOUT,
    "std_msgs/msg/Bool": "bool data\n",
    "std_msgs/msg/String": "string data\n",
}


def ros2(path):
    with open(path, "wb") as file:
        writer = Ros2Writer(file, compression=CompressionType.NONE)
        schemas = {name: writer.register_msgdef(name, text) for name, text in ROS2.items()}
        def add(topic, name, time, message):
            writer.write_message(topic=topic, schema=schemas[name], message=message, log_time=time, publish_time=time)
        header = lambda: {"stamp": {"sec": 7, "nanosec": 8}, "frame_id": "base"}
        add("/task", "std_msgs/msg/String", START, {"data": "pick the cube"})
        for time, what, at in EVENTS:
            if what == "frame":
                add("/front/image_raw/compressed", "sensor_msgs/msg/CompressedImage", time,
                    {"header": header(), "format": "rgb8; png compressed bgr8", "data": png(FRONT[at])})
                depth = {"height": HEIGHT, "width": WIDTH, "encoding": "16UC1", "is_bigendian": 0, "step": WIDTH * 2}
                add("/front/depth", "sensor_msgs/msg/Image", time, {"header": header(), **depth, "data": bytes(HEIGHT * WIDTH * 2)})
                wrist = {"height": HEIGHT, "width": WIDTH, "encoding": "rgb8", "is_bigendian": 0, "step": WIDTH * 3 + 4}
                add("/wrist/image_raw", "sensor_msgs/msg/Image", time, {"header": header(), **wrist, "data": padded(WRIST[at])})
            elif what == "state":
                velocity = [0.5] * 4 if at % 2 else []
                add("/joint_states", "sensor_msgs/msg/JointState", time,
                    {"header": header(), "name": list("abcd"), "position": STATES[at].tolist(), "velocity": velocity, "effort": []})
            else:
                layout = {"dim": [{"label": "x", "size": 3, "stride": 3}], "data_offset": 0}
                add("/action", "std_msgs/msg/Float64MultiArray", time, {"layout": layout, "data": ACTIONS[at].tolist()})
        add("/success", "std_msgs/msg/Bool", START + FRAME * STEPS, {"data": False})
        writer.finish()


def weighted(values):
    flat = np.asarray(values).astype(np.int64).ravel()
    return int((flat * (np.arange(flat.size) % 997 + 1)).sum())


def last_state(time):
    return max(at for at in range(len(STATES)) if START - FRAME // 2 + FRAME // 5 * at <= time)


protobuf(HERE / "protobuf.mcap")
foxglove_json(HERE / "json.mcap")
ros2(HERE / "ros2.mcap")
found = {
    "front": weighted(FRONT),
    "wrist": weighted(WRIST),
    "states": [STATES[last_state(START + FRAME * at)].tolist() for at in range(STEPS)],
    "actions": ACTIONS.tolist(),
}
(HERE / "expected.json").write_text(json.dumps(found) + "\n")
