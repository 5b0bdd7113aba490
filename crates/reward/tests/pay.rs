//! How scores become pay, as properties of random experience.
#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "pay/story.rs"]
mod story;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plaudit_core::{End, EnvReward, Reward, RewardError, StatePart, Watch};
use plaudit_reward::{
    Entry, FrameReward, Guard, History, HistoryBuffer, Latch, Pay, Rule, ScoredClips, Seat, StateAlone, Sum,
    When, WindowReward,
};
use proptest::prelude::*;
use story::{Byte, Story, joined, score_of, stories};

/// The most steps of a story here.
const LONGEST: usize = 40;
const GAMMA: f32 = 0.9;
const HYSTERESIS: Latch = Latch::Hysteresis { enter: 0.7, leave: 0.3, longest_episode: LONGEST };

fn seat() -> Arc<Seat> {
    looking_back(0)
}

/// A judge of what was seen some steps ago.
fn looking_back(back: usize) -> Arc<Seat> {
    Arc::new(Seat::of(Box::new(Byte { back, ..Byte::default() })))
}

fn frames(when: When, rule: Rule) -> FrameReward {
    let entry = Entry { true_success_bonus: 0.5, log_scores: true, ..Entry::named("model") };
    FrameReward { entry, seat: seat(), when, rule, pay: Pay::Verdict { success: 1.0, fail: -0.25 } }
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
    let judge = ScoredClips { seat: seat(), threshold: Some(0.4), pay: Pay::Score };
    let entry = Entry { true_success_bonus: 0.5, log_scores: true, ..Entry::named("windows") };
    WindowReward {
        entry,
        judge: Box::new(judge),
        history: History::new(buffers),
        between: 0.125,
        to_every_step,
    }
}

fn rules() -> Vec<Rule> {
    let threshold = Latch::Threshold(Some(0.5));
    vec![
        Rule::default(),
        Rule { latch: threshold, ..Rule::default() },
        Rule { latch: threshold, hold: hold(2), ..Rule::default() },
        Rule { latch: threshold, hold: hold(4), guards: guards(&["height > 60"]) },
        Rule { latch: HYSTERESIS, ..Rule::default() },
        Rule { latch: HYSTERESIS, hold: hold(3), guards: guards(&["height > 30", "state[0] != 77"]) },
    ]
}

/// Every way to pay that looks at nothing but the past.
fn causal_rewards() -> Vec<Box<dyn Reward>> {
    let mut rewards: Vec<Box<dyn Reward>> = Vec::new();
    for rule in rules() {
        for when in [When::EveryStep, When::AtEnds, When::AsPotential { gamma: GAMMA }] {
            rewards.push(Box::new(frames(when, rule.clone())));
            rewards.push(Box::new(FrameReward { seat: looking_back(3), ..frames(when, rule.clone()) }));
        }
    }
    for buffers in [
        vec![buffer(5, 5, 1, false)],
        vec![buffer(3, 0, 3, true)],
        vec![buffer(2, 0, 7, true)],
        vec![buffer(1, 0, 1, false)],
        vec![buffer(2, 0, 2, false), buffer(6, 3, 5, true)],
    ] {
        let judge = ScoredClips { seat: looking_back(2), threshold: Some(0.4), pay: Pay::Score };
        let looking_back = WindowReward { judge: Box::new(judge), ..windows(buffers.clone(), false) };
        rewards.push(Box::new(looking_back));
        rewards.push(Box::new(windows(buffers, false)));
    }
    let state = FrameReward {
        seat: Arc::new(Seat::of(Box::new(StateAlone))),
        ..frames(When::EveryStep, rules()[3].clone())
    };
    let sum = Sum::default()
        .plus(2.0, Box::new(frames(When::AtEnds, rules()[2].clone())))
        .plus(0.5, Box::new(EnvReward))
        .plus(-1.0, Box::new(windows(vec![buffer(4, 2, 2, true)], false)))
        .plus(0.25, Box::new(state));
    rewards.push(Box::new(sum));
    rewards
}

/// Where to cut a story of `steps` steps.
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
        story in stories(4, LONGEST),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for (at, reward) in causal_rewards().iter().enumerate() {
            let whole = reward.label(&story.whole(&**reward)).unwrap();
            let part = |steps| reward.label(&story.segment(steps, reward.context(), reward.watch())).unwrap();
            let parts: Vec<_> = cut(story.steps(), &cuts).into_iter().map(part).collect();
            prop_assert_eq!(joined(parts), whole, "reward {}", at);
        }
    }

    #[test]
    fn the_order_of_rows_changes_nothing_but_the_order(story in stories(5, LONGEST)) {
        let backwards = Story { rows: story.rows.iter().rev().cloned().collect() };
        for reward in causal_rewards() {
            let column = reward.label(&story.whole(&*reward)).unwrap();
            let other = reward.label(&backwards.whole(&*reward)).unwrap();
            let turned = |values: &[f32]| -> Vec<f32> {
                values.chunks_exact(story.rows.len()).flat_map(|row| row.iter().rev().copied()).collect()
            };
            prop_assert_eq!(&turned(&other.total), &column.total);
            for (term, other) in column.terms.iter().zip(&other.terms) {
                prop_assert_eq!(&turned(&other.values), &term.values);
            }
        }
    }

    #[test]
    fn a_verdict_is_what_its_definition_says(story in stories(3, LONGEST)) {
        for rule in rules() {
            let reward = frames(When::EveryStep, rule.clone());
            let column = reward.label(&story.whole(&reward)).unwrap();
            let success = column.success.unwrap();
            for b in 0..story.rows.len() {
                for (t, so_far) in story.so_far(b).iter().enumerate() {
                    let expected = held(&rule, so_far);
                    prop_assert_eq!(success[t * story.rows.len() + b], expected, "{:?} at {} of {}", rule, t, b);
                    prop_assert_eq!(column.terms[0].values[t * story.rows.len() + b], if expected { 1.0 } else { -0.25 });
                }
            }
        }
    }

    #[test]
    fn looking_back_stops_at_the_first_moment_of_an_episode(story in stories(3, LONGEST), back in 0usize..6) {
        let reward = FrameReward {
            seat: looking_back(back),
            entry: Entry::named("model"),
            pay: Pay::Score,
            ..frames(When::EveryStep, Rule::default())
        };
        let column = reward.label(&story.whole(&reward)).unwrap();
        for (b, row) in story.rows.iter().enumerate() {
            for t in 0..story.steps() {
                let [byte, _] = match back.min(story.age(b, t) + 1) {
                    0 => story.outcome(t, b),
                    steps => row.seen[t + 1 - steps],
                };
                prop_assert_eq!(column.total[t * story.rows.len() + b], score_of(byte), "{} of {}", t, b);
            }
        }
    }

    #[test]
    fn terminal_pay_is_the_same_verdict_at_ends_and_nothing_elsewhere(story in stories(4, LONGEST)) {
        for rule in rules() {
            let (always, ends) = (frames(When::EveryStep, rule.clone()), frames(When::AtEnds, rule));
            let always = always.label(&story.whole(&always)).unwrap();
            let column = ends.label(&story.whole(&ends)).unwrap();
            for t in 0..story.steps() {
                for (b, row) in story.rows.iter().enumerate() {
                    let at = t * story.rows.len() + b;
                    let expected = if row.end[t].is_end() { always.total[at] } else { 0.0 };
                    prop_assert_eq!(column.total[at], expected);
                }
            }
        }
    }

    #[test]
    fn a_potential_telescopes(story in stories(3, LONGEST)) {
        let reward = FrameReward {
            entry: Entry::named("progress"),
            ..frames(When::AsPotential { gamma: GAMMA }, Rule::default())
        };
        let paid = reward.label(&story.whole(&reward)).unwrap().total;
        for (b, row) in story.rows.iter().enumerate() {
            let mut start = 0;
            for t in (0..story.steps()).filter(|t| row.end[*t].is_end() || t + 1 == story.steps()) {
                let steps = start..=t;
                let discounted: f64 = steps
                    .enumerate()
                    .map(|(n, at)| f64::from(GAMMA).powi(n as i32) * f64::from(paid[at * story.rows.len() + b]))
                    .sum();
                let after = if row.end[t] == End::Terminated { 0.0 } else { score_of(story.outcome(t, b)[0]) };
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
        let row = story::Row {
            last: vec![[0, 0]; steps],
            end: vec![End::No; steps],
            success: vec![false; steps],
            env_reward: vec![0.0; steps],
            seen,
        };
        let story = Story { rows: vec![row] };
        let potential = FrameReward { entry: Entry::named("progress"), ..frames(When::AsPotential { gamma }, Rule::default()) };
        let paid = potential.label(&story.whole(&potential)).unwrap().total;
        let earned: f64 = paid.iter().enumerate().map(|(t, pay)| f64::from(gamma).powi(t as i32) * f64::from(*pay)).sum();
        prop_assert!(earned <= 1e-5, "{earned}");
        // The same scores paid outright reward every step of the way.
        let outright = FrameReward { entry: Entry::named("progress"), pay: Pay::Score, ..frames(When::EveryStep, Rule::default()) };
        let paid = outright.label(&story.whole(&outright)).unwrap().total;
        prop_assert!(paid.iter().all(|pay| *pay >= 0.0));
    }

    /// Pay for a whole window reaches back, but never past what is there: cutting a story loses what later windows would
    /// have paid to earlier steps, and nothing else.
    #[test]
    fn pay_for_whole_windows_is_lost_only_behind_a_cut(story in stories(3, LONGEST), cut in any::<prop::sample::Index>()) {
        let reward = windows(vec![buffer(3, 2, 2, true)], true);
        let cut = cut.index(story.steps());
        let whole = reward.label(&story.segment(0..story.steps(), 0, Watch::Everything)).unwrap().total;
        let batch = story.rows.len();
        if cut > 0 {
            let first = reward.label(&story.segment(0..cut, 0, Watch::Everything)).unwrap().total;
            for t in 0..cut {
                for b in 0..batch {
                    let same_episode_goes_on = (t..cut).all(|at| !story.rows[b].end[at].is_end());
                    if !same_episode_goes_on || t + 2 < cut {
                        prop_assert_eq!(first[t * batch + b], whole[t * batch + b]);
                    }
                }
            }
        }
        let second = reward.label(&story.segment(cut..story.steps(), reward.context(), Watch::Everything)).unwrap().total;
        prop_assert_eq!(&second[..], &whole[cut * batch..]);
    }
}

/// The definitions, word by word: for the last `hold` outcomes of an episode, every guard holds, and there is an outcome
/// above the upper level since which none was below the lower.
fn held(rule: &Rule, so_far: &[[u8; 2]]) -> bool {
    let scores: Vec<f32> = so_far.iter().map(|[byte, _]| score_of(*byte)).collect();
    let on = |n: usize| match rule.latch {
        Latch::Threshold(level) => scores[n] > level.unwrap_or(0.5),
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
fn life(bytes: &[u8], end: End) -> Story {
    let steps = bytes.len() - 1;
    let mut ends = vec![End::No; steps];
    ends[steps - 1] = end;
    let row = story::Row {
        seen: bytes.iter().map(|byte| [*byte, 0]).collect(),
        last: bytes[1..].iter().map(|byte| [*byte, 0]).collect(),
        end: ends,
        success: vec![false; steps],
        env_reward: vec![1.0; steps],
    };
    Story { rows: vec![row] }
}

#[test]
fn terminal_mode_draws_and_scores_last_frames_alone() {
    let judge = Byte::default();
    let asked = judge.asked.clone();
    let seat = Arc::new(Seat::of(Box::new(judge)));
    let reward = FrameReward { seat, ..frames(When::AtEnds, Rule::default()) };
    assert_eq!((reward.watch(), reward.context()), (Watch::Ends, 0));
    let mut story = life(&[0, 10, 20, 255], End::Terminated);
    story.rows.push(life(&[0, 200, 200, 200], End::No).rows.remove(0));
    // No other frame exists in this segment: a look at one would fail.
    let column = reward.label(&story.segment(0..3, 0, Watch::Ends)).unwrap();
    assert_eq!(column.total, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(column.success.unwrap(), [false, false, false, false, true, false]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);

    let every = frames(When::EveryStep, Rule::default());
    let error = every.label(&story.segment(0..3, 0, Watch::Ends)).unwrap_err();
    assert_eq!(error.to_string(), "the reward looks at camera `eye`, which the segment does not hold");
}

#[test]
fn what_a_reward_must_see_follows_from_its_rules() {
    let watched = |when, rule| frames(when, rule).watch();
    let held = Rule { hold: hold(2), ..Rule::default() };
    assert_eq!(
        watched(When::AtEnds, Rule { guards: guards(&["height > 1"]), ..Rule::default() }),
        Watch::Ends
    );
    assert_eq!(watched(When::AtEnds, held.clone()), Watch::Everything, "what led to the end counts too");
    assert_eq!(watched(When::EveryStep, Rule::default()), Watch::Everything);
    assert_eq!(watched(When::AsPotential { gamma: 1.0 }, Rule::default()), Watch::Everything);
    let state =
        FrameReward { seat: Arc::new(Seat::of(Box::new(StateAlone))), ..frames(When::EveryStep, held) };
    assert_eq!(state.watch(), Watch::Nothing);
    let sum = Sum::default()
        .plus(1.0, Box::new(EnvReward))
        .plus(1.0, Box::new(frames(When::AtEnds, Rule::default())));
    assert_eq!(sum.watch(), Watch::Ends);
}

#[test]
fn scores_are_asked_once_and_in_chunks() {
    let judge = Byte::default();
    let (asked, batches) = (judge.asked.clone(), judge.batches.clone());
    let seat = Arc::new(Seat::of(Box::new(judge)));
    let row = life(&[9; 101], End::Truncated).rows.remove(0);
    let story = Story { rows: vec![row; 6] };
    let potential = FrameReward { seat, ..frames(When::AsPotential { gamma: GAMMA }, Rule::default()) };
    potential.label(&story.whole(&potential)).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 6 * 101, "each outcome, and what each row saw first");
    assert_eq!(*batches.lock().unwrap(), [256, 256, 88, 6]);
}

#[test]
fn scores_become_pay_by_threshold_and_type() {
    let story = life(&[0, 51, 153, 204], End::Truncated);
    let paid = |own, threshold, pay| {
        let seat = Arc::new(Seat::of(Box::new(Byte { threshold: own, ..Byte::default() })));
        let rule = Rule { latch: Latch::Threshold(threshold), ..Rule::default() };
        let reward = FrameReward { entry: Entry::named("model"), seat, when: When::EveryStep, rule, pay };
        let column = reward.label(&story.whole(&reward)).unwrap();
        (column.total, column.success.unwrap())
    };
    let seen = [false, true, true];
    assert_eq!(
        paid(None, None, Pay::Score),
        (vec![0.2, 0.6, 0.8], seen.to_vec()),
        "as they are; success at even odds"
    );
    assert_eq!(
        paid(Some(0.7), None, Pay::Score),
        (vec![0.0, 0.0, 0.8], vec![false, false, true]),
        "the judge's own"
    );
    assert_eq!(
        paid(Some(0.7), Some(0.5), Pay::Score),
        (vec![0.0, 0.6, 0.8], seen.to_vec()),
        "the config's first"
    );
    assert_eq!(
        paid(Some(0.7), Some(0.0), Pay::Score),
        (vec![0.2, 0.6, 0.8], seen.to_vec()),
        "0 filters nothing, so success is at even odds again"
    );
    let verdict = Pay::Verdict { success: 10.0, fail: -1.0 };
    assert_eq!(paid(None, None, verdict).0, [-1.0, 10.0, 10.0]);
    assert_eq!(paid(None, Some(0.0), verdict).0, [10.0, 10.0, 10.0], "verdicts go by the threshold as it is");
    assert_eq!(paid(None, Some(0.6), verdict).0, [-1.0, -1.0, 10.0], "at the threshold is not above it");
}

#[test]
fn terms_are_named_weighted_and_logged() {
    let mut story = life(&[0, 255, 0], End::Terminated);
    story.rows[0].success = vec![true, false];
    let bare = frames(When::EveryStep, Rule::default());
    let other = FrameReward {
        entry: Entry::named("other"),
        seat: Arc::new(Seat::of(Box::new(StateAlone))),
        ..frames(When::AtEnds, Rule::default())
    };
    let sum =
        Sum::default().plus(2.0, Box::new(bare)).plus(0.0, Box::new(EnvReward)).plus(3.0, Box::new(other));
    let column = sum.label(&story.whole(&sum)).unwrap();
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
    assert_eq!(column.success.unwrap(), [true, false], "the first that judges, judges for all");
}

#[test]
fn a_segment_that_remembers_too_little_is_refused() {
    let story = life(&[0, 100, 100, 100, 100, 100, 100], End::No);
    let held = frames(When::EveryStep, Rule { hold: hold(4), ..Rule::default() });
    assert_eq!(held.context(), 2);
    let error = held.label(&story.segment(4..6, 1, Watch::Everything)).unwrap_err();
    assert!(matches!(error, RewardError::Context { needed: 2, carried: 1, elapsed: 4 }), "{error}");
    let five = windows(vec![buffer(5, 5, 1, false)], false);
    assert_eq!(five.context(), 3);
    assert!(five.label(&story.segment(4..6, 2, Watch::Everything)).is_err());
    assert!(five.label(&story.segment(4..6, 3, Watch::Everything)).is_ok());
}

#[test]
fn hysteresis_looks_back_only_as_far_as_it_must() {
    let judge = Byte::default();
    let asked = judge.asked.clone();
    let seat = Arc::new(Seat::of(Box::new(judge)));
    let latch = Latch::Hysteresis { enter: 0.7, leave: 0.3, longest_episode: 8 };
    let reward = FrameReward { seat, ..frames(When::EveryStep, Rule { latch, ..Rule::default() }) };
    // Goes on at the third outcome, and lingers between the levels.
    let story = life(&[0, 10, 10, 250, 128, 128, 128, 128, 128], End::No);
    let column = reward.label(&story.segment(5..8, reward.context(), Watch::Everything)).unwrap();
    assert_eq!(column.success.unwrap(), [true; 3]);
    assert_eq!(asked.load(Ordering::Relaxed), 3 + 3, "three steps, and three back to where it went on");
}
