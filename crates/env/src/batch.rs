//! The engine under every environment of this crate: rows that step, end, and start again.
//!
//! A [`Task`] is one environment without clock and seed. A [`Row`] adds both; a [`Batch`] is many rows
//! behind [`plaudit_core::Env`]. Rows share nothing, so they may run on any thread in any order.

use std::sync::Arc;

use plaudit_core::{End, Env, EnvError, EnvSpec, Facts, Frames, Obs, ObsError, Rng, Seed, Step, Watch};
use rayon::prelude::*;

/// Most named truths a task may tell.
pub(crate) const MAX_FACTS: usize = 4;

/// One environment, without clock and seed.
pub(crate) trait Task: Send + Sync {
    /// How many rows are worth a thread of their own. Splitting cheaper work costs more than it saves.
    const ROWS_PER_THREAD: usize;
    /// Names of the truths in [`Moment::facts`], at most [`MAX_FACTS`].
    const FACTS: &[&str] = &[];
    /// The task in words.
    const INSTRUCTION: Option<&str> = None;

    /// Starts an episode. Everything random comes from `rng`.
    fn reset(&mut self, rng: &mut Rng);

    /// One control step; `last` says that the clock runs out with it.
    fn step(&mut self, action: &[f32], last: bool) -> Moment;

    /// Writes the state vector.
    fn observe(&self, state: &mut [f32]);

    /// Draws what camera number `camera` sees, in HWC bytes. Tasks without cameras are never asked.
    fn draw(&self, _camera: usize, _frame: &mut [u8]) {}
}

/// What one step of one row did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moment {
    pub(crate) reward: f64,
    pub(crate) terminated: bool,
    pub(crate) success: bool,
    pub(crate) facts: [f32; MAX_FACTS],
}

/// A task with its clock and its place in the tree of seeds.
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
    pub(crate) fn step(&mut self, action: &[f32], limit: usize, ignore_terminations: bool) -> (Moment, End) {
        self.steps += 1;
        let moment = self.task.step(action, self.steps >= limit);
        let end = match (moment.terminated && !ignore_terminations, self.steps >= limit) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        };
        (moment, end)
    }
}

/// Many rows of one task.
pub(crate) struct Batch<T> {
    spec: EnvSpec,
    rows: Vec<Row<T>>,
    first_row: u64,
    limit: usize,
    ignore_terminations: bool,
    watch: Watch,
    started: bool,
}

/// What a row gives back to the batch after a step.
struct Outcome {
    moment: Moment,
    end: End,
    /// Boxed, since most steps end nothing.
    last: Option<Box<Obs>>,
}

impl<T: Task> Batch<T> {
    /// Rows of `task`, numbered from `first_row`. `limit` steps make an episode.
    pub(crate) fn new(
        spec: EnvSpec,
        first_row: u64,
        limit: usize,
        ignore_terminations: bool,
        mut task: impl FnMut() -> T,
    ) -> Self {
        let rows = (0..spec.num_envs).map(|_| Row::at(task())).collect();
        Self { spec, rows, first_row, limit, ignore_terminations, watch: Watch::Nothing, started: false }
    }

    fn advance(&mut self, actions: &[f32]) -> Result<Vec<Outcome>, ObsError> {
        let (spec, limit, ignore, watch) = (&self.spec, self.limit, self.ignore_terminations, self.watch);
        let one = |(row, action): (&mut Row<T>, &[f32])| {
            let (moment, end) = row.step(action, limit, ignore);
            let mut last = None;
            if end.is_end() {
                last = Some(Box::new(look(spec, std::slice::from_ref(row), watch != Watch::Nothing)?));
                row.episode += 1;
                row.begin_episode();
            }
            Ok(Outcome { moment, end, last })
        };
        let width = spec.actions.width();
        if self.rows.len() <= T::ROWS_PER_THREAD {
            return self.rows.iter_mut().zip(actions.chunks_exact(width)).map(one).collect();
        }
        let rows = self.rows.par_iter_mut().zip(actions.par_chunks_exact(width));
        rows.with_min_len(T::ROWS_PER_THREAD).map(one).collect()
    }
}

impl<T: Task> Env for Batch<T> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        let (seed, first) = (seed.purpose("episodes"), self.first_row);
        let start = |(at, row): (usize, &mut Row<T>)| row.start(seed.index(first + at as u64));
        if self.rows.len() <= T::ROWS_PER_THREAD {
            self.rows.iter_mut().enumerate().for_each(start);
        } else {
            self.rows.par_iter_mut().enumerate().with_min_len(T::ROWS_PER_THREAD).for_each(start);
        }
        self.started = true;
        look(&self.spec, &self.rows, self.watch == Watch::Everything).map_err(broken)
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(self.rows.len(), actions)?;
        if !self.started {
            return Err(EnvError::NotReset);
        }
        let mut outcomes = self.advance(actions).map_err(broken)?;
        let obs = look(&self.spec, &self.rows, self.watch == Watch::Everything).map_err(broken)?;
        let last =
            outcomes.iter_mut().enumerate().filter_map(|(at, o)| Some((at, *o.last.take()?))).collect();
        Ok(Step {
            obs,
            reward: outcomes.iter().map(|o| o.moment.reward as f32).collect(),
            end: outcomes.iter().map(|o| o.end).collect(),
            success: outcomes.iter().map(|o| o.moment.success).collect(),
            last,
            facts: facts::<T>(&outcomes),
        })
    }

    fn watch(&mut self, watch: Watch) {
        self.watch = watch;
    }
}

fn facts<T: Task>(outcomes: &[Outcome]) -> Facts {
    let column = |at: usize| outcomes.iter().map(|o| o.moment.facts[at]).collect();
    T::FACTS.iter().enumerate().map(|(at, name)| ((*name).into(), column(at))).collect()
}

/// What `rows` show now, with pictures if `pictures`.
fn look<T: Task>(spec: &EnvSpec, rows: &[Row<T>], pictures: bool) -> Result<Obs, ObsError> {
    let mut state = vec![0.0; rows.len() * spec.state_width];
    for (row, values) in rows.iter().zip(state.chunks_exact_mut(spec.state_width)) {
        row.task.observe(values);
    }
    let mut obs = Obs::from_state(rows.len(), state)?;
    if let Some(words) = T::INSTRUCTION {
        let words: Arc<str> = words.into();
        obs = obs.with_tasks(vec![words; rows.len()])?;
    }
    let cameras = if pictures { spec.cameras.as_slice() } else { &[] };
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

fn broken(error: ObsError) -> EnvError {
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

        fn step(&mut self, action: &[f32], last: bool) -> Moment {
            self.0 += f64::from(action[0]);
            let facts = [self.0 as f32, 0.0, 0.0, 0.0];
            Moment { reward: self.0, terminated: self.0 >= 10.0, success: last, facts }
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
            actions: ActionSpace::Continuous { low: vec![0.0], high: vec![9.0] },
            cameras: vec![("eye".into(), FrameShape::rgb(1, 1))],
            max_episode_steps: Some(4),
            control_hz: 1.0,
        };
        Batch::new(spec, 0, 4, ignore_terminations, || Counter(0.0))
    }

    #[test]
    fn an_ended_row_shows_its_next_episode_and_hands_over_its_last_moment() {
        let mut env = counters(3, false);
        assert!(matches!(env.step(&[0.0; 3]), Err(EnvError::NotReset)));
        let first = env.reset(Seed::new(1)).unwrap();
        assert_eq!(first.tasks.len(), 3);
        let step = env.step(&[0.0, 20.0, 1.0]).unwrap();
        assert_eq!(step.end, [End::No, End::Terminated, End::No]);
        assert_eq!(step.last.len(), 1);
        let (row, last) = &step.last[0];
        assert_eq!((*row, last.state[0]), (1, first.state[1] + 20.0));
        assert!(step.obs.state[1] < 1.0 && step.obs.state[1] != first.state[1], "a new episode, a new draw");
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
    fn only_watched_frames_are_drawn() {
        let drawn = |watch| {
            let mut env = counters(2, false);
            env.watch(watch);
            let at_reset = env.reset(Seed::new(1)).unwrap().cameras.len();
            let step = env.step(&[20.0, 1.0]).unwrap();
            (at_reset, step.obs.cameras.len(), step.last[0].1.cameras.len())
        };
        assert_eq!(drawn(Watch::Nothing), (0, 0, 0));
        assert_eq!(drawn(Watch::Ends), (0, 0, 1));
        assert_eq!(drawn(Watch::Everything), (1, 1, 1));
    }
}
