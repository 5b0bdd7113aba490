//! `plaudit dataset export`: recordings of any format, written for other tools.

mod scores;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plaudit_data::export::{
    ExportError, ExportFormat, ExportOptions, ExportProblem, ExportReport, FrameScores, StatePose,
    export_scored,
};
use plaudit_data::lerobot::ImageStorage;
use plaudit_data::recording::Recording;

use super::left_out::left_out;
use super::rule_args::RuleArgs;
use crate::cli::Verbosity;
use crate::console;
use crate::device::DeviceArgs;
use crate::failure::Failure;
use crate::hints::{self, AskedBy};
use crate::progress::{ProgressBar, ProgressUpdate};

/// Write episodes of any format for other tools: LeRobot datasets, MCAP files for Foxglove and Rerun, ManiSkill's trajectories
///
/// Reads what `dataset inspect` reads, one episode after the other. What was recorded is written, under the names of the tool:
/// nothing is made up where rewards or success are unknown. Labelled images and windows are refused: they are no episodes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit dataset export logs/run/data --format lerobot --output-dir dataset
  plaudit dataset export trajectory.rgb.h5 --format lerobot --video h264 \\
      --fps 20 --output-dir dataset
  plaudit dataset export store --format mcap --output-dir mcap
  plaudit dataset export store --format mcap --reward-model logs/reward \\
      --pose tcp=19:wxyz --output-dir mcap
  plaudit dataset export store --format maniskill --output-dir trajectories")]
pub struct Export {
    /// Episodes: a folder or file that `dataset inspect` knows
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: FormatWord,
    /// Where it goes; a folder that is not there yet
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Whether images of a LeRobot dataset are videos
    #[arg(long, value_enum, value_name = "CODEC", default_value_t = VideoWord::None)]
    video: VideoWord,
    /// Frames per second, which recordings do not say
    #[arg(long, value_name = "X", default_value_t = 10.0)]
    fps: f64,
    /// The robot named in a LeRobot dataset
    #[arg(long, value_name = "NAME", default_value = "panda")]
    robot_type: String,
    /// A reward model: what it says of each frame is a topic of an MCAP file. A run, a checkpoint, a judge, or a server's address
    #[arg(long, value_name = "MODEL")]
    reward_model: Option<PathBuf>,
    /// A pose in the state, a topic of an MCAP file: x, y, z from number FIRST on (counted from 0), and then a quaternion
    /// with its real part first (wxyz) or last (xyzw), or no rotation (xyz). May be repeated
    #[arg(long, value_name = "NAME=FIRST:ORDER")]
    pose: Vec<StatePose>,
    /// The environment named in ManiSkill's description, such as PickCube-v1
    #[arg(long, value_name = "ID")]
    env_id: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    rules: RuleArgs,
}

/// What is written, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatWord {
    /// A LeRobot v3 dataset, with lerobot's own column names
    Lerobot,
    /// An MCAP file for each episode: images, states, actions, rewards and success as topics
    Mcap,
    /// ManiSkill's trajectories: one HDF5 file, and a JSON file beside it
    Maniskill,
}

/// Where images of a LeRobot dataset go, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VideoWord {
    /// PNG files inside the parquet files: every pixel exact
    None,
    /// H.264 in MP4 files: small, and slightly blurred
    H264,
}

impl Export {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let options = self.options()?;
        let open = |at: &PathBuf| scores::open(at, self.device.choice(), verbosity);
        let scorer = self.reward_model.as_ref().map(open).transpose()?;
        let scores = scorer.as_ref().map(|scorer| {
            |recording: &Recording| {
                let found = scorer.scores(recording, &|_| true).map_err(|error| error.to_string())?;
                Ok(found.scores)
            }
        });
        let scores = scores.as_ref().map(|scores| scores as FrameScores<'_>);
        let bar = ProgressBar::new("dataset export", verbosity);
        let tick = |done, total| bar.show(ProgressUpdate { what: "writing", unit: "files", done, total });
        let report = export_scored(&self.path, &self.output_dir, &options, scores, &tick);
        drop(bar);
        let report = report.map_err(failure)?;
        let (ExportReport { episodes, frames, .. }, to) = (&report, self.output_dir.display());
        console::print(&format!("{episodes} episodes ({frames} frames) in {to}\n"))?;
        if !verbosity.quiet {
            notes(&report, verbosity);
        }
        Ok(())
    }

    /// Refuses flags of another format.
    fn refuse_others(&self) -> Result<(), Failure> {
        let flags = [
            ("--video", FormatWord::Lerobot, self.video != VideoWord::None),
            ("--reward-model", FormatWord::Mcap, self.reward_model.is_some()),
            ("--pose", FormatWord::Mcap, !self.pose.is_empty()),
            ("--env-id", FormatWord::Maniskill, self.env_id.is_some()),
        ];
        let Some((flag, format, _)) = flags.iter().find(|(_, of, given)| *given && *of != self.format) else {
            return Ok(());
        };
        let format = match format {
            FormatWord::Lerobot => "lerobot",
            FormatWord::Mcap => "mcap",
            FormatWord::Maniskill => "maniskill",
        };
        Err(Failure::usage(format!("{flag} is for --format {format}"), format!("leave out {flag}")))
    }

    fn options(&self) -> Result<ExportOptions, Failure> {
        self.refuse_others()?;
        let images = match self.video {
            VideoWord::None => ImageStorage::Png,
            VideoWord::H264 => ImageStorage::H264,
        };
        let format = match self.format {
            FormatWord::Lerobot => ExportFormat::LeRobot { images, robot_type: self.robot_type.clone() },
            FormatWord::Mcap => ExportFormat::Mcap { poses: self.pose.clone() },
            FormatWord::Maniskill => ExportFormat::Maniskill { env_id: self.env_id.clone() },
        };
        Ok(ExportOptions { format, fps: self.fps, rules: self.rules.rules() })
    }
}

/// Says what is not in what was written.
fn notes(report: &ExportReport, verbosity: Verbosity) {
    if report.without_last_action > 0 {
        console::eprintln(&format!(
            "note: the last action of {} episodes is left out: what it led to was not recorded",
            report.without_last_action
        ));
    }
    if let Some(text) = left_out(&report.skipped, verbosity.verbose) {
        console::eprintln(&text);
    }
}

fn failure(error: ExportError) -> Failure {
    match &error {
        ExportError::Open(open) => {
            let help = match hints::about_open(open, AskedBy::Model) {
                Some(help) => help,
                None => "check the path".into(),
            };
            Failure::usage(error, help)
        }
        ExportError::Fps { .. } => Failure::usage(error, "give --fps a number such as 20".to_string()),
        ExportError::Exists { .. } => {
            Failure::usage(error, "give another --output-dir, or remove the folder".to_string())
        }
        ExportError::File(_) | ExportError::NothingLeft { .. } => Failure::runtime(
            error,
            "`plaudit dataset inspect` says what is there; --skip-bad leaves out what cannot be used"
                .to_string(),
        ),
        ExportError::Episode { problem: ExportProblem::Pose { .. }, .. } => {
            let help =
                "`plaudit dataset inspect` says how many numbers a state has; --pose counts them from 0";
            Failure::usage(error, help.to_string())
        }
        ExportError::Episode { problem: ExportProblem::Scores(_), .. } => {
            let help = "--reward-model takes a model that was trained on such episodes";
            Failure::usage(error, help.to_string())
        }
        _ => Failure::runtime(error, None),
    }
}
