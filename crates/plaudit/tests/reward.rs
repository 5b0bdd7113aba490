//! From the reward block of a config to the reward, and what is refused before the first step.

use std::path::Path;

use plaudit::build::{self, EnvBlock};
use plaudit::cli::ConfigArgs;
use plaudit::config::{self, LoadedConfig};
use plaudit::load::RequestedConfig;
use plaudit_core::{Env, FramesNeeded, Reward, Seed};
use plaudit_nn::Weights;
use plaudit_reward::StateConditions;
use plaudit_reward::card::ModelCard;
use plaudit_rl::Rollout;

use crate::runs::fresh_classifier;

/// PickCube at 32 pixels, rewarded by a model.
const CONFIG: &str = "
env:
  train:
    env_type: embedded
    total_num_envs: 3
    max_episode_steps: 6
    init_params: {id: PickCube-v1, sensor_configs: {width: 32, height: 32}}
actor: {model: {model_type: random}}
algorithm: {gamma: 0.5}
";

fn load(folder: &Path, words: &[&str]) -> Result<LoadedConfig, String> {
    let file = folder.join("mine.yaml");
    std::fs::write(&file, CONFIG).unwrap();
    let words =
        std::iter::once(file.to_str().unwrap()).chain(words.iter().copied()).map(String::from).collect();
    let asked = RequestedConfig::from_args(&ConfigArgs { words, ..ConfigArgs::default() }).unwrap();
    config::load(&asked.disk, &asked.request).map_err(|error| error.to_string())
}

/// A model with fresh weights.
fn model(folder: &Path, threshold: Option<f64>, seed: u64) -> String {
    model_of(&["main_images"], folder, threshold, seed)
}

/// One that looks at these views.
fn model_of(views: &[&str], folder: &Path, threshold: Option<f64>, seed: u64) -> String {
    fresh_classifier(folder.join("best_model"), views, threshold, seed).to_str().unwrap().into()
}

fn with_reward_model(path: &str) -> Vec<String> {
    ["reward.use_reward_model=true".into(), format!("reward.model.model_path={path}")].into()
}

type Built = (LoadedConfig, Box<dyn Env>, Box<dyn Reward>);

fn reward(folder: &Path, words: &[String]) -> Result<Built, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let loaded = load(folder, &words)?;
    let env = build::env(&loaded, EnvBlock::Train).map_err(|error| error.to_string())?;
    let built = build::reward(&loaded, env.spec()).map_err(|error| error.to_string())?;
    Ok((loaded, env, built.reward))
}

/// The labels of two episodes per environment, cut in the middle of one.
fn play(env: &mut dyn Env, reward: &dyn Reward) -> Vec<plaudit_core::RewardColumn> {
    let spec = env.spec().actions.clone();
    let mut policy = plaudit_env::RandomPolicy::new(spec);
    let mut rollout = Rollout::start(env, Seed::new(1), reward.context()).unwrap();
    [8, 4].map(|steps| reward.label(&rollout.play(&mut policy, steps).unwrap().segment).unwrap()).into()
}

#[test]
fn without_a_model_the_environment_rewards() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut env, reward) = reward(folder.path(), &[]).unwrap();
    let columns = play(&mut *env, &*reward);
    assert_eq!(
        (columns[0].terms.len(), &*columns[0].terms[0].name, reward.frames_needed()),
        (1, "env", FramesNeeded::Nothing)
    );
}

#[test]
fn a_terminal_model_draws_last_frames_alone_even_where_cameras_are_observed() {
    let folder = tempfile::tempdir().unwrap();
    let mut words = with_reward_model(&model(folder.path(), Some(0.0), 1));
    words.extend(
        [
            "reward.reward_mode=terminal",
            "reward.reward_weight=10",
            "reward.use_reward_prob=true",
            "env.train.init_params.obs_mode=rgb",
            "env.train.use_full_state=true",
        ]
        .map(String::from),
    );
    let (loaded, mut env, reward) = reward(folder.path(), &words).unwrap();
    env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
    let mut policy = plaudit_env::RandomPolicy::new(env.spec().actions.clone());
    let mut rollout = Rollout::start(&mut *env, Seed::new(1), reward.context()).unwrap();
    let segment = rollout.play(&mut policy, 8).unwrap().segment;
    assert!(segment.obs.iter().all(|obs| obs.cameras.is_empty()), "nothing is rendered while episodes go on");
    assert_eq!(segment.last.len(), 3);
    assert!(segment.last.iter().all(|(_, _, obs)| obs.cameras.len() == 1), "and every end is");
    let column = reward.label(&segment).unwrap();
    let names: Vec<_> = column.terms.iter().map(|term| (&*term.name, term.weight)).collect();
    assert_eq!(names, [("model", 10.0), ("model/probability", 0.0), ("env", 0.0)]);
    for (at, end) in segment.end.iter().enumerate() {
        let (value, probability) = (column.terms[0].values[at], column.terms[1].values[at]);
        assert_eq!(value, probability, "any score is above 0, and is the reward as it is");
        assert_eq!(value > 0.0, end.is_end());
        assert_eq!(column.total[at], 10.0 * value);
        assert_eq!(column.success.as_ref().unwrap()[at], end.is_end());
    }
    assert_eq!(
        build::frames_needed(&loaded, EnvBlock::Train, &*reward, true),
        FramesNeeded::Everything,
        "a policy that sees"
    );
}

#[test]
fn terms_and_rules_are_read_from_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path(), Some(0.0), 1);
    let mut words = with_reward_model(&path);
    words.extend(
        [
            "reward.reward_type=binary",
            "reward.success_reward=2",
            "reward.fail_reward=-1",
            "reward.hold_steps=3",
            "reward.guards=['tcp_pose.z > 0', 'abs(qvel[:7]) < 100']",
            "reward.combine_mode=weighted",
            "reward.env_reward_weight=0.25",
            "reward.terms.progress.reward_mode=potential",
            "reward.terms.progress.weight=0.5",
            "reward.terms.open.source=state",
            "reward.terms.open.guards=['gripper open', 'not is_grasped']",
        ]
        .map(String::from),
    );
    words.push(format!("reward.terms.progress.model.model_path={path}"));
    let (loaded, mut env, reward) = reward(folder.path(), &words).unwrap();
    assert_eq!((reward.context(), reward.frames_needed()), (1, FramesNeeded::Everything));
    env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
    let columns = play(&mut *env, &*reward);
    let names: Vec<_> = columns[0].terms.iter().map(|term| (&*term.name, term.weight)).collect();
    assert_eq!(names, [("model", 1.0), ("env", 0.25), ("progress", 0.5), ("open", 1.0)]);
    // Every score is above the checkpoint's threshold of 0, so success begins at the third step of each episode, and the
    // second column goes on where the first was cut.
    let of_row = |column: &plaudit_core::RewardColumn| -> Vec<f32> {
        column.terms[0].values.iter().step_by(3).copied().collect()
    };
    assert_eq!(of_row(&columns[0]), [-1.0, -1.0, 2.0, 2.0, 2.0, 2.0, -1.0, -1.0]);
    assert_eq!(of_row(&columns[1]), [2.0, 2.0, 2.0, 2.0]);
    assert!(columns[0].terms[3].values.contains(&1.0));
}

#[test]
fn a_model_that_is_overwritten_is_used_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path(), None, 1);
    let mut words = with_reward_model(&path);
    let (_, _, still) = reward(folder.path(), &words).unwrap();
    words.push("reward.reload_model=true".into());
    let (loaded, mut env, reward) = reward(folder.path(), &words).unwrap();
    env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
    let before = play(&mut *env, &*reward);
    assert!(!reward.refresh().unwrap());
    model(folder.path(), None, 2);
    assert!(reward.refresh().unwrap() && !still.refresh().unwrap());
    let after = play(&mut *env, &*reward);
    assert!(after[0].version > before[0].version && after[0].version == reward.version());
    assert_ne!(after[0].total, before[0].total);
    assert_eq!(play(&mut *env, &*still)[0].total, before[0].total, "one that does not follow");
}

#[test]
fn a_model_that_looks_back_is_shown_the_past_also_across_a_cut() {
    let folder = tempfile::tempdir().unwrap();
    let words = with_reward_model(&model_of(&["main_images", "main_images@-3"], folder.path(), None, 1));
    let (_, mut env, reward) = reward(folder.path(), &words).unwrap();
    assert_eq!((reward.context(), reward.frames_needed()), (2, FramesNeeded::Everything));
    env.set_frames_needed(reward.frames_needed());
    let cut = play(&mut *env, &*reward);
    let mut policy = plaudit_env::RandomPolicy::new(env.spec().actions.clone());
    let mut rollout = Rollout::start(&mut *env, Seed::new(1), reward.context()).unwrap();
    let whole = reward.label(&rollout.play(&mut policy, 12).unwrap().segment).unwrap();
    assert_eq!([cut[0].total.clone(), cut[1].total.clone()].concat(), whole.total);
}

#[test]
fn images_of_another_size_are_resized() {
    let folder = tempfile::tempdir().unwrap();
    let mut words = with_reward_model(&model(folder.path(), None, 1));
    let rewards = |words: &[String]| {
        let (_, mut env, reward) = reward(folder.path(), words).unwrap();
        env.set_frames_needed(reward.frames_needed());
        play(&mut *env, &*reward)[0].total.clone()
    };
    let as_rendered = rewards(&words);
    words.push("env.train.init_params.sensor_configs.width=64".into());
    let resized = rewards(&words);
    assert!(resized.iter().all(|value| (0.0..=1.0).contains(value)) && resized != as_rendered, "{resized:?}");
}

#[test]
fn scored_images_are_kept_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut words = with_reward_model(&model(folder.path(), None, 1));
    let gallery = folder.path().join("seen");
    words.push(format!("reward.model.debug_save_dir={}", gallery.display()));
    words.push("reward.reward_mode=terminal".into());
    let (loaded, mut env, reward) = reward(folder.path(), &words).unwrap();
    env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
    play(&mut *env, &*reward);
    let count = |part: &str| std::fs::read_dir(gallery.join(part)).unwrap().count();
    assert_eq!(count("resnet_success") + count("resnet_fail"), 6, "two ends of three environments");
}

#[test]
fn an_unusable_reward_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path(), None, 1);
    let gone = folder.path().join("gone");
    let on = |more: &[&str]| -> Vec<String> {
        with_reward_model(&path).into_iter().chain(more.iter().map(|word| word.to_string())).collect()
    };
    let gone = gone.to_str().unwrap();
    for (words, expected) in [
        (vec!["reward.use_reward_model=true".to_string()], "a learned reward without weights"),
        (with_reward_model(gone), "cannot read"),
        (on(&["env.train.init_params.id=CartPole-v1"]), "the environment has no camera for `main_images`"),
        (on(&["reward.model.image_size=[3,64,64]"]), "was made with image_size: [3, 32, 32]"),
        (on(&["reward.model.arch=resnet18"]), "was made with arch: resnet10"),
        (on(&["reward.guards=['height > 1']"]), "the state has no part `height`"),
        (on(&["reward.model.model_type=vlm"]), "config.json"),
        (on(&["reward.model.model_type=history_vlm"]), "judges windows of frames, not single ones"),
        (
            on(&["reward.model.model_type=vlm", "reward.model.input_builder_name=qwentrend_input_builder"]),
            "this builder shows windows",
        ),
        (
            on(&["reward.model.model_type=vlm", "reward.model.reward_parser_name=mine"]),
            "one of vlm_trend_reward_parser, score_parser",
        ),
        (on(&["reward.worker_type=api"]), "a server is to judge, and its address is not set"),
        (
            on(&["reward.worker_type=api", "reward.api.on_failure=skip"]),
            "a frame without a score has no reward",
        ),
        (on(&["reward.worker_type=api", "reward.reload_model=true"]), "a model on a server is not reloaded"),
        (
            on(&["reward.worker_type=api", "reward.model.model_type=vlm"]),
            "a server is to judge, and its address is not set",
        ),
        (
            on(&[
                "reward.worker_type=api",
                "reward.model.model_type=vlm",
                "reward.api.api_base=http://127.0.0.1:9",
            ]),
            "no reward server answers at http://127.0.0.1:9",
        ),
        (
            on(&[
                "reward.worker_type=api",
                "reward.reward_mode=potential",
                "reward.model.model_type=buffered_vlm",
                "reward.model.history_buffers={w: {history_size: 2, history_keys: [main_images]}}",
                "reward.api.api_base=http://127.0.0.1:9",
            ]),
            "the environment has no camera for `extra_view_images`",
        ),
        (on(&["reward.model.label_temperature=0"]), "0 is too small"),
        (on(&["reward.api.concurrency=0"]), "0 is too small"),
        (
            on(&["reward.hysteresis={enter: 0.2, leave: 0.6}"]),
            "success would begin above 0.2 and end below 0.6",
        ),
        (on(&["reward.hold_steps=0"]), "0 is too small"),
        (on(&["reward.terms.env.source=state"]), "a term that goes by the state and has no guards"),
        (
            on(&["reward.terms.env.source=state", "reward.terms.env.guards=[is_grasped]"]),
            "`env` is the name of a term",
        ),
        (
            vec!["reward.terms.x.source=state".into(), "reward.terms.x.guards=[is_grasped]".into()],
            "a further reward term without a reward model",
        ),
        (on(&["reward.reward_mode=history_buffer"]), "windows without reward.model.history_buffers"),
        (
            on(&[
                "reward.model.history_buffers={w: {history_size: 2, min_history_size: 3, history_keys: [main_images]}}",
            ]),
            "only 2 frames are kept, so that 3 never come together",
        ),
        (
            on(&[
                "reward.reward_mode=history_buffer",
                "reward.hold_steps=2",
                "reward.model.history_buffers={w: {history_size: 2, history_keys: [main_images]}}",
            ]),
            "rules about single frames",
        ),
        (
            on(&[
                "reward.reward_mode=history_buffer",
                "reward.model.history_buffers={w: {history_size: 2, history_keys: [wrist_images]}}",
            ]),
            "the environment has no camera for `wrist_images`",
        ),
    ] {
        let error = reward(folder.path(), &words).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{words:?}\n{error}");
    }
}

fn fixture(name: &str) -> String {
    format!("{}/../nn/tests/qwen3_vl/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Rewarded by the tiny vision-language model of the fixtures, on windows of three frames.
fn with_vlm_reward(more: &[&str]) -> Vec<String> {
    let mut words: Vec<String> = [
        "reward.use_reward_model=true",
        "reward.reward_mode=history_buffer",
        "reward.model.model_type=history_vlm",
        "reward.model.input_builder_name=qwentrend_input_builder",
        "reward.model.input_builder_params.video_keys=[main_images]",
        "reward.model.reward_parser_name=qwentrend_reward_parser",
        "reward.model.history_buffers={history_window: {history_size: 3, min_history_size: 3, input_interval: 1, history_keys: [main_images]}}",
        "reward.model.interval_reward=0.5",
        "reward.model.infer_micro_batch_size=4",
        "reward.model.max_new_tokens=2",
    ]
    .map(String::from)
    .into();
    words.push(format!("reward.model.model_path={}", fixture("model")));
    words.extend(more.iter().map(|word| word.to_string()));
    words
}

#[test]
fn a_vision_language_model_in_this_process_rewards_windows() {
    let folder = tempfile::tempdir().unwrap();
    let labels = |more: &[&str]| {
        let (_, mut env, reward) = reward(folder.path(), &with_vlm_reward(more)).unwrap();
        env.set_frames_needed(reward.frames_needed());
        play(&mut *env, &*reward)
    };
    let term = |column: &plaudit_core::RewardColumn, name: &str| {
        column.terms.iter().find(|term| &*term.name == name).unwrap().values.clone()
    };
    let soft = &labels(&[])[0];
    // Episodes have six steps, and a window needs three frames: the first two steps of each have none.
    let judged: Vec<bool> = (0..8 * 3).map(|at| at / 3 % 6 >= 2).collect();
    for (at, judged) in judged.iter().enumerate() {
        let value = term(soft, "model")[at];
        assert_eq!(value != 0.5, *judged, "step {}: {value}", at / 3);
        assert!((-0.2..=1.0).contains(&value));
        let said: f32 = ["positive", "negative", "unclear"]
            .map(|word| term(soft, &format!("model/{word}"))[at])
            .iter()
            .sum();
        assert_eq!(said, f32::from(u8::from(*judged)));
    }
    let hard = &labels(&["reward.model.soft_reward=false"])[0];
    let amounts = [1.0, -0.2, 0.0, 0.5];
    assert!(term(hard, "model").iter().all(|value| amounts.contains(value)));
    // Random weights say nothing that makes sense.
    let words = &labels(&["reward.model.readout=text", "reward.model.max_invalid=1"])[0];
    let answered: f32 = ["positive", "negative", "unclear", "invalid"]
        .iter()
        .flat_map(|word| term(words, &format!("model/{word}")))
        .sum();
    assert_eq!(answered, judged.iter().filter(|judged| **judged).count() as f32);
    let tuned = &labels(&[&format!("reward.model.lora_path={}", fixture("lora"))])[0];
    assert_ne!(term(tuned, "model"), term(soft, "model"), "adapters change its mind");
    let votes = &labels(&["reward.reward_mode=potential"])[0];
    assert!(term(votes, "model").iter().all(|value| value.abs() <= 1.5));
    assert_ne!(term(votes, "model"), term(soft, "model"));
}

#[test]
fn a_vision_language_model_that_cannot_judge_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let classifier = model(folder.path(), None, 1);
    for (words, expected) in [
        (vec!["reward.model.model_path=null".to_string()], "its path is not set"),
        (vec![format!("reward.model.model_path={classifier}")], "config.json"),
        (vec![format!("reward.model.lora_path={classifier}")], "reward.model.lora_path"),
        // No GPU of this number anywhere; the older spelling means the same.
        (
            vec!["reward.model.device=cuda:9999".into(), "reward.model.precision=bf16".into()],
            "reward.model.device",
        ),
        (vec!["+reward.model.gpu=9999".into(), "reward.model.precision=bf16".into()], "reward.model.device"),
        (vec!["reward.model.device=gpu".into()], "give auto, cpu, cuda or cuda:N"),
        (vec!["reward.model.input_builder_params.video_keys=[]".into()], "the judge would get no images"),
        (
            vec!["reward.model.input_builder_params.video_keys=[wrist_images]".into()],
            "no camera for `wrist_images`",
        ),
        (
            vec!["reward.model.subprocessor_kwargs={video_processor: {fps: 3}}".into()],
            "`fps` of the video_processor",
        ),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let error = reward(folder.path(), &with_vlm_reward(&words)).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{words:?}\n{error}");
    }
}

/// A model that was trained for some states rewards in those alone, and is refused where states mean something else.
#[test]
fn conditions_of_a_checkpoint_are_checked_by_the_reward() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path(), Some(0.0), 1);
    let file = Path::new(&path).join("model.safetensors");
    let mut words = with_reward_model(&path);
    words.push("reward.reward_type=binary".into());
    let (_, env, _) = reward(folder.path(), &words).unwrap();
    let width = env.spec().state_width;
    let conditioned = |guard: &str, state_width: usize| {
        let card = ModelCard::from_header(Weights::read(&file).unwrap().metadata()).unwrap().unwrap();
        let conditions = Some(StateConditions { guards: vec![guard.into()], state_width });
        ModelCard { conditions, ..card }.replace_in(&file).unwrap();
        reward(folder.path(), &words)
    };
    let rewards = |guard: &str| {
        let (loaded, mut env, reward) = conditioned(guard, width).unwrap();
        env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
        play(&mut *env, &*reward).iter().flat_map(|column| column.total.clone()).sum::<f32>()
    };
    assert_eq!(rewards("state[0] < 1000"), 36.0, "every score is above 0");
    assert_eq!(rewards("state[0] > 1000"), 0.0);
    let error = conditioned("state[0] < 1000", width + 1).err().unwrap();
    assert!(
        error.contains(&format!("states of {} numbers, and this environment has {width}", width + 1)),
        "{error}"
    );
}

/// A policy on images sees the first numbers of the full state: conditions on those can be checked, and no others.
#[test]
fn conditions_on_a_full_state_hold_for_what_is_seen_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path(), Some(0.0), 1);
    let file = Path::new(&path).join("model.safetensors");
    let mut words = with_reward_model(&path);
    words.extend(["reward.reward_type=binary".into(), "env.train.init_params.obs_mode=rgb".into()]);
    let conditioned = |guard: &str| {
        let card = ModelCard::from_header(Weights::read(&file).unwrap().metadata()).unwrap().unwrap();
        let conditions = Some(StateConditions { guards: vec![guard.into()], state_width: 42 });
        ModelCard { conditions, ..card }.replace_in(&file).unwrap();
        reward(folder.path(), &words)
    };
    for (guard, expected) in [("abs(state[9:16]) < 1000", 36.0), ("abs(state[9:16]) > 1000", 0.0)] {
        let (loaded, mut env, reward) = conditioned(guard).unwrap();
        assert_eq!(env.spec().state_width, 29);
        env.set_frames_needed(build::frames_needed(&loaded, EnvBlock::Train, &*reward, false));
        let columns = play(&mut *env, &*reward);
        let total: f32 = columns.iter().flat_map(|column| column.total.clone()).sum();
        assert_eq!(total, expected, "{guard}");
    }
    let error = conditioned("state[35] < 1000").err().unwrap();
    assert!(error.contains("29"), "the position of the cube is not seen: {error}");
}
