//! Learning on a robot as a person meets it: the simulated one, with faults, a person who takes over, and a kill.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::runs::{command, ctrl_c, refused, succeeds};

/// The recipe on a small scale: the tool's pose is the reward, and the robot lives eight times as fast.
const SMALL: [&str; 21] = [
    "-q",
    "train",
    "robot_pickcube_rlpd",
    "algorithm.demo_buffer.load_path=demos",
    "reward.use_reward_model=false",
    "reward.env_reward_weight=1.0",
    "runner.val_check_interval=-1",
    "runner.max_epochs=-1",
    "runner.save_interval=5",
    "env.train.max_episode_steps=12",
    "env.train.override_cfg.image_side=32",
    "env.train.override_cfg.sim_speed=8",
    "env.train.override_cfg.sim_incidents=15",
    "env.train.override_cfg.pilot_waits=0.6",
    "actor.model.image_size=[3,32,32]",
    "actor.global_batch_size=8",
    "actor.micro_batch_size=8",
    "algorithm.cloning.steps=5",
    "algorithm.update_epoch=1",
    "algorithm.train_actor_steps=0",
    "algorithm.replay_buffer.min_buffer_size=12",
];

/// Every value that a run has logged under a name, over all its starts, in order.
fn logged(run: &Path, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    // The last line may be half there.
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let metrics = events.filter(|event| event["event"] == "metrics");
    let values = metrics.flat_map(|event| event["values"].as_array().cloned().unwrap_or_default());
    values.filter(|pair| pair[0] == name).filter_map(|pair| pair[1].as_f64()).collect()
}

fn wait_until(child: &mut Child, what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before {what}");
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn collect(at: &Path) {
    let words = [
        "-q",
        "collect",
        "robot_pickcube_demos",
        "--episodes",
        "1",
        "env.eval.data_collection.save_dir=demos",
        "env.eval.override_cfg.image_side=32",
        "env.eval.override_cfg.sim_speed=8",
    ];
    succeeds(at, &words);
}

#[test]
fn a_robot_learns_through_faults_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    collect(at);
    let run = at.join("run");
    let train = |into: &'static str| command(at, &[&SMALL[..], &[into]].concat()).spawn().unwrap();
    let sum = |name: &str| logged(&run, name).iter().sum::<f64>();
    let last = |name: &str| logged(&run, name).last().copied().unwrap_or(0.0);

    let mut child = train("runner.logger.log_path=run");
    wait_until(&mut child, "a fault, an intervention and a checkpoint", || {
        let is_saved = run.join("state.json").exists() || run.join("checkpoints/global_step_5").exists();
        is_saved
            && sum("env/invalid_episodes") >= 1.0
            && sum("env/num_trajectories") >= 3.0
            && sum("env/intervened") > 0.0
    });
    child.kill().unwrap(); // SIGKILL, wherever it is
    child.wait().unwrap();
    // Before any resumption all that was kept is known: whole episodes, and none that broke.
    assert_eq!(last("train/replay_buffer/num_trajectories"), sum("env/num_trajectories"));
    let lengths = logged(&run, "env/episode_len").into_iter();
    let episodes = logged(&run, "env/num_trajectories").into_iter().filter(|episodes| *episodes > 0.0);
    let steps: f64 = lengths.zip(episodes).map(|(length, episodes)| (length * episodes).round()).sum();
    assert_eq!(last("train/replay_buffer/total_samples"), steps);
    assert!(last("env/total_steps") > steps, "the steps of broken episodes were taken, and not kept");
    assert!(last("train/demo_buffer/num_trajectories") > 1.0, "what the person did is a demonstration");
    let (taken, learned) = (last("env/total_steps"), logged(&run, "train/sac/critic_loss").len());

    let mut child = train("runner.resume_dir=run");
    wait_until(&mut child, "the run to go on", || {
        last("env/total_steps") > taken && logged(&run, "train/sac/critic_loss").len() > learned
    });
    let pid = child.id().to_string();
    std::process::Command::new("kill").args([ctrl_c(), &pid]).status().unwrap();
    let ended = child.wait_with_output().unwrap().status;
    assert!(!ended.success(), "a run that is interrupted says so: {ended}");
    assert!(last("env/total_steps") > taken);
    assert_eq!(last("env/broken_limits"), 0.0, "no target broke a limit");
    let period = last("env/control_period_p50");
    assert!(period > 0.09, "at most ten steps a second, however busy the machine is: {period}");
}

#[test]
fn what_is_unsafe_on_a_robot_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = "env.train.override_cfg.server_url=http://127.0.0.1:1";
    for (words, named) in [
        (&["algorithm.loss_type=actor_critic", "algorithm.adv_type=gae"][..], "PPO cannot learn on a robot"),
        (&["env.train.max_episode_steps=null"], "these never are"),
        (&["env.train.keyboard_reward_wrapper=start_end"], "start_end marks what is recorded"),
        (&["env.train.override_cfg.manual_episode_control_only=true"], "which the clock makes sure of"),
    ] {
        let all = [&["train", "robot_pickcube_rlpd", "reward.use_reward_model=false"], words].concat();
        let said = refused(folder.path(), &all, 2);
        assert!(said.contains(named), "{words:?}: {said}");
    }
    let both = [
        "train",
        "robot_pickcube_rlpd",
        "env.train.override_cfg.robot_ip=null",
        "env.eval.override_cfg.robot_ip=null",
        server,
        "env.eval.override_cfg.server_url=http://127.0.0.1:1",
        "runner.val_check_interval=10",
    ];
    let said = refused(folder.path(), &both, 2);
    assert!(said.contains("cannot be evaluated at the same time"), "{said}");
}
