//! `algorithm`: how a policy learns.

use super::actor::LrSchedule;
use crate::config::block::{block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE};

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
        /// An estimator of RLinf's that plaudit does not have.
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
    Bootstrap = plaudit_rl::Bootstrap {
        /// Truncation only, as in textbooks.
        Standard = "standard",
        /// Every end: success is treated like running out of time.
        Always = "always",
    }
}

choice! {
    /// How the values of several critics become one.
    AggQ = plaudit_rl::sac::Agg {
        /// The smallest.
        Min = "min",
        /// The average.
        Mean = "mean",
    }
}

choice! {
    /// How the temperature is kept positive.
    AlphaType = plaudit_rl::sac::TemperatureKind {
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
    QHeadType = plaudit_rl::sac::CriticKind {
        /// Layer norm, a target network.
        LayerNorm = "default",
        /// No norm, a target network: as soft actor-critic began.
        Plain = "plain",
        /// CrossQ: batch norm, no target network.
        CrossQ = "crossq",
    }
}

choice! {
    /// What trains the encoder that policy and critics see images through.
    EncoderLoss = plaudit_rl::sac::EncoderLoss {
        /// The critics' loss, and the behaviour-cloning loss where there is `demo_weight`.
        Critics = "critics",
        /// The policy's loss. The critics' gradients stop at what the encoder puts out.
        Policy = "policy",
    }
}

choice! {
    /// Which parameters of the target network are updated softly.
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
        /// The name RLinf has for advantages that plaudit does not have.
        foreign_adv_type: Option<String> = None,
        /// Passes over each batch of experience (PPO), or updates per rollout (SAC).
        #[range(AT_LEAST_ONE)]
        update_epoch: u64 = 1,
        /// Discount of the future.
        #[range(SHARE)]
        gamma: f64 = 0.99,
        /// Which ends of episodes are bootstrapped.
        bootstrap_type: Bootstrap = Bootstrap::Standard,
        /// Rollouts that share a start state.
        #[range(AT_LEAST_ONE)]
        group_size: u64 = 1,

        /// PPO: lambda of generalised advantage estimation.
        #[range(SHARE)]
        gae_lambda: f64 = 0.95,
        /// PPO: scale advantages to mean 0 and deviation 1.
        normalize_advantages: bool = true,
        /// PPO: what a reward belongs to.
        reward_type: Level = Level::Action,
        /// PPO: what a log-probability belongs to.
        logprob_type: Level = Level::Action,
        /// PPO: what an entropy belongs to.
        entropy_type: Level = Level::Action,
        /// PPO: upper clip range of the probability ratio.
        #[range(NOT_NEGATIVE)]
        clip_ratio_high: f64 = 0.2,
        /// PPO: lower clip range of the probability ratio.
        #[range(NOT_NEGATIVE)]
        clip_ratio_low: f64 = 0.2,
        /// PPO: bound of the loss for very bad advantages (dual clip). Not set: no such bound.
        #[range(POSITIVE)]
        clip_ratio_c: Option<f64> = None,
        /// PPO: clip range of the value function. Not set: no clipping.
        #[range(NOT_NEGATIVE)]
        value_clip: Option<f64> = None,
        /// PPO: where the Huber loss of the value function turns from quadratic to linear.
        #[range(POSITIVE)]
        huber_delta: f64 = 10.0,
        /// PPO: weight of the entropy bonus.
        entropy_bonus: f64 = 0.0,
        /// PPO: weight of the KL divergence from the old policy.
        #[range(NOT_NEGATIVE)]
        kl_beta: f64 = 0.0,
        /// PPO: how that divergence is estimated.
        kl_penalty: String = "kl".into(),
        /// PPO: stop the passes over a batch when the KL divergence exceeds this. Not set: never.
        #[range(NOT_NEGATIVE)]
        target_kl: Option<f64> = None,

        /// SAC: rate of the soft target update.
        #[range(SHARE)]
        tau: f64 = 0.005,
        /// SAC: the policy that acts and is saved is a moving average of the one that learns, at the rate `tau`, and sees through
        /// the target's encoder. Steadier where a policy on images learns at a constant rate.
        average_policy: bool = false,
        /// SAC: updates between target updates.
        #[range(AT_LEAST_ONE)]
        target_update_freq: u64 = 1,
        /// SAC: which parameters of the target network are updated softly.
        target_update_type: TargetUpdate = TargetUpdate::All,
        /// SAC: how critics are combined for the target.
        agg_q: AggQ = AggQ::Min,
        /// SAC: how critics are combined for the policy. Not set: as `agg_q`.
        actor_agg_q: Option<AggQ> = None,
        /// SAC: critics sampled at random for each target. Not set: all.
        #[range(AT_LEAST_ONE)]
        critic_subsample_size: Option<u64> = None,
        /// SAC: critic updates per policy update.
        #[range(AT_LEAST_ONE)]
        critic_actor_ratio: u64 = 1,
        /// SAC: count entropy in the target.
        backup_entropy: bool = true,
        /// SAC: bounds of the return from any state, such as `[0, 1]` where success is rewarded with 1 and ends the
        /// episode; targets of the critics are clipped to them. Not set: no bounds.
        target_range: Option<[f64; 2]> = None,
        /// SAC: what the critic's networks are made of.
        q_head_type: QHeadType = QHeadType::LayerNorm,
        /// SAC: correlation of exploration noise from one step to the next. Independent noise (0) cancels out over the steps of an
        /// arm that moves by small differences; correlated noise takes it elsewhere.
        #[range(SHARE)]
        noise_correlation: f64 = 0.0,
        /// SAC on images: whose loss trains the encoder that both see through. `critics`, as RLinf, or `policy`, at the policy's
        /// learning rate: then what critics learn does not change what the policy sees.
        encoder_loss: EncoderLoss = EncoderLoss::Critics,
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
        /// RLPD: standardise states by their mean and standard deviation over the demonstrations.
        scale_states: bool = false,
        /// RLPD: weight of the behaviour-cloning term in the policy's loss, in units of the value that critics
        /// give the policy. With `cloning`, its `std` is held as well.
        #[range(NOT_NEGATIVE)]
        demo_weight: f64 = 0.0,
        /// RLPD: demonstrations, half of every batch.
        demo_buffer: Option<ReplaySettings> = None,
        /// Before reinforcement learning: behaviour cloning of demonstrations. Not set: the policy begins with random weights.
        cloning: Option<CloningSettings> = None,
        /// Asynchronous training: how many weight versions behind experience may be.
        staleness_threshold: Option<u64> = None,
    }
}

block! {
    /// Behaviour cloning, at the start of a run. A run that resumes from a checkpoint skips it.
    CloningSettings as CloningSettingsWritten {
        /// What is cloned: a store, a LeRobot dataset, a replay buffer (`.pt`) or episodes (`.pkl`). Not set:
        /// `algorithm.demo_buffer.load_path`.
        load_path: Option<String> = None,
        /// Steps of the optimiser.
        steps: u64 = 2000,
        /// Transitions per step.
        #[range(AT_LEAST_ONE)]
        batch_size: u64 = 256,
        /// Learning rate of the first step; it decays to 0.
        #[range(NOT_NEGATIVE)]
        lr: f64 = 1e-3,
        /// Standard deviation of the policy after cloning, for exploration, as a share of half the range of an action.
        #[range(POSITIVE)]
        std: f64 = 0.1,
    }
}

block! {
    /// The temperature of soft actor-critic.
    EntropyTuning as EntropyTuningWritten {
        /// How the temperature is kept positive.
        alpha_type: AlphaType = AlphaType::Softplus,
        /// Where it starts.
        #[range(NOT_NEGATIVE)]
        initial_alpha: f64 = 0.01,
        /// The target entropy. Not set: minus the width of an action.
        target_entropy: Option<f64> = None,
        /// How it is optimised.
        optim: AlphaOptim = AlphaOptim::default(),
    }
}

block! {
    /// How the temperature is optimised.
    AlphaOptim as AlphaOptimWritten {
        /// Learning rate.
        #[range(NOT_NEGATIVE)]
        lr: f64 = 3e-4,
        /// The learning rate schedule.
        lr_scheduler: LrSchedule = LrSchedule::Constant,
        /// Largest gradient norm; larger gradients are clipped to it.
        #[range(NOT_NEGATIVE)]
        clip_grad: f64 = 10.0,
    }
}

choice! {
    /// The unit of replay sizes.
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
        #[range(AT_LEAST_ONE)]
        cache_size: u64 = 10_000,
        /// Batches are sampled from this many of the newest.
        #[range(AT_LEAST_ONE)]
        sample_window_size: u64 = 10_000,
        /// What is needed before learning starts.
        min_buffer_size: u64 = 0,
        /// RLPD: demonstrations to start from: a store, a LeRobot dataset, a replay buffer (`.pt`) or episodes (`.pkl`).
        load_path: Option<String> = None,
        /// RLPD: the reward at the end of an episode of this run from which it joins the demonstrations (self-imitation). They have
        /// `cache_size` to themselves, and never evict demonstrations that were given. Not set: none does.
        self_imitation_min_reward: Option<f64> = None,
        /// With `reward.reload_model`: the most memory for frames that only the reward model uses, so that the replay buffer can
        /// be relabelled. Beyond it the oldest keep the rewards they have.
        reward_frames_mib: u64 = 1024,
        /// Keep experience on disk as well.
        auto_save: bool = false,
        /// Where experience is kept on disk.
        auto_save_path: Option<String> = None,
    }
}
