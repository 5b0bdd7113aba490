//! A recording as an episode in memory: what demonstrations are.

use std::sync::Arc;

use plaudit_core::End;

use super::{AfterLast, FileProblem, MAIN, Observation, Recording};
use crate::episode::{CameraTrack, Episode, Timestep};

impl Recording {
    /// The whole episode.
    ///
    /// # Errors
    /// When it has no actions, or not one observation more than those, or when its images change their size.
    pub fn to_episode(&self) -> Result<Episode, FileProblem> {
        let observations = self.observed();
        let episode = self.numbers(&observations, &self.actions)?;
        Ok(Episode { cameras: cameras(&observations)?, ..episode })
    }

    /// The same without images, for whoever asks for those one by one. What is not known of the last action's outcome is not in
    /// it: of recordings that end with an action, that action is left out.
    pub(crate) fn to_episode_without_images(&self) -> Result<Episode, FileProblem> {
        let (steps, seen) = (self.actions.len(), self.observations.len());
        let is_open = seen == steps && seen > 1;
        let mut observations = self.observed();
        match self.after_last {
            AfterLast::Included if is_open => self.numbers(&observations, &self.actions[..steps - 1]),
            AfterLast::Unknown if is_open => {
                observations.extend(self.observations.last());
                self.numbers(&observations, &self.actions)
            }
            _ => self.numbers(&observations, &self.actions),
        }
    }

    /// Every observation, the one after the last action too where there is one.
    fn observed(&self) -> Vec<&Observation> {
        let after_last = match &self.after_last {
            AfterLast::Seen(observation) => Some(observation),
            AfterLast::Repeated => self.observations.last(),
            AfterLast::Included | AfterLast::Unknown => None,
        };
        self.observations.iter().chain(after_last).collect()
    }

    /// An episode without images.
    fn numbers(&self, observations: &[&Observation], actions: &[Vec<f32>]) -> Result<Episode, FileProblem> {
        let steps = actions.len();
        if steps == 0 {
            return Err(FileProblem::NoActions);
        }
        if observations.len() != steps + 1 {
            let what = format!(
                "{} observations for {steps} actions, where there should be one more: the one after the last action",
                observations.len()
            );
            return Err(FileProblem::Lists { what });
        }
        if let Some(at) = actions.iter().position(Vec::is_empty) {
            let (location, found) = (format!("actions[{at}]"), "something else".into());
            return Err(FileProblem::NotOne { location, expected: "array of numbers", found });
        }
        let timesteps = self.timesteps(steps)?;
        let once = || timesteps.iter().any(|timestep| timestep.success == Some(true));
        let [row, number, batch_step] = self.position.map(Option::unwrap_or_default);
        Ok(Episode {
            row: row as usize,
            number,
            batch_step,
            success: self.success.unwrap_or_else(once),
            task: self.task().map(Arc::from),
            cameras: Vec::new(),
            states: observations.iter().map(|seen| seen.state().unwrap_or_default()).collect(),
            actions: actions.to_vec(),
            timesteps,
        })
    }

    /// The reset, and what followed each action.
    fn timesteps(&self, steps: usize) -> Result<Vec<Timestep>, FileProblem> {
        // Columns begin with the reset, unless what follows an action stands beside what was before it.
        let has_reset = !self.follows_actions();
        let expected = steps + usize::from(has_reset);
        if !self.rewards.is_empty() && self.rewards.len() != expected {
            let what = format!("{} rewards for {steps} actions; expected {expected}", self.rewards.len());
            return Err(FileProblem::Lists { what });
        }
        let reset = Timestep { reward: 0.0, end: End::No, success: None, facts: Vec::new() };
        let timestep = |at: usize| {
            let column = if has_reset { at } else { at - 1 };
            Timestep {
                reward: self.rewards.get(column).map_or(0.0, |reward| *reward as f32),
                end: self.ends.get(column).copied().unwrap_or_default(),
                success: self.labels.get(column).copied().flatten(),
                facts: self.facts.get(column).cloned().unwrap_or_default(),
            }
        };
        let first = match has_reset {
            true => Timestep { success: None, ..timestep(0) },
            false => reset,
        };
        Ok(std::iter::once(first).chain((1..=steps).map(timestep)).collect())
    }
}

/// The images of every camera that each observation shows, the main view first.
fn cameras(observations: &[&Observation]) -> Result<Vec<CameraTrack>, FileProblem> {
    let mut tracks: Vec<CameraTrack> = Vec::new();
    for (at, observation) in observations.iter().enumerate() {
        for (name, frame) in observation.images() {
            let image = frame.image()?;
            let (shape, pixels) = (image.shape(), image.pixels()?);
            match tracks.iter_mut().find(|track| *track.name == *name) {
                Some(track) if track.shape == shape => {
                    Arc::make_mut(&mut track.pixels).extend_from_slice(&pixels)
                }
                None if at == 0 => tracks.push(CameraTrack {
                    name: Arc::from(name),
                    shape,
                    pixels: pixels.into_owned().into(),
                }),
                Some(_) => return Err(changed(at, &name, "changes its size within the episode")),
                None => return Err(changed(at, &name, "is not there from the start")),
            }
        }
    }
    let whole = |track: &CameraTrack| track.pixels.len() == observations.len() * track.shape.bytes();
    if let Some(track) = tracks.iter().find(|track| !whole(track)) {
        return Err(changed(observations.len() - 1, &track.name, "is not there to the end"));
    }
    // Collectors write the cameras of a dict in any order; stores and datasets keep theirs.
    tracks.sort_by_key(|track| match &*track.name {
        MAIN => 0,
        _ => 1,
    });
    Ok(tracks)
}

fn changed(at: usize, camera: &str, problem: &str) -> FileProblem {
    FileProblem::Lists { what: format!("the camera `{camera}` of observation {at} {problem}") }
}
