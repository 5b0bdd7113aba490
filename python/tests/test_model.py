"""Reward models: what they take, what they give, and what they refuse."""

import gc
import multiprocessing
import os
import pickle
import resource
import threading
import time

import numpy as np
import pytest
from PIL import Image

import plaudit


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (5, 40, 48, 3), dtype=np.uint8)


def test_one_image_is_a_float_and_a_batch_an_array(model, images):
    scores = model.score(images)
    assert scores.dtype == np.float32 and scores.shape == (5,)
    assert np.all((scores > 0) & (scores < 1))
    one = model.score(images[2])
    assert isinstance(one, float)
    np.testing.assert_allclose(one, scores[2], rtol=1e-5)
    assert model.score(images[:0]).shape == (0,)


def test_layouts_containers_and_strides_are_the_same_images(model, images):
    expected = model.score(images)
    same = {
        "channels first": images.transpose(0, 3, 1, 2).copy(),
        "a transposed view": images.transpose(0, 3, 1, 2),
        "a list": list(images),
        "PIL images": [Image.fromarray(image) for image in images],
        "by name": {model.image_keys[0]: images},
        "floats": images.astype(np.float32) / 255,
        "every second of a larger batch": np.repeat(images, 2, axis=0)[::2],
        "read-only": np.frombuffer(images.tobytes(), np.uint8).reshape(images.shape),
    }
    for what, batch in same.items():
        np.testing.assert_allclose(model.score(batch), expected, rtol=1e-4, err_msg=what)
    np.testing.assert_allclose(model.score(images[:, ::-1]), model.score(images[:, ::-1].copy()))
    np.testing.assert_allclose(model.score(np.moveaxis(images, -1, 1), layout="chw"), expected, rtol=1e-4)


def test_scores_are_logits_at_the_temperature(model, images):
    logits = model.logits(images)
    temperature = model.card.get("temperature", 1.0)
    np.testing.assert_allclose(model.score(images), 1 / (1 + np.exp(-logits / temperature)), rtol=1e-5)


def test_success_is_a_score_above_the_threshold(model, images):
    scores = model.score(images)
    level = float(np.median(scores))
    np.testing.assert_array_equal(model.success(images, threshold=level), scores > np.float32(level))
    assert model.success(images[0], threshold=-1.0) is True
    assert model.threshold == pytest.approx(model.card["threshold"])
    np.testing.assert_array_equal(model.success(images), scores > model.threshold)


def test_a_window_is_worth_the_mean_of_its_frames(model, images):
    windows = np.stack([images[:4], images[1:]])
    scores = model.score(images)
    expected = [scores[:4].mean(), scores[1:].mean()]
    np.testing.assert_allclose(model.score_windows(windows), expected, rtol=1e-5)
    assert isinstance(model.score_windows(windows[0]), float)


def test_the_card_says_what_the_model_was_trained_on(model):
    card = model.card
    assert card["format"] == "plaudit reward model"
    assert card["settings"]["arch"] == "resnet10" and card["settings"]["image_size"] == [3, 32, 32]
    assert model.kind == "classifier" and model.device == "cpu"
    assert model.image_keys == ["main_images"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda images: images.astype(np.float64), "float64; expected uint8 or float32"),
        (lambda images: images.astype(np.int16), "int16; expected uint8"),
        (lambda images: images[0, 0], "expected 3 axes"),
        (lambda images: images[None, None], "expected 3 axes"),
        (lambda images: images[..., :2], "no axis of colours"),
        (lambda images: images[..., :1], "channels"),
        (lambda images: images.astype(np.float32), "must lie in 0..1"),
        (lambda images: np.full((32, 32, 3), np.nan, np.float32), "NaN"),
        (lambda images: "image.png", "str is no image"),
        (lambda images: None, "NoneType is no image"),
        (lambda images: [], "list is empty"),
        (lambda images: {}, "dict is empty"),
        (lambda images: {3: images}, "no name of a camera"),
        (lambda images: [images[0], images[1, :20]], "are no batch"),
        (lambda images: {"a": images, "b": images[:2]}, "[5]"),
        (lambda images: {"a": images, "b": images}, "no images of camera `main_images`"),
        (lambda images: Image.fromarray(images[0]).convert("L"), "mode L; expected RGB"),
        (lambda images: np.zeros((1, 0, 4, 3), np.uint8), "no pixels"),
    ],
)
def test_what_is_no_image_is_refused_with_what_was_expected(model, images, wrong, words):
    with pytest.raises(plaudit.InputError) as refused:
        model.score(wrong(images))
    assert words in str(refused.value), refused.value
    assert refused.value.hint
    assert isinstance(refused.value, (plaudit.Error, ValueError))


class OnAGpu:
    """A tensor as CUDA's are to whoever is handed one: its memory cannot be read here."""

    def __init__(self, images, device=(2, 1)):
        self.images, self.device, self.copies = images, device, 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        raise BufferError("the memory is not the CPU's")

    def cpu(self):
        self.copies += 1
        return self.images


def test_tensors_of_a_gpu_are_copied_to_the_cpu(model, images):
    expected = model.score(images)
    tensor = OnAGpu(images)
    np.testing.assert_array_equal(model.score(tensor), expected)
    assert tensor.copies == 1
    np.testing.assert_array_equal(model.score([OnAGpu(image) for image in images]), expected)
    np.testing.assert_array_equal(model.score({model.image_keys[0]: OnAGpu(images, (10, 0))}), expected)
    nested = OnAGpu(None)
    nested.images = nested
    with pytest.raises(plaudit.InputError, match="cuda:1, and its copy is there as well"):
        model.score(nested)
    full = OnAGpu(images)
    full.cpu = lambda: (_ for _ in ()).throw(RuntimeError("CUDA error: out of memory"))
    with pytest.raises(plaudit.InputError, match="cannot be copied from cuda:1: RuntimeError: CUDA error"):
        model.score(full)

    class Foreign:
        __dlpack_device__ = lambda self: (14, 0)  # noqa: E731
        __dlpack__ = OnAGpu.__dlpack__

    with pytest.raises(plaudit.InputError, match="oneapi:0, and does not say how"):
        model.score(Foreign())


def test_a_model_that_is_not_there_is_named(tmp_path):
    with pytest.raises(plaudit.Error) as refused:
        plaudit.RewardModel(tmp_path / "nothing")
    assert "nothing" in str(refused.value)
    broken = tmp_path / "model.safetensors"
    broken.write_bytes(b"\xff" * 64)
    with pytest.raises(plaudit.Error):
        plaudit.RewardModel(broken)
    with pytest.raises(plaudit.InputError, match="no device"):
        plaudit.RewardModel(broken, device="tpu")
    with pytest.raises(plaudit.Error):
        plaudit.RewardModel("http://127.0.0.1:9", device="cpu")


def test_a_closed_model_says_so(checkpoint, images):
    model = plaudit.RewardModel(checkpoint, device="cpu")
    model.close()
    model.close()
    for use in (model.score, model.logits, model.success):
        with pytest.raises(plaudit.Error, match="closed"):
            use(images)
    assert "closed" in repr(model)


def test_another_process_opens_it_again(model, images):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score(images), model.score(images))
    error = pickle.loads(pickle.dumps(plaudit.Error("what", "why")))
    assert (error.message, error.hint) == ("what", "why")


def _score_forked(model, images, answers):
    answers.put(model.score(images))


def test_a_forked_worker_scores(model, images):
    expected = model.score(images)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    worker = context.Process(target=_score_forked, args=(model, images, answers))
    worker.start()
    found = answers.get(timeout=60)
    worker.join(30)
    assert worker.exitcode == 0
    np.testing.assert_array_equal(found, expected)


def test_other_threads_go_on_while_a_model_scores(model):
    images = np.zeros((3000, 64, 64, 3), np.uint8)
    ticks, done = [], threading.Event()

    def score():
        model.score(images)
        done.set()

    thread = threading.Thread(target=score)
    began = time.perf_counter()
    thread.start()
    while not done.is_set():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    took = time.perf_counter() - began
    longest = max(b - a for a, b in zip([began, *ticks], ticks))
    assert len(ticks) > 3 and longest < max(0.5 * took, 0.2), (len(ticks), longest, took)


def test_threads_that_score_together_score_the_same(model, images):
    expected = model.score(images)
    found = [None] * 8

    def score(at):
        found[at] = model.score(images)

    threads = [threading.Thread(target=score, args=(at,)) for at in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(np.array_equal(expected, scores) for scores in found)


def test_memory_stays_flat(model):
    images = np.zeros((64, 64, 64, 3), np.uint8)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    for _ in range(20):
        model.score(images)
    before = resident()
    for _ in range(200):
        model.score(images)
        model.score(images[0])
    assert resident() - before < 24 << 20


def test_a_call_costs_little_beside_the_network(model):
    nothing = np.zeros((0, 32, 32, 3), np.uint8)
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        model.score(nothing)
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 30e-6


def test_importing_is_quick_and_brings_little():
    import subprocess
    import sys

    code = (
        "import sys, time; began = time.process_time(); import plaudit; took = time.process_time() - began;"
        "print(took, [name for name in ('torch', 'gymnasium', 'numpy') if name in sys.modules])"
    )
    took = []  # of the CPU: other work on the machine is not what is measured
    for _ in range(5):
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        seconds, modules = said.split(" ", 1)
        took.append(float(seconds))
        assert modules.strip() == "[]"
    assert min(took) < 0.1, took


def test_ctrl_c_ends_a_long_call(model):
    import _thread

    images = np.zeros((6000, 96, 96, 3), np.uint8)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    began = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.score(images)
            time.sleep(2)
    finally:
        timer.cancel()
    assert time.perf_counter() - began < 20
    assert os.getpid()


def test_a_model_on_a_server_scores_the_same(checkpoint, model, images):
    import socket
    import subprocess
    import sys

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "plaudit",
        "serve",
        str(checkpoint),
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert "listening on" in server.stdout.readline()
        remote = plaudit.RewardModel(f"http://127.0.0.1:{port}")
        assert remote.device == "server" and remote.image_keys == model.image_keys
        np.testing.assert_allclose(remote.score(images), model.score(images), rtol=1e-5)
        assert remote.threshold == pytest.approx(model.threshold)
        with pytest.raises(plaudit.InputError, match="logits"):
            remote.logits(images)
    finally:
        server.terminate()
        server.wait(30)
