//! Frames that a person labels while a robot moves.
//!
//! A key switches a label on, another one switches it off or over; every frame in between has it. Nothing is decided
//! while the robot moves: frames and keys go into a [`Journal`] that is only ever appended to, and labels are computed
//! from it afterwards, by one function ([`labels`]), as often as anybody wants and with another reaction lag each time.
//! A process that is killed loses the entry in flight.
//!
//! People press late. A [`ReactionTest`] measures how late; labels are then moved back by that time.
//!
//! [`write_dataset`] makes `train.pt` and `val.pt`. Frames of one moment look alike, so the split is by blocks of time,
//! and training frames too near to a validation frame are left out.
//!
//! Frames that were recorded before are labelled one by one, as questions; [`AnswerJournal`] keeps the answers. Or people look at
//! whole episodes and label frames in a row; [`SpanJournal`] keeps what each of them says, and [`Agreement`] says how far they agree.
//!
//! Times are seconds since the journal began, whoever measures them: nothing here reads a clock.

mod agreement;
mod answers;
mod dataset;
mod error;
mod journal;
mod marks;
mod reaction;
mod session;
mod span_journal;

pub use agreement::Agreement;
pub use answers::{ANSWERS_FILE, Annotator, Answer, AnswerJournal, Answered, AnswersHeader, Purpose};
pub use dataset::{DatasetOptions, DatasetReport, write_dataset};
pub use error::LabellingError;
pub use journal::{FRAMES_FILE, JOURNAL_FILE, Journal, JournalFrame, JournalHeader, Recovered};
pub use marks::{Mark, TimedMark, labels};
pub use reaction::{Reaction, ReactionTest};
pub use session::{LabelKey, Session, SessionSettings};
pub use span_journal::{
    SPANS_FILE, SpanJournal, SpanLabel, frame_labels, label_table, merged_labels, people, runs,
};

/// Frames of so long before a key are kept in case labels are moved back: nobody reacts later.
pub const LONGEST_LAG_SECS: f64 = 2.0;
