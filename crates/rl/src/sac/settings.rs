//! How soft actor-critic learns, and what cannot be.

use plaudit_core::Schedule;
use plaudit_nn::dense::AdamSettings;

use super::{Agg, BcRegularizer, SoftNetworkSettings, TemperatureSettings};
use crate::replay::{Amount, ReplaySettings};
use crate::{Bootstrap, CountSetting, SettingError};

/// How soft actor-critic learns.
#[derive(Debug, Clone)]
pub struct SacSettings {
    /// What the networks look like.
    pub networks: SoftNetworkSettings,
    /// Discount of the future, γ.
    pub gamma: f32,
    /// Which ends of episodes are bootstrapped.
    pub bootstrap: Bootstrap,
    /// How critics are combined for the target.
    pub agg_q: Agg,
    /// How critics are combined for the policy.
    pub actor_agg_q: Agg,
    /// Critics sampled for each target; all where no number is given.
    pub critic_subsample: Option<usize>,
    /// Whether entropy counts in the target.
    pub backup_entropy: bool,
    /// Where the target is known to lie: sparse rewards bound the return, and critics that overestimate it
    /// would only reinforce each other.
    pub target_range: Option<[f32; 2]>,
    /// How far the target follows, τ.
    pub tau: f32,
    /// Updates between steps of the target.
    pub target_update_freq: u64,
    /// Critic updates per policy update.
    pub critic_actor_ratio: u64,
    /// Updates before the policy starts to learn.
    pub train_actor_steps: u64,
    /// Whether networks take states by the scale of the demonstrations.
    pub scale_states: bool,
    /// Whether the policy that acts and is saved is the moving average of the one that learns: at the rate of the target, and through
    /// the target's encoder. A constant learning rate keeps a policy in motion around what it has learned; its average stands
    /// still there.
    pub average_policy: bool,
    /// What trains the encoder of images.
    pub encoder_loss: EncoderLoss,
    /// Behaviour-cloning term in the loss of the policy.
    pub bc_regularizer: Option<BcRegularizer>,
    /// Pixels that images are moved by at random, at most (DrQ); nothing where they stay.
    pub shift: Option<usize>,
    /// The temperature, α.
    pub temperature: TemperatureSettings,
    /// How the policy is optimised.
    pub policy_optim: Optim,
    /// How the critics are optimised.
    pub critic_optim: Optim,
    /// Transitions per update; with demonstrations, half of them are those.
    pub batch_size: usize,
    /// Updates per call of [`crate::Learner::improve`].
    pub updates: u64,
    /// Experience that is kept.
    pub replay: ReplaySettings,
    /// Experience that must be there before anything is learned.
    pub min_replay: Amount,
    /// Demonstrations that must be there before anything is learned; they are kept under these settings.
    pub demos: Option<DemoSettings>,
}

/// What trains the encoder that policy and critics see through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderLoss {
    /// The critics' loss, as in RLinf, and the behaviour-cloning loss where there is one.
    Critics,
    /// The policy's loss. Critics read what the policy sees, and their gradients stop there.
    Policy,
}

/// Which demonstrations are kept, and how many are needed.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoSettings {
    /// What is kept of them; own successes have as much room beside them.
    pub replay: ReplaySettings,
    /// How many there must be.
    pub min: Amount,
    /// The reward at the end of an episode of the run itself from which it joins them (self-imitation).
    pub self_imitation_min_reward: Option<f32>,
}

/// How a network is optimised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optim {
    /// Learning rate over the updates.
    pub schedule: Schedule,
    /// Constants of Adam.
    pub adam: AdamSettings,
    /// Longest gradient.
    pub clip_grad: f32,
}

impl SacSettings {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let positive = [
            (CountSetting::BatchSize, self.batch_size as u64),
            (CountSetting::CriticActorRatio, self.critic_actor_ratio),
            (CountSetting::TargetUpdateFreq, self.target_update_freq),
            (CountSetting::ActionChunk, self.networks.chunk as u64),
            (CountSetting::Critics, self.networks.critics as u64),
            (CountSetting::CriticSubsample, self.critic_subsample.map_or(1, |count| count as u64)),
        ];
        if let Some((setting, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(SettingError::Zero(setting));
        }
        match self.target_range {
            Some([low, high]) if low.is_nan() || high.is_nan() || low > high => {
                Err(SettingError::TargetRange { low, high })
            }
            _ => Ok(()),
        }
    }
}
