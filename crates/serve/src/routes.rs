//! What is at which address: requests become questions, and answers replies.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::body::{self, ReplyBody};
use crate::chat;
use crate::chat_options::Delivery;
use crate::error::ApiError;
use crate::limits::{Batching, Limits};
use crate::memory::{MemoryBudget, Reservation};
use crate::metrics::Metrics;
use crate::model::{Answer, AnswerResult, Cost, Model, Question, TextPiece};
use crate::queue::Queue;
use crate::reply::{self, CompletionId, EventStream};
use crate::score;

/// The header with the shape of frames, and of scores.
const SHAPE: &str = "x-plaudit-shape";
/// The header with the name of the model that frames are for.
const MODEL: &str = "x-plaudit-model";

/// A model, and the questions that wait for it.
struct Served {
    model: Arc<dyn Model>,
    queue: Queue,
}

impl Served {
    fn name(&self) -> &str {
        &self.model.info().name
    }
}

/// What every connection needs.
pub(crate) struct Service {
    /// Never none.
    models: Vec<Served>,
    token: Option<String>,
    limits: Limits,
    metrics: Arc<Metrics>,
    memory: Arc<MemoryBudget>,
    answers: AtomicU64,
    is_closing: AtomicBool,
    /// Questions that came and are not answered yet.
    under_way: Arc<AtomicUsize>,
}

type Reply = Response<ReplyBody>;

/// The routes there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Health,
    Metrics,
    Models,
    Model,
    Chat,
    Score,
}

/// Where one model is described.
const ONE_MODEL: &str = "/v1/models/";

impl Route {
    fn of(path: &str) -> Option<Self> {
        match path.strip_suffix('/').unwrap_or(path) {
            "/healthz" | "/health" => Some(Self::Health),
            "/metrics" => Some(Self::Metrics),
            "/v1/models" => Some(Self::Models),
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/score" => Some(Self::Score),
            other if other.starts_with(ONE_MODEL) => Some(Self::Model),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Health => "/healthz",
            Self::Metrics => "/metrics",
            Self::Models | Self::Model => "/v1/models",
            Self::Chat => "/v1/chat/completions",
            Self::Score => "/v1/score",
        }
    }

    /// What is asked of the model, and not of the server.
    fn is_question(self) -> bool {
        self.allowed() == "POST"
    }

    fn allowed(self) -> &'static str {
        match self {
            Self::Health | Self::Metrics | Self::Models | Self::Model => "GET, HEAD",
            Self::Chat | Self::Score => "POST",
        }
    }

    fn takes(self, method: &Method) -> bool {
        match self.is_question() {
            true => method == Method::POST,
            false => method == Method::GET || method == Method::HEAD,
        }
    }
}

/// A question on its way; dropped before it is finished, its client has left.
struct UnderWay {
    count: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
    route: &'static str,
    is_finished: bool,
}

impl UnderWay {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        if !self.is_finished {
            self.metrics.cancelled(self.route);
        }
    }
}

impl Service {
    pub(crate) fn new(models: Vec<Arc<dyn Model>>, token: Option<String>, limits: Limits) -> Self {
        let metrics = Arc::new(Metrics::default());
        let served = |model| Served { model, queue: Queue::new(limits.queue, metrics.clone()) };
        Self {
            models: models.into_iter().map(served).collect(),
            token,
            limits,
            metrics,
            memory: MemoryBudget::new(limits.memory_bytes),
            answers: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            under_way: Arc::default(),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Answers the questions of one model, on its thread.
    pub(crate) fn work(&self, number: usize, batching: Batching) {
        let Served { model, queue } = &self.models[number];
        queue.work(&**model, batching);
    }

    pub(crate) fn count_connection(&self) {
        self.metrics.connected();
    }

    /// New questions are refused from here on. How many are under way.
    pub(crate) fn close(&self) -> usize {
        self.is_closing.store(true, Ordering::SeqCst);
        self.under_way()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// Questions that still wait get no answer.
    pub(crate) fn abandon(&self) {
        self.models.iter().for_each(|served| served.queue.abandon());
    }

    pub(crate) async fn reply_to(&self, request: Request<Incoming>, client: IpAddr) -> Reply {
        let began = Instant::now();
        let route = Route::of(request.uri().path());
        let is_head = request.method() == Method::HEAD;
        let mut under_way = self.begin(route);
        let mut reply = match self.answer(route, request, client, &mut under_way).await {
            Ok(reply) => reply,
            Err(error) => error_response(&error, route),
        };
        // An answer that is still being sent has taken it along.
        if let Some(under_way) = under_way {
            under_way.finish();
        }
        if is_head {
            *reply.body_mut() = Vec::new().into();
        }
        self.metrics.request(route.map_or("other", Route::name), reply.status().as_u16(), began.elapsed());
        reply
    }

    fn begin(&self, route: Option<Route>) -> Option<UnderWay> {
        let route = route.filter(|route| route.is_question())?.name();
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let (count, metrics) = (self.under_way.clone(), self.metrics.clone());
        Some(UnderWay { count, metrics, route, is_finished: false })
    }

    async fn answer(
        &self,
        route: Option<Route>,
        request: Request<Incoming>,
        client: IpAddr,
        under_way: &mut Option<UnderWay>,
    ) -> Result<Reply, ApiError> {
        match self.allow(route, &request)? {
            Route::Health => self.health(),
            Route::Metrics => Ok(text("text/plain; version=0.0.4", self.metrics.page())),
            Route::Models => {
                let infos = self.models.iter().map(|served| served.model.info());
                Ok(text(JSON, reply::models(infos)))
            }
            Route::Model => self.one_model(request.uri().path()),
            Route::Chat => self.chat(request, client, under_way).await,
            Route::Score => self.score(request, client).await,
        }
    }

    fn allow(&self, route: Option<Route>, request: &Request<Incoming>) -> Result<Route, ApiError> {
        if route != Some(Route::Health) {
            self.authorize(request.headers())?;
        }
        let route = route.ok_or_else(|| ApiError::not_found(&shortened(request.uri().path())))?;
        if !route.takes(request.method()) {
            return Err(ApiError::method_not_allowed(route.allowed()));
        }
        if route.is_question() && self.is_closing.load(Ordering::SeqCst) {
            return Err(ApiError::shutting_down());
        }
        Ok(route)
    }

    fn health(&self) -> Result<Reply, ApiError> {
        if self.is_closing.load(Ordering::SeqCst) {
            return Err(ApiError::shutting_down());
        }
        let names: Vec<&str> = self.models.iter().map(Served::name).collect();
        Ok(text(JSON, serde_json::json!({"status": "ok", "model": names[0], "models": names}).to_string()))
    }

    fn one_model(&self, path: &str) -> Result<Reply, ApiError> {
        let asked = percent_decoded(path.strip_prefix(ONE_MODEL).unwrap_or_default());
        Ok(text(JSON, reply::model(self.named(&asked)?.model.info())))
    }

    fn named(&self, asked: &str) -> Result<&Served, ApiError> {
        let found = self.models.iter().find(|served| served.name() == asked);
        found.ok_or_else(|| ApiError::model_not_found(&shortened(asked), &self.names()))
    }

    /// The model that a request of frames names; it may leave that out where there is one.
    fn named_by(&self, request: &Request<Incoming>) -> Result<&Served, ApiError> {
        match (setting(request, MODEL, "model"), self.models.as_slice()) {
            (Some(name), _) => self.named(&name),
            (None, [only]) => Ok(only),
            (None, _) => {
                let names = self.names();
                Err(ApiError::invalid(format!("several models are here, name one: X-Plaudit-Model: {names}")))
            }
        }
    }

    fn names(&self) -> String {
        self.models.iter().map(Served::name).collect::<Vec<_>>().join(", ")
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(token) = &self.token else { return Ok(()) };
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
        let shown = shown.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match shown {
            Some((_, shown)) if constant_time_eq(shown.trim().as_bytes(), token.as_bytes()) => Ok(()),
            _ => Err(ApiError::unauthorized()),
        }
    }

    async fn chat(
        &self,
        request: Request<Incoming>,
        client: IpAddr,
        under_way: &mut Option<UnderWay>,
    ) -> Result<Reply, ApiError> {
        check_content_type(request.headers(), "application/json")?;
        let mut memory = self.memory.request(client);
        let body = body::receive(request, &self.limits, &mut memory).await?;
        // Parsed, the text and the encoded images are there a second time.
        memory.grow(body.len())?;
        let limits = self.limits;
        let chat_request = run_blocking(move || chat::parse(&body, &limits)).await?;
        let served = self.named(&chat_request.model)?;
        let delivery = chat_request.delivery;
        memory.grow(chat_request.decoded_bytes())?;
        let chat = run_blocking(move || chat_request.decode()).await?;
        let choices = chat.options.choices;
        let (question, cost) = self.price(served, Question::Chat(chat)).await?;
        match delivery {
            Delivery::Whole => match self.wait_for(served.queue.put(question, cost, None)?).await? {
                Answer::Chat(answer) => {
                    let id = self.completion_id();
                    Ok(text(JSON, reply::completion(&answer, served.name(), id)))
                }
                Answer::Scores(_) => Err(scores_to_chat()),
            },
            Delivery::Stream { counts_tokens } => {
                let (pieces, arriving) = mpsc::unbounded_channel();
                let answer = served.queue.put(question, cost, Some(pieces))?;
                let model = served.name().to_string();
                let stream = EventStream { model, id: self.completion_id(), counts_tokens };
                let sending = Sending {
                    stream,
                    choices,
                    arriving,
                    answer,
                    limits: self.limits,
                    under_way: under_way.take(),
                    memory,
                };
                Ok(sending.start())
            }
        }
    }

    async fn score(&self, request: Request<Incoming>, client: IpAddr) -> Result<Reply, ApiError> {
        check_content_type(request.headers(), "application/octet-stream")?;
        let shape = shape_of(&request)?;
        let served = self.named_by(&request)?;
        let accepted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
        let wants_bytes = accepted.is_some_and(|kinds| kinds.contains("application/octet-stream"));
        let mut memory = self.memory.request(client);
        let body = body::receive(request, &self.limits, &mut memory).await?;
        let block = score::parse(&shape, body, &self.limits)?;
        let (question, cost) = self.price(served, Question::Score(block)).await?;
        match self.wait_for(served.queue.put(question, cost, None)?).await? {
            Answer::Scores(scores) if wants_bytes => {
                let (width, numbers) = (scores.columns.len().max(1), scores.numbers.len());
                let mut reply = bytes("application/octet-stream", reply::score_bytes(&scores));
                let shape =
                    if width == 1 { numbers.to_string() } else { format!("{},{width}", numbers / width) };
                if let Ok(shape) = HeaderValue::from_str(&shape) {
                    reply.headers_mut().insert(SHAPE, shape);
                }
                Ok(reply)
            }
            Answer::Scores(scores) => Ok(text(JSON, reply::scores(&scores, served.name()))),
            Answer::Chat(_) => Err(ApiError::failed("the model answered a score request with a chat")),
        }
    }

    /// What a question costs, which must be within the limits.
    async fn price(&self, served: &Served, question: Question) -> Result<(Question, Cost), ApiError> {
        let (model, most) = (served.model.clone(), self.limits.work_bytes);
        run_blocking(move || {
            let cost = model.cost(&question)?;
            if cost.bytes > most {
                let need = cost.bytes.div_ceil(1 << 20);
                return Err(ApiError::too_large(format!(
                    "the model would need about {need} MiB of memory for this request, where {} MiB are allowed",
                    most >> 20
                )));
            }
            Ok((question, cost))
        })
        .await
    }

    async fn wait_for(&self, answer: oneshot::Receiver<AnswerResult>) -> AnswerResult {
        match timeout(self.limits.answer_time, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(ApiError::failed("the model is gone")),
            Err(_) => Err(ApiError::answer_timeout()),
        }
    }

    fn completion_id(&self) -> CompletionId {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        CompletionId { seconds, number: self.answers.fetch_add(1, Ordering::Relaxed) }
    }
}

/// An answer that is sent while it is found.
struct Sending {
    stream: EventStream,
    choices: usize,
    arriving: mpsc::UnboundedReceiver<(usize, TextPiece)>,
    answer: oneshot::Receiver<AnswerResult>,
    limits: Limits,
    under_way: Option<UnderWay>,
    /// What the request holds until it is answered.
    memory: Reservation,
}

impl Sending {
    fn start(self) -> Reply {
        let (events, body) = mpsc::unbounded_channel();
        let time = self.limits.answer_time;
        tokio::spawn(async move {
            let Self { stream, choices, mut arriving, answer, mut under_way, memory, .. } = self;
            let send = |text: String| events.send(Bytes::from(text)).is_ok();
            let sent = async {
                for choice in 0..choices {
                    send(stream.begins(choice));
                }
                while let Some((choice, piece)) = arriving.recv().await {
                    if !send(stream.piece(choice, &piece)) {
                        return false; // whoever read along has left
                    }
                }
                send(match answer.await {
                    Ok(Ok(Answer::Chat(answer))) => stream.ends(&answer),
                    Ok(Ok(Answer::Scores(_))) => stream.fails(&scores_to_chat()),
                    Ok(Err(error)) => stream.fails(&error),
                    Err(_) => stream.fails(&ApiError::failed("the model is gone")),
                })
            };
            let is_whole =
                timeout(time, sent).await.unwrap_or_else(|_| send(stream.fails(&ApiError::answer_timeout())));
            if let Some(under_way) = under_way.take().filter(|_| is_whole) {
                under_way.finish();
            }
            drop(memory);
        });
        let mut reply = Response::new(ReplyBody::Events(body));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        reply
    }
}

fn scores_to_chat() -> ApiError {
    ApiError::failed("the model answered a chat with scores")
}

const JSON: &str = "application/json";

fn text(kind: &'static str, body: String) -> Reply {
    bytes(kind, body.into_bytes())
}

fn bytes(kind: &'static str, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(ReplyBody::from(body));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn error_response(error: &ApiError, route: Option<Route>) -> Reply {
    let mut reply = text(JSON, error.body());
    *reply.status_mut() = error.status;
    let headers = reply.headers_mut();
    if let Some(seconds) = error.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    match (error.status, route) {
        (StatusCode::METHOD_NOT_ALLOWED, Some(route)) => {
            headers.insert(ALLOW, HeaderValue::from_static(route.allowed()));
        }
        (StatusCode::UNAUTHORIZED, _) => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    reply
}

/// The shape of frames: in a header, or in the address as `?shape=`.
fn shape_of(request: &Request<Incoming>) -> Result<String, ApiError> {
    let shape = setting(request, SHAPE, "shape");
    shape.ok_or_else(|| ApiError::invalid("give the frames' shape: X-Plaudit-Shape: 8,128,128,3"))
}

/// What a header says, or else the address.
fn setting(request: &Request<Incoming>, header: &str, key: &str) -> Option<String> {
    let header = request.headers().get(header).and_then(|value| value.to_str().ok());
    let pairs = request.uri().query().unwrap_or("").split('&');
    let query = pairs.filter_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).next();
    header.map(String::from).or_else(|| query.map(percent_decoded))
}

fn check_content_type(headers: &HeaderMap, expected: &'static str) -> Result<(), ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    if kind.eq_ignore_ascii_case(expected) { Ok(()) } else { Err(ApiError::unsupported_media_type(expected)) }
}

/// Runs CPU-bound work outside the event loop.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ApiError::failed("reading the request failed")))
}

/// Whether two secrets are equal, in constant time.
fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    let differences =
        left.iter().zip(right).fold(0, |differences, (left, right)| differences | (left ^ right));
    left.len() == right.len() && differences == 0
}

/// A part of an address with its `%2F` and the like as the bytes they stand for.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
