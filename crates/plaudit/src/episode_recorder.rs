//! Records episodes while environments run, as `data_collection` asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_cluster::worker::CountedRollout;
use plaudit_core::{Emit, EnvSpec, Event, Level, Obs, Seed};
use plaudit_data::episode::as_python::cameras_without_room;
use plaudit_data::episode::{
    CollectionRun, Collector, Counts, Ending, Episode, EpisodeFormat, EpisodeWriter, Keep, Targets,
    WriterError,
};
use plaudit_data::lerobot::{self, Existing};
use plaudit_data::store::Origin;
use plaudit_rl::TakenStep;

use crate::build::EnvBlock;
use crate::config::LoadedConfig;
use crate::config::block::OneOrMore;
use crate::config::blocks::collection::{Collection, ExportFormat, VideoCodec};
use crate::config::yaml;
use crate::failure::Failure;
use crate::remote_episodes::RemoteEpisodes;
use crate::run::Run;

/// Collects episodes and writes those that are wanted to disk.
pub struct EpisodeRecorder {
    collector: Option<Collector>,
    /// Episodes of environments in other processes.
    remote: RemoteEpisodes,
    /// Episodes that each environment has finished.
    finished: Vec<u64>,
    writers: Vec<EpisodeWriter>,
    settings: Collection,
    seed: Seed,
    directory: PathBuf,
    resumes: bool,
    /// Cameras that a format has no room for.
    without_room: Vec<Arc<str>>,
}

impl EpisodeRecorder {
    /// Makes ready to record episodes in `directory`, unless the config names another. `by` tells a collection that goes
    /// on from one that begins; `spec` is of the environments.
    pub fn start(
        loaded: &LoadedConfig,
        which: EnvBlock,
        spec: &EnvSpec,
        directory: PathBuf,
        by: CollectionRun<'_>,
    ) -> Result<Self, Failure> {
        let settings = which.settings(loaded).data_collection.clone();
        let directory = settings.save_dir.as_ref().map_or(directory, PathBuf::from);
        let formats = match &settings.export_format {
            OneOrMore::One(format) => vec![*format],
            OneOrMore::More(formats) => formats.clone(),
        };
        let mut writers = Vec::new();
        for format in &formats {
            // Several formats would count each other's files as their own.
            let folder = if formats.len() > 1 { directory.join(format.word()) } else { directory.clone() };
            writers.push(writer(loaded, which, *format, &folder, by)?);
        }
        let in_one_tensor = |format: &ExportFormat| {
            matches!(format, ExportFormat::Pickle | ExportFormat::Frames | ExportFormat::ReplayBuffer)
        };
        let without_room = match formats.iter().any(in_one_tensor) {
            true => cameras_without_room(&spec.cameras),
            false => Vec::new(),
        };
        let seed = Seed::new(which.settings(loaded).seed).purpose("keep");
        let resumes = matches!(by, CollectionRun::Resumed(_));
        Ok(Self {
            collector: None,
            remote: RemoteEpisodes::default(),
            finished: Vec::new(),
            writers,
            settings,
            seed,
            directory,
            resumes,
            without_room,
        })
    }

    /// All environments were reset.
    pub fn reset(&mut self, obs: &Obs) {
        let keep = self.keep();
        self.finished.resize(obs.batch(), 0);
        match &mut self.collector {
            Some(collector) => collector.restart(obs),
            None => self.collector = Some(Collector::new(obs, keep)),
        }
    }

    /// A step was taken. Episodes beyond `limit` are not kept.
    pub fn step(&mut self, taken: &TakenStep, limit: u64) -> Result<(), Failure> {
        self.step_labelled(taken, limit, |_| {})
    }

    /// The same, where somebody has something to say about an episode that ends, before it is written.
    pub(crate) fn step_labelled(
        &mut self,
        taken: &TakenStep,
        limit: u64,
        label: impl Fn(&mut Episode),
    ) -> Result<(), Failure> {
        let Some(collector) = &mut self.collector else { return Ok(()) };
        for mut episode in collector.step(&taken.actions, &taken.step) {
            label(&mut episode);
            if self.is_in_turn(&episode, limit) && self.is_sampled(&episode) {
                self.write(episode)?;
            }
        }
        Ok(())
    }

    /// Other processes played a rollout, and it was counted.
    pub(crate) fn rollout(&mut self, rollout: &CountedRollout<'_>) -> Result<(), Failure> {
        let keep = self.keep();
        for episode in self.remote.take(rollout, keep) {
            if self.is_sampled(&episode) {
                self.write(episode)?;
            }
        }
        Ok(())
    }

    fn keep(&self) -> Keep {
        if self.settings.only_success { Keep::Successes } else { Keep::All }
    }

    fn write(&mut self, episode: Episode) -> Result<(), Failure> {
        for writer in &mut self.writers {
            // Images are shared, not copied.
            writer.write(episode.clone()).map_err(cannot_write)?;
        }
        Ok(())
    }

    /// Whether an episode is one of the `limit` that are wanted. Each environment gives as many as the others: the first
    /// ones to end would mostly be successes, which are short. Where outcomes are chosen anyway, the first ones do.
    fn is_in_turn(&mut self, episode: &Episode, limit: u64) -> bool {
        let Collection {
            only_success,
            target_success,
            target_failure,
            sample_rate_success,
            sample_rate_fail,
            ..
        } = self.settings;
        let is_choosy = only_success
            || target_success.or(target_failure).is_some()
            || sample_rate_success.min(sample_rate_fail) < 1.0;
        let (row, rows) = (episode.row as u64, self.finished.len() as u64);
        self.finished[episode.row] += 1;
        let share = limit / rows + u64::from(row < limit % rows);
        self.kept().all() < limit && (is_choosy || self.finished[episode.row] <= share)
    }

    /// Whether an episode falls into the share of its kind that is kept; always the same answer for it.
    fn is_sampled(&self, episode: &Episode) -> bool {
        let Collection { sample_rate_success, sample_rate_fail, .. } = self.settings;
        let rate = if episode.success { sample_rate_success } else { sample_rate_fail };
        rate >= 1.0 || self.seed.index(episode.row as u64).index(episode.number).rng().unit() < rate
    }

    /// How many were kept.
    pub fn kept(&self) -> Counts {
        self.writers.first().map(EpisodeWriter::taken).unwrap_or_default()
    }

    /// Whether as many of each kind are kept as were asked for.
    pub fn is_done(&self) -> bool {
        self.writers.first().is_some_and(EpisodeWriter::is_done)
    }

    /// Episodes that were in the folder before.
    pub fn already_there(&self) -> u64 {
        self.writers.first().map_or(0, |writer| writer.found().episodes)
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What the user should know before anything is recorded.
    pub fn notices(&self) -> Vec<(Level, String)> {
        let found = self.found().map(|text| (Level::Info, text));
        let left_out = (!self.without_room.is_empty()).then(|| {
            let text = format!(
                "RLinf's layout has one size for all cameras but the first: {} will not be recorded; use export_format store \
                 or lerobot, or give all of them one size in init_params.sensor_configs",
                self.without_room.join(", ")
            );
            (Level::Warning, text)
        });
        found.into_iter().chain(left_out).collect()
    }

    /// What was in the folder, in a sentence; nothing if it was empty.
    fn found(&self) -> Option<String> {
        let found = self.writers.first()?.found();
        let place = self.directory.display();
        let left = match found.unfinished {
            0 => String::new(),
            n => format!(" and {n} that a killed run had not finished, which are removed"),
        };
        let kept = match found.recovered {
            0 => String::new(),
            n => format!(
                " ({n} of them in a dataset that a killed run had left open, and that is complete now)"
            ),
        };
        let then = if self.resumes {
            "those of this run are played again and stay as they are, and it goes on after them"
        } else {
            "new ones are added"
        };
        let any = found.episodes + found.unfinished > 0;
        any.then(|| format!("{place} holds {} episodes{kept}{left}; {then}", found.episodes))
    }

    /// Seconds that stepping waited for the disk.
    pub fn waited_secs(&self) -> f64 {
        self.writers.iter().map(|writer| writer.waited().as_secs_f64()).sum()
    }

    /// Waits until everything is on disk, and says where it is.
    pub fn close(self, run: &mut Run) -> Result<(), Failure> {
        let text = format!("{} episodes in {}", self.kept().all(), self.directory().display());
        self.finish(Ending::Complete)?;
        run.emit(Event::Notice { level: Level::Info, text });
        Ok(())
    }

    /// Waits until everything is on disk.
    pub fn finish(self, ending: Ending) -> Result<Counts, Failure> {
        let mut counts = Counts::default();
        for writer in self.writers {
            counts = writer.finish(ending).map_err(cannot_write)?;
        }
        Ok(counts)
    }
}

/// The disk is full, or gone.
fn cannot_write(error: WriterError) -> Failure {
    let help =
        "free some space, then go on with the command above; nothing that was written is lost".to_string();
    Failure::runtime(error, help)
}

/// The writer of one format.
fn writer(
    loaded: &LoadedConfig,
    which: EnvBlock,
    format: ExportFormat,
    directory: &Path,
    by: CollectionRun<'_>,
) -> Result<EpisodeWriter, Failure> {
    let settings = &which.settings(loaded).data_collection;
    let failure = if settings.only_success { Some(0) } else { settings.target_failure };
    let targets = Targets { success: settings.target_success, failure };
    let folder =
        |named: &Option<String>, own: &str| named.as_ref().map_or(directory.join(own), PathBuf::from);
    let writer = match format {
        ExportFormat::Pickle => EpisodeWriter::start(directory, EpisodeFormat::Pickle, targets, by),
        ExportFormat::Frames => EpisodeWriter::start(directory, EpisodeFormat::Frames, targets, by),
        ExportFormat::Npy => {
            let positive = folder(&settings.positive_dir, "positive");
            let negative = folder(&settings.negative_dir, "negative");
            let cameras = settings.image_keys.clone();
            EpisodeWriter::start(directory, EpisodeFormat::Npy { positive, negative, cameras }, targets, by)
        }
        ExportFormat::Store => {
            let origin = Origin {
                env: which.settings(loaded).init_params.id.clone(),
                licence: settings.licence.clone(),
                ..Origin::of_run("plaudit collect", &config_of_origin(loaded))
            };
            EpisodeWriter::into_store(directory, origin, targets, by)
        }
        ExportFormat::Lerobot => {
            let existing = if settings.resume { Existing::Continue } else { Existing::Refuse };
            let Collection { robot_type, fps, finalize_interval, .. } = settings.clone();
            let usual = if finalize_interval == 0 { 0 } else { lerobot::Settings::default().finalize_frames };
            let finalize_frames = settings.finalize_frames.unwrap_or(usual);
            let images = match settings.video {
                VideoCodec::None => lerobot::ImageStorage::Png,
                VideoCodec::H264 => lerobot::ImageStorage::H264,
            };
            let columns = lerobot::ColumnNames::Rlinf;
            let lerobot = lerobot::Settings {
                robot_type,
                fps,
                finalize_interval,
                finalize_frames,
                existing,
                images,
                columns,
            };
            EpisodeWriter::into_lerobot(directory, lerobot, targets, by)
        }
        ExportFormat::ReplayBuffer => EpisodeWriter::into_replay_buffer(directory, targets, by),
    };
    writer.map_err(|error| Failure::runtime(error, None))
}

/// The config that episodes come from. Whether the run was stopped and went on is not part of it.
fn config_of_origin(loaded: &LoadedConfig) -> String {
    let config = yaml::to_yaml(&loaded.as_tree(), false);
    let of_origin = config.lines().filter(|line| !line.trim_start().starts_with("resume_dir:"));
    of_origin.flat_map(|line| [line, "\n"]).collect()
}
