//! From a window to what the model sees, and what it is to say.

use plaudit_data::windows::{WindowFrame, Windows};
use plaudit_nn::qwen3_vl::{Example, Frames, Inputs, Picture, Processor, PromptLayout, VlmError, positions};

use super::answers;
use crate::train::TrainError;

/// Which tokens are learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learned {
    /// The answer and the end of the turn.
    #[default]
    Answer,
    /// The first token of the answer, by which labels are read.
    FirstToken,
    /// As RLinf does: also the header of the next turn, which is the same whatever the answer is.
    Rlinf,
}

impl Learned {
    /// What follows the prompt.
    fn words(self, answer: &str) -> String {
        match self {
            Self::Answer | Self::FirstToken => format!("{answer}<|im_end|>"),
            Self::Rlinf => format!("{answer}<|im_end|>\n<|im_start|>assistant\n"),
        }
    }
}

/// How windows are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Showing {
    /// Where the words stand.
    pub layout: PromptLayout,
    /// Which frames are seen.
    pub frames: Frames,
    /// Frames a second, as far as the model is told.
    pub fps: f64,
}

impl Default for Showing {
    /// As RLinf shows them.
    fn default() -> Self {
        Self { layout: PromptLayout::VideosFirst, frames: Frames::Sampled, fps: 24.0 }
    }
}

impl Showing {
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
        let pictures: Vec<Vec<Picture<'_>>> =
            views.iter().map(|view| view.iter().map(picture).collect()).collect();
        processor.window(&pictures, self.fps, self.frames, question, self.layout)
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
        learned: Learned,
        config: &plaudit_nn::qwen3_vl::Config,
    ) -> Result<Example, TrainError> {
        let mut inputs = self.inputs(processor, windows, number)?;
        let words = learned.words(answers()[windows.row(number).answer]);
        let mut answer = processor.tokenizer().encode(&words)?;
        if learned == Learned::FirstToken {
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

fn picture(frame: &WindowFrame) -> Picture<'_> {
    Picture { rgb: &frame.rgb, height: frame.height, width: frame.width }
}
