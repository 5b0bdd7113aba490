//! One batch from the rows of several: what processes played apart, as if one had played it.

use std::sync::Arc;

use plaudit_core::{Frames, Obs, ObsError, RewardColumn, Segment, Term};
use thiserror::Error;

use crate::{Decisions, Experience};

/// Parts that are not of the same rollout.
#[derive(Debug, Error)]
pub enum JoinError {
    /// There is nothing.
    #[error("a rollout of no rows")]
    Nothing,
    /// Parts that differ in something that all rows share.
    #[error("the processes disagree about {what}")]
    Differ {
        /// What it is.
        what: &'static str,
    },
    /// Observations that do not fit together.
    #[error(transparent)]
    Obs(#[from] ObsError),
}

impl Experience {
    /// The experience of all rows, from parts that hold them one after the other.
    pub fn join_rows(parts: Vec<Self>) -> Result<Self, JoinError> {
        if parts.len() == 1 {
            return parts.into_iter().next().ok_or(JoinError::Nothing);
        }
        let segments: Vec<&Segment> = parts.iter().map(|part| &part.segment).collect();
        let rows: Vec<usize> = segments.iter().map(|segment| segment.batch()).collect();
        let decisions: Vec<&Decisions> = parts.iter().map(|part| &part.decisions).collect();
        let rewards: Vec<&RewardColumn> = parts.iter().map(|part| &part.reward).collect();
        let segment = join_segments(&segments)?;
        let steps = segment.steps();
        Ok(Self {
            decisions: join_decisions(&decisions, &rows, steps)?,
            reward: join_rewards(&rewards, &rows, steps)?,
            segment,
        })
    }
}

fn join_segments(parts: &[&Segment]) -> Result<Segment, JoinError> {
    let Some(first) = parts.first() else { return Err(JoinError::Nothing) };
    let (steps, rows) = (first.steps(), parts.iter().map(|part| part.batch()).collect::<Vec<_>>());
    if parts.iter().any(|part| part.steps() != steps) {
        return Err(JoinError::Differ { what: "the number of steps" });
    }
    let context = parts.iter().map(|part| part.context.len()).max().unwrap_or(0);
    let context = (0..context).rev().map(|back| join_context(parts, back).map(Arc::new));
    let obs = |t: usize| join_obs(&parts.iter().map(|part| &part.obs[t]).collect::<Vec<_>>());
    let actions = |t: usize| parts.iter().flat_map(|part| part.actions[t].iter().copied()).collect();
    let mut last = Vec::new();
    let mut before = 0;
    for (part, rows) in parts.iter().zip(&rows) {
        last.extend(part.last.iter().map(|(t, row, obs)| (*t, before + row, obs.clone())));
        before += rows;
    }
    last.sort_by_key(|(t, row, _)| (*t, *row));
    Ok(Segment {
        context: context.collect::<Result<_, _>>()?,
        elapsed: parts.iter().flat_map(|part| part.elapsed.iter().copied()).collect(),
        obs: (0..=steps).map(obs).collect::<Result<_, _>>()?,
        actions: (0..steps).map(actions).collect(),
        env_reward: join_columns(parts.iter().map(|part| &part.env_reward[..]), &rows, steps),
        end: join_columns(parts.iter().map(|part| &part.end[..]), &rows, steps),
        success: join_columns(parts.iter().map(|part| &part.success[..]), &rows, steps),
        last,
    })
}

/// The context so many observations before the newest. A part whose episodes are all younger has none of that age, and no
/// row of it will be asked for one: its oldest stands there.
fn join_context(parts: &[&Segment], back: usize) -> Result<Obs, JoinError> {
    let of = |part: &&Segment| -> Obs {
        let newest = part.context.len().checked_sub(1 + back);
        let oldest = part.context.first();
        newest
            .map(|at| &part.context[at])
            .or(oldest)
            .map_or_else(|| part.obs[0].clone(), |obs| (**obs).clone())
    };
    let parts: Vec<Obs> = parts.iter().map(of).collect();
    join_obs(&parts.iter().collect::<Vec<_>>())
}

/// Observations of several batches, one below the other.
///
/// # Errors
/// When they do not show the same things.
pub fn join_obs(parts: &[&Obs]) -> Result<Obs, JoinError> {
    let Some(first) = parts.first() else { return Err(JoinError::Nothing) };
    let cameras_fit = |part: &&Obs| {
        part.cameras.len() == first.cameras.len()
            && part
                .cameras
                .iter()
                .zip(&first.cameras)
                .all(|((name, frames), (other, others))| name == other && frames.shape == others.shape)
    };
    if !parts.iter().all(|part| cameras_fit(part) && part.tasks.is_empty() == first.tasks.is_empty()) {
        return Err(JoinError::Differ { what: "what is observed" });
    }
    let rows = parts.iter().map(|part| part.batch()).sum();
    let state = parts.iter().flat_map(|part| part.state.iter().copied()).collect();
    let mut obs = Obs::from_state(rows, state)?;
    for (at, (name, frames)) in first.cameras.iter().enumerate() {
        let mut pixels = Vec::with_capacity(rows * frames.shape.bytes());
        parts.iter().for_each(|part| pixels.extend_from_slice(&part.cameras[at].1.pixels));
        obs = obs.with_camera(name.clone(), Frames::new(frames.shape, pixels)?)?;
    }
    let tasks: Vec<Arc<str>> = parts.iter().flat_map(|part| part.tasks.iter().cloned()).collect();
    Ok(if tasks.is_empty() { obs } else { obs.with_tasks(tasks)? })
}

fn join_decisions(parts: &[&Decisions], rows: &[usize], steps: usize) -> Result<Decisions, JoinError> {
    let floats = |of: fn(&Decisions) -> &[f32]| optional(parts.iter().map(|part| of(part)), rows, steps);
    let flags = |of: fn(&Decisions) -> &[bool]| optional(parts.iter().map(|part| of(part)), rows, steps);
    Ok(Decisions {
        log_probs: floats(|part| &part.log_probs)?,
        values: floats(|part| &part.values)?,
        starts_chunk: flags(|part| &part.starts_chunk)?,
        intervened: flags(|part| &part.intervened)?,
        invalid: flags(|part| &part.invalid)?,
    })
}

fn join_rewards(parts: &[&RewardColumn], rows: &[usize], steps: usize) -> Result<RewardColumn, JoinError> {
    let Some(first) = parts.first() else { return Err(JoinError::Nothing) };
    let fits = |part: &&RewardColumn| {
        part.success.is_some() == first.success.is_some()
            && part.terms.len() == first.terms.len()
            && part.terms.iter().zip(&first.terms).all(|(a, b)| a.name == b.name && a.weight == b.weight)
    };
    if !parts.iter().all(fits) {
        return Err(JoinError::Differ { what: "the reward's terms" });
    }
    if parts.iter().any(|part| part.version != first.version) {
        return Err(JoinError::Differ { what: "the version of the reward" });
    }
    let term = |(at, term): (usize, &Term)| Term {
        values: join_columns(parts.iter().map(|part| &part.terms[at].values[..]), rows, steps),
        ..term.clone()
    };
    let success = |part: &&RewardColumn| part.success.clone();
    let success: Option<Vec<Vec<bool>>> = parts.iter().map(success).collect();
    Ok(RewardColumn {
        total: join_columns(parts.iter().map(|part| &part.total[..]), rows, steps),
        terms: first.terms.iter().enumerate().map(term).collect(),
        success: success.map(|parts| join_columns(parts.iter().map(|part| &part[..]), rows, steps)),
        version: first.version,
    })
}

/// A column that a policy or a person may not have; then nobody has it.
fn optional<'a, T: Copy + 'a>(
    parts: impl Iterator<Item = &'a [T]> + Clone,
    rows: &[usize],
    steps: usize,
) -> Result<Vec<T>, JoinError> {
    let empty = parts.clone().filter(|part| part.is_empty()).count();
    match empty {
        0 => Ok(join_columns(parts, rows, steps)),
        n if n == rows.len() => Ok(Vec::new()),
        _ => Err(JoinError::Differ { what: "what a decision is made of" }),
    }
}

/// `[T, B, …]` from parts `[T, b, …]` of `rows` rows each.
fn join_columns<'a, T: Copy + 'a>(
    parts: impl Iterator<Item = &'a [T]> + Clone,
    rows: &[usize],
    steps: usize,
) -> Vec<T> {
    let per_row = |part: &[T], rows: usize| part.len() / (steps * rows).max(1);
    let mut joined = Vec::with_capacity(parts.clone().map(<[T]>::len).sum());
    for t in 0..steps {
        for (part, &rows) in parts.clone().zip(rows) {
            let width = rows * per_row(part, rows);
            joined.extend_from_slice(&part[t * width..(t + 1) * width]);
        }
    }
    joined
}

impl crate::RolloutState {
    /// The rows `rows` of it alone, numbered from 0.
    #[must_use]
    pub fn rows(&self, rows: std::ops::Range<usize>) -> Self {
        let obs = |obs: &Arc<Obs>| {
            let parts: Vec<Obs> = rows.clone().map(|row| obs.row(row).to_obs()).collect();
            join_obs(&parts.iter().collect::<Vec<_>>()).ok().map(Arc::new)
        };
        let episodes = self.episodes[rows.clone()].iter().enumerate();
        let past = self.past[rows.clone()].to_vec();
        Self {
            steps: self.steps,
            episodes: episodes.map(|(row, episode)| crate::Episode { row, ..*episode }).collect(),
            context: self.context.iter().filter_map(obs).collect(),
            solved: self.solved[rows.clone()].to_vec(),
            past,
        }
    }
}
