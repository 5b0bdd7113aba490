//! Overrides of keys that a config does not write.
//!
//! Hydra refuses `a.b=c` where `a.b` is not written, since it cannot know whether it exists. plaudit can: its
//! keys are declared. So a plain override of a declared key, or of an older spelling of one, also adds it.

use plaudit_compose::Request;

use super::Config;
use super::block::{BlockDoc, Kind, Setting};
use super::legacy;

/// The request with `++` before every plain override of a key that plaudit knows.
pub(crate) fn open_known_keys(request: &Request) -> Request {
    let overrides = request.overrides.iter().map(|text| match plain_key(text) {
        Some(key) if is_known(key) => format!("++{text}"),
        _ => text.clone(),
    });
    Request { overrides: overrides.collect(), ..request.clone() }
}

/// The key of `a.b=c`; nothing for `+a=b`, for config groups (`group/x=y`, `group@package=y`) and for blocks.
fn plain_key(text: &str) -> Option<&str> {
    let (key, _) = text.split_once('=')?;
    let plain = key.contains('.') && key.chars().all(|c| c.is_alphanumeric() || "._".contains(c));
    plain.then_some(key)
}

fn is_known(key: &str) -> bool {
    let Kind::Block(root) = Config::kind() else { return false };
    declared(&root, key) || legacy::is_older_key(key)
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
    fn declared_and_older_keys_open_and_others_stay() {
        let check = |text: &str, expected: &str| {
            let request = Request::new("", "").with_overrides([text]);
            assert_eq!(open_known_keys(&request).overrides, [expected]);
        };
        check("runner.logger.log_path=x", "++runner.logger.log_path=x");
        check("reward.collect_data=True", "++reward.collect_data=True");
        check("reward.reward_model.checkpoint_path=a=b", "++reward.reward_model.checkpoint_path=a=b");
        check(
            "reward.model.history_buffers.w.history_size=3",
            "++reward.model.history_buffers.w.history_size=3",
        );
        check("runner.no_such_key=1", "runner.no_such_key=1");
        check("+runner.max_steps=1", "+runner.max_steps=1");
        check("env@env.eval=other", "env@env.eval=other");
        check("env=other", "env=other");
        check("~runner.max_steps", "~runner.max_steps");
    }
}
