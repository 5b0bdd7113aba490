//! Recordings of any format, written for other tools: LeRobot datasets and MCAP files.
//!
//! Episodes are read one after the other, and their images are asked for one by one: memory does not grow with the dataset.
//! What is written lies under a hidden name until all of it is there; then it gets its own.

mod error;
mod mcap_file;
mod output;
mod prepared;
mod protobuf;

use std::path::Path;

pub use error::{ExportError, ExportProblem};

use self::output::OutputFolder;
use self::prepared::Prepared;
use crate::convert::BadFiles;
use crate::lerobot::{self, ColumnNames, ImageStorage};
use crate::recording::{BadFile, Recordings, Rules};

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
    Mcap,
}

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
    if !(options.fps > 0.0 && options.fps <= 1000.0) {
        return Err(ExportError::Fps { fps: options.fps });
    }
    let found = Recordings::open(source, &options.rules)?;
    let folder = OutputFolder::create(output)?;
    let mut report = ExportReport::default();
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
            export_episodes(found, &mut LeRobotExporter(&mut writer), options, progress, &mut report)?;
            let shard = writer.finish().map_err(ExportError::lerobot)?;
            folder.commit(shard.as_ref().map(|shard| &*shard.path))?;
        }
        ExportFormat::Mcap => {
            let mut exporter = mcap_file::Exporter::new(folder.work(), options.fps);
            export_episodes(found, &mut exporter, options, progress, &mut report)?;
            folder.commit(Some(folder.work()))?;
        }
    }
    Ok(report)
}

fn export_episodes(
    mut found: Recordings,
    exporter: &mut dyn EpisodeExporter,
    options: &ExportOptions,
    progress: &dyn Fn(usize, usize),
    report: &mut ExportReport,
) -> Result<(), ExportError> {
    let pass_over = |report: &mut ExportReport, bad: BadFile| match options.rules.bad_files {
        BadFiles::Stop => Err(ExportError::File(bad)),
        BadFiles::Skip => {
            report.skipped.push(bad);
            Ok(())
        }
    };
    for (path, problem) in std::mem::take(&mut found.broken) {
        pass_over(report, problem.in_file(&path))?;
    }
    let total = found.items.len();
    for (done, item) in found.items.iter().enumerate() {
        progress(done, total);
        let recordings = match item.read() {
            Ok(recordings) => recordings,
            Err(problem) => {
                pass_over(report, problem.in_file(&item.path))?;
                continue;
            }
        };
        let alone = recordings.len() == 1;
        for (number, recording) in recordings.into_iter().enumerate() {
            let name = if alone { item.stem() } else { format!("{}_{number}", item.stem()) };
            match Prepared::of(name, recording) {
                Ok(episode) => {
                    exporter.write(&episode).map_err(|problem| problem.in_file(&item.path))?;
                    report.episodes += 1;
                    report.frames += episode.len() as u64;
                    report.without_last_action += u64::from(episode.lacks_last_action);
                }
                Err(problem) => pass_over(report, problem.in_file(&item.path))?,
            }
        }
    }
    progress(total, total);
    if report.episodes == 0 {
        return Err(ExportError::NothingLeft { skipped: report.skipped.len() });
    }
    Ok(())
}

/// Into a LeRobot dataset.
struct LeRobotExporter<'a>(&'a mut lerobot::Writer);

impl EpisodeExporter for LeRobotExporter<'_> {
    fn write(&mut self, episode: &Prepared) -> Result<(), ExportProblem> {
        self.0.append_from(&episode.as_source())?;
        Ok(())
    }
}
