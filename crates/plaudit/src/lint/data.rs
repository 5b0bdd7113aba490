//! Rules about what is read, kept, seen and batched.

use std::collections::BTreeMap;

use super::{Finding, Findings, Remark, Severity};
use crate::config::Purpose;
use crate::config::blocks::algorithm::LossType;

/// Keys that are written and never read, one finding for each reason.
pub(super) fn unused_keys(findings: &mut Findings<'_>) {
    let mut by_reason: BTreeMap<&str, Vec<&crate::config::UnusedKey>> = BTreeMap::new();
    for unused in &findings.loaded.unused {
        by_reason.entry(unused.reason).or_default().push(unused);
    }
    for (reason, keys) in by_reason {
        let others = keys[1..].iter().map(|key| key.path.as_str()).collect::<Vec<_>>().join(", ");
        let others = if others.is_empty() { others } else { format!(" (likewise {others})") };
        findings.found.push(Finding {
            code: "unused-key",
            severity: Severity::Note,
            key: keys[0].path.clone(),
            place: Some(super::finding::place(&keys[0].origin)),
            what: format!("nothing reads it{others}"),
            why: reason.into(),
            fix: "remove it, or keep it for RLinf".into(),
        });
    }
}

/// Collections that keep less than their user expects.
pub(super) fn kept_episodes(findings: &mut Findings<'_>) {
    let envs = &findings.loaded.config.env;
    let kept = [("env.train", &envs.train), ("env.eval", &envs.eval)].map(|(path, env)| {
        (path, env.data_collection.enabled && env.data_collection.only_success, env.ignore_terminations)
    });
    for (path, only_success, ignores_terminations) in kept {
        let key = format!("{path}.data_collection.only_success");
        if only_success && ignores_terminations {
            findings.add("only-success-without-ends", Severity::Warning, &key, Remark {
                what: "true together with ignore_terminations".into(),
                why: "RLinf writes no file at all then, because no episode ends by success; plaudit keeps the episodes that succeeded before the clock ran out".into(),
                fix: "set only_success: false, or drop ignore_terminations, if RLinf is to run it as well".into(),
            });
        }
        if only_success {
            findings.add(
                "no-failures-kept",
                Severity::Note,
                &key,
                Remark {
                    what: "only successful episodes are kept".into(),
                    why: "a classifier trained on them alone never sees what failure looks like".into(),
                    fix: "set only_success: false, or collect failures apart".into(),
                },
            );
        }
    }
}

/// An image model for a goal that is not rendered.
pub(super) fn hidden_goal(findings: &mut Findings<'_>) {
    if !findings.uses_reward_model() {
        return;
    }
    let env = &findings.loaded.config.env.train;
    let has_goal = env.init_params.id.as_deref().is_none_or(|id| id.starts_with("PickCube"));
    if has_goal && !env.show_goal {
        findings.add("goal-not-visible", Severity::Error, "env.train.show_goal", Remark {
            what: "false: no camera shows where the cube must go".into(),
            why: "the same image is success in one episode and failure in the next; no image model can tell".into(),
            fix: "set show_goal: true (and collect the training data that way too)".into(),
        });
    }
}

/// A model that is measured on what it learned from.
pub(super) fn train_and_val(findings: &mut Findings<'_>) {
    if let Some(path) = crate::build::trained_and_validated_on(&findings.loaded.config.data) {
        findings.add("same-train-and-val", Severity::Error, "data.val_data_paths", Remark {
            what: format!("{path} is in data.train_data_paths too"),
            why: "a model is good at what it was shown: validation would choose the one that learned it by heart; plaudit refuses".into(),
            fix: "name other episodes, or set data.data_path, which is split by episode".into(),
        });
    }
}

/// Rollouts that are no whole number of batches.
pub(super) fn batches(findings: &mut Findings<'_>) {
    let config = &findings.loaded.config;
    let ppo = findings.loaded.purpose == Purpose::Rl && config.algorithm.loss_type == LossType::Ppo;
    if !ppo || !findings.loaded.is_written("actor.global_batch_size") {
        return;
    }
    let env = &config.env.train;
    let steps = env.total_num_envs.unwrap_or(1) as u64 * env.max_steps_per_rollout_epoch * env.rollout_epoch;
    let decisions = steps / config.actor.model.num_action_chunks.max(1);
    let batch = config.actor.global_batch_size;
    if batch > 0 && !decisions.is_multiple_of(batch) {
        findings.add(
            "uneven-batches",
            Severity::Warning,
            "actor.global_batch_size",
            Remark {
                what: format!("a rollout of {decisions} decisions is no multiple of {batch}"),
                why:
                    "RLinf refuses it; here the last batch of each pass is smaller, and its gradient noisier"
                        .into(),
                fix: format!(
                    "choose a divisor of {decisions}, such as {}",
                    nearest_divisor(decisions, batch)
                ),
            },
        );
    }
}

/// The largest divisor that is not above `wanted`, or all of it.
fn nearest_divisor(number: u64, wanted: u64) -> u64 {
    if wanted >= number {
        return number;
    }
    (1..=wanted).rev().find(|divisor| number.is_multiple_of(*divisor)).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::nearest_divisor;

    #[test]
    fn the_advised_batch_divides_the_rollout() {
        assert_eq!(nearest_divisor(6400, 6000), 3200);
        assert_eq!(nearest_divisor(6400, 9000), 6400);
        assert_eq!(nearest_divisor(7, 3), 1);
    }
}
