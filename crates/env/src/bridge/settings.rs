//! What can be chosen about environments that run in Python.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::error::BridgeError;

/// Arguments for Python, as JSON.
pub type Arguments = Map<String, Value>;

/// What to build environments in Python from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeSettings {
    /// The Python to run: a name to look up, or a path such as that of a virtual environment's `bin/python`.
    #[serde(default = "default_python")]
    pub python: PathBuf,
    /// What to make.
    pub make: Make,
    /// Rows that are stepped together.
    pub num_envs: usize,
    /// The number of the first row. A large batch can be split over workers by giving each its own.
    #[serde(default)]
    pub first_row: u64,
    /// Modules to import before anything is made, so that they can register environments: names
    /// (`gymnasium_robotics`), or paths that end in `.py`. The current directory is on Python's path.
    #[serde(default)]
    pub import: Vec<String>,
    /// Steps after which an episode is truncated; the environment's own limit if absent.
    #[serde(default)]
    pub max_episode_steps: Option<usize>,
    /// Let every episode run to its time limit: terminations are not reported and reset nothing.
    #[serde(default)]
    pub ignore_terminations: bool,
    /// Which episodes get a seed from plaudit.
    #[serde(default)]
    pub seeding: Seeding,
    /// Observations that are cameras, by name. Absent: every array of bytes (`uint8`) with 1, 3 or 4
    /// channels, first or last, and sides of at least 32 pixels; in ManiSkill, the `rgb` of every sensor.
    ///
    /// The name of an observation inside dictionaries is its path, as in `images.wrist`; an observation that
    /// is an image and nothing else is called `image`. A ManiSkill camera has the name of its sensor.
    #[serde(default)]
    pub cameras: Option<Vec<String>>,
    /// Observations that make the state vector, by name and in this order; a name stands for everything
    /// below it. Absent: all that are no cameras, in the order of the observation space (the order of the
    /// dictionary in ManiSkill, without camera matrices). Arrays are flattened row by row; a choice among n
    /// becomes n numbers of which one is 1, as `gymnasium.spaces.flatten` does it.
    #[serde(default)]
    pub state: Option<Vec<String>>,
    /// Show `render()` as one more camera, under this name. It is only rendered when it is watched.
    #[serde(default)]
    pub render: Option<String>,
    /// Where `info` reports success, as in `goal.reached`. Absent: the first there is of `success`,
    /// `is_success`, `episode.success` and `episode.is_success`; none of them means no success.
    #[serde(default)]
    pub success: Option<String>,
    /// Other numbers of `info` to report, by name. A step without one reports NaN.
    #[serde(default)]
    pub facts: Vec<String>,
    /// The task in words.
    #[serde(default)]
    pub instruction: Option<String>,
    /// Seconds that importing and making may take.
    #[serde(default = "default_start_timeout_secs")]
    pub start_timeout_secs: f64,
    /// Seconds that one reset or step of the whole batch may take.
    #[serde(default = "default_step_timeout_secs")]
    pub step_timeout_secs: f64,
    /// Microseconds for which each side busy-waits for the other, as long as waits are that short: waking
    /// from sleep costs tens of them. 0 sleeps at once. Nobody busy-waits on a machine with one core.
    #[serde(default = "default_spin_micros")]
    pub spin_micros: u32,
}

/// What to make in Python.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Make {
    /// `gymnasium.make(id, **kwargs)`.
    Gymnasium {
        /// The id, such as `HalfCheetah-v5`, or `module:Id-v0` to import a module first.
        #[serde(default)]
        id: String,
        /// Instead of an id: a class that is one (or a function that makes one), as `module:Class` or
        /// `path/to/file.py:Class`. A `VectorEnv` steps all rows itself.
        #[serde(default)]
        entry_point: Option<String>,
        /// Arguments for the environment.
        #[serde(default)]
        kwargs: Arguments,
        /// How many become one batch.
        #[serde(default)]
        vectorization: Vectorization,
    },
    /// A ManiSkill task: `gymnasium.make(**init_params)` after `import mani_skill.envs`.
    ///
    /// On the CPU, where ManiSkill simulates one row, each row is an environment of its own.
    Maniskill {
        /// RLinf's `init_params`: `id`, `obs_mode`, `control_mode`, `sim_backend`, … as they are.
        init_params: Arguments,
        /// Show cameras what ManiSkill hides from them, such as the goal.
        #[serde(default = "yes")]
        show_hidden: bool,
    },
}

/// How Gymnasium environments become a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vectorization {
    /// Each row is an environment of its own, one stepped after the other, each episode with its own seed.
    #[default]
    Rows,
    /// Each row is a process of its own (`AsyncVectorEnv`): for simulators that take milliseconds. Before
    /// Gymnasium 1.1 these reset by themselves, with the consequences below.
    Async,
    /// The environment's own vector form, through `gymnasium.make_vec`. Where it resets rows by itself, its
    /// own random generator decides about later episodes, and where it does so one step late (next-step
    /// mode), each episode gets a last step that changes nothing and has no reward.
    Vector,
}

/// Which episodes get a seed from plaudit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seeding {
    /// Every one, so that seed, row and number determine an episode: it is reset with the first 31 bits of
    /// `seed.purpose("episodes").index(row).index(number)`. A ManiSkill batch on a GPU then resets ended rows
    /// one by one.
    #[default]
    EveryEpisode,
    /// The first of each row after a reset; then the environment's own random generator goes on.
    FirstEpisode,
}

impl Make {
    fn gymnasium(id: String, entry_point: Option<String>) -> Self {
        Self::Gymnasium { id, entry_point, kwargs: Map::new(), vectorization: Vectorization::Rows }
    }

    fn entry_point(&self) -> Option<&str> {
        match self {
            Self::Gymnasium { entry_point, .. } => entry_point.as_deref(),
            Self::Maniskill { .. } => None,
        }
    }
}

impl BridgeSettings {
    /// `num_envs` rows of the Gymnasium environment `id`, and the defaults for the rest.
    pub fn gymnasium(id: impl Into<String>, num_envs: usize) -> Self {
        Self::new(Make::gymnasium(id.into(), None), num_envs)
    }

    /// `num_envs` rows of a class in Python that has no id: `module:Class` or `path/to/file.py:Class`.
    pub fn entry_point(entry_point: impl Into<String>, num_envs: usize) -> Self {
        Self::new(Make::gymnasium(String::new(), Some(entry_point.into())), num_envs)
    }

    /// `num_envs` rows of the ManiSkill task that RLinf's `init_params` describe.
    pub fn maniskill(init_params: Arguments, num_envs: usize) -> Self {
        Self::new(Make::Maniskill { init_params, show_hidden: true }, num_envs)
    }

    fn new(make: Make, num_envs: usize) -> Self {
        Self {
            python: default_python(),
            make,
            num_envs,
            first_row: 0,
            import: Vec::new(),
            max_episode_steps: None,
            ignore_terminations: false,
            seeding: Seeding::default(),
            cameras: None,
            state: None,
            render: None,
            success: None,
            facts: Vec::new(),
            instruction: None,
            start_timeout_secs: default_start_timeout_secs(),
            step_timeout_secs: default_step_timeout_secs(),
            spin_micros: default_spin_micros(),
        }
    }

    /// The id of what is made, or where it is; empty if there is neither.
    pub fn id(&self) -> &str {
        match &self.make {
            Make::Gymnasium { entry_point: Some(entry_point), .. } => entry_point,
            Make::Gymnasium { id, .. } => id,
            Make::Maniskill { init_params, .. } => {
                init_params.get("id").and_then(Value::as_str).unwrap_or_default()
            }
        }
    }

    /// Checks the settings before anything is started.
    pub fn check(&self) -> Result<(), BridgeError> {
        let refuse = |words: &str| Err(BridgeError::Setting(words.into()));
        if self.id().is_empty() {
            return refuse("the environment in Python has no id; set one such as `CartPole-v1`");
        }
        if self.num_envs == 0 {
            return refuse("num_envs is 0; a batch has at least one environment");
        }
        if self.first_row.checked_add(self.num_envs as u64).is_none() {
            return refuse("first_row is too large to number the rows after it");
        }
        if self.max_episode_steps == Some(0) {
            return refuse("max_episode_steps is 0; an episode has at least one step");
        }
        for secs in [self.start_timeout_secs, self.step_timeout_secs] {
            if secs.is_nan() || secs <= 0.0 || Duration::try_from_secs_f64(secs).is_err() {
                return refuse(
                    "a timeout must be a positive number of seconds; use a large one to wait long",
                );
            }
        }
        Ok(())
    }

    /// The settings as JSON for Python.
    pub(super) fn message(&self) -> Value {
        let (way, mut kwargs, show_hidden) = match &self.make {
            Make::Gymnasium { kwargs, vectorization, .. } => (json!(vectorization), kwargs.clone(), false),
            Make::Maniskill { init_params, show_hidden } => {
                (json!("maniskill"), init_params.clone(), *show_hidden)
            }
        };
        if matches!(self.make, Make::Maniskill { .. }) {
            kwargs.remove("id");
            kwargs.remove("num_envs");
        }
        json!({
            "way": way,
            "id": self.id(),
            "entry_point": self.make.entry_point(),
            "kwargs": kwargs,
            "show_hidden": show_hidden,
            "num_envs": self.num_envs,
            "import": self.import,
            "max_episode_steps": self.max_episode_steps,
            "ignore_terminations": self.ignore_terminations,
            "seed_every_episode": self.seeding == Seeding::EveryEpisode,
            "cameras": self.cameras,
            "state": self.state,
            "render": self.render,
            "success": self.success,
            "facts": self.facts,
            "spin_secs": self.spin().as_secs_f64(),
        })
    }

    /// How long to busy-wait on this machine.
    pub(super) fn spin(&self) -> Duration {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Duration::from_micros(if cores > 1 { self.spin_micros.into() } else { 0 })
    }
}

fn default_python() -> PathBuf {
    "python3".into()
}

fn default_start_timeout_secs() -> f64 {
    300.0
}

fn default_step_timeout_secs() -> f64 {
    300.0
}

fn default_spin_micros() -> u32 {
    200
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_from_little_and_come_back() {
        let text = r#"{"make": {"gymnasium": {"id": "CartPole-v1"}}, "num_envs": 4}"#;
        let settings: BridgeSettings = serde_json::from_str(text).unwrap();
        assert_eq!(settings, BridgeSettings::gymnasium("CartPole-v1", 4));
        let again = serde_json::from_value(serde_json::to_value(&settings).unwrap()).unwrap();
        assert_eq!(settings, again);
        assert!(serde_json::from_str::<BridgeSettings>(&text.replace("num_envs", "envs")).is_err());
    }

    #[test]
    fn init_params_go_to_maniskill_as_they_are_but_for_what_is_said_apart() {
        let params = json!({"id": "PickCube-v1", "num_envs": 3, "obs_mode": "rgb", "control_mode": null});
        let settings = BridgeSettings::maniskill(params.as_object().unwrap().clone(), 8);
        let message = settings.message();
        assert_eq!(message["id"], "PickCube-v1");
        assert_eq!(message["num_envs"], 8);
        assert_eq!(message["kwargs"], json!({"obs_mode": "rgb", "control_mode": null}));
    }

    #[test]
    fn impossible_settings_are_refused_in_words() {
        let fine = BridgeSettings::gymnasium("CartPole-v1", 1);
        assert!(fine.check().is_ok());
        let refused = |settings: BridgeSettings| settings.check().unwrap_err().to_string();
        assert!(refused(BridgeSettings { num_envs: 0, ..fine.clone() }).starts_with("num_envs is 0"));
        assert!(refused(BridgeSettings::maniskill(Map::new(), 1)).contains("has no id"));
        for secs in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let words = refused(BridgeSettings { step_timeout_secs: secs, ..fine.clone() });
            assert!(words.starts_with("a timeout must be"), "{words}");
        }
    }
}
