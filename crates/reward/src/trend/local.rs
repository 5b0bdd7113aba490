//! Qwen3-VL in this process.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{
    self as qwen, Adapter, Config, Inputs, Message, Processor, Quantization, QuestionSize, QwenVl, Role,
    ScoreCache, VideoFormat, Visual, VlmError,
};

use super::cached_model;
use super::card::{JudgeCard, JudgeCardError, WindowFormat};
use super::completion::{
    AnswerUnderWay, Completion, CompletionListener, CompletionOptions, CompletionToken, NoListener,
    log_sum_exp,
};
use super::conversation::{AnswerPlace, ContentPart, Conversation, RgbImage, Video};
use super::folder::JudgeFolder;
use super::model::{Answer, AnswerMode, GenerationConfig, TrendModel};
use super::readout::LabelLogits;
use super::vocabulary::Trend;
use super::word_tokens::{Fork, forks};
use crate::models::RewardModelError;

/// Questions that go through the network at once. More are no quicker, and their images need memory.
const BATCH_SIZE: usize = 32;
/// The same on a GPU.
const GPU_BATCH_SIZE: usize = 128;
/// What pairs of frames may take in memory that windows to come may share.
const CACHED_BYTES: usize = 256 << 20;
/// The same on a GPU, where a call has more of them.
const GPU_CACHED_BYTES: usize = 1 << 30;
/// Frames that a video has at least.
const MIN_VIDEO_FRAMES: usize = 2;

/// A vision-language model that answers here.
pub struct LocalVlm {
    model: QwenVl,
    /// The first tokens of the labels, in the order of [`Trend::LABELS`].
    labels: Vec<u32>,
    /// Pairs of frames that windows share, and the words they begin with.
    cache: Mutex<ScoreCache>,
    card: Option<JudgeCard>,
    device: Device,
}

/// Where a model is, and how it sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalVlmSettings<'a> {
    /// Its Hugging Face folder.
    pub folder: &'a Path,
    /// Low-rank adapters, as the peft package or RLinf saves them; merged into the weights.
    pub lora: Option<&'a Path>,
    /// Where it computes.
    pub device: Device,
    /// What it computes with.
    pub precision: Precision,
    /// How many bits its weights have.
    pub quantization: Quantization,
}

impl LocalVlm {
    /// Opens a model.
    pub(crate) fn open(settings: LocalVlmSettings<'_>) -> Result<Self, VlmError> {
        let LocalVlmSettings { folder, lora, device, precision, quantization } = settings;
        let adapter = lora.map(Adapter::open).transpose()?;
        let model = QwenVl::open_quantized(folder, adapter.as_ref(), device, precision, quantization)?;
        let labels = model.processor().tokenizer().first_tokens(&Trend::LABELS.map(Trend::word))?;
        let cached_bytes = match device {
            Device::Cpu => CACHED_BYTES,
            Device::Cuda(_) => GPU_CACHED_BYTES,
        };
        let card = JudgeFolder::with(folder, lora).card();
        let card = card.map_err(|JudgeCardError { file, problem }| VlmError::Config { file, problem })?;
        Ok(Self { model, labels, cache: Mutex::new(ScoreCache::of_bytes(cached_bytes)), card, device })
    }

    /// The preprocessing of prompts and images.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        self.model.processor()
    }

    /// What it says about itself, if it does.
    #[must_use]
    pub fn card(&self) -> Option<&JudgeCard> {
        self.card.as_ref()
    }

    /// How windows were shown to it when it was tuned, if that is known.
    #[must_use]
    pub fn window_format(&self) -> Option<&WindowFormat> {
        self.card.as_ref().and_then(|card| card.window.as_ref())
    }

    /// What the labels' logits are divided by to be honest, as far as that is known.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.card.as_ref().map_or(1.0, JudgeCard::temperature)
    }

    /// How many questions go through the network at once.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        match self.device {
            Device::Cpu => BATCH_SIZE,
            Device::Cuda(_) => GPU_BATCH_SIZE,
        }
    }

    /// How many pairs of frames were seen before, of how many that were shown.
    #[must_use]
    pub fn pairs_found(&self) -> [usize; 2] {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).hits_and_lookups()
    }

    /// What it makes of a question.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub fn inputs(&self, conversation: &Conversation<'_>) -> Result<Inputs, VlmError> {
        let visuals = conversation.parts.iter().filter_map(|part| self.visual(part).transpose());
        let processor = self.model.processor();
        processor.encode(&processor.in_template(prompt(conversation)), visuals.collect::<Result<_, _>>()?)
    }

    fn visual(&self, part: &ContentPart<'_>) -> Result<Option<Visual>, VlmError> {
        let processor = self.model.processor();
        match part {
            ContentPart::Text(_) => Ok(None),
            ContentPart::Image(image) => processor.image(shown(image)).map(Some),
            ContentPart::Video(video) => {
                let mut images: Vec<_> = video.frames.iter().map(shown).collect();
                while let (Some(last), true) = (images.last().copied(), images.len() < MIN_VIDEO_FRAMES) {
                    images.push(last);
                }
                processor.video_as(&images, self.video_format(video)).map(Some)
            }
        }
    }

    /// The logits of the labels after a question. What windows share is computed once, also from one call to the next.
    ///
    /// # Errors
    /// When the network does not take it.
    pub fn label_logits(&self, inputs: &[Inputs]) -> Result<Vec<LabelLogits>, VlmError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let logits = self.model.score(inputs, &self.labels, &mut cache)?;
        let wrong = || VlmError::Input("the model has not one logit for each label".into());
        logits.into_iter().map(|row| row.try_into().map(LabelLogits).map_err(|_| wrong())).collect()
    }

    /// The logarithms of the probabilities of words as answers, among all others, for each question: by their first tokens, and by
    /// further ones as far as words begin alike. What windows share is computed once, also from one call to the next.
    ///
    /// # Errors
    /// When the network does not take a question, or two words have the same tokens.
    pub fn word_logprobs(&self, inputs: &[Inputs], words: &[&str]) -> Result<Vec<Vec<f32>>, VlmError> {
        let forks = forks(self.model.processor().tokenizer(), words)?;
        let vocabulary: Vec<u32> = (0..self.model.config().text.vocab as u32).collect();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut logprobs = vec![vec![0.0; words.len()]; inputs.len()];
        for Fork { said, next } in &forks {
            let longer: Vec<Inputs> = match said.as_slice() {
                [] => Vec::new(),
                said => inputs.iter().map(|inputs| inputs.followed_by(said)).collect(),
            };
            let asked = if said.is_empty() { inputs } else { &longer };
            let logits = self.model.score(asked, &vocabulary, &mut cache)?;
            for (logprobs, logits) in logprobs.iter_mut().zip(logits) {
                let rest = log_sum_exp(&logits);
                for (token, words) in next {
                    words.iter().for_each(|word| logprobs[*word] += logits[*token as usize] - rest);
                }
            }
        }
        Ok(logprobs)
    }

    /// How often the network goes over a question to tell how likely these words are.
    ///
    /// # Errors
    /// When two words have the same tokens.
    pub fn word_passes(&self, words: &[&str]) -> Result<usize, VlmError> {
        forks(self.model.processor().tokenizer(), words).map(|forks| forks.len())
    }

    /// The logits of the first tokens of words after each question.
    ///
    /// # Errors
    /// When the network does not take a question, or two words begin with the same token.
    pub fn word_logits(&self, inputs: &[Inputs], words: &[&str]) -> Result<Vec<Vec<f32>>, VlmError> {
        let firsts = self.model.processor().tokenizer().first_tokens(words)?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.model.score(inputs, &firsts, &mut cache)
    }

    /// The size of a question, before any of its images is touched.
    ///
    /// # Errors
    /// When it cannot be shown, or goes beyond the positions that the model knows.
    pub fn question_size(&self, conversation: &Conversation<'_>) -> Result<QuestionSize, VlmError> {
        let processor = self.model.processor();
        let mut grids = Vec::new();
        for part in &conversation.parts {
            match part {
                ContentPart::Text(_) => {}
                ContentPart::Image(image) => grids.push(processor.image_grid(image.height, image.width)?),
                ContentPart::Video(video) => {
                    let size = video.frames.first().map_or([0; 2], |frame| [frame.height, frame.width]);
                    let frames = video.frames.len().max(MIN_VIDEO_FRAMES);
                    grids.push(processor.video_grid(frames, size, self.video_format(video))?);
                }
            }
        }
        processor.question_size(&processor.in_template(prompt(conversation)), &grids)
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.model.config()
    }

    fn video_format(&self, video: &Video<'_>) -> VideoFormat {
        let size = self.window_format().map(|format| format.size);
        VideoFormat { fps: video.fps, sampling: video.sampling, size }
    }

    /// Answers in words, each found by its own options.
    ///
    /// # Errors
    /// When the network does not take a question.
    pub fn complete(
        &self,
        asked: &[(&Conversation<'_>, &CompletionOptions)],
        listener: &dyn CompletionListener,
    ) -> Result<Vec<Completion>, VlmError> {
        // Sampled answers go one by one: a sample must not depend on the rest of the batch.
        let is_sampled = asked.iter().any(|(_, options)| options.temperature > 0.0);
        let batch_size = if is_sampled { 1 } else { BATCH_SIZE };
        let mut said = Vec::with_capacity(asked.len());
        for (at, chunk) in asked.chunks(batch_size).enumerate() {
            said.extend(self.complete_together(chunk, at * batch_size, listener)?);
        }
        Ok(said)
    }

    /// Answers of one batch, whose first question has this number.
    fn complete_together(
        &self,
        asked: &[(&Conversation<'_>, &CompletionOptions)],
        first: usize,
        listener: &dyn CompletionListener,
    ) -> Result<Vec<Completion>, VlmError> {
        let tokenizer = self.model.processor().tokenizer();
        let inputs = asked.iter().map(|(asked, _)| self.inputs(asked)).collect::<Result<Vec<_>, _>>()?;
        let begin = |(asked, options): &(&Conversation<'_>, &'_ CompletionOptions)| seed_of(asked, options);
        let seeds: Vec<u64> = asked.iter().map(begin).collect();
        let mut answers: Vec<AnswerUnderWay<'_>> = asked
            .iter()
            .zip(&seeds)
            .map(|((_, options), seed)| AnswerUnderWay::new(options, *seed))
            .collect();
        let longest = asked.iter().map(|(_, options)| options.max_new_tokens).max().unwrap_or(0);
        let mut failed = None;
        let mut choose = |row: usize, logits: &[f32]| {
            if !listener.is_waiting(first + row) {
                return None;
            }
            let mut tell =
                |text: &str, token: Option<&CompletionToken>| listener.piece(first + row, text, token);
            answers[row].next(tokenizer, logits, &mut tell).unwrap_or_else(|error| {
                failed = Some(error);
                None
            })
        };
        self.model.generate_by(&inputs, longest, &mut choose)?;
        match failed {
            Some(error) => Err(error),
            None => Ok(answers
                .into_iter()
                .zip(&inputs)
                .map(|(answer, inputs)| answer.completion(inputs.len()))
                .collect()),
        }
    }
}

fn seed_of(asked: &Conversation<'_>, options: &CompletionOptions) -> u64 {
    if options.temperature > 0.0 && options.seed.is_none() { seed(asked) } else { 0 }
}

impl TrendModel for LocalVlm {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        ask: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let failed = |error: VlmError| RewardModelError::Backend(Box::new(error));
        match ask {
            AnswerMode::Labels(_) => {
                let mut answers = Vec::with_capacity(conversations.len());
                for chunk in conversations.chunks(self.batch_size()) {
                    let inputs = chunk.iter().map(|asked| self.inputs(asked)).collect::<Result<Vec<_>, _>>();
                    let logits = inputs.and_then(|inputs| self.label_logits(&inputs)).map_err(failed)?;
                    answers.extend(logits.into_iter().map(Answer::Logits));
                }
                Ok(answers)
            }
            AnswerMode::Words(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let mut answers = Vec::with_capacity(conversations.len());
                for chunk in conversations.chunks(self.batch_size()) {
                    let inputs = chunk.iter().map(|asked| self.inputs(asked)).collect::<Result<Vec<_>, _>>();
                    let logprobs =
                        inputs.and_then(|inputs| self.word_logprobs(&inputs, &words)).map_err(failed)?;
                    answers.extend(logprobs.into_iter().map(Answer::WordLogprobs));
                }
                Ok(answers)
            }
            AnswerMode::Text(generation) => {
                let GenerationConfig { max_new_tokens, temperature } = *generation;
                let options = CompletionOptions::at_temperature(temperature, max_new_tokens);
                let asked: Vec<_> = conversations.iter().map(|asked| (asked, &options)).collect();
                let said = self.complete(&asked, &NoListener).map_err(failed)?;
                Ok(said.into_iter().map(|said| Answer::Text(said.text)).collect())
            }
        }
    }
}

fn shown<'a>(image: &'a RgbImage<'_>) -> qwen::RgbImage<'a> {
    qwen::RgbImage { rgb: &image.pixels, height: image.height, width: image.width }
}

/// The seed of sampling: the question itself, so that the same question gets the same answer.
fn seed(conversation: &Conversation<'_>) -> u64 {
    let key = cached_model::fingerprint(conversation);
    u64::from_le_bytes(std::array::from_fn(|at| key[at]))
}

/// A question as the model reads it.
fn prompt(conversation: &Conversation<'_>) -> String {
    let system = conversation
        .system
        .as_deref()
        .map(|words| Message { role: Role::System, content: vec![qwen::ContentPart::Text(words.into())] });
    let content = match conversation.answer {
        AnswerPlace::NextTurn => content_as_rlinf_writes_it(conversation),
        AnswerPlace::SameTurn => content_of_the_template(conversation),
    };
    let asked = Message { role: Role::User, content };
    let messages: Vec<Message> = system.into_iter().chain([asked]).collect();
    match conversation.answer {
        AnswerPlace::NextTurn => qwen::chat(&messages, true),
        AnswerPlace::SameTurn => qwen::open_chat(&messages),
    }
}

/// The parts as the model's own template has them, with nothing between.
fn content_of_the_template(conversation: &Conversation<'_>) -> Vec<qwen::ContentPart> {
    let part = |part: &ContentPart<'_>| match part {
        ContentPart::Text(words) => qwen::ContentPart::Text(words.clone()),
        ContentPart::Image(_) => qwen::ContentPart::Image,
        ContentPart::Video(_) => qwen::ContentPart::Video,
    };
    conversation.parts.iter().map(part).collect()
}

/// A pad for each video, lines of their own, and an empty line between videos and words.
fn content_as_rlinf_writes_it(conversation: &Conversation<'_>) -> Vec<qwen::ContentPart> {
    let mut content = Vec::new();
    let mut text = String::new();
    let mut before: Option<&ContentPart<'_>> = None;
    for part in &conversation.parts {
        match (before, part) {
            (Some(ContentPart::Video(_)), ContentPart::Video(_)) => text += "\n",
            (Some(ContentPart::Video(_)), ContentPart::Text(_))
            | (Some(ContentPart::Text(_)), ContentPart::Video(_)) => text += "\n\n",
            _ => {}
        }
        match part {
            ContentPart::Text(words) => text += words,
            ContentPart::Video(_) => text += "<|video_pad|>",
            ContentPart::Image(_) => {
                content
                    .extend((!text.is_empty()).then(|| qwen::ContentPart::Text(std::mem::take(&mut text))));
                content.push(qwen::ContentPart::Image);
            }
        }
        before = Some(part);
    }
    content.extend((!text.is_empty()).then_some(qwen::ContentPart::Text(text)));
    content
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use plaudit_nn::qwen3_vl::{FrameSampling, PromptLayout, trend_question, window};

    use super::*;

    fn image() -> RgbImage<'static> {
        RgbImage { height: 1, width: 1, pixels: Cow::Borrowed(&[0, 0, 0]) }
    }

    #[test]
    fn a_window_is_written_as_rlinf_does() {
        let video = || {
            let frames = vec![image()];
            ContentPart::Video(Video { frames, fps: 24.0, sampling: FrameSampling::Sampled })
        };
        let question = trend_question("Lift it.");
        let words = || ContentPart::Text(question.clone());
        let asked = |parts| Conversation { system: None, parts, answer: AnswerPlace::NextTurn };
        let videos_first = asked(vec![video(), video(), words()]);
        assert_eq!(prompt(&videos_first), window(2, &question, PromptLayout::VideosFirst));
        let words_first = asked(vec![words(), video(), video()]);
        assert_eq!(prompt(&words_first), window(2, &question, PromptLayout::SharedPrefix));
    }

    #[test]
    fn images_stand_before_words_as_the_chat_template_has_them() {
        let asked = Conversation {
            system: Some("Be fair.".into()),
            parts: vec![
                ContentPart::Image(image()),
                ContentPart::Image(image()),
                ContentPart::Text("Good?".into()),
            ],
            answer: AnswerPlace::NextTurn,
        };
        assert_eq!(
            prompt(&asked),
            "<|im_start|>system\nBe fair.<|im_end|>\n<|im_start|>user\n\
             <|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>Good?<|im_end|>\n\
             <|im_start|>assistant\n"
        );
        let open = Conversation { answer: AnswerPlace::SameTurn, ..asked };
        assert!(prompt(&open).ends_with("<|vision_end|>Good?"), "{}", prompt(&open));
    }
}
