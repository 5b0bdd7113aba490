//! A vision-language model as a model that is served.
//!
//! A chat is answered in words, as it would be by any other server of the model. Frames of windows are scored by the
//! probabilities of the three labels.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use plaudit_data::convert::window_prompt;
use plaudit_nn::qwen3_vl::{Inputs, PromptLayout, Quantization, VlmError};
use plaudit_reward::open::{OpenOptions, OpenVlm};
use plaudit_reward::trend::{
    self, Completion, Conversation, GenerationConfig, JudgeFolder, LabelLogits, LabelProbabilities, LocalVlm,
    Trend, Video,
};
use plaudit_serve::{
    Answer, AnswerResult, ApiError, Chat, ChatAnswer, ContentPart, FrameBlock, Image, Model, ModelInfo,
    Question, Role, Scores, TokenLogprob,
};
use serde_json::json;

use super::super::reward::{no_gpu, unopened};
use super::{ServeOptions, details};
use crate::build::judge_device;
use crate::failure::Failure;

/// The longest answer, where the client does not say.
const MAX_NEW_TOKENS: usize = 128;
/// The frame rate that processors get for videos.
const FPS: f64 = 24.0;

/// A vision-language model that is served.
pub(super) struct ServedVlm {
    info: ModelInfo,
    model: LocalVlm,
    /// What windows of frames are about.
    task: Option<String>,
}

/// The model in its folder, which was found where the user said (`path`).
pub(super) fn open(
    path: &Path,
    folder: JudgeFolder,
    options: &ServeOptions,
) -> Result<Arc<ServedVlm>, Failure> {
    let (device, precision) = judge_device(options.device, options.bf16).map_err(no_gpu)?;
    let folder = JudgeFolder { lora: options.lora.clone().or(folder.lora), ..folder };
    let quantization = if options.int8 { Quantization::Int8 } else { Quantization::None };
    let opened = OpenOptions { device, precision, quantization, ..OpenOptions::default() };
    let opened = OpenVlm::open(folder, &opened);
    let opened = opened.map_err(unopened)?;
    let capabilities = opened.capabilities();
    let model = opened.model;
    let own = json!({
        "kind": "vision-language model", "task": options.task, "label_temperature": model.temperature(),
    });
    let details = details(&capabilities, own);
    let info = ModelInfo { name: options.name_for(path), details };
    Ok(Arc::new(ServedVlm { info, model, task: options.task.clone() }))
}

fn refused(error: VlmError) -> ApiError {
    match error {
        VlmError::Input(why) => ApiError::invalid(why),
        other => ApiError::failed(other.to_string()),
    }
}

fn rgb_image(image: &Image) -> trend::RgbImage<'_> {
    trend::RgbImage { height: image.height, width: image.width, pixels: Cow::Borrowed(&image.pixels) }
}

/// A chat as the model takes it: one question, perhaps with words before it.
fn conversation(chat: &Chat) -> Result<Conversation<'_>, ApiError> {
    let (system, asked) = match chat.messages.as_slice() {
        [asked] => (None, asked),
        [system, asked] if system.role == Role::System => (Some(system), asked),
        _ => return Err(ApiError::invalid("one question at a time, with one system message at most")),
    };
    if asked.role != Role::User {
        return Err(ApiError::invalid("the last message must be the user's"));
    }
    let words = |parts: &[ContentPart]| {
        let texts = parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            ContentPart::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    let parts = asked.parts.iter().map(|part| match part {
        ContentPart::Image(shown) => trend::ContentPart::Image(rgb_image(shown)),
        ContentPart::Text(text) => trend::ContentPart::Text(text.clone()),
    });
    Ok(Conversation { system: system.map(|message| words(&message.parts).into()), parts: parts.collect() })
}

impl ServedVlm {
    /// What it is, in a line.
    pub(super) fn described(&self) -> String {
        let windows = match &self.task {
            Some(task) => format!("; windows of frames are about: {task}"),
            None => "; --task lets it score windows of frames".into(),
        };
        format!("`{}`: a vision-language model{windows}", self.info.name)
    }

    /// Windows, cameras and frames of a block.
    fn windows(&self, block: &FrameBlock) -> Result<[usize; 3], ApiError> {
        if self.task.is_none() {
            return Err(ApiError::invalid("this server has no task (--task): ask in a chat"));
        }
        match block.leading.as_slice() {
            [views, frames] => Ok([1, *views, *frames]),
            [windows, views, frames] => Ok([*windows, *views, *frames]),
            _ => Err(ApiError::invalid("send windows of shape N,V,T,H,W,3: windows, cameras, frames")),
        }
    }

    fn generation(&self, chat: &Chat) -> GenerationConfig {
        GenerationConfig {
            max_new_tokens: chat.max_tokens.unwrap_or(MAX_NEW_TOKENS).min(MAX_NEW_TOKENS),
            temperature: chat.temperature.unwrap_or(0.0),
        }
    }

    /// How a chat is decoded; chats with the same decoding go through the network together.
    fn decoding(&self, chat: &Chat) -> (GenerationConfig, usize) {
        (self.generation(chat), chat.top_logprobs.map_or(0, |top| top.max(1)))
    }

    /// The answers to chats with the same decoding. A question that cannot be encoded does not affect the others.
    fn said(&self, chats: &[&Chat]) -> Vec<AnswerResult> {
        let Some((generation, top_tokens)) = chats.first().map(|chat| self.decoding(chat)) else {
            return Vec::new();
        };
        let asked: Result<Vec<_>, _> = chats.iter().map(|chat| conversation(chat)).collect();
        let said =
            asked.and_then(|asked| self.model.generate(&asked, generation, top_tokens).map_err(refused));
        match said {
            Ok(said) => said.into_iter().zip(chats).map(|(said, chat)| Ok(words(said, chat))).collect(),
            Err(error) if chats.len() == 1 => vec![Err(error)],
            Err(_) => chats.iter().flat_map(|chat| self.said(&[chat])).collect(),
        }
    }

    /// The questions about the windows of a block.
    fn asked(&self, block: &FrameBlock) -> Result<Vec<Inputs>, ApiError> {
        let [_, views, frames] = self.windows(block)?;
        let (height, width) = (block.height, block.width);
        let images: Vec<trend::RgbImage<'_>> = block
            .pixels
            .chunks_exact(height * width * 3)
            .map(|pixels| trend::RgbImage { height, width, pixels: Cow::Borrowed(pixels) })
            .collect();
        let task = self.task.as_deref().unwrap_or_default();
        let question = window_prompt(task, frames, views.saturating_sub(1));
        let words_first =
            self.model.card().and_then(|card| card.prompt_layout) == Some(PromptLayout::SharedPrefix);
        let inputs = |window: &[trend::RgbImage<'_>]| {
            let videos = window.chunks(frames);
            let videos =
                videos.map(|frames| trend::ContentPart::Video(Video { frames: frames.to_vec(), fps: FPS }));
            let mut parts: Vec<trend::ContentPart<'_>> = videos.collect();
            parts.insert(
                if words_first { 0 } else { parts.len() },
                trend::ContentPart::Text(question.clone()),
            );
            self.model.inputs(&Conversation { system: None, parts }).map_err(refused)
        };
        images.chunks(views * frames).map(inputs).collect()
    }

    /// The scores of blocks; their windows go through the network together.
    fn scored(&self, blocks: &[&FrameBlock]) -> Vec<AnswerResult> {
        let asked: Vec<_> = blocks.iter().map(|block| self.asked(block)).collect();
        let all: Vec<Inputs> = asked.iter().flatten().flatten().cloned().collect();
        let logits: Result<Vec<_>, _> =
            all.chunks(self.model.batch_size()).map(|some| self.model.label_logits(some)).collect();
        let mut logits = match logits {
            Ok(logits) => logits.into_iter().flatten(),
            Err(error) => return vec![Err(refused(error)); blocks.len()],
        };
        let answer = |asked: Result<Vec<Inputs>, ApiError>| {
            let windows = asked?.len();
            scores(logits.by_ref().take(windows), self.model.temperature())
        };
        asked.into_iter().map(answer).collect()
    }
}

fn words(said: Completion, chat: &Chat) -> Answer {
    let tokens = chat.top_logprobs.map(|top| {
        let token_logprob = |(token, logprob): &(String, f32)| TokenLogprob {
            token: token.clone(),
            logprob: *logprob,
            top: said.top_logprobs.iter().take(top).cloned().collect(),
        };
        said.top_logprobs.first().map(token_logprob).into_iter().collect()
    });
    Answer::Chat(ChatAnswer {
        text: said.text,
        tokens,
        prompt_tokens: said.prompt_tokens,
        completion_tokens: said.completion_tokens,
        is_truncated: said.is_truncated,
    })
}

fn scores(logits: impl Iterator<Item = LabelLogits>, temperature: f64) -> AnswerResult {
    let mut numbers = Vec::new();
    for logits in logits {
        let probabilities = LabelProbabilities::of(logits, temperature);
        let probabilities =
            probabilities.ok_or_else(|| ApiError::failed("the model's weights are broken"))?;
        numbers.extend([probabilities.positive, probabilities.negative, probabilities.unclear]);
    }
    let columns = Trend::LABELS.map(|label| label.word().to_string()).to_vec();
    Ok(Answer::Scores(Scores { columns, numbers, success: None }))
}

impl Model for ServedVlm {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn check(&self, question: &Question) -> Result<(), ApiError> {
        match question {
            Question::Chat(chat) => conversation(chat).map(|_| ()),
            Question::Score(block) => self.windows(block).map(|_| ()),
        }
    }

    fn answer(&self, questions: &[Question]) -> Vec<AnswerResult> {
        let mut answers: Vec<AnswerResult> =
            vec![Err(ApiError::failed("the model did not see the request")); questions.len()];
        let mut put = |places: &[usize], given: Vec<AnswerResult>| {
            for (place, answer) in places.iter().zip(given) {
                answers[*place] = answer;
            }
        };
        let mut open: Vec<(usize, &Chat)> = Vec::new();
        let mut blocks: Vec<(usize, &FrameBlock)> = Vec::new();
        for (place, question) in questions.iter().enumerate() {
            match question {
                Question::Chat(chat) => open.push((place, chat)),
                Question::Score(block) => blocks.push((place, block)),
            }
        }
        let (places, shown): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        put(&places, self.scored(&shown));
        while let Some((_, first)) = open.first() {
            let decoding = self.decoding(first);
            let (alike, others): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|(_, chat)| self.decoding(chat) == decoding);
            let (places, chats): (Vec<_>, Vec<_>) = alike.into_iter().unzip();
            put(&places, self.said(&chats));
            open = others;
        }
        answers
    }
}
