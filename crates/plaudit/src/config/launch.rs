//! What RLinf's start scripts put into every config before it runs, for configs that rely on it.

use plaudit_compose::{Node, Origin, Sources, Value};

use super::edit::{is_set, put, take, text};
use super::sources::Disk;

/// Gives `${runner.logger.log_path}` and `${runner.logger.experiment_name}` a value where something refers to
/// them and nothing sets them, and takes `DEBUG_IMAGE_SAVE_DIR` from the environment.
pub(crate) fn apply_launcher_defaults(tree: &mut Node, disk: &Disk, name: &str) {
    let name = name.trim_end_matches(".yaml").rsplit('/').next().unwrap_or(name);
    let time = disk.now().strftime("%Y%m%d-%H:%M:%S").to_string();
    let run = format!("logs/{time}-{name}");
    // RLinf's files say `../results` and its start scripts never let that stand.
    if matches!(text(tree, "runner.logger.log_path"), Some("../results" | "")) {
        take(tree, "runner.logger.log_path");
    }
    for (key, value) in [("runner.logger.experiment_name", name), ("runner.logger.log_path", run.as_str())] {
        if refers_to(tree, key) && !is_set(tree, key) {
            put(tree, key, set_by("launch", value));
        }
    }
    // RLinf starts configs of this name by another script, `train_async.py`.
    if name.ends_with("_async") && is_set(tree, "algorithm") && !is_set(tree, "runner.asynchronous") {
        put(
            tree,
            "runner.asynchronous",
            Node { value: Value::Bool(true), origin: Origin::new("launch", 0, 0) },
        );
    }
    if let Ok(directory) = std::env::var("DEBUG_IMAGE_SAVE_DIR")
        && is_set(tree, "reward")
    {
        put(tree, "reward.model.debug_save_dir", set_by("DEBUG_IMAGE_SAVE_DIR", &directory));
    }
}

fn set_by(who: &str, value: &str) -> Node {
    Node { value: Value::Str(value.into()), origin: Origin::new(who, 0, 0) }
}

fn refers_to(node: &Node, key: &str) -> bool {
    match &node.value {
        Value::Str(text) => text.contains(&format!("${{{key}}}")),
        Value::List(items) => items.iter().any(|item| refers_to(item, key)),
        Value::Map(map) => map.values().any(|item| refers_to(item, key)),
        _ => false,
    }
}
