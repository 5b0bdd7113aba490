//! Whether things get better or worse: a vision-language model judges windows of frames, and its votes become rewards.
//!
//! ```text
//! clip ─input─► conversation ─TrendModel─► answer ─readout─► probabilities ─► reward
//! ```
//!
//! [`InputBuilder`] turns what a window shows into a [`Conversation`]: words and images. A [`TrendModel`] answers it, in
//! this process or on a server. [`ReadoutSettings`] makes of the answer how likely each [`Trend`] is: from the logits of the labels'
//! first tokens, or from words. [`TrendReward`] says what that is worth.

mod cached_model;
mod card;
mod completion;
mod conversation;
mod episode_clip;
mod episode_judge;
mod episode_readout;
mod folder;
mod frame_judge;
mod gvl;
mod input;
mod judge;
mod local;
mod model;
mod nonsense;
mod parse;
mod prompt_check;
mod readout;
mod reward;
mod vocabulary;
mod word_judge;
mod word_readout;
mod word_tokens;

pub use cached_model::CachedModel;
pub use card::{JudgeCard, JudgeCardError, WindowFormat};
pub use completion::{Completion, CompletionListener, CompletionOptions, CompletionToken, NoListener};
pub use conversation::{AnswerPlace, ContentPart, Conversation, RgbImage, Video};
pub use episode_clip::EpisodeClip;
pub use episode_judge::{EpisodeJudge, EpisodeValues, mean_interval};
pub use episode_readout::{EpisodeReadout, PREFIX_FPS, PrefixFormat};
pub use folder::{JudgeFolder, NoBaseModel};
pub use frame_judge::{FrameReadout, VlmFrameJudge};
pub use input::{InputBuilder, Prompt};
pub use judge::TrendJudge;
pub use local::LocalVlm;
pub(crate) use local::LocalVlmSettings;
pub use model::{Answer, AnswerMode, GenerationConfig, TrendModel};
pub use nonsense::NonsenseGuard;
pub use parse::{parse_score, parse_trend};
pub use prompt_check::{PromptCheck, UnknownPrompt};
pub use readout::{LabelLogits, LabelProbabilities, ReadoutSettings};
pub use reward::{LabelRewards, TrendReward};
pub use vocabulary::Trend;
pub use word_judge::WordJudge;
pub use word_readout::{TOPREWARD_PROMPT, WordMeasure, WordReadout, WordReadoutError};
