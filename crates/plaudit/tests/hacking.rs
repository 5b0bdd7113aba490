//! Watching for hacking as a person meets it: alarms, what is done about them, and the frames they leave behind.

use std::path::Path;
use std::process::Stdio;

use crate::runs::{command, plaudit, refused, wait_for};

/// A network of 32 pixels that sees success above `threshold`, as a training run leaves it behind.
fn network(folder: &Path, view: &str, progress_bins: Option<usize>, threshold: f64) {
    use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Trainer};
    use plaudit_reward::card::ModelCard;
    let settings = ClassifierSettings {
        arch: Arch::Resnet10,
        hidden_dim: Some(16),
        image_size: [3, 32, 32],
        image_keys: vec![view.into()],
        progress_bins,
        ..ClassifierSettings::default()
    };
    let weights = Trainer::new(&settings, AdamW::default(), 1).unwrap().weights().unwrap();
    std::fs::create_dir_all(folder).unwrap();
    ModelCard { threshold: Some(threshold), ..ModelCard::of(settings) }.write(&weights, folder).unwrap();
}

fn model(folder: &Path, threshold: f64) {
    network(folder, "main_images", None, threshold);
}

/// A folder with a gullible model, which rewards everything, and a strict one, which rewards nothing.
fn models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    model(&folder.path().join("gullible"), 0.0);
    model(&folder.path().join("strict"), 1.0);
    folder
}

/// A run of two steps, rewarded by the gullible model and checked at each.
fn monitored<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "train",
        "pickcube_ppo",
        "env.train.total_num_envs=12",
        "env.train.max_episode_steps=6",
        "env.train.max_steps_per_rollout_epoch=12",
        "env.train.init_params.sensor_configs={width: 32, height: 32}",
        "runner.max_epochs=2",
        "runner.max_steps=-1",
        "runner.val_check_interval=-1",
        "actor.model.hidden_sizes=[16,16]",
        "actor.micro_batch_size=36",
        "actor.global_batch_size=36",
        "reward.use_reward_model=true",
        "reward.model.model_path=gullible",
        "reward.hacking_monitor.every=1",
    ];
    words.into_iter().chain(more.iter().copied()).collect()
}

fn image_count(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// The monitor sees that what is rewarded is no success, keeps the frames for labelling, and stops the run, which can
/// go on.
#[test]
fn a_hacked_reward_is_noticed_and_the_run_pauses() {
    let folder = models();
    let here = folder.path();
    let output =
        plaudit(here, &monitored(&["reward.hacking_monitor.action=pause", "runner.logger.log_path=run"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the reward may be hacked: false_success is"), "{said}");
    assert!(said.contains("runner.resume_dir=run"), "{said}");
    let kept = image_count(&here.join("run/hacking/step_1/failure"));
    assert_eq!(kept, 24, "one frame of each episode");
    let log = std::fs::read_to_string(here.join("run/events.jsonl")).unwrap();
    assert!(log.contains("hacking/false_success") && log.contains("hacking/alarms"));

    let output = plaudit(
        here,
        &monitored(&[
            "reward.hacking_monitor.action=terminal",
            "runner.resume_dir=run/checkpoints/global_step_1",
        ]),
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("From now on only the ends of episodes are rewarded"), "{said}");
}

#[test]
fn a_second_model_contradicts_and_the_threshold_rises() {
    let folder = models();
    let here = folder.path();
    let second =
        ["reward.hacking_monitor.compare_with=model", "reward.hacking_monitor.model.model_path=strict"];
    let more = ["reward.hacking_monitor.action=raise_threshold", "runner.logger.log_path=run"];
    let output = plaudit(here, &monitored(&[&second[..], &more[..]].concat()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("false_success is") && said.contains("scores must be above 0.5000"), "{said}");
    assert!(said.contains("sort them into success/ and failure/"), "{said}");
    assert_eq!(image_count(&here.join("run/hacking/step_1/unsorted")), 24, "one frame of each episode");
}

/// A person sorts the frames of a look while the run goes on, and the next look hears of it.
#[test]
fn a_person_contradicts_while_the_run_goes_on() {
    let folder = models();
    let here = folder.path();
    let more = [
        "reward.hacking_monitor.compare_with=person",
        "reward.hacking_monitor.action=pause",
        "runner.max_epochs=100000",
        "runner.logger.log_path=run",
    ];
    let run = command(here, &monitored(&more)).stderr(Stdio::piped()).spawn().unwrap();
    let look = here.join("run/hacking/step_1");
    // The second look's folder is there once the first is complete.
    wait_for(&here.join("run/hacking/step_2/failure"));
    std::fs::remove_dir(look.join("failure")).unwrap();
    std::fs::rename(look.join("unsorted"), look.join("failure")).unwrap();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the reward may be hacked: false_success is"), "{said}");
}

/// The second model beside a model of progress is opened as one of progress, and asked.
#[test]
fn a_model_of_progress_has_a_second_opinion() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    network(&here.join("gullible/checkpoints/best_model"), "main_images", Some(20), 0.0);
    network(&here.join("gullible/checkpoints/second_model"), "main_images", Some(20), 1.0);
    let more = [
        "reward.model.model_type=progress",
        "reward.model.caution=0.5",
        "reward.hacking_monitor.compare_with=none",
        "runner.logger.log_path=run",
    ];
    let output = plaudit(here, &monitored(&more));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the reward may be hacked: second_opinion is 1.00 (limit 0.50)"), "{said}");
}

/// A second model that nobody named, and that single frames are not enough for, is left out; one that was named is refused.
#[test]
fn a_second_model_with_a_frame_history_is_left_out_unless_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    model(&here.join("gullible/checkpoints/best_model"), 0.0);
    network(&here.join("gullible/checkpoints/second_model"), "main_images@-2", None, 1.0);
    let alone = ["reward.hacking_monitor.compare_with=none", "runner.logger.log_path=run"];
    let output = plaudit(here, &monitored(&alone));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let log = std::fs::read_to_string(here.join("run/events.jsonl")).unwrap();
    assert!(log.contains("hacking/alarms") && !log.contains("hacking/second_opinion"), "{log}");

    let named = [
        "reward.hacking_monitor.compare_with=none",
        "reward.hacking_monitor.model.model_path=gullible/checkpoints/second_model",
    ];
    let said = refused(here, &monitored(&named), 2);
    assert!(said.contains("reward.hacking_monitor.model.model_path"), "{said}");
    assert!(said.contains("a model with a frame history cannot score single frames"), "{said}");
}

#[test]
fn what_cannot_be_monitored_is_refused_before_anything_runs() {
    let folder = models();
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["reward.hacking_monitor.action=panic"],
            &["reward.hacking_monitor.action", "panic", "raise_threshold"],
        ),
        (
            &["reward.hacking_monitor.compare_with=model"],
            &["reward.hacking_monitor.model.model_path", "none is named", "compare_with: none"],
        ),
        (
            &[
                "reward.hacking_monitor.compare_with=model",
                "reward.hacking_monitor.model.model_path=gullible",
            ],
            &["the reward model itself"],
        ),
        (&["reward.hacking_monitor.false_alarms=0"], &["reward.hacking_monitor.false_alarms", "above 0"]),
        (
            &["reward.hacking_monitor.compare_with=model", "reward.hacking_monitor.model.model_path=nowhere"],
            &["reward.hacking_monitor.model.model_path", "nowhere"],
        ),
        (
            &["reward.hacking_monitor.false_success=3"],
            &["reward.hacking_monitor.false_success", "outside 0 to 1"],
        ),
    ];
    for (more, expected) in cases {
        let said = refused(folder.path(), &monitored(more), 2);
        for words in expected {
            assert!(said.contains(words), "{more:?}: {said}");
        }
    }
}
