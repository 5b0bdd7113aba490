"""What the tests share: episodes of the simulator and a small model that learned from them, made by plaudit itself."""

import signal

import pytest

import plaudit

# Ctrl-C is tried here and in processes of ours. Whoever starts this in the background of a shell script has it ignored, and all of
# them would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = "torch, stable-baselines3, lerobot and others: minutes; asked for with --long"


def pytest_addoption(parser):
    parser.addoption(
        "--long", action="store_true", help="tests with torch, stable-baselines3, lerobot and others, too"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", f"long: {LONG}")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--long"):
        for item in items:
            if "long" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=LONG))


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("plaudit")


@pytest.fixture(scope="session")
def episodes(work):
    """Eight episodes of the scripted PickCube, half of them noisy."""
    folder = work / "episodes"
    plaudit.collect(
        "pickcube_scripted",
        episodes=8,
        quiet=True,
        env__eval__total_num_envs=4,
        env__eval__data_collection__save_dir=folder,
        actor__model__noise=0.15,
        runner__logger__log_path=work / "collect",
    )
    return folder


@pytest.fixture(scope="session")
def checkpoint(work, episodes):
    """A ResNet-10 for images of 32 px that has learned for a few steps."""
    run = plaudit.reward_train(
        quiet=True,
        data__data_path=episodes,
        runner__max_steps=4,
        runner__val_check_interval=2,
        runner__save_interval=2,
        runner__second_model=False,
        actor__model__arch="resnet10",
        actor__model__image_size=[3, 32, 32],
        runner__logger__log_path=work / "reward",
    )
    return run.path


@pytest.fixture
def model(checkpoint):
    with plaudit.RewardModel(checkpoint, device="cpu") as model:
        yield model
