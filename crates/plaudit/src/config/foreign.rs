//! Parts of a config that belong to something plaudit does not run: RLinf's vision-language-action models,
//! its other simulators, its other learners. They are kept by name, so that the rest of the config can be
//! read, checked and shown; a command that would need them refuses.

use plaudit_compose::{ComposeError, ErrorKind, Key, Node, Value, from_node};

use super::ConfigWritten;
use super::block::{Kind, Setting};
use super::blocks::actor::ModelSettings;
use super::blocks::algorithm::Algorithm;
use super::blocks::cluster::RobotConfig;
use super::blocks::env::{CameraSize, EnvSettings, InitParams, SensorConfigs, SimConfig};
use super::edit::{beside, get, get_mut, matching, put, take, text};

/// Something plaudit does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The block that belongs to it.
    pub(crate) block: String,
    /// Where it was named.
    pub(crate) path: String,
    /// What it is called.
    pub(crate) name: String,
}

/// What was found foreign, and the blocks that belong to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForeignParts {
    /// The foreign things.
    pub(crate) found: Vec<Foreign>,
    /// The blocks in which only what is understood counts.
    blocks: Vec<String>,
}

/// Robots whose settings plaudit knows.
const FRANKA_TASKS: &[&str] =
    &["FrankaEnv-v1", "PegInsertionEnv-v1", "FrankaBinRelocationEnv-v1", "BottleEnv-v1", "DexpnpEnv-v1"];

/// Work that is not plaudit's at all, such as training language models to reason, is said at once.
pub(crate) fn refuse_other_work(tree: &Node) -> Result<(), ComposeError> {
    let Some(task) = text(tree, "runner.task_type") else { return Ok(()) };
    let (Some(node), false) = (get(tree, "runner.task_type"), OUR_WORK.contains(&task)) else {
        return Ok(());
    };
    let message = format!("`{task}` is not something plaudit does; it knows {}", OUR_WORK.join(", "));
    let hint = "`plaudit config show --composed` prints any config, whatever it is for";
    Err(ComposeError::at(ErrorKind::Invalid { message }, &node.origin)
        .or_key("runner.task_type")
        .or_hint(hint))
}

const OUR_WORK: &[&str] = &["embodied", "embodied_eval", "sft"];

/// Reads a config of which some parts are foreign, leaving out what cannot be read inside those parts. Each
/// key left out is reported; a mistake anywhere else is a mistake.
pub(crate) fn read_except_foreign(
    tree: &mut Node,
    mut error: ComposeError,
    parts: &mut ForeignParts,
) -> Result<ConfigWritten, ComposeError> {
    loop {
        let Some(key) = error.key().map(|key| key.split('[').next().unwrap_or(key).to_string()) else {
            return Err(error);
        };
        let Some(block) = parts.blocks.iter().find(|block| key.starts_with(block.as_str())).cloned() else {
            return Err(error);
        };
        if take(tree, &key).is_none() {
            return Err(error);
        }
        parts.found.push(Foreign { block, path: key, name: "left out".into() });
        match from_node(tree) {
            Ok(written) => return Ok(written),
            Err(next) => error = next,
        }
    }
}

/// Names what is foreign as such, and hands free-form settings on.
pub(crate) fn find_foreign(tree: &mut Node) -> ForeignParts {
    let mut found = Vec::new();
    for path in matching(tree, "env.*") {
        foreign_robot(tree, &path, &mut found);
        let type_path = format!("{path}.env_type");
        found.extend(keep_by_name::<EnvSettings>(tree, &path, &type_path, SIMULATORS));
        pass_through_simulator_settings(tree, &path);
    }
    let mut belongs_to_model = Vec::new();
    found.extend(keep_by_name::<ModelSettings>(tree, "actor.model", "actor.model.model_type", MODELS));
    if found.iter().any(|foreign| foreign.block == "actor.model") {
        // What belongs to a foreign model: how it acts, is trained, and what it sees.
        belongs_to_model.extend(["rollout.model", "actor.optim", "env.train", "env.eval", "data"]);
    }
    found.extend(keep_by_name::<Algorithm>(tree, "algorithm", "algorithm.loss_type", LEARNERS));
    foreign_advantages(tree);
    foreign_word(tree, "data.dataset_name", DATASETS);
    foreign_hardware(tree);
    policy_setup(tree);
    let blocks = found.iter().map(|foreign| foreign.block.clone());
    let blocks = blocks.chain(belongs_to_model.into_iter().map(String::from)).collect();
    ForeignParts { found, blocks }
}

const SIMULATORS: &[&str] = &["maniskill", "embedded", "gymnasium", "realworld"];
const MODELS: &[&str] = &["mlp_policy", "cnn_policy", "random", "scripted", "resnet", "progress", "qwen3_vl"];
const LEARNERS: &[&str] = &["actor_critic", "ppo", "embodied_ppo", "embodied_sac", "sac", "rlpd"];
const ADVANTAGES: &[&str] = &["gae", "embodied_sac", "sac"];
const DATASETS: &[&str] = &["vlm_trend_reward_sft", "simple_vlm_trend_reward_sft"];

/// If the word at `type_path` is none of `ours`, renames it to `foreign`, keeps the name beside it, and drops the
/// keys of the block that only that foreign thing understands. A word that is nearly one of ours is a typo,
/// and is left to be refused.
fn keep_by_name<B: Setting>(tree: &mut Node, block: &str, type_path: &str, ours: &[&str]) -> Option<Foreign> {
    let is_foreign = |name: &&str| *name != "foreign" && !ours.contains(name) && !is_typo(name, ours);
    let name = text(tree, type_path).filter(is_foreign)?.to_string();
    let word = beside(get(tree, type_path)?, Value::Str(name.clone()));
    get_mut(tree, type_path)?.value = Value::Str("foreign".into());
    put(tree, &format!("{block}.foreign"), word);
    keep_known_keys::<B>(get_mut(tree, block)?);
    Some(Foreign { block: block.into(), path: type_path.into(), name })
}

/// Whether a word is nearly one of ours, and was probably meant to be.
fn is_typo(word: &str, ours: &[&str]) -> bool {
    ours.iter().any(|known| strsim::normalized_levenshtein(word, known) > 0.7)
}

/// A robot other than a Franka has settings of its own, and none of a Franka's defaults may stand in for them.
fn foreign_robot(tree: &mut Node, path: &str, found: &mut Vec<Foreign>) {
    let Some(id) = text(tree, &format!("{path}.init_params.id")).map(String::from) else { return };
    if text(tree, &format!("{path}.env_type")) != Some("realworld") || FRANKA_TASKS.contains(&id.as_str()) {
        return;
    }
    for key in ["override_cfg", "override_cfgs"] {
        take(tree, &format!("{path}.{key}"));
    }
    if let Some(node) = get_mut(tree, &format!("{path}.env_type")) {
        node.value = Value::Str("realworld_foreign".into());
    }
    found.push(Foreign { block: path.into(), path: format!("{path}.init_params.id"), name: id });
}

/// Machines with other robots attached.
fn foreign_hardware(tree: &mut Node) {
    for path in matching(tree, "cluster.node_groups.*.hardware") {
        if text(tree, &format!("{path}.type")).is_some_and(|name| name != "Franka") {
            for robot in matching(tree, &format!("{path}.configs.*")) {
                if let Some(node) = get_mut(tree, &robot) {
                    keep_known_keys::<RobotConfig>(node);
                }
            }
        }
    }
}

fn keep_known_keys<B: Setting>(block: &mut Node) {
    let known = keys_of::<B>();
    if let Value::Map(map) = &mut block.value {
        map.retain(|key, value| {
            // A foreign block may use a name of ours for something of another shape.
            matches!(key, Key::Str(name) if known.contains(&name.as_str())) && !value.is_missing()
        });
    }
}

fn keys_of<B: Setting>() -> Vec<&'static str> {
    match B::kind() {
        Kind::Block(doc) => doc.fields.iter().map(|field| field.name).collect(),
        _ => Vec::new(),
    }
}

/// Advantages have a name and no settings of their own.
fn foreign_advantages(tree: &mut Node) {
    let path = "algorithm.adv_type";
    let is_foreign =
        |name: &&str| *name != "foreign" && !ADVANTAGES.contains(name) && !is_typo(name, ADVANTAGES);
    if let Some(name) = text(tree, path).filter(is_foreign).map(String::from)
        && let Some(node) = get_mut(tree, path)
    {
        let kept = beside(node, Value::Str(name));
        node.value = Value::Str("foreign".into());
        put(tree, "algorithm.foreign_adv_type", kept);
    }
}

/// A word with no block of its own.
fn foreign_word(tree: &mut Node, path: &str, known: &[&str]) {
    if text(tree, path).is_some_and(|word| !known.contains(&word))
        && let Some(node) = get_mut(tree, path)
    {
        node.value = Value::Str("foreign".into());
    }
}

/// Policies for other robots name setups of their own; a Panda's that is not known is a mistake.
fn policy_setup(tree: &mut Node) {
    let known = ["panda-qpos", "panda-ee-dpos", "panda-ee-dpose", "panda-ee-target-dpose", "other"];
    let is_other =
        |word: &str| !known.contains(&word) && !word.starts_with("panda") && !is_typo(word, &known);
    if text(tree, "actor.model.policy_setup").is_some_and(is_other)
        && let Some(node) = get_mut(tree, "actor.model.policy_setup")
    {
        node.value = Value::Str("other".into());
    }
}

/// Keyword arguments for a simulator go to it as they are; cameras by name go under `cameras`.
fn pass_through_simulator_settings(tree: &mut Node, env: &str) {
    let init = format!("{env}.init_params");
    pass_through::<InitParams>(tree, &init, "other");
    pass_through::<SimConfig>(tree, &format!("{init}.sim_config"), "other");
    pass_through::<SensorConfigs>(tree, &format!("{init}.sensor_configs"), "cameras");
    for camera in matching(tree, &format!("{init}.sensor_configs.cameras.*")) {
        pass_through::<CameraSize>(tree, &camera, "other");
    }
}

fn pass_through<B: Setting>(tree: &mut Node, block: &str, into: &str) {
    let known = keys_of::<B>();
    let Some(Value::Map(map)) = get(tree, block).map(|node| &node.value) else { return };
    let unknown: Vec<String> = map
        .keys()
        .filter_map(|key| match key {
            Key::Str(name) if !known.contains(&name.as_str()) => Some(name.clone()),
            _ => None,
        })
        .collect();
    for name in unknown {
        if let Some(node) = take(tree, &format!("{block}.{name}")) {
            put(tree, &format!("{block}.{into}.{name}"), node);
        }
    }
}

/// Undoes the handing on: what was put under `other` and `cameras` goes back to where it was written.
pub(crate) fn undo_pass_through(arguments: &mut serde_json::Map<String, serde_json::Value>) {
    for inner in arguments.values_mut() {
        if let serde_json::Value::Object(inner) = inner {
            undo_pass_through(inner);
        }
    }
    for key in ["other", "cameras"] {
        if let Some(serde_json::Value::Object(inner)) = arguments.shift_remove(key) {
            arguments.extend(inner);
        }
    }
}
