"""Recordings in any format, read and written."""

import gymnasium as gym
import numpy as np
import pytest

import plaudit


def test_recordings_are_read_one_at_a_time(episodes):
    recordings = plaudit.open(episodes)
    assert recordings.format == "collected"
    assert len(recordings) == 8 and len(recordings.files) == 8
    found = list(recordings)
    assert len(found) == 8
    one = recordings[-1]
    assert one.name == found[-1].name and "main_images" in one.cameras
    frame = one.frame(0)
    assert frame.shape == (128, 128, 3) and frame.dtype == np.uint8
    assert one.frames().shape == (len(one), 128, 128, 3)
    np.testing.assert_array_equal(one.frames()[3], one.frame(3, "main_images"))
    assert one.states.shape[0] == len(one) and one.actions.shape == (len(one) - 1, 8)
    assert one.rewards.shape == one.terminated.shape == one.truncated.shape
    assert one.success in (True, False) and len(one.labels) == len(one)


def test_a_frame_is_a_view_that_outlives_its_recording(episodes):
    frame = plaudit.open(episodes)[0].frame(2)
    assert not frame.flags.writeable and not frame.flags.owndata
    copy = frame.copy()
    np.testing.assert_array_equal(frame, copy)
    with pytest.raises(ValueError):
        frame[0, 0, 0] = 1


def test_what_cannot_be_read_is_named(tmp_path, episodes):
    for path, words in [(tmp_path / "nothing", "nothing"), (tmp_path, str(tmp_path))]:
        with pytest.raises(plaudit.Error) as refused:
            plaudit.open(path)
        assert words in str(refused.value)
    (tmp_path / "broken.pkl").write_bytes(b"\x80\x05garbage")
    with pytest.raises(plaudit.Error):
        list(plaudit.open(tmp_path))
    with pytest.raises(plaudit.InputError, match="no format"):
        plaudit.open(episodes, format="tape")
    recordings = plaudit.open(episodes)
    with pytest.raises(IndexError):
        recordings[8]
    with pytest.raises(IndexError):
        recordings[0].frame(10_000)
    with pytest.raises(plaudit.Error, match="no camera"):
        recordings[0].frame(0, "top")


def record(path, format, seeds=(0, 1)):
    env = gym.make("plaudit/PickCube-v1", obs_mode="rgb", max_episode_steps=3)
    seen = []
    with plaudit.Recorder(path, format=format) as recorder:
        for seed in seeds:
            obs, info = env.reset(seed=seed)
            recorder.begin(obs, task="lift the cube")
            images, over = [obs["base_camera"]], False
            while not over:
                action = np.full(8, 0.25, np.float32)
                obs, reward, terminated, truncated, info = env.step(action)
                over = recorder.step(action, obs, reward, terminated, truncated, info)
                images.append(obs["base_camera"])
            seen.append(np.stack(images))
        assert recorder.successes + recorder.failures == len(seeds)
    return seen


@pytest.mark.parametrize("format", ["pickle", "frames", "npy", "store", "lerobot", "replay_buffer"])
def test_what_was_recorded_is_read_again(tmp_path, format):
    path = tmp_path / "episodes"
    seen = record(path, format)
    found = list(plaudit.open(path))
    assert len(found) == len(seen)
    # What a reset shows is not in every format.
    first = 1 if format in ("frames", "npy") else 0
    by_pixels = {images[first].tobytes(): images[first:] for images in seen}
    for recording in found:
        frames = recording.frames()
        assert len(frames) in (3, 4)
        np.testing.assert_array_equal(frames, by_pixels[frames[0].tobytes()][: len(frames)])
    record(path, format, seeds=(2,))
    assert len(list(plaudit.open(path))) == len(seen) + 1


def test_an_episode_that_does_not_end_is_not_written(tmp_path):
    with plaudit.Recorder(tmp_path / "episodes") as recorder:
        recorder.begin({"camera": np.zeros((4, 4, 3), np.uint8), "state": [0.0]})
        recorder.step([0.0], {"camera": np.zeros((4, 4, 3), np.uint8), "state": [0.0]}, 0.0, False, False)
    assert recorder.successes == 0
    with pytest.raises(plaudit.Error, match="closed"):
        recorder.begin({"state": [0.0]})


def test_steps_that_do_not_fit_are_refused(tmp_path):
    image = np.zeros((4, 4, 3), np.uint8)
    with plaudit.Recorder(tmp_path / "episodes") as recorder:
        with pytest.raises(plaudit.Error, match="begin"):
            recorder.step([0.0], {"camera": image}, 0.0, False, False)
        recorder.begin({"camera": image, "state": [0.0, 1.0]})
        for obs, words in [
            ({"camera": image, "state": [0.0]}, "a state of 1"),
            ({"state": [0.0, 1.0]}, "0 cameras"),
            ({"other": image, "state": [0.0, 1.0]}, "no image of camera"),
            ({"camera": image[:2], "state": [0.0, 1.0]}, "size"),
        ]:
            with pytest.raises(plaudit.InputError, match=words):
                recorder.step([0.0], obs, 0.0, False, False)
        recorder.step([0.0], {"camera": image, "state": [0.0, 1.0]}, 0.0, False, False)
        with pytest.raises(plaudit.InputError, match="action"):
            recorder.step([0.0, 1.0], {"camera": image, "state": [0.0, 1.0]}, 0.0, True, False)
    with pytest.raises(plaudit.InputError, match="no format"):
        plaudit.Recorder(tmp_path / "other", format="tape")
