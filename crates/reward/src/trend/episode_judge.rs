//! What a judge says of whole episodes: how far they are at several points, or which of two gets further.

use plaudit_core::Seed;
use plaudit_data::convert::window_prompt;
use plaudit_data::windows::{Objective, evenly_spaced};
use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout};

use super::conversation::{AnswerPlace, ContentPart, Conversation, Video};
use super::episode_clip::EpisodeClip;
use super::episode_readout::{EpisodeReadout, PrefixFormat};
use super::gvl;
use super::model::{Answer, AnswerMode, GenerationConfig, TrendModel};
use super::readout::ParsedAnswer;
use super::word_readout::WordReadout;
use crate::audit::{Interval, bootstrap_interval};
use crate::models::RewardModelError;

/// Asks a judge about episodes.
pub struct EpisodeJudge<'a> {
    /// Who answers.
    pub model: &'a dyn TrendModel,
    /// What the episodes are to achieve.
    pub task: String,
    /// Where the words stand.
    pub layout: PromptLayout,
    /// Points of an episode that are asked about.
    pub points: usize,
    /// How an episode so far is shown.
    pub prefix: PrefixFormat,
    /// How it is asked.
    pub readout: EpisodeReadout,
}

/// How far an episode is at some points.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeValues {
    /// The points, by frame.
    pub points: Vec<usize>,
    /// How far it is there; no number where the judge said none.
    pub values: Vec<Option<f64>>,
    /// Questions that were asked.
    pub questions: usize,
}

impl EpisodeJudge<'_> {
    /// How far an episode is.
    ///
    /// # Errors
    /// When the model cannot be asked, or a frame cannot be decoded.
    pub fn values(&self, episode: &EpisodeClip<'_>) -> Result<EpisodeValues, RewardModelError> {
        match &self.readout {
            EpisodeReadout::Trend { window, .. } => self.votes(episode, *window),
            EpisodeReadout::Words { prompt, answer, readout } => {
                self.prefixes(episode, prompt, *answer, readout)
            }
            EpisodeReadout::Gvl => self.percentages(episode),
        }
    }

    fn votes(&self, episode: &EpisodeClip<'_>, window: usize) -> Result<EpisodeValues, RewardModelError> {
        let EpisodeReadout::Trend { fps, sampling, question, settings, .. } = &self.readout else {
            return Ok(EpisodeValues { points: Vec::new(), values: Vec::new(), questions: 0 });
        };
        let extra_views = episode.cameras().saturating_sub(1);
        let question = question.clone().unwrap_or_else(|| window_prompt(&self.task, window, extra_views));
        let windows = episode.len() / window.max(1);
        let asked = |number: usize| {
            let shown: Vec<usize> = (number * window..(number + 1) * window).collect();
            Ok(self.asked(videos(episode, &shown, *fps, *sampling)?, &question))
        };
        let asked = (0..windows).map(asked).collect::<Result<Vec<_>, RewardModelError>>()?;
        let generation = GenerationConfig { max_new_tokens: 1, temperature: 0.0 };
        let answers = self.model.answer(&asked, &AnswerMode::Labels(generation))?;
        let mut sum = 0.0;
        let value = |answer: &Answer| match settings.read(answer) {
            ParsedAnswer::Label(_, probabilities) => {
                sum += f64::from(probabilities.vote());
                Some(sum)
            }
            ParsedAnswer::Invalid | ParsedAnswer::Missing => None,
        };
        let values = answers.iter().map(value).collect();
        let points = (1..=windows).map(|number| number * window - 1).collect();
        Ok(EpisodeValues { points, values, questions: windows })
    }

    fn prefixes(
        &self,
        episode: &EpisodeClip<'_>,
        prompt: &str,
        answer: AnswerPlace,
        readout: &WordReadout,
    ) -> Result<EpisodeValues, RewardModelError> {
        let points = spread(episode.len(), self.points);
        let question = prompt.replace("{task}", &self.task);
        let prefix = |end: &usize| {
            let videos = self.prefix(episode, *end + 1)?;
            Ok(match answer {
                AnswerPlace::NextTurn => self.asked(videos, &question),
                AnswerPlace::SameTurn => self.finished(videos, &question),
            })
        };
        let asked = points.iter().map(prefix).collect::<Result<Vec<_>, RewardModelError>>()?;
        let answers = self.model.answer(&asked, &AnswerMode::Words(readout.words().into()))?;
        let value = |answer: &Answer| match answer {
            Answer::WordLogprobs(logprobs) => readout.number(logprobs),
            _ => None,
        };
        let questions = asked.len();
        Ok(EpisodeValues { values: answers.iter().map(value).collect(), points, questions })
    }

    fn percentages(&self, episode: &EpisodeClip<'_>) -> Result<EpisodeValues, RewardModelError> {
        let points = spread(episode.len(), self.points);
        // In an order that tells nothing, and is the same in every run.
        let mut order: Vec<usize> = (0..points.len()).collect();
        Seed::new(0).purpose("gvl").purpose(episode.name()).rng().shuffle(&mut order);
        let image = |at: usize| episode.image(at, 0).map(ContentPart::Image);
        let shuffled = order.iter().map(|place| image(points[*place])).collect::<Result<_, _>>()?;
        let asked = [gvl::question(&self.task, image(0)?, shuffled)];
        let count = points.len();
        let generation = GenerationConfig { max_new_tokens: gvl::answer_tokens(count), temperature: 0.0 };
        let answers = self.model.answer(&asked, &AnswerMode::Text(generation))?;
        let said = match answers.first() {
            Some(Answer::Text(text)) => gvl::percentages(text, count),
            _ => vec![None; count],
        };
        let mut values = vec![None; count];
        for (number, place) in order.iter().enumerate() {
            values[*place] = said[number];
        }
        Ok(EpisodeValues { points, values, questions: 1 })
    }

    /// The probability that the first of two episodes gets further, asked in both orders.
    ///
    /// # Errors
    /// When the model cannot be asked.
    pub fn preference(
        &self,
        [first, second]: [&EpisodeClip<'_>; 2],
    ) -> Result<Option<f64>, RewardModelError> {
        let Some(readout) = WordReadout::of_objective(Objective::Preference) else { return Ok(None) };
        let question = Objective::Preference.question(&self.task, self.prefix.frames, 0);
        // The main camera alone, whatever else there is.
        let [first, second] = [first, second].map(|episode| self.prefix(episode, episode.len()));
        let (first, second) = (first?.into_iter().next(), second?.into_iter().next());
        let asked = [[&first, &second], [&second, &first]]
            .map(|both| self.asked(both.into_iter().flatten().cloned().collect(), &question));
        let answers = self.model.answer(&asked, &AnswerMode::Words(readout.words().into()))?;
        let number = |answer: Option<&Answer>| match answer {
            Some(Answer::WordLogprobs(logprobs)) => readout.number(logprobs),
            _ => None,
        };
        let (as_shown, swapped) = (number(answers.first()), number(answers.get(1)));
        Ok(as_shown.zip(swapped).map(|(as_shown, swapped)| (as_shown + 1.0 - swapped) / 2.0))
    }

    /// The first `len` frames of an episode, as a video for each camera.
    fn prefix<'f>(
        &self,
        episode: &EpisodeClip<'f>,
        len: usize,
    ) -> Result<Vec<ContentPart<'f>>, RewardModelError> {
        let PrefixFormat { frames: most, fps, sampling } = self.prefix;
        videos(episode, &evenly_spaced(len, most), fps, sampling)
    }

    fn asked<'f>(&self, mut parts: Vec<ContentPart<'f>>, question: &str) -> Conversation<'f> {
        let place = match self.layout {
            PromptLayout::VideosFirst => parts.len(),
            PromptLayout::SharedPrefix => 0,
        };
        parts.insert(place, ContentPart::Text(question.into()));
        Conversation { system: None, parts, answer: AnswerPlace::NextTurn }
    }

    /// Words that the answer finishes stand last, wherever a judge is used to them.
    fn finished<'f>(&self, mut parts: Vec<ContentPart<'f>>, statement: &str) -> Conversation<'f> {
        parts.push(ContentPart::Text(statement.into()));
        Conversation { system: None, parts, answer: AnswerPlace::SameTurn }
    }
}

/// The mean of numbers, one for each pair of episodes, with its interval over them; `None` without any.
#[must_use]
pub fn mean_interval(numbers: &[f64], resamples: u64, seed: Seed) -> Option<Interval> {
    let mean = |chosen: &[usize]| {
        let sum: f64 = chosen.iter().map(|at| numbers[*at]).sum();
        (!chosen.is_empty()).then(|| sum / chosen.len() as f64)
    };
    bootstrap_interval(numbers.len(), resamples, seed, mean)
}

/// So many of `total` places, evenly, the last always among them.
fn spread(total: usize, most: usize) -> Vec<usize> {
    let count = most.clamp(1, total.max(1));
    (1..=count).map(|number| (number * total).div_ceil(count).max(1) - 1).collect()
}

/// A video for each camera.
fn videos<'f>(
    episode: &EpisodeClip<'f>,
    shown: &[usize],
    fps: f64,
    sampling: FrameSampling,
) -> Result<Vec<ContentPart<'f>>, RewardModelError> {
    let video = |view: usize| {
        let frames = shown.iter().map(|at| episode.image(*at, view)).collect::<Result<_, _>>()?;
        Ok(ContentPart::Video(Video { frames, fps, sampling }))
    };
    (0..episode.cameras()).map(video).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_evenly_up_to_the_last() {
        assert_eq!(spread(10, 5), [1, 3, 5, 7, 9]);
        assert_eq!(spread(3, 8), [0, 1, 2]);
        assert_eq!(spread(7, 3), [2, 4, 6]);
        assert_eq!(spread(1, 1), [0]);
    }
}
