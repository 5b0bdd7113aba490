//! What a run's config says that a page about it needs.

use std::path::PathBuf;

use plaudit_compose::{Key, Node, Value};
use plaudit_view::{RewardUsed, RunDir};

use crate::failure::Failure;

/// Keys that say where a run keeps things, or which random numbers it samples. Runs that differ in these alone are seeds of
/// one experiment.
const PLACES_AND_SEEDS: [&str; 6] =
    ["seed", "log_path", "save_dir", "video_base_dir", "resume_dir", "debug_save_dir"];

/// The config that a run kept; empty if it kept none.
pub(in crate::commands) struct RunConfig {
    tree: Option<Node>,
}

impl RunConfig {
    /// Reads the config of a run.
    pub(in crate::commands) fn of(run: &RunDir) -> Result<Self, Failure> {
        let path = run.config();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self { tree: None }),
            Err(error) => {
                return Err(Failure::runtime(format!("cannot read {}: {error}", path.display()), None));
            }
        };
        let tree = plaudit_compose::parse_yaml(&path.display().to_string(), &text)?;
        Ok(Self { tree: Some(tree) })
    }

    fn get(&self, key: &str) -> Option<&Node> {
        self.tree.as_ref()?.get(key)
    }

    fn is_learned(&self) -> bool {
        self.get("reward.use_reward_model").and_then(Node::as_bool).unwrap_or(false)
    }

    /// The reward model that rewards the run.
    pub(in crate::commands) fn model(&self) -> Option<PathBuf> {
        self.is_learned().then(|| self.get("reward.model.model_path")?.as_str().map(PathBuf::from)).flatten()
    }

    /// Each term of the reward, and its weight, by the names that `reward/…` metrics have.
    pub(in crate::commands) fn reward(&self) -> RewardUsed {
        if self.tree.is_none() {
            return RewardUsed::default();
        }
        if !self.is_learned() {
            return RewardUsed { is_learned: false, weights: vec![("env".into(), 1.0)] };
        }
        let number = |key: &str, default: f64| self.get(key).and_then(Node::as_f64).unwrap_or(default);
        let env = match self.get("reward.combine_mode").and_then(Node::as_str) {
            Some("replace") => 0.0,
            Some("add") => 1.0,
            _ => number("reward.env_reward_weight", 0.0),
        };
        let mut weights =
            vec![("model".to_string(), number("reward.reward_weight", 1.0)), ("env".to_string(), env)];
        for (name, term) in self.get("reward.terms").and_then(Node::as_map).into_iter().flatten() {
            let weight = term.get("weight").and_then(Node::as_f64).unwrap_or(1.0);
            weights.push((key_text(name), weight));
        }
        RewardUsed { is_learned: true, weights }
    }

    /// The environment that it is evaluated in.
    pub(in crate::commands) fn task(&self) -> Option<String> {
        self.get("env.eval.init_params.id").map(words)
    }

    /// Every key that tells experiments apart, with what it says.
    pub(in crate::commands) fn flat(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        if let Some(tree) = &self.tree {
            flatten(tree, "", &mut found);
        }
        found.retain(|(key, _)| is_significant(key));
        found
    }
}

fn is_significant(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    !PLACES_AND_SEEDS.contains(&last) && !key.starts_with("runner.logger.")
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Str(text) => text.clone(),
        other => other.to_string(),
    }
}

fn flatten(node: &Node, path: &str, found: &mut Vec<(String, String)>) {
    match &node.value {
        Value::Map(map) if !map.is_empty() => {
            for (key, value) in map {
                let key = key_text(key);
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                flatten(value, &path, found);
            }
        }
        _ => found.push((path.to_string(), words(node))),
    }
}

/// A value as it would be written.
pub(in crate::commands) fn words(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Str(text) => text.clone(),
        Value::List(items) => format!("[{}]", items.iter().map(words).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}: {}", key_text(key), words(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> RunConfig {
        RunConfig { tree: Some(plaudit_compose::parse_yaml("config.yaml", text).unwrap()) }
    }

    #[test]
    fn the_weights_are_those_that_training_goes_by() {
        let weights = |text: &str| -> Vec<(String, f64)> { config(text).reward().weights };
        let pair = |name: &str, weight: f64| (name.to_string(), weight);
        for (text, expected) in [
            ("reward: {use_reward_model: false}", vec![pair("env", 1.0)]),
            (
                "reward: {use_reward_model: true, reward_weight: 2.0, env_reward_weight: 0.0, combine_mode: weighted}",
                vec![pair("model", 2.0), pair("env", 0.0)],
            ),
            (
                "reward: {use_reward_model: true, env_reward_weight: 0.5, combine_mode: replace}",
                vec![pair("model", 1.0), pair("env", 0.0)],
            ),
            (
                "reward: {use_reward_model: true, combine_mode: add, terms: {still: {weight: -0.1}}}",
                vec![pair("model", 1.0), pair("env", 1.0), pair("still", -0.1)],
            ),
        ] {
            assert_eq!(weights(text), expected, "{text}");
        }
    }

    #[test]
    fn a_config_is_flat_and_lists_stay_whole() {
        let found =
            config("a: {b: [1, 2], c: null}\nd: text\nactor: {seed: 3}\nrunner: {logger: {name: x}}").flat();
        let expected = [("a.b", "[1, 2]"), ("a.c", "null"), ("d", "text")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_string(), value.to_string())));
    }
}
