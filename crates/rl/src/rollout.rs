//! Stepping environments with a policy, and keeping what a reward needs.

use std::sync::Arc;

use plaudit_core::{
    End, Env, EnvError, Intervention, Obs, Policy, PolicyError, Seed, Segment, SegmentError, Step, StepRow,
};
use thiserror::Error;

use crate::action_chunks::{ActionChunks, ChunkStep};
use crate::rollout_progress::RolloutProgress;
use crate::{Episode, RolloutState};

/// Environments that a policy acts in, cut into segments wherever the caller likes.
///
/// The random numbers depend on the seed and the count of steps alone, so that cutting differently, or going
/// on after a pause, changes nothing. The policy is handed in at each call: it may change between them.
///
/// A policy that decides several actions at once (a chunk) is asked again when they are used up, and for a
/// row whose episode ended before that: what was meant for one episode is never done in the next.
pub struct Rollout<'a> {
    env: &'a mut dyn Env,
    seed: Seed,
    /// Where the environments' rows begin in a larger batch.
    first_row: u64,
    obs: Obs,
    /// What was decided and not done yet.
    action_chunks: ActionChunks,
    progress: RolloutProgress,
    finished: Vec<Episode>,
}

impl<'a> Rollout<'a> {
    /// Resets the environments. `context` is what the reward asks for (`Reward::context`).
    pub fn start(env: &'a mut dyn Env, seed: Seed, context: usize) -> Result<Self, RolloutError> {
        let obs = env.reset(seed.purpose("reset"))?;
        let progress = RolloutProgress::new(obs.batch(), context);
        Ok(Self::at(env, seed, progress, obs))
    }

    /// Resumes a rollout of the same environments and seed; resets environments that cannot be restored
    /// or whose past lacks what `context` asks for. Returns whether they were restored.
    pub fn resume(
        env: &'a mut dyn Env,
        seed: Seed,
        context: usize,
        resume_from: RolloutState,
    ) -> Result<(Self, bool), RolloutError> {
        let width = env.spec().actions.width();
        match env.fast_forward(seed.purpose("reset"), &resume_from.past)? {
            Some(obs) if has_context(&resume_from, context, width, &obs) => {
                let progress = RolloutProgress::at(resume_from, context, width);
                Ok((Self::at(env, seed, progress, obs), true))
            }
            _ => {
                let steps = resume_from.steps;
                let seed = seed.purpose("anew").index(steps);
                let obs = env.reset(seed.purpose("reset"))?;
                // Steps are counted on: another interruption starts from another seed.
                let progress = RolloutProgress::at(resume_from, context, width).anew();
                Ok((Self::at(env, seed, progress, obs), false))
            }
        }
    }

    fn at(env: &'a mut dyn Env, seed: Seed, progress: RolloutProgress, obs: Obs) -> Self {
        Self {
            env,
            seed: seed.purpose("policy"),
            first_row: 0,
            obs,
            action_chunks: ActionChunks::default(),
            progress,
            finished: Vec::new(),
        }
    }

    /// For environments that are the rows from `first_row` of a larger batch: the policy samples for each row what it would
    /// sample in the whole batch.
    #[must_use]
    pub fn with_first_row(self, first_row: u64) -> Self {
        Self { first_row, ..self }
    }

    /// The state of the rollout, for [`Self::resume`]. The rest of an unfinished action chunk is dropped.
    pub fn rollout_state(&self) -> RolloutState {
        self.progress.state()
    }

    /// Whether an episode may turn out to be worthless.
    pub fn may_break(&self) -> bool {
        self.env.may_break()
    }

    /// Steps taken since the first start, over all resumed runs.
    pub fn steps(&self) -> u64 {
        self.progress.steps()
    }

    /// What the policy sees now.
    pub fn obs(&self) -> &Obs {
        &self.obs
    }

    /// The next step: what was done, and all that came of it.
    pub fn advance(&mut self, policy: &mut dyn Policy) -> Result<TakenStep, RolloutError> {
        let width = self.env.spec().actions.width();
        if self.action_chunks.is_due() {
            let seed = self.seed.index(self.progress.steps()).from_row(self.first_row);
            let decision = policy.act(&self.obs, seed)?;
            self.action_chunks.adopt(decision, self.obs.batch(), width);
        }
        let ChunkStep { mut actions, log_probs, values, starts_chunk } = self.action_chunks.next(width);
        let step = self.env.step(&actions)?;
        let intervened = apply_interventions(&mut actions, &step, width);
        self.action_chunks.forget(&step.end);
        self.finished.extend(self.progress.episodes.step(&step));
        let seen = std::mem::replace(&mut self.obs, step.obs.clone());
        self.progress.record(&actions, &step.end, || Arc::new(seen));
        Ok(TakenStep { actions, log_probs, values, starts_chunk, intervened, step })
    }

    /// The next `steps` steps, as what a reward and a learner need. Where episodes may break it is one episode instead,
    /// however long.
    pub fn play(&mut self, policy: &mut dyn Policy, steps: usize) -> Result<PlayedSegment, RolloutError> {
        self.play_with_callback(policy, steps, |_| Ok(()))
    }

    /// The same, with a callback at each step.
    pub fn play_with_callback<E: From<RolloutError>>(
        &mut self,
        policy: &mut dyn Policy,
        steps: usize,
        mut on_step: impl FnMut(&TakenStep) -> Result<(), E>,
    ) -> Result<PlayedSegment, E> {
        let context = self.progress.context().cloned().collect();
        let elapsed = self.progress.elapsed().to_vec();
        let mut segment = Segment::continuing(self.obs.clone(), context, elapsed);
        let mut decisions = Decisions::default();
        let whole_episodes = self.env.may_break() && self.obs.batch() == 1;
        let is_over = |segment: &Segment| match whole_episodes {
            true => segment.end.last().is_some_and(|end| end.is_end()),
            false => segment.steps() >= steps,
        };
        while !is_over(&segment) {
            let taken = self.advance(policy)?;
            on_step(&taken)?;
            let TakenStep { actions, log_probs, values, starts_chunk, intervened, step } = taken;
            decisions.log_probs.extend(log_probs);
            decisions.values.extend(values);
            decisions.starts_chunk.extend(starts_chunk);
            decisions.intervened.extend(intervened);
            decisions.note_validity(&segment.end, &step);
            let row = StepRow { actions, env_reward: step.reward, end: step.end, success: step.success };
            segment.push(row, step.obs, step.last).map_err(RolloutError::from)?;
        }
        Ok(PlayedSegment { segment, decisions })
    }

    /// Episodes that ended since this was last asked, in the order they ended.
    pub fn take_finished(&mut self) -> Vec<Episode> {
        std::mem::take(&mut self.finished)
    }
}

/// Replaces the actions of the policy where something else was done; returns in which rows a person did it.
fn apply_interventions(actions: &mut [f32], step: &Step, width: usize) -> Vec<bool> {
    let mut intervened = vec![false; actions.len() / width];
    for Intervention { row, action, by_person } in &step.interventions {
        let Some(own) = actions.chunks_exact_mut(width).nth(*row) else { continue };
        if own.len() == action.len() {
            own.copy_from_slice(action);
            intervened[*row] = *by_person;
        }
    }
    intervened
}

/// Whether `resume_from` carries the `context` observations that a reward needs. A state saved under another
/// reward may carry too few, or observations without images.
fn has_context(resume_from: &RolloutState, context: usize, action_width: usize, now: &Obs) -> bool {
    let oldest = resume_from.past.iter().map(|past| past.actions.len() / action_width).max().unwrap_or(0);
    let needed = context.min(oldest);
    let newest = resume_from.context.iter().rev().take(needed);
    resume_from.context.len() >= needed && newest.clone().all(|seen| seen.cameras.len() == now.cameras.len())
}

/// A step that was taken.
#[derive(Debug, Clone)]
pub struct TakenStep {
    /// What was done, `[B, action_width]`.
    pub actions: Vec<f32>,
    /// Log-probability of each action value, `[B, action_width]`; empty where the policy gave none.
    pub log_probs: Vec<f32>,
    /// The policy's values, `[B]`; empty where the policy gave none.
    pub values: Vec<f32>,
    /// Whether each row starts a new action chunk, `[B]`, or continues one.
    pub starts_chunk: Vec<bool>,
    /// Whether a person acted instead of the policy, `[B]`; `actions` are then what that person did.
    pub intervened: Vec<bool>,
    /// What came of it.
    pub step: Step,
}

/// A segment, with log-probabilities and values of the policy.
#[derive(Debug, Clone)]
pub struct PlayedSegment {
    /// What happened.
    pub segment: Segment,
    /// Log-probabilities and values of the policy.
    pub decisions: Decisions,
}

/// What a policy decided at each step of a segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// Log-probability of each action value, `[T, B, action_width]`; empty where the policy gave none.
    pub log_probs: Vec<f32>,
    /// The policy's values, `[T, B]`; empty where the policy gave none.
    pub values: Vec<f32>,
    /// Whether the row starts a new action chunk at this step, `[T, B]`.
    pub starts_chunk: Vec<bool>,
    /// Whether a person acted instead of the policy, `[T, B]`.
    pub intervened: Vec<bool>,
    /// Whether the step belongs to an episode that ended invalid within the segment, `[T, B]`.
    pub invalid: Vec<bool>,
}

impl Decisions {
    /// Whether nothing in the segment is worth learning from.
    pub(crate) fn are_all_invalid(&self) -> bool {
        !self.invalid.is_empty() && self.invalid.iter().all(|invalid| *invalid)
    }

    /// Adds a step, and marks all of the episodes that it ends as invalid.
    fn note_validity(&mut self, earlier_ends: &[End], step: &Step) {
        let (batch, before) = (step.end.len(), earlier_ends.len());
        self.invalid.resize(before + batch, false);
        for row in (0..batch).filter(|row| step.ends_invalid(*row)) {
            self.invalid[before + row] = true;
            let earlier = (0..before).rev().filter(|at| at % batch == row);
            for at in earlier.take_while(|at| !earlier_ends[*at].is_end()) {
                self.invalid[at] = true;
            }
        }
    }
}

/// Why a rollout stopped.
#[derive(Debug, Error)]
pub enum RolloutError {
    /// The environments.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// What the environments returned does not fit together.
    #[error("the environments returned a step that does not fit together: {0}")]
    Segment(#[from] SegmentError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::{ActionSpace, Decision, EnvSpec, FramesNeeded};
    use proptest::prelude::*;

    /// Each row counts its steps and ends after `row + 2` of them; the state is that count.
    struct Counting {
        spec: EnvSpec,
        counts: Vec<usize>,
    }

    impl Counting {
        fn new(num_envs: usize) -> Self {
            let spec = EnvSpec {
                id: "counting".into(),
                num_envs,
                state_width: 1,
                state_parts: vec![],
                actions: ActionSpace::Discrete { n: 1000 },
                cameras: vec![],
                max_episode_steps: None,
                control_hz: 1.0,
            };
            Self { spec, counts: vec![0; num_envs] }
        }

        fn obs(&self) -> Obs {
            Obs::from_state(self.counts.len(), self.counts.iter().map(|&n| n as f32).collect()).unwrap()
        }
    }

    impl Env for Counting {
        fn spec(&self) -> &EnvSpec {
            &self.spec
        }

        fn reset(&mut self, _: Seed) -> Result<Obs, EnvError> {
            self.counts.fill(0);
            Ok(self.obs())
        }

        fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
            let (mut end, mut last) = (Vec::new(), Vec::new());
            for (row, count) in self.counts.iter_mut().enumerate() {
                *count += 1;
                let done = *count == row + 2;
                end.push(if done { End::Terminated } else { End::No });
                if done {
                    last.push((row, Obs::from_state(1, vec![*count as f32]).unwrap()));
                    *count = 0;
                }
            }
            let success = end.iter().map(|end| end.is_end()).collect();
            Ok(Step {
                obs: self.obs(),
                reward: actions.to_vec(),
                end,
                success,
                last,
                facts: vec![],
                interventions: vec![],
            })
        }

        fn set_frames_needed(&mut self, _: FramesNeeded) {}
    }

    /// Acts at random, from the step's own seed.
    struct RandomPolicy;

    impl Policy for RandomPolicy {
        fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
            let actions =
                (0..obs.batch()).map(|row| seed.index(row as u64).rng().below(1000) as f32).collect();
            Ok(Decision { actions, ..Decision::default() })
        }
    }

    #[test]
    fn outcomes_are_real_and_episodes_are_counted() {
        let (mut env, mut policy) = (Counting::new(2), RandomPolicy);
        let mut rollout = Rollout::start(&mut env, Seed::new(3), 0).unwrap();
        let segment = rollout.play(&mut policy, 6).unwrap().segment;
        assert_eq!(
            (0..6).map(|t| segment.outcome(t, 0).state[0]).collect::<Vec<_>>(),
            [1., 2., 1., 2., 1., 2.]
        );
        assert_eq!(
            (0..6).map(|t| segment.outcome(t, 1).state[0]).collect::<Vec<_>>(),
            [1., 2., 3., 1., 2., 3.]
        );
        let finished = rollout.take_finished();
        assert_eq!(
            finished.iter().map(|e| (e.row, e.length)).collect::<Vec<_>>(),
            [(0, 2), (1, 3), (0, 2), (0, 2), (1, 3)]
        );
        assert!(finished.iter().all(|e| e.success_once && e.success_at_end));
        let total: f64 = finished.iter().map(|e| e.env_return).sum();
        assert_eq!(total, segment.env_reward.iter().map(|&r| f64::from(r)).sum::<f64>());
    }

    #[test]
    fn episodes_that_end_invalid_are_marked_from_their_first_step() {
        let step = |end: [End; 2], invalid: [f32; 2]| Step {
            obs: Obs::from_state(2, vec![0.0; 2]).unwrap(),
            reward: vec![0.0; 2],
            end: end.to_vec(),
            success: vec![false; 2],
            last: vec![],
            facts: vec![(plaudit_core::INVALID_FACT.into(), invalid.to_vec())],
            interventions: vec![],
        };
        let (no, over) = (End::No, End::Truncated);
        let steps = [
            step([no, no], [0.0, 1.0]), // a mark in the middle of an episode means nothing
            step([over, no], [0.0, 0.0]),
            step([no, no], [0.0, 0.0]),
            step([over, no], [1.0, 0.0]),
            step([no, over], [0.0, 0.0]),
        ];
        let (mut decisions, mut ends) = (Decisions::default(), Vec::new());
        for step in &steps {
            decisions.note_validity(&ends, step);
            ends.extend(step.end.clone());
        }
        let row = |row: usize| decisions.invalid.iter().skip(row).step_by(2).copied().collect::<Vec<_>>();
        assert_eq!(row(0), [false, false, true, true, false]);
        assert_eq!(row(1), [false; 5]);
    }

    /// Decides three actions at once; each says the state it was decided in, and which of the three it is.
    struct Chunked;

    impl Policy for Chunked {
        fn act(&mut self, obs: &Obs, _: Seed) -> Result<Decision, PolicyError> {
            let of = |row: usize| (0..3).map(move |at| obs.state[row] * 10.0 + at as f32);
            let actions: Vec<f32> = (0..obs.batch()).flat_map(of).collect();
            let log_probs = actions.iter().map(|action| -action).collect();
            let values = actions.iter().map(|action| action + 0.5).collect();
            Ok(Decision { actions, log_probs, values })
        }
    }

    #[test]
    fn chunks_are_done_to_their_end_or_to_that_of_the_episode() {
        let (mut env, mut policy) = (Counting::new(3), Chunked);
        let mut rollout = Rollout::start(&mut env, Seed::new(3), 0).unwrap();
        let PlayedSegment { segment, decisions } = rollout.play(&mut policy, 6).unwrap();
        let row = |b: usize| -> Vec<f32> { segment.actions.iter().map(|actions| actions[b]).collect() };
        // Row 0 ends every second step, row 1 every third, row 2 every fourth; all decide at steps 0 and 3.
        assert_eq!(row(0), [0., 1., 0., 10., 0., 1.]);
        assert_eq!(row(1), [0., 1., 2., 0., 1., 2.]);
        assert_eq!(row(2), [0., 1., 2., 30., 0., 1.]);
        let starts_chunk: Vec<bool> = decisions.starts_chunk.chunks_exact(3).map(|rows| rows[0]).collect();
        assert_eq!(starts_chunk, [true, false, true, true, true, false]);
        let done: Vec<f32> = segment.actions.concat();
        assert_eq!(decisions.log_probs, done.iter().map(|action| -action).collect::<Vec<_>>());
        assert_eq!(decisions.values, done.iter().map(|action| action + 0.5).collect::<Vec<_>>());
    }

    proptest! {
        /// Where a rollout is cut changes neither its steps nor what a window before a step can see.
        #[test]
        fn cutting_changes_nothing(cuts in proptest::collection::vec(1usize..5, 1..6), window in 1usize..4) {
            let total: usize = cuts.iter().sum();
            let (mut env, mut policy) = (Counting::new(3), RandomPolicy);
            let mut rollout = Rollout::start(&mut env, Seed::new(9), window).unwrap();
            let whole = rollout.play(&mut policy, total).unwrap().segment;
            let (mut env, mut policy) = (Counting::new(3), RandomPolicy);
            let mut rollout = Rollout::start(&mut env, Seed::new(9), window).unwrap();
            let mut done = 0;
            for steps in cuts {
                let part = rollout.play(&mut policy, steps).unwrap().segment;
                for t in 0..steps {
                    prop_assert_eq!(&part.actions[t], &whole.actions[done + t]);
                    for b in 0..3 {
                        prop_assert_eq!(part.elapsed[b] as f32, part.obs[0].row(b).state[0]);
                        prop_assert_eq!(part.outcome(t, b).state, whole.outcome(done + t, b).state);
                        prop_assert_eq!(seen_before(&part, t, b, window), seen_before(&whole, done + t, b, window));
                    }
                }
                done += steps;
                prop_assert!(part.context.len() <= part.elapsed.iter().copied().max().unwrap());
            }
        }
    }

    /// The states of the last `window` observations of row `b`'s episode before and including step `t`.
    fn seen_before(segment: &Segment, t: usize, b: usize, window: usize) -> Vec<f32> {
        let mut states = Vec::new();
        for at in (0..=t).rev() {
            states.push(segment.obs[at].row(b).state[0]);
            if at > 0 && segment.end[segment.at(at - 1, b)].is_end() {
                states.truncate(window);
                return states;
            }
        }
        let newest = segment.context.iter().rev().take(segment.context_rows(b));
        states.extend(newest.map(|obs| obs.row(b).state[0]));
        states.truncate(window);
        states
    }
}
