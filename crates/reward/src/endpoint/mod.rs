//! A vision-language model on a server that speaks the OpenAI chat protocol: vLLM, SGLang, `plaudit serve`.
//!
//! Every window is a request of its own; several are under way at once. A server that is away is waited for, since a rollout
//! is too dear to be lost: it is asked again after growing pauses until it has been away for too long. Then, as the user
//! chose, the run stops, or the window goes unpaid.

mod error;
mod patience;
mod reply;
mod request;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

pub use error::EndpointError;

use self::error::Trouble;
use self::patience::Patience;
use crate::judge::JudgeError;
use crate::trend::{Answer, Ask, Conversation, TrendModel};

/// The largest reply that is read; one of a few words is some hundred bytes.
const LARGEST_REPLY: u64 = 4 << 20;
/// How long a server may take to say which models it has.
const GREETING: Duration = Duration::from_secs(10);

/// Where the server is, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointSettings {
    /// Its address, with or without `/v1`.
    pub api_base: String,
    /// The model's name there.
    pub model: String,
    /// What proves that we may ask.
    pub api_key: Option<String>,
    /// Sent along with every request.
    pub sampling_params: Map<String, Value>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How long a server that is away is waited for.
    pub give_up: Duration,
    /// Requests under way at once.
    pub concurrency: NonZeroUsize,
    /// What happens with a window that gets no answer.
    pub on_failure: OnFailure,
}

/// What happens with a window that gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing is paid for anything: the run stops.
    Stop,
    /// It counts as a step without a window.
    Skip,
}

/// Who hears of a server that is away, and says when nobody wants to wait any more.
#[derive(Clone)]
pub struct Attendant {
    /// Hears what is worth telling the user.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Says whether to give up at once.
    pub stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Attendant {
    /// Hears nothing, and waits as long as it takes.
    #[must_use]
    pub fn silent() -> Self {
        Self { tell: Arc::new(|_| ()), stop: Arc::new(|| false) }
    }
}

/// A server that has a model.
pub struct Endpoint {
    agent: ureq::Agent,
    /// The address up to and without `/v1`.
    base: String,
    settings: EndpointSettings,
    attendant: Attendant,
    /// The server does not tell how likely tokens are.
    words_only: AtomicBool,
    /// It was said that the server is away.
    is_away: AtomicBool,
}

impl Endpoint {
    /// Asks the server which models it has.
    ///
    /// # Errors
    /// When it is not there, or has no model of that name.
    pub fn open(settings: EndpointSettings, attendant: Attendant) -> Result<Self, EndpointError> {
        let base = base_of(&settings.api_base)?;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections_per_host(settings.concurrency.get())
            .proxy(None) // servers stand beside the robot, and the user's environment is not read here
            .user_agent(concat!("plaudit/", env!("CARGO_PKG_VERSION")))
            .build();
        let endpoint = Self {
            agent: config.into(),
            base,
            settings,
            attendant,
            words_only: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
        };
        endpoint.greet()?;
        Ok(endpoint)
    }

    /// Whether the server is there and has the model. One that does not list its models is believed.
    fn greet(&self) -> Result<(), EndpointError> {
        let timeout = Some(GREETING.min(self.settings.timeout));
        let request = self.agent.get(format!("{}/v1/models", self.base));
        let request = self.authorized(request).config().timeout_global(timeout).build();
        let reply = request.call().map_err(|error| self.away(&Trouble::from(error)))?;
        let (status, body) = read(reply).map_err(|trouble| self.away(&trouble))?;
        match status {
            200 => {
                let names = reply::model_names(&body);
                if names.is_empty() || names.contains(&self.settings.model) {
                    return Ok(());
                }
                let (base, model) = (self.base.clone(), self.settings.model.clone());
                Err(EndpointError::Model { base, model, names: names.join(", ") })
            }
            401 | 403 => Err(EndpointError::Access { base: self.base.clone() }),
            _ => Ok(()),
        }
    }

    fn away(&self, trouble: &Trouble) -> EndpointError {
        EndpointError::Away { base: self.base.clone(), why: trouble.to_string() }
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.settings.api_key {
            Some(key) => request.header("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// The answer to one question, however long that takes.
    fn ask(&self, conversation: &Conversation<'_>, ask: &Ask) -> Result<Answer, EndpointError> {
        let mut patience = Patience::new(self.settings.give_up);
        loop {
            let labels = matches!(ask, Ask::Labels(_)) && !self.words_only.load(Ordering::Relaxed);
            let trouble = match self.ask_once(conversation, ask, labels) {
                Ok(answer) => {
                    self.is_back(&patience);
                    return Ok(answer);
                }
                Err(trouble) => trouble,
            };
            if labels && trouble.is_refusal() {
                self.do_without_logprobs(&trouble);
                continue;
            }
            let Some(pause) = patience.after(&trouble) else {
                return self.unanswered(&trouble, &patience);
            };
            self.is_gone(&trouble);
            if !patience::sleep(pause, &*self.attendant.stop) {
                return Err(EndpointError::Stopped { base: self.base.clone(), why: trouble.to_string() });
            }
        }
    }

    fn ask_once(&self, conversation: &Conversation<'_>, ask: &Ask, labels: bool) -> Result<Answer, Trouble> {
        let body = request::body(conversation, &self.settings, ask.generation(), labels);
        let request = self.agent.post(format!("{}/v1/chat/completions", self.base));
        let request = self.authorized(request).header("Content-Type", "application/json");
        let reply = request.send(&body)?;
        let pause = retry_after(&reply);
        match read(reply)? {
            (200, body) => reply::answer(&body, labels).map_err(Trouble::Garbled),
            (status, body) => Err(Trouble::Status { status, message: reply::error_message(&body), pause }),
        }
    }

    /// A server that refuses a request with `logprobs` may take one without.
    fn do_without_logprobs(&self, trouble: &Trouble) {
        if !self.words_only.swap(true, Ordering::Relaxed) {
            let base = &self.base;
            (self.attendant.tell)(&format!(
                "{base} does not take requests for logprobs ({trouble}): its words are read instead"
            ));
        }
    }

    fn is_gone(&self, trouble: &Trouble) {
        if !self.is_away.swap(true, Ordering::Relaxed) {
            let (base, secs) = (&self.base, self.settings.give_up.as_secs());
            (self.attendant.tell)(&format!(
                "the reward server at {base} does not answer ({trouble}); trying again for up to {secs} s"
            ));
        }
    }

    fn is_back(&self, patience: &Patience) {
        if patience.was_tried() && self.is_away.swap(false, Ordering::Relaxed) {
            (self.attendant.tell)(&format!("the reward server at {} answers again", self.base));
        }
    }

    fn unanswered(&self, trouble: &Trouble, patience: &Patience) -> Result<Answer, EndpointError> {
        match self.settings.on_failure {
            OnFailure::Skip => Ok(Answer::Missing),
            OnFailure::Stop => Err(EndpointError::Unanswered {
                base: self.base.clone(),
                why: trouble.to_string(),
                tries: patience.tries(),
                secs: patience.waited().as_secs(),
            }),
        }
    }
}

impl TrendModel for Endpoint {
    fn answer(&self, conversations: &[Conversation<'_>], ask: &Ask) -> Result<Vec<Answer>, JudgeError> {
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<EndpointError>> = Mutex::new(None);
        let answers: Mutex<Vec<Option<Answer>>> = Mutex::new(vec![None; conversations.len()]);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(conversation) = conversations.get(at) else { return };
                match self.ask(conversation, ask) {
                    Ok(answer) => answers.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(answer),
                    Err(error) => {
                        next.store(conversations.len(), Ordering::Relaxed); // nobody starts another
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.settings.concurrency.get().min(conversations.len()) {
                scope.spawn(work);
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(JudgeError::Backend(Box::new(error)));
        }
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answers: Vec<Answer> = answers.into_iter().flatten().collect();
        self.refuse_silence(&answers)?;
        Ok(answers)
    }
}

impl Endpoint {
    /// One empty answer is an invalid one; nothing but empty answers is a server that is set up wrongly.
    fn refuse_silence(&self, answers: &[Answer]) -> Result<(), JudgeError> {
        let is_empty = |answer: &Answer| matches!(answer, Answer::Text(text) if text.trim().is_empty());
        if answers.is_empty() || !answers.iter().all(is_empty) {
            return Ok(());
        }
        let (base, count) = (self.base.clone(), answers.len());
        Err(JudgeError::Backend(Box::new(EndpointError::Silence { base, count })))
    }
}

/// The address without a trailing `/` and `/v1`.
fn base_of(address: &str) -> Result<String, EndpointError> {
    let base = address.trim().trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/');
    let wrong = |why: &str| EndpointError::Address { address: address.into(), why: why.into() };
    match base.split_once("://") {
        Some(("http", host)) if !host.is_empty() => {}
        Some(("https", host)) if !host.is_empty() => {
            if cfg!(not(feature = "tls")) {
                return Err(wrong(
                    "this build speaks plain http; build with `--features tls`, or put a proxy in front",
                ));
            }
        }
        _ => return Err(wrong("write it as http://127.0.0.1:8000")),
    }
    Ok(base.into())
}

fn read(mut reply: ureq::http::Response<ureq::Body>) -> Result<(u16, Vec<u8>), Trouble> {
    let status = reply.status().as_u16();
    let body = reply.body_mut().with_config().limit(LARGEST_REPLY).read_to_vec()?;
    Ok((status, body))
}

/// How long the server asks to be left alone.
fn retry_after(reply: &ureq::http::Response<ureq::Body>) -> Option<Duration> {
    let seconds = reply.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
