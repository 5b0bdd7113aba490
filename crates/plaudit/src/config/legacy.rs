//! Older and misplaced spellings, all of them, in one place. Each is read as today's spelling and mentioned
//! once. Where both are written, the command line wins over files, and otherwise today's spelling.

use plaudit_compose::{Map, Node, Value};

use super::edit::{beside, get, get_mut, is_set, matching, put, take, text};

/// A key that is read as another; `*` stands for one key and means the same key on both sides.
const RENAMED: &[(&str, &str)] = &[
    // Fragments of the reward block that guides print without it.
    ("reward_mode", "reward.reward_mode"),
    ("success_reward", "reward.success_reward"),
    ("fail_reward", "reward.fail_reward"),
    ("reward_threshold", "reward.reward_threshold"),
    ("combine_mode", "reward.combine_mode"),
    ("model", "reward.model"),
    // The reward block of earlier guides.
    ("reward.reward_model", "reward.model"),
    ("reward.resnet", "reward.model"),
    ("reward.reward_model_type", "reward.model.model_type"),
    ("reward.mode", "reward.combine_mode"),
    ("reward.checkpoint_path", "reward.model.model_path"),
    ("reward.model_path", "reward.model.model_path"),
    ("reward.debug_save_dir", "reward.model.debug_save_dir"),
    ("reward.gt_success_bonus", "reward.model.gt_success_bonus"),
    ("reward.model.checkpoint_path", "reward.model.model_path"),
    ("reward.model.threshold", "reward.reward_threshold"),
    ("reward.model.reward_threshold", "reward.reward_threshold"),
    ("reward.model.reward_type", "reward.reward_type"),
    ("reward.model.api_base", "reward.api.api_base"),
    ("reward.model.served_model_name", "reward.api.model"),
    ("reward.model.freeze_backbone", "reward.model.freeze_encoder"),
    ("reward.model.use_chat_template", "reward.model.input_builder_params.use_chat_template"),
    // Collection.
    ("reward.data_collection.max_positive_trajectories", "reward.data_collection.target_success"),
    ("reward.data_collection.max_negative_trajectories", "reward.data_collection.target_failure"),
    ("reward.data_collection", "env.train.data_collection"),
    ("reward.collect_data", "env.train.data_collection.enabled"),
    ("reward_data_collection", "env.train.data_collection"),
    // Training a reward model from inside a reinforcement learning config.
    ("reward_training.data_path", "data.data_path"),
    ("reward_training.epochs", "runner.max_epochs"),
    ("reward_training.micro_batch_size", "actor.micro_batch_size"),
    ("reward_training.global_batch_size", "actor.global_batch_size"),
    ("reward_training.lr", "actor.optim.lr"),
    ("reward_training.weight_decay", "actor.optim.weight_decay"),
    ("reward_training.clip_grad", "actor.optim.clip_grad"),
    ("reward_training.save_interval", "runner.save_interval"),
    ("reward_training.save_dir", "runner.logger.log_path"),
    ("actor.fsdp_config.sharding_strategy", "actor.sharding_strategy"),
    // Policies and learners.
    ("actor.model.model_name", "actor.model.model_type"),
    ("actor.model.extra_config.pretrained_ckpt_path", "actor.model.encoder_config.ckpt_path"),
    ("actor.extra_config.pretrained_ckpt_path", "actor.model.encoder_config.ckpt_path"),
    ("actor.model.q_head_type", "algorithm.q_head_type"),
    ("actor.enable_drq", "algorithm.enable_drq"),
    ("actor.optim.warmup_style", "actor.optim.lr_scheduler"),
    ("actor.optim.critic_lr", "actor.optim.value_lr"),
    ("algorithm.alpha_type", "algorithm.entropy_tuning.alpha_type"),
    ("algorithm.initial_alpha", "algorithm.entropy_tuning.initial_alpha"),
    ("algorithm.target_entropy", "algorithm.entropy_tuning.target_entropy"),
    ("algorithm.alpha_lr", "algorithm.entropy_tuning.optim.lr"),
    ("algorithm.num_updates_per_step", "algorithm.update_epoch"),
    ("algorithm.n_chunk_steps", "env.train.max_steps_per_rollout_epoch"),
    ("algorithm.n_eval_chunk_steps", "env.eval.max_steps_per_rollout_epoch"),
    ("algorithm.ratio_clip_eps", "algorithm.clip_ratio_high"),
    ("algorithm.rollout_epoch", "env.train.rollout_epoch"),
    ("algorithm.eval_rollout_epoch", "env.eval.rollout_epoch"),
    // Environments.
    ("env.*.simulator_type", "env.*.env_type"),
    ("env.*.num_envs", "env.*.total_num_envs"),
    ("env.*.gym_id", "env.*.init_params.id"),
    ("env.*.show_goal_site", "env.*.show_goal"),
    ("env.*.data_collection.show_goal_site", "env.*.show_goal"),
    ("env.*.obs_mode", "env.*.init_params.obs_mode"),
    // Runs and data.
    ("runner.eval_policy_path", "runner.ckpt_path"),
    ("runner.experiment_name", "runner.logger.experiment_name"),
    ("data.eval_data_paths", "data.val_data_paths"),
];

/// A word that is read as another, at a path.
const REWORDED: &[(&str, &str, &str)] = &[
    ("reward.model.model_type", "resnet_reward", "resnet"),
    ("reward.model.model_type", "history_vlm", "buffered_vlm"),
    ("reward.model.model_type", "history_vlm_sglang", "buffered_vlm"),
    ("reward.model.input_builder_name", "qwentrend_input_builder", "vlm_trend_reward_input_builder"),
    ("reward.model.input_builder_name", "history_vlm_input_builder", "buffered_vlm_input_builder"),
    ("reward.model.reward_parser_name", "qwentrend_reward_parser", "vlm_trend_reward_parser"),
    ("data.dataset_name", "qwentrend_progress_sft", "vlm_trend_reward_sft"),
    ("actor.model.model_type", "resnet_reward", "resnet"),
    ("actor.model.model_type", "cnn", "cnn_policy"),
    ("actor.model.model_type", "cnn-policy", "cnn_policy"),
    ("actor.model.model_type", "mlp", "mlp_policy"),
    ("actor.model.model_type", "mlp-policy", "mlp_policy"),
];

/// Environment variables that were renamed: looked up under the other name when unset.
pub(crate) const RENAMED_VARIABLES: &[(&str, &str)] =
    &[("DUALVIEW_SFT_DATA_ROOT", "VLM_TREND_REWARD_DATA_ROOT")];

/// One older spelling that was found: what was written and what it is read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OlderSpelling {
    /// As written.
    pub(crate) written: String,
    /// As read, or why it is not.
    pub(crate) read_as: String,
}

/// Brings a tree up to date and returns what was old in it.
pub(crate) fn modernise(tree: &mut Node) -> Vec<OlderSpelling> {
    let mut found = Vec::new();
    before_renaming(tree, &mut found);
    for &(old, new) in RENAMED {
        rename(tree, old, new, &mut found);
    }
    for &(path, old, new) in REWORDED {
        if text(tree, path) == Some(old) {
            reword(tree, path, old, new, &mut found);
        }
    }
    after_renaming(tree, &mut found);
    found
}

/// Whether a dotted key is an older spelling, or lies in a block that is.
pub(crate) fn is_older_key(key: &str) -> bool {
    RENAMED.iter().any(|(old, _)| {
        let mut parts = key.split('.');
        old.contains('.')
            && old.split('.').all(|part| parts.next().is_some_and(|key| part == "*" || part == key))
    })
}

fn rename(tree: &mut Node, old: &str, new: &str, found: &mut Vec<OlderSpelling>) {
    for path in matching(tree, old) {
        if !is_set(tree, &path) && !new.contains("data_collection") {
            take(tree, &path); // `total_num_envs: null` and the like say nothing
            continue;
        }
        let star = old.split('.').zip(path.split('.')).find(|(part, _)| *part == "*").map(|(_, key)| key);
        let target = star.map_or_else(|| new.to_string(), |key| new.replace('*', key));
        let Some(node) = take(tree, &path) else { continue };
        let before = get(tree, &target).filter(|before| !before.is_null() && !before.is_container()).cloned();
        put(tree, &target, node);
        let lost = before.is_some_and(|before| get(tree, &target).is_some_and(|now| now.same_value(&before)));
        let read_as = if lost { format!("nothing, since {target} is written too") } else { target };
        found.push(OlderSpelling { written: path, read_as });
    }
}

fn reword(tree: &mut Node, path: &str, old: &str, new: &str, found: &mut Vec<OlderSpelling>) {
    if let Some(node) = get_mut(tree, path) {
        node.value = Value::Str(new.into());
        found.push(OlderSpelling { written: format!("{path}: {old}"), read_as: format!("{path}: {new}") });
    }
}

/// What must be known before blocks change their names: which generation of a block this is.
fn before_renaming(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    for (block, arch) in [("reward.reward_model", "resnet10_spatial"), ("reward.resnet", "resnet10")] {
        imply(tree, block, &format!("{block}.arch"), Value::Str(arch.into()));
    }
    for key in ["reward.data_collection", "reward.collect_data"] {
        imply(tree, key, "reward.data_collection.export_format", Value::Str("npy".into()));
    }
    imply(
        tree,
        "reward_data_collection",
        "reward_data_collection.export_format",
        Value::Str("frames".into()),
    );
    soft_reward(tree, found);
    imply(tree, "reward.reward_model", "reward.reward_model.normalize", Value::Bool(false));
    if text(tree, "reward.model.model_type") == Some("history_vlm_sglang") {
        imply(tree, "reward.model.model_type", "reward.worker_type", Value::Str("api".into()));
    }
    if let Some(eps) = get(tree, "algorithm.ratio_clip_eps").cloned() {
        put(tree, "algorithm.clip_ratio_low", eps);
    }
    imply(tree, "reward.resnet", "reward.reward_type", Value::Str("binary".into()));
    plain_heads(tree);
    reward_training(tree, found);
    acting_model(tree);
    for env in matching(tree, "env.*") {
        groups_of_envs(tree, &env, found);
    }
}

/// Sets `path` where `because` is written and `path` is not.
fn imply(tree: &mut Node, because: &str, path: &str, value: Value) {
    if is_set(tree, path) {
        return;
    }
    if let Some(reason) = get(tree, because).filter(|node| !node.is_null()) {
        let node = beside(reason, value);
        put(tree, path, node);
    }
}

/// `use_soft_reward` chose between probabilities and zeros and ones.
fn soft_reward(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    for block in ["reward.resnet", "reward.model", "reward"] {
        let path = format!("{block}.use_soft_reward");
        let Some(node) = take(tree, &path) else { continue };
        let word = if matches!(node.value, Value::Bool(true)) { "continuous" } else { "binary" };
        put(tree, "reward.reward_type", beside(&node, Value::Str(word.into())));
        found.push(OlderSpelling { written: path, read_as: format!("reward.reward_type: {word}") });
    }
}

/// `reward_training` made a reinforcement learning config into one that trains a reward model.
fn reward_training(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    let enabled = take(tree, "reward_training.enabled");
    take(tree, "reward_training.only");
    if let Some(Node { value: Value::Bool(false), .. }) = enabled {
        take(tree, "reward_training");
    } else if let Some(block) = get(tree, "reward_training").cloned() {
        put(tree, "runner.task_type", beside(&block, Value::Str("sft".into())));
        put(tree, "actor.model.model_type", beside(&block, Value::Str("resnet".into())));
        put(tree, "actor.model.arch", beside(&block, Value::Str("resnet10".into())));
        put(tree, "data.num_samples_per_episode", beside(&block, Value::Int(0)));
        found.push(OlderSpelling {
            written: "reward_training".into(),
            read_as: "runner.task_type: sft".into(),
        });
    }
}

/// `hidden_dim: null` asks for a head without a hidden layer.
fn plain_heads(tree: &mut Node) {
    for path in ["actor.model.hidden_dim", "reward.model.hidden_dim"] {
        if let Some(node) = get_mut(tree, path).filter(|node| node.is_null()) {
            node.value = Value::Int(0);
        }
    }
}

/// A config that only evaluates names its network under `rollout`.
fn acting_model(tree: &mut Node) {
    if get(tree, "actor.model.model_type").is_none()
        && is_set(tree, "rollout.model.model_type")
        && let Some(model) = take(tree, "rollout.model")
    {
        put(tree, "actor.model", model);
    }
}

/// Environments used to be counted in groups.
fn groups_of_envs(tree: &mut Node, env: &str, found: &mut Vec<OlderSpelling>) {
    let number = |path: &str| get(tree, &format!("{env}.{path}")).and_then(Node::as_int);
    let (Some(groups), size) = (number("num_group"), number("group_size").unwrap_or(1)) else { return };
    let (old, new) = (format!("{env}.num_group"), format!("{env}.total_num_envs"));
    if let Some(node) = take(tree, &old) {
        put(tree, &new, beside(&node, Value::Int(groups.saturating_mul(size))));
        found.push(OlderSpelling { written: old, read_as: new });
    }
}

/// What can only be said once everything stands where it belongs.
fn after_renaming(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    if get(tree, "reward_training").and_then(Node::as_map).is_some_and(Map::is_empty) {
        take(tree, "reward_training");
    }
    // Rewards for success and failure only mean something to a reward of two values.
    for key in ["reward.success_reward", "reward.fail_reward"] {
        imply(tree, key, "reward.reward_type", Value::Str("binary".into()));
    }
    spread_collection(tree, found);
    fixed_alpha(tree, found);
    gpu_by_number(tree, found);
    for path in matching(tree, "env.*.init_params.control_mode") {
        if text(tree, &path) == Some("None") {
            take(tree, &path);
        }
    }
}

/// `env.data_collection` means every batch of environments the config has.
fn spread_collection(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    let Some(block) = take(tree, "env.data_collection") else { return };
    let mut targets: Vec<_> =
        ["env.train", "env.eval"].into_iter().filter(|path| get(tree, path).is_some()).collect();
    if targets.is_empty() {
        targets.push("env.train");
    }
    for target in targets {
        let path = format!("{target}.data_collection");
        put(tree, &path, block.clone());
        found.push(OlderSpelling { written: "env.data_collection".into(), read_as: path });
    }
}

/// `gpu: 0` is `device: cuda:0`.
fn gpu_by_number(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    for path in ["reward.model.gpu", "reward.hacking_monitor.model.gpu"] {
        let Some(Value::Int(number)) = get(tree, path).map(|node| node.value.clone()) else { continue };
        let Some(node) = take(tree, path) else { continue };
        let (device, written) = (path.replace(".gpu", ".device"), format!("{path}: {number}"));
        if !is_set(tree, &device) {
            put(tree, &device, beside(&node, Value::Str(format!("cuda:{number}"))));
        }
        found.push(OlderSpelling { written, read_as: format!("{device}: cuda:{number}") });
    }
}

/// `auto_entropy_tuning: False` is a temperature that does not change.
fn fixed_alpha(tree: &mut Node, found: &mut Vec<OlderSpelling>) {
    let Some(node) = take(tree, "algorithm.auto_entropy_tuning") else { return };
    if matches!(node.value, Value::Bool(false)) {
        let path = "algorithm.entropy_tuning.alpha_type";
        take(tree, path);
        put(tree, path, beside(&node, Value::Str("fixed_alpha".into())));
        let written = "algorithm.auto_entropy_tuning: false".into();
        found.push(OlderSpelling { written, read_as: format!("{path}: fixed_alpha") });
    }
}
