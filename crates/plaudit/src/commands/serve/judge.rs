//! A vision-language model as a model that is served.
//!
//! A chat is answered in words, as it would be by any other server of the model. Frames of windows are scored by the
//! probabilities of the three labels.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use plaudit_data::convert::window_prompt;
use plaudit_nn::qwen3_vl::{Frames, Inputs, PromptLayout, VlmError};
use plaudit_reward::trend::{
    self, Conversation, Generation, JudgeFolder, LabelLogits, Leaning, LocalVlm, LocalVlmSettings, Trend,
    Utterance, Video,
};
use plaudit_serve::{
    About, Answer, Answered, Chat, FrameBlock, Likely, Model, Part, Picture, Question, Refusal, Role, Said,
    Scores,
};
use serde_json::json;

use super::Wanted;
use crate::build::judge_device;
use crate::failure::Failure;

/// The longest answer, where the client does not say.
const LONGEST: usize = 128;
/// What processors are told of videos.
const FPS: f64 = 24.0;

/// A vision-language model that is served.
pub(super) struct ServedVlm {
    about: About,
    model: LocalVlm,
    /// What windows of frames are about.
    task: Option<String>,
}

/// The model in its folder, which was found where the user said (`path`).
pub(super) fn open(path: &Path, judge: JudgeFolder, wanted: &Wanted) -> Result<Arc<ServedVlm>, Failure> {
    let (device, precision) = judge_device(wanted.gpu, wanted.bf16);
    let settings = LocalVlmSettings {
        folder: &judge.model,
        lora: wanted.lora.as_deref().or(judge.lora.as_deref()),
        device,
        precision,
        frames: Frames::Sampled,
    };
    let model = LocalVlm::open(settings).map_err(|error| {
        Failure::use_of(error, "give the folder of a Qwen3-VL model, and adapters made for it".to_string())
    })?;
    let details = json!({
        "kind": "vision-language model", "task": wanted.task, "label_temperature": model.temperature(),
    });
    let details = details.as_object().cloned().unwrap_or_default();
    let about = About { name: wanted.name_for(path), details };
    Ok(Arc::new(ServedVlm { about, model, task: wanted.task.clone() }))
}

fn refused(error: VlmError) -> Refusal {
    match error {
        VlmError::Input(why) => Refusal::invalid(why),
        other => Refusal::failed(other.to_string()),
    }
}

fn picture(picture: &Picture) -> trend::Picture<'_> {
    trend::Picture { height: picture.height, width: picture.width, pixels: Cow::Borrowed(&picture.pixels) }
}

/// A chat as the model takes it: one question, perhaps with words before it.
fn conversation(chat: &Chat) -> Result<Conversation<'_>, Refusal> {
    let (system, asked) = match chat.turns.as_slice() {
        [asked] => (None, asked),
        [system, asked] if system.role == Role::System => (Some(system), asked),
        _ => return Err(Refusal::invalid("one question at a time, with one system message at most")),
    };
    if asked.role != Role::User {
        return Err(Refusal::invalid("the last message must be the user's"));
    }
    let words = |parts: &[Part]| {
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Picture(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    let parts = asked.parts.iter().map(|part| match part {
        Part::Picture(shown) => trend::Part::Image(picture(shown)),
        Part::Text(text) => trend::Part::Text(text.clone()),
    });
    Ok(Conversation { system: system.map(|turn| words(&turn.parts).into()), parts: parts.collect() })
}

impl ServedVlm {
    /// What it is, in a line.
    pub(super) fn described(&self) -> String {
        let windows = match &self.task {
            Some(task) => format!("; windows of frames are about: {task}"),
            None => "; --task lets it score windows of frames".into(),
        };
        format!("`{}`: a vision-language model{windows}", self.about.name)
    }

    /// Windows, cameras and frames of a block.
    fn windows(&self, block: &FrameBlock) -> Result<[usize; 3], Refusal> {
        if self.task.is_none() {
            return Err(Refusal::invalid("this server was not told the task (--task): ask in a chat"));
        }
        match block.leading.as_slice() {
            [views, frames] => Ok([1, *views, *frames]),
            [windows, views, frames] => Ok([*windows, *views, *frames]),
            _ => Err(Refusal::invalid("send windows of shape N,V,T,H,W,3: windows, cameras, frames")),
        }
    }

    fn generation(&self, chat: &Chat) -> Generation {
        Generation {
            max_new_tokens: chat.max_tokens.unwrap_or(LONGEST).min(LONGEST),
            temperature: chat.temperature.unwrap_or(0.0),
        }
    }

    /// How a chat is answered; chats of one manner go through the network together.
    fn manner(&self, chat: &Chat) -> (Generation, usize) {
        (self.generation(chat), chat.top_logprobs.map_or(0, |top| top.max(1)))
    }

    /// The answers to chats of one manner. A question that cannot be shown spoils nobody else's.
    fn said(&self, chats: &[&Chat]) -> Vec<Answered> {
        let Some((generation, wanted)) = chats.first().map(|chat| self.manner(chat)) else {
            return Vec::new();
        };
        let asked: Result<Vec<_>, _> = chats.iter().map(|chat| conversation(chat)).collect();
        let said = asked.and_then(|asked| self.model.say(&asked, generation, wanted).map_err(refused));
        match said {
            Ok(said) => said.into_iter().zip(chats).map(|(said, chat)| Ok(words(said, chat))).collect(),
            Err(refusal) if chats.len() == 1 => vec![Err(refusal)],
            Err(_) => chats.iter().flat_map(|chat| self.said(&[chat])).collect(),
        }
    }

    /// The questions about the windows of a block.
    fn asked(&self, block: &FrameBlock) -> Result<Vec<Inputs>, Refusal> {
        let [_, views, frames] = self.windows(block)?;
        let (height, width) = (block.height, block.width);
        let pictures: Vec<trend::Picture<'_>> = block
            .pixels
            .chunks_exact(height * width * 3)
            .map(|pixels| trend::Picture { height, width, pixels: Cow::Borrowed(pixels) })
            .collect();
        let task = self.task.as_deref().unwrap_or_default();
        let question = window_prompt(task, frames, views.saturating_sub(1));
        let words_first =
            self.model.card().and_then(|card| card.prompt_layout) == Some(PromptLayout::SharedPrefix);
        let inputs = |window: &[trend::Picture<'_>]| {
            let videos = window.chunks(frames);
            let videos = videos.map(|frames| trend::Part::Video(Video { frames: frames.to_vec(), fps: FPS }));
            let mut parts: Vec<trend::Part<'_>> = videos.collect();
            parts.insert(if words_first { 0 } else { parts.len() }, trend::Part::Text(question.clone()));
            self.model.inputs(&Conversation { system: None, parts }).map_err(refused)
        };
        pictures.chunks(views * frames).map(inputs).collect()
    }

    /// The scores of blocks; their windows go through the network together.
    fn scored(&self, blocks: &[&FrameBlock]) -> Vec<Answered> {
        let asked: Vec<_> = blocks.iter().map(|block| self.asked(block)).collect();
        let all: Vec<Inputs> = asked.iter().flatten().flatten().cloned().collect();
        let logits: Result<Vec<_>, _> =
            all.chunks(self.model.at_once()).map(|some| self.model.label_logits(some)).collect();
        let mut logits = match logits {
            Ok(logits) => logits.into_iter().flatten(),
            Err(error) => return vec![Err(refused(error)); blocks.len()],
        };
        let answer = |asked: Result<Vec<Inputs>, Refusal>| {
            let windows = asked?.len();
            scores(logits.by_ref().take(windows), self.model.temperature())
        };
        asked.into_iter().map(answer).collect()
    }
}

fn words(said: Utterance, chat: &Chat) -> Answer {
    let tokens = chat.top_logprobs.map(|top| {
        let likely = |(token, logprob): &(String, f32)| Likely {
            token: token.clone(),
            logprob: *logprob,
            top: said.first.iter().take(top).cloned().collect(),
        };
        said.first.first().map(likely).into_iter().collect()
    });
    Answer::Said(Said {
        text: said.text,
        tokens,
        prompt_tokens: said.prompt_tokens,
        completion_tokens: said.completion_tokens,
        is_cut: said.is_cut,
    })
}

fn scores(logits: impl Iterator<Item = LabelLogits>, temperature: f64) -> Answered {
    let mut numbers = Vec::new();
    for logits in logits {
        let leaning = Leaning::of(logits, temperature);
        let leaning = leaning.ok_or_else(|| Refusal::failed("the model's weights are broken"))?;
        numbers.extend([leaning.positive, leaning.negative, leaning.unclear]);
    }
    let columns = Trend::LABELS.map(|label| label.word().to_string()).to_vec();
    Ok(Answer::Scores(Scores { columns, numbers, success: None }))
}

impl Model for ServedVlm {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self, question: &Question) -> Result<(), Refusal> {
        match question {
            Question::Chat(chat) => conversation(chat).map(|_| ()),
            Question::Score(block) => self.windows(block).map(|_| ()),
        }
    }

    fn answer(&self, questions: &[Question]) -> Vec<Answered> {
        let mut answers: Vec<Answered> =
            vec![Err(Refusal::failed("the model did not see the request")); questions.len()];
        let mut put = |places: &[usize], given: Vec<Answered>| {
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
            let manner = self.manner(first);
            let (alike, others): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|(_, chat)| self.manner(chat) == manner);
            let (places, chats): (Vec<_>, Vec<_>) = alike.into_iter().unzip();
            put(&places, self.said(&chats));
            open = others;
        }
        answers
    }
}
