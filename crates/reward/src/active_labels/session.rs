//! Questions and answers, from the first to the one that is enough.

use std::collections::HashSet;
use std::path::PathBuf;

use plaudit_core::Seed;
use plaudit_data::labelling::{
    Annotator, Answer, AnswerJournal, Answered, AnswersHeader, LabellingError, Purpose,
};
use serde::Serialize;

use super::bound::ErrorBound;
use super::images;
use super::ranking::{QuestionOrder, shuffled, uncertainty};
use super::scores::FrameScores;
use crate::dataset::{DatasetError, Frames, pixels_sha256};
use crate::images::ImageWriteError;

/// How labels are asked for.
#[derive(Debug, Clone)]
pub struct LabelSettings {
    /// Where the journal and the images go.
    pub folder: PathBuf,
    /// Who answers.
    pub by: Annotator,
    /// How frames to train on are chosen.
    pub order: QuestionOrder,
    /// Every so many questions, one is a check; 0: none.
    pub check_every: usize,
    /// Frames of one episode that are asked about are so many apart, while there are others.
    pub apart: usize,
    /// The share of wrong decisions that is little enough.
    pub max_error: f64,
    /// How sure that must be.
    pub confidence: f64,
    /// Labels to train on that are enough in any case.
    pub count: Option<usize>,
    /// The seed of what is chosen at random.
    pub seed: u64,
}

/// What models say about all frames.
#[derive(Debug, Clone)]
pub struct ModelOpinions {
    /// The model that is labelled for.
    pub model: FrameScores,
    /// A second one, which may disagree.
    pub second: Option<FrameScores>,
    /// Frames that the model can learn from, where that is not all of them.
    pub is_learnable: Option<Vec<bool>>,
}

/// A frame to be labelled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Its number.
    pub frame: usize,
    /// What the answer is for.
    pub purpose: Purpose,
}

/// How far labelling is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LabelStatus {
    /// Training labels: success.
    pub successes: usize,
    /// Training labels: failure.
    pub failures: usize,
    /// Questions that were skipped.
    pub skipped: usize,
    /// Checks that have a label.
    pub checks: usize,
    /// Of those, the ones that the model decides otherwise.
    pub wrong: usize,
    /// The upper bound of the share of wrong decisions among all frames.
    pub error_bound: f64,
    /// How sure that is.
    pub confidence: f64,
}

impl LabelStatus {
    /// Labels to train on.
    #[must_use]
    pub fn labels(&self) -> usize {
        self.successes + self.failures
    }
}

/// Why there is no further question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelEnd {
    /// The model is wrong rarely enough.
    BoundMet,
    /// There are as many labels as were asked for.
    Count,
    /// Every frame was asked about.
    AllAsked,
}

/// Why labelling cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] LabellingError),
    /// An image.
    #[error(transparent)]
    Image(#[from] ImageWriteError),
    /// Frames that cannot be read.
    #[error(transparent)]
    Frames(#[from] DatasetError),
    /// A view that an image alone cannot show.
    #[error("`{view}` stacks past frames, and labelled images have none")]
    FrameStack {
        /// Which.
        view: String,
    },
}

/// Questions about the frames of a dataset.
pub struct LabelSession<'a> {
    frames: &'a Frames,
    settings: LabelSettings,
    journal: AnswerJournal,
    opinions: ModelOpinions,
    /// Every frame's episode, counted, and place there. Nothing where frames are not in their episodes.
    places: Option<Vec<(usize, usize)>>,
    /// The frames that checks are chosen from, in the order in which they are asked about.
    checks: Vec<usize>,
    /// The others, in the order in which they are asked about.
    ranked: Vec<usize>,
}

impl<'a> LabelSession<'a> {
    /// Begins to label in a folder, or goes on there. `data` is what people call the frames.
    ///
    /// # Errors
    /// When a view stacks past frames, or the folder cannot be used: something else was asked there, another process asks there, or the
    /// system refuses.
    pub fn open(
        frames: &'a Frames,
        data: &str,
        opinions: ModelOpinions,
        settings: LabelSettings,
    ) -> Result<Self, LabelError> {
        if let Some(view) = frames.views().iter().find(|view| view.back > 0) {
            return Err(LabelError::FrameStack { view: view.to_string() });
        }
        let header = AnswersHeader {
            data: data.into(),
            frames: frames.len(),
            sha256: pixels_sha256(frames)?,
            views: frames.views().iter().map(ToString::to_string).collect(),
            check_every: settings.check_every,
            seed: settings.seed,
        };
        let journal = AnswerJournal::open(&settings.folder, &header)?;
        images::sync(&settings.folder, frames, &journal, None)?;
        let checks = check_frames(frames.len(), settings.check_every, settings.seed);
        let places = places(frames);
        let mut session = Self { frames, settings, journal, opinions, places, checks, ranked: Vec::new() };
        session.rank();
        Ok(session)
    }

    /// Goes on with a model that has learned more. Checks count for it as they are: none of them was learned from.
    pub fn set_opinions(&mut self, opinions: ModelOpinions) {
        self.opinions = opinions;
        self.rank();
    }

    fn rank(&mut self) {
        let checks: HashSet<usize> = self.checks.iter().copied().collect();
        let is_learnable = |frame: &usize| self.opinions.is_learnable.as_ref().is_none_or(|is| is[*frame]);
        let candidates: Vec<usize> = (0..self.frames.len())
            .filter(|frame| !checks.contains(frame))
            .filter(|frame| is_learnable(frame))
            .collect();
        let ModelOpinions { model, second, .. } = &self.opinions;
        self.ranked = self.settings.order.of(&candidates, model, second.as_ref(), self.settings.seed);
    }

    /// What the models say.
    #[must_use]
    pub fn opinions(&self) -> &ModelOpinions {
        &self.opinions
    }

    /// How uncertain a frame is.
    #[must_use]
    pub fn uncertainty(&self, frame: usize) -> f64 {
        let ModelOpinions { model, second, .. } = &self.opinions;
        uncertainty(model.margins[frame], second.as_ref().map(|second| second.margins[frame]))
    }

    /// How far labelling is.
    #[must_use]
    pub fn status(&self) -> LabelStatus {
        let labels = |purpose: Purpose| {
            let of = self.journal.standing().iter().filter(move |answered| answered.purpose == purpose);
            of.filter_map(|answered| Some((answered.frame, answered.answer.label()?)))
        };
        let successes = labels(Purpose::Train).filter(|(_, success)| *success).count();
        let failures = labels(Purpose::Train).count() - successes;
        let checks = labels(Purpose::Check).count();
        let decisions = &self.opinions.model.decisions;
        let wrong = labels(Purpose::Check).filter(|(frame, success)| decisions[*frame] != *success).count();
        let confidence = self.settings.confidence;
        let error_bound = ErrorBound { checks, wrong, confidence }.upper();
        let skipped = self.journal.standing().len() - successes - failures - checks;
        LabelStatus { successes, failures, skipped, checks, wrong, error_bound, confidence }
    }

    /// What the checks say.
    #[must_use]
    pub fn bound(&self) -> ErrorBound {
        let LabelStatus { checks, wrong, confidence, .. } = self.status();
        ErrorBound { checks, wrong, confidence }
    }

    /// The next question, or why there is none.
    ///
    /// # Errors
    /// When there is enough.
    pub fn question(&self) -> Result<Question, LabelEnd> {
        let status = self.status();
        if status.checks > 0 && status.error_bound <= self.settings.max_error {
            return Err(LabelEnd::BoundMet);
        }
        if self.settings.count.is_some_and(|count| status.labels() >= count) {
            return Err(LabelEnd::Count);
        }
        let (asked, every) = (self.journal.standing().len(), self.settings.check_every);
        let is_check_due = every > 0 && asked % every == every - 1;
        let found = match is_check_due {
            true => self.next_check().or_else(|| self.next_to_train()),
            false => self.next_to_train().or_else(|| self.next_check()),
        };
        found.ok_or(LabelEnd::AllAsked)
    }

    fn next_check(&self) -> Option<Question> {
        let is_check = |answered: &&Answered| answered.purpose == Purpose::Check;
        let asked = self.journal.standing().iter().filter(is_check).count();
        self.checks.get(asked).map(|frame| Question { frame: *frame, purpose: Purpose::Check })
    }

    /// The first that is far enough from those that were asked about; where none is, half as far is enough.
    fn next_to_train(&self) -> Option<Question> {
        let is_train = |answered: &&Answered| answered.purpose == Purpose::Train;
        let asked: Vec<usize> =
            self.journal.standing().iter().filter(is_train).map(|answered| answered.frame).collect();
        let known: HashSet<usize> = asked.iter().copied().collect();
        let is_near = |frame: usize, apart: usize| {
            let Some(places) = &self.places else { return false };
            let (episode, at) = places[frame];
            asked
                .iter()
                .map(|other| places[*other])
                .any(|(of, other)| of == episode && at.abs_diff(other) < apart)
        };
        let mut apart = match self.settings.order {
            QuestionOrder::Active => self.settings.apart,
            QuestionOrder::Random => 0,
        };
        loop {
            let mut free = self.ranked.iter().filter(|frame| !known.contains(frame));
            if let Some(frame) = free.find(|frame| !is_near(**frame, apart)) {
                return Some(Question { frame: *frame, purpose: Purpose::Train });
            }
            if apart == 0 {
                return None;
            }
            apart /= 2;
        }
    }

    /// Keeps the answer to a question. It is on the disk when this returns.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn answer(&mut self, question: Question, answer: Answer) -> Result<(), LabelError> {
        let Question { frame, purpose } = question;
        let origin = self.frames.origin(frame);
        let (episode, at, by) = (origin.episode.to_string(), origin.at, self.settings.by);
        self.journal.answer(Answered { frame, episode, at, purpose, answer, by })?;
        Ok(images::sync(&self.settings.folder, self.frames, &self.journal, Some(frame))?)
    }

    /// Takes the last answer back, and gives it; nothing where there is none. Its question is asked again.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn undo(&mut self) -> Result<Option<Answered>, LabelError> {
        let undone = self.journal.undo()?;
        if let Some(undone) = &undone {
            images::sync(&self.settings.folder, self.frames, &self.journal, Some(undone.frame))?;
        }
        Ok(undone)
    }

    /// The last answer that stands.
    #[must_use]
    pub fn last(&self) -> Option<&Answered> {
        self.journal.standing().last()
    }
}

/// The frames that only check, in a random order: of all frames, as many as there may be checks. A part of the frames that was chosen
/// at random, asked about in a random order, is a random choice of all frames; and none of it is ever trained on.
fn check_frames(frames: usize, check_every: usize, seed: u64) -> Vec<usize> {
    if check_every == 0 {
        return Vec::new();
    }
    let mut order = shuffled((0..frames).collect(), Seed::new(seed).purpose("checks"));
    order.truncate(frames.div_ceil(check_every));
    order
}

fn places(frames: &Frames) -> Option<Vec<(usize, usize)>> {
    if !frames.recordings().iter().all(|recording| recording.in_episodes) {
        return None;
    }
    let mut places = vec![(0, 0); frames.len()];
    for (episode, numbers) in frames.by_episode().into_iter().enumerate() {
        for number in numbers {
            places[number] = (episode, frames.origin(number).at);
        }
    }
    Some(places)
}
