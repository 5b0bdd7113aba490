//! What goes wrong is said with the key it is about and what to do next; help can be pasted.

use crate::runs;
use crate::runs::{plaudit, refused};
use clap::CommandFactory;
use plaudit::cli::Cli;

const NO_PYTHON: &str = "env.eval.python=/no/such/python";

/// A command, and what its refusal must say.
type Case = (&'static [&'static str], &'static [&'static str]);
const CASES: &[Case] = &[
    // A mistyped id goes to Python, which is not there: the nearest one inside plaudit is meant.
    (
        &["eval", "pickcube_scripted", "env.eval.init_params.id=PickCub-v1", NO_PYTHON],
        &["env.eval.init_params.id", "did you mean `PickCube-v1`", "/no/such/python"],
    ),
    (
        &["eval", "pickcube_scripted", "env.eval.init_params.id=pickcube-v1", NO_PYTHON],
        &["env.eval.init_params.id", "did you mean `PickCube-v1`"],
    ),
    // A missing interpreter is a matter of the key that names it.
    (
        &["eval", "pickcube_scripted", "env.eval.init_params.id=OpenCabinetDrawer-v1", NO_PYTHON],
        &["env.eval.python:", "/no/such/python", "OpenCabinetDrawer-v1"],
    ),
    (
        &[
            "eval",
            "cartpole_random",
            "env.eval.env_type=gymnasium",
            "env.eval.init_params.id=Ant-v5",
            NO_PYTHON,
        ],
        &["env.eval.python:", "/no/such/python"],
    ),
    (
        &[
            "eval",
            "cartpole_random",
            "env.eval.env_type=gymnasium",
            "env.eval.init_params.id=CartPole-v1",
            NO_PYTHON,
        ],
        &["env.eval.python:", "/no/such/python", "also inside plaudit", "env_type: embedded"],
    ),
    // The word that is wrong is the one that is named.
    (&["train", "cartpole_ppo", "algoritm.gamma=0.5"], &["`algoritm`", "did you mean `algorithm.gamma`?"]),
    (
        &["train", "cartpole_ppo", "encoder_config.ckpt_path=x"],
        &["`encoder_config`", "did you mean `actor.model.encoder_config.ckpt_path`?"],
    ),
    (&["train", "nosuchrecipe"], &["cannot find the config", " more"]),
    (&["train", "."], &["`.` is a folder, not a config"]),
    // A judge's adapters are named by their own key.
    (
        &[
            "train",
            "maniskill_ppo_mlp_vlm_trend_reward",
            "reward.model.model_path=.",
            "reward.model.lora_path=/no/such/adapters",
        ],
        &["reward.model.lora_path", "/no/such/adapters", "peft"],
    ),
    // A control mode is named by the key that asked for it.
    (
        &[
            "eval",
            "pickcube_scripted",
            "~actor.model.policy_setup",
            "env.eval.init_params.control_mode=pd_jont_pos",
        ],
        &["env.eval.init_params.control_mode", "pd_jont_pos", "`pd_joint_pos`"],
    ),
    (
        &["eval", "pickcube_scripted", "actor.model.policy_setup=panda-ee-target-dpose"],
        &["actor.model.policy_setup", "pd_ee_target_delta_pose", "panda-ee-dpose"],
    ),
    (
        &["eval", "pickcube_scripted", "actor.model.policy_setup=panda-qops"],
        &["actor.model.policy_setup", "panda-qops", "`panda-qpos`"],
    ),
    (
        &["eval", "pickcube_scripted", "actor.model.policy_setup=widowx"],
        &["env.eval.init_params.control_mode", "another robot", "panda-qpos"],
    ),
    // Demonstrations that are not there can be collected.
    (
        &["train", "pickcube_rlpd_env_reward", "algorithm.demo_buffer.load_path=nowhere/demos"],
        &["nowhere/demos", "plaudit collect pickcube_demos", "save_dir=nowhere/demos"],
    ),
    // Hydra's sweeps.
    (&["train", "cartpole_ppo", "-m"], &["--multirun", "plaudit sweep cartpole_ppo"]),
    (
        &["train", "-m", "cartpole_ppo", "actor.optim.lr=1e-3,3e-4"],
        &["--multirun", "plaudit sweep cartpole_ppo actor.optim.lr=1e-3,3e-4"],
    ),
    (&["config", "show", "cartpole_ppo", "--multirun", "a=1,2"], &["--multirun", "one run"]),
];

#[test]
fn refusals_name_the_key_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    for (words, expected) in CASES {
        let said = refused(folder.path(), words, 2);
        for expected in *expected {
            assert!(said.contains(expected), "{words:?}: `{expected}` is not in: {said}");
        }
    }
}

#[test]
#[cfg(unix)]
fn words_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    for words in [&["train", "cartpole_ppo"][..], &[]] {
        let odd = std::ffi::OsStr::from_bytes(b"runner.logger.log_path=\xff\xfe");
        let output = runs::command(folder.path(), words).arg(odd).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// An example that a terminal of 80 columns breaks cannot be pasted.
#[test]
fn every_example_of_every_help_fits_80_columns() {
    let mut examples = 0;
    let mut commands = vec![Cli::command()];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let name = command.get_name().to_string();
        let Some(after) = command.get_after_help().map(ToString::to_string) else { continue };
        let help = command.term_width(80).render_long_help().to_string();
        for line in after.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
            assert!(help.lines().any(|shown| shown == line), "{name}: `{line}` is broken in\n{help}");
            examples += usize::from(line.starts_with("  plaudit"));
        }
    }
    assert!(examples > 40, "{examples} examples are looked at");
}

#[test]
fn the_help_of_the_program_explains_every_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let help = String::from_utf8(plaudit(folder.path(), &["--help"]).stdout).unwrap();
    for code in ["0 done", "1 failed", "2 wrong use", "3 a reward model did not pass"] {
        assert!(help.contains(code), "`{code}` is not in {help}");
    }
}
