//! Reads a config as a sceptic would: what pays for the wrong thing, what nobody applies, what cannot work.
//!
//! Nothing runs. A rule is a function from a resolved config to findings; a finding has a code, a severity, a
//! place, a reason and a cure. Values that are impossible on their own are refused when a config is read
//! (`config/check.rs`); here are the ones that are possible and unwise.

mod checkpoint;
mod data;
mod finding;
mod horizon;
mod pay;
mod use_of_model;

pub use finding::{Finding, Severity};

use crate::config::{Loaded, Purpose};

/// A rule: looks at a config and says what it finds.
type Rule = fn(&mut Findings<'_>);

const RULES: &[Rule] = &[
    data::unread_keys,
    data::kept_episodes,
    data::hidden_goal,
    data::batches,
    use_of_model::missing,
    use_of_model::threshold,
    use_of_model::equality,
    use_of_model::image_size,
    use_of_model::windows,
    pay::dithering,
    pay::truth_in_reward,
    pay::almost,
    horizon::terminal_reward,
    horizon::endless_episodes,
    checkpoint::agreement,
];

/// Everything the rules find, worst first and otherwise in the order of the rules.
pub fn lint(loaded: &Loaded) -> Vec<Finding> {
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
    loaded: &'a Loaded,
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

    /// Whether a policy is paid by a model.
    fn is_paid_by_model(&self) -> bool {
        self.loaded.purpose == Purpose::Rl && self.loaded.config.reward.use_reward_model
    }

    /// Keys that only RLinf reads give away where a config comes from.
    fn is_from_rlinf(&self) -> bool {
        !self.loaded.unused.is_empty()
    }
}
