//! Whether things get better or worse: a vision-language model watches windows of frames, and its votes are paid.
//!
//! ```text
//! clip ─input─► conversation ─TrendModel─► answer ─readout─► leaning ─pay─► verdict
//! ```
//!
//! [`InputBuilder`] turns what a window shows into a [`Conversation`]: words and pictures. A [`TrendModel`] answers it, in
//! this process or on a server. [`Reading`] makes of the answer how likely each [`Trend`] is: from the logits of the labels'
//! first tokens, or from words. [`TrendPay`] says what that is worth.

mod card;
mod conversation;
mod familiar;
mod folder;
mod input;
mod judge;
mod local;
mod model;
mod moments;
mod parse;
mod pay;
mod readout;
mod remembered;
mod vocabulary;

pub use card::{JudgeCard, JudgeCardError};
pub use conversation::{Conversation, Part, Picture, Video};
pub use familiar::Familiar;
pub use folder::{JudgeFolder, NoBaseModel};
pub use input::{InputBuilder, Prompt};
pub use judge::TrendJudge;
pub use local::{LocalVlm, LocalVlmSettings, Utterance};
pub use model::{Answer, Ask, Generation, TrendModel};
pub use moments::{MomentReading, VlmMoments};
pub use parse::{parse_score, parse_trend};
pub use pay::{Amounts, TrendPay};
pub use readout::{LabelLogits, Leaning, Reading};
pub use remembered::Remembered;
pub use vocabulary::Trend;
