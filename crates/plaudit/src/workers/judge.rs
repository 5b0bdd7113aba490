//! A vision-language model that a reward worker has, and the other side of it: questions about windows go there, answers come
//! back.

use std::sync::Arc;

use plaudit_cluster::link::{Payload, Reader, WireError};
use plaudit_cluster::worker::messages::ModelFacts;
use plaudit_cluster::worker::{QuestionAnswerer, ScoreClient};
use plaudit_nn::qwen3_vl::FrameSampling;
use plaudit_reward::RewardModelError;
use plaudit_reward::trend::{
    Answer, AnswerMode, AnswerPlace, ContentPart, Conversation, GenerationConfig, JudgeCard, LabelLogits,
    RgbImage, TrendModel, Video,
};

/// The largest side of an image that is believed.
const MOST_PIXELS: usize = 1 << 16;

/// A vision-language model in a reward worker.
pub(crate) struct WorkerJudge {
    client: Arc<ScoreClient>,
    /// What is known of it.
    pub(crate) card: JudgeCard,
}

impl WorkerJudge {
    /// The worker's model, if it is one that answers questions.
    pub(crate) fn new(client: Arc<ScoreClient>) -> Result<Self, String> {
        let Some(card) = &client.facts().card else {
            return Err("the reward worker scores frames, and answers no questions".into());
        };
        let card =
            serde_json::from_str(card).map_err(|error| format!("the reward worker's card: {error}"))?;
        Ok(Self { client, card })
    }
}

impl TrendModel for WorkerJudge {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        ask: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| RewardModelError::Backend(error);
        let questions = conversations.iter().map(put_conversation).collect();
        let (answers, _) =
            self.client.answers(&put_mode(ask), questions).map_err(|error| failed(Box::new(error)))?;
        let read = |answer: &Vec<u8>| take_answer(answer).map_err(|error| failed(Box::new(error)));
        answers.iter().map(read).collect()
    }
}

/// A vision-language model as a reward worker has it.
pub struct ServedJudge {
    model: Arc<dyn TrendModel>,
    card: String,
}

impl ServedJudge {
    /// A model, and what is known of it.
    pub(crate) fn new(model: Arc<dyn TrendModel>, card: &JudgeCard) -> Result<Self, serde_json::Error> {
        Ok(Self { model, card: serde_json::to_string(card)? })
    }
}

impl QuestionAnswerer for ServedJudge {
    fn facts(&self) -> ModelFacts {
        ModelFacts { card: Some(self.card.clone()), ..ModelFacts::default() }
    }

    fn answers(&self, mode: &[u8], questions: &[&[u8]]) -> Result<(Vec<Vec<u8>>, u64), String> {
        let unread = |error: WireError| error.to_string();
        let mode = take_mode(mode).map_err(unread)?;
        let asked: Vec<Conversation<'_>> = questions
            .iter()
            .map(|question| take_conversation(question).map_err(unread))
            .collect::<Result<_, _>>()?;
        let answers = self.model.answer(&asked, &mode).map_err(|error| error.to_string())?;
        Ok((answers.iter().map(put_answer).collect(), self.model.version()))
    }
}

fn put_mode(mode: &AnswerMode) -> Vec<u8> {
    let mut to = Payload::new(match mode {
        AnswerMode::Labels(_) => 1,
        AnswerMode::Text(_) => 2,
        AnswerMode::Words(_) => 3,
    });
    let GenerationConfig { max_new_tokens, temperature } = mode.generation();
    to.u64(max_new_tokens as u64);
    to.f64(temperature);
    if let AnswerMode::Words(words) = mode {
        to.u64(words.len() as u64);
        words.iter().for_each(|word| to.text(word));
    }
    to.to_vec()
}

fn take_mode(bytes: &[u8]) -> Result<AnswerMode, WireError> {
    let mut from = Reader::new(bytes);
    let kind = from.u8()?;
    let generation = GenerationConfig { max_new_tokens: from.count(1 << 20)?, temperature: from.f64()? };
    let mode = match kind {
        1 => AnswerMode::Labels(generation),
        2 => AnswerMode::Text(generation),
        3 => {
            let words = from.items(1)?;
            let word = |_| Ok::<_, WireError>(from.text()?.to_string());
            AnswerMode::Words((0..words).map(word).collect::<Result<_, _>>()?)
        }
        other => return Err(from.problem(format!("there is no way {other} to answer"))),
    };
    from.finish()?;
    Ok(mode)
}

fn put_conversation(conversation: &Conversation<'_>) -> Vec<u8> {
    let mut to = Payload::new(1);
    to.bool(conversation.system.is_some());
    if let Some(system) = &conversation.system {
        to.text(system);
    }
    to.bool(conversation.answer == AnswerPlace::SameTurn);
    to.u64(conversation.parts.len() as u64);
    for part in &conversation.parts {
        match part {
            ContentPart::Text(text) => {
                to.u8(1);
                to.text(text);
            }
            ContentPart::Image(image) => {
                to.u8(2);
                put_image(&mut to, image);
            }
            ContentPart::Video(video) => {
                to.u8(3);
                to.f64(video.fps);
                to.bool(video.sampling == FrameSampling::All);
                to.u64(video.frames.len() as u64);
                video.frames.iter().for_each(|image| put_image(&mut to, image));
            }
        }
    }
    to.to_vec()
}

fn put_image(to: &mut Payload, image: &RgbImage<'_>) {
    to.u64(image.height as u64);
    to.u64(image.width as u64);
    to.bytes(image.pixels.to_vec());
}

fn take_conversation(bytes: &[u8]) -> Result<Conversation<'_>, WireError> {
    let mut from = Reader::new(bytes);
    if from.u8()? != 1 {
        return Err(from.problem("this is no question"));
    }
    let system = if from.bool()? { Some(from.text()?.into()) } else { None };
    let answer = if from.bool()? { AnswerPlace::SameTurn } else { AnswerPlace::NextTurn };
    let parts = from.items(2)?;
    let parts = (0..parts).map(|_| take_part(&mut from)).collect::<Result<_, _>>()?;
    from.finish()?;
    Ok(Conversation { system, parts, answer })
}

fn take_part<'a>(from: &mut Reader<'a>) -> Result<ContentPart<'a>, WireError> {
    Ok(match from.u8()? {
        1 => ContentPart::Text(from.text()?.to_string()),
        2 => ContentPart::Image(take_image(from)?),
        3 => {
            let fps = from.f64()?;
            let sampling = if from.bool()? { FrameSampling::All } else { FrameSampling::Sampled };
            let frames = from.items(24)?;
            if frames == 0 {
                return Err(from.problem("a video without images"));
            }
            ContentPart::Video(Video {
                frames: (0..frames).map(|_| take_image(from)).collect::<Result<_, _>>()?,
                fps,
                sampling,
            })
        }
        other => return Err(from.problem(format!("there is no part {other} of a question"))),
    })
}

fn take_image<'a>(from: &mut Reader<'a>) -> Result<RgbImage<'a>, WireError> {
    let (height, width) = (from.count(MOST_PIXELS)?, from.count(MOST_PIXELS)?);
    let pixels = from.bytes()?;
    if pixels.len() != height * width * 3 {
        return Err(from.problem(format!("{} bytes are no image of {height}x{width}", pixels.len())));
    }
    Ok(RgbImage { height, width, pixels: pixels.into() })
}

fn put_answer(answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Logits(LabelLogits(logits)) => {
            let mut to = Payload::new(1);
            logits.iter().for_each(|logit| to.f32(*logit));
            to.to_vec()
        }
        Answer::Text(text) => {
            let mut to = Payload::new(2);
            to.text(text);
            to.to_vec()
        }
        Answer::Missing => Payload::new(3).to_vec(),
        Answer::WordLogprobs(logprobs) => {
            let mut to = Payload::new(5);
            to.u64(logprobs.len() as u64);
            logprobs.iter().for_each(|logprob| to.f32(*logprob));
            to.to_vec()
        }
        Answer::NoLabel(text) => {
            let mut to = Payload::new(4);
            to.text(text);
            to.to_vec()
        }
    }
}

fn take_answer(bytes: &[u8]) -> Result<Answer, WireError> {
    let mut from = Reader::new(bytes);
    let answer = match from.u8()? {
        1 => Answer::Logits(LabelLogits([from.f32()?, from.f32()?, from.f32()?])),
        2 => Answer::Text(from.text()?.to_string()),
        3 => Answer::Missing,
        4 => Answer::NoLabel(from.text()?.to_string()),
        5 => {
            let count = from.items(4)?;
            Answer::WordLogprobs((0..count).map(|_| from.f32()).collect::<Result<_, _>>()?)
        }
        other => return Err(from.problem(format!("there is no answer of kind {other}"))),
    };
    from.finish()?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(value: u8) -> RgbImage<'static> {
        RgbImage { height: 2, width: 1, pixels: vec![value; 6].into() }
    }

    #[test]
    fn what_is_asked_and_answered_arrives_as_it_was() {
        let video = Video { frames: vec![image(1), image(2)], fps: 2.5, sampling: FrameSampling::All };
        for system in [None, Some("You judge.".into())] {
            let parts = vec![
                ContentPart::Text("Is it better?".into()),
                ContentPart::Video(video.clone()),
                ContentPart::Image(image(9)),
            ];
            let conversation = Conversation { system, parts, answer: AnswerPlace::SameTurn };
            assert_eq!(take_conversation(&put_conversation(&conversation)), Ok(conversation));
        }
        for answer in [
            Answer::Logits(LabelLogits([1.0, f32::NEG_INFINITY, -0.0])),
            Answer::Text("positive".into()),
            Answer::NoLabel("perhaps".into()),
            Answer::WordLogprobs(vec![-0.5, -2.0]),
            Answer::Missing,
        ] {
            assert_eq!(take_answer(&put_answer(&answer)), Ok(answer));
        }
        let generation = GenerationConfig { max_new_tokens: 7, temperature: 0.25 };
        let words = AnswerMode::Words(["yes".to_string(), "no".to_string()].into());
        for mode in [AnswerMode::Labels(generation), AnswerMode::Text(generation), words] {
            assert_eq!(take_mode(&put_mode(&mode)), Ok(mode));
        }
    }

    #[test]
    fn what_is_none_is_refused_without_harm() {
        let question = put_conversation(&Conversation {
            system: None,
            parts: vec![ContentPart::Video(Video {
                frames: vec![image(1)],
                fps: 1.0,
                sampling: FrameSampling::Sampled,
            })],
            answer: AnswerPlace::NextTurn,
        });
        for cut in 0..question.len() {
            assert!(take_conversation(&question[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..question.len() {
            for value in [0, 1, 255] {
                let mut changed = question.clone();
                changed[at] = value;
                let _ = take_conversation(&changed); // an error or another question, and no panic
            }
        }
    }
}
