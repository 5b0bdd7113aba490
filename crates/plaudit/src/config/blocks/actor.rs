//! `actor` and `rollout`: the network that acts or is trained, and its optimiser.

use super::reward::{Arch, Precision};
use crate::config::block::{block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, Range, SHARE};

choice! {
    /// What network is trained or acts.
    ModelType {
        /// A policy on state vectors.
        Mlp = "mlp_policy",
        /// A policy on images and state.
        Cnn = "cnn_policy",
        /// Random actions, each equally likely.
        Random = "random",
        /// A script that solves the task, or fails at it on demand.
        Scripted = "scripted",
        /// An image reward model.
        Resnet = "resnet",
        /// An image reward model that learns from demonstrations alone how far the task is.
        Progress = "progress",
        /// A vision-language judge.
        Qwen3Vl = "qwen3_vl",
        /// A model of RLinf's that plaudit does not have.
        Foreign = "foreign",
    }
}

choice! {
    /// What an action of a manipulation policy means.
    PolicySetup {
        /// Changes of joint angles, and the gripper: 8 numbers.
        PandaQpos = "panda-qpos",
        /// Changes of the tool's position, and the gripper: 4 numbers.
        PandaEeDpos = "panda-ee-dpos",
        /// Changes of the tool's pose, and the gripper: 7 numbers.
        PandaEeDpose = "panda-ee-dpose",
        /// Such changes, counted from where the tool was to be rather than from where it is (ManiSkill through Python).
        PandaEeTargetDpose = "panda-ee-target-dpose",
        /// Any other robot: as the environment says.
        Other = "other",
    }
}

choice! {
    /// The activation after each hidden layer.
    Activation {
        /// The hyperbolic tangent, as RLinf has it.
        Tanh = "tanh",
        /// The rectified linear unit.
        Relu = "relu",
    }
}

choice! {
    /// The image encoder of a policy.
    Backbone {
        /// A ResNet-10 that was trained before and stays as it is.
        Resnet = "resnet",
        /// A few convolutions that learn with the policy.
        Conv = "conv",
        /// Such convolutions, reduced to where in the image each channel is active (keypoints): the most precise from few
        /// demonstrations.
        Keypoints = "keypoints",
    }
}

choice! {
    /// What is divided among the ranks of a training, in PyTorch's words. With one rank there is nothing to divide.
    ShardingStrategy {
        /// Nothing: every rank has the weights and the optimiser's state.
        NoShard = "no_shard" | "ddp",
        /// The optimiser's state and the summed gradients (ZeRO).
        ShardGradOp = "shard_grad_op" | "zero1" | "zero2",
        /// Also the weights. Not done here: refused with more than one rank.
        FullShard = "full_shard",
        /// The weights inside a machine. Not done here: refused with more than one rank.
        HybridShard = "hybrid_shard" | "_hybrid_shard_zero2",
    }
}

block! {
    /// The network that is trained, and how.
    Actor as ActorWritten {
        /// The network.
        model: ModelSettings = ModelSettings::default(),
        /// How it is optimised.
        optim: Optim = Optim::default(),
        /// How the critics are optimised. Not set: as the policy.
        critic_optim: Option<Optim> = None,
        /// Image reward model: the loss.
        loss: RewardLoss = RewardLoss::default(),
        /// Samples per step of the optimiser.
        #[range(AT_LEAST_ONE)]
        global_batch_size: u64 = 64,
        /// Samples that go through the network at once.
        #[range(AT_LEAST_ONE)]
        micro_batch_size: u64 = 32,
        /// Samples that go through the network at once in evaluation. Not set: as `micro_batch_size`.
        #[range(AT_LEAST_ONE)]
        eval_batch_size: Option<u64> = None,
        /// Reward models on several ranks: what is divided among them (RLinf: `fsdp_config.sharding_strategy`).
        sharding_strategy: ShardingStrategy = ShardingStrategy::NoShard,
        /// Seed of weights and batches.
        seed: u64 = 42,
        /// Do not wait for new weights to arrive (asynchronous training).
        sync_weight_no_wait: bool = false,
    }
}

block! {
    /// The network that acts during rollouts; what is not said here is as in `actor.model`.
    Rollout as RolloutWritten {
        /// The network.
        model: Option<RolloutModel> = None,
        /// Keep next observations, as replay needs them.
        collect_transitions: bool = false,
        /// Keep the log-probabilities and values of each step, as PPO needs them.
        collect_prev_infos: bool = true,
    }
}

block! {
    /// What the acting network may have of its own.
    RolloutModel as RolloutModelWritten {
        /// Weights.
        model_path: Option<String> = None,
        /// Precision of its arithmetic.
        precision: Option<Precision> = None,
        /// Critics.
        #[range(AT_LEAST_ONE)]
        num_q_heads: Option<u64> = None,
    }
}

block! {
    /// A network.
    ModelSettings as ModelSettingsWritten {
        /// What network.
        model_type: ModelType = ModelType::Mlp,
        /// The name RLinf has for a model that plaudit does not have.
        foreign: Option<String> = None,
        /// Weights to start from: a file, or a folder of a Hugging Face model.
        model_path: Option<String> = None,
        /// Weights loaded after the network is made.
        ckpt_path: Option<String> = None,
        /// Precision of its arithmetic.
        precision: Precision = Precision::Fp32,

        /// Policies: what an action means.
        policy_setup: PolicySetup = PolicySetup::PandaQpos,
        /// Policies: numbers in a state. Not set: as the environment says.
        obs_dim: Option<u64> = None,
        /// Policies on images: numbers in the state beside the images. Not set: as the environment says.
        state_dim: Option<u64> = None,
        /// Policies: numbers in an action. Not set: as the environment says.
        action_dim: Option<u64> = None,
        /// Policies: actions decided at once.
        #[range(AT_LEAST_ONE)]
        num_action_chunks: u64 = 1,
        /// Policies: a value head (PPO).
        add_value_head: bool = false,
        /// Policies: critics (SAC).
        add_q_head: bool = false,
        /// Policies: how many critics.
        #[range(AT_LEAST_ONE)]
        num_q_heads: u64 = 2,
        /// Policies: the standard deviation depends on the state.
        state_dependent_std: bool = false,
        /// Policies on states: widths of the hidden layers, of the policy and of the value head or the critics.
        #[range(AT_LEAST_ONE)]
        hidden_sizes: Vec<u64> = vec![256; 3],
        /// Policies on states, with SAC: the activation after each hidden layer, of the policy and of the critics.
        activation: Activation = Activation::Tanh,
        /// Policies on images: the image encoder.
        backbone: Backbone = Backbone::Resnet,
        /// Policies on images: how many cameras, the main one counted; used where `image_keys` names none.
        #[range(AT_LEAST_ONE)]
        image_num: u64 = 1,
        /// Policies on images: the pretrained trunk.
        encoder_config: Encoder = Encoder::default(),

        /// Scripted: standard deviation of noise added to every action. PickCube: about half the episodes fail at 0.25.
        #[range(NOT_NEGATIVE)]
        noise: f64 = 0.0,
        /// Scripted, PickCube: the share of episodes in which it misses on purpose and stands still there: the cube beside the goal or in
        /// line with it, an empty hand at the goal, a hand above the cube.
        #[range(SHARE)]
        misses: f64 = 0.0,

        /// Where it is trained: `auto` (a GPU if there is one; `cluster.component_placement` says which; the CPU for several ranks, an image reward
        /// model in fp16, all weights of a judge, and policies on states or above a frozen trunk), `cpu`, `cuda` or `cuda:N`.
        device: String = "auto".into(),
        /// Image reward model: the trunk.
        arch: Arch = Arch::Resnet18,
        /// Image reward model: start from ImageNet weights (needs `model_path`; nothing is downloaded).
        pretrained: bool = false,
        /// Image reward model: width of the head's hidden layer. 0: a plain linear head.
        hidden_dim: u64 = 256,
        /// Image reward model: dropout rate in training.
        #[range(SHARE)]
        dropout: f64 = 0.1,
        /// Image reward model: blocks of the spatial pooling (`resnet10_spatial`).
        #[range(AT_LEAST_ONE)]
        num_spatial_blocks: u64 = 8,
        /// Progress model: bins of its distribution over progress.
        #[range(Range::Within(2.0, 1000.0))]
        progress_bins: u64 = 20,
        /// Image reward model: pretrained trunk (`resnet10`, `resnet10_spatial`).
        pretrained_encoder_path: Option<String> = None,
        /// Image reward model: leave the trunk as it is (`resnet10`, `resnet10_spatial`).
        freeze_encoder: bool = true,
        /// Images: channels, height, width.
        #[range(Range::ImageSize)]
        image_size: [u64; 3] = [3, 128, 128],
        /// Images: subtract ImageNet's mean and divide by its deviation.
        normalize: bool = true,
        /// Images: the cameras, main view first. Empty: the main view alone. An image reward model may also take earlier frames:
        /// `main_images@-4` is the frame of that camera four steps before.
        image_keys: Vec<String> = Vec::new(),
        /// Image reward model: all cameras go through the same trunk; off, each has its own.
        shared_trunk: bool = true,

        /// Vision-language judge: train low-rank adapters and leave the model frozen.
        is_lora: bool = false,
        /// Vision-language judge: rank of the adapters.
        #[range(AT_LEAST_ONE)]
        lora_rank: u64 = 32,
        /// Vision-language judge: scale of the adapters. Not set: as the rank.
        #[range(POSITIVE)]
        lora_alpha: Option<f64> = None,
        /// Vision-language judge: layers that get an adapter, by the last part of their name. Empty: RLinf's list.
        lora_targets: Vec<String> = Vec::new(),
        /// Vision-language judge: leave the vision part frozen.
        freeze_vit: bool = false,
        /// Vision-language judge: recompute activations in the backward pass instead of keeping them; less memory.
        gradient_checkpointing: GradientCheckpointing = GradientCheckpointing::Auto,
        /// Vision-language judge: where its weights come from.
        init: WeightInit = WeightInit::Pretrained,
        /// Vision-language judge, random weights: their standard deviation.
        #[range(POSITIVE)]
        initializer_range: f64 = 0.02,
        /// Vision-language judge, random weights and no `model_path`: the language model.
        text_config: TextSizes = TextSizes::default(),
        /// Vision-language judge, random weights and no `model_path`: the vision tower.
        vision_config: VisionSizes = VisionSizes::default(),
    }
}

choice! {
    /// Whether activations are computed again in the backward pass.
    GradientCheckpointing = plaudit_nn::qwen3_vl::Recompute {
        /// On a GPU, if its memory does not hold all of them.
        Auto = "auto",
        /// Always.
        Always = "true",
        /// Never.
        Never = "false",
    }
}

choice! {
    /// Where weights come from.
    WeightInit {
        /// The files in `model_path`.
        Pretrained = "pretrained",
        /// Random. Sizes and tokenizer are those of `model_path`; without it, of `text_config` and `vision_config` with a
        /// tokenizer made of the questions in the data.
        Random = "random",
    }
}

block! {
    /// Sizes of a Qwen3-VL's language model, as `config.json` names them.
    TextSizes as TextSizesWritten {
        /// Width of the hidden states.
        #[range(AT_LEAST_ONE)]
        hidden_size: u64 = 64,
        /// Layers.
        #[range(AT_LEAST_ONE)]
        num_hidden_layers: u64 = 2,
        /// Query heads.
        #[range(AT_LEAST_ONE)]
        num_attention_heads: u64 = 2,
        /// Key and value heads.
        #[range(AT_LEAST_ONE)]
        num_key_value_heads: u64 = 2,
        /// Width of a head.
        #[range(AT_LEAST_ONE)]
        head_dim: u64 = 32,
        /// Width of the feed-forward layer.
        #[range(AT_LEAST_ONE)]
        intermediate_size: u64 = 192,
        /// Base of the rotary position embeddings.
        #[range(POSITIVE)]
        rope_theta: f64 = 10_000.0,
        /// Rotary frequencies for time, row and column; together half of `head_dim`.
        mrope_section: [u64; 3] = [6, 5, 5],
    }
}

block! {
    /// Sizes of a Qwen3-VL's vision tower, as `config.json` names them.
    VisionSizes as VisionSizesWritten {
        /// Width of the hidden states.
        #[range(AT_LEAST_ONE)]
        hidden_size: u64 = 64,
        /// Blocks.
        #[range(AT_LEAST_ONE)]
        depth: u64 = 2,
        /// Heads.
        #[range(AT_LEAST_ONE)]
        num_heads: u64 = 2,
        /// Width of the feed-forward layer.
        #[range(AT_LEAST_ONE)]
        intermediate_size: u64 = 192,
        /// Side of a patch in pixels.
        #[range(AT_LEAST_ONE)]
        patch_size: u64 = 16,
        /// Frames in a patch.
        #[range(AT_LEAST_ONE)]
        temporal_patch_size: u64 = 2,
        /// Patches along the side of a square that becomes one token.
        #[range(AT_LEAST_ONE)]
        spatial_merge_size: u64 = 2,
        /// Learned position embeddings; a square number.
        #[range(AT_LEAST_ONE)]
        num_position_embeddings: u64 = 64,
        /// Blocks whose output also goes into the first layers of the language model.
        deepstack_visual_indexes: Vec<u64> = vec![0],
    }
}

block! {
    /// The pretrained trunk of a policy on images.
    Encoder as EncoderWritten {
        /// File name inside `model_path`.
        ckpt_name: Option<String> = None,
        /// The file itself, wherever it is.
        ckpt_path: Option<String> = None,
    }
}

choice! {
    /// How much frames of each label count.
    ClassWeight {
        /// All the same.
        Even = "even" | "none",
        /// Successes and failures the same in all, however many there are of each.
        Balanced = "balanced",
    }
}

block! {
    /// The loss of an image reward model.
    RewardLoss as RewardLossWritten {
        /// How much less well-classified frames count (focal loss; 2 is usual). 0: plain cross entropy.
        #[range(NOT_NEGATIVE)]
        focal_gamma: f64 = 0.0,
        /// How much frames of each label count.
        class_weight: ClassWeight = ClassWeight::Even,
        /// A success counts so many times as much as a failure; used instead of `class_weight` where it is set.
        #[range(POSITIVE)]
        success_weight: Option<f64> = None,
    }
}

choice! {
    /// The learning rate schedule.
    LrSchedule {
        /// Constant, after warm-up.
        Constant = "constant" | "torch_constant",
        /// Cosine decay, after warm-up.
        Cosine = "cosine" | "torch_cosine" | "openpi_cosine" | "ref_warmup_cosine",
        /// Linear decay, after warm-up.
        Linear = "linear",
    }
}

block! {
    /// How a network is optimised: AdamW.
    Optim as OptimWritten {
        /// Learning rate.
        #[range(NOT_NEGATIVE)]
        lr: f64 = 3e-4,
        /// Learning rate of the value head or the critics. Not set: as `lr`.
        #[range(NOT_NEGATIVE)]
        value_lr: Option<f64> = None,
        /// Decay rate of the mean of gradients.
        #[range(SHARE)]
        adam_beta1: f64 = 0.9,
        /// Decay rate of the mean of squared gradients.
        #[range(SHARE)]
        adam_beta2: f64 = 0.999,
        /// Added to the denominator.
        #[range(NOT_NEGATIVE)]
        adam_eps: f64 = 1e-8,
        /// Weight decay.
        #[range(NOT_NEGATIVE)]
        weight_decay: f64 = 0.01,
        /// Largest gradient norm; larger gradients are clipped to it.
        #[range(NOT_NEGATIVE)]
        clip_grad: f64 = 1.0,
        /// The learning rate schedule.
        lr_scheduler: LrSchedule = LrSchedule::Constant,
        /// Warm-up steps, over which it rises to `lr`.
        #[range(Range::CountOr("by lr_warmup_steps_ratio"))]
        lr_warmup_steps: i64 = 0,
        /// The same as a share of all steps, used when `lr_warmup_steps` is negative.
        #[range(SHARE)]
        lr_warmup_steps_ratio: f64 = 0.0,
        /// PPO: first steps of learning in which only the critic is updated. For a policy that
        /// continues under another reward than its critic was trained on.
        critic_warmup_steps: u64 = 0,
        /// Final learning rate of a schedule that decays.
        #[range(NOT_NEGATIVE)]
        min_lr: f64 = 0.0,
        /// Steps over which it decays. Not set: the length of the run.
        #[range(Range::CountOr("as long as the run"))]
        total_training_steps: Option<i64> = None,
    }
}
