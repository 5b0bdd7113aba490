//! `reward`: the reward of a policy, and the reward model.

use indexmap::IndexMap;
use plaudit_data::windows::Objective;
use plaudit_reward::SuccessThreshold;
use serde::Serializer;

use super::online::OnlineSettings;
use crate::config::block::{FreeForm, Kind, Setting, block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, Range, SHARE};

choice! {
    /// When the reward model is evaluated.
    RewardMode {
        /// At every step.
        PerStep = "per_step",
        /// At the last step of each episode; every other step is rewarded with 0.
        Terminal = "terminal",
        /// On windows of past frames.
        HistoryBuffer = "history_buffer",
        /// At every step, by how the score changes: `gamma` times the score after it, minus the score before it. With a judge of
        /// windows, the votes of an episode add up to the score.
        Potential = "potential",
    }
}

choice! {
    /// How the learned reward and the environment's are combined.
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
        /// A server: the OpenAI chat protocol for vision-language models, `plaudit serve` for image classifiers.
        Api = "api",
    }
}

choice! {
    /// The kind of reward model.
    RewardModelType {
        /// An image success classifier.
        Resnet = "resnet",
        /// An image network that was trained on demonstrations to say how far the task is.
        Progress = "progress",
        /// A model of one's own making that scores frames: an ONNX file, or a function in Python. See docs/own-models.md.
        Custom = "custom",
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
        /// A number from how likely `words` are; the number is the reward. `input_builder_params.prompt` asks for them.
        Words = "words",
        /// TOPReward: the log-probability that a model which was tuned for nothing calls the task done (`True`). Windows should hold the
        /// episode so far: `history_size` at least as long as an episode.
        Topreward = "topreward",
        /// How far the episode so far is, from 0 to 1: the expected digit of a judge that was tuned for progress. Windows should hold
        /// the episode so far.
        Progress = "progress",
        /// The probability that the episode so far is a success, of a judge that was tuned for it. Windows should hold the episode so far.
        Success = "success",
    }
}

impl Readout {
    /// What a judge has to be tuned for to be read like this, if for anything.
    #[must_use]
    pub fn objective(self) -> Option<Objective> {
        match self {
            Self::Logits | Self::Text => Some(Objective::Trend),
            Self::Progress => Some(Objective::Progress),
            Self::Success => Some(Objective::Success),
            Self::Words | Self::Topreward => None,
        }
    }
}

choice! {
    /// What is made of how likely words are.
    WordMeasure = plaudit_reward::trend::WordMeasure {
        /// The probability of the first word among them.
        Probability = "probability",
        /// The mean of `word_values`, by how likely each word is among them.
        ExpectedScore = "expected_score",
        /// The logarithm of how many times likelier the first word is than the others together.
        LogOdds = "log_odds",
        /// The logarithm of the first word's probability among all tokens.
        Logprob = "logprob",
    }
}

choice! {
    /// Where the text of a judge's prompt stands.
    PromptLayout = plaudit_nn::qwen3_vl::PromptLayout {
        /// After the videos: RLinf's.
        VideosFirst = "videos_first",
        /// Before them: what all windows share comes first. For models that were tuned that way.
        SharedPrefix = "shared_prefix",
    }
}

choice! {
    /// Which frames can raise an alarm, in the words of an audit's flag.
    AlarmFrames = plaudit_reward::audit::AlarmFrames {
        /// Any frame.
        AnyFrame = "any-frame",
        /// The last frame of each episode.
        LastFrame = "last-frame",
    }
}

choice! {
    /// The value of a judge's potential when the task itself ends an episode.
    PotentialEnd = plaudit_reward::AtTermination {
        /// Its last value: an episode is rewarded for the progress it made.
        Keep = "keep",
        /// 0: the optimal policy stays that of the other rewards (potential-based shaping).
        Zero = "zero",
    }
}

choice! {
    /// What happens with a window that a server does not answer.
    OnFailure = plaudit_reward::endpoint::OnFailure {
        /// The run stops, after its last good checkpoint.
        Stop = "stop",
        /// It is rewarded as a step without a window, and counted in the log.
        Skip = "skip",
    }
}

choice! {
    /// The trunk of an image reward model, and with it the kind of head.
    Arch = plaudit_nn::classifier::Arch {
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
    /// Bits of weights in memory.
    Quantization = plaudit_nn::qwen3_vl::Quantization {
        /// All of the precision.
        None = "none",
        /// Eight, with a scale for each 128 numbers: half the memory of bf16.
        Int8 = "int8",
    }
}

choice! {
    /// Precision of arithmetic.
    Precision = plaudit_nn::classifier::Precision {
        /// 32 bits.
        Fp32 = "fp32" | "32" | "32-true" | "float32",
        /// 16 bits with the range of 32.
        Bf16 = "bf16" | "bf16-mixed" | "bfloat16" | "bf16-true",
        /// 16 bits.
        Fp16 = "fp16" | "16" | "16-mixed" | "float16" | "16-true",
    }
}

/// Scores up to the threshold count as no success: the checkpoint's own where nothing is written; 0 uses every score as it
/// is.
impl Setting for SuccessThreshold {
    type Written = f64;

    fn resolve(written: f64) -> Self {
        if written == 0.0 { Self::NoFilter } else { Self::At(written) }
    }

    fn kind() -> Kind {
        f64::kind()
    }

    fn show<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Checkpoint => serializer.serialize_none(),
            Self::NoFilter => serializer.serialize_f64(0.0),
            Self::At(threshold) => serializer.serialize_f64(*threshold),
        }
    }
}

block! {
    /// The reward of a policy.
    RewardSettings as RewardSettingsWritten {
        /// Use a reward model.
        use_reward_model: bool = false,
        /// Who runs the reward model. Image classifiers of further terms and of the hacking monitor run in this process.
        worker_type: WorkerType = WorkerType::Local,
        /// When it is evaluated.
        reward_mode: RewardMode = RewardMode::PerStep,
        /// Image classifier: scores at or below this count as no success. 0: no filter, every score is used as it is. Not set: the
        /// checkpoint's own threshold; a checkpoint without one is not filtered either. A judge's answers are not filtered.
        #[range(SHARE)]
        reward_threshold: SuccessThreshold = SuccessThreshold::Checkpoint,
        /// What a score becomes.
        reward_type: RewardType = RewardType::Continuous,
        /// Reward above the threshold (with `reward_type: binary`).
        success_reward: f64 = 1.0,
        /// Reward at or below the threshold (with `reward_type: binary`).
        fail_reward: f64 = 0.0,
        /// How the learned reward and the environment's are combined.
        combine_mode: CombineMode = CombineMode::Weighted,
        /// Factor on the learned reward.
        reward_weight: f64 = 1.0,
        /// Factor on the environment's reward (with `combine_mode: weighted`).
        env_reward_weight: f64 = 0.0,
        /// Log the raw probabilities as well.
        use_reward_prob: bool = false,
        /// Consecutive steps of success before it counts.
        #[range(AT_LEAST_ONE)]
        hold_steps: u64 = 1,
        /// Two thresholds instead of one. Not set: `reward_threshold`.
        hysteresis: Option<Hysteresis> = None,
        /// Conditions on the state that success needs as well, such as `obj_pose.z > 0.04`, `gripper closed` or
        /// `abs(qvel[:7]) < 0.2`.
        guards: Vec<String> = Vec::new(),
        /// Give a window's reward to every step in it, not to the last alone.
        history_reward_assign: bool = false,
        /// Check before every rollout whether `model_path` has changed, and use the new weights from then on; SAC
        /// relabels its replay buffer.
        reload_model: bool = false,
        /// Further terms of the reward, each with its own weight: other models, conditions on the state.
        terms: IndexMap<String, RewardTerm> = IndexMap::new(),
        /// The hacking monitor: checks for reward hacking while a policy learns.
        hacking_monitor: HackingMonitorSettings = HackingMonitorSettings::default(),
        /// The reward model learns while the policy does.
        online: OnlineSettings = OnlineSettings::default(),
        /// On a robot: the model alone decides about success.
        standalone_realworld: bool = false,
        /// The reward model.
        model: RewardModelSettings = RewardModelSettings::default(),
        /// The server, with `worker_type: api`.
        api: Api = Api::default(),
    }
}

choice! {
    /// What a further term is computed from.
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
        /// What it is computed from; `model` unless written.
        source: TermSource = TermSource::Model,
        /// Factor on its reward; 1.0 unless written.
        weight: f64 = 1.0,
        /// When it is evaluated.
        reward_mode: RewardMode = RewardMode::PerStep,
        /// Scores at or below this count as no success.
        #[range(SHARE)]
        reward_threshold: SuccessThreshold = SuccessThreshold::Checkpoint,
        /// What a score becomes.
        reward_type: RewardType = RewardType::Continuous,
        /// Reward for success (with `reward_type: binary`).
        success_reward: f64 = 1.0,
        /// Reward otherwise (with `reward_type: binary`).
        fail_reward: f64 = 0.0,
        /// Log the raw probabilities as well.
        use_reward_prob: bool = false,
        /// Consecutive steps of success before it counts.
        #[range(AT_LEAST_ONE)]
        hold_steps: u64 = 1,
        /// Two thresholds instead of one.
        hysteresis: Option<Hysteresis> = None,
        /// Conditions on the state.
        guards: Vec<String> = Vec::new(),
        /// Give a window's reward to every step in it.
        history_reward_assign: bool = false,
        /// The reward model, with `source: model`.
        model: RewardModelSettings = RewardModelSettings::default(),
    }
}

choice! {
    /// What is done when the reward is hacked.
    AlarmAction = plaudit_reward::hacking_monitor::AlarmAction {
        /// Warn.
        Warn = "warn",
        /// Warn, and reward only the ends of episodes from then on.
        Terminal = "terminal",
        /// Warn, and raise the threshold: by half of what was left up to 1.
        RaiseThreshold = "raise_threshold",
        /// Warn, save, and stop; the run can be resumed.
        Pause = "pause",
    }
}

choice! {
    /// What the reward model is compared with.
    CompareWith {
        /// The environment, which says of each episode whether it was solved.
        Environment = "environment",
        /// A second model, which is asked about rewarded frames.
        Model = "model",
        /// A person, who sorts rewarded frames while the run goes on.
        Person = "person",
        /// Nothing: only the signals that need no ground truth.
        None = "none",
    }
}

block! {
    /// The hacking monitor: checks for reward hacking while a policy learns. See docs/hacking-monitor.md.
    HackingMonitorSettings as HackingMonitorSettingsWritten {
        /// Updates between checks; 1 is best, since one update can break a policy. 0: off.
        every: u64 = 0,
        /// What is done about an alarm. Frames for labelling are kept in any case.
        action: AlarmAction = AlarmAction::Warn,
        /// Rewarded frames that are checked, and kept for labelling after an alarm.
        #[range(AT_LEAST_ONE)]
        frames: u64 = 256,
        /// What the reward model is compared with.
        compare_with: CompareWith = CompareWith::Environment,
        /// The second model, which is asked about rewarded frames. Not set: the `second_model` beside the reward model's checkpoint,
        /// where `reward train` left one. With `compare_with: model` it is the reference.
        model: RewardModelSettings = RewardModelSettings::default(),
        /// The share of honest runs in which any signal may raise an alarm, over all checks. A signal raises one if an exact test says that
        /// its rate has risen above that of the checks before, or is above one of the following rates.
        #[range(Range::AboveTo(0.0, 0.5))]
        false_alarms: f64 = 0.05,
        /// Alarm, whatever the run begins with: a larger share of false successes.
        #[range(SHARE)]
        false_success: f64 = 0.3,
        /// The same: a larger share of the rewarded frames is out of distribution: far from all successes of the audit.
        #[range(SHARE)]
        ood_frames: f64 = 0.3,
        /// The same: on a larger share of the rewarded frames the audited model disagrees with itself.
        #[range(SHARE)]
        disagreement: f64 = 0.3,
        /// The same: in a larger share of the rewarded frames the second model sees no success.
        #[range(SHARE)]
        second_opinion: f64 = 0.5,
        /// The same: a larger share of the rewarded frames has a state unlike those of the first checks.
        #[range(SHARE)]
        drift: f64 = 0.5,
        /// Alarm: the tenth of the rewarded episodes with the most reward gets more of all reward. Not set: no alarm.
        #[range(SHARE)]
        concentration: Option<f64> = None,
    }
}

impl HackingMonitorSettings {
    /// Whether monitoring is on.
    pub fn is_on(&self) -> bool {
        self.every > 0
    }
}

block! {
    /// Success begins at one score and lasts until another.
    Hysteresis as HysteresisWritten {
        /// Begins above this; 0.7 unless written.
        #[range(SHARE)]
        enter: f64 = 0.7,
        /// Ends below this; 0.3 unless written.
        #[range(SHARE)]
        leave: f64 = 0.3,
    }
}

block! {
    /// The reward model.
    RewardModelSettings as RewardModelSettingsWritten {
        /// What kind of model.
        model_type: RewardModelType = RewardModelType::Resnet,
        /// Its weights: a file, a `best_model` folder, or a Hugging Face folder. With `custom` an ONNX file (`model.onnx`) or a function
        /// in a file of Python (`my_reward.py:score`).
        model_path: Option<String> = None,
        /// Function in Python: the interpreter that runs it. Not set: the Python that plaudit is installed in, or else `python3`.
        python: Option<String> = None,
        /// Precision of its arithmetic.
        precision: Precision = Precision::Fp32,
        /// Vision-language judge on a GPU: how many bits its weights have in memory.
        quantization: Quantization = Quantization::None,
        /// Where it computes: `auto` (a GPU if there is one, for judges only with `precision: bf16`), `cpu`, `cuda` or `cuda:N`.
        device: String = "auto".into(),
        /// Image classifier: the trunk.
        arch: Arch = Arch::Resnet18,
        /// Image classifier: start from ImageNet weights; a trained `model_path` makes it moot.
        pretrained: bool = false,
        /// Image classifier: width of the head's hidden layer. 0: a plain linear head.
        hidden_dim: u64 = 256,
        /// Image classifier: dropout rate in training; no effect at inference.
        #[range(SHARE)]
        dropout: f64 = 0.0,
        /// Image classifier: channels, height, width.
        #[range(Range::ImageSize)]
        image_size: [u64; 3] = [3, 128, 128],
        /// Image classifier: subtract ImageNet's mean and divide by its deviation.
        normalize: bool = true,
        /// Image classifier: the cameras it looks at. Empty: the main view.
        image_keys: Vec<String> = Vec::new(),
        /// Older classifier: blocks of the spatial pooling.
        #[range(AT_LEAST_ONE)]
        num_spatial_blocks: u64 = 8,
        /// Older classifier: pretrained trunk.
        pretrained_encoder_path: Option<String> = None,
        /// Older classifier: pool before averaging. Not set: as the checkpoint says.
        use_pretrain: Option<bool> = None,
        /// Older classifier: leave the trunk as it is.
        freeze_encoder: bool = true,
        /// Progress model: so many standard deviations are taken off the mean of its distribution, so that frames it does not
        /// know score less.
        #[range(NOT_NEGATIVE)]
        caution: f64 = 0.0,
        /// Image classifier: keep scored images here (or in `DEBUG_IMAGE_SAVE_DIR`), in `resnet_success/` and `resnet_fail/`.
        debug_save_dir: Option<String> = None,

        /// Judge: low-rank adapters for the model.
        lora_path: Option<String> = None,
        /// Added to the reward when the environment reports success. Ground truth leaks into the reward.
        gt_success_bonus: f64 = 0.0,
        /// Judge: how frames become a prompt.
        input_builder_name: Option<String> = None,
        /// Judge: settings of the prompt.
        input_builder_params: InputBuilder = InputBuilder::default(),
        /// Judge: how an answer becomes a reward.
        reward_parser_name: Option<String> = None,
        /// Judge: the reward for each answer.
        reward_parser_params: RewardParser = RewardParser::default(),
        /// Windows of past frames by name.
        history_buffers: IndexMap<String, HistoryBuffer> = IndexMap::new(),
        /// Reward at steps without a window (with `reward_mode: history_buffer`).
        interval_reward: f64 = 0.0,
        /// Judge: windows per batch. 0: all.
        infer_micro_batch_size: u64 = 0,
        /// Judge: how its answer is read.
        readout: Readout = Readout::Logits,
        /// Judge, with `readout: words`: the words, each of which must begin with another token, such as `["Yes", "No"]`.
        words: Vec<String> = Vec::new(),
        /// Judge, with `readout: words`: what each word is worth (with `word_measure: expected_score`).
        word_values: Vec<f64> = Vec::new(),
        /// Judge, with `readout: words`: what is made of how likely the words are.
        word_measure: WordMeasure = WordMeasure::Probability,
        /// Judge: where the text of its prompt stands; as it was tuned, unless written.
        prompt_layout: PromptLayout = PromptLayout::VideosFirst,
        /// Judge: what the labels' logits are divided by before they become probabilities. Not set: as fitted by an audit of
        /// the judge, or 1.
        #[range(POSITIVE)]
        label_temperature: Option<f64> = None,
        /// Judge: where better and worse are less than this apart in probability, the answer counts as unclear.
        #[range(SHARE)]
        abstain_band: f64 = 0.0,
        /// Judge: the run stops where more than this share of the last 200 answers (20 at least) is none of those asked for. 1: never.
        #[range(SHARE)]
        max_invalid: f64 = 0.5,
        /// Judge: the expected reward under the labels' probabilities, not the reward of the likeliest label alone.
        soft_reward: bool = true,
        /// Judge, with `reward_mode: potential`: votes in a row that bring the potential to three quarters of its bound. A number read from
        /// `words` is divided by it instead.
        #[range(POSITIVE)]
        potential_votes: f64 = 10.0,
        /// Judge, with `reward_mode: potential`: the value of the potential when the task itself ends an episode.
        potential_end: PotentialEnd = PotentialEnd::Keep,
        /// Judge: longest answer.
        #[range(AT_LEAST_ONE)]
        max_new_tokens: u64 = 32,
        /// Judge: sample the answer instead of taking the likeliest.
        do_sample: bool = true,
        /// Judge: sampling temperature; 0 takes the likeliest.
        #[range(NOT_NEGATIVE)]
        temperature: f64 = 0.0,
        /// Judge: settings of the image and video processors; `{video_processor: {do_sample_frames: false}}` shows it every
        /// frame of a window, of which it sees four of five otherwise.
        subprocessor_kwargs: IndexMap<String, FreeForm> = IndexMap::new(),
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
        /// The system prompt.
        system_prompt: Option<String> = None,
        /// A prompt other than RLinf's; `{task}` and `{frames}` are filled in.
        prompt: Option<String> = None,
        /// Wrap the prompt in the model's chat format.
        use_chat_template: bool = true,
    }
}

block! {
    /// The reward for each answer.
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
        #[range(AT_LEAST_ONE)]
        debug_print_every: u64 = 10,
        /// Answers to log each time.
        debug_sample_texts: u64 = 2,
    }
}

block! {
    /// A window of past frames.
    HistoryBuffer as HistoryBufferWritten {
        /// Frames in a full window.
        #[range(AT_LEAST_ONE)]
        history_size: u64 = 5,
        /// Frames needed before the first window.
        min_history_size: u64 = 0,
        /// Steps between windows. Not set: as `history_size`.
        #[range(AT_LEAST_ONE)]
        input_interval: Option<u64> = None,
        /// What is kept of each step: the cameras.
        history_keys: Vec<String> = Vec::new(),
        /// Also evaluate what is left when an episode ends between windows.
        input_on_done: bool = false,
    }
}

block! {
    /// A server that has the reward model: see docs/serve.md.
    Api as ApiWritten {
        /// Its address, without `/v1`.
        api_base: Option<String> = None,
        /// The model's name there. Not set: the last part of `model_path`; for an image classifier, the first that the server lists.
        model: Option<String> = None,
        /// Sent along with every request.
        sampling_params: FreeForm = FreeForm::default(),
        /// The environment variable that holds the server's key, if it wants one. The key itself never stands in a config.
        api_key_env: String = "OPENAI_API_KEY".into(),
        /// Seconds that one answer may take.
        #[range(Range::Within(0.001, 86_400.0))]
        timeout_secs: f64 = 120.0,
        /// Seconds to wait for a server that does not answer, with growing pauses, before `on_failure`.
        #[range(Range::Within(0.0, 1.0e9))]
        give_up_secs: f64 = 600.0,
        /// Requests under way at once.
        #[range(AT_LEAST_ONE)]
        concurrency: u64 = 16,
        /// What happens with a window that gets no answer in the end.
        on_failure: OnFailure = OnFailure::Stop,
    }
}

impl RewardModelType {
    /// Whether it is an image classifier, a network of progress or a model of one's own making, which scores frames, and not a vision-language model, which is asked in words.
    pub fn is_image_classifier(self) -> bool {
        match self {
            Self::Resnet | Self::Progress | Self::Custom => true,
            Self::Vlm | Self::BufferedVlm => false,
        }
    }

    /// Whether its network and its weights are not ours, so that it is asked and not trained.
    pub fn is_custom(self) -> bool {
        match self {
            Self::Custom => true,
            Self::Resnet | Self::Progress | Self::Vlm | Self::BufferedVlm => false,
        }
    }

    /// Whether it says how far the task is, not whether it is done.
    pub fn is_progress(self) -> bool {
        match self {
            Self::Progress => true,
            Self::Resnet | Self::Custom | Self::Vlm | Self::BufferedVlm => false,
        }
    }

    /// Whether it scores windows of frames, not single ones.
    pub fn scores_windows(self) -> bool {
        match self {
            Self::BufferedVlm => true,
            Self::Resnet | Self::Progress | Self::Custom | Self::Vlm => false,
        }
    }
}

/// Whether an architecture has the small trunk with group norm, which may come pretrained and be frozen.
pub fn has_small_trunk(arch: Arch) -> bool {
    match arch {
        Arch::Resnet10 | Arch::Resnet10Spatial => true,
        Arch::Resnet18 | Arch::Resnet34 | Arch::Resnet50 | Arch::Resnet101 | Arch::Resnet152 => false,
    }
}

impl RewardTerm {
    /// Whether a vision-language model judges windows of frames.
    pub fn judges_windows(&self) -> bool {
        self.source == TermSource::Model && self.model.model_type.scores_windows()
    }
}

impl RewardSettings {
    /// The main model as a term.
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
