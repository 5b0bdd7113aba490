//! Episodes from the Python objects that RLinf's collectors write: the way back from [`as_python`](super::as_python).

use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use thiserror::Error;

use super::{CameraTrack, Episode, Moment};
use crate::python::{Array, DType, PyValue};

/// Why a file holds no episode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place} {problem}")]
pub struct NoEpisode {
    /// Where in the file.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

fn wrong(place: impl Into<String>, problem: impl Into<String>) -> NoEpisode {
    NoEpisode { place: place.into(), problem: problem.into() }
}

/// The episode of a pickle: lists of N + 1 observations and rewards, and N actions.
///
/// # Errors
/// When a list is missing, too short, or holds something else than it should.
pub fn from_pickle(value: &PyValue) -> Result<Episode, NoEpisode> {
    let list = |key: &str| {
        let found = value.get(key).and_then(PyValue::as_items);
        found.ok_or_else(|| wrong(format!("`{key}`"), "is missing, or is no list"))
    };
    let (observations, actions, rewards) = (list("observations")?, list("actions")?, list("rewards")?);
    let steps = actions.len();
    if observations.len() != steps + 1 || rewards.len() != steps + 1 {
        let lengths = format!("{} observations and {} rewards", observations.len(), rewards.len());
        return Err(wrong(
            "the episode",
            format!("has {lengths} for {steps} actions; both should be one more"),
        ));
    }
    let flags = |key: &str| value.get(key).and_then(PyValue::as_items).unwrap_or_default();
    let flag = |key: &str, at: usize| flags(key).get(at).and_then(PyValue::to_bool) == Some(true);
    let infos = flags("infos");
    let moment = |at: usize| -> Result<Moment, NoEpisode> {
        let place = || format!("rewards[{at}]");
        let reward = rewards[at].to_f64().ok_or_else(|| wrong(place(), "is no number"))?;
        let success =
            if at == 0 { None } else { infos.get(at).and_then(|info| info.get("success")?.to_bool()) };
        let end = match (flag("terminated", at), flag("truncated", at)) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        };
        Ok(Moment { reward: reward as f32, end, success, facts: Vec::new() })
    };
    let actions = actions.iter().enumerate().map(|(at, action)| numbers(action, || format!("actions[{at}]")));
    let int = |key: &str| {
        value.get(key).and_then(PyValue::to_i64).and_then(|int| u64::try_from(int).ok()).unwrap_or(0)
    };
    let mut episode = Episode {
        row: int("env_idx") as usize,
        number: int("episode_id"),
        batch_step: int("step"),
        success: value.get("success").and_then(PyValue::to_bool) == Some(true),
        task: None,
        cameras: Vec::new(),
        states: Vec::new(),
        actions: actions.collect::<Result<_, _>>()?,
        moments: (0..=steps).map(moment).collect::<Result<_, _>>()?,
    };
    for (at, observation) in observations.iter().enumerate() {
        see(&mut episode, observation, &format!("observations[{at}]"))?;
    }
    Ok(episode)
}

/// The episodes of a list of transitions, `{"transitions": {"obs", "next_obs"}, "action", "rewards", "terminations",
/// "truncations"}`, as real robots' demonstrations were kept: cut where one ends.
///
/// # Errors
/// When an entry lacks something.
pub fn from_transitions(value: &PyValue) -> Result<Vec<Episode>, NoEpisode> {
    let entries = value.as_items().ok_or_else(|| wrong("the file", "is no list of transitions"))?;
    let mut episodes: Vec<Episode> = Vec::new();
    let mut is_open = false;
    for (at, entry) in entries.iter().enumerate() {
        let place = format!("[{at}]");
        let need = |of: &'_ PyValue, key: &str| -> Result<PyValue, NoEpisode> {
            of.get(key).cloned().ok_or_else(|| wrong(&place, format!("has no `{key}`")))
        };
        let sides = need(entry, "transitions")?;
        if !is_open {
            let mut begun = begin(episodes.len() as u64);
            see(&mut begun, &need(&sides, "obs")?, &place)?;
            episodes.push(begun);
        }
        let Some(episode) = episodes.last_mut() else { break };
        episode.actions.push(numbers(&need(entry, "action")?, || format!("{place}[\"action\"]"))?);
        see(episode, &need(&sides, "next_obs")?, &place)?;
        let reward = need(entry, "rewards")?.to_f64();
        let reward = reward.ok_or_else(|| wrong(format!("{place}[\"rewards\"]"), "is no number"))? as f32;
        let flag = |key: &str| entry.get(key).and_then(PyValue::to_bool) == Some(true);
        let end = match (flag("terminations"), flag("truncations")) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        };
        let success = end == End::Terminated && reward > 0.5;
        episode.success |= success;
        episode.moments.push(Moment { reward, end, success: Some(success), facts: Vec::new() });
        is_open = !end.is_end();
    }
    Ok(episodes)
}

fn begin(number: u64) -> Episode {
    Episode {
        row: 0,
        number,
        batch_step: 0,
        success: false,
        task: None,
        cameras: Vec::new(),
        states: Vec::new(),
        actions: Vec::new(),
        moments: vec![Moment { reward: 0.0, end: End::No, success: None, facts: Vec::new() }],
    }
}

/// Adds an observation: `states`, `main_images`, `wrist_images`, `extra_view_images`, `task_descriptions`.
fn see(episode: &mut Episode, observation: &PyValue, place: &str) -> Result<(), NoEpisode> {
    let entries = episode.states.len();
    episode.states.push(match observation.get("states") {
        None | Some(PyValue::None) => Vec::new(),
        Some(states) => numbers(states, || format!("{place}[\"states\"]"))?,
    });
    for key in ["main_images", "wrist_images", "extra_view_images"] {
        if let Some(images) = observation.get(key).and_then(PyValue::as_array) {
            see_images(episode, key, images, entries)
                .map_err(|problem| wrong(format!("{place}[\"{key}\"]"), problem))?;
        }
    }
    if let Some(task) = observation.get("task_descriptions").and_then(PyValue::as_str) {
        episode.task.get_or_insert_with(|| task.into());
    }
    Ok(())
}

/// One image `[H, W, C]`, or several views `[n, H, W, C]`; axes of one environment before that are passed over.
fn see_images(episode: &mut Episode, key: &str, images: &Array, entries: usize) -> Result<(), String> {
    let sides = images.shape();
    let &[.., height, width, channels] = sides else { return Err(format!("is no image: {sides:?}")) };
    if images.dtype() != DType::U8 {
        return Err(format!("holds {} where bytes are expected", images.dtype()));
    }
    let shape = FrameShape { height, width, channels };
    if shape.bytes() == 0 {
        return Err(format!("is no image: {sides:?}"));
    }
    let views: usize = sides[..sides.len() - 3].iter().product();
    for (view, pixels) in images.bytes().chunks_exact(shape.bytes()).enumerate() {
        let name: Arc<str> = if views == 1 { key.into() } else { format!("{key}[{view}]").into() };
        match episode.cameras.iter_mut().find(|track| track.name == name) {
            Some(track) if track.shape == shape => track.pixels.extend_from_slice(pixels),
            Some(_) => return Err("changes its size within the episode".into()),
            None if entries == 0 => {
                episode.cameras.push(CameraTrack { name, shape, pixels: pixels.to_vec() });
            }
            None => return Err("is not there from the start".into()),
        }
    }
    Ok(())
}

fn numbers(value: &PyValue, place: impl Fn() -> String) -> Result<Vec<f32>, NoEpisode> {
    let found = match value.as_array() {
        Some(array) => array.to_f32(),
        None => value
            .as_items()
            .and_then(|items| items.iter().map(|item| item.to_f64().map(|x| x as f32)).collect()),
    };
    found.ok_or_else(|| wrong(place(), "is no array of numbers"))
}
