//! YAML that lost its indentation, as text copied from a web page does.
//!
//! Such a text cannot be read as YAML, but it can be read as plaudit's configuration: the keys are declared, so
//! each line has one place where it fits. A line goes into the innermost open block that knows its key.

use super::block::{Kind, Setting};
use super::{Config, legacy, unused};

/// The text with its indentation restored; nothing if it has any, or if it does not look as if it had lost it.
pub(crate) fn restore(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !is_remark(line)).collect();
    let flat = lines.iter().all(|line| !line.starts_with([' ', '\t']));
    let opens =
        |pair: &[&str]| pair[0].ends_with(':') && !pair[0].starts_with('-') && !pair[1].starts_with('-');
    if !flat || !lines.windows(2).any(opens) {
        return None;
    }
    let mut restorer =
        Restorer { open: vec![Open::new(Config::kind(), String::new(), 0)], text: String::new() };
    for line in lines {
        restorer.line(line);
    }
    Some(restorer.text)
}

fn is_remark(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// A block that further lines may belong to.
struct Open {
    kind: Kind,
    path: String,
    indent: usize,
}

impl Open {
    fn new(kind: Kind, path: String, indent: usize) -> Self {
        Self { kind, path, indent }
    }

    /// What a key means in this block: its kind, if the block knows it.
    fn knows(&self, key: &str) -> Option<Kind> {
        let plain = || Kind::Plain(String::new());
        let older = || legacy::is_older_key(&format!("{}.{key}", self.path)).then(plain);
        let unused = || unused::is_known(&self.path, key).then(plain);
        match &self.kind {
            Kind::Block(block) => {
                let field = block.fields.iter().find(|field| field.name.trim_start_matches("r#") == key);
                let elsewhere = || match (self.path.as_str(), key) {
                    // Guides print it here; it belongs to each batch of environments.
                    ("env", "data_collection") => Some(super::blocks::collection::Collection::kind()),
                    ("", "defaults") => Some(Kind::List(Box::new(Kind::Plain(String::new())))),
                    _ => None,
                };
                field.map(|field| field.kind.clone()).or_else(elsewhere).or_else(older).or_else(unused)
            }
            Kind::Names(inner) if COMPONENTS.contains(&key) => Some((**inner).clone()),
            Kind::Plain(words) if words.contains("node_group") => {
                ["node_group", "placement"].contains(&key).then(|| Kind::Plain(String::new()))
            }
            _ => None,
        }
    }
}

/// What can be placed on machines.
const COMPONENTS: &[&str] =
    &["actor", "env", "rollout", "reward", "critic", "inference", "reward_server", "agent"];

struct Restorer {
    open: Vec<Open>,
    text: String,
}

impl Restorer {
    fn line(&mut self, line: &str) {
        match line.strip_prefix("- ") {
            Some(item) => self.item(item),
            None => self.key(line),
        }
    }

    /// `key: value`, in the innermost block that knows the key; a name of the user's choice goes into the
    /// innermost block that takes such names.
    fn key(&mut self, line: &str) {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let key = key.trim().trim_matches(['"', '\'']);
        let known = (0..self.open.len()).rev().find_map(|at| Some((at, self.open[at].knows(key)?)));
        let named = || {
            self.open.iter().rposition(|open| matches!(open.kind, Kind::Names(_))).map(|at| {
                let Kind::Names(inner) = &self.open[at].kind else { return (at, Kind::Plain(String::new())) };
                (at, (**inner).clone())
            })
        };
        let (at, kind) = known.or_else(named).unwrap_or((0, Kind::Plain(String::new())));
        self.open.truncate(at + 1);
        self.write(self.open[at].indent, line);
        let is_empty = value.trim().is_empty() || value.trim().starts_with('#');
        if is_empty {
            let parent = &self.open[at];
            let path =
                if parent.path.is_empty() { key.to_string() } else { format!("{}.{key}", parent.path) };
            self.open.push(Open::new(kind, path, self.open[at].indent + 2));
        }
    }

    /// `- item`, in the innermost open list. An item that is a mapping opens a block for the lines after it.
    fn item(&mut self, item: &str) {
        let at = self.open.iter().rposition(|open| matches!(open.kind, Kind::List(_))).unwrap_or(0);
        self.open.truncate(at + 1);
        let (indent, path) = (self.open[at].indent, self.open[at].path.clone());
        self.write(indent, &format!("- {item}"));
        if let Kind::List(inner) = &self.open[at].kind
            && matches!(**inner, Kind::Block(_))
        {
            self.open.push(Open::new((**inner).clone(), path, indent + 2));
        }
    }

    fn write(&mut self, indent: usize, line: &str) {
        self.text.push_str(&format!("{:indent$}{line}\n", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flat: &str, expected: &str) {
        assert_eq!(restore(flat).as_deref(), Some(expected));
    }

    #[test]
    fn each_line_finds_its_block() {
        check(
            "env:\ndata_collection:\nenabled: True\nonly_success: False\n",
            "env:\n  data_collection:\n    enabled: True\n    only_success: False\n",
        );
        check(
            "reward:\nuse_reward_model: true\nmodel:\nmodel_type: resnet\nhistory_buffers:\nmine:\nhistory_keys:\n- main_images\ninput_on_done: false\ninterval_reward: 0.0\n",
            "reward:\n  use_reward_model: true\n  model:\n    model_type: resnet\n    history_buffers:\n      mine:\n        history_keys:\n          - main_images\n        input_on_done: false\n    interval_reward: 0.0\n",
        );
        check(
            "cluster:\nnum_nodes: 2\ncomponent_placement:\nenv:\nnode_group: franka\nplacement: 0\nreward:\nnode_group: \"4090\"\nplacement: 0\nnode_groups:\n- label: franka\nhardware:\ntype: Franka\nconfigs:\n- robot_ip: ROBOT_IP\nnode_rank: 1\nrunner:\nmax_epochs: 1\n",
            "cluster:\n  num_nodes: 2\n  component_placement:\n    env:\n      node_group: franka\n      placement: 0\n    reward:\n      node_group: \"4090\"\n      placement: 0\n  node_groups:\n    - label: franka\n      hardware:\n        type: Franka\n        configs:\n          - robot_ip: ROBOT_IP\n            node_rank: 1\nrunner:\n  max_epochs: 1\n",
        );
    }

    #[test]
    fn text_that_kept_its_indentation_is_left_alone() {
        assert_eq!(restore("reward:\n  use_reward_model: true\n"), None);
        assert_eq!(restore("a: 1\nb: 2\n"), None);
        assert_eq!(restore("items:\n- a\n- b\n"), None);
    }
}
