//! How to use a threshold that is not stored in its checkpoint.

use std::path::Path;

use plaudit_nn::classifier::ClassifierSettings;
use plaudit_reward::audit::{AlarmFrames, AuditRule, OperatingPoint};
use serde::Serialize;

use super::super::legacy_flags::quoted;
use super::text::written;
use crate::config::block::Choice;

/// What makes others decide as the audit counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ManualSettings {
    /// Keys of a config for `train`, as overrides.
    overrides: Vec<String>,
    /// Flags of `reward eval` and `serve`.
    flags: String,
}

impl ManualSettings {
    /// For a model at a path; `foreign` is the network of a file that does not describe itself.
    pub(super) fn of(model: &Path, operating: &OperatingPoint, foreign: Option<&ClassifierSettings>) -> Self {
        let threshold = written(operating);
        let mut overrides = vec![format!("reward.model.model_path={}", word(&model.display().to_string()))];
        overrides.push(match operating.rule.leave {
            None => format!("reward.reward_threshold={threshold}"),
            Some(leave) => format!("reward.hysteresis={{enter:{threshold},leave:{leave}}}"),
        });
        overrides.extend(rule_overrides(operating));
        let mut flags = format!("--threshold {threshold}");
        if let Some(network) = foreign {
            overrides.extend(keys(network).map(|(key, value)| format!("reward.model.{key}={value}")));
            let [channels, height, width] = network.image_size;
            flags += &format!(" --image-size {channels} {height} {width} --normalize {}", network.normalize);
            if network.image_keys != ClassifierSettings::default().image_keys {
                flags += &format!(" --image-keys {}", network.image_keys.join(","));
            }
        }
        Self { overrides, flags }
    }

    /// Each use with what to write.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let overrides: Vec<String> = self.overrides.iter().map(|word| for_shell(word)).collect();
        [("in train", overrides.join(" ")), ("eval, serve", self.flags.clone())].into_iter()
    }
}

/// What a config must say, beside the threshold, for the rule that was audited.
fn rule_overrides(operating: &OperatingPoint) -> Vec<String> {
    let AuditRule { alarm, hold, .. } = operating.rule;
    let mode = (alarm == AlarmFrames::LastFrame).then(|| "reward.reward_mode=terminal".to_string());
    let hold = (hold.get() > 1).then(|| format!("reward.hold_steps={hold}"));
    mode.into_iter().chain(hold).collect()
}

/// What a config must say about a network, whatever its recipe says.
fn keys(network: &ClassifierSettings) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let precision = network.precision.word();
    let cameras: Vec<String> = network.image_keys.iter().map(|key| word(key)).collect();
    let [channels, height, width] = network.image_size;
    [
        ("arch", network.arch.name().to_string()),
        ("hidden_dim", network.hidden_dim.unwrap_or(0).to_string()),
        ("image_size", format!("[{channels},{height},{width}]")),
        ("normalize", network.normalize.to_string()),
        ("precision", precision.to_string()),
        ("image_keys", format!("[{}]", cameras.join(","))),
    ]
    .into_iter()
}

/// A text as an override takes it, in quotes only where it needs them.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    if text.chars().all(is_plain) { text.into() } else { quoted(text) }
}

/// A word that shells pass on as it is: brackets are patterns to them.
fn for_shell(word: &str) -> String {
    match word.contains(['[', '{', ' ', '\'', '\\']) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word.into(),
    }
}
