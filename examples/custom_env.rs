//! An environment and a reward of your own, under PPO.
//!
//! A point on a line is pushed left and right, and should come to rest at a goal. The environment says only whether it
//! is there; the reward is the custom part: less distance is better, and so is less force.

#![allow(clippy::print_stdout)] // an example shows what it found

use std::error::Error;

use plaudit::rl::{ActorCriticSettings, Ppo, PpoSettings, Training, TrainingError, TrainingPlan};
use plaudit::{
    ActionSpace, End, Env, EnvError, EnvSpec, FramesNeeded, Obs, Reward, RewardColumn, RewardError, Seed,
    Segment, Step, Term,
};

const ENVS: usize = 16;
const EPISODE: usize = 30;
const UPDATES: usize = 30;

/// Points on a line, stepped together.
struct Points {
    spec: EnvSpec,
    seed: Seed,
    rows: Vec<Point>,
}

#[derive(Clone, Default)]
struct Point {
    position: f32,
    goal: f32,
    steps: usize,
    episode: u64,
}

impl Points {
    fn new() -> Self {
        let spec = EnvSpec {
            id: "Points".into(),
            num_envs: ENVS,
            state_width: 2,
            state_parts: Vec::new(),
            actions: ActionSpace::Continuous { low: vec![-1.0], high: vec![1.0] },
            cameras: Vec::new(),
            max_episode_steps: Some(EPISODE),
            control_hz: 10.0,
        };
        Self { spec, seed: Seed::new(0), rows: vec![Point::default(); ENVS] }
    }

    /// A row's next episode, which depends on the seed, the row and the number of the episode alone.
    fn begin(&mut self, row: usize) {
        let episode = self.rows[row].episode;
        let mut rng = self.seed.purpose("reset").index(row as u64).index(episode).rng();
        let [position, goal] = [(); 2].map(|()| 2.0 * rng.unit() as f32 - 1.0);
        self.rows[row] = Point { position, goal, steps: 0, episode };
    }

    fn obs_of(rows: &[Point]) -> Result<Obs, EnvError> {
        let state = rows.iter().flat_map(|row| [row.position, row.goal]).collect();
        Obs::from_state(rows.len(), state).map_err(|error| EnvError::Backend(Box::new(error)))
    }
}

impl Env for Points {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError> {
        self.seed = seed;
        self.rows.fill(Point::default());
        (0..ENVS).for_each(|row| self.begin(row));
        Self::obs_of(&self.rows)
    }

    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError> {
        self.spec.actions.check(ENVS, actions)?;
        let (mut end, mut success, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for (row, action) in actions.iter().enumerate() {
            let point = &mut self.rows[row];
            point.position += 0.2 * action.clamp(-1.0, 1.0);
            point.steps += 1;
            success.push((point.position - point.goal).abs() < 0.1);
            end.push(if point.steps == EPISODE { End::Truncated } else { End::No });
            if point.steps == EPISODE {
                // What really happened at the end, before the row resets itself.
                last.push((row, Self::obs_of(&self.rows[row..=row])?));
                self.rows[row].episode += 1;
                self.begin(row);
            }
        }
        let obs = Self::obs_of(&self.rows)?;
        Ok(Step {
            obs,
            reward: vec![0.0; ENVS],
            end,
            success,
            last,
            facts: Vec::new(),
            interventions: Vec::new(),
        })
    }

    fn set_frames_needed(&mut self, _: FramesNeeded) {}
}

/// A reward of two named terms; each is a curve of its own in a log.
struct NearAndGentle;

impl Reward for NearAndGentle {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let (mut near, mut force) = (Vec::new(), Vec::new());
        for t in 0..segment.steps() {
            for b in 0..segment.batch() {
                let state = segment.outcome(t, b).state; // what the action led to, also at the end of an episode
                near.push(-(state[0] - state[1]).abs());
                force.push(segment.actions[t][b].abs());
            }
        }
        let terms = vec![
            Term { name: "near".into(), weight: 1.0, values: near },
            Term { name: "force".into(), weight: -0.05, values: force },
        ];
        RewardColumn::of_terms(terms, 0)?.finite(segment.batch())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut env = Points::new();
    let networks = ActorCriticSettings::on_states(env.spec(), &[32, 32]);
    let mut ppo = Ppo::new(&networks, PpoSettings::default(), Seed::new(1))?;
    let plan = TrainingPlan { steps: EPISODE, rollouts: 1 };
    let (mut training, _) = Training::start(&mut env, &NearAndGentle, plan, Seed::new(2), None)?;
    for update in 1..=UPDATES {
        let metrics = training.step(&mut ppo, |_| Ok::<_, TrainingError>(()))?;
        if update == 1 || update % 10 == 0 {
            let at = |name: &str| metrics.get(name).unwrap_or(f64::NAN);
            println!(
                "update {update:>2}: {:>3.0} % of episodes end at the goal, distance {:.3}, force {:.3}",
                100.0 * at("env/success_at_end"),
                -at("reward/near"),
                at("reward/force")
            );
        }
    }
    Ok(())
}
