//! The resolved configuration as a tree to show: what was written, and the defaults that matter beside it.

use plaudit_compose::{Key, Map, Node, Origin, Value};

use super::block::{BlockDoc, Kind, Setting};
use super::blocks::actor::ModelType;
use super::blocks::algorithm::LossType;
use super::blocks::env::{EnvSettings, EnvType};
use super::blocks::reward::has_small_trunk;
use super::blocks::runner::TaskType;
use super::{Config, edit};

/// The configuration with the place of each value. Blocks nobody wrote are left out, and so are keys that
/// only matter to another algorithm, model or robot, unless they were written.
pub(crate) fn as_tree(config: &Config, written: &Node) -> Node {
    let default = Origin::new("default", 0, 0);
    let values = serde_json::to_value(config).unwrap_or_default();
    let Kind::Block(doc) = Config::kind() else { return Node::empty_map(default) };
    let show = Show { config, written, default };
    show.block(&doc, &values, "")
}

fn runs_in_python(env: &EnvSettings) -> bool {
    let embedded = env.init_params.id.as_deref().is_some_and(|id| id.parse::<plaudit_env::EnvId>().is_ok());
    env.env_type == EnvType::Gymnasium || (env.env_type == EnvType::Maniskill && !embedded)
}

struct Show<'a> {
    config: &'a Config,
    written: &'a Node,
    default: Origin,
}

impl Show<'_> {
    fn block(&self, doc: &BlockDoc, values: &serde_json::Value, path: &str) -> Node {
        let mut map = Map::new();
        for field in &doc.fields {
            let name = field.name.trim_start_matches("r#");
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            let is_written = edit::get(self.written, &path).is_some();
            let whole_block = !path.contains('.') || matches!(path.as_str(), "env.train" | "env.eval");
            if !is_written && (whole_block || self.is_foreign(&path) || !self.matters(&field.about)) {
                continue;
            }
            let value = &values[name];
            let node = match &field.kind {
                Kind::Block(inner) if value.is_object() => self.block(inner, value, &path),
                _ => self.value(value, &path),
            };
            if self.says_something(&node, is_written) {
                map.insert(Key::Str(name.into()), node);
            }
        }
        Node { value: Value::Map(map), origin: self.origin(path) }
    }

    /// Whether a key lies in a block that belongs to something plaudit does not run: its defaults are not ours.
    fn is_foreign(&self, path: &str) -> bool {
        let config = self.config;
        let foreign_model = config.actor.model.model_type == ModelType::Foreign;
        [
            ("env.train.", foreign_model || config.env.train.env_type == EnvType::Foreign),
            ("env.eval.", foreign_model || config.env.eval.env_type == EnvType::Foreign),
            ("actor.", foreign_model),
            ("data.", foreign_model),
            ("algorithm.", config.algorithm.loss_type == LossType::Foreign),
        ]
        .iter()
        .any(|(block, foreign)| *foreign && path.starts_with(block))
    }

    /// An unset value or an empty block that nobody wrote is not worth a line.
    fn says_something(&self, node: &Node, is_written: bool) -> bool {
        let empty = match &node.value {
            Value::Null => true,
            Value::Map(map) => map.is_empty(),
            Value::List(items) => items.is_empty(),
            _ => false,
        };
        is_written || !empty
    }

    fn value(&self, value: &serde_json::Value, path: &str) -> Node {
        let value = match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(flag) => Value::Bool(*flag),
            serde_json::Value::String(text) => Value::Str(text.clone()),
            serde_json::Value::Number(number) => match number.as_i128() {
                Some(whole) => Value::Int(whole),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::Array(items) => Value::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.value(item, &format!("{path}.{at}")))
                    .collect(),
            ),
            serde_json::Value::Object(map) => Value::Map(
                map.iter()
                    .map(|(key, item)| (Key::Str(key.clone()), self.value(item, &format!("{path}.{key}"))))
                    .collect(),
            ),
        };
        Node { value, origin: self.origin(path) }
    }

    /// The place a value was written; inside lists, the place of the list.
    fn origin(&self, path: &str) -> Origin {
        let mut path = path;
        loop {
            if path.is_empty() {
                return self.default.clone();
            }
            if path.ends_with("init_params.control_mode") && edit::get(self.written, path).is_none() {
                return Origin::new("from actor.model.policy_setup", 0, 0);
            }
            if let Some(node) = edit::get(self.written, path) {
                return node.origin.clone();
            }
            match path.rsplit_once('.') {
                Some((list, at)) if at.parse::<usize>().is_ok() => path = list,
                _ => return self.default.clone(),
            }
        }
    }

    /// Whether a key matters here: its description starts with what it is for (`PPO: …`).
    fn matters(&self, about: &str) -> bool {
        let model = self.config.actor.model.model_type;
        let learner = self.config.algorithm.loss_type;
        let judge = !self.config.reward.model.model_type.is_image_classifier();
        let Some((tag, _)) = about.split_once(": ") else { return true };
        match tag {
            "PPO" => learner == LossType::Ppo,
            "SAC" | "RLPD" => learner == LossType::Sac,
            "Robot" => [&self.config.env.train, &self.config.env.eval]
                .iter()
                .any(|env| env.env_type == EnvType::Realworld),
            "Python" => [&self.config.env.train, &self.config.env.eval].iter().any(|env| runs_in_python(env)),
            "Policies" => matches!(model, ModelType::Mlp | ModelType::Cnn),
            "Scripted" => model == ModelType::Scripted,
            "Policies on images" => model == ModelType::Cnn,
            "Image reward model" => matches!(model, ModelType::Resnet | ModelType::Progress),
            "Progress model" => {
                model == ModelType::Progress || self.config.reward.model.model_type.is_progress()
            }
            "Images" => matches!(model, ModelType::Cnn | ModelType::Resnet | ModelType::Progress),
            "Vision-language judge" => model == ModelType::Qwen3Vl,
            "Judge" => judge,
            "Image classifier" => !judge,
            "Older classifier" => !judge && has_small_trunk(self.config.reward.model.arch),
            "Windows" => model == ModelType::Qwen3Vl && self.config.runner.task_type == TaskType::Sft,
            _ => true,
        }
    }
}
