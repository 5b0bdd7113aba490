"""Reads a directory of event files with TensorBoard's own reader, and prints what it found as JSON.

    python check_tensorboard.py LOGDIR

Tags and values come twice: as scripts read them (EventAccumulator) and as the TensorBoard server does (the same
reader after data_compat has turned every value into a tensor of a plugin).
"""

import json
import math
import sys

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util import tensor_util


def number(value):
    return value if math.isfinite(value) else str(value)


def script_view(logdir):
    accumulator = event_accumulator.EventAccumulator(logdir, size_guidance=dict.fromkeys(("scalars", "tensors"), 0))
    accumulator.Reload()
    tags = accumulator.Tags()
    return {
        "scalars": {tag: [[e.step, number(e.value)] for e in accumulator.Scalars(tag)] for tag in tags["scalars"]},
        "images": {
            tag: [[e.step, e.height, e.width, len(e.encoded_image_string)] for e in accumulator.Images(tag)]
            for tag in tags["images"]
        },
        "histograms": {
            tag: [[e.step, e.histogram_value.num, e.histogram_value.min, e.histogram_value.max]
                  for e in accumulator.Histograms(tag)]
            for tag in tags["histograms"]
        },
        "text": {
            tag: [[e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()] for e in accumulator.Tensors(tag)]
            for tag in tags["tensors"]
        },
    }


def server_view(logdir):
    accumulator = plugin_event_accumulator.EventAccumulator(logdir)
    accumulator.Reload()
    plugins = ("scalars", "histograms", "images", "text")
    return {plugin: sorted(accumulator.PluginTagToContent(plugin)) for plugin in plugins}


print(json.dumps({"script": script_view(sys.argv[1]), "server": server_view(sys.argv[1])}, sort_keys=True))
