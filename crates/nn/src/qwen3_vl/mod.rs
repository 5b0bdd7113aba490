//! Qwen3-VL: a language model that sees, dense models of 2B, 4B, 8B and any other size of the family.
//!
//! | what | where |
//! |---|---|
//! | a Hugging Face folder, opened | [`QwenVl::open`], with an [`Adapter`] merged into it [`QwenVl::open_with`] |
//! | prompts and pictures made ready, as transformers' processors do it | [`Processor`], [`Inputs`], [`chat`], [`window`] |
//! | the logits of a few labels, in one pass | [`QwenVl::label_logits`]; keeping what windows share, [`QwenVl::score`] |
//! | an answer in words | [`QwenVl::answer`], [`QwenVl::generate`] |
//! | training of adapters, or of all weights | [`Tuner`] |
//! | adapters as the peft package and RLinf save them | [`Adapter`] |
//!
//! ```no_run
//! use plaudit_nn::classifier::{Device, Precision};
//! use plaudit_nn::qwen3_vl::{Frames, Picture, PromptLayout, QwenVl, ScoreCache, trend_question};
//!
//! # fn frames<'a>() -> Vec<Picture<'a>> { Vec::new() }
//! let model = QwenVl::open("Qwen3-VL-2B-Instruct", Device::Cpu, Precision::Bf16)?;
//! let processor = model.processor();
//! let labels = processor.tokenizer().first_tokens(&["positive", "negative", "unclear"])?;
//! let question = trend_question("Pick up the red cube.");
//! let views = [frames(), frames()]; // main view, third-person view
//! let window = processor.window(&views, 24.0, Frames::Sampled, &question, PromptLayout::VideosFirst)?;
//! let mut cache = ScoreCache::new(256);
//! let logits = model.score(&[window], &labels, &mut cache)?;
//! # Ok::<(), plaudit_nn::qwen3_vl::VlmError>(())
//! ```
//!
//! With the feature `cuda-judge`, a model that is opened on a GPU in bf16 scores there by a path of its own (`gpu/`).
//! Everywhere else the network is one text (`vision.rs`, `text.rs`) over a `Pass`, which gives the parameters: as they stay for
//! answering (`serve.rs`), or as they learn (`tune.rs`). On the processor the operations between are our own
//! (`layers.rs`, `ops/tokens.rs`), on other devices Burn's.

mod adapter;
mod body;
mod cache;
mod config;
mod error;
mod fresh;
mod generate;
#[cfg(feature = "cuda-judge")]
mod gpu;
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
pub use cache::ScoreCache;
pub use config::{Config, TextConfig, VisionConfig};
pub use error::VlmError;
pub use fresh::Fresh;
pub use generate::{Choice, Generate};
#[cfg(feature = "cuda-judge")]
pub use gpu::{GpuError, PartTime, product_speed};
pub use model::{QwenVl, Trace};
pub use patches::{Kind, Picture, Visual};
pub use positions::{Positions, positions};
pub use processor::{Frames, Inputs, Processor};
pub use prompt::{Message, Part, PromptLayout, Role, chat, trend_question, window};
pub use tokenizer::{Special, Tokenizer};
pub use tune::{Example, Learn, Lora, Tuner};
