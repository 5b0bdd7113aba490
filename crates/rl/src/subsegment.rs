//! A subsegment: some steps of one environment, cut out of a rollout.

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{End, Frames, Obs, Segment, StepRow};

use crate::Experience;
use crate::replay::NewRollout;

/// Some steps of one row, with the rewards of the rollout.
pub(crate) fn labelled_subsegment(
    experience: &Experience,
    row: usize,
    steps: Range<usize>,
) -> Option<NewRollout> {
    let Experience { segment, reward, decisions } = experience;
    let batch = segment.batch();
    let is_invalid = |t: usize| decisions.invalid.get(t * batch + row) == Some(&true);
    if steps.clone().any(is_invalid) {
        return None; // whatever is cut out of an episode that broke is as broken
    }
    let rewards = steps.clone().map(|t| reward.total[t * batch + row]).collect();
    let segment = cut(segment, row, steps)?;
    Some(NewRollout {
        segment,
        starts_chunk: Vec::new(),
        invalid: Vec::new(),
        reward: rewards,
        version: reward.version,
    })
}

/// Some steps of one row as a segment of their own, with as much context as the whole one has.
fn cut(segment: &Segment, row: usize, steps: Range<usize>) -> Option<Segment> {
    let ended = (0..steps.start).rev().find(|&t| segment.end[segment.at(t, row)].is_end());
    let elapsed = ended.map_or(segment.elapsed[row] + steps.start, |t| steps.start - t - 1);
    let before =
        segment.obs[..steps.start].iter().rev().chain(segment.context.iter().rev().map(|obs| &**obs));
    let mut context: Vec<Arc<Obs>> = before
        .take(segment.context.len().min(elapsed))
        .map(|obs| one(obs, row).map(Arc::new))
        .collect::<Option<_>>()?;
    context.reverse();
    let mut own = Segment::continuing(one(&segment.obs[steps.start], row)?, context, vec![elapsed]);
    for t in steps {
        let at = segment.at(t, row);
        let width = segment.actions[t].len() / segment.batch();
        let last = segment.last.iter().find(|(step, other, _)| (*step, *other) == (t, row));
        let step = StepRow {
            actions: segment.actions[t][row * width..(row + 1) * width].to_vec(),
            env_reward: vec![segment.env_reward[at]],
            end: vec![segment.end[at]],
            success: vec![segment.success[at]],
        };
        let last = last.filter(|_| segment.end[at] != End::No).map(|(_, _, obs)| (0, obs.clone()));
        own.push(step, one(&segment.obs[t + 1], row)?, last.into_iter().collect()).ok()?;
    }
    Some(own)
}

/// One row of observations.
fn one(obs: &Obs, row: usize) -> Option<Obs> {
    let mut own = Obs::from_state(1, obs.row(row).state.to_vec()).ok()?;
    for (name, frames) in &obs.cameras {
        let image = Frames::new(frames.shape, frames.image(row).to_vec()).ok()?;
        own = own.with_camera(name.clone(), image).ok()?;
    }
    if let Some(task) = obs.tasks.get(row) {
        own = own.with_tasks(vec![task.clone()]).ok()?;
    }
    Some(own)
}
