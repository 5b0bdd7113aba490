//! How recordings are read, where a command reads some: the same flags everywhere.

use std::path::PathBuf;

use clap::Args;
use plaudit_data::recording::{BadFiles, DatasetFormat, Rules};

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
    /// Table of labels (.csv, .json, .jsonl) that counts before what the episodes say: episode,label, or
    /// episode,start,end,label for frames from start up to end
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// The last K frames of an episode show success, where no frame has a label and it is not known to have failed
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    success_last_frames: Option<u64>,
    /// A robot's action whose absolute values sum to less does nothing, and nothing is learned from it [default: 1e-5]
    #[arg(long, value_name = "X")]
    idle_action: Option<f64>,
    /// Leave out episodes and files that cannot be used, and list them
    #[arg(long)]
    skip_bad: bool,
}

impl RuleArgs {
    /// As the library has them.
    pub fn rules(&self) -> Rules {
        let usual = Rules::default();
        Rules {
            format: self.source,
            success_reward: self.success_reward,
            labels: self.labels.clone(),
            success_last_frames: self.success_last_frames.map(|frames| frames as usize),
            idle_action: self.idle_action.unwrap_or(usual.idle_action),
            bad_files: if self.skip_bad { BadFiles::Skip } else { BadFiles::Stop },
            ..usual
        }
    }

    /// Each flag, and whether it is given.
    pub fn given(&self) -> [(&'static str, bool); 6] {
        [
            ("--source", self.source.is_some()),
            ("--success-reward", self.success_reward.is_some()),
            ("--labels", self.labels.is_some()),
            ("--success-last-frames", self.success_last_frames.is_some()),
            ("--idle-action", self.idle_action.is_some()),
            ("--skip-bad", self.skip_bad),
        ]
    }
}
