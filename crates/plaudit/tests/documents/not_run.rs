//! What a test cannot run, each with its reason, and what it needs or is given.

/// A command that is not run.
pub(crate) struct NotRun {
    pub(crate) document: &'static str,
    /// How it begins. Nothing: every command of the document.
    pub(crate) command: &'static str,
    pub(crate) reason: &'static str,
}

const fn not_run(document: &'static str, command: &'static str, reason: &'static str) -> NotRun {
    NotRun { document, command, reason }
}

pub(crate) const NOT_RUN: &[NotRun] = &[
    not_run(
        "README.md",
        "cargo run --release",
        "it builds; docs/guide.md has the demo's commands, which run",
    ),
    not_run("README.md", ".ci/run", "it runs this test"),
    not_run("README.md", "tensorboard", "a server for a browser; crates/view checks its files"),
    not_run("README.md", "python3 -m venv", "it fetches packages"),
    not_run("docs/start/gymnasium.md", "python3 -m venv", "it fetches packages"),
    not_run("docs/start/gymnasium.md", "plaudit report", "without gymnasium there is nothing to report on"),
    not_run("docs/data-parallel.md", "apt install", "it installs"),
    not_run("docs/data-parallel.md", "cargo build", "it builds"),
    not_run("docs/data-parallel.md", "mpirun", "it needs MPI; bench/cluster/ranks.sh runs it"),
    not_run("docs/from-rlinf.md", "bash examples/", "RLinf's own script"),
    not_run(
        "docs/robot.md",
        "plaudit robot pose",
        "it needs a robot server; robot_bench.rs runs it with a simulated one",
    ),
    not_run(
        "docs/robot.md",
        "plaudit robot doctor",
        "it needs a robot server; robot_bench.rs runs it with a simulated one",
    ),
    not_run(
        "docs/robot.md",
        "plaudit robot label",
        "it needs a robot server; robot_bench.rs runs it with a simulated one",
    ),
    not_run("docs/python.md", "python3 -m venv", "python/test.sh does it, and runs what follows"),
    not_run("docs/python.md", ".venv/bin/pip install", "python/test.sh does it, and runs what follows"),
    not_run("docs/robot.md", "cargo build", "it builds"),
    not_run(
        "docs/robot.md",
        "plaudit robot serve",
        "it needs a Franka; crates/robot/tests/franka.rs runs the server with a simulated one",
    ),
    not_run(
        "docs/robot.md",
        "plaudit collect lerobot_collect",
        "it needs an arm; lerobot.rs runs it with one that has no hardware",
    ),
    not_run(
        "docs/collecting.md",
        "plaudit dataset render",
        "it needs what ManiSkill recorded; formats.rs renders such files",
    ),
    not_run("docs/cluster.md", "cargo build", "it builds"),
    not_run("docs/cluster.md", "pip install", "it fetches packages"),
    not_run(
        "docs/cluster.md",
        "plaudit cluster run",
        "it needs dora and two machines; bench/cluster has both",
    ),
    not_run(
        "docs/cluster.md",
        "sudo bench/cluster/faults.sh",
        "it takes half an hour, as root; CI runs its short form",
    ),
    not_run("docs/cluster.md", "plaudit cluster status", "it needs such a run"),
    not_run("docs/cluster.md", "plaudit cluster logs", "it needs such a run"),
    not_run(
        "docs/labels.md",
        "plaudit reward label model play --output-dir labels",
        "it asks a person; reward_label.rs runs it at a pseudo-terminal",
    ),
    not_run(
        "docs/labels.md",
        "python bench/labels/run.py",
        "it takes a quarter of an hour; reward_label.rs runs its commands",
    ),
    not_run(
        "docs/labels.md",
        "python bench/labels/studio.py",
        "it needs the Python package; studio_work.rs asks the same of a studio",
    ),
    not_run("docs/loggers.md", "python3 -m venv", "it fetches packages"),
    not_run(
        "docs/loggers.md",
        "WANDB_MODE=offline plaudit",
        "it needs wandb; loggers.rs runs it with a stand-in",
    ),
    not_run("docs/studio.md", "ssh", "it needs another machine"),
    not_run(
        "docs/studio.md",
        "plaudit reward train --data cube/episodes data.labels",
        "labels are made in a browser; studio.rs makes some there and trains with them",
    ),
    not_run("docs/loggers.md", "MLFLOW_TRACKING_URI=http", "it needs a server"),
    not_run("docs/mujoco.md", "", "it fetches packages, and builds with them"),
];

/// Lines of shown outputs that are not compared, by their beginnings.
pub(crate) const NOT_COMPARED: &[(&str, &[&str])] = &[
    // A model of four steps does not pass; a clone of 40 steps never succeeds, so that there is nothing to rank and to promise.
    ("docs/guide.md", &["PASSED", "   ", "AUC ", "threshold "]),
    // Where the tool is when a model of four steps is sure.
    ("docs/robot.md", &["episode "]),
    // Which signals raise the alarm.
    ("docs/hacking-monitor.md", &["warning: step "]),
];

/// Something outside plaudit.
pub(crate) enum Need {
    Tool(&'static str),
    PythonWith(&'static str),
}

impl std::fmt::Display for Need {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tool(name) => write!(formatter, "{name}"),
            Self::PythonWith(modules) => write!(formatter, "Python with {modules}"),
        }
    }
}

/// What a command with such a word in it needs. It runs where that is there.
pub(crate) const NEEDS: &[(&str, Need)] = &[
    ("curl ", Need::Tool("curl")),
    ("openssl ", Need::Tool("openssl")),
    (".venv/bin/python", Need::PythonWith("gymnasium")),
];

/// A file that a document's reader has already.
pub(crate) struct Given {
    pub(crate) document: &'static str,
    /// Where the reader has it.
    pub(crate) path: &'static str,
    /// What stands for it, from the root of the repository.
    pub(crate) from: &'static str,
}

pub(crate) const GIVEN: &[Given] = &[
    Given { document: "docs/own-models.md", path: "my_reward.py", from: "examples/my_reward.py" },
    Given {
        document: "docs/start/images.md",
        path: "recordings/success/take_1.mp4",
        from: "crates/data/tests/lerobot/gop_h264.mp4",
    },
    Given {
        document: "docs/start/images.md",
        path: "recordings/success/take_2.mp4",
        from: "crates/data/tests/lerobot/gop_h264.mp4",
    },
    Given {
        document: "docs/start/images.md",
        path: "recordings/success/take_3.mp4",
        from: "crates/data/tests/lerobot/gop_h264.mp4",
    },
    Given {
        document: "docs/start/images.md",
        path: "recordings/failure/take_1.mp4",
        from: "crates/data/tests/lerobot/gop_h264.mp4",
    },
    Given {
        document: "docs/start/images.md",
        path: "recordings/failure/take_2.mp4",
        from: "crates/data/tests/lerobot/gop_h264.mp4",
    },
    Given {
        document: "docs/start/images.md",
        path: "recordings/failure/take_3.mp4",
        from: "crates/data/tests/lerobot/gop_h264.mp4",
    },
    Given { document: "docs/cluster.md", path: "two_machines.yaml", from: "bench/cluster/two_machines.yaml" },
    Given {
        document: "README.md",
        path: "RLinf/examples/embodiment/config/maniskill_ppo_mlp.yaml",
        from: "configs/maniskill_ppo_mlp.yaml",
    },
    Given {
        document: "docs/from-rlinf.md",
        path: "RLinf/examples/embodiment/config/maniskill_ppo_mlp.yaml",
        from: "configs/maniskill_ppo_mlp.yaml",
    },
    Given {
        document: "docs/from-rlinf.md",
        path: "my.yaml",
        from: "crates/plaudit/tests/seeds/003_03_resnet_reward.yaml",
    },
];
