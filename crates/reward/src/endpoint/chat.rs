//! A vision-language model on a server that speaks the OpenAI chat protocol. Every window is a request of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use super::connection::Connection;
use super::error::{EndpointError, RequestError};
use super::{EndpointCallbacks, EndpointSettings, OnFailure, reply, request};
use crate::models::RewardModelError;
use crate::trend::{Answer, AnswerMode, Conversation, TrendModel};

/// A vision-language model on a server.
pub struct ChatEndpoint {
    connection: Connection,
    /// The server gives no logprobs.
    no_logprobs: AtomicBool,
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
        Self { connection, no_logprobs: AtomicBool::new(false) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &str {
        self.connection.base()
    }

    /// The answer to one question, however long that takes.
    fn ask(&self, conversation: &Conversation<'_>, ask: &AnswerMode) -> Result<Answer, EndpointError> {
        match self.connection.retry(|| self.ask_once(conversation, ask)) {
            Err(EndpointError::Unanswered { .. })
                if self.connection.settings.on_failure == OnFailure::Skip =>
            {
                Ok(Answer::Missing)
            }
            answer => answer,
        }
    }

    fn ask_once(&self, conversation: &Conversation<'_>, ask: &AnswerMode) -> Result<Answer, RequestError> {
        let labels = matches!(ask, AnswerMode::Labels(_)) && !self.no_logprobs.load(Ordering::Relaxed);
        match self.post(conversation, ask, labels) {
            Err(failure) if labels && failure.is_refusal() => {
                self.do_without_logprobs(&failure);
                self.post(conversation, ask, false)
            }
            answer => answer,
        }
    }

    fn post(
        &self,
        conversation: &Conversation<'_>,
        ask: &AnswerMode,
        labels: bool,
    ) -> Result<Answer, RequestError> {
        let Connection { settings, model, .. } = &self.connection;
        let body =
            request::body(conversation, &model.name, &settings.sampling_params, ask.generation(), labels);
        let json = [("Content-Type", "application/json")];
        let reply = self.connection.post("/v1/chat/completions", &json, body.as_ref())?;
        reply::answer(&reply, labels).map_err(RequestError::Malformed)
    }

    /// A server that refuses a request with `logprobs` may take one without.
    fn do_without_logprobs(&self, failure: &RequestError) {
        if !self.no_logprobs.swap(true, Ordering::Relaxed) {
            let base = self.connection.base();
            (self.connection.callbacks.notify)(&format!(
                "{base} does not take requests for logprobs ({failure}): its words are read instead"
            ));
        }
    }

    /// One empty answer is an invalid one; nothing but empty answers is a server that is set up wrongly.
    fn refuse_empty_answers(&self, answers: &[Answer]) -> Result<(), RewardModelError> {
        let is_empty = |answer: &Answer| matches!(answer, Answer::Text(text) if text.trim().is_empty());
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
        let answers = self.connection.in_parallel(conversations, |asked| self.ask(asked, ask))?;
        self.refuse_empty_answers(&answers)?;
        Ok(answers)
    }
}
