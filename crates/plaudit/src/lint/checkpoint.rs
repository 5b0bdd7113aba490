//! Rules about a checkpoint that a config names: whether it was made for how it is used.

use std::path::Path;

use plaudit_nn::Weights;
use plaudit_nn::classifier::{ClassifierSettings, Device, Scorer};
use plaudit_reward::card::ModelCard;

use super::{Findings, Remark, Severity};
use crate::build::network::{Described, Difference, differences};
use crate::config::blocks::reward::{RewardModelSettings, RewardModelType, RewardTerm, TermSource};

/// What each checkpoint says about itself against what the config says about it.
pub(super) fn agreement(findings: &mut Findings<'_>) {
    if !findings.is_paid_by_model() {
        return;
    }
    let reward = &findings.loaded.config.reward;
    let main = reward.main_term();
    let further = reward.terms.iter().map(|(name, term)| (format!("reward.terms.{name}.model"), term));
    for (block, term) in std::iter::once(("reward.model".to_string(), &main)).chain(further) {
        let judges = term.source == TermSource::Model && term.model.model_type == RewardModelType::Resnet;
        if let (true, Some(path)) = (judges, &term.model.model_path) {
            compare(findings, &block, term, Path::new(path));
        }
    }
}

fn compare(findings: &mut Findings<'_>, block: &str, term: &RewardTerm, path: &Path) {
    let written = Described::from(&term.model).settings();
    match read(path) {
        Err(why) => findings.add(
            "checkpoint-unreadable",
            Severity::Error,
            &format!("{block}.model_path"),
            Remark {
                what: "the weights cannot be read".into(),
                why,
                fix: "give the best_model folder of `plaudit reward train`, or a file of weights".into(),
            },
        ),
        Ok((_, Some(own))) => {
            for Difference { key, is } in differences(&own, &written) {
                disagreement(findings, &format!("{block}.{key}"), path, key, &is);
            }
        }
        Ok((weights, None)) => unfit(findings, block, path, &written, &weights),
    }
}

/// The weights, and the network they say they are of.
fn read(path: &Path) -> Result<(Weights, Option<ClassifierSettings>), String> {
    let weights = Weights::read(path).map_err(|error| error.to_string())?;
    let card =
        ModelCard::from_header(weights.metadata()).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((weights, card.map(|card| card.settings)))
}

/// Channels, height and width that a model looks at: as its checkpoint says, or else as the config does.
pub(super) fn looks_at(model: &RewardModelSettings) -> [usize; 3] {
    let own = model.model_path.as_ref().and_then(|path| read(Path::new(path)).ok()?.1);
    own.unwrap_or_else(|| Described::from(model).settings()).image_size
}

/// A value that a run would refuse if it is written, and replace by the checkpoint's own if it is a default.
fn disagreement(findings: &mut Findings<'_>, key: &str, path: &Path, name: &str, is: &str) {
    if !findings.loaded.is_written(key) {
        return;
    }
    findings.add(
        "checkpoint-differs",
        Severity::Error,
        key,
        Remark {
            what: format!("{} was made with {name}: {is}", path.display()),
            why: "it would be shown other pictures than it learned from, or does not fit; plaudit refuses to start"
                .into(),
            fix: format!("write {name}: {is}, or leave the key out: the checkpoint knows"),
        },
    );
}

/// Weights that say nothing about themselves are tried on.
fn unfit(
    findings: &mut Findings<'_>,
    block: &str,
    path: &Path,
    written: &ClassifierSettings,
    weights: &Weights,
) {
    let Err(error) = Scorer::new(written, weights, Device::Cpu) else { return };
    findings.add(
        "checkpoint-differs",
        Severity::Error,
        &format!("{block}.model_path"),
        Remark {
            what: format!("{} does not fit the network that the config describes", path.display()),
            why: error.to_string(),
            fix: "set the keys of the model as they were when it was trained".into(),
        },
    );
}
