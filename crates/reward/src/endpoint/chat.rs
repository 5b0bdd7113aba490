//! A vision-language model on a server that speaks the OpenAI chat protocol. Every window is a request of its own.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::Value;

use super::connection::Connection;
use super::error::{EndpointError, RequestError};
use super::frames::IMAGE_CLASSIFIER;
use super::request::{ImageParts, RequestBody};
use super::{EndpointCallbacks, EndpointSettings, OnFailure, reply};
use crate::models::RewardModelError;
use crate::trend::{
    Answer, AnswerMode, AnswerPlace, ContentPart, Conversation, GenerationConfig, JudgeCard, RgbImage, Trend,
    TrendModel,
};

/// What `plaudit serve` calls a vision-language model in its list of models, under `kind`.
pub const VISION_LANGUAGE_MODEL: &str = "vision-language model";

/// Side of the image that a server is probed with.
const PROBE_SIDE: usize = 64;

/// How labels are read from a server's answers. This is decided once: probabilities and words are different rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelReadout {
    /// From their logits, which `plaudit serve` tells.
    Logits,
    /// From the log-probabilities of likely tokens.
    Logprobs,
    /// From words.
    Words,
}

/// What is wanted of one answer, and how it will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    /// Words.
    Text,
    /// The labels.
    Labels(LabelReadout),
    /// How likely words are, which `plaudit serve` tells.
    ToldWords(&'a [String]),
    /// How likely words are, among the likely tokens.
    LikelyWords(&'a [String]),
}

/// A vision-language model on a server.
pub struct ChatEndpoint {
    connection: Connection,
    /// What a judge behind `plaudit serve` says about itself; not set: it is another server.
    card: Option<JudgeCard>,
    readout: OnceLock<LabelReadout>,
}

impl ChatEndpoint {
    /// Asks the server which models it has.
    ///
    /// # Errors
    /// When it is not there, or has no model of that name.
    pub fn open(settings: EndpointSettings, callbacks: EndpointCallbacks) -> Result<Self, EndpointError> {
        Connection::open(settings, callbacks).map(Self::over)
    }

    /// The model of a connection.
    pub(super) fn over(connection: Connection) -> Self {
        let details = &connection.model.details;
        let is_judge = details.get("kind").and_then(Value::as_str) == Some(VISION_LANGUAGE_MODEL);
        let card = details.get("judge").cloned().and_then(|card| serde_json::from_value(card).ok());
        let card = card.filter(|_| is_judge);
        Self { connection, card, readout: OnceLock::new() }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &str {
        self.connection.base()
    }

    /// What the judge says about itself, if it is behind `plaudit serve`.
    #[must_use]
    pub fn card(&self) -> Option<&JudgeCard> {
        self.card.as_ref()
    }

    /// How labels are read from this server, from the first question to the last. Unless the server says so itself, it is
    /// asked a question that is not rewarded.
    ///
    /// # Errors
    /// When it does not answer, or refuses a question with images.
    pub fn label_readout(&self) -> Result<LabelReadout, EndpointError> {
        if let Some(decided) = self.readout.get() {
            return Ok(*decided);
        }
        let kind = self.connection.model.details.get("kind").and_then(Value::as_str);
        let decided = match kind {
            _ if self.card.is_some() => LabelReadout::Logits,
            Some(IMAGE_CLASSIFIER) => self.words_alone("an image classifier answers in words"),
            _ => self.probe()?,
        };
        Ok(*self.readout.get_or_init(|| decided))
    }

    /// Decides how answers of a kind are read, from the first question to the last.
    ///
    /// # Errors
    /// When the server does not tell what they are to be read from.
    pub fn decide(&self, ask: &AnswerMode) -> Result<(), EndpointError> {
        self.wanted(ask).map(drop)
    }

    /// What is wanted of each answer.
    fn wanted<'a>(&self, ask: &'a AnswerMode) -> Result<Wanted<'a>, EndpointError> {
        let words = match ask {
            AnswerMode::Labels(_) => return self.label_readout().map(Wanted::Labels),
            AnswerMode::Text(_) => return Ok(Wanted::Text),
            AnswerMode::Words(words) => words,
        };
        match self.label_readout()? {
            LabelReadout::Logits => Ok(Wanted::ToldWords(words)),
            LabelReadout::Logprobs => match reply::word_that_begins_another(words) {
                Some((word, longer)) => {
                    let [base, word, longer] = [self.connection.base(), word, longer].map(String::from);
                    Err(EndpointError::WordsAlike { base, word, longer })
                }
                None => Ok(Wanted::LikelyWords(words)),
            },
            LabelReadout::Words => Err(EndpointError::NoLogprobs { base: self.connection.base().into() }),
        }
    }

    /// Whether the server tells log-probabilities.
    fn probe(&self) -> Result<LabelReadout, EndpointError> {
        let pixels = Cow::Owned(vec![127; PROBE_SIDE * PROBE_SIDE * 3]);
        let image = RgbImage { height: PROBE_SIDE, width: PROBE_SIDE, pixels };
        let words = Trend::LABELS.map(Trend::word).join(", ");
        let parts = vec![
            ContentPart::Image(image),
            ContentPart::Text(format!("Answer with exactly one word: {words}.")),
        ];
        let asked = Conversation { system: None, parts, answer: AnswerPlace::NextTurn };
        let generation = GenerationConfig { max_new_tokens: 4, temperature: 0.0 };
        let refusal = match self.connection.retry(|| {
            match self.post(&asked, generation, Wanted::Labels(LabelReadout::Logprobs)) {
                Err(failure) if failure.is_refusal() => Ok(Err(failure.to_string())),
                other => other.map(Ok),
            }
        })? {
            Ok(body) if reply::has_logprobs(&body) => return Ok(LabelReadout::Logprobs),
            Ok(_) => "it answers without them".to_string(),
            Err(refusal) => refusal,
        };
        // Refused with logprobs, it must at least answer without them.
        self.connection.retry(|| self.post(&asked, generation, Wanted::Text).map(drop))?;
        Ok(self.words_alone(&refusal))
    }

    fn words_alone(&self, why: &str) -> LabelReadout {
        let base = self.connection.base();
        (self.connection.callbacks.notify)(&format!(
            "{base} tells no logprobs ({why}): its words are read instead, in the whole run"
        ));
        LabelReadout::Words
    }

    /// The answer to one question, however long that takes.
    fn ask(
        &self,
        conversation: &Conversation<'_>,
        generation: GenerationConfig,
        wanted: Wanted<'_>,
    ) -> Result<Answer, EndpointError> {
        let once = || {
            let body = self.post(conversation, generation, wanted)?;
            reply::answer(&body, wanted).map_err(RequestError::Malformed)
        };
        match self.connection.retry(once) {
            Err(EndpointError::Unanswered { .. })
                if self.connection.settings.on_failure == OnFailure::Skip =>
            {
                Ok(Answer::Missing)
            }
            answer => answer,
        }
    }

    fn post(
        &self,
        conversation: &Conversation<'_>,
        generation: GenerationConfig,
        wanted: Wanted<'_>,
    ) -> Result<Vec<u8>, RequestError> {
        let Connection { settings, model, .. } = &self.connection;
        let images = if self.card.is_some() { ImageParts::Videos } else { ImageParts::Images };
        let body = RequestBody {
            conversation,
            model: &model.name,
            sampling_params: &settings.sampling_params,
            generation,
            wanted,
            images,
        };
        let json = [("Content-Type", "application/json")];
        self.connection.post("/v1/chat/completions", &json, &body.bytes())
    }

    /// One empty answer is an invalid one; nothing but empty answers is a server that is set up wrongly.
    fn refuse_empty_answers(&self, answers: &[Answer]) -> Result<(), RewardModelError> {
        let is_empty = |answer: &Answer| match answer {
            Answer::Text(text) | Answer::NoLabel(text) => text.trim().is_empty(),
            Answer::Logits(_) | Answer::WordLogprobs(_) | Answer::Missing => false,
        };
        if answers.is_empty() || !answers.iter().all(is_empty) {
            return Ok(());
        }
        let (base, count) = (self.connection.base().into(), answers.len());
        Err(EndpointError::EmptyAnswers { base, count }.into())
    }
}

impl TrendModel for ChatEndpoint {
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        ask: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError> {
        let wanted = self.wanted(ask)?;
        let one = |asked: &Conversation<'_>| self.ask(asked, ask.generation(), wanted);
        let answers = self.connection.in_parallel(conversations, one)?;
        self.refuse_empty_answers(&answers)?;
        if self.card.is_some() && !conversations.is_empty() {
            self.connection.check_unchanged()?;
        }
        Ok(answers)
    }
}
