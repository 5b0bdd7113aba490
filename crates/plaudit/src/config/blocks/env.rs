//! `env`: the environments a policy acts in, for training and for evaluation.

use indexmap::IndexMap;

use super::collection::Collection;
use super::robot::RobotSettings;
use crate::config::block::{FreeForm, block, choice};
use crate::config::range::{AT_LEAST_ONE, POSITIVE, Range};

block! {
    /// The environments, for training and for evaluation.
    Envs as EnvsWritten {
        /// Environments to learn in.
        train: EnvSettings = EnvSettings::default(),
        /// Environments to evaluate in.
        eval: EnvSettings = EnvSettings::default(),
    }
}

choice! {
    /// Who runs the environment.
    EnvType {
        /// A ManiSkill task: embedded here for PickCube, otherwise through your Python.
        Maniskill = "maniskill",
        /// A task that is built in, such as classic control.
        Embedded = "embedded",
        /// Any Gymnasium environment, through your Python.
        Gymnasium = "gymnasium",
        /// A robot arm.
        Realworld = "realworld",
        /// A simulator of RLinf's that plaudit does not run.
        Foreign = "foreign",
    }
}

choice! {
    /// What a policy sees.
    ObsMode = plaudit_env::ObsMode {
        /// State vectors alone.
        State = "state" | "state_dict",
        /// Camera images (and a state vector).
        Rgb = "rgb" | "rgb+state" | "state+rgb" | "rgb+segmentation" | "rgb+depth" | "rgb+depth+segmentation" | "image" | "sensor_data" | "rgbd",
    }
}

choice! {
    /// The environment's own reward.
    EnvRewardMode = plaudit_env::RewardMode {
        /// The task's own reward.
        Raw = "raw" | "default",
        /// 1 at success, otherwise 0.
        OnlySuccess = "only_success",
        /// 1 at success, -1 at failure, otherwise 0.
        Sparse = "sparse",
        /// Every stage of the task adds its part: at most 5 in PickCube, 10 in PegInsertionSide.
        Dense = "dense",
        /// The dense reward of the task, scaled to at most 1.
        NormalizedDense = "normalized_dense",
    }
}

choice! {
    /// Which physics the embedded PickCube runs on.
    Engine = plaudit_env::Engine {
        /// Built in.
        Rapier = "rapier",
        /// MuJoCo, in builds that have it (docs/mujoco.md).
        Mujoco = "mujoco",
    }
}

choice! {
    /// When camera images for the reward model are rendered.
    RewardRender {
        /// Never.
        Never = "never" | "none",
        /// At every step.
        Always = "always",
        /// At the last step of each episode.
        Terminal = "terminal" | "episode_end",
    }
}

choice! {
    /// Keys a person presses to label what the robot does.
    KeyboardLabels {
        /// `c` success, `a` failure: both end the episode.
        SingleStage = "single_stage",
        /// `a`, `b`, `c` for three stages, the last of which ends the episode; `q` for a penalty.
        MultiStage = "multi_stage",
        /// `a` starts a recording or drops it, `b` begins its next segment, `c` ends it with success.
        StartEnd = "start_end",
        /// Stops and starts evaluation. Not there yet.
        EvalControl = "eval_control",
        /// Switches between policies. Not there yet.
        PolicySwitch = "rlt_policy_switch",
    }
}

block! {
    /// One batch of environments.
    EnvSettings as EnvSettingsWritten {
        /// Who runs the environment.
        env_type: EnvType = EnvType::Maniskill,
        /// The name RLinf has for a simulator that plaudit does not run.
        foreign: Option<String> = None,
        /// How many environments. Not set: 1.
        #[range(Range::Within(1.0, 1e6))]
        total_num_envs: Option<usize> = None,
        /// The task and its construction.
        init_params: InitParams = InitParams::default(),
        /// Steps after which an episode is truncated. Not set: the environment's own limit.
        #[range(AT_LEAST_ONE)]
        max_episode_steps: Option<u64> = None,
        /// Steps of each environment in one rollout.
        #[range(AT_LEAST_ONE)]
        max_steps_per_rollout_epoch: u64 = 50,
        /// Rollouts gathered before an update.
        #[range(AT_LEAST_ONE)]
        rollout_epoch: u64 = 1,
        /// Start the next episode at once when one ends. Environments here always do, whatever is written.
        auto_reset: bool = false,
        /// Go on after success until the clock runs out.
        ignore_terminations: bool = false,
        /// The environment's own reward.
        reward_mode: EnvRewardMode = EnvRewardMode::Raw,
        /// Reward with the change of the task's reward instead of the reward itself.
        use_rel_reward: bool = false,
        /// Factor on the environment's own reward.
        reward_coef: f64 = 1.0,
        /// How observations are arranged; `simple` is the only way here.
        wrap_obs_mode: String = "simple".into(),
        /// With images, still give the policy the full state vector.
        use_full_state: bool = false,
        /// When images for the reward model are rendered. Not set: whenever the reward needs them.
        reward_render_mode: Option<RewardRender> = None,
        /// Which physics the embedded PickCube runs on.
        engine: Engine = Engine::Rapier,
        /// Show the goal in camera images. ManiSkill hides it, which makes success invisible to an image model.
        show_goal: bool = true,
        /// Start every evaluation from the same set of states.
        use_fixed_reset_state_ids: bool = false,
        /// Environments that share a start state.
        #[range(AT_LEAST_ONE)]
        group_size: u64 = 1,
        /// Seed of resets.
        seed: u64 = 0,
        /// Whether these environments are for evaluation only.
        is_eval: bool = false,
        /// Keep videos.
        video_cfg: VideoSettings = VideoSettings::default(),
        /// Keep episodes.
        data_collection: Collection = Collection::default(),
        /// Python: the interpreter that runs it, such as that of a virtual environment.
        python: String = "python3".into(),
        /// Python: what to make of an environment that runs there.
        bridge: BridgeSettings = BridgeSettings::default(),
        /// Robot: the camera a policy sees as its main view.
        main_image_key: Option<String> = None,
        /// Robot: drive the robot with a SpaceMouse.
        use_spacemouse: bool = true,
        /// Robot: drive the robot with a GELLO arm.
        use_gello: bool = false,
        /// Robot: where the GELLO arm is plugged in.
        gello_port: Option<String> = None,
        /// Robot: leave the gripper closed and out of the action.
        no_gripper: bool = true,
        /// Robot: express poses and actions relative to where the episode started.
        use_relative_frame: bool = true,
        /// Robot: keys a person presses to say how an episode goes, in the place of the task's own reward, success and end.
        keyboard_reward_wrapper: Option<KeyboardLabels> = None,
        /// Robot: the robot and its task.
        override_cfg: RobotSettings = RobotSettings::default(),
    }
}

choice! {
    /// Which episodes of an environment in Python get a seed.
    Seeding = plaudit_env::Seeding {
        /// Every one: seed, row and number determine an episode.
        EveryEpisode = "every_episode",
        /// The first of each row; later ones are seeded by the environment itself. For large batches on a GPU.
        FirstEpisode = "first_episode",
    }
}

choice! {
    /// How environments in Python become a batch.
    Vectorization = plaudit_env::Vectorization {
        /// One after the other in one process.
        Rows = "rows",
        /// Each in a process of its own: for simulators that take milliseconds.
        Async = "async",
        /// The environment's own vector form.
        Vector = "vector",
    }
}

block! {
    /// What to make of an environment that runs in Python.
    BridgeSettings as BridgeSettingsWritten {
        /// Modules to import first, so that they register environments: names, or paths that end in `.py`.
        import: Vec<String> = Vec::new(),
        /// Which episodes get a seed.
        seeding: Seeding = Seeding::EveryEpisode,
        /// How environments become a batch.
        vectorization: Vectorization = Vectorization::Rows,
        /// Observations that are cameras, by name. Not set: all that look like images.
        cameras: Option<Vec<String>> = None,
        /// Observations that make the state, by name and in this order. Not set: all that are no cameras.
        state: Option<Vec<String>> = None,
        /// Show `render()` as one more camera, under this name.
        render: Option<String> = None,
        /// Where `info` holds success, such as `goal.reached`. Not set: `success` or `is_success`.
        success: Option<String> = None,
        /// Other numbers of `info` to report.
        facts: Vec<String> = Vec::new(),
        /// The task in words.
        instruction: Option<String> = None,
        /// How often a collection may start environments again that died, hung or raised. Finished episodes are kept.
        restarts: u64 = 0,
        /// Seconds that starting may take.
        #[range(POSITIVE)]
        start_timeout_secs: f64 = 300.0,
        /// Seconds that one step or reset of the batch may take; a process that takes longer is killed.
        #[range(POSITIVE)]
        step_timeout_secs: f64 = 300.0,
    }
}

block! {
    /// The task and its construction; what plaudit has no name for goes to the simulator as it is.
    InitParams as InitParamsWritten {
        /// The task: `PickCube-v1`, `CartPole-v1`, …
        id: Option<String> = None,
        /// Python: a class without an id, as `module:Class` or `path/to/file.py:Class`; a function that makes one will do.
        entry_point: Option<String> = None,
        /// How many environments; `total_num_envs` says the same.
        #[range(AT_LEAST_ONE)]
        num_envs: Option<usize> = None,
        /// What a policy sees.
        obs_mode: ObsMode = ObsMode::State,
        /// What an action means, such as `pd_joint_delta_pos`. Not set: as the policy's `policy_setup` says.
        control_mode: Option<String> = None,
        /// Where a simulator runs; the embedded one runs on the CPU whatever is said here.
        sim_backend: Option<String> = None,
        /// Clock rates of the simulation.
        sim_config: SimConfig = SimConfig::default(),
        /// Steps after which an episode is truncated; `max_episode_steps` of the environment decides.
        #[range(AT_LEAST_ONE)]
        max_episode_steps: Option<u64> = None,
        /// Camera sizes and shading.
        sensor_configs: SensorConfigs = SensorConfigs::default(),
        /// What a render shows: `rgb_array`, `all`, …
        render_mode: Option<String> = None,
        /// Further arguments for the simulator.
        other: FreeForm = FreeForm::default(),
    }
}

block! {
    /// Clock rates of the simulation.
    SimConfig as SimConfigWritten {
        /// Physics steps per second.
        #[range(AT_LEAST_ONE)]
        sim_freq: u64 = 100,
        /// Actions per second.
        #[range(AT_LEAST_ONE)]
        control_freq: u64 = 20,
        /// Further arguments for the simulator.
        other: FreeForm = FreeForm::default(),
    }
}

block! {
    /// Camera sizes and shading.
    SensorConfigs as SensorConfigsWritten {
        /// How a simulator shades: `default`, `minimal`, `rt`, …
        shader_pack: Option<String> = None,
        /// Width of every camera, in pixels. Not set: 128.
        #[range(AT_LEAST_ONE)]
        width: Option<usize> = None,
        /// Height of every camera, in pixels. Not set: 128.
        #[range(AT_LEAST_ONE)]
        height: Option<usize> = None,
        /// Sizes of single cameras by name.
        cameras: IndexMap<String, CameraSize> = IndexMap::new(),
    }
}

block! {
    /// The size of one camera.
    CameraSize as CameraSizeWritten {
        /// Pixels across.
        #[range(AT_LEAST_ONE)]
        width: Option<usize> = None,
        /// Pixels down.
        #[range(AT_LEAST_ONE)]
        height: Option<usize> = None,
        /// Further arguments for the simulator.
        other: FreeForm = FreeForm::default(),
    }
}

choice! {
    /// What kind of file a video is.
    VideoFormat = plaudit_view::video::VideoFormat {
        /// Animated PNG: every pixel exact; shown in a README too.
        Apng = "png" | "apng",
        /// H.264: the smallest.
        Mp4 = "mp4",
    }
}

block! {
    /// Videos of episodes.
    VideoSettings as VideoSettingsWritten {
        /// Whether to keep videos.
        save_video: bool = false,
        /// Write reward and success into the frame.
        info_on_video: bool = true,
        /// Further step information to write into the frame.
        extra_info_on_video: Vec<String> = Vec::new(),
        /// Where videos go. Not set: `video/` in the run directory.
        video_base_dir: Option<String> = None,
        /// What kind of file.
        format: VideoFormat = VideoFormat::Mp4,
        /// How many environments a video shows.
        #[range(AT_LEAST_ONE)]
        max_envs: usize = 16,
        /// Frames per second. Not set: the control rate.
        #[range(Range::AboveTo(0.0, 1000.0))]
        fps: Option<f64> = None,
    }
}
