//! Small environments that can be split: points that are pushed about, from a start that seed, row and episode decide.

use std::time::Duration;

use plaudit_core::{
    ActionHistory, ActionSpace, End, Env, EnvError, EnvSpec, FrameShape, Frames, FramesNeeded, Obs, Seed,
    Step,
};

/// Steps after which an episode is over.
const LIMIT: usize = 25;

/// The rows from `first_row` of a batch of points.
pub(crate) struct Points {
    spec: EnvSpec,
    first_row: u64,
    seed: Seed,
    rows: Vec<Point>,
    /// How long a step takes at least.
    pause: Duration,
    /// Called at each step.
    on_step: Box<dyn Fn() + Send>,
}

#[derive(Clone, Default)]
struct Point {
    episode: u64,
    steps: usize,
    place: f32,
    speed: f32,
}

impl Points {
    pub(crate) fn new(first_row: usize, rows: usize, is_discrete: bool) -> Self {
        let actions = match is_discrete {
            true => ActionSpace::Discrete { n: 2 },
            false => ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] },
        };
        let spec = EnvSpec {
            id: "points".into(),
            num_envs: rows,
            state_width: 2,
            state_parts: vec![],
            actions,
            cameras: vec![("main".into(), FrameShape::rgb(2, 2))],
            max_episode_steps: Some(LIMIT),
            control_hz: 10.0,
        };
        Self {
            spec,
            first_row: first_row as u64,
            seed: Seed::new(0),
            rows: vec![Point::default(); rows],
            pause: Duration::ZERO,
            on_step: Box::new(|| {}),
        }
    }

    pub(crate) fn with(self, pause: Duration, on_step: Box<dyn Fn() + Send>) -> Self {
        Self { pause, on_step, ..self }
    }

    fn begin(&mut self, row: usize) {
        let mut rng = self.seed.index(self.first_row + row as u64).index(self.rows[row].episode).rng();
        let point = &mut self.rows[row];
        (point.place, point.speed) = (rng.uniform(-0.8, 0.8) as f32, rng.uniform(-0.1, 0.1) as f32);
        point.steps = 0;
    }

    /// Pushes a point; says how its episode ended, if it did.
    fn push(&mut self, row: usize, action: f32) -> End {
        let push = match self.spec.actions {
            ActionSpace::Discrete { .. } => action * 2.0 - 1.0,
            ActionSpace::Continuous { .. } => action.clamp(-1.0, 1.0),
        };
        let point = &mut self.rows[row];
        point.speed = 0.9 * point.speed + 0.05 * push;
        point.place += point.speed;
        point.steps += 1;
        match (point.place.abs() > 1.0, point.steps >= LIMIT) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        }
    }

    fn obs_of(&self, rows: &[Point]) -> Obs {
        let state = rows.iter().flat_map(|point| [point.place, point.speed]).collect();
        let pixels = rows.iter().flat_map(|point| [((point.place + 2.0) * 60.0) as u8; 12]).collect();
        let frames = Frames::new(FrameShape::rgb(2, 2), pixels).unwrap();
        Obs::from_state(rows.len(), state).unwrap().with_camera("main", frames).unwrap()
    }
}

impl Env for Points {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        self.seed = seed;
        for row in 0..self.rows.len() {
            self.rows[row].episode = 0;
            self.begin(row);
        }
        Ok(self.obs_of(&self.rows))
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(self.rows.len(), actions)?;
        (self.on_step)();
        std::thread::sleep(self.pause);
        let (mut end, mut last, mut reward, mut success) = (vec![], vec![], vec![], vec![]);
        for (row, action) in actions.iter().enumerate() {
            end.push(self.push(row, *action));
            reward.push(1.0 - self.rows[row].place.abs());
            success.push(self.rows[row].place.abs() < 0.1);
            if end[row].is_end() {
                last.push((row, self.obs_of(&self.rows[row..=row])));
                self.rows[row].episode += 1;
                self.begin(row);
            }
        }
        let obs = self.obs_of(&self.rows);
        let facts = vec![("place".into(), self.rows.iter().map(|point| 2.0 * point.place).collect())];
        Ok(Step { obs, reward, end, success, last, facts, interventions: vec![] })
    }

    fn set_frames_needed(&mut self, _: FramesNeeded) {}

    fn fast_forward(&mut self, seed: Seed, past: &[ActionHistory]) -> Result<Option<Obs>, EnvError> {
        self.seed = seed;
        for (row, past) in past.iter().enumerate() {
            self.rows[row].episode = past.episode;
            self.begin(row);
            past.actions.iter().for_each(|action| {
                self.push(row, *action);
            });
        }
        Ok(Some(self.obs_of(&self.rows)))
    }
}
