//! Environments in Python as a [`plaudit_core::Env`].

use std::sync::Arc;

use plaudit_core::{ActionSpace, Env, EnvError, EnvSpec, FramesNeeded, Obs, Seed, Step};

use super::error::{BridgeError, During};
use super::layout::MemoryLayout;
use super::reader::Reader;
use super::running::Running;
use super::settings::BridgeSettings;

/// A batch of environments that run in a Python process.
///
/// If the process crashes, hangs or is killed, the call under way returns an error that says how, with what
/// Python printed; everything returned before stays good. [`reset`](Env::reset) then starts a fresh process,
/// and so does [`restart`](Self::restart).
#[derive(Debug)]
pub struct Bridge {
    settings: BridgeSettings,
    spec: EnvSpec,
    layout: MemoryLayout,
    running: Option<Running>,
    /// What a process that is gone printed last.
    last_output: String,
    restarts: u64,
    watch: FramesNeeded,
    /// Where the seeds of episodes come from; none before a reset.
    seed: Option<Seed>,
    /// The number of the episode that each row starts next.
    next_episode: Vec<u64>,
    /// The task in words and the names of facts, as observations and steps carry them.
    instruction: Option<Arc<str>>,
    facts: Vec<Arc<str>>,
}

impl Bridge {
    /// Starts Python and makes the environments.
    ///
    /// All frames are watched at first if observations have cameras, since a policy may need them.
    pub fn start(settings: BridgeSettings) -> Result<Self, BridgeError> {
        settings.check()?;
        let (running, spec, layout) = Running::start(&settings)?;
        let seen = spec.cameras.len() - usize::from(settings.render.is_some());
        Ok(Self {
            running: Some(running),
            last_output: String::new(),
            restarts: 0,
            watch: if seen > 0 { FramesNeeded::Everything } else { FramesNeeded::Nothing },
            seed: None,
            next_episode: vec![0; spec.num_envs],
            instruction: settings.instruction.as_deref().map(Arc::from),
            facts: settings.facts.iter().map(|name| name.as_str().into()).collect(),
            settings,
            spec,
            layout,
        })
    }

    /// Replaces the process by a fresh one. The environments have to be reset after it.
    pub fn restart(&mut self) -> Result<(), BridgeError> {
        self.stop();
        self.restarts += 1;
        let (running, spec, layout) = Running::start(&self.settings)?;
        if spec != self.spec {
            return Err(BridgeError::Changed { id: self.settings.id().into() });
        }
        (self.running, self.layout) = (Some(running), layout);
        Ok(())
    }

    /// Whether there is a process.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// How many times the process was replaced by a fresh one.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The number of the process, for those who watch it from outside.
    pub fn process_id(&self) -> Option<u32> {
        self.running.as_ref().map(Running::process_id)
    }

    /// The end of what the process printed, warnings included.
    pub fn output(&self) -> String {
        self.running.as_ref().map_or_else(|| self.last_output.clone(), Running::output)
    }

    fn stop(&mut self) {
        self.last_output = self.output();
        self.running = None;
        self.seed = None;
    }

    /// Has the process do what lies in shared memory.
    fn order(&mut self, during: During) -> Result<Reader<'_>, BridgeError> {
        let running = self.running.as_mut();
        let running = running.ok_or_else(|| BridgeError::Gone { id: self.settings.id().into() })?;
        running.order(&self.settings, during, self.watch)?;
        let Self { spec, layout, watch, instruction, facts, .. } = self;
        Ok(Reader { memory: &running.memory, spec, layout, watch: *watch, instruction, facts })
    }

    /// Tells the process the seeds of the episodes that `rows` start next.
    fn send_seeds(&mut self, seed: Seed, rows: impl Iterator<Item = usize>) {
        let Some(running) = &mut self.running else { return };
        for row in rows {
            let place = seed.index(self.settings.first_row + row as u64).index(self.next_episode[row]);
            // 31 bits: some environments take a seed as a signed number.
            running.memory.write(self.layout.seeds.row(row), &[place.rng().u32() >> 1]);
        }
    }

    fn try_reset(&mut self, seed: Seed) -> Result<Obs, BridgeError> {
        if self.running.is_none() {
            self.restart()?;
        }
        let rows = 0..self.spec.num_envs;
        self.next_episode.fill(0);
        self.send_seeds(seed, rows.clone());
        let obs = self.order(During::Reset)?.obs()?;
        self.next_episode.fill(1);
        self.send_seeds(seed, rows);
        Ok(obs)
    }

    fn try_step(&mut self, seed: Seed, actions: &[f32]) -> Result<Step, BridgeError> {
        if let Some(running) = &mut self.running {
            running.memory.write(self.layout.actions.all(), &within(&self.spec.actions, actions));
        }
        let step = self.order(During::Step)?.step()?;
        for (row, _) in &step.last {
            self.next_episode[*row] += 1;
        }
        self.send_seeds(seed, step.last.iter().map(|(row, _)| *row));
        Ok(step)
    }

    /// After an error nothing may be stepped before a reset; after a bad one there is no process either.
    fn after<T>(&mut self, result: Result<T, BridgeError>) -> Result<T, EnvError> {
        result.map_err(|error| {
            self.seed = None;
            if !error.is_survivable() {
                self.stop();
            }
            error.into()
        })
    }
}

impl Env for Bridge {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        let seed = seed.purpose("episodes");
        let result = self.try_reset(seed);
        let obs = self.after(result)?;
        self.seed = Some(seed);
        Ok(obs)
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(self.spec.num_envs, actions)?;
        let Some(seed) = self.seed else {
            return Err(match &self.running {
                Some(_) => EnvError::NotReset,
                None => BridgeError::Gone { id: self.settings.id().into() }.into(),
            });
        };
        let result = self.try_step(seed, actions);
        self.after(result)
    }

    fn set_frames_needed(&mut self, frames: FramesNeeded) {
        self.watch = frames;
    }
}

/// `actions` with every value within its bounds, as the environments of plaudit take them.
fn within(space: &ActionSpace, actions: &[f32]) -> Vec<f32> {
    match space {
        ActionSpace::Discrete { .. } => actions.to_vec(),
        ActionSpace::Continuous { low, high } => {
            let bounds = low.iter().zip(high).cycle();
            actions.iter().zip(bounds).map(|(value, (low, high))| value.clamp(*low, *high)).collect()
        }
    }
}
