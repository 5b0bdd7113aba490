//! Qwen3-VL, a vision-language model: dense models of 2B, 4B, 8B and any other size of the family.
//!
//! | what | where |
//! |---|---|
//! | a Hugging Face folder, opened | [`QwenVl::open`], with an [`Adapter`] merged into it [`QwenVl::open_with`] |
//! | prompts and images preprocessed as transformers' processors do | [`Processor`], [`Inputs`], [`chat`], [`window`] |
//! | the logits of a few labels, in one pass | [`QwenVl::label_logits`]; with a cache of what windows share, [`QwenVl::score`] |
//! | an answer in words | [`QwenVl::answer`], [`QwenVl::generate`] |
//! | training of adapters or of all weights | [`VlmTrainer`] |
//! | adapters as the peft package and RLinf save them | [`Adapter`] |
//!
//! ```no_run
//! use plaudit_nn::classifier::{Device, Precision};
//! use plaudit_nn::qwen3_vl::{FrameSampling, RgbImage, PromptLayout, QwenVl, ScoreCache, trend_question};
//!
//! # fn frames<'a>() -> Vec<RgbImage<'a>> { Vec::new() }
//! let model = QwenVl::open("Qwen3-VL-2B-Instruct", Device::Cpu, Precision::Bf16)?;
//! let processor = model.processor();
//! let labels = processor.tokenizer().first_tokens(&["positive", "negative", "unclear"])?;
//! let question = trend_question("Pick up the red cube.");
//! let views = [frames(), frames()]; // main view, third-person view
//! let window = processor.window(&views, 24.0, FrameSampling::Sampled, &question, PromptLayout::VideosFirst)?;
//! let mut cache = ScoreCache::new(256);
//! let logits = model.score(&[window], &labels, &mut cache)?;
//! # Ok::<(), plaudit_nn::qwen3_vl::VlmError>(())
//! ```
//!
//! A model that is opened on a GPU, in bf16, scores there by its own forward pass (`gpu/`), and adapters are trained there by their
//! own backward pass (`gpu/train/`).
//! Everywhere else one implementation (`vision.rs`, `text.rs`) takes its parameters from a `ParamSource`: frozen for
//! inference (`inference.rs`), or trainable (`train.rs`). The operations between linear layers are our own (`layers.rs`,
//! `ops/tokens.rs`).

mod adapter;
mod adapter_files;
mod cache;
mod config;
mod cost;
mod error;
mod forward;
mod from_scratch;
mod generate;
mod gpu;
mod inference;
mod layers;
mod load;
mod model;
mod network;
mod param_source;
mod patches;
mod positions;
mod processor;
mod prompt;
mod resize;
mod text;
mod tokenizer;
mod train;
mod vision;

pub use adapter::Adapter;
pub use cache::ScoreCache;
pub use config::{Config, TextConfig, VisionConfig};
pub use cost::{ForwardCost, QuestionSize};
pub use error::VlmError;
pub use forward::Padding;
pub use from_scratch::NewModelFiles;
pub use generate::{ChooseToken, Decoding, GenerateOptions, likeliest, sample};
pub use gpu::KernelTime;
pub use model::{Quantization, QwenVl, Trace};
pub use patches::{RgbImage, Visual, VisualKind};
pub use positions::{Positions, positions};
pub use processor::{FrameSampling, Inputs, Processor, VideoFormat};
pub use prompt::{ContentPart, Message, PromptLayout, Role, chat, open_chat, trend_question, window};
pub use tokenizer::{SpecialTokens, Tokenizer};
pub use train::{Example, FineTuning, LoraConfig, Recompute, VlmTrainer};
