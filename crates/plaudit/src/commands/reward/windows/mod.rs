//! A vision-language judge and the labelled windows it is measured on.

pub(super) mod audit;
pub(super) mod eval;
mod page;
mod verdict;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plaudit_data::windows::{WindowFrame, WindowReading, WindowViews, Windows};
use plaudit_nn::qwen3_vl::{Frames, PromptLayout};
use plaudit_reward::audit::{JudgedWindows, WindowChange, disturbed_window};
use plaudit_reward::sft::{Showing, answers, window_logits};
use plaudit_reward::train::TrainError;
use plaudit_reward::trend::{JudgeFolder, LabelLogits, LocalVlm, LocalVlmSettings};

use super::train::failure;
use crate::build::judge_device;
use crate::failure::Failure;
use crate::progress::{Doing, ProgressBar};

/// Windows that the judge is shown at once.
const BATCH: usize = 32;

/// What is said about a vision-language judge.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Vision-language judges")]
pub(super) struct JudgeArgs {
    /// Low-rank adapters for MODEL, as peft or RLinf saves them
    #[arg(long, value_name = "DIR")]
    pub(super) lora: Option<PathBuf>,
    /// Where the words of the question stand [default: as the judge was tuned, or videos-first]
    #[arg(long, value_name = "LAYOUT", value_enum)]
    prompt_layout: Option<LayoutWord>,
    /// Show every frame of a window, not four of five as Qwen3-VL's processor does
    #[arg(long)]
    all_frames: bool,
    /// Show the main view alone
    #[arg(long)]
    main_view: bool,
    /// Compute with 16 bits
    #[arg(long)]
    bf16: bool,
    /// Compute on the NVIDIA GPU of this number, with 16 bits [default: the processor]
    #[arg(long, value_name = "N")]
    gpu: Option<usize>,
}

/// Where the words of a question stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutWord {
    /// After the videos, as RLinf has it.
    VideosFirst,
    /// Before them.
    SharedPrefix,
}

impl JudgeArgs {
    /// The judge in a folder; `None` where there is something else, such as an image classifier.
    pub(super) fn find(&self, model: &Path) -> Result<Option<JudgeFolder>, Failure> {
        if let Some(lora) = &self.lora {
            return Ok(Some(JudgeFolder::with(model, Some(lora))));
        }
        JudgeFolder::find(model).map_err(|error| {
            Failure::use_of(error, "give that model's folder, and the adapters with --lora".to_string())
        })
    }

    /// The first of these flags that was given, for models that are no judges.
    pub(super) fn refuse_for_classifier(&self) -> Result<(), Failure> {
        let flags = [
            ("--lora", self.lora.is_some()),
            ("--prompt-layout", self.prompt_layout.is_some()),
            ("--all-frames", self.all_frames),
            ("--main-view", self.main_view),
            ("--bf16", self.bf16),
            ("--gpu", self.gpu.is_some()),
        ];
        refuse(&flags, "an image classifier")
    }
}

/// Refuses flags that were given and mean nothing here.
pub(super) fn refuse(flags: &[(&str, bool)], what: &str) -> Result<(), Failure> {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::use_of(format!("{flag} means nothing for {what}"), None)),
        None => Ok(()),
    }
}

/// A judge, ready to be asked about windows.
struct Bench {
    folder: JudgeFolder,
    judge: LocalVlm,
    windows: Windows,
    showing: Showing,
}

impl Bench {
    fn open(folder: JudgeFolder, asked: &JudgeArgs, data: &[PathBuf]) -> Result<Self, Failure> {
        let windows = windows(data, asked)?;
        let frames = if asked.all_frames { Frames::All } else { Frames::Sampled };
        let (device, precision) = judge_device(asked.gpu, asked.bf16);
        let judge = LocalVlm::open(LocalVlmSettings {
            folder: &folder.model,
            lora: folder.lora.as_deref(),
            device,
            precision,
            frames,
        });
        let judge = judge.map_err(|error| {
            let help = "give the folder of a Qwen3-VL model, and adapters made for it".to_string();
            Failure::use_of(error, help)
        })?;
        let layout = match asked.prompt_layout {
            Some(LayoutWord::VideosFirst) => PromptLayout::VideosFirst,
            Some(LayoutWord::SharedPrefix) => PromptLayout::SharedPrefix,
            None => judge.card().and_then(|card| card.prompt_layout).unwrap_or_default(),
        };
        let showing = Showing { layout, frames, ..Showing::default() };
        Ok(Self { folder, judge, windows, showing })
    }

    /// What the judge says of every window.
    fn judged(&self, bar: &ProgressBar) -> Result<JudgedWindows, Failure> {
        let show = |number: usize| self.showing.inputs(self.judge.processor(), &self.windows, number);
        let heard = |done, total| bar.show(Doing { what: "judging", unit: "windows", done, total });
        let numbers: Vec<usize> = (0..self.windows.len()).collect();
        let logits = window_logits(&self.judge, &numbers, BATCH, &show, &heard).map_err(failure)?;
        let judged = JudgedWindows::of(&self.windows, logits);
        if judged.is_finite() {
            return Ok(judged);
        }
        let message = format!(
            "{} gives logits that are no numbers; its weights are broken",
            self.folder.own().display()
        );
        Err(Failure::work(message, "give an earlier checkpoint".to_string()))
    }

    /// What it says of some windows with a change made to them.
    fn judged_with(&self, change: &WindowChange, numbers: &[usize]) -> Result<Vec<LabelLogits>, Failure> {
        let show = |number: usize| {
            let views = disturbed_window(change, self.windows.frames(number)?);
            let row = self.windows.row(number);
            let inputs = self.showing.of_frames(self.judge.processor(), &views, &row.prompt);
            inputs.map_err(|error| TrainError::Window { path: row.pickle.clone(), error: error.into() })
        };
        window_logits(&self.judge, numbers, BATCH, &show, &|_, _| {}).map_err(failure)
    }

    /// The frames of a window.
    fn frames(&self, number: usize) -> Result<Vec<Vec<WindowFrame>>, Failure> {
        self.windows.frames(number).map_err(|error| failure(error.into()))
    }

    /// Which window it is: its episode and first step, or its file.
    fn name(&self, number: usize) -> String {
        let row = self.windows.row(number);
        let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        match (row.episode.as_deref().and_then(|path| last(Path::new(path))), row.start) {
            (Some(episode), Some(start)) => format!("{episode} step {start}"),
            _ => last(&row.pickle).unwrap_or_default(),
        }
    }

    /// What is right, what is said, and how likely it is said to be.
    fn mistake(&self, number: usize, judged: &JudgedWindows, temperature: f64) -> String {
        let (said, likely) = (judged.said()[number], judged.likely(temperature)[number]);
        let [right, said_word] = [judged.truth[number], said].map(|label| answers()[label]);
        format!("is {right}, called {said_word} ({:.3})", likely[said])
    }
}

/// The windows of manifests, of folders with one, or of what `dataset windows` wrote as a whole: its held-out part.
fn windows(data: &[PathBuf], asked: &JudgeArgs) -> Result<Windows, Failure> {
    let manifest = |path: &PathBuf| {
        let held_out = path.join("eval/segments.jsonl");
        let is_root = !path.join("segments.jsonl").is_file() && held_out.is_file();
        if is_root { held_out } else { path.clone() }
    };
    let manifests: Vec<PathBuf> = data.iter().map(manifest).collect();
    let reading = WindowReading {
        prompt_key: "prompt".into(),
        answer_key: "answer".into(),
        answers: answers().map(String::from).into(),
        data_root: data.first().filter(|path| path.is_dir()).cloned(),
        views: if asked.main_view { WindowViews::Main } else { WindowViews::All },
    };
    Windows::read(&manifests, &reading).map_err(|error| failure(error.into()))
}
