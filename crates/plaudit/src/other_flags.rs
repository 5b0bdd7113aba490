//! Flags that other training scripts have, and what they are here: a word `key=value`, or another flag.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of other scripts and the key that is meant, where a command takes a config.
const KEYS: [(&[&str], &str); 25] = [
    (&["learning-rate", "lr"], "actor.optim.lr"),
    (&["weight-decay", "wd"], "actor.optim.weight_decay"),
    (&["warmup-steps", "lr-warmup-steps"], "actor.optim.lr_warmup_steps"),
    (&["lr-scheduler", "scheduler"], "actor.optim.lr_scheduler"),
    (&["max-grad-norm", "clip-grad", "grad-clip"], "actor.optim.clip_grad"),
    (&["batch-size", "global-batch-size", "train-batch-size"], "actor.global_batch_size"),
    (&["micro-batch-size", "per-device-train-batch-size"], "actor.micro_batch_size"),
    (&["epochs", "num-epochs", "max-epochs", "num-train-epochs"], "runner.max_epochs"),
    (&["steps", "max-steps", "num-steps", "total-steps"], "runner.max_steps"),
    (&["patience", "early-stopping-patience"], "runner.early_stop.patience"),
    (&["save-interval", "save-steps", "save-freq"], "runner.save_interval"),
    (&["eval-interval", "eval-steps", "val-interval", "val-check-interval"], "runner.val_check_interval"),
    (&["output-dir", "output", "log-dir", "log-path", "save-dir", "logdir"], "runner.logger.log_path"),
    (&["resume", "resume-dir", "resume-from-checkpoint"], "runner.resume_dir"),
    (&["seed"], "actor.seed"),
    (&["num-envs", "n-envs", "total-num-envs"], "env.train.total_num_envs"),
    (&["train-data", "train-data-path", "train-data-paths", "train-path"], "data.train_data_paths"),
    (&["val-data", "val-data-path", "val-data-paths", "val-path"], "data.val_data_paths"),
    (&["data", "data-path", "dataset", "data-dir"], "data.data_path"),
    (&["val-split", "val-ratio"], "data.val_split"),
    (&["arch", "model-arch", "backbone"], "actor.model.arch"),
    (&["dropout"], "actor.model.dropout"),
    (&["lora-rank", "lora-r"], "actor.model.lora_rank"),
    (&["normalize"], "actor.model.normalize"),
    (&["model-path", "model", "checkpoint", "ckpt", "pretrained-model"], "actor.model.model_path"),
];

/// The same of commands that measure or serve a model: what to write instead.
const WORDS: [(&[&str], &str); 5] = [
    (&["model", "model-path", "checkpoint", "ckpt"], "the model is a word of its own: MODEL"),
    (
        &["data", "data-path", "dataset", "val-data"],
        "the data is a word of its own, after the model: MODEL DATA",
    ),
    (&["cuda", "use-cuda"], "the flag is --device cuda"),
    (&["reward-threshold"], "the flag is --threshold"),
    (
        &["learning-rate", "lr", "epochs", "batch-size"],
        "nothing is trained here; see `plaudit reward train --help`",
    ),
];

/// What is meant by a flag that a command does not have, if that is known; `words` are those of the command line.
fn meant(words: &[String], flag: &str) -> Option<String> {
    let name = flag.trim_start_matches('-').split('=').next()?.replace('_', "-");
    let mut commands = words.iter().skip(1).filter(|word| !word.starts_with('-')).map(String::as_str);
    let command = (commands.next()?, commands.next());
    let find = |table: &[(&[&str], &'static str)]| {
        table.iter().find(|(flags, _)| flags.contains(&name.as_str())).map(|(_, meant)| *meant)
    };
    match command {
        ("train" | "eval" | "collect", _) | ("reward", Some("train" | "sft")) => {
            find(&KEYS).map(|key| format!("settings are words of the form key=value: {key}=…"))
        }
        ("reward", Some("eval" | "audit")) | ("serve", _) => find(&WORDS).map(String::from),
        _ => None,
    }
}

/// What to add to what the parser says about a command line, if anything.
#[must_use]
pub fn advice(error: &clap::Error, words: &[String]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else { return None };
    meant(words, flag)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    /// Every key that is advised is one.
    #[test]
    fn advised_keys_exist() {
        let known = include_str!("../../../docs/config.md");
        for (flags, key) in KEYS {
            let last = key.rsplit('.').next().unwrap();
            assert!(known.contains(&format!("`{last}`")), "{flags:?}: docs/config.md has no {key}");
        }
    }

    #[test]
    fn flags_of_other_scripts_are_answered_with_what_is_meant() {
        for (line, expected) in [
            ("plaudit reward train --learning-rate 1e-3", Some("actor.optim.lr=")),
            ("plaudit reward train --learning_rate=1e-3", Some("actor.optim.lr=")),
            ("plaudit reward sft pickcube_trend_sft --num-train-epochs 3", Some("runner.max_epochs=")),
            ("plaudit train pickcube_ppo --num-envs 64", Some("env.train.total_num_envs=")),
            ("plaudit reward eval --model x --data y", Some("MODEL")),
            ("plaudit reward audit run data --cuda", Some("--device cuda")),
            ("plaudit serve run --lr 3", Some("reward train --help")),
            ("plaudit reward train --quux 3", None),
            ("plaudit reward audit", None),
        ] {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let advice = advice(&error, &words);
            assert_eq!(advice.is_some(), expected.is_some(), "{line}: {advice:?}");
            assert!(advice.unwrap_or_default().contains(expected.unwrap_or_default()), "{line}");
        }
    }
}
