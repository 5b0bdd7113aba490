"""Runs and the command."""

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import plaudit

SMALL = {
    "env.train.total_num_envs": 4,
    "env.eval.total_num_envs": 4,
    "algorithm.update_epoch": 2,
    "actor.global_batch_size": 64,
    "actor.micro_batch_size": 64,
}
# It cannot have ended by itself.
ENDLESS = {**SMALL, "runner__max_epochs": 1_000_000}
COMMAND = os.path.join(sysconfig.get_path("scripts"), "plaudit")


def test_a_run_gives_its_metrics(tmp_path):
    run = plaudit.train(
        "cartpole_ppo", quiet=True, **SMALL, runner__max_epochs=2, runner__logger__log_path=tmp_path / "run"
    )
    assert run.path == tmp_path / "run" and (run.path / "events.jsonl").exists()
    assert run.passed and "env/return" in run.metrics
    assert "env/return" in run._repr_html_() and "Result(" in repr(run)


def test_events_come_while_it_runs(tmp_path):
    run = plaudit.train(
        "cartpole_ppo",
        wait=False,
        quiet=True,
        **SMALL,
        runner__max_epochs=2,
        runner__logger__log_path=tmp_path / "run",
    )
    kinds = [event["event"] for event in run]
    assert kinds[0] == "started" and kinds[-1] == "ended" and "metrics" in kinds
    assert run.result() is run.result()


def test_a_run_that_is_stopped_is_saved(tmp_path):
    run = plaudit.train(
        "cartpole_ppo", wait=False, quiet=True, **ENDLESS, runner__logger__log_path=tmp_path / "run"
    )
    for event in run:
        if event["event"] == "metrics":
            run.stop()
            break
    with pytest.raises(plaudit.RunError):
        run.result()
    assert (tmp_path / "run" / "checkpoints").is_dir()


def test_a_notebook_sees_how_far_a_run_is(tmp_path, monkeypatch):
    import types

    shown = []
    handle = types.SimpleNamespace(update=shown.append)
    display = types.SimpleNamespace(HTML=str, display=lambda html, display_id: handle)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    plaudit.train("cartpole_ppo", **SMALL, runner__max_epochs=2, runner__logger__log_path=tmp_path / "run")
    assert "2 of 2" in shown[-1] and "env/return" in shown[-1]


def test_a_run_that_nobody_holds_is_stopped(tmp_path):
    run = plaudit.train(
        "cartpole_ppo", wait=False, quiet=True, **ENDLESS, runner__logger__log_path=tmp_path / "run"
    )
    process = run._process
    for event in run:
        if event["event"] == "metrics":
            break
    del run
    process.wait(60)
    log = (tmp_path / "run" / "events.jsonl").read_text()
    assert '"interrupted"' in log.splitlines()[-1]


def test_ctrl_c_reaches_the_run(tmp_path):
    code = f"""
import plaudit
plaudit.train("cartpole_ppo", quiet=True, runner__max_epochs=1_000_000, runner__logger__log_path={str(tmp_path / "run")!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    log = tmp_path / "run" / "events.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and '"metrics"' in log.read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in said and process.returncode != 0
    assert '"interrupted"' in log.read_text().splitlines()[-1]


def test_a_mistake_is_an_exception_with_a_hint(tmp_path):
    with pytest.raises(plaudit.RunError) as failed:
        plaudit.train("cartpole_ppo", quiet=True, runner__max_epoch=3)
    assert "max_epoch" in str(failed.value) and "max_epochs" in failed.value.hint and failed.value.code == 2
    with pytest.raises(plaudit.RunError):
        plaudit.train("no_such_recipe", quiet=True)
    with pytest.raises(plaudit.InputError):
        plaudit.train(3)
    with pytest.raises(plaudit.RunError):
        plaudit.audit(tmp_path, tmp_path)


def test_a_model_is_measured_and_audited(checkpoint, episodes, tmp_path):
    measured = plaudit.reward_eval(checkpoint, episodes)
    assert isinstance(measured.data, dict) and measured.path is None
    audit = plaudit.audit(checkpoint, episodes, output=tmp_path / "audit", flags=["--no-store"])
    assert audit.passed is (audit.code == 0) and not audit.passed, "a model of four steps cannot be trusted"
    assert isinstance(audit.data, dict) and (tmp_path / "audit" / "audit.html").exists()
    assert "<table>" in audit._repr_html_()


@pytest.mark.skipif(not Path(COMMAND).exists(), reason="the command is not installed")
def test_the_command_is_the_program(tmp_path):
    def run(*words):
        return subprocess.run([COMMAND, *words], capture_output=True, text=True, cwd=tmp_path)

    assert run("--version").stdout == f"plaudit {plaudit.__version__}\n"
    assert run("config", "list").returncode == 0
    assert "Exit codes" in run("--help").stdout
    wrong = run("train", "cartpole_ppo", "runner.max_epoch=3")
    assert wrong.returncode == 2 and "max_epochs" in wrong.stderr and "\x1b" not in wrong.stderr
    assert run("no-such-command").returncode == 2
    done = run("eval", "cartpole_random", "env.eval.total_num_envs=2")
    assert done.returncode == 0 and "run directory:" in done.stderr


@pytest.mark.skipif(not Path(COMMAND).exists(), reason="the command is not installed")
def test_ctrl_c_ends_the_command_as_it_does_the_binary(tmp_path):
    words = [COMMAND, "train", "cartpole_ppo", "runner.max_epochs=1000000", f"runner.logger.log_path={tmp_path / 'run'}"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "run" / "events.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and '"metrics"' in log.read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "runner.resume_dir=" in said
