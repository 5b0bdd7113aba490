//! `reward`: what a policy is paid, and the model that judges.

use indexmap::IndexMap;

use crate::config::block::{Free, block, choice};

choice! {
    /// When the learned reward is asked.
    RewardMode {
        /// At every step.
        PerStep = "per_step",
        /// At the last step of each episode; every other step is paid 0.
        Terminal = "terminal",
        /// On windows of past frames.
        HistoryBuffer = "history_buffer",
        /// At every step, by how the score changes: `gamma` times the score after it, minus the score before it. Of a judge of
        /// windows, the votes of an episode add up to the score.
        Potential = "potential",
    }
}

choice! {
    /// How the learned reward and the environment's are joined.
    CombineMode {
        /// The learned reward alone, times `reward_weight`.
        Replace = "replace",
        /// The environment's, plus the learned times `reward_weight`.
        Add = "add",
        /// `env_reward_weight` times the environment's plus `reward_weight` times the learned.
        Weighted = "weighted",
    }
}

choice! {
    /// Who runs the reward model.
    WorkerType {
        /// This process.
        Local = "local" | "default",
        /// A server that speaks the OpenAI chat protocol.
        Api = "api",
    }
}

choice! {
    /// What kind of model judges.
    RewardModelType {
        /// An image success classifier.
        Resnet = "resnet",
        /// A vision-language model on the current frame.
        Vlm = "vlm",
        /// A vision-language model on a window of frames.
        BufferedVlm = "buffered_vlm",
    }
}

choice! {
    /// How a judge's answer is read.
    Readout {
        /// From the logits of the labels' first tokens: no word is generated, and no answer is invalid.
        Logits = "logits",
        /// From words: the model generates an answer, which is parsed.
        Text = "text",
    }
}

choice! {
    /// Where the words of a judge's question stand.
    PromptLayout {
        /// After the videos: RLinf's.
        VideosFirst = "videos_first",
        /// Before them: what all windows share comes first. For models that were tuned that way.
        SharedPrefix = "shared_prefix",
    }
}

choice! {
    /// What a judge's potential is worth when the task itself ends an episode.
    PotentialEnd {
        /// What it was: an episode is paid for where it got.
        Keep = "keep",
        /// 0: the best policy stays that of whatever else is paid.
        Zero = "zero",
    }
}

choice! {
    /// What happens with a window that a server does not answer.
    OnFailure {
        /// The run stops, after its last good checkpoint.
        Stop = "stop",
        /// It is paid as a step without a window, and counted in the log.
        Skip = "skip",
    }
}

choice! {
    /// The trunk of an image reward model, and with it the kind of head.
    Arch {
        /// 18 layers: the default.
        Resnet18 = "resnet18",
        /// 34 layers.
        Resnet34 = "resnet34",
        /// 50 layers.
        Resnet50 = "resnet50",
        /// 101 layers.
        Resnet101 = "resnet101",
        /// 152 layers.
        Resnet152 = "resnet152",
        /// 10 layers with group norm and average pooling.
        Resnet10 = "resnet10",
        /// 10 layers with group norm and learned spatial pooling.
        Resnet10Spatial = "resnet10_spatial",
    }
}

choice! {
    /// What a score becomes.
    RewardType {
        /// `success_reward` above the threshold, otherwise `fail_reward`.
        Binary = "binary",
        /// The probability above the threshold, otherwise 0.
        Continuous = "continuous",
    }
}

choice! {
    /// Precision of arithmetic.
    Precision {
        /// 32 bits.
        Fp32 = "fp32" | "32" | "32-true" | "float32",
        /// 16 bits with the range of 32.
        Bf16 = "bf16" | "bf16-mixed" | "bfloat16" | "bf16-true",
        /// 16 bits.
        Fp16 = "fp16" | "16" | "16-mixed" | "float16" | "16-true",
    }
}

block! {
    /// What a policy is paid.
    RewardSettings as RewardSettingsWritten {
        /// Pay by a learned reward.
        use_reward_model: bool = false,
        /// Who runs the reward model.
        worker_type: WorkerType = WorkerType::Local,
        /// When it is asked.
        reward_mode: RewardMode = RewardMode::PerStep,
        /// Image classifier: scores at or below this count as no success. Not set: the checkpoint's own threshold; a
        /// checkpoint without one has its scores paid as they are. A judge's answers are not filtered.
        reward_threshold: Option<f64> = None,
        /// What a score becomes.
        reward_type: RewardType = RewardType::Continuous,
        /// Paid above the threshold (with `reward_type: binary`).
        success_reward: f64 = 1.0,
        /// Paid at or below the threshold (with `reward_type: binary`).
        fail_reward: f64 = 0.0,
        /// How the learned reward and the environment's are joined.
        combine_mode: CombineMode = CombineMode::Weighted,
        /// Factor on the learned reward.
        reward_weight: f64 = 1.0,
        /// Factor on the environment's reward (with `combine_mode: weighted`).
        env_reward_weight: f64 = 0.0,
        /// Log the raw probabilities as well.
        use_reward_prob: bool = false,
        /// Success counts after this many steps of it on end.
        hold_steps: u64 = 1,
        /// Two thresholds instead of one. Not set: `reward_threshold`.
        hysteresis: Option<Hysteresis> = None,
        /// Conditions on the state that success needs as well, such as `obj_pose.z > 0.04`, `gripper closed` or
        /// `abs(qvel[:7]) < 0.2`.
        guards: Vec<String> = Vec::new(),
        /// Give a window's reward to every step in it, not to the last alone.
        history_reward_assign: bool = false,
        /// Look before every rollout whether `model_path` has changed, and judge by the new weights from then on; SAC
        /// pays its replay anew.
        reload_model: bool = false,
        /// Paid besides, each with its own weight: other models, conditions on the state.
        terms: IndexMap<String, RewardTerm> = IndexMap::new(),
        /// Watching for hacking while a policy learns.
        watch: WatchSettings = WatchSettings::default(),
        /// On a robot: the model alone decides about success.
        standalone_realworld: bool = false,
        /// The model that judges.
        model: RewardModelSettings = RewardModelSettings::default(),
        /// The server, with `worker_type: api`.
        api: Api = Api::default(),
    }
}

choice! {
    /// What a further term goes by.
    TermSource {
        /// A model of its own.
        Model = "model",
        /// Its `guards` alone.
        State = "state",
    }
}

block! {
    /// A further term of the reward. Its keys mean what they mean in `reward`, and have the same defaults.
    RewardTerm as RewardTermWritten {
        /// What it goes by; `model` unless written.
        source: TermSource = TermSource::Model,
        /// Factor on what it pays; 1.0 unless written.
        weight: f64 = 1.0,
        /// When it is asked.
        reward_mode: RewardMode = RewardMode::PerStep,
        /// Scores at or below this count as no success.
        reward_threshold: Option<f64> = None,
        /// What a score becomes.
        reward_type: RewardType = RewardType::Continuous,
        /// Paid for success (with `reward_type: binary`).
        success_reward: f64 = 1.0,
        /// Paid otherwise (with `reward_type: binary`).
        fail_reward: f64 = 0.0,
        /// Log the raw probabilities as well.
        use_reward_prob: bool = false,
        /// Success counts after this many steps of it on end.
        hold_steps: u64 = 1,
        /// Two thresholds instead of one.
        hysteresis: Option<Hysteresis> = None,
        /// Conditions on the state.
        guards: Vec<String> = Vec::new(),
        /// Give a window's reward to every step in it.
        history_reward_assign: bool = false,
        /// The model that judges, with `source: model`.
        model: RewardModelSettings = RewardModelSettings::default(),
    }
}

choice! {
    /// What is done when the reward is hacked.
    WatchAction {
        /// Say so.
        Warn = "warn",
        /// Say so, and pay at the ends of episodes only from then on.
        Terminal = "terminal",
        /// Say so, and ask for higher scores from then on: half of what was left up to 1.
        RaiseThreshold = "raise_threshold",
        /// Say so, save, and stop; the run can go on.
        Pause = "pause",
    }
}

choice! {
    /// Who knows better than the model that pays.
    CompareWith {
        /// The environment, which says of each episode whether it was solved.
        Environment = "environment",
        /// A second model, which is asked about rewarded frames.
        Model = "model",
        /// A person, who sorts rewarded frames while the run goes on.
        Person = "person",
        /// Nobody: signals that need no truth alone.
        Nobody = "nobody",
    }
}

block! {
    /// Watching for hacking while a policy learns. See docs/watch.md.
    WatchSettings as WatchSettingsWritten {
        /// Updates between looks. 0: nobody watches.
        every: u64 = 0,
        /// What is done about an alarm. Frames for labelling are kept in any case.
        action: WatchAction = WatchAction::Warn,
        /// Rewarded frames that are looked at closely, and kept for labelling after an alarm.
        frames: u64 = 64,
        /// Who knows better than the model what success is.
        compare_with: CompareWith = CompareWith::Environment,
        /// The second model, with `compare_with: model`: trained on other episodes than the one that pays.
        model: RewardModelSettings = RewardModelSettings::default(),
        /// Alarm: more of what the reward calls solved is not, with confidence 0.95.
        false_success: f64 = 0.3,
        /// Alarm: the best-paid tenth of the paid episodes gets more of all pay.
        concentration: f64 = 0.6,
        /// Alarm: success comes in less than this share of the time it took at the last looks.
        early_success: f64 = 0.5,
        /// Alarm: success is lost again more often in an episode.
        dithering: f64 = 3.0,
        /// Alarm: more of the rewarded frames look like no success that the audited model knows.
        far_frames: f64 = 0.3,
        /// Alarm: about more of the rewarded frames the audited model does not agree with itself.
        disagreement: f64 = 0.3,
    }
}

impl WatchSettings {
    /// Whether anybody watches.
    pub fn is_on(&self) -> bool {
        self.every > 0
    }
}

block! {
    /// Success begins at one score and lasts until another.
    Hysteresis as HysteresisWritten {
        /// Begins above this; 0.7 unless written.
        enter: f64 = 0.7,
        /// Ends below this; 0.3 unless written.
        leave: f64 = 0.3,
    }
}

block! {
    /// The model that judges.
    RewardModelSettings as RewardModelSettingsWritten {
        /// What kind of model.
        model_type: RewardModelType = RewardModelType::Resnet,
        /// Its weights: a file, a `best_model` folder, or a Hugging Face folder.
        model_path: Option<String> = None,
        /// Precision of its arithmetic.
        precision: Precision = Precision::Fp32,
        /// Image classifier: the trunk.
        arch: Arch = Arch::Resnet18,
        /// Image classifier: start from ImageNet weights; a trained `model_path` makes it moot.
        pretrained: bool = false,
        /// Image classifier: width of the head's hidden layer. 0: a plain linear head.
        hidden_dim: u64 = 256,
        /// Image classifier: share of hidden units left out in training; no effect while judging.
        dropout: f64 = 0.0,
        /// Image classifier: channels, height, width.
        image_size: [u64; 3] = [3, 128, 128],
        /// Image classifier: subtract ImageNet's mean and divide by its deviation.
        normalize: bool = true,
        /// Image classifier: the cameras it looks at. Empty: the main view.
        image_keys: Vec<String> = Vec::new(),
        /// Older classifier: blocks of the spatial pooling.
        num_spatial_blocks: u64 = 8,
        /// Older classifier: pretrained trunk.
        pretrained_encoder_path: Option<String> = None,
        /// Older classifier: pool before averaging. Not set: as the checkpoint says.
        use_pretrain: Option<bool> = None,
        /// Older classifier: leave the trunk as it is.
        freeze_encoder: bool = true,
        /// Image classifier: keep judged images here (or in `DEBUG_IMAGE_SAVE_DIR`), in `resnet_success/` and `resnet_fail/`.
        debug_save_dir: Option<String> = None,

        /// Judge: low-rank adapters for the model.
        lora_path: Option<String> = None,
        /// Judge: the NVIDIA GPU it computes on, by number, with `precision: bf16`. Not set: the processor. Needs plaudit built
        /// with `--features cuda-judge`.
        gpu: Option<u64> = None,
        /// Paid on top when the environment says success. Truth leaks into the reward.
        gt_success_bonus: f64 = 0.0,
        /// Judge: how frames become a prompt.
        input_builder_name: Option<String> = None,
        /// Judge: settings of the prompt.
        input_builder_params: InputBuilder = InputBuilder::default(),
        /// Judge: how an answer becomes a reward.
        reward_parser_name: Option<String> = None,
        /// Judge: what each answer pays.
        reward_parser_params: RewardParser = RewardParser::default(),
        /// Windows of past frames by name.
        history_buffers: IndexMap<String, HistoryBuffer> = IndexMap::new(),
        /// Paid at steps without a window (with `reward_mode: history_buffer`).
        interval_reward: f64 = 0.0,
        /// Judge: windows judged at once. 0: all.
        infer_micro_batch_size: u64 = 0,
        /// Judge: how its answer is read.
        readout: Readout = Readout::Logits,
        /// Judge: where the words of its question stand; as it was tuned, unless written.
        prompt_layout: PromptLayout = PromptLayout::VideosFirst,
        /// Judge: what the labels' logits are divided by before they become probabilities. Not set: as an audit of the judge
        /// found it honest, or 1.
        label_temperature: Option<f64> = None,
        /// Judge: where better and worse are less than this apart in probability, the answer counts as unclear.
        abstain_band: f64 = 0.0,
        /// Judge: pay the mean of the amounts, each as likely as its label, not that of the likeliest alone.
        soft_reward: bool = true,
        /// Judge, with `reward_mode: potential`: votes in a row that bring the potential to three quarters of its bound.
        potential_votes: f64 = 10.0,
        /// Judge, with `reward_mode: potential`: what the potential is worth when the task itself ends an episode.
        potential_end: PotentialEnd = PotentialEnd::Keep,
        /// Judge: longest answer.
        max_new_tokens: u64 = 32,
        /// Judge: draw the answer instead of taking the likeliest.
        do_sample: bool = true,
        /// Judge: how freely the answer is drawn; 0 takes the likeliest.
        temperature: f64 = 0.0,
        /// Judge: settings of the image and video processors; `{video_processor: {do_sample_frames: false}}` shows it every
        /// frame of a window, of which it sees four of five otherwise.
        subprocessor_kwargs: IndexMap<String, Free> = IndexMap::new(),
    }
}

block! {
    /// How frames become a prompt.
    InputBuilder as InputBuilderWritten {
        /// The task in words, where the environment names none.
        default_task_description: Option<String> = None,
        /// The cameras, each one video.
        video_keys: Vec<String> = vec!["main_images".into(), "extra_view_images".into()],
        /// The cameras, each one image (single-frame judge).
        image_keys: Vec<String> = vec!["main_images".into()],
        /// Words before the prompt.
        system_prompt: Option<String> = None,
        /// Other words than RLinf's; `{task}` and `{frames}` are filled in.
        prompt: Option<String> = None,
        /// Wrap the prompt in the model's chat format.
        use_chat_template: bool = true,
    }
}

block! {
    /// What each answer pays.
    RewardParser as RewardParserWritten {
        /// For `positive`.
        positive_reward: f64 = 1.0,
        /// For `negative`.
        negative_reward: f64 = -0.2,
        /// For `unclear`.
        unclear_reward: f64 = 0.0,
        /// For anything else.
        invalid_reward: f64 = 0.0,
        /// Log what was answered.
        debug_print: bool = false,
        /// Log every so many calls.
        debug_print_every: u64 = 10,
        /// Answers to log each time.
        debug_sample_texts: u64 = 2,
    }
}

block! {
    /// A window of past frames.
    HistoryBuffer as HistoryBufferWritten {
        /// Frames in a full window.
        history_size: u64 = 5,
        /// Frames needed before the first window.
        min_history_size: u64 = 0,
        /// Steps between windows. Not set: as `history_size`.
        input_interval: Option<u64> = None,
        /// What is kept of each step: the cameras.
        history_keys: Vec<String> = Vec::new(),
        /// Judge what is left when an episode ends between windows.
        input_on_done: bool = false,
    }
}

block! {
    /// A server that speaks the OpenAI chat protocol.
    Api as ApiWritten {
        /// Its address, without `/v1`.
        api_base: Option<String> = None,
        /// The model's name there. Not set: the last part of `model_path`.
        model: Option<String> = None,
        /// Sent along with every request.
        sampling_params: Free = Free::default(),
        /// The environment variable that holds the server's key, if it wants one. The key itself never stands in a config.
        api_key_env: String = "OPENAI_API_KEY".into(),
        /// Seconds that one answer may take.
        timeout_secs: f64 = 120.0,
        /// Seconds that a server which is away is waited for, with growing pauses, before `on_failure`.
        give_up_secs: f64 = 600.0,
        /// Requests under way at once.
        concurrency: u64 = 16,
        /// What happens with a window that gets no answer in the end.
        on_failure: OnFailure = OnFailure::Stop,
    }
}

impl RewardTerm {
    /// Whether a vision-language model judges windows of frames.
    pub fn judges_windows(&self) -> bool {
        self.source == TermSource::Model && self.model.model_type == RewardModelType::BufferedVlm
    }
}

impl RewardSettings {
    /// What the main model pays, as a term.
    pub fn main_term(&self) -> RewardTerm {
        RewardTerm {
            source: TermSource::Model,
            weight: self.reward_weight,
            reward_mode: self.reward_mode,
            reward_threshold: self.reward_threshold,
            reward_type: self.reward_type,
            success_reward: self.success_reward,
            fail_reward: self.fail_reward,
            use_reward_prob: self.use_reward_prob,
            hold_steps: self.hold_steps,
            hysteresis: self.hysteresis.clone(),
            guards: self.guards.clone(),
            history_reward_assign: self.history_reward_assign,
            model: self.model.clone(),
        }
    }
}
