//! A linter for configs: what rewards the wrong thing, what is never applied, what cannot work.
//!
//! Nothing runs. A rule is a function from a resolved config to findings; a finding has a code, a severity, a
//! place, a reason and a cure. Values that are impossible on their own are refused when a config is read
//! (`config/check.rs`); here are the ones that are possible and unwise.

mod cannot_run;
mod checkpoint;
mod data;
mod finding;
mod horizon;
mod incentives;
mod model_usage;

pub use finding::{Finding, Severity};

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
    model_usage::missing,
    model_usage::threshold,
    model_usage::equality,
    model_usage::image_size,
    model_usage::windows,
    incentives::dithering,
    incentives::ground_truth_in_reward,
    incentives::hovering_near_success,
    horizon::terminal_reward,
    horizon::endless_episodes,
    checkpoint::agreement,
];

/// Everything the rules find, worst first and otherwise in the order of the rules.
pub fn lint(loaded: &LoadedConfig) -> Vec<Finding> {
    let mut findings = Findings { loaded, found: Vec::new() };
    for rule in RULES {
        rule(&mut findings);
    }
    let mut found = findings.found;
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// A config under examination, and what was found so far.
struct Findings<'a> {
    loaded: &'a LoadedConfig,
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
