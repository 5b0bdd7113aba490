//! A linter for configs: what rewards the wrong thing, what is never applied, what cannot work.
//!
//! Nothing runs. A rule is a function from a resolved config to findings; a finding has a code, a severity, a
//! place, a reason and a cure. Values that are impossible on their own are refused when a config is read
//! (`config/check.rs`); here are the ones that are possible and unwise.

mod cannot_run;
mod checkpoint;
mod data;
mod earnings;
mod environment;
mod finding;
mod horizon;
mod incentives;
mod model_usage;
mod simulation;

pub use finding::{Finding, Severity};
pub use simulation::{Earned, Earnings};

use serde::Serialize;

use crate::config::{LoadedConfig, Purpose};

/// A rule: looks at a config and says what it finds.
type Rule = fn(&mut Findings<'_>);

const RULES: &[Rule] = &[
    cannot_run::environments,
    cannot_run::control_modes,
    cannot_run::learner,
    cannot_run::machines,
    data::unused_keys,
    data::kept_episodes,
    data::hidden_goal,
    data::batches,
    data::train_and_val,
    model_usage::missing,
    model_usage::threshold,
    model_usage::equality,
    model_usage::image_size,
    model_usage::windows,
    model_usage::monitor,
    model_usage::online,
    environment::cameras,
    environment::guards,
    incentives::dithering,
    incentives::ground_truth_in_reward,
    earnings::success_is_rewarded,
    earnings::hovering_near_success,
    earnings::target_range,
    earnings::potential_without_reward,
    earnings::windows_beyond_the_episode,
    horizon::terminal_reward,
    horizon::endless_episodes,
    checkpoint::agreement,
];

/// What the rules find, and what they go by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Examined {
    /// Everything that was found, worst first and otherwise in the order of the rules.
    pub findings: Vec<Finding>,
    /// What each kind of policy would earn, where a model rewards one.
    pub earnings: Option<Earnings>,
}

/// Examines a config.
pub fn examine(loaded: &LoadedConfig) -> Examined {
    let earnings = Earnings::simulate(loaded);
    let mut findings = Findings { loaded, earnings, found: Vec::new() };
    for rule in RULES {
        rule(&mut findings);
    }
    let Findings { mut found, earnings, .. } = findings;
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Examined { findings: found, earnings }
}

/// Everything the rules find.
pub fn lint(loaded: &LoadedConfig) -> Vec<Finding> {
    examine(loaded).findings
}

/// A config under examination, and what was found so far.
struct Findings<'a> {
    loaded: &'a LoadedConfig,
    /// What each kind of policy would earn.
    earnings: Option<Earnings>,
    found: Vec<Finding>,
}

/// What there is to say about a key.
struct Remark {
    what: String,
    why: String,
    fix: String,
}

impl Findings<'_> {
    fn add(&mut self, code: &'static str, severity: Severity, key: &str, remark: Remark) {
        let place = self.loaded.place(key).map(finding::place);
        let Remark { what, why, fix } = remark;
        self.found.push(Finding { code, severity, key: key.into(), place, what, why, fix });
    }

    /// Whether a reward model rewards the policy.
    fn uses_reward_model(&self) -> bool {
        self.loaded.purpose == Purpose::Rl && self.loaded.config.reward.use_reward_model
    }

    /// Keys that only RLinf reads give away where a config comes from.
    fn is_from_rlinf(&self) -> bool {
        !self.loaded.unused.is_empty()
    }
}
