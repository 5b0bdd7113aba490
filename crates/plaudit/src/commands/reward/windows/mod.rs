//! A vision-language judge and the labelled windows it is measured on.

pub(super) mod audit;
pub(super) mod episodes;
pub(super) mod eval;
mod page;
mod readout;
mod readout_table;

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_data::windows::WindowViews;
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout, Quantization};
use plaudit_reward::audit::JudgeBench;
use plaudit_reward::open::{ModelLocation, OpenOptions, OpenVlm};
use plaudit_reward::sft::InputFormat;
use plaudit_reward::trend::JudgeFolder;

use super::checkpoint::{no_gpu, unopened};
use super::train::failure;
use crate::build::judge_device;
use crate::config::block::flag_words;
use crate::device::DeviceArgs;
use crate::failure::Failure;

/// What is said about a vision-language judge.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Vision-language judges")]
pub(super) struct JudgeArgs {
    /// Low-rank adapters for MODEL, as peft or RLinf saves them
    #[arg(long, value_name = "DIR")]
    pub(super) lora: Option<PathBuf>,
    /// Where the text of the prompt stands [default: as the judge was tuned, or videos-first]
    #[arg(long, value_name = "LAYOUT", value_parser = flag_words::<PromptLayout>(&["videos-first", "shared-prefix"]))]
    prompt_layout: Option<PromptLayout>,
    /// Show every frame of a window [default: as the judge was tuned, or four of five as Qwen3-VL's processor does]
    #[arg(long)]
    all_frames: bool,
    /// Show the main view alone
    #[arg(long)]
    main_view: bool,
    /// Compute with 16 bits
    #[arg(long)]
    bf16: bool,
    /// Keep weights in 8 bits, on a GPU: half the memory
    #[arg(long)]
    int8: bool,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
}

impl JudgeArgs {
    /// What is at a path.
    pub(super) fn locate(&self, model: &Path) -> Result<ModelLocation, Failure> {
        ModelLocation::find(model, self.lora.as_deref()).map_err(|error| unopened(error.into()))
    }

    fn views(&self) -> WindowViews {
        if self.main_view { WindowViews::Main } else { WindowViews::All }
    }

    /// The first of these flags that was given, for models that are no judges.
    pub(super) fn refuse_for_classifier(&self) -> Result<(), Failure> {
        let flags = [
            ("--lora", self.lora.is_some()),
            ("--prompt-layout", self.prompt_layout.is_some()),
            ("--all-frames", self.all_frames),
            ("--main-view", self.main_view),
            ("--bf16", self.bf16),
            ("--int8", self.int8),
        ];
        refuse(&flags, "an image classifier")
    }
}

/// Refuses flags that were given and mean nothing here.
pub(super) fn refuse(flags: &[(&str, bool)], what: &str) -> Result<(), Failure> {
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::usage(format!("{flag} means nothing for {what}"), None)),
        None => Ok(()),
    }
}

/// A judge, ready to score windows.
fn bench(folder: JudgeFolder, asked: &JudgeArgs, data: &[PathBuf]) -> Result<JudgeBench, Failure> {
    let windows = JudgeBench::read_windows(data, asked.views()).map_err(failure)?;
    let (device, precision) = judge_device(asked.device.choice(), asked.bf16).map_err(no_gpu)?;
    let quantization = if asked.int8 { Quantization::Int8 } else { Quantization::None };
    let options = OpenOptions { device, precision, quantization, ..OpenOptions::default() };
    let OpenVlm { folder, model: judge, .. } = OpenVlm::open(folder, &options).map_err(unopened)?;
    let tuned = || judge.card().and_then(|card| card.prompt_layout);
    let layout = asked.prompt_layout.or_else(tuned).unwrap_or_default();
    let tuned = judge.window_format();
    let frames = match (asked.all_frames, tuned) {
        (true, _) => FrameSampling::All,
        (false, Some(tuned)) => tuned.sampling,
        (false, None) => FrameSampling::Sampled,
    };
    let default = InputFormat::default();
    let fps = tuned.map_or(default.fps, |tuned| tuned.fps);
    let input_format = InputFormat { layout, frames, fps, size: tuned.map(|tuned| tuned.size) };
    Ok(JudgeBench { folder, judge, windows, input_format })
}
