//! Recordings of any format, written for other tools: LeRobot datasets, MCAP files and ManiSkill's trajectories.
//!
//! Episodes are read one after the other, and their images are asked for one by one: memory does not grow with the dataset.
//! What is written lies under a hidden name until all of it is there; then it gets its own.

mod error;
mod maniskill_file;
mod mcap_file;
mod output;
mod pose;
mod prepared;
mod protobuf;

use std::path::Path;

pub use error::{ExportError, ExportProblem};
pub use pose::{NoPose, Rotation, StatePose};

use self::output::OutputFolder;
use self::prepared::Prepared;
use crate::convert::BadFiles;
use crate::lerobot::{self, ColumnNames, ImageStorage};
use crate::recording::{BadFile, Recording, Recordings, Rules};

/// What is written.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportFormat {
    /// One LeRobot v3 dataset, with lerobot's own column names.
    LeRobot {
        /// Where images go.
        images: ImageStorage,
        /// The robot named in the dataset.
        robot_type: String,
    },
    /// An MCAP file for each episode.
    Mcap {
        /// Poses in the state, which become topics of their own.
        poses: Vec<StatePose>,
    },
    /// ManiSkill's trajectories: one HDF5 file, and a JSON file beside it.
    Maniskill {
        /// The environment named there.
        env_id: Option<String>,
    },
}

/// What a reward model says of each observation of an episode, or why it cannot.
pub type FrameScores<'a> = &'a dyn Fn(&Recording) -> Result<Vec<f32>, String>;

/// How recordings are exported.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportOptions {
    /// What is written.
    pub format: ExportFormat,
    /// Frames per second, which recordings do not say.
    pub fps: f64,
    /// What readers decide where a recording leaves it open, and what is done about files that cannot be used.
    pub rules: Rules,
}

/// What was exported.
#[derive(Debug, Default)]
pub struct ExportReport {
    /// Episodes that were written.
    pub episodes: u64,
    /// Frames of those.
    pub frames: u64,
    /// Episodes whose last action is left out, since what it led to was not recorded.
    pub without_last_action: u64,
    /// Files that were left out.
    pub skipped: Vec<BadFile>,
}

/// Writes one episode after the other.
trait EpisodeExporter {
    fn write(&mut self, episode: &Prepared) -> Result<(), ExportProblem>;
}

/// Exports what lies at `source` into the folder `output`, which must not be there. `progress` hears how many items of how many
/// are done.
///
/// # Errors
/// When the source cannot be opened, `output` exists, a file cannot be used (unless those are skipped), nothing is left, or
/// the disk refuses. Nothing is left at `output` then.
pub fn export(
    source: &Path,
    output: &Path,
    options: &ExportOptions,
    progress: &dyn Fn(usize, usize),
) -> Result<ExportReport, ExportError> {
    export_scored(source, output, options, None, progress)
}

/// As [`export`], with what a reward model says of each frame, which MCAP files have a topic for.
///
/// # Errors
/// As [`export`], and when there are no scores.
pub fn export_scored(
    source: &Path,
    output: &Path,
    options: &ExportOptions,
    scores: Option<FrameScores<'_>>,
    progress: &dyn Fn(usize, usize),
) -> Result<ExportReport, ExportError> {
    if !(options.fps > 0.0 && options.fps <= 1000.0) {
        return Err(ExportError::Fps { fps: options.fps });
    }
    let found = Recordings::open(source, &options.rules)?;
    let folder = OutputFolder::create(output)?;
    let mut report = ExportReport::default();
    let mut run = ExportRun { options, scores, progress, report: &mut report };
    match &options.format {
        ExportFormat::LeRobot { images, robot_type } => {
            let settings = lerobot::Settings {
                robot_type: robot_type.clone(),
                fps: options.fps,
                finalize_interval: 0,
                finalize_frames: 0,
                images: *images,
                columns: ColumnNames::LeRobot,
                ..lerobot::Settings::default()
            };
            let mut writer =
                lerobot::Writer::new(folder.work(), 0, settings).map_err(ExportError::lerobot)?;
            run.episodes(found, &mut LeRobotExporter(&mut writer))?;
            let shard = writer.finish().map_err(ExportError::lerobot)?;
            folder.commit(shard.as_ref().map(|shard| &*shard.path))?;
        }
        ExportFormat::Mcap { poses } => {
            let mut exporter = mcap_file::Exporter::new(folder.work(), options.fps, poses);
            run.episodes(found, &mut exporter)?;
            folder.commit(Some(folder.work()))?;
        }
        ExportFormat::Maniskill { env_id } => {
            let in_file = |problem: ExportProblem| problem.in_file(output);
            let mut exporter =
                maniskill_file::Exporter::new(folder.work(), env_id.clone()).map_err(in_file)?;
            run.episodes(found, &mut exporter)?;
            exporter.finish().map_err(in_file)?;
            folder.commit(Some(folder.work()))?;
        }
    }
    Ok(report)
}

/// An export while it runs.
struct ExportRun<'a> {
    options: &'a ExportOptions,
    scores: Option<FrameScores<'a>>,
    progress: &'a dyn Fn(usize, usize),
    report: &'a mut ExportReport,
}

impl ExportRun<'_> {
    fn episodes(
        &mut self,
        mut found: Recordings,
        exporter: &mut dyn EpisodeExporter,
    ) -> Result<(), ExportError> {
        for (path, problem) in std::mem::take(&mut found.broken) {
            self.pass_over(problem.in_file(&path))?;
        }
        let total = found.items.len();
        for (done, item) in found.items.iter().enumerate() {
            (self.progress)(done, total);
            let recordings = match item.read() {
                Ok(recordings) => recordings,
                Err(problem) => {
                    self.pass_over(problem.in_file(&item.path))?;
                    continue;
                }
            };
            let alone = recordings.len() == 1;
            for (number, recording) in recordings.into_iter().enumerate() {
                let name = if alone { item.stem() } else { format!("{}_{number}", item.stem()) };
                match Prepared::of(name, recording) {
                    Ok(episode) => self.episode(episode, exporter, &item.path)?,
                    Err(problem) => self.pass_over(problem.in_file(&item.path))?,
                }
            }
        }
        (self.progress)(total, total);
        if self.report.episodes == 0 {
            return Err(ExportError::NothingLeft { skipped: self.report.skipped.len() });
        }
        Ok(())
    }

    fn episode(
        &mut self,
        mut episode: Prepared,
        exporter: &mut dyn EpisodeExporter,
        path: &Path,
    ) -> Result<(), ExportError> {
        if let Some(scores) = self.scores {
            episode.score(scores).map_err(|why| ExportProblem::Scores(why).in_file(path))?;
        }
        exporter.write(&episode).map_err(|problem| problem.in_file(path))?;
        self.report.episodes += 1;
        self.report.frames += episode.len() as u64;
        self.report.without_last_action += u64::from(episode.lacks_last_action);
        Ok(())
    }

    /// A file that cannot be used.
    fn pass_over(&mut self, bad: BadFile) -> Result<(), ExportError> {
        match self.options.rules.bad_files {
            BadFiles::Stop => Err(ExportError::File(bad)),
            BadFiles::Skip => {
                self.report.skipped.push(bad);
                Ok(())
            }
        }
    }
}

/// Into a LeRobot dataset.
struct LeRobotExporter<'a>(&'a mut lerobot::Writer);

impl EpisodeExporter for LeRobotExporter<'_> {
    fn write(&mut self, episode: &Prepared) -> Result<(), ExportProblem> {
        self.0.append_from(&episode.as_source())?;
        Ok(())
    }
}
