//! `reward.online`: a reward model that learns while a policy learns by it.

use crate::config::block::{block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE};

choice! {
    /// What a policy's frames are taken for.
    PolicyLabel = plaudit_reward::online::PolicyLabel {
        /// Some are successes, and nobody says which: a non-negative risk of positive and unlabelled examples.
        Unlabelled = "unlabelled",
        /// All are failures, as in VICE. A policy that succeeds is then rewarded less and less.
        Negative = "negative",
    }
}

block! {
    /// A reward model that learns while a policy learns by it: see docs/method/online-reward.md.
    OnlineSettings as OnlineSettingsWritten {
        /// Updates of the policy between rounds of learning. 0: off.
        every: u64 = 0,
        /// Steps of the optimiser in a round.
        #[range(AT_LEAST_ONE)]
        steps: u64 = 40,
        /// Frames of each kind in a step: successes, failures, and the policy's.
        #[range(AT_LEAST_ONE)]
        batch_size: u64 = 16,
        /// The learning rate.
        #[range(POSITIVE)]
        lr: f64 = 1e-4,
        /// What the policy's frames are taken for.
        policy_frames: PolicyLabel = PolicyLabel::Unlabelled,
        /// The share of successes that the policy's frames are taken to have, as unlabelled. The smaller, the more of them are
        /// unlearned; the larger, the higher successes score.
        #[range(SHARE)]
        prior: f64 = 0.3,
        /// How much labelled frames count in a step; the policy's count the rest to 1.
        #[range(SHARE)]
        labelled_weight: f64 = 0.5,
        /// The policy's newest rewarded frames that are learned from.
        #[range(AT_LEAST_ONE)]
        frames: u64 = 1000,
        /// No round begins with fewer of them.
        #[range(AT_LEAST_ONE)]
        min_frames: u64 = 100,
        /// A model is refused if its AUC on held-out frames is further below that of the model the run began with.
        #[range(NOT_NEGATIVE)]
        auc_margin: f64 = 0.02,
        /// Labelled episodes whose successes and failures are learned from beside the policy's frames. Not set: what the
        /// model's card says it learned from.
        data_path: Option<String> = None,
        /// Labelled episodes on which models are checked before they are used. Not set: with `data_path`, a fifth of its
        /// episodes; else what the model's card says it was validated on.
        held_out_path: Option<String> = None,
    }
}

impl OnlineSettings {
    /// Whether the model learns.
    pub fn is_on(&self) -> bool {
        self.every > 0
    }
}
