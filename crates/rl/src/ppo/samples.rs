//! From rollouts to samples: one for each decision, with its advantages and what its values should learn.

use super::stored_rollout::StoredRollout;
use super::{Level, PpoSettings};
use crate::actor_critic::ActorCritic;
use crate::gae::{self, GaeInputs};
use crate::learner::{Experience, LearnError};
use crate::replay::ObsBuffer;

/// Observations that the critic values at once: as many as fit in a cache where they are images.
pub(super) const VALUE_BATCH: usize = 512;

/// The critic's values of so many observations, `[n, values]`.
pub(super) type Values<'a> = &'a mut dyn FnMut(&ObsBuffer, usize) -> Result<Vec<f32>, LearnError>;

/// A decision: a state, and the actions that followed until the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Which rollout.
    pub(super) rollout: u32,
    /// Which step of it.
    pub(super) step: u32,
    /// Which environment.
    pub(super) row: u32,
    /// Actions done.
    pub(super) length: u32,
    /// Its first place in the columns that have an entry per action.
    pub(super) actions_at: u32,
    /// Its first place in the columns that have an entry per advantage.
    pub(super) units_at: u32,
}

/// All decisions of some rollouts, and their columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    pub(super) decisions: Vec<Sample>,
    /// Per action: log π_old, summed over its dimensions.
    pub(super) log_prob: Vec<f32>,
    /// Per unit of advantage (action or chunk): A.
    pub(super) advantage: Vec<f32>,
    /// R.
    pub(super) target: Vec<f32>,
    /// V_old.
    pub(super) value: Vec<f32>,
}

impl Samples {
    /// Computes values and advantages.
    pub(super) fn of(
        rollouts: &[StoredRollout],
        networks: &ActorCritic,
        settings: &PpoSettings,
        values: Values<'_>,
    ) -> Result<Self, LearnError> {
        let mut samples = Self::default();
        for (rollout, stored_rollout) in rollouts.iter().enumerate() {
            let experience = &stored_rollout.experience;
            let lengths = lengths(&experience.decisions.starts_chunk, experience.segment.batch());
            let estimates = ValueEstimates::of(stored_rollout, &lengths, networks, values)?;
            samples.add(rollout, experience, &lengths, &estimates, networks, settings);
        }
        Ok(samples)
    }

    fn add(
        &mut self,
        rollout: usize,
        experience: &Experience,
        lengths: &[u32],
        estimates: &ValueEstimates,
        networks: &ActorCritic,
        settings: &PpoSettings,
    ) {
        let (segment, batch) = (&experience.segment, experience.segment.batch());
        let every_step = vec![true; lengths.len()];
        let starts = match settings.reward_level {
            Level::Action => &every_step,
            Level::Chunk => &experience.decisions.starts_chunk,
        };
        let made = settings.gae.advantages(GaeInputs {
            batch,
            reward: &experience.reward.total,
            end: &segment.end,
            value: &estimates.value,
            after: &estimates.after,
            starts,
        });
        let width = networks.head().action_width();
        let log_probs = &experience.decisions.log_probs;
        for at in (0..lengths.len()).filter(|&at| lengths[at] > 0) {
            self.decisions.push(Sample {
                rollout: rollout as u32,
                step: (at / batch) as u32,
                row: (at % batch) as u32,
                length: lengths[at],
                actions_at: self.log_prob.len() as u32,
                units_at: self.advantage.len() as u32,
            });
            for place in (0..lengths[at] as usize).map(|later| at + later * batch) {
                self.log_prob.push(log_probs[place * width..(place + 1) * width].iter().sum());
                if starts[place] {
                    self.advantage.push(made.advantage[place]);
                    self.target.push(made.target[place]);
                    self.value.push(estimates.value[place]);
                }
            }
        }
    }

    /// Scales advantages to mean 0 and deviation 1.
    pub(super) fn normalize(&mut self) {
        gae::normalize(&mut self.advantage);
    }

    /// Advantages of a decision.
    pub(super) fn units(&self, sample: &Sample, level: Level) -> std::ops::Range<usize> {
        let from = sample.units_at as usize;
        match level {
            Level::Action => from..from + sample.length as usize,
            Level::Chunk => from..from + 1,
        }
    }
}

/// How many actions each decision led to, `[T, B]`; 0 where nothing was decided.
fn lengths(starts_chunk: &[bool], batch: usize) -> Vec<u32> {
    let mut lengths = vec![0; starts_chunk.len()];
    let mut since = vec![0; batch];
    for at in (0..starts_chunk.len()).rev() {
        since[at % batch] += 1;
        if starts_chunk[at] {
            lengths[at] = std::mem::take(&mut since[at % batch]);
        }
    }
    lengths
}

/// Where an observation is kept.
enum ObsIndex {
    /// Step and row.
    Step(usize, usize),
    /// Which of the last real ones.
    Last(usize),
}

/// The values of a rollout by the critic, `[T, B]`.
struct ValueEstimates {
    /// Of each step.
    value: Vec<f32>,
    /// Of what each step led to.
    after: Vec<f32>,
}

impl ValueEstimates {
    /// The critic over all decisions, over what came after the last step, and over the last real observation of
    /// every episode that ended.
    fn of(
        stored_rollout: &StoredRollout,
        lengths: &[u32],
        networks: &ActorCritic,
        critic: Values<'_>,
    ) -> Result<Self, LearnError> {
        let segment = &stored_rollout.experience.segment;
        let batch = segment.batch();
        let decided: Vec<usize> = (0..lengths.len()).filter(|&at| lengths[at] > 0).collect();
        let steps = decided.iter().map(|&at| ObsIndex::Step(at / batch, at % batch));
        let after = (0..batch).map(|row| ObsIndex::Step(segment.steps(), row));
        let places: Vec<ObsIndex> =
            steps.chain(after).chain((0..segment.last.len()).map(ObsIndex::Last)).collect();
        let (mut obs_buffer, mut estimates) = (ObsBuffer::default(), Vec::new());
        for places in places.chunks(VALUE_BATCH) {
            obs_buffer.clear();
            for place in places {
                match *place {
                    ObsIndex::Step(step, row) => {
                        stored_rollout.push_obs(step, row, networks, &mut obs_buffer)
                    }
                    ObsIndex::Last(at) => stored_rollout.push_last_obs(at, networks, &mut obs_buffer),
                }
            }
            estimates.extend(critic(&obs_buffer, places.len())?);
        }
        let values = networks.value_outputs();

        let mut value = vec![0.0; lengths.len()];
        for (&at, estimates) in decided.iter().zip(estimates.chunks_exact(values)) {
            for later in 0..lengths[at] as usize {
                value[at + later * batch] = estimates[later.min(values - 1)];
            }
        }
        let mut beyond = estimates.chunks_exact(values).skip(decided.len()).map(|estimates| estimates[0]);
        let mut after = value[batch.min(value.len())..].to_vec();
        after.extend(beyond.by_ref().take(batch));
        for ((step, row, _), value) in segment.last.iter().zip(beyond) {
            after[segment.at(*step, *row)] = value;
        }
        Ok(Self { value, after })
    }
}
