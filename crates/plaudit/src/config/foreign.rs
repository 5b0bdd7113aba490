//! Parts of a config that belong to something plaudit does not run: RLinf's vision-language-action models,
//! its other simulators, its other learners. They are kept by name, so that the rest of the config can be
//! read, checked and shown; a command that would need them refuses.

use plaudit_compose::{ComposeError, ErrorKind, Key, Node, Value, from_node};

use super::ConfigWritten;
use super::block::{Kind, Setting};
use super::blocks::actor::ModelSettings;
use super::blocks::algorithm::Algorithm;
use super::blocks::cluster::RobotPlace;
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
pub(crate) struct SetApart {
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
pub(crate) fn read_what_can_be(
    tree: &mut Node,
    mut error: ComposeError,
    apart: &mut SetApart,
) -> Result<ConfigWritten, ComposeError> {
    loop {
        let Some(key) = error.key().map(|key| key.split('[').next().unwrap_or(key).to_string()) else {
            return Err(error);
        };
        let Some(block) = apart.blocks.iter().find(|block| key.starts_with(block.as_str())).cloned() else {
            return Err(error);
        };
        if take(tree, &key).is_none() {
            return Err(error);
        }
        apart.found.push(Foreign { block, path: key, name: "left out".into() });
        match from_node(tree) {
            Ok(written) => return Ok(written),
            Err(next) => error = next,
        }
    }
}

/// Names what is foreign as such, and hands free-form settings on.
pub(crate) fn set_apart(tree: &mut Node) -> SetApart {
    let mut found = Vec::new();
    for path in matching(tree, "env.*") {
        foreign_robot(tree, &path, &mut found);
        let type_path = format!("{path}.env_type");
        found.extend(keep_by_name::<EnvSettings>(tree, &path, &type_path, SIMULATORS));
        hand_on_simulator_settings(tree, &path);
    }
    let mut belongs_to_model = Vec::new();
    found.extend(keep_by_name::<ModelSettings>(tree, "actor.model", "actor.model.model_type", MODELS));
    if found.iter().any(|foreign| foreign.block == "actor.model") {
        // What belongs to a foreign model: how it acts, is trained, and what it sees.
        belongs_to_model.extend(["rollout.model", "actor.optim", "env.train", "env.eval", "data"]);
    }
    found.extend(keep_by_name::<Algorithm>(tree, "algorithm", "algorithm.loss_type", LEARNERS));
    foreign_word(tree, "algorithm.adv_type", ADVANTAGES);
    foreign_word(tree, "data.dataset_name", DATASETS);
    foreign_hardware(tree);
    policy_setup(tree);
    let blocks = found.iter().map(|foreign| foreign.block.clone());
    let blocks = blocks.chain(belongs_to_model.into_iter().map(String::from)).collect();
    SetApart { found, blocks }
}

const SIMULATORS: &[&str] = &["maniskill", "embedded", "gymnasium", "realworld"];
const MODELS: &[&str] = &["mlp_policy", "cnn_policy", "random", "scripted", "resnet", "qwen3_vl"];
const LEARNERS: &[&str] = &["actor_critic", "ppo", "embodied_ppo", "embodied_sac", "sac", "rlpd"];
const ADVANTAGES: &[&str] = &["gae", "embodied_sac", "sac"];
const DATASETS: &[&str] = &["vlm_trend_reward_sft", "simple_vlm_trend_reward_sft"];

/// If the word at `type_path` is none of `ours`, renames it to `foreign`, keeps the name beside it, and drops the
/// keys of the block that only that foreign thing understands. A word that is nearly one of ours is a slip of
/// the pen, and is left to be refused.
fn keep_by_name<B: Setting>(tree: &mut Node, block: &str, type_path: &str, ours: &[&str]) -> Option<Foreign> {
    let is_slip = |name: &str| ours.iter().any(|word| strsim::normalized_levenshtein(name, word) > 0.75);
    let is_foreign = |name: &&str| *name != "foreign" && !ours.contains(name) && !is_slip(name);
    let name = text(tree, type_path).filter(is_foreign)?.to_string();
    let word = beside(get(tree, type_path)?, Value::Str(name.clone()));
    get_mut(tree, type_path)?.value = Value::Str("foreign".into());
    put(tree, &format!("{block}.foreign"), word);
    keep_known_keys::<B>(get_mut(tree, block)?);
    Some(Foreign { block: block.into(), path: type_path.into(), name })
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
                    keep_known_keys::<RobotPlace>(node);
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

/// A word with no block of its own.
fn foreign_word(tree: &mut Node, path: &str, known: &[&str]) {
    if text(tree, path).is_some_and(|word| !known.contains(&word))
        && let Some(node) = get_mut(tree, path)
    {
        node.value = Value::Str("foreign".into());
    }
}

/// Policies for other robots name setups of their own.
fn policy_setup(tree: &mut Node) {
    let known = ["panda-qpos", "panda-ee-dpos", "panda-ee-dpose", "panda-ee-target-dpose", "other"];
    if text(tree, "actor.model.policy_setup").is_some_and(|word| !known.contains(&word))
        && let Some(node) = get_mut(tree, "actor.model.policy_setup")
    {
        node.value = Value::Str("other".into());
    }
}

/// Keyword arguments for a simulator go to it as they are; cameras by name go under `cameras`.
fn hand_on_simulator_settings(tree: &mut Node, env: &str) {
    let init = format!("{env}.init_params");
    hand_on::<InitParams>(tree, &init, "other");
    hand_on::<SimConfig>(tree, &format!("{init}.sim_config"), "other");
    hand_on::<SensorConfigs>(tree, &format!("{init}.sensor_configs"), "cameras");
    for camera in matching(tree, &format!("{init}.sensor_configs.cameras.*")) {
        hand_on::<CameraSize>(tree, &camera, "other");
    }
}

fn hand_on<B: Setting>(tree: &mut Node, block: &str, into: &str) {
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
pub(crate) fn take_back(arguments: &mut serde_json::Map<String, serde_json::Value>) {
    for inner in arguments.values_mut() {
        if let serde_json::Value::Object(inner) = inner {
            take_back(inner);
        }
    }
    for key in ["other", "cameras"] {
        if let Some(serde_json::Value::Object(inner)) = arguments.shift_remove(key) {
            arguments.extend(inner);
        }
    }
}
