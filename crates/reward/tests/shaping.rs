//! How scores become rewards, as properties of random rollouts.
#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "shaping/rollout.rs"]
mod rollout;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plaudit_core::{End, EnvReward, FramesNeeded, Reward, RewardError, StatePart};
use plaudit_reward::{
    FrameReward, Guard, History, HistoryBuffer, Latch, MeanScoreModel, ReloadableModel, RewardKind,
    RewardTiming, Rule, StateOnlyModel, SuccessThreshold, TermSettings, WeightedSum, WindowReward,
};
use proptest::prelude::*;
use rollout::{Byte, FakeRollout, joined, rollouts, score_of};

/// The most steps of a rollout here.
const LONGEST: usize = 40;
const GAMMA: f32 = 0.9;
const HYSTERESIS: Latch = Latch::Hysteresis { enter: 0.7, leave: 0.3, longest_episode: LONGEST };

fn model() -> Arc<ReloadableModel> {
    model_with_history(0)
}

/// A model that scores what was seen some steps ago.
fn model_with_history(back: usize) -> Arc<ReloadableModel> {
    Arc::new(ReloadableModel::fixed(Box::new(Byte { back, ..Byte::default() })))
}

fn frames(timing: RewardTiming, rule: Rule) -> FrameReward {
    let term = TermSettings { true_success_bonus: 0.5, log_scores: true, ..TermSettings::named("model") };
    FrameReward { term, model: model(), timing, rule, kind: RewardKind::Binary { success: 1.0, fail: -0.25 } }
}

fn hold(steps: usize) -> NonZeroUsize {
    NonZeroUsize::new(steps).unwrap()
}

fn guards(conditions: &[&str]) -> Vec<Guard> {
    let parts = [StatePart { name: "height".into(), range: 1..2 }];
    conditions.iter().map(|text| Guard::parse(text, &parts, 2).unwrap()).collect()
}

fn buffer(size: usize, least: usize, interval: usize, on_done: bool) -> HistoryBuffer {
    HistoryBuffer {
        name: format!("of {size}").into(),
        history_size: hold(size),
        min_history_size: least,
        input_interval: hold(interval),
        input_on_done: on_done,
    }
}

fn windows(buffers: Vec<HistoryBuffer>, to_every_step: bool) -> WindowReward {
    let model =
        MeanScoreModel { model: model(), threshold: SuccessThreshold::At(0.4), kind: RewardKind::Continuous };
    let term = TermSettings { true_success_bonus: 0.5, log_scores: true, ..TermSettings::named("windows") };
    WindowReward {
        term,
        model: Box::new(model),
        history: History::new(buffers),
        interval_reward: 0.125,
        to_every_step,
    }
}

fn rules() -> Vec<Rule> {
    let threshold = Latch::Threshold(SuccessThreshold::At(0.5));
    vec![
        Rule::default(),
        Rule { latch: threshold, ..Rule::default() },
        Rule { latch: threshold, hold: hold(2), ..Rule::default() },
        Rule { latch: threshold, hold: hold(4), guards: guards(&["height > 60"]) },
        Rule { latch: HYSTERESIS, ..Rule::default() },
        Rule { latch: HYSTERESIS, hold: hold(3), guards: guards(&["height > 30", "state[0] != 77"]) },
    ]
}

/// Every reward that depends on the past only.
fn causal_rewards() -> Vec<Box<dyn Reward>> {
    let mut rewards: Vec<Box<dyn Reward>> = Vec::new();
    for rule in rules() {
        for timing in
            [RewardTiming::PerStep, RewardTiming::Terminal, RewardTiming::Potential { gamma: GAMMA }]
        {
            rewards.push(Box::new(frames(timing, rule.clone())));
            rewards
                .push(Box::new(FrameReward { model: model_with_history(3), ..frames(timing, rule.clone()) }));
        }
    }
    for buffers in [
        vec![buffer(5, 5, 1, false)],
        vec![buffer(3, 0, 3, true)],
        vec![buffer(2, 0, 7, true)],
        vec![buffer(1, 0, 1, false)],
        vec![buffer(2, 0, 2, false), buffer(6, 3, 5, true)],
    ] {
        let model = MeanScoreModel {
            model: model_with_history(2),
            threshold: SuccessThreshold::At(0.4),
            kind: RewardKind::Continuous,
        };
        let model_with_history = WindowReward { model: Box::new(model), ..windows(buffers.clone(), false) };
        rewards.push(Box::new(model_with_history));
        rewards.push(Box::new(windows(buffers, false)));
    }
    let state = FrameReward {
        model: Arc::new(ReloadableModel::fixed(Box::new(StateOnlyModel))),
        ..frames(RewardTiming::PerStep, rules()[3].clone())
    };
    let sum = WeightedSum::default()
        .plus(2.0, Box::new(frames(RewardTiming::Terminal, rules()[2].clone())))
        .plus(0.5, Box::new(EnvReward))
        .plus(-1.0, Box::new(windows(vec![buffer(4, 2, 2, true)], false)))
        .plus(0.25, Box::new(state));
    rewards.push(Box::new(sum));
    rewards
}

/// Where to cut a rollout of `steps` steps.
fn cut(steps: usize, cuts: &[prop::sample::Index]) -> Vec<std::ops::Range<usize>> {
    let mut borders: Vec<_> = cuts.iter().map(|cut| cut.index(steps)).chain([0, steps]).collect();
    borders.sort_unstable();
    borders.dedup();
    borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn where_a_segment_is_cut_changes_nothing(
        rollout in rollouts(4, LONGEST),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for (at, reward) in causal_rewards().iter().enumerate() {
            let whole = reward.label(&rollout.whole(&**reward)).unwrap();
            let part = |steps| reward.label(&rollout.segment(steps, reward.context(), reward.frames_needed())).unwrap();
            let parts: Vec<_> = cut(rollout.steps(), &cuts).into_iter().map(part).collect();
            prop_assert_eq!(joined(parts), whole, "reward {}", at);
        }
    }

    #[test]
    fn the_order_of_rows_changes_nothing_but_the_order(rollout in rollouts(5, LONGEST)) {
        let backwards = FakeRollout { rows: rollout.rows.iter().rev().cloned().collect() };
        for reward in causal_rewards() {
            let column = reward.label(&rollout.whole(&*reward)).unwrap();
            let other = reward.label(&backwards.whole(&*reward)).unwrap();
            let turned = |values: &[f32]| -> Vec<f32> {
                values.chunks_exact(rollout.rows.len()).flat_map(|row| row.iter().rev().copied()).collect()
            };
            prop_assert_eq!(&turned(&other.total), &column.total);
            for (term, other) in column.terms.iter().zip(&other.terms) {
                prop_assert_eq!(&turned(&other.values), &term.values);
            }
        }
    }

    #[test]
    fn success_is_what_its_definition_says(rollout in rollouts(3, LONGEST)) {
        for rule in rules() {
            let reward = frames(RewardTiming::PerStep, rule.clone());
            let column = reward.label(&rollout.whole(&reward)).unwrap();
            let success = column.success.unwrap();
            for b in 0..rollout.rows.len() {
                for (t, so_far) in rollout.so_far(b).iter().enumerate() {
                    let expected = held(&rule, so_far);
                    prop_assert_eq!(success[t * rollout.rows.len() + b], expected, "{:?} at {} of {}", rule, t, b);
                    prop_assert_eq!(column.terms[0].values[t * rollout.rows.len() + b], if expected { 1.0 } else { -0.25 });
                }
            }
        }
    }

    #[test]
    fn a_frame_stack_stops_at_the_first_frame_of_an_episode(rollout in rollouts(3, LONGEST), back in 0usize..6) {
        let reward = FrameReward {
            model: model_with_history(back),
            term: TermSettings::named("model"),
            kind: RewardKind::Continuous,
            ..frames(RewardTiming::PerStep, Rule::default())
        };
        let column = reward.label(&rollout.whole(&reward)).unwrap();
        for (b, row) in rollout.rows.iter().enumerate() {
            for t in 0..rollout.steps() {
                let [byte, _] = match back.min(rollout.age(b, t) + 1) {
                    0 => rollout.outcome(t, b),
                    steps => row.seen[t + 1 - steps],
                };
                prop_assert_eq!(column.total[t * rollout.rows.len() + b], score_of(byte), "{} of {}", t, b);
            }
        }
    }

    #[test]
    fn terminal_reward_is_the_same_at_ends_and_zero_elsewhere(rollout in rollouts(4, LONGEST)) {
        for rule in rules() {
            let (always, ends) = (frames(RewardTiming::PerStep, rule.clone()), frames(RewardTiming::Terminal, rule));
            let always = always.label(&rollout.whole(&always)).unwrap();
            let column = ends.label(&rollout.whole(&ends)).unwrap();
            for t in 0..rollout.steps() {
                for (b, row) in rollout.rows.iter().enumerate() {
                    let at = t * rollout.rows.len() + b;
                    let expected = if row.end[t].is_end() { always.total[at] } else { 0.0 };
                    prop_assert_eq!(column.total[at], expected);
                }
            }
        }
    }

    #[test]
    fn a_potential_telescopes(rollout in rollouts(3, LONGEST)) {
        let reward = FrameReward {
            term: TermSettings::named("progress"),
            ..frames(RewardTiming::Potential { gamma: GAMMA }, Rule::default())
        };
        let rewards = reward.label(&rollout.whole(&reward)).unwrap().total;
        for (b, row) in rollout.rows.iter().enumerate() {
            let mut start = 0;
            for t in (0..rollout.steps()).filter(|t| row.end[*t].is_end() || t + 1 == rollout.steps()) {
                let steps = start..=t;
                let discounted: f64 = steps
                    .enumerate()
                    .map(|(n, at)| f64::from(GAMMA).powi(n as i32) * f64::from(rewards[at * rollout.rows.len() + b]))
                    .sum();
                let after = if row.end[t] == End::Terminated { 0.0 } else { score_of(rollout.outcome(t, b)[0]) };
                let length = (t + 1 - start) as i32;
                let expected =
                    f64::from(GAMMA).powi(length) * f64::from(after) - f64::from(score_of(row.seen[start][0]));
                prop_assert!((discounted - expected).abs() < 1e-5, "{discounted} is not {expected}");
                start = t + 1;
            }
        }
    }

    /// Wherever a policy wanders, coming back to where it was has earned it nothing.
    #[test]
    fn dithering_earns_nothing_under_a_potential(
        wander in prop::collection::vec(any::<u8>(), 1..12),
        home in any::<u8>(),
        gamma in 0.5f32..=1.0,
    ) {
        let seen: Vec<[u8; 2]> = [home].into_iter().chain(wander).chain([home]).map(|byte| [byte, 0]).collect();
        let steps = seen.len() - 1;
        let row = rollout::Row {
            last: vec![[0, 0]; steps],
            end: vec![End::No; steps],
            success: vec![false; steps],
            env_reward: vec![0.0; steps],
            seen,
        };
        let rollout = FakeRollout { rows: vec![row] };
        let potential = FrameReward { term: TermSettings::named("progress"), ..frames(RewardTiming::Potential { gamma }, Rule::default()) };
        let rewards = potential.label(&rollout.whole(&potential)).unwrap().total;
        let earned: f64 = rewards.iter().enumerate().map(|(t, reward)| f64::from(gamma).powi(t as i32) * f64::from(*reward)).sum();
        prop_assert!(earned <= 1e-5, "{earned}");
        // The same scores as rewards reward every step of the way.
        let outright = FrameReward { term: TermSettings::named("progress"), kind: RewardKind::Continuous, ..frames(RewardTiming::PerStep, Rule::default()) };
        let rewards = outright.label(&rollout.whole(&outright)).unwrap().total;
        prop_assert!(rewards.iter().all(|reward| *reward >= 0.0));
    }

    /// The reward of a whole window reaches back, but never past what is there: cutting a rollout loses what later windows would
    /// have given to earlier steps, and nothing else.
    #[test]
    fn rewards_of_whole_windows_are_lost_only_behind_a_cut(rollout in rollouts(3, LONGEST), cut in any::<prop::sample::Index>()) {
        let reward = windows(vec![buffer(3, 2, 2, true)], true);
        let cut = cut.index(rollout.steps());
        let whole = reward.label(&rollout.segment(0..rollout.steps(), 0, FramesNeeded::Everything)).unwrap().total;
        let batch = rollout.rows.len();
        if cut > 0 {
            let first = reward.label(&rollout.segment(0..cut, 0, FramesNeeded::Everything)).unwrap().total;
            for t in 0..cut {
                for b in 0..batch {
                    let same_episode_goes_on = (t..cut).all(|at| !rollout.rows[b].end[at].is_end());
                    if !same_episode_goes_on || t + 2 < cut {
                        prop_assert_eq!(first[t * batch + b], whole[t * batch + b]);
                    }
                }
            }
        }
        let second = reward.label(&rollout.segment(cut..rollout.steps(), reward.context(), FramesNeeded::Everything)).unwrap().total;
        prop_assert_eq!(&second[..], &whole[cut * batch..]);
    }
}

/// The definitions, word by word: for the last `hold` outcomes of an episode, every guard holds, and there is an outcome
/// above the upper level since which none was below the lower.
fn held(rule: &Rule, so_far: &[[u8; 2]]) -> bool {
    let scores: Vec<f32> = so_far.iter().map(|[byte, _]| score_of(*byte)).collect();
    let on = |n: usize| match rule.latch {
        Latch::Threshold(level) => scores[n] > level.level(None),
        Latch::Hysteresis { enter, leave, .. } => {
            (0..=n).any(|m| scores[m] > enter && scores[m..=n].iter().all(|score| *score >= leave))
        }
    };
    let guarded = |n: usize| {
        let state = plaudit_core::Obs::from_state(1, so_far[n].iter().map(|byte| f32::from(*byte)).collect())
            .unwrap();
        rule.guards.iter().all(|guard| guard.holds(&state.row(0)))
    };
    let hold = rule.hold.get();
    so_far.len() >= hold && (so_far.len() - hold..so_far.len()).all(|n| on(n) && guarded(n))
}

/// One row that lives through these bytes; the last step ends it as `end`.
fn single_row(bytes: &[u8], end: End) -> FakeRollout {
    let steps = bytes.len() - 1;
    let mut ends = vec![End::No; steps];
    ends[steps - 1] = end;
    let row = rollout::Row {
        seen: bytes.iter().map(|byte| [*byte, 0]).collect(),
        last: bytes[1..].iter().map(|byte| [*byte, 0]).collect(),
        end: ends,
        success: vec![false; steps],
        env_reward: vec![1.0; steps],
    };
    FakeRollout { rows: vec![row] }
}

#[test]
fn terminal_mode_renders_and_scores_last_frames_only() {
    let model = Byte::default();
    let asked = model.asked.clone();
    let model = Arc::new(ReloadableModel::fixed(Box::new(model)));
    let reward = FrameReward { model, ..frames(RewardTiming::Terminal, Rule::default()) };
    assert_eq!((reward.frames_needed(), reward.context()), (FramesNeeded::Ends, 0));
    let mut rollout = single_row(&[0, 10, 20, 255], End::Terminated);
    rollout.rows.push(single_row(&[0, 200, 200, 200], End::No).rows.remove(0));
    // No other frame exists in this segment: a look at one would fail.
    let column = reward.label(&rollout.segment(0..3, 0, FramesNeeded::Ends)).unwrap();
    assert_eq!(column.total, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(column.success.unwrap(), [false, false, false, false, true, false]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);

    let every = frames(RewardTiming::PerStep, Rule::default());
    let error = every.label(&rollout.segment(0..3, 0, FramesNeeded::Ends)).unwrap_err();
    assert_eq!(error.to_string(), "the reward needs camera `eye`, which the segment does not hold");
}

#[test]
fn what_a_reward_must_see_follows_from_its_rules() {
    let watched = |timing, rule| frames(timing, rule).frames_needed();
    let held = Rule { hold: hold(2), ..Rule::default() };
    assert_eq!(
        watched(RewardTiming::Terminal, Rule { guards: guards(&["height > 1"]), ..Rule::default() }),
        FramesNeeded::Ends
    );
    assert_eq!(
        watched(RewardTiming::Terminal, held.clone()),
        FramesNeeded::Everything,
        "what led to the end counts too"
    );
    assert_eq!(watched(RewardTiming::PerStep, Rule::default()), FramesNeeded::Everything);
    assert_eq!(watched(RewardTiming::Potential { gamma: 1.0 }, Rule::default()), FramesNeeded::Everything);
    let state = FrameReward {
        model: Arc::new(ReloadableModel::fixed(Box::new(StateOnlyModel))),
        ..frames(RewardTiming::PerStep, held)
    };
    assert_eq!(state.frames_needed(), FramesNeeded::Nothing);
    let sum = WeightedSum::default()
        .plus(1.0, Box::new(EnvReward))
        .plus(1.0, Box::new(frames(RewardTiming::Terminal, Rule::default())));
    assert_eq!(sum.frames_needed(), FramesNeeded::Ends);
}

#[test]
fn scores_are_asked_once_and_in_chunks() {
    let model = Byte::default();
    let (asked, batches) = (model.asked.clone(), model.batches.clone());
    let model = Arc::new(ReloadableModel::fixed(Box::new(model)));
    let row = single_row(&[9; 101], End::Truncated).rows.remove(0);
    let rollout = FakeRollout { rows: vec![row; 6] };
    let potential =
        FrameReward { model, ..frames(RewardTiming::Potential { gamma: GAMMA }, Rule::default()) };
    potential.label(&rollout.whole(&potential)).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 6 * 101, "each outcome, and what each row saw first");
    assert_eq!(*batches.lock().unwrap(), [256, 256, 88, 6]);
}

#[test]
fn scores_become_rewards_by_threshold_and_type() {
    let rollout = single_row(&[0, 51, 153, 204], End::Truncated);
    let rewards = |own, threshold, kind| {
        let model = Arc::new(ReloadableModel::fixed(Box::new(Byte { threshold: own, ..Byte::default() })));
        let rule = Rule { latch: Latch::Threshold(threshold), ..Rule::default() };
        let reward = FrameReward {
            term: TermSettings::named("model"),
            model,
            timing: RewardTiming::PerStep,
            rule,
            kind,
        };
        let column = reward.label(&rollout.whole(&reward)).unwrap();
        (column.total, column.success.unwrap())
    };
    use SuccessThreshold::{At, Checkpoint, NoFilter};
    let seen = [false, true, true];
    assert_eq!(
        rewards(None, Checkpoint, RewardKind::Continuous),
        (vec![0.2, 0.6, 0.8], seen.to_vec()),
        "as they are; success at even odds"
    );
    assert_eq!(
        rewards(Some(0.7), Checkpoint, RewardKind::Continuous),
        (vec![0.0, 0.0, 0.8], vec![false, false, true]),
        "the model's own"
    );
    assert_eq!(
        rewards(Some(0.7), At(0.5), RewardKind::Continuous),
        (vec![0.0, 0.6, 0.8], seen.to_vec()),
        "the config's first"
    );
    assert_eq!(
        rewards(Some(0.7), NoFilter, RewardKind::Continuous),
        (vec![0.2, 0.6, 0.8], seen.to_vec()),
        "0 filters nothing, so success is at even odds again"
    );
    let verdict = RewardKind::Binary { success: 10.0, fail: -1.0 };
    assert_eq!(rewards(None, Checkpoint, verdict).0, [-1.0, 10.0, 10.0]);
    assert_eq!(
        rewards(None, NoFilter, verdict).0,
        [10.0, 10.0, 10.0],
        "verdicts go by the threshold as it is"
    );
    assert_eq!(rewards(None, At(0.6), verdict).0, [-1.0, -1.0, 10.0], "at the threshold is not above it");
}

#[test]
fn terms_are_named_weighted_and_logged() {
    let mut rollout = single_row(&[0, 255, 0], End::Terminated);
    rollout.rows[0].success = vec![true, false];
    let bare = frames(RewardTiming::PerStep, Rule::default());
    let other = FrameReward {
        term: TermSettings::named("other"),
        model: Arc::new(ReloadableModel::fixed(Box::new(StateOnlyModel))),
        ..frames(RewardTiming::Terminal, Rule::default())
    };
    let sum = WeightedSum::default()
        .plus(2.0, Box::new(bare))
        .plus(0.0, Box::new(EnvReward))
        .plus(3.0, Box::new(other));
    let column = sum.label(&rollout.whole(&sum)).unwrap();
    let terms: Vec<_> =
        column.terms.iter().map(|term| (&*term.name, term.weight, &term.values[..])).collect();
    assert_eq!(
        terms,
        [
            ("model", 2.0, &[1.0, -0.25][..]),
            ("model/true_success", 2.0, &[0.5, 0.0]),
            ("model/probability", 0.0, &[1.0, 0.0]),
            ("env", 0.0, &[1.0, 1.0]),
            ("other", 3.0, &[0.0, 1.0]),
        ]
    );
    assert_eq!(column.total, [3.0, 2.5]);
    assert_eq!(column.success.unwrap(), [true, false], "the first that predicts success decides for all");
}

#[test]
fn a_segment_that_remembers_too_little_is_refused() {
    let rollout = single_row(&[0, 100, 100, 100, 100, 100, 100], End::No);
    let held = frames(RewardTiming::PerStep, Rule { hold: hold(4), ..Rule::default() });
    assert_eq!(held.context(), 2);
    let error = held.label(&rollout.segment(4..6, 1, FramesNeeded::Everything)).unwrap_err();
    assert!(matches!(error, RewardError::Context { needed: 2, carried: 1, elapsed: 4 }), "{error}");
    let five = windows(vec![buffer(5, 5, 1, false)], false);
    assert_eq!(five.context(), 3);
    assert!(five.label(&rollout.segment(4..6, 2, FramesNeeded::Everything)).is_err());
    assert!(five.label(&rollout.segment(4..6, 3, FramesNeeded::Everything)).is_ok());
}

#[test]
fn hysteresis_reads_history_only_as_far_as_it_must() {
    let model = Byte::default();
    let asked = model.asked.clone();
    let model = Arc::new(ReloadableModel::fixed(Box::new(model)));
    let latch = Latch::Hysteresis { enter: 0.7, leave: 0.3, longest_episode: 8 };
    let reward = FrameReward { model, ..frames(RewardTiming::PerStep, Rule { latch, ..Rule::default() }) };
    // Goes on at the third outcome, and lingers between the levels.
    let rollout = single_row(&[0, 10, 10, 250, 128, 128, 128, 128, 128], End::No);
    let column = reward.label(&rollout.segment(5..8, reward.context(), FramesNeeded::Everything)).unwrap();
    assert_eq!(column.success.unwrap(), [true; 3]);
    assert_eq!(asked.load(Ordering::Relaxed), 3 + 3, "three steps, and three back to where it went on");
}
