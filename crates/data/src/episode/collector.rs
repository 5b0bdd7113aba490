//! Gathering episodes from a batch of environments, row by row, without losing the last observation.

use std::sync::Arc;

use plaudit_core::{End, Obs, ObsRow, Step};

use super::{CameraTrack, Episode, Timestep};

/// Which episodes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// All of them.
    #[default]
    All,
    /// Those that solved the task at some step, whether success or the clock ended them.
    Successes,
}

/// Gathers the episodes of a batch of environments.
#[derive(Debug)]
pub struct Collector {
    rows: Vec<Episode>,
    keep: Keep,
    batch_steps: u64,
}

impl Collector {
    /// Starts with what the environments show after a reset.
    pub fn new(reset: &Obs, keep: Keep) -> Self {
        let rows = (0..reset.batch()).map(|row| begin(row, 0, reset.row(row), reset)).collect();
        Self { rows, keep, batch_steps: 0 }
    }

    /// Starts every row anew after a reset of all environments. Unfinished episodes are dropped; numbering continues.
    pub fn restart(&mut self, reset: &Obs) {
        let rows: Vec<usize> = (0..self.rows.len()).collect();
        self.restart_rows(&rows, reset);
    }

    /// Starts some rows anew, where environments began another episode without ending one.
    pub fn restart_rows(&mut self, rows: &[usize], reset: &Obs) {
        for &row in rows {
            let Some(episode) = self.rows.get_mut(row) else { continue };
            let number = if episode.is_empty() { episode.number } else { episode.number + 1 };
            *episode = begin(row, number, reset.row(row), reset);
        }
    }

    /// Takes note of a step and returns the episodes it finished that are worth keeping; those that a robot calls invalid
    /// never are. A row that is before its recording begins anew with what it shows.
    pub fn step(&mut self, actions: &[f32], step: &Step) -> Vec<Episode> {
        self.batch_steps += 1;
        let width = actions.len() / self.rows.len();
        let mut finished = Vec::new();
        for row in 0..self.rows.len() {
            let ended = step.end[row].is_end();
            let last = step.last.iter().find(|(ended_row, _)| *ended_row == row).map(|(_, obs)| obs);
            let episode = &mut self.rows[row];
            if step.is_pre_record(row) && !ended {
                *episode = begin(row, episode.number, step.obs.row(row), &step.obs);
                continue;
            }
            episode.actions.push(actions[row * width..(row + 1) * width].to_vec());
            match last {
                Some(last) => add_observation(episode, last.row(0), last),
                None => add_observation(episode, step.obs.row(row), &step.obs),
            }
            episode.timesteps.push(timestep(step, row));
            episode.success |= step.success[row];
            if ended {
                let next = begin_like(episode, step.obs.row(row), &step.obs);
                let mut done = std::mem::replace(episode, next);
                done.batch_step = self.batch_steps;
                let is_wanted = self.keep == Keep::All || done.success;
                if is_wanted && !step.ends_invalid(row) {
                    finished.push(done);
                }
            }
        }
        finished
    }
}

/// The episode after another. Most are about as long as the one before, so that images are not moved while it grows.
fn begin_like(before: &Episode, observation: ObsRow<'_>, obs: &Obs) -> Episode {
    let mut episode = begin(before.row, before.number + 1, observation, obs);
    for (track, before) in episode.cameras.iter_mut().zip(&before.cameras) {
        let more = before.pixels.len().saturating_sub(track.pixels.len());
        Arc::make_mut(&mut track.pixels).reserve_exact(more);
    }
    episode
}

/// An episode with nothing but what the reset showed.
fn begin(row: usize, number: u64, observation: ObsRow<'_>, obs: &Obs) -> Episode {
    let mut episode = Episode {
        row,
        number,
        batch_step: 0,
        success: false,
        task: observation.task().map(Arc::from),
        cameras: Vec::new(),
        states: Vec::new(),
        actions: Vec::new(),
        timesteps: vec![Timestep { reward: 0.0, end: End::No, success: None, facts: Vec::new() }],
    };
    add_observation(&mut episode, observation, obs);
    episode
}

/// Adds an observation. Cameras that appear only later (images of ends alone) start with black images, so
/// that every track has one image per entry.
fn add_observation(episode: &mut Episode, observation: ObsRow<'_>, obs: &Obs) {
    let entries = episode.states.len();
    for (name, frames) in &obs.cameras {
        let Some((shape, image)) = observation.image(name) else { continue };
        let at = episode.cameras.iter().position(|track| track.name == *name).unwrap_or_else(|| {
            let pixels = Arc::new(vec![0; entries * shape.bytes()]);
            episode.cameras.push(CameraTrack { name: name.clone(), shape: frames.shape, pixels });
            episode.cameras.len() - 1
        });
        // Nobody else has them yet, so that this copies one image and no more.
        Arc::make_mut(&mut episode.cameras[at].pixels).extend_from_slice(image);
    }
    episode.states.push(observation.state.to_vec());
}

fn timestep(step: &Step, row: usize) -> Timestep {
    let facts = step.facts.iter().map(|(name, values)| (name.clone(), values[row])).collect();
    Timestep { reward: step.reward[row], end: step.end[row], success: Some(step.success[row]), facts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::{FrameShape, Frames};

    fn obs(states: [f32; 2]) -> Obs {
        let pixels = states.iter().flat_map(|&state| [state as u8; 3]).collect();
        let frames = Frames::new(FrameShape::rgb(1, 1), pixels).unwrap();
        Obs::from_state(2, states.to_vec()).unwrap().with_camera("main", frames).unwrap()
    }

    fn one(state: f32) -> Obs {
        let frames = Frames::new(FrameShape::rgb(1, 1), vec![state as u8; 3]).unwrap();
        Obs::from_state(1, vec![state]).unwrap().with_camera("main", frames).unwrap()
    }

    fn step(states: [f32; 2], end: [End; 2], success: [bool; 2], last: Vec<(usize, Obs)>) -> Step {
        let facts = vec![("is_grasped".into(), vec![1.0, 0.0])];
        Step {
            obs: obs(states),
            reward: vec![0.5, 0.25],
            end: end.into(),
            success: success.into(),
            last,
            facts,
            interventions: Vec::new(),
        }
    }

    #[test]
    fn episodes_that_a_robot_calls_invalid_are_dropped() {
        let mut collector = Collector::new(&obs([1.0, 10.0]), Keep::All);
        let mut broken =
            step([2.0, 11.0], [End::Truncated; 2], [true; 2], vec![(0, one(5.0)), (1, one(6.0))]);
        broken.facts.push((plaudit_core::INVALID_FACT.into(), vec![1.0, 0.0]));
        let kept = collector.step(&[0.0, 0.0], &broken);
        assert_eq!(kept.iter().map(|episode| episode.row).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_recording_begins_with_what_the_last_step_before_it_shows() {
        let mut collector = Collector::new(&obs([1.0, 10.0]), Keep::All);
        for state in [2.0, 3.0, 4.0] {
            let mut before = step([state, 11.0], [End::No; 2], [true, false], vec![]);
            // What was recorded at 3 is dropped at 4.
            let is_before = f32::from(u8::from(state != 3.0));
            before.facts.push((plaudit_core::PRE_RECORD_FACT.into(), vec![is_before, 0.0]));
            assert!(collector.step(&[0.1, 0.2], &before).is_empty());
        }
        let last = vec![(0, one(5.0)), (1, one(12.0))];
        let done = collector.step(&[0.3, 0.4], &step([1.0, 10.0], [End::Truncated; 2], [false; 2], last));
        assert_eq!((&done[0].states, &done[0].actions), (&vec![vec![4.0], vec![5.0]], &vec![vec![0.3]]));
        assert_eq!((done[0].number, done[0].success, done[1].states.len()), (0, false, 5));
    }

    #[test]
    fn an_episode_ends_with_what_really_happened() {
        let mut collector = Collector::new(&obs([1.0, 10.0]), Keep::All);
        assert!(
            collector.step(&[0.1, 0.2], &step([2.0, 11.0], [End::No; 2], [true, false], vec![])).is_empty()
        );
        let ends = [End::Truncated, End::No];
        let done = collector.step(&[0.3, 0.4], &step([50.0, 12.0], ends, [false; 2], vec![(0, one(3.0))]));
        let [episode] = &done[..] else { panic!("one episode") };
        assert_eq!(episode.states, [[1.0], [2.0], [3.0]]);
        assert_eq!(episode.actions, [[0.1], [0.3]]);
        assert_eq!(*episode.cameras[0].pixels, [1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!(episode.timesteps.iter().map(|m| m.reward).collect::<Vec<_>>(), [0.0, 0.5, 0.5]);
        assert_eq!(episode.timesteps[0].success, None);
        assert_eq!(episode.timesteps[1].facts, [("is_grasped".into(), 1.0)]);
        assert!(episode.success, "success at any step counts");
        assert_eq!((episode.row, episode.number, episode.batch_step), (0, 0, 2));

        let ends = [End::Terminated, End::No];
        let done = collector.step(&[0.5, 0.6], &step([60.0, 13.0], ends, [false; 2], vec![(0, one(51.0))]));
        assert_eq!(done[0].states, [[50.0], [51.0]], "the next episode starts from its own reset");
        assert_eq!((done[0].number, done[0].success), (1, false));
    }

    #[test]
    fn a_restart_drops_what_is_unfinished_and_numbers_go_on() {
        let mut collector = Collector::new(&obs([1.0, 10.0]), Keep::All);
        collector.step(&[0.0; 2], &step([2.0, 11.0], [End::No; 2], [false; 2], vec![]));
        collector.restart(&obs([5.0, 6.0]));
        let last = vec![(0, one(7.0)), (1, one(8.0))];
        let done = collector.step(&[0.0; 2], &step([1.0, 10.0], [End::Truncated; 2], [false; 2], last));
        assert_eq!(done[0].states, [[5.0], [7.0]]);
        assert_eq!(done.iter().map(|e| (e.number, e.batch_step)).collect::<Vec<_>>(), [(1, 2), (1, 2)]);
    }

    #[test]
    fn a_success_that_the_clock_ended_is_kept() {
        let mut collector = Collector::new(&obs([1.0, 10.0]), Keep::Successes);
        collector.step(&[0.0; 2], &step([2.0, 11.0], [End::No; 2], [true, false], vec![]));
        let last = vec![(0, one(3.0)), (1, one(12.0))];
        let done = collector.step(&[0.0; 2], &step([1.0, 10.0], [End::Truncated; 2], [false; 2], last));
        assert_eq!(done.iter().map(|episode| episode.row).collect::<Vec<_>>(), [0]);
    }
}
