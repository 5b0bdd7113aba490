//! Which frames are worth a person's label, what is asked next, and when there are enough.
//!
//! A [`LabelSession`] asks about frames of a dataset, one at a time. Most questions are for training: frames about which the model
//! is unsure ([`uncertainty`]), spread over episodes. Every third is a check: a frame chosen at random among all of them, whose label
//! never trains. What the model gets wrong among the checks bounds what it gets wrong among all frames ([`ErrorBound`]), and labelling
//! ends when that is little enough.
//!
//! Every answer is in a journal before the next question, and the images of training labels lie in `success/` and `failure/`, as data
//! to train on. Both say the same: images are made from the journal wherever they differ.
//!
//! ```
//! use plaudit_reward::active_labels::{ErrorBound, uncertainty};
//!
//! // Near the threshold, or where a second model says otherwise.
//! assert!(uncertainty(0.1, None) > uncertainty(3.0, None));
//! assert!(uncertainty(3.0, Some(-3.0)) > uncertainty(3.0, Some(3.0)));
//!
//! let bound = ErrorBound { checks: 72, wrong: 0, confidence: 0.95 };
//! assert!(bound.upper() <= 0.05);
//! ```
//!
//! Nothing here shows a frame or reads a key: whoever asks the person does.

mod bound;
mod images;
mod ranking;
mod scores;
mod session;

pub use bound::ErrorBound;
pub use ranking::{QuestionOrder, uncertainty};
pub use scores::FrameScores;
pub use session::{LabelEnd, LabelError, LabelSession, LabelSettings, LabelStatus, ModelOpinions, Question};
