//! `data`: what reward models are trained on.

use super::reward::PromptLayout;
use crate::config::block::{OneOrMore, block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, Range, SHARE, THREADS};

choice! {
    /// What a dataset of windows is.
    WindowDataset {
        /// Two views, labels positive, negative, unclear.
        Trend = "vlm_trend_reward_sft",
        /// One view.
        SimpleTrend = "simple_vlm_trend_reward_sft",
        /// A dataset of RLinf's that plaudit does not read.
        Foreign = "foreign",
    }
}

choice! {
    /// Which tokens a judge learns.
    LearnedTokens = plaudit_reward::sft::TargetTokens {
        /// The answer and the end of its turn.
        Answer = "answer",
        /// The first token of the answer, by which labels are read.
        FirstToken = "first_token",
        /// RLinf's: also the header of the turn after it, which is always the same.
        Rlinf = "rlinf",
    }
}

choice! {
    /// The source of episodes.
    EpisodeSource {
        /// Today's collectors: a pickle per episode, `success` in its infos.
        Collected = "collected",
        /// Earlier collectors: `is_obj_placed` in the infos.
        PreMerge = "pre-merge",
        /// Folders `success` and `failure` of pickles of frames.
        Frames = "frames",
        /// Folders `positive` and `negative` of `.npy`.
        Trajectories = "trajectories",
        /// A robot's transitions, in one file.
        Transitions = "transitions",
        /// Frames labelled by keyboard, in one file.
        Keyboard = "keyboard",
    }
}

block! {
    /// Random augmentation of training images. Each is off at 0.
    AugmentSettings as AugmentSettingsWritten {
        /// Shifted by up to this share of the side.
        #[range(SHARE)]
        shift: f64 = 0.0,
        /// Cropped by up to this share of the side, then resized back.
        #[range(SHARE)]
        crop: f64 = 0.0,
        /// Brighter or darker by up to this share.
        #[range(SHARE)]
        brightness: f64 = 0.0,
        /// More or less contrast by up to this share.
        #[range(SHARE)]
        contrast: f64 = 0.0,
        /// More or less colour by up to this share.
        #[range(SHARE)]
        saturation: f64 = 0.0,
        /// Colours turned by up to this share of the circle. Not where a colour is the goal.
        #[range(SHARE)]
        hue: f64 = 0.0,
        /// Blurred by up to so many pixels (standard deviation).
        #[range(NOT_NEGATIVE)]
        blur: f64 = 0.0,
        /// A grey rectangle over the image, with sides of up to this share.
        #[range(SHARE)]
        cutout: f64 = 0.0,
    }
}

block! {
    /// Segments of demonstrations that are played otherwise, for the past frames of a progress model's frame stack.
    TimeWarpSettings as TimeWarpSettingsWritten {
        /// Share of frames whose segment is rewound: the past is the future.
        #[range(SHARE)]
        rewind: f64 = 0.2,
        /// Share whose segment is stalled: the past is the present.
        #[range(SHARE)]
        stall: f64 = 0.1,
        /// Share whose segment is played two or three times as fast.
        #[range(SHARE)]
        speed_up: f64 = 0.1,
        /// Share before which some frames are cut out.
        #[range(SHARE)]
        cut: f64 = 0.1,
    }
}

block! {
    /// What reward models are trained on.
    Data as DataWritten {
        /// Training data: `train.pt`, a `segments.jsonl`, or a store.
        train_data_paths: Option<OneOrMore<String>> = None,
        /// Validation data.
        val_data_paths: Option<OneOrMore<String>> = None,
        /// Episodes to make training and validation data from: a folder, a file, or a store; used instead of the two
        /// above where it is set.
        data_path: Option<String> = None,
        /// The source of the episodes, where it cannot be detected.
        source: Option<EpisodeSource> = None,
        /// A step with a reward above this shows success, where episodes do not say. 0.5 for transitions of a robot where
        /// nothing is written.
        success_reward: Option<f64> = None,
        /// A table of labels (`.csv`, `.json` or `.jsonl`) that counts before what the episodes say: `episode,label`, or
        /// `episode,start,end,label` for frames from `start` up to `end`.
        labels: Option<String> = None,
        /// So many frames at the end of an episode show success, where no frame has a label and it is not known to have failed.
        success_last_frames: Option<u64> = None,
        /// A robot's action whose absolute values sum to less does nothing, and nothing is learned from it.
        #[range(NOT_NEGATIVE)]
        idle_action: f64 = 1e-5,
        /// Episodes and files that cannot be used are left out, counted and listed. Off: the first one is an error.
        skip_bad: bool = false,
        /// Successful `.npy` trajectories; with `negative_dir`, used instead of all of the above.
        positive_dir: Option<String> = None,
        /// Failed `.npy` trajectories.
        negative_dir: Option<String> = None,
        /// Augmentation of training images.
        augment: AugmentSettings = AugmentSettings::default(),
        /// Progress model: segments that are played otherwise.
        time_warp: TimeWarpSettings = TimeWarpSettings::default(),
        /// Progress model: unsolved episodes are unlabelled play, of which every progress is as likely. Off: they are left out.
        unlabelled_play: bool = false,
        /// Frames taken from each episode made into data. 0: all.
        num_samples_per_episode: u64 = 5,
        /// Failures kept per success. 0: keep all.
        #[range(NOT_NEGATIVE)]
        fail_success_ratio: f64 = 2.0,
        /// Episodes with recorded states: conditions that success needs beside what is seen, such as `abs(state[9:16]) < 0.2` for a robot
        /// whose joints stand still. Frames where one does not hold are not learned from, unless they are more than ten frames before
        /// success; the model carries the conditions, audits count by them, and `train` rewards only where they hold.
        guards: Vec<String> = Vec::new(),
        /// Share of episodes kept for validation.
        #[range(SHARE)]
        val_split: f64 = 0.2,
        /// Keep the images used for training here.
        debug_save_dir: Option<String> = None,
        /// Image classifiers on a GPU: threads that make batches ahead of it. Not set: one for each core, 16 at most. 0: batches are made when
        /// it is their turn. The same batches with any number.
        #[range(THREADS)]
        num_workers: Option<u64> = None,
        /// New order in every epoch.
        shuffle: bool = true,
        /// Seed of the split into training and validation, and of the order of windows.
        seed: u64 = 42,
        /// Windows: which kind of dataset.
        dataset_name: Option<WindowDataset> = None,
        /// Windows: folder that relative paths are looked up in.
        data_root: Option<String> = None,
        /// Windows: key of the question in each line.
        prompt_key: String = "prompt".into(),
        /// Windows: key of the answer in each line.
        answer_key: String = "answer".into(),
        /// Windows: read frames when they are needed.
        lazy_loading: bool = true,
        /// Windows: which tokens are learned.
        loss: LearnedTokens = LearnedTokens::Answer,
        /// Windows: where the text of a prompt stands. A judge is prompted as it was trained.
        prompt_layout: PromptLayout = PromptLayout::VideosFirst,
        /// Windows: frames per second of the episodes, which the timestamps in a prompt go by. 24 is RLinf's, whatever the episodes are. A
        /// judge is shown windows at the rate it was trained with.
        #[range(Range::Within(0.001, 1000.0))]
        window_fps: f64 = 24.0,
        /// Windows: height and width that frames are brought to before the model's processor sees them, which bounds their tokens. Not
        /// set: as they are. A judge is shown frames in the size it was trained with.
        frame_size: Option<[u64; 2]> = None,
        /// Windows: longest prompt, in tokens.
        #[range(AT_LEAST_ONE)]
        max_prompt_length: u64 = 4096,
    }
}
