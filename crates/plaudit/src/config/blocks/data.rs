//! `data`: what reward models are trained on.

use crate::config::block::{OneOrMore, block, choice};

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

block! {
    /// What reward models are trained on.
    Data as DataWritten {
        /// Training data: `train.pt`, a `segments.jsonl`, or a store.
        train_data_paths: Option<OneOrMore<String>> = None,
        /// Validation data.
        val_data_paths: Option<OneOrMore<String>> = None,
        /// Episodes to make training and validation data from; used instead of the two above where it is set.
        data_path: Option<String> = None,
        /// Frames taken from each episode made into data. 0: all.
        num_samples_per_episode: u64 = 5,
        /// Failures kept per success. 0: keep all.
        fail_success_ratio: f64 = 2.0,
        /// Share of episodes kept for validation.
        val_split: f64 = 0.2,
        /// Keep the images used for training here.
        debug_save_dir: Option<String> = None,
        /// Threads that read ahead.
        num_workers: u64 = 4,
        /// New order in every epoch.
        shuffle: bool = true,
        /// Seed of the order.
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
        /// Windows: longest prompt, in tokens.
        max_prompt_length: u64 = 4096,
    }
}
