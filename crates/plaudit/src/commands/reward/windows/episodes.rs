//! `plaudit reward eval --readout`: what a vision-language model says of whole episodes, read in one way or several.

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_reward::dataset::Frames;
use plaudit_reward::open::{OpenOptions, OpenVlm};
use plaudit_reward::trend::{JudgeFolder, LocalVlm, WordMeasure};

use super::super::checkpoint::{no_gpu, unopened};
use super::super::data::{FrameReader, as_failure, views};
use super::super::eval::output_folder;
use super::JudgeArgs;
use super::readout::{Readout, ReadoutChoice, ReadoutRun, can_compare};
use super::readout_table::{Measured, json_of_several, text_of_several};
use crate::build::judge_device;
use crate::cli::Verbosity;
use crate::commands::rule_args::RuleArgs;
use crate::config::block::flag_words;
use crate::console;
use crate::failure::Failure;
use crate::output;
use crate::progress::ProgressBar;

/// What is said about episodes and how a judge is asked about them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Vision-language judges on episodes")]
pub(in super::super) struct EpisodeArgs {
    /// Measure on whole episodes, and read the answers so: value-order correlation, Kendall's tau, AUC, with intervals. Of several,
    /// with commas, a table
    #[arg(long, value_name = "WHICH", value_enum, value_delimiter = ',')]
    pub(in super::super) readout: Vec<ReadoutChoice>,
    /// The task in words
    #[arg(long, value_name = "WORDS", requires = "readout")]
    pub(super) task: Option<String>,
    /// With --readout words: the question; {task} is filled in
    #[arg(long, value_name = "WORDS", requires = "readout")]
    pub(super) prompt: Option<String>,
    /// With --readout words: the words, with commas, such as Yes,No; each must begin with another token
    #[arg(long, value_name = "WORDS", value_delimiter = ',', requires = "readout")]
    pub(super) words: Vec<String>,
    /// With --word-measure expected-score: what each word is worth, with commas
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        allow_negative_numbers = true,
        requires = "words"
    )]
    pub(super) word_values: Vec<f64>,
    /// With --readout words: what is made of how likely the words are [default: probability]
    #[arg(long, value_name = "MEASURE", requires = "words",
        value_parser = flag_words::<WordMeasure>(&["probability", "expected-score", "log-odds", "logprob"]))]
    pub(super) word_measure: Option<WordMeasure>,
    /// Points of each episode that are asked about
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=256))]
    pub(super) points: u32,
    /// Frames of an episode so far that are shown at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=256))]
    pub(super) max_frames: u32,
}

impl EpisodeArgs {
    /// Every readout that is asked for, once.
    fn chosen(&self) -> Result<Vec<Readout>, Failure> {
        let mut chosen: Vec<Readout> = Vec::new();
        for readout in self.readout.iter().flat_map(|choice| choice.readouts(self.prompt.is_some())) {
            if !chosen.contains(&readout) {
                chosen.push(readout);
            }
        }
        if !chosen.contains(&Readout::Words) && (self.prompt.is_some() || !self.words.is_empty()) {
            return Err(Failure::usage("--prompt and --words are for --readout words", None));
        }
        Ok(chosen)
    }

    fn asks_for_all(&self) -> bool {
        self.readout.contains(&ReadoutChoice::All)
    }
}

/// A measurement about to be made.
pub(in super::super) struct EpisodeEvalRun<'a> {
    pub(in super::super) judge: JudgeFolder,
    pub(in super::super) asked: &'a JudgeArgs,
    pub(in super::super) episodes: &'a EpisodeArgs,
    pub(in super::super) rules: &'a RuleArgs,
    pub(in super::super) data: &'a [PathBuf],
    pub(in super::super) output: Option<PathBuf>,
    pub(in super::super) json: bool,
}

impl EpisodeEvalRun<'_> {
    pub(in super::super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let readouts = self.episodes.chosen()?;
        let bar = ProgressBar::new("reward eval", verbosity);
        let (device, precision) =
            judge_device(self.asked.device.choice(), self.asked.bf16).map_err(no_gpu)?;
        let options = OpenOptions { device, precision, ..OpenOptions::default() };
        let opened = OpenVlm::open(self.judge.clone(), &options).map_err(unopened)?;
        let measured = self.measure(&opened.model, &readouts, &bar)?;
        drop(bar);
        if measured.len() < readouts.len() && !verbosity.quiet {
            console::eprintln(
                "note: preference is left out, which compares a solved episode with a failed one: one kind is missing",
            );
        }
        let folder = output_folder(self.output.clone())?;
        for one in &measured {
            let own = match readouts.len() {
                1 => folder.clone(),
                _ => folder.join(one.readout.name()),
            };
            output::make_folder("--output-dir", &own)?;
            output::write("--output-dir", &own.join("episodes.csv"), one.episodes_csv.as_bytes())?;
        }
        console::print(&self.page(&measured, opened.folder.own(), &folder, readouts.len() > 1))
    }

    fn page(&self, measured: &[Measured], model: &Path, folder: &Path, is_table: bool) -> String {
        let (model, folder) = (model.display().to_string(), folder.display().to_string());
        match (self.json, measured) {
            (true, [one]) if !is_table => one.json(&model, &folder),
            (true, _) => json_of_several(measured, &model, &folder),
            (false, [one]) if !is_table => format!("{}  written to        {folder}\n", one.text()),
            (false, _) => format!("{}  written to {folder}\n", text_of_several(measured)),
        }
    }

    /// One readout after another, of frames that are read again only for readouts that look through other cameras.
    fn measure(
        &self,
        model: &LocalVlm,
        readouts: &[Readout],
        bar: &ProgressBar,
    ) -> Result<Vec<Measured>, Failure> {
        // A judge that cannot be asked so is found out before any is asked.
        let runs: Vec<ReadoutRun<'_>> = readouts
            .iter()
            .map(|readout| ReadoutRun::new(*readout, model, self.episodes))
            .collect::<Result<_, _>>()?;
        let mut measured = Vec::new();
        let mut last: Option<(&[&str], Frames)> = None;
        for run in runs {
            let keys = self.image_keys(run.readout, model);
            let frames = match last.take() {
                Some((of, frames)) if of == keys => frames,
                _ => self.frames(keys, bar)?,
            };
            let is_left_out = run.readout == Readout::Preference && self.episodes.asks_for_all();
            if !is_left_out || can_compare(&frames) {
                measured.push(run.measure(&frames, bar)?);
            }
            last = Some((keys, frames));
        }
        Ok(measured)
    }

    /// The cameras that the judge was tuned with; else the main one.
    fn image_keys(&self, readout: Readout, model: &LocalVlm) -> &'static [&'static str] {
        let cameras = model.window_format().map_or(1, |window| window.cameras);
        match self.asked.main_view || readout == Readout::Preference || cameras < 2 {
            true => &["main_images"],
            false => &["main_images", "extra_view_images"],
        }
    }

    fn frames(&self, keys: &[&str], bar: &ProgressBar) -> Result<Frames, Failure> {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let views = views(&keys).map_err(|error| as_failure(&error))?;
        let reader = FrameReader { views, rules: self.rules.rules(), bar };
        let frames = reader.all(self.data).map_err(|error| as_failure(&error))?;
        if frames.is_empty() || !frames.recordings().iter().all(|data| data.in_episodes) {
            let help = "give folders of episodes, or a store that holds some".to_string();
            return Err(Failure::usage("there are no whole episodes to measure on", help));
        }
        Ok(frames)
    }
}
