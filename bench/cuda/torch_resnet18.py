"""ResNet-18 with one output on an NVIDIA GPU in PyTorch: milliseconds from images on the GPU to logits in memory.

Prints one JSON object. Needs torch and torchvision with CUDA.
"""

import json
import statistics
import time

import torch
import torchvision

SIDE, BATCHES, WARM_UP, TIMED = 128, [1, 64, 256, 1024], 10, 30
# Name, element type, whether fp32 products may be rounded to tf32, channels last.
MODES = [
    ("fp32", torch.float32, False, False),
    ("tf32", torch.float32, True, False),
    ("bf16 channels last", torch.bfloat16, True, True),
]


def milliseconds(work):
    for _ in range(WARM_UP):
        work()
    times = []
    for _ in range(TIMED):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def captured(model, images):
    """The model as one CUDA graph on its own copy of the images."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(images)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = model(images)

    def run():
        graph.replay()
        return logits.float().cpu()

    return run


def measure(name, dtype, tf32, channels_last):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    model = torchvision.models.resnet18(num_classes=1).eval().cuda().to(dtype)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    rows = []
    for batch in BATCHES:
        images = torch.rand(batch, 3, SIDE, SIDE, device="cuda", dtype=dtype)
        if channels_last:
            images = images.to(memory_format=torch.channels_last)
        rows.append({
            "batch": batch,
            "ms": milliseconds(lambda: model(images).float().cpu()),
            "ms_cuda_graph": milliseconds(captured(model, images)),
        })
    return {"mode": name, "timings": rows}


if __name__ == "__main__":
    torch.backends.cudnn.benchmark = True
    with torch.inference_mode():
        results = [measure(*mode) for mode in MODES]
    device = torch.cuda.get_device_name()
    print(json.dumps({"torch": torch.__version__, "device": device, "results": results}, indent=2))
