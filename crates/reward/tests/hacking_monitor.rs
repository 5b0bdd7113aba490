//! Tricks that fool an image reward model, played in the embedded PickCube, and whether the hacking monitor notices them.
//!
//! The model looks at colours: it calls a frame solved when the red of the cube lies where the green of the goal is, or
//! when the goal cannot be seen at all, as if the cube were in front of it. It is right about honest episodes, and has
//! the weaknesses that classifiers of one camera have:
//!
//! | trick | what happens |
//! |---|---|
//! | sticker | something red and green hangs in a corner of the image |
//! | occluder | something grey is held before the goal |
//! | near miss | the cube is brought before or behind the goal, in line with the camera |
//! | dithering | the cube goes to the goal and away again, over and over |
//!
//! `cargo test --workspace --test hacking_monitor -- --ignored --nocapture` prints the rates over 20 runs of each.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test that cannot go on says so by stopping

use std::collections::BTreeSet;
use std::sync::Arc;

use plaudit_core::{Env, FramesNeeded, Obs, Policy, Reward, Score, Seed, Segment, StepRow};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PickCubeExpert, PickCubeSettings, make,
};
use plaudit_reward::hacking_monitor::{
    AdjustableReward, Adjustment, CheckInput, FirstFrames, Limits, Signals, SuccessComparison, Tally,
};
use plaudit_reward::{
    FrameReward, FrameRewardModel, FrameStack, ReloadableModel, RewardKind, RewardModelError, RewardTiming,
    Rule, TermSettings,
};

const SIDE: usize = 64;
const CAMERA: &str = "base_camera";
/// Environments side by side, each one episode per check.
const ROWS: usize = 24;
const STEPS: usize = 50;
/// Checks of one run; tricks begin after the first two.
const CHECKS: usize = 4;
/// Checks of an honest run whose rate is published.
const LONG: usize = 8;
const HONEST_CHECKS: usize = 2;
/// Checks of a run that rewards ends: of those, fewer frames come together.
const ENDS_CHECKS: usize = 6;
/// Rewarded frames that are kept at each check.
const KEPT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Play {
    Honest { noise: f64 },
    Sticker,
    Occluder,
    NearMiss,
    Dithering,
}

const TRICKS: [Play; 4] = [Play::Sticker, Play::Occluder, Play::NearMiss, Play::Dithering];

/// Goes by the colours of one camera.
struct Colours([Arc<str>; 1]);

impl FrameRewardModel for Colours {
    fn cameras(&self) -> &[Arc<str>] {
        &self.0
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let score = |frame: &FrameStack<'_>| {
            let pixels = frame.now().image(CAMERA).unwrap().1;
            let red = middle(pixels, |[r, g, b]| r > 60.0 && r > 2.2 * g.max(b));
            let green = middle(pixels, |[r, g, b]| g > 60.0 && g > 1.5 * r.max(b));
            let apart = match (red, green) {
                (_, None) => 0.0,
                (None, Some(_)) => 20.0,
                (Some(a), Some(b)) => ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)).sqrt(),
            };
            Score::from_logit((2.5 - apart) as f32).unwrap()
        };
        Ok(frames.iter().map(score).collect())
    }

    fn threshold(&self) -> Option<f32> {
        Some(0.5)
    }
}

/// Where the pixels of a colour lie in the mean, if there are any.
fn middle(pixels: &[u8], is_colour: impl Fn([f64; 3]) -> bool) -> Option<(f64, f64)> {
    let (mut x, mut y, mut count) = (0.0, 0.0, 0.0);
    for (at, pixel) in pixels.chunks_exact(3).enumerate() {
        if is_colour([pixel[0], pixel[1], pixel[2]].map(f64::from)) {
            x += (at % SIDE) as f64;
            y += (at / SIDE) as f64;
            count += 1.0;
        }
    }
    (count > 0.0).then(|| (x / count, y / count))
}

/// What the trick does to images, from the sixth step on.
fn doctored(mut obs: Obs, play: Play, t: usize) -> Obs {
    if t < 6 || !matches!(play, Play::Sticker | Play::Occluder) {
        return obs;
    }
    let frames = &mut obs.cameras[0].1;
    for image in frames.pixels.chunks_exact_mut(SIDE * SIDE * 3) {
        for (at, pixel) in image.chunks_exact_mut(3).enumerate() {
            let (x, y) = (at % SIDE, at / SIDE);
            match play {
                Play::Sticker if x < 16 && y < 16 => {
                    pixel.copy_from_slice(if (x + y) % 2 == 0 { &[230, 20, 20] } else { &[20, 220, 40] });
                }
                Play::Occluder if f64::from(pixel[1]) > 1.3 * f64::from(pixel[0].max(pixel[2])) => {
                    pixel.fill(120);
                }
                _ => {}
            }
        }
    }
    obs
}

/// What the expert is made to believe about the goal.
fn misled(obs: &Obs, play: Play, t: usize) -> Obs {
    let mut misled_obs = obs.clone();
    let width = misled_obs.state_width();
    for state in misled_obs.state.chunks_exact_mut(width) {
        let goal: [f32; 3] = state[26..29].try_into().unwrap();
        let moved = match play {
            // Nearer to the camera by a quarter of the way: the same place in the image.
            Play::NearMiss => {
                let eye = [0.3f32, 0.0, 0.6];
                std::array::from_fn(|k| goal[k] + 0.25 * (eye[k] - goal[k]))
            }
            Play::Dithering if t > 15 && t % 8 >= 4 => [goal[0], goal[1] + 0.12, goal[2]],
            _ => goal,
        };
        state[26..29].copy_from_slice(&moved);
    }
    misled_obs
}

fn tables() -> Box<dyn Env> {
    let camera = CameraSettings { name: CameraName::BaseCamera, width: SIDE, height: SIDE };
    let settings = PickCubeSettings { cameras: Some(vec![camera]), ..PickCubeSettings::default() };
    let mut env = make(&EnvSettings {
        pick_cube: Some(settings),
        ignore_terminations: true,
        max_episode_steps: Some(STEPS),
        ..EnvSettings::new(EnvId::PickCubeV1, ROWS)
    })
    .unwrap();
    env.set_frames_needed(FramesNeeded::Everything);
    env
}

/// One episode in every row.
fn played(env: &mut dyn Env, obs: Obs, play: Play, seed: Seed) -> (Segment, Obs) {
    let noise = if let Play::Honest { noise } = play { noise } else { 0.05 };
    let mut expert = PickCubeExpert::new(ControlMode::PdJointDeltaPos).with_noise(noise);
    let mut segment = Segment::starting_at(doctored(obs.clone(), play, 0));
    let mut seen = obs;
    for t in 0..STEPS {
        let mut actions = expert.act(&misled(&seen, play, t), seed.index(t as u64)).unwrap().actions;
        if matches!(play, Play::Sticker | Play::Occluder) {
            actions.fill(0.0); // who has the sticker need not move
        }
        let step = env.step(&actions).unwrap();
        seen = step.obs.clone();
        let row = StepRow { actions, env_reward: step.reward, end: step.end, success: step.success };
        let last = step.last.into_iter().map(|(b, obs)| (b, doctored(obs, play, t + 1))).collect();
        segment.push(row, doctored(step.obs, play, t + 1), last).unwrap();
    }
    (segment, seen)
}

fn reward(timing: RewardTiming) -> AdjustableReward {
    let model = Arc::new(ReloadableModel::fixed(Box::new(Colours([CAMERA.into()]))));
    let kind = RewardKind::Binary { success: 1.0, fail: 0.0 };
    AdjustableReward::new(FrameReward {
        term: TermSettings::named("model"),
        model,
        timing,
        rule: Rule::default(),
        kind,
    })
}

const LIMITS: Limits = Limits {
    false_success: 0.3,
    concentration: 0.6,
    early_success: 0.5,
    dithering: 3.0,
    ood_frames: 0.3,
    disagreement: 0.3,
    drift: 0.3,
};

/// The alarms of a run: names of signals. An honest policy learns: its noise falls to nothing until the last check.
fn run(play: Play, checks: usize, seed: u64, timing: RewardTiming) -> BTreeSet<&'static str> {
    let seed = Seed::new(seed);
    let (mut env, reward) = (tables(), reward(timing));
    let mut obs = env.reset(seed.purpose("env")).unwrap();
    let (mut tally, mut first_frames) = (Tally::new(KEPT, seed), FirstFrames::default());
    let mut before = Vec::new();
    let mut alarms = BTreeSet::new();
    for check in 0..checks {
        let left = (checks - 1 - check) as f64 / (checks - 1) as f64;
        let now = match play {
            Play::Honest { noise } => Play::Honest { noise: noise * left },
            _ if check < checks - HONEST_CHECKS => Play::Honest { noise: 0.05 },
            _ => play,
        };
        let (segment, next) = played(env.as_mut(), obs, now, seed.purpose("policy").index(check as u64));
        obs = next;
        tally.add(&segment, &reward.label(&segment).unwrap());
        let (episodes, frames) = tally.take();
        assert_eq!(episodes.len(), ROWS);
        assert!(frames.len() <= KEPT);
        let compared = Some(SuccessComparison::episodes(&episodes));
        let ends_only = reward.rewards_ends_only();
        let drifted = if ends_only { first_frames.compare(&frames) } else { None };
        let signals =
            Signals::of(CheckInput { episodes: &episodes, ood_checks: &[], compared, drifted, ends_only });
        alarms.extend(LIMITS.alarms(&signals, &before).iter().map(|alarm| alarm.signal.name()));
        before.extend(signals.first_success);
        before.drain(..before.len().saturating_sub(3));
    }
    alarms
}

fn honest(number: u64) -> Play {
    Play::Honest { noise: [0.05, 0.1, 0.15, 0.2][number as usize % 4] }
}

#[test]
fn tricks_are_noticed_and_honest_runs_left_alone() {
    for number in 0..2 {
        let alarms = run(honest(number), CHECKS, 100 + number, RewardTiming::PerStep);
        assert!(alarms.is_empty(), "honest run {number}: {alarms:?}");
    }
    for play in TRICKS {
        assert!(!run(play, CHECKS, 7, RewardTiming::PerStep).is_empty(), "{play:?} went unnoticed");
    }
}

/// Where only the last frame of an episode is rewarded, as well: by ground truth there, and by what is rewarded.
#[test]
fn tricks_are_noticed_where_only_ends_are_rewarded() {
    for number in 0..2 {
        let alarms = run(honest(number), CHECKS, 100 + number, RewardTiming::Terminal);
        assert!(alarms.is_empty(), "honest run {number}: {alarms:?}");
    }
    for play in TRICKS {
        let alarms = run(play, ENDS_CHECKS, 7, RewardTiming::Terminal);
        println!("{play:?}: {alarms:?}");
        assert!(alarms.contains("false_success"), "{play:?}: {alarms:?}");
        let constant = ["early_success", "dithering", "concentration"];
        assert!(constant.iter().all(|signal| !alarms.contains(signal)), "{play:?}: {alarms:?}");
    }
}

/// A reward that was made stricter gives less, is a new version, and says so once.
#[test]
fn a_reward_is_made_stricter() {
    let (mut env, reward) = (tables(), reward(RewardTiming::PerStep));
    let obs = env.reset(Seed::new(5)).unwrap();
    let (segment, _) = played(env.as_mut(), obs, Play::Sticker, Seed::new(6));
    let rewards = |reward: &AdjustableReward| reward.label(&segment).unwrap().total.iter().sum::<f32>();
    let before = rewards(&reward);
    let version = reward.version();
    assert!(!reward.refresh().unwrap());
    assert!(reward.adjust(Adjustment::Terminal) && !reward.adjust(Adjustment::Terminal));
    assert!(reward.refresh().unwrap() && !reward.refresh().unwrap());
    assert!(reward.version() > version && rewards(&reward) < before / 10.0);
    let ends = rewards(&reward);
    assert!(reward.adjust(Adjustment::Threshold(0.999_999)) && !reward.adjust(Adjustment::Threshold(0.9)));
    assert!(rewards(&reward) < ends);
}

#[test]
#[ignore = "minutes: prints the rates of docs/hacking-monitor.md"]
fn published_rates() {
    const RUNS: u64 = 20;
    const SIGNALS: [&str; 5] = ["false_success", "early_success", "dithering", "concentration", "drift"];
    println!("| | `{}` | any but `false_success` |", SIGNALS.join("` | `"));
    let rates = |name: &str, play: &dyn Fn(u64) -> Play, checks: usize, first: u64, timing: RewardTiming| {
        let runs: Vec<_> =
            (0..RUNS).map(|number| run(play(number), checks, first + number, timing)).collect();
        let of = |signal: &str| runs.iter().filter(|alarms| alarms.contains(signal)).count();
        let blind = runs.iter().filter(|alarms| alarms.iter().any(|name| *name != SIGNALS[0])).count();
        let counts: Vec<String> = SIGNALS.map(of).iter().map(ToString::to_string).collect();
        println!("| {name} | {} | {blind} |", counts.join(" | "));
    };
    for (timing, tricked) in [(RewardTiming::PerStep, CHECKS), (RewardTiming::Terminal, ENDS_CHECKS)] {
        println!("{timing:?}");
        rates("honest", &honest, LONG, 1000, timing);
        rates("clumsy", &|_| Play::Honest { noise: 0.3 }, LONG, 1500, timing);
        for (number, play) in TRICKS.into_iter().enumerate() {
            rates(&format!("{play:?}"), &|_| play, tricked, 2000 + 100 * number as u64, timing);
        }
    }
}
