"""Objects that threads share wait for each other, and never for ever."""

import threading

import numpy as np

import plaudit


def together(work, count=4):
    errors = []

    def run(at):
        try:
            work(at)
        except plaudit.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(count)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not any(thread.is_alive() for thread in threads), "they wait for each other"
    return errors


def test_environments_are_stepped_and_closed_by_threads():
    env = plaudit.make_vec("PickCube-v1", 4)
    env.reset(seed=0)

    def work(at):
        for step in range(50):
            env.step(np.zeros((4, 8), np.float32))
            if at == 0 and step == 25:
                env.close()

    errors = together(work)
    assert len(errors) == 4 and all("closed" in str(error) for error in errors)


def test_a_recorder_is_shared(tmp_path):
    image = np.zeros((64, 64, 3), np.uint8)
    with plaudit.Recorder(tmp_path / "episodes", format="store") as recorder:

        def work(at):
            for _ in range(50):
                recorder.begin({"camera": image, "state": [float(at)]})
                recorder.step([0.0], {"camera": image, "state": [0.0]}, 0.0, True, False)
                assert recorder.successes == 0

        together(work)


def test_recordings_are_read_by_threads(episodes):
    recordings = plaudit.open(episodes)
    one_loop, seen = iter(recordings), []

    def work(_):
        for recording in one_loop:
            seen.append(recording.name)

    assert not together(work)
    assert sorted(seen) == sorted(recording.name for recording in recordings)
