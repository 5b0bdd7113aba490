//! Who answers: a person in the terminal, or the labels that were recorded.

use std::time::Duration;

use plaudit_core::FrameShape;
use plaudit_data::labelling::{Answer, Purpose};
use plaudit_draw::{Canvas, half_blocks};
use plaudit_reward::active_labels::{LabelSession, Question};
use plaudit_reward::dataset::Frames;
use plaudit_robot::Key;
use plaudit_view::Size;

use super::page;
use crate::commands::keys::Keys;
use crate::console;
use crate::failure::Failure;
use crate::run::interrupted;

/// How often keys are looked at.
const LOOKS_EVERY: Duration = Duration::from_millis(5);
/// Lines below the images.
const TEXT_LINES: usize = 5;
/// Pixels between the images of two cameras.
const GAP: usize = 2;

/// What somebody does about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    Answer(Answer),
    Undo,
    /// Enough.
    Quit,
    /// Ctrl-C.
    Stop,
}

/// Somebody who answers.
pub(super) trait Annotate {
    fn react(
        &mut self,
        session: &LabelSession<'_>,
        frames: &Frames,
        question: Question,
    ) -> Result<Reaction, Failure>;

    /// Says something beside the next question.
    fn tell(&mut self, text: &str);
}

/// The success that was recorded.
pub(super) struct Recorded;

impl Annotate for Recorded {
    fn react(
        &mut self,
        _: &LabelSession<'_>,
        frames: &Frames,
        question: Question,
    ) -> Result<Reaction, Failure> {
        match interrupted() {
            true => Ok(Reaction::Stop),
            false => Ok(Reaction::Answer(frames.success(question.frame).into())),
        }
    }

    fn tell(&mut self, _: &str) {}
}

/// A person at a terminal.
pub(super) struct Person {
    keys: Keys,
    note: Option<String>,
}

impl Person {
    /// At the terminal of this process, which gives keys without waiting for Enter until this is dropped.
    pub(super) fn listen() -> Result<Self, Failure> {
        Keys::listen().map(Self::at)
    }

    fn at(keys: Keys) -> Self {
        Self { keys, note: None }
    }
}

impl Annotate for Person {
    fn react(
        &mut self,
        session: &LabelSession<'_>,
        frames: &Frames,
        question: Question,
    ) -> Result<Reaction, Failure> {
        // Keys that were pressed before a frame was shown are no answers to it.
        drop(self.keys.pressed());
        let text = self.question_text(session, frames, question);
        console::screen(&format!("{}{text}", images(frames, question.frame, Size::now())));
        loop {
            if let Some(reaction) = self.keys.pressed().into_iter().find_map(reaction_to) {
                return Ok(reaction);
            }
            if interrupted() {
                return Ok(Reaction::Stop);
            }
            if self.keys.have_ended() {
                return Ok(Reaction::Quit);
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    fn tell(&mut self, text: &str) {
        self.note = Some(text.into());
    }
}

impl Person {
    fn question_text(&mut self, session: &LabelSession<'_>, frames: &Frames, question: Question) -> String {
        let Question { frame, purpose } = question;
        let origin = frames.origin(frame);
        let opinions = session.opinions();
        let second = opinions.second.as_ref().map(|second| second.scores[frame]);
        let second = second.map_or(String::new(), |score| format!(", second model {score:.3}"));
        let kind = match purpose {
            Purpose::Train => format!("uncertainty {:.2}", session.uncertainty(frame)),
            Purpose::Check => "a check: chosen at random, never trained on".into(),
        };
        let note = self.note.take().map(|note| format!("{note}\n")).unwrap_or_default();
        format!(
            "{}, frame {}: score {:.3}{second} ({kind})\n{}\nc success   a failure   space skip   u undo   q enough\n{note}",
            without_outcome(origin.episode),
            origin.at,
            opinions.model.scores[frame],
            page::status_line(&session.status()),
        )
    }
}

/// The name of an episode without what it says about its end, which would answer the question.
fn without_outcome(episode: &str) -> &str {
    let outcomes = ["_success", "_failure", "_fail"];
    outcomes.iter().find_map(|outcome| episode.strip_suffix(outcome)).unwrap_or(episode)
}

/// What a key means, as in `plaudit robot label`.
fn reaction_to(key: Key) -> Option<Reaction> {
    match key {
        Key::Char('c') => Some(Reaction::Answer(Answer::Success)),
        Key::Char('a') => Some(Reaction::Answer(Answer::Failure)),
        Key::Char('b') | Key::Space => Some(Reaction::Answer(Answer::Skip)),
        Key::Char('u') | Key::Backspace => Some(Reaction::Undo),
        Key::Char('q') | Key::Escape => Some(Reaction::Quit),
        _ => None,
    }
}

/// All views of a frame beside each other, as large as the terminal allows.
fn images(frames: &Frames, frame: usize, terminal: Size) -> String {
    let views = frames.views().len();
    let width = terminal.width.saturating_sub(GAP * (views - 1)) / views;
    let height = 2 * terminal.height.saturating_sub(TEXT_LINES).max(1);
    let fitted = |view: usize| {
        let image = frames.image(frame, view);
        let FrameShape { height: tall, width: wide, .. } = image.shape();
        // The longer side, such that neither side is too long.
        let side = (width * tall.max(wide) / wide.max(1)).min(height * tall.max(wide) / tall.max(1));
        Canvas::fitted(image.shape(), &frames.pixels_or_black(frame, view), side.max(1))
    };
    let fitted: Vec<Canvas> = (0..views).map(fitted).collect();
    let wide = fitted.iter().map(Canvas::width).sum::<usize>() + GAP * (views - 1);
    let tall = fitted.iter().map(Canvas::height).max().unwrap_or(1);
    let mut row = Canvas::filled(wide, tall, [0; 3]);
    let mut left = 0;
    for image in &fitted {
        row.put((left, 0), image);
        left += image.width() + GAP;
    }
    half_blocks(&row).into_iter().map(|line| line + "\n").collect()
}
