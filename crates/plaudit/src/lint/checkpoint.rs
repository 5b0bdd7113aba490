//! Rules about a checkpoint that a config names: whether it was made for how it is used.

use std::path::Path;

use plaudit_nn::classifier::Device;
use plaudit_reward::audit::{AlarmFrames, Guarantee};
use plaudit_reward::custom::{CustomCard, CustomLocation};
use plaudit_reward::open::{ClassifierCheckpoint, ModelLocation, OpenError, SettingDifference};

use super::{Findings, Remark, Severity};
use crate::build::network::{given_network, overrides, scoring_network};
use crate::config::LoadedConfig;
use crate::config::blocks::reward::{RewardMode, RewardModelSettings, RewardTerm, TermSource, WorkerType};

/// What each checkpoint says about itself against what the config says about it.
pub(super) fn agreement(findings: &mut Findings<'_>) {
    if !findings.uses_reward_model() {
        return;
    }
    let reward = &findings.loaded.config.reward;
    let main = reward.main_term();
    let further = reward.terms.iter().map(|(name, term)| (format!("reward.terms.{name}.model"), term));
    let local_main = (reward.worker_type == WorkerType::Local).then(|| ("reward.model".to_string(), &main));
    for (block, term) in local_main.into_iter().chain(further) {
        let is_model = term.source == TermSource::Model;
        match (&term.model.model_path, term.model.model_type.is_image_classifier()) {
            (Some(path), true) if is_model && term.model.model_type.is_custom() => {
                custom(findings, &block, Path::new(path));
            }
            (Some(path), true) if is_model => compare(findings, &block, term, Path::new(path)),
            (Some(path), false) if is_model => judge_folder(findings, &block, term, Path::new(path)),
            _ => {}
        }
    }
}

/// A vision-language model that is not where the config says.
fn judge_folder(findings: &mut Findings<'_>, block: &str, term: &RewardTerm, path: &Path) {
    let lora = term.model.lora_path.as_ref().map(Path::new);
    let why = match ModelLocation::find(path, lora) {
        Ok(ModelLocation::VisionLanguage(folder)) if folder.model.join("config.json").is_file() => {
            if let Some(lora) = lora.filter(|lora| !lora.exists()) {
                missing_adapters(findings, block, lora);
            }
            return;
        }
        Ok(ModelLocation::VisionLanguage(_) | ModelLocation::Classifier(_)) if !path.exists() => {
            format!("{}: there is no such folder", path.display())
        }
        Ok(ModelLocation::VisionLanguage(_) | ModelLocation::Classifier(_)) => {
            format!("{} has no config.json of a vision-language model", path.display())
        }
        Ok(ModelLocation::Custom(location)) => {
            format!("{location} is {}, and a folder is meant here", location.kind())
        }
        Ok(ModelLocation::Server(address)) => format!("{address} is an address, and a folder is meant here"),
        Err(error) => error.to_string(),
    };
    let remark = Remark {
        what: "the vision-language model cannot be opened".into(),
        why,
        fix: "give its Hugging Face folder, a run of `plaudit reward sft`, or serve it: reward.worker_type: api".into(),
    };
    findings.add("checkpoint-unreadable", Severity::Error, &format!("{block}.model_path"), remark);
}

fn missing_adapters(findings: &mut Findings<'_>, block: &str, lora: &Path) {
    let remark = Remark {
        what: "the adapters cannot be read".into(),
        why: format!("{}: there is no such file or folder", lora.display()),
        fix: "give a folder that peft saved, or leave the key empty for the model without adapters".into(),
    };
    findings.add("checkpoint-unreadable", Severity::Error, &format!("{block}.lora_path"), remark);
}

/// A model of one's own making that is not there, or whose card makes no sense. Nothing of it is run.
fn custom(findings: &mut Findings<'_>, block: &str, path: &Path) {
    let why = match CustomLocation::find(path) {
        None => format!("{} is neither an ONNX file nor a function in a file of Python", path.display()),
        Some(location) if !location.file().is_file() => {
            format!("{}: there is no such file", location.file().display())
        }
        Some(location) => match CustomCard::beside(&location) {
            Ok(_) => return,
            Err(error) => error.to_string(),
        },
    };
    let remark = Remark {
        what: "the model cannot be opened".into(),
        why,
        fix: "give an ONNX file (model.onnx) or a function (my_reward.py:score), as docs/own-models.md says"
            .into(),
    };
    findings.add("checkpoint-unreadable", Severity::Error, &format!("{block}.model_path"), remark);
}

fn compare(findings: &mut Findings<'_>, block: &str, term: &RewardTerm, path: &Path) {
    let checkpoint = match ClassifierCheckpoint::read(path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            let remark = Remark {
                what: "the weights cannot be read".into(),
                why: error.to_string(),
                fix: "give the best_model folder of `plaudit reward train`, or a file of weights".into(),
            };
            let key = format!("{block}.model_path");
            return findings.add("checkpoint-unreadable", Severity::Error, &key, remark);
        }
    };
    let given = given_network(findings.loaded, block, &term.model);
    let differences = checkpoint.network(&given).differences;
    for difference in &differences {
        disagreement(findings, block, path, difference);
    }
    if let Some(guarantee) = checkpoint.card.as_ref().and_then(|card| card.guarantee) {
        other_rule(findings, block, term, &guarantee);
    }
    // Weights that say nothing about themselves are tried on.
    if checkpoint.card.is_none()
        && differences.is_empty()
        && let Err(error) = checkpoint.open(&given, Device::Cpu)
    {
        unfit(findings, block, path, error);
    }
}

/// A guarantee that is about another rule than the one that rewards. A stricter one keeps it.
fn other_rule(findings: &mut Findings<'_>, block: &str, term: &RewardTerm, guarantee: &Guarantee) {
    let Some(rule) = guarantee.rule else { return };
    let place = block.trim_end_matches(".model");
    let hold = rule.hold.get() as u64;
    let (key, what, fix) = if term.hold_steps < hold {
        (
            "hold_steps",
            format!("{}, and the checkpoint's guarantee is about {hold}", term.hold_steps),
            format!("set it to {hold}"),
        )
    } else if rule.alarm == AlarmFrames::LastFrame && term.reward_mode != RewardMode::Terminal {
        let what =
            "the checkpoint's guarantee is about the last frame of an episode, and others are rewarded"
                .to_string();
        ("reward_mode", what, "set it to terminal".to_string())
    } else if let Some(levels) = &term.hysteresis
        && (levels.enter < guarantee.threshold || rule.leave.is_none_or(|leave| levels.leave < leave))
    {
        let audited = rule.leave.map_or("no hysteresis".to_string(), |leave| format!("leave: {leave}"));
        let what = format!(
            "the checkpoint's guarantee is about {audited}, and a threshold of {:.4}",
            guarantee.threshold
        );
        ("hysteresis", what, format!("leave it out, or audit with --leave {}", levels.leave))
    } else {
        return;
    };
    let why = format!("false rewards may be more often than in {} % of episodes", 100.0 * guarantee.max_rate);
    let fix = format!(
        "{fix}, or audit the model again through this rule (`plaudit reward audit` with --alarm, --hold, --leave)"
    );
    findings.add(
        "guarantee-of-another-rule",
        Severity::Warning,
        &format!("{place}.{key}"),
        Remark { what, why, fix },
    );
}

/// Channels, height and width of a model's input: as its checkpoint says, or else as a run takes it to be.
pub(super) fn input_size(loaded: &LoadedConfig, block: &str, model: &RewardModelSettings) -> [usize; 3] {
    let found = model.model_path.as_ref().and_then(|path| ClassifierCheckpoint::read(Path::new(path)).ok());
    match found {
        Some(checkpoint) => checkpoint.network(&given_network(loaded, block, model)).settings.image_size,
        None => scoring_network(model).image_size,
    }
}

/// A value that a run would refuse.
fn disagreement(findings: &mut Findings<'_>, block: &str, path: &Path, difference: &SettingDifference) {
    let SettingDifference { key, is } = difference;
    findings.add(
        "checkpoint-differs",
        Severity::Error,
        &format!("{block}.{key}"),
        Remark {
            what: format!("{} was made with {key}: {is}", path.display()),
            why: "its input would differ from its training images, or it does not fit; plaudit refuses to start"
                .into(),
            fix: overrides(block, std::slice::from_ref(difference)),
        },
    );
}

/// Weights of another network.
fn unfit(findings: &mut Findings<'_>, block: &str, path: &Path, error: OpenError) {
    let why = match error {
        OpenError::Unfit { error, .. } => error.to_string(),
        other => other.to_string(),
    };
    findings.add(
        "checkpoint-differs",
        Severity::Error,
        &format!("{block}.model_path"),
        Remark {
            what: format!("{} does not fit the network that the config describes", path.display()),
            why,
            fix: "set the keys of the model as they were when it was trained".into(),
        },
    );
}
