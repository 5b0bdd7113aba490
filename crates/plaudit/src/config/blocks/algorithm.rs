//! `algorithm`: how a policy learns.

use super::actor::LrSchedule;
use crate::config::block::{block, choice};

choice! {
    /// The family of the learner.
    LossType {
        /// Proximal policy optimisation.
        Ppo = "actor_critic" | "ppo" | "embodied_ppo",
        /// Soft actor-critic, and RLPD when there is a `demo_buffer`.
        Sac = "embodied_sac" | "sac" | "rlpd",
        /// A learner of RLinf's that plaudit does not have.
        Foreign = "foreign",
    }
}

choice! {
    /// How advantages are made.
    AdvType {
        /// Generalised advantage estimation.
        Gae = "gae",
        /// None: the learner works on single transitions.
        Transitions = "embodied_sac" | "sac",
        /// A way of RLinf's that plaudit does not have.
        Foreign = "foreign",
    }
}

choice! {
    /// What a number belongs to when an action comes as a chunk of several.
    Level {
        /// Each action of a chunk.
        Action = "action_level",
        /// The chunk as a whole.
        Chunk = "chunk_level",
        /// Each token (of language-model policies; here the same as each action).
        Token = "token_level",
    }
}

choice! {
    /// Which ends of episodes are bootstrapped.
    Bootstrap {
        /// Truncation only: what a textbook says.
        Standard = "standard",
        /// Every end: success is treated like running out of time.
        Always = "always",
    }
}

choice! {
    /// How the values of several critics become one.
    AggQ {
        /// The smallest.
        Min = "min",
        /// The average.
        Mean = "mean",
    }
}

choice! {
    /// How the temperature is kept positive.
    AlphaType {
        /// Through softplus.
        Softplus = "softplus",
        /// Through exp.
        Exp = "exp",
        /// It does not change.
        Fixed = "fixed_alpha" | "fixed",
    }
}

choice! {
    /// What the critic's networks are made of.
    QHeadType {
        /// Layer norm, a target network.
        Default = "default",
        /// No norm, a target network: as soft actor-critic began.
        Plain = "plain",
        /// CrossQ: batch norm, no target network.
        CrossQ = "crossq",
    }
}

choice! {
    /// Which parameters of the target follow slowly.
    TargetUpdate {
        /// All of them.
        All = "all",
        /// The critics' heads; the rest is copied.
        QHeadOnly = "q_head_only",
    }
}

block! {
    /// How a policy learns.
    Algorithm as AlgorithmWritten {
        /// The family of the learner.
        loss_type: LossType = LossType::Ppo,
        /// The name RLinf has for a learner that plaudit does not have.
        foreign: Option<String> = None,
        /// How advantages are made. Not set: as the learner needs.
        adv_type: Option<AdvType> = None,
        /// Passes over each batch of experience (PPO), or updates per rollout (SAC).
        update_epoch: u64 = 1,
        /// Discount of the future.
        gamma: f64 = 0.99,
        /// Which ends of episodes are bootstrapped.
        bootstrap_type: Bootstrap = Bootstrap::Standard,
        /// Rollouts that share a start state.
        group_size: u64 = 1,

        /// PPO: how far advantages look ahead.
        gae_lambda: f64 = 0.95,
        /// PPO: scale advantages to mean 0 and deviation 1.
        normalize_advantages: bool = true,
        /// PPO: what a reward belongs to.
        reward_type: Level = Level::Action,
        /// PPO: what a log-probability belongs to.
        logprob_type: Level = Level::Action,
        /// PPO: what an entropy belongs to.
        entropy_type: Level = Level::Action,
        /// PPO: how far a ratio may rise above 1.
        clip_ratio_high: f64 = 0.2,
        /// PPO: how far a ratio may fall below 1.
        clip_ratio_low: f64 = 0.2,
        /// PPO: bound of the loss for very bad advantages (dual clip). Not set: no such bound.
        clip_ratio_c: Option<f64> = None,
        /// PPO: how far a value may move per update. Not set: as far as it likes.
        value_clip: Option<f64> = None,
        /// PPO: where the value loss turns from square to straight.
        huber_delta: f64 = 10.0,
        /// PPO: reward for keeping options open.
        entropy_bonus: f64 = 0.0,
        /// PPO: weight of the distance to the old policy.
        kl_beta: f64 = 0.0,
        /// PPO: how that distance is estimated.
        kl_penalty: String = "kl".into(),
        /// PPO: stop the passes over a batch when the policy moved further than this. Not set: never.
        target_kl: Option<f64> = None,

        /// SAC: how far the target follows per update.
        tau: f64 = 0.005,
        /// SAC: updates between steps of the target.
        target_update_freq: u64 = 1,
        /// SAC: which parameters of the target follow slowly.
        target_update_type: TargetUpdate = TargetUpdate::All,
        /// SAC: how critics are combined for the target.
        agg_q: AggQ = AggQ::Min,
        /// SAC: how critics are combined for the policy. Not set: as `agg_q`.
        actor_agg_q: Option<AggQ> = None,
        /// SAC: critics drawn at random for each target. Not set: all.
        critic_subsample_size: Option<u64> = None,
        /// SAC: critic updates per policy update.
        critic_actor_ratio: u64 = 1,
        /// SAC: count entropy in the target.
        backup_entropy: bool = true,
        /// SAC: the least and the most that can be earned from any state, such as `[0, 1]` where success pays 1 and ends the
        /// episode; critics are not taught to expect more. Not set: no bounds.
        target_range: Option<[f64; 2]> = None,
        /// SAC: what the critic's networks are made of.
        q_head_type: QHeadType = QHeadType::Default,
        /// SAC: updates before the policy starts to learn.
        train_actor_steps: u64 = 0,
        /// SAC: the temperature.
        entropy_tuning: EntropyTuning = EntropyTuning::default(),
        /// SAC: shift images at random (DrQ).
        enable_drq: bool = false,
        /// SAC: pixels that `enable_drq` shifts them by, at most.
        drq_shift: u64 = 4,
        /// SAC: experience to learn from.
        replay_buffer: ReplaySettings = ReplaySettings::default(),
        /// RLPD: give networks each number of a state less its mean, by its deviation over the demonstrations.
        scale_states: bool = false,
        /// RLPD: how much the policy's loss weighs the distance to what demonstrations did, in units of what critics
        /// think the policy is worth. With `cloning`, its `std` is held as well.
        demo_weight: f64 = 0.0,
        /// RLPD: demonstrations, half of every batch.
        demo_buffer: Option<ReplaySettings> = None,
        /// Before learning by reward: do as demonstrations do. Not set: the policy begins with chance weights.
        cloning: Option<CloningSettings> = None,
        /// Asynchronous training: how many weight versions behind experience may be.
        staleness_threshold: Option<u64> = None,
    }
}

block! {
    /// Behaviour cloning, at the start of a run. A run that goes on from a checkpoint has it behind it.
    CloningSettings as CloningSettingsWritten {
        /// What is cloned: a store, a LeRobot dataset, a replay buffer (`.pt`) or episodes (`.pkl`). Not set:
        /// `algorithm.demo_buffer.load_path`.
        load_path: Option<String> = None,
        /// Steps of the optimiser.
        steps: u64 = 2000,
        /// Transitions per step.
        batch_size: u64 = 256,
        /// Learning rate of the first step; it falls to nothing.
        lr: f64 = 1e-3,
        /// The deviation that is left to explore with, as a share of half the range of an action.
        std: f64 = 0.1,
    }
}

block! {
    /// The temperature of soft actor-critic.
    EntropyTuning as EntropyTuningWritten {
        /// How the temperature is kept positive.
        alpha_type: AlphaType = AlphaType::Softplus,
        /// Where it starts.
        initial_alpha: f64 = 0.01,
        /// The entropy to hold. Not set: minus the width of an action.
        target_entropy: Option<f64> = None,
        /// How it is optimised.
        optim: AlphaOptim = AlphaOptim::default(),
    }
}

block! {
    /// How the temperature is optimised.
    AlphaOptim as AlphaOptimWritten {
        /// Learning rate.
        lr: f64 = 3e-4,
        /// How the learning rate moves.
        lr_scheduler: LrSchedule = LrSchedule::Constant,
        /// Longest gradient.
        clip_grad: f64 = 10.0,
    }
}

choice! {
    /// What sizes of a replay count.
    ReplayUnit {
        /// Whole rollouts of all environments, or whole demonstrations: what RLinf calls trajectories.
        Rollouts = "rollouts" | "trajectories",
        /// Single steps of single environments.
        Transitions = "transitions",
    }
}

block! {
    /// Experience kept for learning. RLinf counts whole rollouts ("trajectories"); so do these keys, unless `unit` says
    /// otherwise.
    ReplaySettings as ReplaySettingsWritten {
        /// What the three sizes count.
        unit: ReplayUnit = ReplayUnit::Rollouts,
        /// The most that is kept in memory.
        cache_size: u64 = 10_000,
        /// The newest that are drawn from.
        sample_window_size: u64 = 10_000,
        /// What is needed before learning starts.
        min_buffer_size: u64 = 0,
        /// RLPD: demonstrations to start from: a store, a LeRobot dataset, a replay buffer (`.pt`) or episodes (`.pkl`).
        load_path: Option<String> = None,
        /// RLPD: what an episode of the run itself must be paid at its end to join the demonstrations. Not set: none does.
        keep_paid: Option<f64> = None,
        /// With `reward.reload_model`: the most memory for frames that only the reward looks at, so that what is kept can
        /// be paid anew. Beyond it the oldest keep the pay they have.
        reward_frames_mib: u64 = 1024,
        /// Keep experience on disk as well.
        auto_save: bool = false,
        /// Where experience is kept on disk.
        auto_save_path: Option<String> = None,
    }
}
