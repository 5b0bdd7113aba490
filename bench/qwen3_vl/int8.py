"""Whether a judge says the same with weights of eight bits, on an NVIDIA GPU.

    plaudit dataset windows --raw-data-path episodes --output-dir windows
    python bench/qwen3_vl/int8.py windows/eval/segments.jsonl windows.safetensors    # numpy, safetensors
    echo "labels judge/checkpoints/best_model windows.safetensors" | target/release/examples/qwen3_vl_cuda

The file has the frames of all windows and their question, which must be one for all. The program compares labels in bf16 and with eight
bits with one another and with those of the CPU in fp32.
"""

import json
import pathlib
import pickle
import sys

import numpy as np
from safetensors.numpy import save_file

segments, out = map(pathlib.Path, sys.argv[1:])
rows = [json.loads(line) for line in segments.read_text().splitlines()]
(question,) = {row["prompt"] for row in rows}
frames = []
for row in rows:
    window = pickle.loads((segments.parent / "pkl" / pathlib.Path(row["pkl_path"]).name).read_bytes())
    frames.append([window["main_frames"], window["extra_view_frames"]])
save_file({"frames": np.array(frames, np.uint8), "question": np.frombuffer(question.encode(), np.uint8)}, out)
