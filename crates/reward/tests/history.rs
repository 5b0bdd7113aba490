//! Windows of past frames beside RLinf's rules, simulated in Python (`history/make_fixture.py`).
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::{End, Obs, Reward, Segment, StepRow};
use plaudit_reward::{
    Clip, ClipReward, ClipRewardModel, ClipRewards, History, HistoryBuffer, RewardModelError, TermSettings,
    WindowReward,
};
use serde_json::Value;

struct Case {
    rows: usize,
    dones: Vec<Vec<bool>>,
    outputs: Vec<Vec<f32>>,
    interval_reward: f32,
    buffers: Vec<HistoryBuffer>,
    /// By step and row: the frames of each buffer, by the step that led to them.
    clips: BTreeMap<(usize, usize), BTreeMap<String, Vec<usize>>>,
    rewards: Vec<f32>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("history/windows.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    cases.iter().map(case).collect()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn case(value: &Value) -> Case {
    let rows = |key: &str| value[key].as_array().unwrap().iter();
    let buffers = value["buffers"].as_object().unwrap().iter().map(|(name, buffer)| buffer_of(name, buffer));
    let clips = rows("clips").map(|clip| {
        let place = |key: &str| clip[key].as_u64().unwrap() as usize;
        ((place("t"), place("env")), clip["buffers"].as_object().unwrap().iter().map(frames_of).collect())
    });
    Case {
        rows: value["num_envs"].as_u64().unwrap() as usize,
        dones: rows("dones")
            .map(|row| row.as_array().unwrap().iter().map(|d| d.as_bool().unwrap()).collect())
            .collect(),
        outputs: rows("outputs").map(numbers).collect(),
        interval_reward: value["interval_reward"].as_f64().unwrap() as f32,
        buffers: buffers.collect(),
        clips: clips.collect(),
        rewards: rows("rewards").flat_map(numbers).collect(),
    }
}

fn buffer_of(name: &str, value: &Value) -> HistoryBuffer {
    let number = |key: &str| value[key].as_u64().map(|number| number as usize);
    let history_size = NonZeroUsize::new(number("history_size").unwrap()).unwrap();
    HistoryBuffer {
        name: name.into(),
        history_size,
        min_history_size: number("min_history_size").unwrap_or(0),
        input_interval: number("input_interval").and_then(NonZeroUsize::new).unwrap_or(history_size),
        input_on_done: value["input_on_done"].as_bool().unwrap_or(false),
    }
}

/// Frames are written `step.environment`.
fn frames_of((name, frames): (&String, &Value)) -> (String, Vec<usize>) {
    let step = |frame: &Value| frame.as_str().unwrap().split('.').next().unwrap().parse().unwrap();
    (name.clone(), frames.as_array().unwrap().iter().map(step).collect())
}

impl Case {
    /// Steps `from..to`, with `context` observations before. The outcome of step `t` has the state `t`; what a reset
    /// shows has the state -1.
    fn segment(&self, from: usize, to: usize, context: usize) -> Segment {
        let seen = |t: usize| {
            let state = |b: usize| if t == 0 || self.dones[t - 1][b] { -1.0 } else { (t - 1) as f32 };
            Obs::from_state(self.rows, (0..self.rows).map(state).collect()).unwrap()
        };
        let age = |b: usize| (0..from).rev().take_while(|t| !self.dones[*t][b]).count();
        let before = (from.saturating_sub(context)..from).map(|t| Arc::new(seen(t))).collect();
        let mut segment = Segment::continuing(seen(from), before, (0..self.rows).map(age).collect());
        for t in from..to {
            let done = &self.dones[t];
            let end = done.iter().map(|done| if *done { End::Terminated } else { End::No }).collect();
            let ended = (0..self.rows).filter(|b| done[*b]);
            let last = ended.map(|b| (b, Obs::from_state(1, vec![t as f32]).unwrap())).collect();
            let zero = vec![0.0; self.rows];
            let step =
                StepRow { actions: zero.clone(), env_reward: zero, end, success: vec![false; self.rows] };
            segment.push(step, seen(t + 1), last).unwrap();
        }
        segment
    }

    fn reward(&self, from: usize, to_every_step: bool) -> WindowReward {
        WindowReward {
            term: TermSettings::named("judge"),
            model: Box::new(Prompter { from, outputs: self.outputs.clone() }),
            history: History::new(self.buffers.clone()),
            interval_reward: self.interval_reward,
            to_every_step,
        }
    }
}

/// Says what is written for each step.
struct Prompter {
    /// The first step of the segment.
    from: usize,
    outputs: Vec<Vec<f32>>,
}

impl ClipRewardModel for Prompter {
    fn score(&self, clips: &[Clip<'_>]) -> Result<ClipRewards, RewardModelError> {
        let reward = |clip: &Clip<'_>| self.outputs[self.from + clip.t.unwrap()][clip.row];
        let clip_reward =
            |clip: &Clip<'_>| ClipReward { reward: reward(clip), success: false, score: None, word: None };
        Ok(ClipRewards { rewards: clips.iter().map(clip_reward).collect(), version: 0 })
    }

    fn sees_success(&self) -> bool {
        false
    }
}

#[test]
fn the_fixture_is_not_trivial() {
    let clips: usize = cases().iter().map(|case| case.clips.len()).sum();
    assert!(clips > 100, "{clips}");
}

#[test]
fn windows_show_what_rlinf_shows_wherever_segments_are_cut() {
    for (at, case) in cases().iter().enumerate() {
        let steps = case.dones.len();
        for length in [1, 2, 5, steps] {
            let mut found = BTreeMap::new();
            for from in (0..steps).step_by(length) {
                let reward = case.reward(from, false);
                let segment = case.segment(from, steps.min(from + length), reward.context());
                for clip in reward.history.clips(&segment).unwrap() {
                    let frames = clip.buffers.iter().map(|buffer| {
                        let steps = buffer.frames.iter().map(|frame| frame.obs.state[0] as usize).collect();
                        (buffer.name.to_string(), steps)
                    });
                    found.insert(
                        (from + clip.t.unwrap(), clip.row),
                        frames.collect::<BTreeMap<String, Vec<usize>>>(),
                    );
                }
            }
            assert_eq!(found, case.clips, "case {at} in segments of {length}");
        }
    }
}

#[test]
fn the_reward_of_a_window_goes_to_all_of_its_steps_as_in_rlinf() {
    for (at, case) in cases().iter().enumerate() {
        let segment = case.segment(0, case.dones.len(), 0);
        let column = case.reward(0, true).label(&segment).unwrap();
        assert_eq!(column.total, case.rewards, "case {at}");
        assert_eq!(column.success, None, "this model says nothing of success");
    }
}
