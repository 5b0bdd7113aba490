//! A recorded episode as a segment, which a reward can label and a replay can keep.

use std::sync::Arc;

use plaudit_core::{
    ActionSpace, End, EnvSpec, FrameShape, Frames, FramesNeeded, Obs, ObsError, Segment, SegmentError,
    StepRow,
};
use plaudit_data::episode::{Episode, Timestep};
use thiserror::Error;

/// Why an episode is no demonstration for these environments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DemoError {
    /// Nothing was done in it.
    #[error("it has no actions")]
    Empty,
    /// States or actions of another width.
    #[error("its {what} have {got} numbers, and those of {env} have {expected}")]
    Width {
        /// What: `states`, `actions`.
        what: &'static str,
        /// The environment.
        env: Arc<str>,
        /// What it has.
        expected: usize,
        /// What the episode has.
        got: usize,
    },
    /// Images of another size.
    #[error("its camera `{camera}` shows {}x{}, and that of the environment {}x{}", got.height, got.width, expected.height, expected.width)]
    Image {
        /// The environment's camera.
        camera: Arc<str>,
        /// What it renders.
        expected: FrameShape,
        /// What the episode has.
        got: FrameShape,
    },
    /// A number that is none.
    #[error("its {what} hold {value} at step {step}")]
    NotFinite {
        /// What: `states`, `actions`.
        what: &'static str,
        /// The step of the episode.
        step: usize,
        /// What it holds there, in words.
        value: String,
    },
    /// Parts of different lengths.
    #[error("its parts do not fit together: {0}")]
    Parts(String),
}

/// Turns episodes into segments of environments like these.
pub struct DemoConverter<'a> {
    /// The environments.
    pub spec: &'a EnvSpec,
    /// Which camera of the environments an episode's camera is, if any.
    pub camera: &'a dyn Fn(&str) -> Option<Arc<str>>,
    /// The frames that are kept.
    pub frames_needed: FramesNeeded,
    /// Numbers in a privileged (full) state, where the environment's is only its beginning: episodes may have
    /// either, and what a policy on images must not know is left out.
    pub full_state: Option<usize>,
    /// Whether success ends an episode of the environments. Then it ends a recorded one as well, and what that shows
    /// afterwards is left out: critics that saw some episodes end at success and others go on would learn that success is
    /// worth waiting for.
    pub ends_at_success: bool,
    /// Whether the environments reward success with 1 and all else with 0. Episodes may have been recorded with another
    /// reward, such as a dense one, whose sum means something else.
    pub rewards_success_only: bool,
}

impl DemoConverter<'_> {
    /// The episode, of one environment. Actions are kept within the environment's bounds, as it would keep them.
    pub fn segment(&self, episode: &Episode) -> Result<Segment, DemoError> {
        self.check(episode)?;
        let (n, last_end) = self.end(episode);
        let is_seen = |at: usize| match self.frames_needed {
            FramesNeeded::Nothing => false,
            FramesNeeded::Ends => at == n && last_end.is_end(),
            FramesNeeded::Everything => true,
        };
        let parts = |error: ObsError| DemoError::Parts(error.to_string());
        let mut segment = Segment::starting_at(self.obs(episode, 0, is_seen(0)).map_err(parts)?);
        for at in 1..=n {
            let timestep = &episode.timesteps[at];
            let seen = self.obs(episode, at, is_seen(at)).map_err(parts)?;
            let end = if at == n { last_end } else { End::No };
            let last = if end.is_end() { vec![(0, seen.clone())] } else { Vec::new() };
            let step = StepRow {
                actions: within(&self.spec.actions, &episode.actions[at - 1]),
                env_reward: vec![self.env_reward(timestep)],
                end: vec![end],
                success: vec![timestep.success.unwrap_or(false)],
            };
            let pushed = segment.push(step, seen, last);
            pushed.map_err(|error: SegmentError| DemoError::Parts(error.to_string()))?;
        }
        Ok(segment)
    }

    /// How many steps of an episode are taken, and how the last of them ends it.
    fn end(&self, episode: &Episode) -> (usize, End) {
        let solved = |at: &usize| episode.timesteps[*at].success == Some(true);
        match (1..=episode.len()).find(solved).filter(|_| self.ends_at_success) {
            Some(first) => (first, End::Terminated),
            None => (episode.len(), episode.timesteps[episode.len()].end),
        }
    }

    fn env_reward(&self, timestep: &Timestep) -> f32 {
        match timestep.success.filter(|_| self.rewards_success_only) {
            Some(success) => f32::from(u8::from(success)),
            None => timestep.reward,
        }
    }

    fn check(&self, episode: &Episode) -> Result<(), DemoError> {
        let n = episode.len();
        if n == 0 {
            return Err(DemoError::Empty);
        }
        if episode.states.len() != n + 1 || episode.timesteps.len() != n + 1 {
            let (states, timesteps) = (episode.states.len(), episode.timesteps.len());
            return Err(DemoError::Parts(format!("{n} actions, {states} states and {timesteps} timesteps")));
        }
        let width = episode.states[0].len();
        let is_full = self.full_state == Some(width) && width > self.spec.state_width;
        self.check_rows("states", if is_full { width } else { self.spec.state_width }, &episode.states)?;
        self.check_rows("actions", self.spec.actions.width(), &episode.actions)?;
        if self.frames_needed == FramesNeeded::Nothing {
            return Ok(());
        }
        for track in &episode.cameras {
            let own = (self.camera)(&track.name);
            let own_camera = self.spec.cameras.iter().find(|(name, _)| Some(name) == own.as_ref());
            if let Some((camera, expected)) = own_camera.filter(|(_, expected)| *expected != track.shape) {
                return Err(DemoError::Image {
                    camera: camera.clone(),
                    expected: *expected,
                    got: track.shape,
                });
            }
        }
        Ok(())
    }

    fn check_rows(&self, what: &'static str, expected: usize, rows: &[Vec<f32>]) -> Result<(), DemoError> {
        for (step, row) in rows.iter().enumerate() {
            if row.len() != expected {
                return Err(DemoError::Width { what, env: self.spec.id.clone(), expected, got: row.len() });
            }
            if let Some(value) = row.iter().find(|value| !value.is_finite()) {
                return Err(DemoError::NotFinite { what, step, value: value.to_string() });
            }
        }
        Ok(())
    }

    fn obs(&self, episode: &Episode, at: usize, is_seen: bool) -> Result<Obs, ObsError> {
        let mut obs = Obs::from_state(1, episode.states[at][..self.spec.state_width].to_vec())?;
        if let Some(task) = &episode.task {
            obs = obs.with_tasks(vec![task.clone()])?;
        }
        for track in episode.cameras.iter().filter(|_| is_seen) {
            if let Some(name) = (self.camera)(&track.name) {
                obs = obs.with_camera(name, Frames::new(track.shape, track.image(at).to_vec())?)?;
            }
        }
        Ok(obs)
    }
}

/// An action as environments take it: within its bounds.
fn within(space: &ActionSpace, action: &[f32]) -> Vec<f32> {
    match space {
        ActionSpace::Discrete { .. } => action.to_vec(),
        ActionSpace::Continuous { low, high } => action
            .iter()
            .zip(low.iter().zip(high))
            .map(|(value, (low, high))| value.clamp(*low, *high))
            .collect(),
    }
}
