//! A vision-language model as a judge of windows.

use std::num::NonZeroUsize;
use std::sync::Arc;

use plaudit_core::Score;

use super::conversation::Conversation;
use super::input::InputBuilder;
use super::model::{Answer, Ask, TrendModel};
use super::pay::TrendPay;
use super::readout::{Leaning, Read, Reading};
use crate::judge::{ClipJudge, JudgeError, Judged, Verdict};
use crate::pay::Clip;

/// What is written in the log where nobody answered.
const UNANSWERED: &str = "unanswered";

/// Asks a model whether things get better or worse.
pub struct TrendJudge {
    /// Who answers.
    pub model: Arc<dyn TrendModel>,
    /// How a window becomes a question.
    pub input: InputBuilder,
    /// What is wanted of the model.
    pub ask: Ask,
    /// How its answers are read.
    pub reading: Reading,
    /// What they are worth.
    pub pay: TrendPay,
    /// Windows that it is shown at once; not set: all.
    pub micro_batch: Option<NonZeroUsize>,
}

impl ClipJudge for TrendJudge {
    fn judge(&self, clips: &[Clip<'_>]) -> Result<Judged, JudgeError> {
        let version = self.model.version();
        let mut verdicts = Vec::with_capacity(clips.len());
        for chunk in clips.chunks(at_once(self.micro_batch, clips.len())) {
            let asked = chunk.iter().map(|clip| self.input.of_clip(clip)).collect::<Result<Vec<_>, _>>()?;
            let answers = answers(&*self.model, &asked, &self.ask)?;
            verdicts.extend(answers.iter().map(|answer| self.verdict(self.reading.read(answer))));
        }
        Ok(Judged { verdicts, version })
    }

    fn sees_success(&self) -> bool {
        false
    }

    fn words(&self) -> &'static [&'static str] {
        &["positive", "negative", "unclear", "invalid", UNANSWERED]
    }

    fn version(&self) -> u64 {
        self.model.version()
    }
}

impl TrendJudge {
    fn verdict(&self, read: Read) -> Verdict {
        let score = |leaning: Leaning| Score::new(leaning.positive.clamp(0.0, 1.0));
        let (word, score) = match read {
            Read::Label(label, leaning) => (label.word(), score(leaning)),
            Read::Invalid => ("invalid", None),
            Read::Missing => (UNANSWERED, None),
        };
        Verdict { pay: self.pay.of(read), success: false, score, word: Some(word) }
    }
}

/// The answers to questions, one for each.
pub(super) fn answers(
    model: &dyn TrendModel,
    asked: &[Conversation<'_>],
    ask: &Ask,
) -> Result<Vec<Answer>, JudgeError> {
    let answers = model.answer(asked, ask)?;
    if answers.len() != asked.len() {
        return Err(JudgeError::Answers { asked: asked.len(), answers: answers.len() });
    }
    Ok(answers)
}

/// How many of `all` are shown at once.
pub(super) fn at_once(micro_batch: Option<NonZeroUsize>, all: usize) -> usize {
    micro_batch.map_or(all, NonZeroUsize::get).max(1)
}
