//! What policies of a few kinds would earn under a config: its own reward rules, run on made-up scores.
//!
//! The rules are those of training, built from the config by the same code; only the models are replaced, by scores that
//! each kind of policy would get ([`tracks`]). Nothing is opened but the checkpoint's card, for its threshold.

mod tracks;

use std::path::Path;

use plaudit_core::{End, Obs, RewardColumn, Segment, StepRow};
use plaudit_env::EnvId;
use plaudit_reward::SuccessThreshold;
use plaudit_reward::custom::{CustomCard, CustomLocation};
use plaudit_reward::open::ClassifierCheckpoint;
use serde::Serialize;

pub(crate) use self::tracks::Behaviour;
use self::tracks::{TrackFrame, TrackSettings};
use crate::build::{StandIns, simulated_reward, simulated_spec};
use crate::config::blocks::reward::{HistoryBuffer, RewardTerm, RewardType, TermSource, WorkerType};
use crate::config::{LoadedConfig, Purpose};

/// Steps of an episode whose length nobody says.
const USUAL_STEPS: u64 = 50;
/// Longer episodes are simulated up to here: what they show is there by then.
const MAX_STEPS: u64 = 2000;

/// What each kind of policy would earn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Earnings {
    /// Steps of an episode.
    pub steps: usize,
    /// The discount.
    pub gamma: f64,
    /// The score above which the model's term sees success; 0: no filter.
    pub threshold: f64,
    /// Whether success ends an episode.
    pub ends_at_success: bool,
    /// One row for each kind.
    pub policies: Vec<Earned>,
}

/// What one kind of policy would earn in an episode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Earned {
    /// What it does.
    #[serde(serialize_with = "behaviour_word")]
    pub(crate) policy: Behaviour,
    /// Steps until its episode ends.
    pub steps: usize,
    /// The sum of its rewards.
    pub reward: f64,
    /// The sum of its rewards, discounted to the first step.
    pub discounted: f64,
    /// The part of `reward` that models and conditions give, not the environment.
    pub learned: f64,
    /// The lowest and the highest discounted return from any of its steps.
    #[serde(skip)]
    pub(crate) return_range: [f64; 2],
}

fn behaviour_word<S: serde::Serializer>(behaviour: &Behaviour, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(behaviour.word())
}

impl Earnings {
    /// Simulates the reward of a config; `None` where no model rewards a policy.
    pub(super) fn simulate(loaded: &LoadedConfig) -> Option<Self> {
        if loaded.purpose != Purpose::Rl || !loaded.config.reward.use_reward_model {
            return None;
        }
        let own = |term: &RewardTerm| own_threshold(loaded, term);
        let settings = track_settings(loaded, own(&loaded.config.reward.main_term()));
        let spec = simulated_spec(settings.steps);
        let reward = simulated_reward(loaded, &spec, StandIns { own_threshold: &own }).ok()?;
        let gamma = loaded.config.algorithm.gamma;
        let mut policies = Vec::new();
        for behaviour in kinds(loaded) {
            let segment = episode(loaded, settings, behaviour)?;
            let column = reward.label(&segment).ok()?;
            policies.push(Earned::of(behaviour, &column, gamma));
        }
        let ends_at_success = !loaded.config.env.train.ignore_terminations;
        let threshold = f64::from(settings.threshold);
        Some(Self { steps: settings.steps, gamma, threshold, ends_at_success, policies })
    }

    /// The row of a kind of policy, if it was simulated.
    pub(crate) fn of(&self, behaviour: Behaviour) -> Option<&Earned> {
        self.policies.iter().find(|earned| earned.policy == behaviour)
    }

    /// The most that a policy which solves the task earns, by one of the sums.
    pub(crate) fn best_success(&self, sum: impl Fn(&Earned) -> f64) -> f64 {
        let successes = self.policies.iter().filter(|earned| earned.policy.succeeds());
        successes.map(sum).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Differences up to this are rounding.
    pub(crate) fn tolerance(&self) -> f64 {
        let largest = self.policies.iter().map(|earned| earned.reward.abs().max(earned.learned.abs()));
        1e-9 + 1e-5 * largest.fold(0.0, f64::max)
    }

    /// The table, for people.
    pub fn text(&self) -> String {
        let success = match self.threshold > 0.0 {
            true => format!("success above {}", short(self.threshold)),
            false => "no threshold".into(),
        };
        let mut text = format!(
            "what a policy would earn in an episode of {} steps ({success}, discount {}):\n    {:<28}{:>7}{:>12}{:>12}\n",
            self.steps, self.gamma, "policy", "steps", "reward", "discounted"
        );
        for Earned { policy, steps, reward, discounted, .. } in &self.policies {
            let [reward, discounted] = [reward, discounted].map(|sum| short(*sum));
            text += &format!("    {:<28}{steps:>7}{reward:>12}{discounted:>12}\n", policy.describe());
        }
        text
    }
}

/// A number for the table: two decimals, or as many digits as it takes to see that it is not 0.
fn short(number: f64) -> String {
    match number.abs() {
        size if size < 1e-9 => "0.00".into(),
        size if size < 0.01 => format!("{number:.1e}"),
        _ => format!("{number:.2}"),
    }
}

impl Earned {
    fn of(policy: Behaviour, column: &RewardColumn, gamma: f64) -> Self {
        let rewards: Vec<f64> = column.total.iter().map(|reward| f64::from(*reward)).collect();
        let learned =
            column.terms.iter().filter(|term| &*term.name != "env" && !term.name.ends_with("/true_success"));
        let learned = learned.map(|term| {
            f64::from(term.weight) * term.values.iter().map(|value| f64::from(*value)).sum::<f64>()
        });
        let (mut after, mut return_range) = (0.0, [0.0f64; 2]);
        for reward in rewards.iter().rev() {
            after = reward + gamma * after;
            return_range = [return_range[0].min(after), return_range[1].max(after)];
        }
        let (steps, reward) = (rewards.len(), rewards.iter().sum());
        Self { policy, steps, reward, discounted: after, learned: learned.sum(), return_range }
    }
}

/// The kinds of policies that can be told apart. Where the model alone decides about success, nobody hovers above its
/// threshold: that is success.
fn kinds(loaded: &LoadedConfig) -> Vec<Behaviour> {
    let model_decides = loaded.config.reward.standalone_realworld;
    Behaviour::ALL.into_iter().filter(|kind| !model_decides || *kind != Behaviour::HoversAbove).collect()
}

/// An episode of a policy.
fn episode(loaded: &LoadedConfig, settings: TrackSettings, behaviour: Behaviour) -> Option<Segment> {
    let env = &loaded.config.env.train;
    // Where the model decides, it does so after its hold.
    let decided_after = if loaded.config.reward.standalone_realworld { settings.hold } else { 1 };
    let obs =
        |frame: TrackFrame| Obs::from_state(1, vec![frame.score, f32::from(u8::from(frame.conditions))]).ok();
    let mut segment = Segment::starting_at(obs(settings.frame(behaviour, 0))?);
    let mut solved_for = 0;
    for number in 1..=settings.steps {
        let frame = settings.frame(behaviour, number);
        solved_for = if frame.solved { solved_for + 1 } else { 0 };
        let end = match () {
            () if solved_for >= decided_after && !env.ignore_terminations => End::Terminated,
            () if number == settings.steps => End::Truncated,
            () => End::No,
        };
        let step = StepRow {
            actions: vec![0.0],
            env_reward: vec![if frame.solved { env.reward_coef as f32 } else { 0.0 }],
            end: vec![end],
            success: vec![frame.solved],
        };
        let last = if end.is_end() { vec![(0, obs(frame)?)] } else { Vec::new() };
        segment.push(step, obs(frame)?, last).ok()?;
        if end.is_end() {
            break;
        }
    }
    Some(segment)
}

fn track_settings(loaded: &LoadedConfig, own: Option<f32>) -> TrackSettings {
    let main = loaded.config.reward.main_term();
    let threshold = match (&main.hysteresis, main.model.model_type.scores_windows()) {
        (_, true) => 0.0, // a judge's answers have no threshold
        (Some(levels), false) => levels.enter as f32,
        (None, false) if unfiltered(&main, own) => 0.0,
        (None, false) => main.reward_threshold.level(own),
    };
    let window = main.model.history_buffers.values().map(|buffer| buffer.history_size.max(interval(buffer)));
    TrackSettings {
        steps: episode_steps(loaded).min(MAX_STEPS) as usize,
        threshold,
        hold: main.hold_steps.clamp(1, MAX_STEPS) as usize,
        window: window.max().unwrap_or(1).min(MAX_STEPS) as usize,
    }
}

/// Whether every score counts as it is.
fn unfiltered(main: &RewardTerm, own: Option<f32>) -> bool {
    match (main.reward_threshold, main.reward_type) {
        (SuccessThreshold::NoFilter, _) => true,
        (SuccessThreshold::Checkpoint, RewardType::Continuous) => own.is_none(),
        (SuccessThreshold::Checkpoint, RewardType::Binary) | (SuccessThreshold::At(_), _) => false,
    }
}

/// Steps between windows.
pub(super) fn interval(buffer: &HistoryBuffer) -> u64 {
    buffer.input_interval.filter(|steps| *steps > 0).unwrap_or(buffer.history_size)
}

/// Steps of an episode: as the config says, or else as the environment has it.
pub(super) fn episode_steps(loaded: &LoadedConfig) -> u64 {
    let env = &loaded.config.env.train;
    let of_env =
        || env.init_params.id.as_deref()?.parse::<EnvId>().ok().map(|id| id.max_episode_steps() as u64);
    env.max_episode_steps.or_else(of_env).unwrap_or(USUAL_STEPS)
}

/// The threshold that the model of a term brings along, where it can be read.
pub(super) fn own_threshold(loaded: &LoadedConfig, term: &RewardTerm) -> Option<f32> {
    let is_main = term.model.model_path == loaded.config.reward.model.model_path;
    let is_served = is_main && loaded.config.reward.worker_type == WorkerType::Api;
    if term.source != TermSource::Model || !term.model.model_type.is_image_classifier() || is_served {
        return None;
    }
    let path = Path::new(term.model.model_path.as_ref()?);
    if term.model.model_type.is_custom() {
        let card = CustomCard::beside(&CustomLocation::find(path)?).ok()?;
        return card.threshold.map(|threshold| threshold as f32);
    }
    let checkpoint = ClassifierCheckpoint::read(path).ok()?;
    checkpoint.card?.threshold.map(|threshold| threshold as f32)
}
