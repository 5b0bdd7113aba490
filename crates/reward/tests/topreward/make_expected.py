"""TOPReward of growing prefixes, computed by transformers 5.23 (torch 2.15, f32, eager) with the tiny model of crate nn.

usage: python make_expected.py

As the authors' code asks by default: the user's turn of the chat template with the video and the words before the task, cut at
the end of the turn, then the task and the rest of the statement, and the log-probability of its last token, ` True`. Frames come
from a formula that the test repeats. Written: `expected.json`.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

HERE = pathlib.Path(__file__).parent
MODEL = HERE / "../../../nn/tests/qwen3_vl/model"
TASK = "Pick up the red cube."
HEIGHT, WIDTH, FRAMES = 64, 96, 8
BEFORE = "The above video shows a robot manipulation trajectory that completes the following task: "
AFTER = " Decide whether the above statement is True or not. The answer is:"


def frame(number: int) -> np.ndarray:
    i = np.arange(HEIGHT * WIDTH * 3, dtype=np.uint64)
    return ((i * 2654435761 + number * 40503 + 12345) % 2**32 >> 24).astype(np.uint8).reshape(HEIGHT, WIDTH, 3)


def main() -> None:
    processor = AutoProcessor.from_pretrained(MODEL)
    model = Qwen3VLForConditionalGeneration.from_pretrained(MODEL, attn_implementation="eager", dtype=torch.float32).eval()
    # What Qwen3-VL's chat template makes of a turn; the tiny model's folder has none.
    turn = "<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>" + BEFORE
    text = turn + TASK + AFTER
    word = processor.tokenizer(" True")["input_ids"][0]
    logprobs = []
    for length in (2, 4, 6, 8):
        frames = torch.from_numpy(np.stack([frame(number) for number in range(length)])).permute(0, 3, 1, 2)
        metadata = [{"total_num_frames": length, "fps": 2.0, "frames_indices": list(range(length))}]
        inputs = processor(
            text=[text], videos=[frames], do_sample_frames=False, video_metadata=metadata, return_tensors="pt"
        )
        with torch.no_grad():
            logits = model(**inputs).logits[0, -1]
        logprobs.append(torch.log_softmax(logits, -1)[word].item())
    expected = {"task": TASK, "lengths": [2, 4, 6, 8], "logprobs": logprobs}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
