//! The engine under every environment of this crate: rows that step, end, and start again.
//!
//! A [`Task`] is one environment without clock and seed. A [`Row`] adds both; a [`Batch`] is many rows
//! behind [`plaudit_core::Env`]. Rows share nothing, so they may run on any thread in any order.

use std::sync::Arc;

use plaudit_core::{
    ActionHistory, End, Env, EnvError, EnvSpec, Facts, Frames, FramesNeeded, Obs, ObsError, Rng, Seed, Step,
    WRENCH_FACTS,
};
use rayon::prelude::*;
use thiserror::Error;

use crate::panda::Wrench;

/// The largest number of facts a task may report.
pub(crate) const MAX_FACTS: usize = 5;

/// One environment, without clock and seed.
pub(crate) trait Task: Send + Sync {
    /// How many rows are worth a thread of their own. Splitting cheaper work costs more than it saves.
    const ROWS_PER_THREAD: usize;
    /// Names of the facts in [`StepResult::facts`], at most [`MAX_FACTS`].
    const FACTS: &[&str] = &[];
    /// The task in words.
    const INSTRUCTION: Option<&str> = None;

    /// Starts an episode. Everything random comes from `rng`.
    fn reset(&mut self, rng: &mut Rng);

    /// One control step; `last` says that the clock runs out with it.
    fn step(&mut self, action: &[f32], last: bool) -> StepResult;

    /// Says whether [`wrench`](Self::wrench) will be asked for.
    fn set_wrench_needed(&mut self, _needed: bool) {}

    /// What touched the robot during the last step did to it. Nothing from tasks without a robot, or if it is not needed.
    fn wrench(&self) -> Option<Wrench> {
        None
    }

    /// Writes the state vector.
    fn observe(&self, state: &mut [f32]);

    /// Renders what camera number `camera` sees, in HWC bytes. Tasks without cameras are never asked.
    fn draw(&self, _camera: usize, _frame: &mut [u8]) {}
}

/// What one step of one row did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StepResult {
    pub(crate) reward: f64,
    pub(crate) terminated: bool,
    pub(crate) success: bool,
    pub(crate) facts: [f32; MAX_FACTS],
}

/// Facts as a fixed-size array.
pub(crate) fn facts<const N: usize>(values: [f64; N]) -> [f32; MAX_FACTS] {
    std::array::from_fn(|at| values.get(at).map_or(0.0, |value| *value as f32))
}

/// A task with its step counter and its place in the tree of seeds.
pub(crate) struct Row<T> {
    pub(crate) task: T,
    seed: Seed,
    episode: u64,
    steps: usize,
}

impl<T: Task> Row<T> {
    /// At the beginning of an episode that `task` is already in.
    pub(crate) fn at(task: T) -> Self {
        Self { task, seed: Seed::new(0), episode: 0, steps: 0 } // `start` gives the seed
    }

    fn start(&mut self, seed: Seed) {
        (self.seed, self.episode) = (seed, 0);
        self.begin_episode();
    }

    fn begin_episode(&mut self) {
        self.steps = 0;
        self.task.reset(&mut self.seed.index(self.episode).rng());
    }

    /// One step of an episode that `limit` steps end.
    pub(crate) fn step(
        &mut self,
        action: &[f32],
        limit: usize,
        ignore_terminations: bool,
    ) -> (StepResult, End) {
        self.steps += 1;
        let result = self.task.step(action, self.steps >= limit);
        let end = match (result.terminated && !ignore_terminations, self.steps >= limit) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        };
        (result, end)
    }

    fn diverged(&self, row: usize) -> EnvError {
        EnvError::Backend(Box::new(Diverged { row, episode: self.episode, step: self.steps }))
    }
}

/// How the rows of a batch are numbered, and when their episodes end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchOptions {
    /// The number of the first row.
    pub(crate) first_row: u64,
    /// Rows that start from the same state, at least 1.
    pub(crate) group_size: u64,
    /// Steps that make an episode.
    pub(crate) limit: usize,
    pub(crate) ignore_terminations: bool,
}

/// A row whose numbers are no longer finite: its physics blew up.
///
/// [`Env::step`] gives it as [`EnvError::Backend`]. The batch cannot be used until the next
/// [`Env::reset`], which builds every row anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("environment {row} diverged at step {step} of its episode {episode}; reset to continue")]
pub struct Diverged {
    /// The row of the batch.
    pub row: usize,
    /// Episodes the row had finished before.
    pub episode: u64,
    /// The step, counted from 1.
    pub step: usize,
}

/// Many rows of one task.
pub(crate) struct Batch<T> {
    spec: EnvSpec,
    rows: Vec<Row<T>>,
    options: BatchOptions,
    watch: FramesNeeded,
    started: bool,
}

/// What a row gives back to the batch after a step.
struct Outcome {
    result: StepResult,
    end: End,
    wrench: Option<Wrench>,
    /// Boxed, since most steps end nothing.
    last: Option<Box<Obs>>,
}

impl<T: Task> Batch<T> {
    /// Rows of what `task` makes.
    pub(crate) fn new(spec: EnvSpec, options: BatchOptions, mut task: impl FnMut() -> T) -> Self {
        let rows = (0..spec.num_envs).map(|_| Row::at(task())).collect();
        Self { spec, rows, options, watch: FramesNeeded::Nothing, started: false }
    }

    /// One step of every row. An error leaves rows behind that only a reset brings together again.
    fn advance(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        let mut outcomes = self.outcomes(actions)?;
        let obs = observe_rows(&self.spec, &self.rows, self.watch == FramesNeeded::Everything)
            .map_err(backend_error)?;
        if let Some(at) = obs.state.iter().position(|value| !value.is_finite()) {
            let row = at / self.spec.state_width;
            return Err(self.rows[row].diverged(row));
        }
        let last =
            outcomes.iter_mut().enumerate().filter_map(|(at, o)| Some((at, *o.last.take()?))).collect();
        Ok(Step {
            obs,
            reward: outcomes.iter().map(|o| o.result.reward as f32).collect(),
            end: outcomes.iter().map(|o| o.end).collect(),
            success: outcomes.iter().map(|o| o.result.success).collect(),
            last,
            facts: fact_columns::<T>(&outcomes),
            interventions: Vec::new(),
        })
    }

    /// Starts every row anew, and does something with each.
    fn start_rows(&mut self, seed: Seed, then: impl Fn(usize, &mut Row<T>) + Sync) -> Result<Obs, EnvError> {
        let (seed, options) = (seed.purpose("episodes"), self.options);
        let start = |(at, row): (usize, &mut Row<T>)| {
            row.start(seed.index((options.first_row + at as u64) / options.group_size));
            then(at, row);
        };
        if self.rows.len() <= T::ROWS_PER_THREAD {
            self.rows.iter_mut().enumerate().for_each(start);
        } else {
            self.rows.par_iter_mut().enumerate().with_min_len(T::ROWS_PER_THREAD).for_each(start);
        }
        self.started = true;
        observe_rows(&self.spec, &self.rows, self.watch == FramesNeeded::Everything).map_err(backend_error)
    }

    fn outcomes(&mut self, actions: &[f32]) -> Result<Vec<Outcome>, EnvError> {
        let (spec, options, watch) = (&self.spec, self.options, self.watch);
        let one = |(at, (row, action)): (usize, (&mut Row<T>, &[f32]))| {
            let (result, end) = row.step(action, options.limit, options.ignore_terminations);
            let (wrench, mut last) = (row.task.wrench(), None);
            if end.is_end() {
                let obs = observe_rows(spec, std::slice::from_ref(row), watch != FramesNeeded::Nothing)
                    .map_err(backend_error)?;
                if !obs.state.iter().all(|value| value.is_finite()) {
                    return Err(row.diverged(at));
                }
                last = Some(Box::new(obs));
                row.episode += 1;
                row.begin_episode();
            }
            Ok(Outcome { result, end, wrench, last })
        };
        let width = spec.actions.width();
        if self.rows.len() <= T::ROWS_PER_THREAD {
            return self.rows.iter_mut().zip(actions.chunks_exact(width)).enumerate().map(one).collect();
        }
        let rows = self.rows.par_iter_mut().zip(actions.par_chunks_exact(width));
        rows.enumerate().with_min_len(T::ROWS_PER_THREAD).map(one).collect()
    }
}

impl<T: Task> Env for Batch<T> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        self.start_rows(seed, |_, _| ())
    }

    fn fast_forward(&mut self, seed: Seed, past: &[ActionHistory]) -> Result<Option<Obs>, EnvError> {
        if past.len() != self.rows.len() {
            let problem =
                format!("cannot restore {} rows from the history of {}", self.rows.len(), past.len());
            return Err(EnvError::Setting(problem.into()));
        }
        let (options, width) = (self.options, self.spec.actions.width());
        let replay = |at: usize, row: &mut Row<T>| {
            row.episode = past[at].episode;
            row.begin_episode();
            for action in past[at].actions.chunks_exact(width) {
                row.step(action, options.limit, options.ignore_terminations);
            }
        };
        self.start_rows(seed, replay).map(Some)
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(self.rows.len(), actions)?;
        if !self.started {
            return Err(EnvError::NotReset);
        }
        let step = self.advance(actions);
        self.started = step.is_ok();
        step
    }

    fn set_frames_needed(&mut self, frames: FramesNeeded) {
        self.watch = frames;
    }

    fn set_wrench_needed(&mut self, needed: bool) {
        self.rows.iter_mut().for_each(|row| row.task.set_wrench_needed(needed));
    }
}

fn fact_columns<T: Task>(outcomes: &[Outcome]) -> Facts {
    let column = |at: usize| outcomes.iter().map(|o| o.result.facts[at]).collect();
    let mut facts: Facts =
        T::FACTS.iter().enumerate().map(|(at, name)| ((*name).into(), column(at))).collect();
    let wrenches: Option<Vec<[f64; 6]>> = outcomes.iter().map(|o| o.wrench.map(Wrench::numbers)).collect();
    if let Some(wrenches) = wrenches {
        let column = |at: usize| wrenches.iter().map(|wrench| wrench[at] as f32).collect();
        facts.extend(WRENCH_FACTS.iter().enumerate().map(|(at, name)| ((*name).into(), column(at))));
    }
    facts
}

/// The observations of `rows` now, with images if `images`.
fn observe_rows<T: Task>(spec: &EnvSpec, rows: &[Row<T>], images: bool) -> Result<Obs, ObsError> {
    let mut state = vec![0.0; rows.len() * spec.state_width];
    for (row, values) in rows.iter().zip(state.chunks_exact_mut(spec.state_width)) {
        row.task.observe(values);
    }
    let mut obs = Obs::from_state(rows.len(), state)?;
    if let Some(words) = T::INSTRUCTION {
        let words: Arc<str> = words.into();
        obs = obs.with_tasks(vec![words; rows.len()])?;
    }
    let cameras = if images { spec.cameras.as_slice() } else { &[] };
    for (camera, (name, shape)) in cameras.iter().enumerate() {
        let mut pixels = vec![0; rows.len() * shape.bytes()];
        let draw = |(row, frame): (&Row<T>, &mut [u8])| row.task.draw(camera, frame);
        match rows {
            [row] => draw((row, &mut pixels)),
            _ => rows.par_iter().zip(pixels.par_chunks_exact_mut(shape.bytes())).for_each(draw),
        }
        obs = obs.with_camera(name.clone(), Frames::new(*shape, pixels)?)?;
    }
    Ok(obs)
}

fn backend_error(error: ObsError) -> EnvError {
    EnvError::Backend(Box::new(error))
}

#[cfg(test)]
mod tests {
    use plaudit_core::{ActionSpace, FrameShape};

    use super::*;

    /// Counts up by its action from a random start; terminates at 10, shows itself in one pixel.
    struct Counter(f64);

    impl Task for Counter {
        const ROWS_PER_THREAD: usize = 2;
        const FACTS: &[&str] = &["count"];
        const INSTRUCTION: Option<&str> = Some("count to ten");

        fn reset(&mut self, rng: &mut Rng) {
            self.0 = rng.uniform(0.0, 1.0);
        }

        fn step(&mut self, action: &[f32], last: bool) -> StepResult {
            self.0 += f64::from(action[0]);
            StepResult { reward: self.0, terminated: self.0 >= 10.0, success: last, facts: facts([self.0]) }
        }

        fn observe(&self, state: &mut [f32]) {
            state[0] = self.0 as f32;
        }

        fn draw(&self, _: usize, frame: &mut [u8]) {
            frame.fill(self.0 as u8);
        }
    }

    fn counters(num_envs: usize, ignore_terminations: bool) -> Batch<Counter> {
        let spec = EnvSpec {
            id: "Counter".into(),
            num_envs,
            state_width: 1,
            state_parts: vec![],
            actions: ActionSpace::Continuous { low: vec![0.0], high: vec![9.0] },
            cameras: vec![("eye".into(), FrameShape::rgb(1, 1))],
            max_episode_steps: Some(4),
            control_hz: 1.0,
        };
        let options = BatchOptions { first_row: 0, group_size: 1, limit: 4, ignore_terminations };
        Batch::new(spec, options, || Counter(0.0))
    }

    #[test]
    fn an_ended_row_shows_its_next_episode_and_hands_over_its_last_observation() {
        let mut env = counters(3, false);
        assert!(matches!(env.step(&[0.0; 3]), Err(EnvError::NotReset)));
        let first = env.reset(Seed::new(1)).unwrap();
        assert_eq!(first.tasks.len(), 3);
        let step = env.step(&[0.0, 20.0, 1.0]).unwrap();
        assert_eq!(step.end, [End::No, End::Terminated, End::No]);
        assert_eq!(step.last.len(), 1);
        let (row, last) = &step.last[0];
        assert_eq!((*row, last.state[0]), (1, first.state[1] + 20.0));
        assert!(
            step.obs.state[1] < 1.0 && step.obs.state[1] != first.state[1],
            "a new episode, a new sample"
        );
        assert_eq!(&*step.facts[0].0, "count");
        assert_eq!(step.facts[0].1[1], last.state[0]);
        let ends: Vec<_> = (0..3).map(|_| env.step(&[0.0; 3]).unwrap().end).collect();
        assert_eq!(ends[2], [End::Truncated, End::No, End::Truncated], "each row has its own clock");
    }

    #[test]
    fn refused_actions_move_nothing() {
        let mut env = counters(2, false);
        let before = env.reset(Seed::new(1)).unwrap();
        assert!(env.step(&[1.0, f32::NAN]).is_err());
        assert!(env.step(&[1.0]).is_err());
        assert_eq!(env.step(&[0.0, 0.0]).unwrap().obs, before);
    }

    #[test]
    fn ignored_terminations_run_to_the_clock() {
        let mut env = counters(1, true);
        env.reset(Seed::new(1)).unwrap();
        let ends: Vec<_> = (0..4).map(|_| env.step(&[9.0]).unwrap().end[0]).collect();
        assert_eq!(ends, [End::No, End::No, End::No, End::Truncated]);
    }

    #[test]
    fn only_watched_frames_are_rendered() {
        let rendered = |watch| {
            let mut env = counters(2, false);
            env.set_frames_needed(watch);
            let at_reset = env.reset(Seed::new(1)).unwrap().cameras.len();
            let step = env.step(&[20.0, 1.0]).unwrap();
            (at_reset, step.obs.cameras.len(), step.last[0].1.cameras.len())
        };
        assert_eq!(rendered(FramesNeeded::Nothing), (0, 0, 0));
        assert_eq!(rendered(FramesNeeded::Ends), (0, 0, 1));
        assert_eq!(rendered(FramesNeeded::Everything), (1, 1, 1));
    }
    #[test]
    fn rows_of_a_group_start_alike_and_go_their_own_ways() {
        let mut env = counters(6, false);
        (env.options.first_row, env.options.group_size) = (1, 3);
        let starts = env.reset(Seed::new(1)).unwrap().state;
        // Rows 1 to 6 of the whole: groups are 0 to 2, 3 to 5, 6 to 8.
        let same: Vec<_> = starts.windows(2).map(|pair| pair[0] == pair[1]).collect();
        assert_eq!(same, [true, false, true, true, false]);
        env.step(&[20.0, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        let second: Vec<_> = (0..3).map(|_| env.step(&[0.0, 20.0, 0.0, 0.0, 0.0, 0.0]).unwrap()).collect();
        assert_eq!(second[0].obs.state[0], second[0].obs.state[1], "the second episodes are alike too");
        assert_ne!(second[0].obs.state[0], starts[0]);
    }

    #[test]
    fn a_row_that_diverges_is_named_and_a_reset_brings_it_back() {
        for (steps_before, ends) in [(1, false), (3, true)] {
            let mut env = counters(3, false);
            let first = env.reset(Seed::new(1)).unwrap();
            for _ in 0..steps_before {
                env.step(&[0.0; 3]).unwrap();
            }
            env.rows[1].task.0 = f64::NAN;
            let error = env.step(&[0.0; 3]).unwrap_err();
            let EnvError::Backend(cause) = &error else { panic!("{error}") };
            let expected = Diverged { row: 1, episode: 0, step: steps_before + 1 };
            assert_eq!(cause.downcast_ref::<Diverged>(), Some(&expected), "at the end of an episode: {ends}");
            assert!(matches!(env.step(&[0.0; 3]), Err(EnvError::NotReset)));
            assert_eq!(env.reset(Seed::new(1)).unwrap(), first);
            assert!(env.step(&[0.0; 3]).is_ok());
        }
        let message = Diverged { row: 1, episode: 0, step: 2 }.to_string();
        assert_eq!(message, "environment 1 diverged at step 2 of its episode 0; reset to continue");
    }
}
