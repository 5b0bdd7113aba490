//! What to do about learners and trainings: the keys that their settings come from.

use plaudit_reward::train::TrainError;
use plaudit_rl::{CountSetting, SettingError};

use super::{AskedBy, about_data, about_windows};

/// What to do about a training of a reward model.
pub(crate) fn about_reward_training(error: &TrainError) -> Option<String> {
    match error {
        TrainError::Dataset(error) => about_data(error, AskedBy::Config),
        TrainError::Windows(error) => about_windows(error).map(Into::into),
        TrainError::OneAnswer { .. } => {
            let hint = "collect episodes that succeed and fail, or lower --delta-threshold of `plaudit dataset windows`";
            Some(hint.into())
        }
        TrainError::NoState { .. } => {
            let hint = "resume the newest checkpoint of the run, or start a new run from its weights with \
                        actor.model.model_path";
            Some(hint.into())
        }
        TrainError::UnevenRanks { world, global_batch, .. } => {
            Some(about_uneven_ranks(*world, *global_batch))
        }
        other => other.hint(),
    }
}

/// What to do about ranks that cannot share a step of so many examples evenly.
fn about_uneven_ranks(world: u64, global_batch: usize) -> String {
    let world = world as usize;
    let smaller = match global_batch.is_multiple_of(world) {
        true => format!("set actor.micro_batch_size={}, or ", global_batch / world),
        false => String::new(),
    };
    format!("{smaller}make actor.global_batch_size a multiple of actor.micro_batch_size times {world}")
}

/// The key of a learner's setting, and what to do about it.
pub(crate) struct SettingHint {
    pub(crate) key: &'static str,
    pub(crate) hint: &'static str,
}

/// Where a learner's setting is written, and what to do about it.
pub(crate) fn about_setting(error: &SettingError) -> SettingHint {
    let (key, hint) = match error {
        SettingError::ChunkRatio => {
            ("algorithm.reward_type", "set it to chunk_level, as algorithm.logprob_type is")
        }
        SettingError::DiscreteActions => ("algorithm.loss_type", "set it to actor_critic (PPO)"),
        SettingError::CrossQOnImages => ("algorithm.q_head_type", "set it to default"),
        SettingError::ShiftWithoutImages => {
            ("algorithm.enable_drq", "leave it out, or set actor.model.backbone to conv")
        }
        SettingError::ScaledStatesWithoutTarget => {
            ("algorithm.scale_states", "leave it out, or set algorithm.q_head_type to default")
        }
        SettingError::EncoderLossWithoutImages => {
            ("algorithm.encoder_loss", "leave it out, or set actor.model.model_type to cnn_policy")
        }
        SettingError::AverageWithoutTarget => {
            ("algorithm.average_policy", "leave it out, or set algorithm.q_head_type to default")
        }
        SettingError::TooFewDemos { .. } => {
            ("algorithm.demo_buffer.load_path", "name more demonstrations, or leave demo_buffer out")
        }
        SettingError::NothingToClone => ("algorithm.cloning.load_path", "name episodes with steps in them"),
        SettingError::Zero(setting) => (count_key(*setting), "set it to 1 or more"),
        SettingError::TargetRange { .. } => ("algorithm.target_range", "write the smaller number first"),
        _ => ("algorithm", "change what the message names"),
    };
    SettingHint { key, hint }
}

fn count_key(setting: CountSetting) -> &'static str {
    match setting {
        CountSetting::BatchSize => "actor.global_batch_size",
        CountSetting::CriticActorRatio => "algorithm.critic_actor_ratio",
        CountSetting::TargetUpdateFreq => "algorithm.target_update_freq",
        CountSetting::ActionChunk => "actor.model.num_action_chunks",
        CountSetting::Critics => "actor.model.num_q_heads",
        CountSetting::CriticSubsample => "algorithm.critic_subsample_size",
    }
}
