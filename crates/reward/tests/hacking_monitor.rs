//! Tricks that fool an image reward model (see `tricks`), and whether the hacking monitor notices them.
//!
//! `examples/spreading_tricks.rs` lets them spread as a policy would, for docs/hacking-monitor.md.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test that cannot go on says so by stopping

mod tricks;

use std::collections::BTreeSet;
use std::sync::Arc;

use plaudit_core::{Env, FramesNeeded, Obs, Reward, Seed, Segment};
use plaudit_env::CameraName;
use plaudit_reward::RewardTiming;
use plaudit_reward::hacking_monitor::{
    AdjustableReward, Adjustment, AlarmAction, AlarmResponse, CheckInput, FirstEpisodes, FirstFrames,
    HackingMonitor, Limits, MonitorSettings, Reference, RunEvidence, Signal, Signals, SuccessComparison,
    Tally,
};
use tricks::{Play, reward};

/// Environments side by side, each one episode per check.
const ROWS: usize = 24;
/// Checks of one run; tricks begin in the middle.
const CHECKS: usize = 6;
/// Checks of a run that rewards ends: of those, fewer frames come together.
const ENDS_CHECKS: usize = 8;
/// Rewarded frames that are kept at each check.
const KEPT: usize = 64;

const TRICKS: [Play; 4] = [Play::Sticker, Play::Occluder, Play::NearMiss, Play::Dithering];

fn tables() -> Box<dyn Env> {
    tricks::tables(ROWS, &[CameraName::BaseCamera], FramesNeeded::Everything)
}

/// One episode in every row, with the trick in all of them.
fn played(env: &mut dyn Env, obs: Obs, play: Play, seed: Seed) -> (Segment, Obs) {
    tricks::played(usize::MAX, env, obs, play, seed)
}

/// The alarms of a run: names of signals. An honest policy learns: its noise falls to nothing until the last check.
fn run(play: Play, checks: usize, seed: u64, timing: RewardTiming) -> BTreeSet<&'static str> {
    let seed = Seed::new(seed);
    let (mut env, reward) = (tables(), reward(timing));
    let mut obs = env.reset(seed.purpose("env")).unwrap();
    let (mut tally, mut first_frames) = (Tally::new(KEPT, seed), FirstFrames::default());
    let with_truth =
        [Signal::FalseSuccess, Signal::EarlySuccess, Signal::Dithering, Signal::Drift, Signal::SuccessDrop];
    let mut evidence = RunEvidence::new(Limits::default(), &with_truth);
    let mut first_episodes = FirstEpisodes::default();
    let mut alarms = BTreeSet::new();
    for check in 0..checks {
        let left = (checks - 1 - check) as f64 / (checks - 1) as f64;
        let now = match play {
            Play::Honest { noise } => Play::Honest { noise: noise * left },
            _ if check < checks / 2 => Play::Honest { noise: 0.05 },
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
        let (unusual, drift) = (first_episodes.compare(&episodes), first_frames.compare(&frames));
        let signals = Signals::of(CheckInput {
            episodes: &episodes,
            unusual,
            compared,
            drift,
            ends_only,
            ..CheckInput::default()
        });
        alarms.extend(evidence.check(&signals).iter().map(|alarm| alarm.signal.name()));
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

/// A policy that breaks is rewarded no more: that is said, and a reward that gives nothing is not made stricter.
#[test]
fn a_policy_that_breaks_is_noticed_though_nothing_is_hacked() {
    let seed = Seed::new(9);
    let (mut env, reward) = (tables(), Arc::new(reward(RewardTiming::Terminal)));
    let settings = MonitorSettings {
        every: 1,
        action: AlarmAction::RaiseThreshold,
        frames: KEPT,
        limits: Limits::default(),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut monitor =
        HackingMonitor::new(settings, reward.clone(), Reference::Unavailable, folder.path().into(), seed);
    let mut on_labelled = monitor.on_labelled();
    let mut obs = env.reset(seed.purpose("env")).unwrap();
    for check in 0..8 {
        let noise = if check < 7 { 0.05 } else { 3.0 };
        let now = Play::Honest { noise };
        let (segment, next) = played(env.as_mut(), obs, now, seed.purpose("policy").index(check));
        obs = next;
        on_labelled(&segment, &reward.label(&segment).unwrap());
        let found = monitor.check(check + 1).unwrap().unwrap();
        let alarms: Vec<_> = found.alarms.iter().map(|alarm| alarm.signal).collect();
        match check {
            7 => {
                assert_eq!((alarms, found.response), (vec![Signal::SuccessDrop], Some(AlarmResponse::Warned)))
            }
            _ => assert_eq!(alarms, []),
        }
        let drop = found.success_drop.unwrap_or(0.0);
        assert!(if check < 7 { drop < 0.3 } else { drop > 0.5 }, "{check}: {drop}");
    }
    assert_eq!(reward.threshold(), Some(0.5));
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
