//! Keeping episodes while environments run, as `data_collection` asks for.

use std::path::{Path, PathBuf};

use plaudit_core::{Obs, Seed};
use plaudit_data::episode::{Collector, Counts, Episode, EpisodeWriter, Keep, Layout, Targets};
use plaudit_data::lerobot::{self, Existing};
use plaudit_data::store::Origin;
use plaudit_rl::Taken;

use crate::build::Which;
use crate::config::Loaded;
use crate::config::block::OneOrMore;
use crate::config::blocks::collection::{Collection, ExportFormat};
use crate::failure::Failure;

/// Gathers episodes and hands those that are wanted to the disk.
pub struct Keeper {
    collector: Option<Collector>,
    writers: Vec<EpisodeWriter>,
    settings: Collection,
    seed: Seed,
    directory: PathBuf,
}

impl Keeper {
    /// Makes ready to keep episodes in `directory`, unless the config names another.
    pub fn start(loaded: &Loaded, which: Which, directory: PathBuf) -> Result<Self, Failure> {
        let settings = which.settings(loaded).data_collection.clone();
        let directory = settings.save_dir.as_ref().map_or(directory, PathBuf::from);
        let formats = match &settings.export_format {
            OneOrMore::One(format) => vec![*format],
            OneOrMore::More(formats) => formats.clone(),
        };
        let mut writers = Vec::new();
        for format in formats {
            writers.push(writer(loaded, which, format, &settings, &directory)?);
        }
        let seed = Seed::new(which.settings(loaded).seed).purpose("keep");
        Ok(Self { collector: None, writers, settings, seed, directory })
    }

    /// All environments were reset.
    pub fn reset(&mut self, obs: &Obs) {
        let keep = if self.settings.only_success { Keep::Successes } else { Keep::All };
        match &mut self.collector {
            Some(collector) => collector.restart(obs),
            None => self.collector = Some(Collector::new(obs, keep)),
        }
    }

    /// A step was taken. Episodes beyond `limit` are not kept.
    pub fn step(&mut self, taken: &Taken, limit: u64) -> Result<(), Failure> {
        let Some(collector) = &mut self.collector else { return Ok(()) };
        for episode in collector.step(&taken.actions, &taken.step) {
            if self.is_sampled(&episode) && self.kept().all() < limit {
                self.write(episode)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, episode: Episode) -> Result<(), Failure> {
        for writer in &mut self.writers {
            let help =
                "free some space, or choose another save_dir; then run the same command again".to_string();
            writer.write(episode.clone()).map_err(|error| Failure::work(error, help))?;
        }
        Ok(())
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

    /// What the user should know of the folder, in a sentence; nothing if it was empty.
    pub fn found(&self) -> Option<String> {
        let found = self.writers.first()?.found();
        let place = self.directory.display();
        let left = match found.unfinished {
            0 => String::new(),
            n => format!(" and {n} that a killed run had not finished, which are removed"),
        };
        let any = found.episodes + found.unfinished > 0;
        any.then(|| format!("{place} holds {} episodes{left}; new ones are added", found.episodes))
    }

    /// Seconds that stepping waited for the disk.
    pub fn waited_secs(&self) -> f64 {
        self.writers.iter().map(|writer| writer.waited().as_secs_f64()).sum()
    }

    /// Waits until everything is on disk.
    pub fn finish(self) -> Result<Counts, Failure> {
        let mut counts = Counts::default();
        for writer in self.writers {
            counts = writer.finish().map_err(|error| Failure::work(error, None))?;
        }
        Ok(counts)
    }
}

/// The writer of one format.
fn writer(
    loaded: &Loaded,
    which: Which,
    format: ExportFormat,
    settings: &Collection,
    directory: &Path,
) -> Result<EpisodeWriter, Failure> {
    let targets = Targets { success: settings.target_success, failure: settings.target_failure };
    let folder =
        |named: &Option<String>, own: &str| named.as_ref().map_or(directory.join(own), PathBuf::from);
    let writer = match format {
        ExportFormat::Pickle => EpisodeWriter::start(directory, Layout::Pickle, targets),
        ExportFormat::Frames => EpisodeWriter::start(directory, Layout::Frames, targets),
        ExportFormat::Npy => {
            let positive = folder(&settings.positive_dir, "positive");
            let negative = folder(&settings.negative_dir, "negative");
            let cameras = settings.image_keys.clone();
            EpisodeWriter::start(directory, Layout::Npy { positive, negative, cameras }, targets)
        }
        ExportFormat::Store => {
            let origin = Origin {
                env: which.settings(loaded).init_params.id.clone(),
                ..Origin::new("plaudit collect")
            };
            EpisodeWriter::into_store(directory, origin, targets)
        }
        ExportFormat::Lerobot => {
            let existing = if settings.resume { Existing::Continue } else { Existing::Refuse };
            let Collection { robot_type, fps, finalize_interval, .. } = settings.clone();
            let lerobot = lerobot::Settings { robot_type, fps, finalize_interval, existing };
            EpisodeWriter::into_lerobot(directory, lerobot, targets)
        }
        ExportFormat::ReplayBuffer => {
            let key = format!("{}.data_collection.export_format", which.key());
            let message = format!("this version does not write `{}`", format.word());
            return Err(loaded.problem(&key, message, "choose pickle, lerobot, npy, frames or store").into());
        }
    };
    writer.map_err(|error| Failure::work(error, None))
}
