//! A made-up rollout whose every frame is a byte, and a reward model that reads it.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plaudit_core::{
    End, FrameShape, Frames, FramesNeeded, Obs, Reward, RewardColumn, Score, Segment, StepRow,
};
use plaudit_reward::{FrameRewardModel, FrameStack, RewardModelError};
use proptest::prelude::*;

/// T steps of B environments. A frame's byte is its image's only colour; its state is the byte and a second one.
#[derive(Debug, Clone)]
pub(crate) struct FakeRollout {
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What was seen before each step and after the last, `[T + 1]`.
    pub(crate) seen: Vec<[u8; 2]>,
    /// What each step led to when it ended an episode, `[T]`.
    pub(crate) last: Vec<[u8; 2]>,
    pub(crate) end: Vec<End>,
    pub(crate) success: Vec<bool>,
    pub(crate) env_reward: Vec<f32>,
}

pub(crate) fn rollouts(most_rows: usize, most_steps: usize) -> impl Strategy<Value = FakeRollout> {
    (1..=most_rows, 1..=most_steps).prop_flat_map(|(rows, steps)| {
        prop::collection::vec(row(steps), rows).prop_map(|rows| FakeRollout { rows })
    })
}

fn row(steps: usize) -> impl Strategy<Value = Row> {
    let end = prop_oneof![8 => Just(End::No), 1 => Just(End::Terminated), 1 => Just(End::Truncated)];
    let bytes = || any::<[u8; 2]>();
    (
        prop::collection::vec(bytes(), steps + 1),
        prop::collection::vec(bytes(), steps),
        prop::collection::vec(end, steps),
        prop::collection::vec(any::<bool>(), steps),
        prop::collection::vec(-1.0f32..1.0, steps),
    )
        .prop_map(|(seen, last, end, success, env_reward)| Row { seen, last, end, success, env_reward })
}

fn obs(bytes: &[[u8; 2]], images: bool) -> Obs {
    let state = bytes.iter().flatten().map(|byte| f32::from(*byte)).collect();
    let obs = Obs::from_state(bytes.len(), state).unwrap();
    if !images {
        return obs;
    }
    let shape = FrameShape { height: 1, width: 1, channels: 1 };
    obs.with_camera("eye", Frames::new(shape, bytes.iter().map(|[byte, _]| *byte).collect()).unwrap())
        .unwrap()
}

impl FakeRollout {
    pub(crate) fn steps(&self) -> usize {
        self.rows[0].end.len()
    }

    /// Steps row `b` is into its episode before step `t`.
    pub(crate) fn age(&self, b: usize, t: usize) -> usize {
        self.rows[b].end[..t].iter().rev().take_while(|end| !end.is_end()).count()
    }

    /// These steps, with `context` observations before them, as environments render them for `watch`.
    pub(crate) fn segment(&self, steps: Range<usize>, context: usize, watch: FramesNeeded) -> Segment {
        let seen = |t: usize| -> Obs {
            let bytes: Vec<_> = self.rows.iter().map(|row| row.seen[t]).collect();
            obs(&bytes, watch == FramesNeeded::Everything)
        };
        let before = (steps.start.saturating_sub(context)..steps.start).map(|t| Arc::new(seen(t))).collect();
        let elapsed = (0..self.rows.len()).map(|b| self.age(b, steps.start)).collect();
        let mut segment = Segment::continuing(seen(steps.start), before, elapsed);
        for t in steps {
            let ended = self.rows.iter().enumerate().filter(|(_, row)| row.end[t].is_end());
            let last =
                ended.map(|(b, row)| (b, obs(&[row.last[t]], watch != FramesNeeded::Nothing))).collect();
            let step = StepRow {
                actions: vec![0.0; self.rows.len()],
                env_reward: self.rows.iter().map(|row| row.env_reward[t]).collect(),
                end: self.rows.iter().map(|row| row.end[t]).collect(),
                success: self.rows.iter().map(|row| row.success[t]).collect(),
            };
            segment.push(step, seen(t + 1), last).unwrap();
        }
        segment
    }

    /// All of it, with just the frames that `reward` says it looks at.
    pub(crate) fn whole(&self, reward: &dyn Reward) -> Segment {
        self.segment(0..self.steps(), 0, reward.frames_needed())
    }

    /// The byte pair that step `t` of row `b` led to.
    pub(crate) fn outcome(&self, t: usize, b: usize) -> [u8; 2] {
        let row = &self.rows[b];
        if row.end[t].is_end() { row.last[t] } else { row.seen[t + 1] }
    }

    /// For each outcome of row `b`, the outcomes of its episode up to and including it, oldest first.
    pub(crate) fn so_far(&self, b: usize) -> Vec<Vec<[u8; 2]>> {
        let upto = |t: usize| (t - self.age(b, t)..=t).map(|at| self.outcome(at, b)).collect();
        (0..self.steps()).map(upto).collect()
    }
}

/// Scores a frame by its byte, and counts what it was asked.
#[derive(Default)]
pub(crate) struct Byte {
    /// It scores the frame so many steps before.
    pub(crate) back: usize,
    pub(crate) threshold: Option<f32>,
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) batches: Arc<Mutex<Vec<usize>>>,
}

pub(crate) fn score_of(byte: u8) -> f32 {
    f32::from(byte) / 255.0
}

impl FrameRewardModel for Byte {
    fn cameras(&self) -> &[Arc<str>] {
        static EYE: std::sync::OnceLock<[Arc<str>; 1]> = std::sync::OnceLock::new();
        EYE.get_or_init(|| ["eye".into()])
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        self.asked.fetch_add(frames.len(), Ordering::Relaxed);
        self.batches.lock().unwrap().push(frames.len());
        let score = |frame: &FrameStack<'_>| {
            let seen = frame.back(self.back);
            let (_, pixels) = seen.image("eye").ok_or(RewardModelError::Camera { camera: "eye".into() })?;
            Ok(Score::new(score_of(pixels[0])).unwrap())
        };
        frames.iter().map(score).collect()
    }

    fn history_len(&self) -> usize {
        self.back
    }

    fn threshold(&self) -> Option<f32> {
        self.threshold
    }
}

/// The columns of consecutive segments as one.
pub(crate) fn joined(parts: Vec<RewardColumn>) -> RewardColumn {
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap();
    for part in parts {
        whole.total.extend(part.total);
        for (term, more) in whole.terms.iter_mut().zip(part.terms) {
            assert_eq!(term.name, more.name);
            term.values.extend(more.values);
        }
        if let (Some(success), Some(more)) = (&mut whole.success, part.success) {
            success.extend(more);
        }
    }
    whole
}
