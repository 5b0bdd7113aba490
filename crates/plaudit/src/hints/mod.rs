//! What a person can do about an error of the libraries: in flags, keys and commands, which this crate alone knows.
//!
//! A library says what is wrong, by type and in words; nothing is read out of the words here.

mod data;
mod robot;
mod training;

use std::error::Error;

use plaudit_env::SettingsError;
use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::qwen3_vl::VlmError;
use plaudit_reward::RewardModelError;
use plaudit_reward::endpoint::EndpointError;
use plaudit_reward::hacking_monitor::MonitorError;
use plaudit_rl::{LearnError, TrainingError};
use plaudit_serve::ServeError;

pub(crate) use data::{AskedBy, about_conversion, about_data, about_open, about_windows, convert_flag};
pub(crate) use robot::about_arm;
pub(crate) use training::{SettingHint, about_reward_training, about_setting};

/// What to do about an error, or about what caused it.
pub(crate) fn about(error: &(dyn Error + 'static)) -> Option<String> {
    let inner = inside(error);
    let here = inner.map_or_else(|| about_one(error), about);
    here.or_else(|| about(error.source()?))
}

/// What a transparent error stands for: its own source is already that one's.
fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<TrainingError>() {
        return match error {
            TrainingError::Rollout(error) => Some(error),
            TrainingError::Reward(error) => Some(error),
            TrainingError::Learner(error) => Some(error),
            TrainingError::Remote(error) | TrainingError::Callback(error) => Some(error.as_ref()),
        };
    }
    if let Some(LearnError::Relabel(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(RewardModelError::Backend(error)) = error.downcast_ref() {
        return Some(error.as_ref());
    }
    if let Some(MonitorError::Model(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(VlmError::Device(error)) = error.downcast_ref() {
        return Some(error);
    }
    None
}

fn about_one(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref() {
        return about_server(error).map(Into::into);
    }
    if let Some(LearnError::Setting(error)) = error.downcast_ref() {
        return Some(about_setting(error).hint.into());
    }
    if let Some(RewardModelError::Task) = error.downcast_ref() {
        return Some("set reward.model.input_builder_params.default_task_description".into());
    }
    if let Some(RewardModelError::Nonsense { .. }) = error.downcast_ref() {
        return Some(NONSENSE.into());
    }
    if let Some(RewardModelError::File { .. }) = error.downcast_ref() {
        return Some("is reward.model.model_path right?".into());
    }
    if let Some(ClassifierError::Gpu(_)) = error.downcast_ref() {
        return Some(NO_GPU.into());
    }
    if let Some(SettingsError::NoMujoco) = error.downcast_ref() {
        return Some(NO_MUJOCO.into());
    }
    if let Some(cause) = error.downcast_ref() {
        return robot::about_hold(cause).map(Into::into);
    }
    if let Some(ServeError::Listen { .. }) = error.downcast_ref() {
        return Some("choose another --host or --port".into());
    }
    None
}

/// What to do about a GPU that a config asks for and that cannot be used.
pub(crate) const NO_GPU: &str = "`plaudit device` shows what was found; `device: cpu` computes on the CPU";
/// Which build has what this one has not.
const NO_MUJOCO: &str = "build with `--features mujoco` as docs/mujoco.md says, or set engine: rapier";
const NONSENSE: &str =
    "is the judge asked as it was tuned, and by a model that can? reward.model.max_invalid allows more of it";

fn about_server(error: &EndpointError) -> Option<&'static str> {
    Some(match error {
        EndpointError::Address { .. } => return None,
        EndpointError::Unreachable { .. } => "start it, or correct reward.api.api_base",
        EndpointError::Model { .. } | EndpointError::SeveralModels { .. } => {
            "set reward.api.model to one of them"
        }
        EndpointError::NoModels { .. } => "name one with reward.api.model",
        EndpointError::Changed { .. } => "serve the model that the run began with, and resume the run",
        EndpointError::Access { .. } => "put it into the variable that reward.api.api_key_env names",
        EndpointError::Unanswered { .. } => {
            "start it again and resume the run; a vision-language model may also be set to reward.api.on_failure: skip"
        }
        EndpointError::NoLogprobs { .. } => {
            "serve the model with `plaudit serve` or another server that tells logprobs"
        }
        EndpointError::WordsAlike { .. } => {
            "use words of which none begins another, or serve the model with `plaudit serve`"
        }
        EndpointError::EmptyAnswers { .. } => {
            "is reward.model.max_new_tokens too small for a model that thinks first?"
        }
        _ => return None,
    })
}

/// Hints together, as one.
pub(crate) fn join(hints: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let hints: Vec<String> = hints.into_iter().flatten().collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

#[cfg(test)]
mod tests {
    use plaudit_core::RewardError;

    use super::*;

    #[test]
    fn what_caused_an_error_is_found_however_deep_it_lies() {
        let server = EndpointError::Access { base: "http://localhost".into() };
        let reward = RewardError::Backend(Box::new(RewardModelError::from(server)));
        let error = TrainingError::Learner(LearnError::Relabel(reward));
        assert!(about(&error).unwrap().contains("reward.api.api_key_env"));
        let lost = ClassifierError::Gpu(plaudit_nn::gpu::GpuError::NoDriver);
        assert!(about(&VlmError::Device(lost)).unwrap().contains("plaudit device"));
        let setting = plaudit_core::EnvError::from(SettingsError::NoMujoco);
        assert!(about(&setting).unwrap().contains("docs/mujoco.md"));
        let outside = plaudit_robot::HoldCause::OutsideBox { at: String::new(), faces: "+x".into() };
        let env = plaudit_core::EnvError::Backend(Box::new(outside));
        assert!(about(&plaudit_rl::RolloutError::from(env)).unwrap().contains("ee_pose_limit_"));
        assert_eq!(about(&std::io::Error::other("odd")), None);
    }
}
