//! The kinds of projects, and the files of each.

use clap::ValueEnum;

/// What a project begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProjectKind {
    /// Images or videos of a task, sorted into success and failure
    Images,
    /// A LeRobot dataset
    Lerobot,
    /// A Gymnasium environment in Python
    Gymnasium,
    /// A robot arm behind a robot server
    Robot,
}

/// Files of a project: where each goes, and its text.
type Files = &'static [(&'static str, &'static str)];

const IMAGES: Files =
    &[("README.md", include_str!("images/README.md")), ("reward.yaml", include_str!("images/reward.yaml"))];

const LEROBOT: Files =
    &[("README.md", include_str!("lerobot/README.md")), ("reward.yaml", include_str!("lerobot/reward.yaml"))];

const GYMNASIUM: Files = &[
    ("README.md", include_str!("gymnasium/README.md")),
    ("my_env.py", include_str!("gymnasium/my_env.py")),
    ("train.yaml", include_str!("gymnasium/train.yaml")),
];

const ROBOT: Files = &[
    ("README.md", include_str!("robot/README.md")),
    ("demos.yaml", include_str!("robot/demos.yaml")),
    ("reward.yaml", include_str!("robot/reward.yaml")),
    ("policy.yaml", include_str!("robot/policy.yaml")),
];

impl ProjectKind {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Images, Self::Lerobot, Self::Gymnasium, Self::Robot];

    /// Its name, and that of its folder where nothing else is said.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Lerobot => "lerobot",
            Self::Gymnasium => "gymnasium",
            Self::Robot => "robot",
        }
    }

    /// What it writes.
    pub(super) fn files(self) -> Files {
        match self {
            Self::Images => IMAGES,
            Self::Lerobot => LEROBOT,
            Self::Gymnasium => GYMNASIUM,
            Self::Robot => ROBOT,
        }
    }

    /// Folders that are empty at first.
    pub(super) fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Images => &["episodes/success", "episodes/failure"],
            Self::Lerobot | Self::Gymnasium | Self::Robot => &[],
        }
    }

    /// What to do first.
    pub(super) fn first_command(self) -> &'static str {
        match self {
            Self::Images => "plaudit dataset inspect episodes --success-last-frames 10 --sheet sheet.png",
            Self::Lerobot => "plaudit dataset inspect dataset --success-last-frames 10 --sheet sheet.png",
            Self::Gymnasium => "plaudit train train.yaml runner.logger.log_path=policy",
            Self::Robot => "plaudit collect demos.yaml",
        }
    }
}
