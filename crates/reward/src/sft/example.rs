//! From a window to what the model sees, and what it is to say.

use plaudit_data::windows::{WindowFrame, Windows};
use plaudit_nn::qwen3_vl::{
    Example, FrameSampling, Inputs, Processor, PromptLayout, RgbImage, VideoFormat, VlmError, positions,
};

use crate::train::TrainError;

/// Which tokens the loss covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetTokens {
    /// The answer and the end of the turn.
    #[default]
    Answer,
    /// The first token of the answer, by which labels are read.
    FirstToken,
    /// As RLinf does: also the header of the next turn, which is the same whatever the answer is.
    Rlinf,
}

impl TargetTokens {
    /// What follows the prompt.
    fn words(self, answer: &str) -> String {
        match self {
            Self::Answer | Self::FirstToken => format!("{answer}<|im_end|>"),
            Self::Rlinf => format!("{answer}<|im_end|>\n<|im_start|>assistant\n"),
        }
    }
}

/// How windows become model inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputFormat {
    /// Where the words stand.
    pub layout: PromptLayout,
    /// Which frames are seen.
    pub frames: FrameSampling,
    /// Frames per second in the prompt.
    pub fps: f64,
    /// Height and width that frames of other sizes are brought to; not set: as they are.
    pub size: Option<[usize; 2]>,
}

/// The frame rate that RLinf gives the processor for every video.
pub const DEFAULT_FPS: f64 = 24.0;

impl Default for InputFormat {
    /// As RLinf shows them.
    fn default() -> Self {
        Self {
            layout: PromptLayout::VideosFirst,
            frames: FrameSampling::Sampled,
            fps: DEFAULT_FPS,
            size: None,
        }
    }
}

impl InputFormat {
    /// A window and its question, up to where the answer begins.
    ///
    /// # Errors
    /// When its frames cannot be read or shown.
    pub fn inputs(
        &self,
        processor: &Processor,
        windows: &Windows,
        number: usize,
    ) -> Result<Inputs, TrainError> {
        let views = windows.frames(number)?;
        let row = windows.row(number);
        let inputs = self.of_frames(processor, &views, &row.prompt);
        inputs.map_err(|error| TrainError::Window { path: row.pickle.clone(), error: error.into() })
    }

    /// Frames by view and a question, up to where the answer begins.
    ///
    /// # Errors
    /// When they cannot be shown.
    pub fn of_frames(
        &self,
        processor: &Processor,
        views: &[Vec<WindowFrame>],
        question: &str,
    ) -> Result<Inputs, VlmError> {
        let images: Vec<Vec<RgbImage<'_>>> =
            views.iter().map(|view| view.iter().map(image).collect()).collect();
        let format = VideoFormat { fps: self.fps, sampling: self.frames, size: self.size };
        processor.window_as(&images, format, question, self.layout)
    }

    /// A window, its question, and the answer to learn.
    ///
    /// # Errors
    /// When its frames cannot be read or shown.
    pub fn example(
        &self,
        processor: &Processor,
        windows: &Windows,
        number: usize,
        target_tokens: TargetTokens,
        config: &plaudit_nn::qwen3_vl::Config,
    ) -> Result<Example, TrainError> {
        let mut inputs = self.inputs(processor, windows, number)?;
        let row = windows.row(number);
        let words = target_tokens.words(row.objective.answers()[row.answer]);
        let mut answer = processor.tokenizer().encode(&words)?;
        if target_tokens == TargetTokens::FirstToken {
            answer.truncate(1);
        }
        let last = inputs.len() - 1;
        let targets = answer.iter().enumerate().map(|(i, token)| (last + i, *token)).collect();
        // Nothing is to follow the last token, so it need not be read.
        inputs.ids.extend_from_slice(&answer[..answer.len() - 1]);
        inputs.positions = positions(&inputs.ids, &inputs.visuals, config)?;
        Ok(Example { inputs, targets })
    }
}

fn image(frame: &WindowFrame) -> RgbImage<'_> {
    RgbImage { rgb: &frame.rgb, height: frame.height, width: frame.width }
}
