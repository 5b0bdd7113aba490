//! Keys of RLinf that mean nothing here: known by name, taken out with one notice, never an error.

use plaudit_compose::{Key, Node, Origin, Value};

use super::edit;

/// The list, as data: paragraphs of a block with a reason, and the keys.
const RLINF_KEYS: &str = include_str!("rlinf_keys.txt");

/// A key that was taken out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedKey {
    /// Its dotted path.
    pub path: String,
    /// Why it has no effect.
    pub reason: &'static str,
    /// Where it was written.
    pub origin: Origin,
}

/// Takes the keys out and returns those that were there.
pub(crate) fn prune(tree: &mut Node) -> Vec<UnusedKey> {
    let mut found = Vec::new();
    for paragraph in paragraphs() {
        let blocks = match paragraph.block {
            "." => vec![String::new()],
            pattern => edit::matching(tree, pattern),
        };
        for block in blocks {
            for key in &paragraph.keys {
                let path = if block.is_empty() { (*key).to_string() } else { format!("{block}.{key}") };
                if let Some(Node { origin, .. }) = edit::take(tree, &path) {
                    found.push(UnusedKey { path, reason: paragraph.reason, origin });
                }
            }
        }
    }
    drop_emptied(tree);
    found
}

/// Whether a key of a block is one of them.
pub(crate) fn is_known(block: &str, key: &str) -> bool {
    let block = match block.split_once('.') {
        Some(("env", rest)) => {
            format!("env.*{}", rest.split_once('.').map_or(String::new(), |(_, rest)| format!(".{rest}")))
        }
        _ if block.is_empty() => ".".into(),
        _ => block.to_string(),
    };
    paragraphs().iter().any(|paragraph| paragraph.block == block && paragraph.keys.contains(&key))
}

struct Paragraph {
    block: &'static str,
    reason: &'static str,
    keys: Vec<&'static str>,
}

fn paragraphs() -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    for line in RLINF_KEYS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match (line.strip_prefix("  "), line.split_once(": ")) {
            (None, Some((block, reason))) => paragraphs.push(Paragraph { block, reason, keys: Vec::new() }),
            _ => {
                if let Some(last) = paragraphs.last_mut() {
                    last.keys.extend(line.split_whitespace());
                }
            }
        }
    }
    paragraphs
}

/// A block of which nothing is left says nothing.
fn drop_emptied(tree: &mut Node) {
    for path in ["actor.model.extra_config", "actor.extra_config", "reward_training"] {
        if edit::get(tree, path).and_then(Node::as_map).is_some_and(|map| map.is_empty()) {
            edit::take(tree, path);
        }
    }
    if let Value::Map(map) = &mut tree.value {
        map.retain(|key, _| !matches!(key, Key::Str(name) if name == "hydra"));
    }
}

/// All of them in one notice, those with the same reason on one line.
pub(crate) fn notice_text(found: &[UnusedKey]) -> String {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for key in found {
        match lines.iter_mut().find(|(reason, _)| *reason == key.reason) {
            Some((_, paths)) => paths.push(&key.path),
            None => lines.push((key.reason, vec![&key.path])),
        }
    }
    let list: Vec<_> =
        lines.iter().map(|(reason, paths)| format!("  {} — {reason}", paths.join(", "))).collect();
    format!("keys of RLinf that have no effect here:\n{}", list.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::block::{BlockDoc, Kind, Setting};
    use plaudit_compose::parse_yaml;

    #[test]
    fn known_keys_go_and_typos_stay() {
        let mut tree = parse_yaml("t", "actor:\n  fsdp_config: {strategy: fsdp}\n  globl_batch_size: 3\nenv:\n  train:\n    enable_offload: true\n").unwrap();
        let paths: Vec<_> = prune(&mut tree).into_iter().map(|unused| unused.path).collect();
        assert_eq!(paths, ["env.train.enable_offload", "actor.fsdp_config"]);
        assert!(edit::get(&tree, "actor.globl_batch_size").is_some());
    }

    /// A key that is both declared and listed would be dropped before it could take effect.
    #[test]
    fn no_declared_key_is_listed() {
        let Kind::Block(root) = Config::kind() else { panic!("a block") };
        for paragraph in paragraphs() {
            if let Some(block) = find(&root, paragraph.block) {
                for field in &block.fields {
                    assert!(!paragraph.keys.contains(&field.name), "{}.{}", paragraph.block, field.name);
                }
            }
        }
    }

    fn find<'a>(root: &'a BlockDoc, path: &str) -> Option<&'a BlockDoc> {
        path.split('.').filter(|part| !part.is_empty()).try_fold(root, |block, part| {
            let name = if part == "*" { "train" } else { part };
            match &block.fields.iter().find(|field| field.name == name)?.kind {
                Kind::Block(inner) => Some(inner),
                _ => None,
            }
        })
    }
}
