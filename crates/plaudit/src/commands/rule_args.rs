//! How recordings are read, where a command reads some: the same flags everywhere.

use clap::Args;
use plaudit_data::recording::{DatasetFormat, Rules};

/// Rules by which recordings are read.
#[derive(Debug, Args)]
pub struct RuleArgs {
    /// Source of the episodes, where it cannot be detected: collected, pre-merge, frames, trajectories, transitions,
    /// keyboard
    #[arg(long, value_name = "SOURCE")]
    source: Option<DatasetFormat>,
    /// A step with a reward above this shows success, where the episodes do not say [default: 0.5 for transitions of
    /// a robot]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    success_reward: Option<f64>,
    /// A robot's action whose absolute values sum to less does nothing, and nothing is learned from it [default: 1e-5]
    #[arg(long, value_name = "X")]
    idle_action: Option<f64>,
}

impl RuleArgs {
    /// As the library has them.
    pub fn rules(&self) -> Rules {
        let usual = Rules::default();
        Rules {
            format: self.source,
            success_reward: self.success_reward,
            idle_action: self.idle_action.unwrap_or(usual.idle_action),
            ..usual
        }
    }

    /// Each flag, and whether it is given.
    pub fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("--source", self.source.is_some()),
            ("--success-reward", self.success_reward.is_some()),
            ("--idle-action", self.idle_action.is_some()),
        ]
    }
}
