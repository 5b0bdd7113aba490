//! Qwen3-VL: a language model that sees.
//!
//! [`QwenVl::open`] opens a Hugging Face folder. Its [`Processor`] makes prompts and pictures ready
//! ([`Inputs`]); the model then gives the logits of a few labels ([`QwenVl::label_logits`], one pass) or writes an
//! answer ([`QwenVl::generate`]).
//!
//! The network is one text (`vision.rs`, `text.rs`) over a [`Pass`](pass::Pass), which gives the parameters: as they
//! stay for answering, or as they learn.

mod adapter;
mod body;
mod config;
mod error;
mod generate;
mod layers;
mod load;
mod model;
mod network;
mod pass;
mod patches;
mod positions;
mod processor;
mod prompt;
mod resize;
mod serve;
mod text;
mod tokenizer;
mod tune;
mod vision;

pub use adapter::Adapter;
pub use body::Padding;
pub use config::{Config, TextConfig, VisionConfig};
pub use error::VlmError;
pub use generate::{Choice, Generate};
pub use model::{QwenVl, Trace};
pub use patches::{Kind, Picture, Visual};
pub use positions::{Positions, positions};
pub use processor::{Frames, Inputs, Processor};
pub use prompt::{Message, Part, PromptLayout, Role, chat, trend_question, window};
pub use tokenizer::{Special, Tokenizer};
pub use tune::{Example, Learn, Lora, Tuner};
