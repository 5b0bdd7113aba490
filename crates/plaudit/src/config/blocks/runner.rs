//! `runner`: how long, how often, where to.

use crate::config::block::{block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, Range, SHARE};

choice! {
    /// What kind of work a config describes.
    TaskType {
        /// Reinforcement learning, collection or evaluation with environments.
        Embodied = "embodied",
        /// Evaluation alone.
        EmbodiedEval = "embodied_eval",
        /// Supervised training: of an image reward model, or of a vision-language judge.
        Sft = "sft",
    }
}

block! {
    /// How long a run lasts, how often it validates and saves, and where it writes.
    Runner as RunnerWritten {
        /// What kind of work this config describes.
        task_type: TaskType = TaskType::Embodied,
        /// Where logs go and under which name.
        logger: Logger = Logger::default(),
        /// Epochs to train; one epoch of reinforcement learning is one rollout with its updates. -1: no limit.
        #[range(Range::CountOr("no limit"))]
        max_epochs: i64 = -1,
        /// Steps to train; the smaller of this and `max_epochs` ends the run. -1: no limit.
        #[range(Range::CountOr("no limit"))]
        max_steps: i64 = -1,
        /// Evaluate the policy and do not train.
        only_eval: bool = false,
        /// Validate every so many steps. -1: never.
        #[range(Range::CountOr("never"))]
        val_check_interval: i64 = -1,
        /// Save every so many steps; a multiple of `val_check_interval` when both are set. -1: only at the end.
        #[range(Range::CountOr("only at the end"))]
        save_interval: i64 = -1,
        /// A run to resume: its directory, or a checkpoint folder in it.
        resume_dir: Option<String> = None,
        /// Weights to start from, without the rest of a run's state.
        ckpt_path: Option<String> = None,
        /// Stop when validation no longer improves.
        early_stop: EarlyStop = EarlyStop::default(),
        /// Image reward model: train a second, smaller one from another seed afterwards, which the hacking monitor asks about rewarded
        /// frames. It is stored as `checkpoints/second_model`.
        second_model: bool = false,
        /// Act and learn in parallel, neither waiting for the other (SAC). Not set: as the config's name says, which ends
        /// in `_async` or does not.
        asynchronous: bool = false,
        /// Send new weights to the environments' side every so many steps of learning (asynchronous training).
        #[range(AT_LEAST_ONE)]
        weight_sync_interval: u64 = 1,
        /// Robot: episodes to collect on the robot.
        num_data_episodes: u64 = 20,
        /// Robot: whether collected episodes carry the task in words.
        record_task_description: bool = false,
        /// Robot: success frames to label by hand before collection stops.
        num_success_frames: u64 = 50,
        /// Robot: failure frames to label by hand before collection stops.
        num_fail_frames: u64 = 150,
        /// Robot: share of labelled frames kept for validation.
        #[range(SHARE)]
        val_split: f64 = 0.2,
        /// Robot: failures kept per success in the training part. 0: keep all.
        #[range(NOT_NEGATIVE)]
        fail_success_ratio: f64 = 2.0,
        /// Robot: seed of the split.
        random_seed: u64 = 42,
    }
}

choice! {
    /// Where metrics go besides the run directory.
    LoggerBackend {
        /// Event files that TensorBoard reads.
        Tensorboard = "tensorboard",
        /// Weights & Biases, through its package in `python`.
        Wandb = "wandb",
        /// MLflow, through its package in `python`.
        Mlflow = "mlflow",
        /// trackio, through its package in `python`.
        Trackio = "trackio",
        /// Not written here: run `swanlab convert` on the TensorBoard files.
        Swanlab = "swanlab",
    }
}

block! {
    /// Where logs go and under which name.
    Logger as LoggerWritten {
        /// The run directory. Not set: `logs/<time>-<experiment_name>`.
        log_path: Option<String> = None,
        /// Groups runs in loggers that know projects.
        project_name: String = "plaudit".into(),
        /// Names the run.
        experiment_name: Option<String> = None,
        /// Where metrics go besides the run directory.
        logger_backends: Vec<LoggerBackend> = vec![LoggerBackend::Tensorboard],
        /// The Python that has the packages of `wandb`, `mlflow` and `trackio`.
        python: String = "python3".into(),
    }
}

choice! {
    /// The number that makes a model the best, and that early stopping watches.
    Monitor = plaudit_reward::train::Monitor {
        /// Validation loss; lower is better.
        Loss = "val_loss",
        /// Validation accuracy; higher is better.
        Accuracy = "val_accuracy",
        /// Probability that a success scores higher than a failure (area under the ROC curve), on validation data; higher is better.
        Auc = "auc" | "val_auc",
        /// Average precision on validation data; higher is better.
        AveragePrecision = "average_precision" | "val_average_precision",
    }
}

block! {
    /// Stops training when validation no longer improves.
    EarlyStop as EarlyStopWritten {
        /// Whether to stop early.
        enabled: bool = false,
        /// Validations without improvement before stopping.
        patience: u64 = 5,
        /// The least change that counts as improvement.
        #[range(NOT_NEGATIVE)]
        min_delta: f64 = 0.001,
        /// The number to watch. It also decides which model is the best, early stop or not.
        monitor: Monitor = Monitor::Loss,
    }
}
