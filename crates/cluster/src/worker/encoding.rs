//! The vocabulary of training as bytes: observations, segments, rollout states, parameters. Arrays travel as they lie.

use std::sync::Arc;

use plaudit_core::{
    ActionHistory, ActionSpace, End, EnvSpec, Facts, FrameShape, Frames, Obs, RewardColumn, Segment,
    StatePart, Term,
};
use plaudit_rl::{Decisions, Episode, Experience, ExplorerParams, RolloutState, StateScale};

use crate::link::{Payload, Reader, WireError};

/// Rows, steps, pixels along an edge: nothing here counts further.
const MOST: usize = 1 << 24;

pub(super) fn put_obs(to: &mut Payload, obs: Obs) {
    to.u64(obs.batch() as u64);
    to.u64(obs.cameras.len() as u64);
    to.u64(obs.tasks.len() as u64);
    obs.tasks.iter().for_each(|task| to.text(task));
    to.floats(obs.state);
    for (name, frames) in obs.cameras {
        to.text(&name);
        let FrameShape { height, width, channels } = frames.shape;
        [height, width, channels].into_iter().for_each(|edge| to.u64(edge as u64));
        to.bytes(frames.pixels);
    }
}

pub(super) fn take_obs(from: &mut Reader<'_>) -> Result<Obs, WireError> {
    let (batch, cameras) = (from.count(MOST)?, from.count(64)?);
    let tasks = from.items(8)?;
    let tasks = (0..tasks).map(|_| from.text().map(Arc::from)).collect::<Result<Vec<Arc<str>>, _>>()?;
    let state = from.floats()?;
    let mut obs = Obs::from_state(batch, state).map_err(|error| from.problem(error.to_string()))?;
    for _ in 0..cameras {
        let name: Arc<str> = from.text()?.into();
        let shape = FrameShape {
            height: from.count(1 << 15)?,
            width: from.count(1 << 15)?,
            channels: from.count(16)?,
        };
        let frames = Frames::new(shape, from.bytes()?.to_vec());
        let with = frames.and_then(|frames| obs.with_camera(name, frames));
        obs = with.map_err(|error| from.problem(error.to_string()))?;
    }
    match tasks.is_empty() {
        true => Ok(obs),
        false => obs.with_tasks(tasks).map_err(|error| from.problem(error.to_string())),
    }
}

pub(super) fn put_facts(to: &mut Payload, steps: Vec<Facts>) {
    to.u64(steps.len() as u64);
    for facts in steps {
        to.u64(facts.len() as u64);
        for (name, values) in facts {
            to.text(&name);
            to.floats(values);
        }
    }
}

pub(super) fn take_facts(from: &mut Reader<'_>) -> Result<Vec<Facts>, WireError> {
    let steps = from.items(8)?;
    let mut all = Vec::with_capacity(steps);
    for _ in 0..steps {
        let facts = from.items(16)?;
        let fact = |_| Ok((from.text()?.into(), from.floats()?));
        all.push((0..facts).map(fact).collect::<Result<Facts, WireError>>()?);
    }
    Ok(all)
}

pub(super) fn put_experience(to: &mut Payload, experience: Experience) {
    let Experience { segment, decisions, reward } = experience;
    put_segment(to, segment);
    to.floats(decisions.log_probs);
    to.floats(decisions.values);
    to.bools(&decisions.starts_chunk);
    to.bools(&decisions.intervened);
    to.bools(&decisions.invalid);
    to.floats(reward.total);
    to.u64(reward.version);
    to.bool(reward.success.is_some());
    to.bools(reward.success.as_deref().unwrap_or_default());
    to.u64(reward.terms.len() as u64);
    for term in reward.terms {
        to.text(&term.name);
        to.f32(term.weight);
        to.floats(term.values);
    }
}

pub(super) fn take_experience(from: &mut Reader<'_>) -> Result<Experience, WireError> {
    let segment = take_segment(from)?;
    let cells = segment.steps() * segment.batch();
    let values = segment.actions.iter().map(Vec::len).sum();
    let decisions = Decisions {
        log_probs: expect(from, |from| from.floats(), &[0, values], "log-probabilities")?,
        values: expect(from, |from| from.floats(), &[0, cells], "values")?,
        starts_chunk: expect(from, |from| from.bools(), &[0, cells], "chunks")?,
        intervened: expect(from, |from| from.bools(), &[0, cells], "interventions")?,
        invalid: expect(from, |from| from.bools(), &[0, cells], "invalid steps")?,
    };
    let total = expect(from, |from| from.floats(), &[cells], "rewards")?;
    let (version, has_success) = (from.u64()?, from.bool()?);
    let success = expect(from, |from| from.bools(), &[if has_success { cells } else { 0 }], "successes")?;
    let terms = from.items(20)?;
    let term = |from: &mut Reader<'_>| -> Result<Term, WireError> {
        let (name, weight) = (from.text()?.into(), from.f32()?);
        Ok(Term { name, weight, values: expect(from, |from| from.floats(), &[cells], "a term's values")? })
    };
    let terms = (0..terms).map(|_| term(from)).collect::<Result<_, _>>()?;
    let reward = RewardColumn { total, terms, success: has_success.then_some(success), version };
    Ok(Experience { segment, decisions, reward })
}

/// An array that must have one of these lengths.
fn expect<'a, T>(
    from: &mut Reader<'a>,
    take: impl FnOnce(&mut Reader<'a>) -> Result<Vec<T>, WireError>,
    lengths: &[usize],
    what: &str,
) -> Result<Vec<T>, WireError> {
    let values = take(from)?;
    match lengths.contains(&values.len()) {
        true => Ok(values),
        false => Err(from.problem(format!("{} {what} where {lengths:?} are due", values.len()))),
    }
}

fn put_segment(to: &mut Payload, segment: Segment) {
    let Segment { context, elapsed, obs, actions, env_reward, end, success, last } = segment;
    to.u64(elapsed.len() as u64);
    to.u64(actions.len() as u64);
    elapsed.iter().for_each(|steps| to.u64(*steps as u64));
    to.u64(context.len() as u64);
    context.into_iter().for_each(|obs| put_obs(to, Arc::unwrap_or_clone(obs)));
    obs.into_iter().for_each(|obs| put_obs(to, obs));
    actions.into_iter().for_each(|actions| to.floats(actions));
    to.floats(env_reward);
    to.bytes(end.iter().map(|end| end_code(*end)).collect());
    to.bools(&success);
    to.u64(last.len() as u64);
    for (t, row, obs) in last {
        to.u64(t as u64);
        to.u64(row as u64);
        put_obs(to, obs);
    }
}

fn take_segment(from: &mut Reader<'_>) -> Result<Segment, WireError> {
    let (batch, steps) = (from.items(8)?, from.items(8)?);
    let elapsed = (0..batch).map(|_| from.count(usize::MAX)).collect::<Result<Vec<_>, _>>()?;
    let context = from.items(8)?;
    let context = (0..context).map(|_| obs_of(from, batch).map(Arc::new)).collect::<Result<_, _>>()?;
    let obs = (0..=steps).map(|_| obs_of(from, batch)).collect::<Result<_, _>>()?;
    let actions = (0..steps).map(|_| from.floats()).collect::<Result<Vec<_>, _>>()?;
    let width = actions.first().map_or(0, Vec::len);
    if actions.iter().any(|actions| actions.len() != width || !width.is_multiple_of(batch.max(1))) {
        return Err(from.problem("actions of different lengths"));
    }
    let cells = steps.checked_mul(batch).ok_or_else(|| from.problem("too many steps"))?;
    let env_reward = expect(from, |from| from.floats(), &[cells], "rewards")?;
    let end = from.bytes()?.iter().map(|code| end_of(*code)).collect::<Option<Vec<_>>>();
    let end = end.filter(|end| end.len() == cells).ok_or_else(|| from.problem("ends that are none"))?;
    let success = expect(from, |from| from.bools(), &[cells], "successes")?;
    let last = from.items(16)?;
    let mut before = None;
    let mut one_last = |from: &mut Reader<'_>| -> Result<(usize, usize, Obs), WireError> {
        let (t, row) = (from.count(steps)?, from.count(batch)?);
        let is_end = end.get(t * batch + row).is_some_and(|end| end.is_end());
        if row >= batch || !is_end || before.replace((t, row)).is_some_and(|before| before >= (t, row)) {
            return Err(from.problem("a last observation where no episode ends"));
        }
        Ok((t, row, obs_of(from, 1)?))
    };
    let last: Vec<_> = (0..last).map(|_| one_last(from)).collect::<Result<_, _>>()?;
    if last.len() != end.iter().filter(|end| end.is_end()).count() {
        return Err(from.problem("ends without their last observation"));
    }
    Ok(Segment { context, elapsed, obs, actions, env_reward, end, success, last })
}

fn obs_of(from: &mut Reader<'_>, batch: usize) -> Result<Obs, WireError> {
    let obs = take_obs(from)?;
    match obs.batch() == batch {
        true => Ok(obs),
        false => Err(from.problem(format!("{} rows are observed where there are {batch}", obs.batch()))),
    }
}

fn end_code(end: End) -> u8 {
    match end {
        End::No => 0,
        End::Terminated => 1,
        End::Truncated => 2,
    }
}

fn end_of(code: u8) -> Option<End> {
    match code {
        0 => Some(End::No),
        1 => Some(End::Terminated),
        2 => Some(End::Truncated),
        _ => None,
    }
}

pub(super) fn put_state(to: &mut Payload, state: &RolloutState) {
    to.u64(state.steps);
    to.u64(state.past.len() as u64);
    for (past, episode) in state.past.iter().zip(&state.episodes) {
        to.u64(past.episode);
        to.floats(past.actions.clone());
        to.u64(episode.length);
        to.f64(episode.env_return);
        to.bool(episode.success_once);
        to.bool(episode.success_alone);
        to.u64(episode.person_steps);
    }
    to.bools(&state.solved);
    to.u64(state.context.len() as u64);
    state.context.iter().for_each(|obs| put_obs(to, (**obs).clone()));
}

pub(super) fn take_state(from: &mut Reader<'_>) -> Result<RolloutState, WireError> {
    let (steps, rows) = (from.u64()?, from.items(42)?);
    let (mut past, mut episodes) = (Vec::new(), Vec::new());
    for row in 0..rows {
        past.push(ActionHistory { episode: from.u64()?, actions: from.floats()? });
        episodes.push(Episode {
            row,
            length: from.u64()?,
            env_return: from.f64()?,
            success_once: from.bool()?,
            success_alone: from.bool()?,
            person_steps: from.u64()?,
            success_at_end: false,
            invalid: false,
            end: End::No,
        });
    }
    let solved = expect(from, |from| from.bools(), &[rows], "flags of success")?;
    let context = from.items(8)?;
    let context = (0..context).map(|_| obs_of(from, rows).map(Arc::new)).collect::<Result<_, _>>()?;
    Ok(RolloutState { steps, past, episodes, context, solved })
}

pub(super) fn put_params(to: &mut Payload, params: &ExplorerParams) {
    to.u64(params.trunk);
    to.shared_floats(&params.policy);
    to.shared_floats(&params.encoder);
    to.bool(params.scale.is_some());
    if let Some(scale) = &params.scale {
        to.floats(scale.mean.clone());
        to.floats(scale.deviation.clone());
    }
}

pub(super) fn take_params(from: &mut Reader<'_>) -> Result<ExplorerParams, WireError> {
    let (trunk, policy, encoder) = (from.u64()?, Arc::new(from.floats()?), Arc::new(from.floats()?));
    let scale = match from.bool()? {
        true => {
            let mean = from.floats()?;
            let deviation = expect(from, |from| from.floats(), &[mean.len()], "deviations")?;
            Some(StateScale { mean, deviation })
        }
        false => None,
    };
    Ok(ExplorerParams { policy, encoder, scale, trunk })
}

pub(super) fn put_spec(to: &mut Payload, spec: &EnvSpec) {
    to.text(&spec.id);
    to.u64(spec.num_envs as u64);
    to.u64(spec.state_width as u64);
    to.u64(spec.state_parts.len() as u64);
    for part in &spec.state_parts {
        to.text(&part.name);
        to.u64(part.range.start as u64);
        to.u64(part.range.end as u64);
    }
    match &spec.actions {
        ActionSpace::Discrete { n } => {
            to.u8(0);
            to.u64(*n as u64);
        }
        ActionSpace::Continuous { low, high } => {
            to.u8(1);
            to.floats(low.clone());
            to.floats(high.clone());
        }
    }
    to.u64(spec.cameras.len() as u64);
    for (name, FrameShape { height, width, channels }) in &spec.cameras {
        to.text(name);
        [height, width, channels].into_iter().for_each(|edge| to.u64(*edge as u64));
    }
    to.u64(spec.max_episode_steps.map_or(0, |steps| steps as u64 + 1));
    to.f64(spec.control_hz);
}

pub(super) fn take_spec(from: &mut Reader<'_>) -> Result<EnvSpec, WireError> {
    let (id, num_envs, state_width) = (from.text()?.into(), from.count(MOST)?, from.count(MOST)?);
    let parts = from.items(24)?;
    let part = |from: &mut Reader<'_>| -> Result<StatePart, WireError> {
        let (name, start, end) = (from.text()?.into(), from.count(state_width)?, from.count(state_width)?);
        match start <= end {
            true => Ok(StatePart { name, range: start..end }),
            false => Err(from.problem("a part of the state that ends before it begins")),
        }
    };
    let state_parts = (0..parts).map(|_| part(from)).collect::<Result<_, _>>()?;
    let actions = match from.u8()? {
        0 => ActionSpace::Discrete { n: from.count(MOST)? },
        1 => {
            let low = from.floats()?;
            let high = expect(from, |from| from.floats(), &[low.len()], "upper bounds")?;
            ActionSpace::Continuous { low, high }
        }
        other => return Err(from.problem(format!("{other} is no kind of action"))),
    };
    let cameras = from.items(32)?;
    let camera = |from: &mut Reader<'_>| -> Result<(Arc<str>, FrameShape), WireError> {
        let name = from.text()?.into();
        let [height, width, channels] = [from.count(MOST)?, from.count(MOST)?, from.count(MOST)?];
        Ok((name, FrameShape { height, width, channels }))
    };
    let cameras = (0..cameras).map(|_| camera(from)).collect::<Result<_, _>>()?;
    let max_episode_steps = from.count(usize::MAX)?.checked_sub(1);
    let control_hz = from.f64()?;
    Ok(EnvSpec { id, num_envs, state_width, state_parts, actions, cameras, max_episode_steps, control_hz })
}
