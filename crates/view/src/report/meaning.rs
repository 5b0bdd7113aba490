//! What metrics mean, in a sentence under their curve.

/// What a group of metrics is called; empty for one that nobody named.
pub(super) fn group(prefix: &str) -> &'static str {
    match prefix {
        "eval" => "Evaluation",
        "env" => "Episodes in training",
        "reward" => "Reward terms, before weighting",
        "rollout" => "Rollouts",
        "train" => "Learner",
        "hacking" => "Hacking monitor",
        "time" => "Time, in seconds",
        "memory" => "Memory",
        _ => "",
    }
}

/// Where a group stands among the others: what a policy does before how it learns, and how long that takes last.
pub(super) fn place(prefix: &str) -> usize {
    let order = ["eval", "env", "reward", "hacking", "rollout", "train"];
    let last = ["rates", "time", "memory"];
    let at = |list: &[&str]| list.iter().position(|known| *known == prefix);
    at(&order).or_else(|| Some(order.len() + 1 + at(&last)?)).unwrap_or(order.len())
}

/// What a metric means and which way it should go.
pub(super) fn of(metric: &str) -> Option<&'static str> {
    MEANINGS.iter().find(|(name, _)| *name == metric).map(|(_, meaning)| *meaning)
}

const MEANINGS: &[(&str, &str)] = &[
    ("eval/success_once", "Success rate at any step (simulator ground truth)."),
    ("eval/success_at_end", "Success rate at the last step (simulator ground truth)."),
    ("eval/return", "Sum of the environment’s reward per episode."),
    ("eval/reward", "The environment’s reward per step."),
    ("eval/episode_len", "Steps per episode."),
    ("eval/num_trajectories", "Episodes of each evaluation."),
    ("eval/auc", "Probability that a success scores higher than a failure; 1 is best, 0.5 is random."),
    ("eval/average_precision", "Mean precision over the successes; 1 is best."),
    ("eval/ece", "Expected calibration error: mean gap between scores and success rates; 0 is best."),
    ("eval/brier", "Mean squared error between score and label; 0 is best."),
    ("eval/val_loss", "Cross entropy on held-out data; where it rises, the model overfits."),
    ("eval/val_accuracy", "Accuracy at a threshold of 0.5."),
    ("env/success_once", "Success rate of training episodes at any step (simulator ground truth)."),
    ("env/success_at_end", "Success rate of training episodes at the last step (simulator ground truth)."),
    ("env/success_true", "Success rate of training episodes (simulator ground truth)."),
    ("env/success_by_model", "Success rate of training episodes according to the reward model."),
    ("env/return", "Sum of the environment’s reward per episode; not the learned reward."),
    ("env/reward", "The environment’s reward per step; not the learned reward."),
    ("env/episode_len", "Steps per episode."),
    ("env/num_trajectories", "Episodes that ended in each training step."),
    ("rollout/rewards", "Mean weighted reward per step: what the policy maximises."),
    ("rollout/advantages_mean", "Mean advantage before normalisation."),
    ("rollout/returns_mean", "Mean return: what the critic should predict."),
    (
        "train/actor/approx_kl",
        "How far each update moves the policy; above about 0.05, updates are too large.",
    ),
    (
        "train/actor/clip_fraction",
        "Share of probability ratios that are clipped; above about 0.3, updates are too large.",
    ),
    ("train/actor/entropy_loss", "How much the policy explores; it should fall slowly."),
    ("train/actor/grad_norm", "Norm of the gradient before clipping; spikes are a sign of instability."),
    ("train/actor/lr", "Learning rate of the policy."),
    ("train/critic/lr", "Learning rate of the critic."),
    ("train/critic/value_loss", "Loss of the critic."),
    (
        "train/critic/explained_variance",
        "1: the critic predicts returns perfectly; 0: no better than a constant.",
    ),
    (
        "train/critic/q_data",
        "Mean Q-value of actions from the replay buffer; unbounded growth is divergence.",
    ),
    (
        "train/actor/q_pi",
        "Mean Q-value of the policy’s actions; far above q_data, the policy exploits errors of the critics.",
    ),
    ("train/actor/entropy", "How much the policy explores; it should approach its target."),
    ("train/loss", "Loss on training data; it should fall."),
    ("train/accuracy", "Accuracy on training frames."),
    ("train/grad_norm", "Norm of the gradient before clipping; spikes are a sign of instability."),
    ("train/learning_rate", "Learning rate."),
    ("time/step", "Seconds per training step."),
    ("time/generate_rollouts", "Seconds of rollout generation."),
    ("time/reward/compute_rewards", "Seconds of reward computation."),
    ("time/actor_training", "Seconds of policy updates."),
    ("time/eval", "Seconds per evaluation."),
    ("time/env_steps_per_second", "Steps of all environments per second."),
    ("memory/peak_mib", "Peak memory so far, in MiB; unbounded growth is a leak."),
];
