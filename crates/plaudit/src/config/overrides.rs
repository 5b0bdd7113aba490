//! Overrides of keys that a config does not write.
//!
//! Hydra refuses `a.b=c` where `a.b` is not written, since it cannot know whether it exists. plaudit can: its
//! keys are declared. So a plain override of a declared key, or of an older spelling of one, also adds it.

use plaudit_compose::{ComposeError, ErrorKind};

use super::Config;
use super::block::{BlockDoc, Kind, Setting};
use super::{legacy, unused};

/// Whether a key exists, written or not.
pub(crate) fn is_known(key: &str) -> bool {
    let Kind::Block(root) = Config::kind() else { return false };
    let (block, name) = key.rsplit_once('.').unwrap_or(("", key));
    declared(&root, key) || legacy::is_older_key(key) || unused::is_known(block, name)
}

/// Hydra's advice for a key that is not there is to add it; but a key that is not declared cannot be added.
pub(crate) fn advise(error: ComposeError) -> ComposeError {
    let (ErrorKind::NoSuchKey { .. }, Some(key), Some(origin)) = (error.kind(), error.key(), error.origin())
    else {
        return error;
    };
    let (block, name) = first_unknown(key);
    let known = keys_of(block);
    let at = if block.is_empty() { name.to_string() } else { format!("{block}.{name}") };
    let unknown = ComposeError::at(ErrorKind::UnknownKey { key: name.into(), known: known.clone() }, origin)
        .or_key(&at);
    let rest = &key[at.len()..];
    let meant = match nearest(name, &known) {
        Some(near) if block.is_empty() => Some(format!("{near}{rest}")),
        Some(near) => Some(format!("{block}.{near}{rest}")),
        None => below_other_blocks(key),
    };
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "docs/config.md and `plaudit config show` list the keys there are".into(),
    };
    let unknown = unknown.or_hint(hint);
    match error.text() {
        Some(text) => unknown.with_texts(&[(origin.source.clone(), text.into())].into_iter().collect()),
        None => unknown,
    }
}

/// The block that is declared, and the first name in it that is not.
fn first_unknown(key: &str) -> (&str, &str) {
    let mut begins = 0;
    for name in key.split('.') {
        let block = key[..begins].trim_end_matches('.');
        let known = keys_of(block);
        if !known.is_empty() && !known.iter().any(|known| known == name) {
            return (block, name);
        }
        begins += name.len() + 1;
    }
    key.rsplit_once('.').unwrap_or(("", key))
}

/// The one declared key that ends in these words, where they were written without the blocks around them.
fn below_other_blocks(key: &str) -> Option<String> {
    let mut found = Vec::new();
    let mut blocks = vec![String::new()];
    while let Some(block) = blocks.pop() {
        for name in keys_of(&block) {
            let path = if block.is_empty() { name } else { format!("{block}.{name}") };
            if path.ends_with(&format!(".{key}")) {
                found.push(path.clone());
            }
            if path.split('.').count() < MAX_DEPTH {
                blocks.push(path);
            }
        }
    }
    if found.len() == 1 { found.pop() } else { None }
}

/// No block of a config lies deeper.
const MAX_DEPTH: usize = 8;

/// The keys declared in the block at a dotted path.
fn keys_of(path: &str) -> Vec<String> {
    let mut kind = Config::kind();
    for step in path.split('.').filter(|step| !step.is_empty()) {
        kind = match kind {
            Kind::Block(block) => match block.fields.into_iter().find(|field| field.name == step) {
                Some(field) => field.kind,
                None => return Vec::new(),
            },
            Kind::List(inner) | Kind::Names(inner) => *inner,
            Kind::Plain(_) | Kind::Choice(_) => return Vec::new(),
        };
    }
    match kind {
        Kind::Block(block) => {
            block.fields.iter().map(|field| field.name.trim_start_matches("r#").into()).collect()
        }
        _ => Vec::new(),
    }
}

fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let near = |other: &&String| strsim::jaro_winkler(name, other);
    known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|other| near(other) > 0.75)
}

fn declared(block: &BlockDoc, key: &str) -> bool {
    let (name, rest) = key.split_once('.').map_or((key, None), |(name, rest)| (name, Some(rest)));
    let Some(field) = block.fields.iter().find(|field| field.name.trim_start_matches("r#") == name) else {
        return false;
    };
    rest.is_none_or(|rest| declared_inside(&field.kind, rest))
}

fn declared_inside(kind: &Kind, key: &str) -> bool {
    match kind {
        Kind::Block(inner) => declared(inner, key),
        Kind::List(inner) | Kind::Names(inner) => {
            key.split_once('.').is_none_or(|(_, rest)| declared_inside(inner, rest))
        }
        Kind::Plain(_) | Kind::Choice(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_and_older_keys_are_open_and_others_are_not() {
        for key in ["runner.logger.log_path", "reward.collect_data", "reward.reward_model.checkpoint_path"] {
            assert!(is_known(key), "{key}");
        }
        assert!(is_known("reward.model.history_buffers.w.history_size"));
        assert!(is_known("actor.fsdp_config"), "known by name, and without effect");
        assert!(!is_known("runner.no_such_key") && !is_known("foo"));
    }

    #[test]
    fn the_name_that_is_wrong_is_the_one_that_is_named() {
        assert_eq!(first_unknown("algoritm.gamma"), ("", "algoritm"));
        assert_eq!(first_unknown("runner.loger.log_path"), ("runner", "loger"));
        assert_eq!(first_unknown("runner.logger.log_pth"), ("runner.logger", "log_pth"));
        let meant = below_other_blocks("encoder_config.ckpt_path");
        assert_eq!(meant.as_deref(), Some("actor.model.encoder_config.ckpt_path"));
        assert_eq!(below_other_blocks("init_params.id"), None, "there are two");
    }
}
