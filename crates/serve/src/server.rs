//! Connections, routes and limits: everything between the network and the queue.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::chat;
use crate::error::ApiError;
use crate::limits::{Batching, Limits};
use crate::metrics::Metrics;
use crate::model::{Answer, Model, Question};
use crate::queue::Queue;
use crate::reply::{self, CompletionId};
use crate::score;

/// The largest head of a request.
const HEAD_BYTES: usize = 32 << 10;
/// Most lines of a head.
const HEAD_LINES: usize = 64;
/// How often the server checks whether it should stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long running requests may take once it should.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// The unit in which memory is reserved, in bytes.
const MEMORY_UNIT: usize = 1 << 10;
/// The header with the shape of frames, and of scores.
const SHAPE: &str = "x-plaudit-shape";

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it listens; port 0 takes any free one.
    pub address: SocketAddr,
    /// What clients must show; `None`: nothing.
    pub token: Option<String>,
    /// What a client may cost.
    pub limits: Limits,
    /// How requests are gathered.
    pub batching: Batching,
}

/// Why a server could not start, or stopped.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is in use, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no more threads or files.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    worker: JoinHandle<()>,
}

/// What every connection needs.
struct Shared {
    model: Arc<dyn Model>,
    token: Option<String>,
    limits: Limits,
    queue: Queue,
    metrics: Arc<Metrics>,
    memory: Arc<Semaphore>,
    answers: AtomicU64,
    is_closing: AtomicBool,
}

impl Server {
    /// Listens, and readies the model's thread.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(settings: ServerSettings, model: Arc<dyn Model>) -> Result<Self, ServeError> {
        let ServerSettings { address, token, limits, batching } = settings;
        let listener = TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let metrics = Arc::new(Metrics::default());
        let shared = Arc::new(Shared {
            model,
            token,
            limits,
            queue: Queue::new(limits.queue, metrics.clone()),
            metrics,
            memory: Arc::new(Semaphore::new(memory_units(limits.memory_bytes).min(Semaphore::MAX_PERMITS))),
            answers: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
        });
        let working = shared.clone();
        let worker = std::thread::Builder::new()
            .name("model".into())
            .spawn(move || working.queue.work(&*working.model, batching))?;
        Ok(Self { listener, address, shared, worker })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` says to stop; then lets requests under way finish.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn run(self, stop: impl Fn() -> bool) -> Result<(), ServeError> {
        let Self { listener, shared, worker, .. } = self;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(cores) // they decode images
            .build()?;
        let served = runtime.block_on(serve(listener, shared.clone(), stop));
        shared.queue.close();
        runtime.shutdown_background();
        let _ = worker.join();
        served
    }
}

async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    stop: impl Fn() -> bool,
) -> Result<(), ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(shared.limits.connections));
    let graceful = GracefulShutdown::new();
    let mut stopped = pin!(async {
        while !stop() {
            sleep(STOP_POLL_INTERVAL).await;
        }
    });
    loop {
        let accepted = pin!(accept(&listener, &permits));
        match either(accepted, stopped.as_mut()).await {
            Either::Left((stream, permit)) => {
                shared.metrics.connected();
                spawn_connection(stream, permit, shared.clone(), &graceful);
            }
            Either::Right(()) => break,
        }
    }
    drop(listener);
    shared.is_closing.store(true, Ordering::Relaxed);
    let _ = timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
    Ok(())
}

enum Either<L, R> {
    Left(L),
    Right(R),
}

/// Whichever is ready first; the first of two that are.
async fn either<L, R>(
    mut left: std::pin::Pin<&mut impl Future<Output = L>>,
    mut right: std::pin::Pin<&mut impl Future<Output = R>>,
) -> Either<L, R> {
    use std::task::Poll;
    std::future::poll_fn(move |context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(Either::Left(value));
        }
        right.as_mut().poll(context).map(Either::Right)
    })
    .await
}

/// The next connection, once a permit is free. What fails here fails for a client that went away, or for want of
/// files; either passes.
async fn accept(
    listener: &tokio::net::TcpListener,
    permits: &Arc<Semaphore>,
) -> (tokio::net::TcpStream, Option<OwnedSemaphorePermit>) {
    let permit = permits.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(_) => sleep(STOP_POLL_INTERVAL).await,
        }
    }
}

/// Serves a connection in a task of its own.
fn spawn_connection(
    stream: tokio::net::TcpStream,
    permit: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
    graceful: &GracefulShutdown,
) {
    let _ = stream.set_nodelay(true);
    let header_time = shared.limits.header_time;
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(shared.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        let _ = connection.await; // a client that disconnects is no error of ours
        drop(permit);
    });
}

type Reply = Response<Full<Bytes>>;

/// The routes there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Health,
    Metrics,
    Models,
    Chat,
    Score,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        match path.strip_suffix('/').unwrap_or(path) {
            "/healthz" => Some(Self::Health),
            "/metrics" => Some(Self::Metrics),
            "/v1/models" => Some(Self::Models),
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/score" => Some(Self::Score),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Health => "/healthz",
            Self::Metrics => "/metrics",
            Self::Models => "/v1/models",
            Self::Chat => "/v1/chat/completions",
            Self::Score => "/v1/score",
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Health | Self::Metrics | Self::Models => Method::GET,
            Self::Chat | Self::Score => Method::POST,
        }
    }
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>) -> Reply {
        let began = Instant::now();
        let route = Route::of(request.uri().path());
        let reply = match self.answer(route, request).await {
            Ok(reply) => reply,
            Err(error) => error_response(&error, route),
        };
        self.metrics.request(route.map_or("other", Route::name), reply.status().as_u16(), began.elapsed());
        reply
    }

    async fn answer(&self, route: Option<Route>, request: Request<Incoming>) -> Result<Reply, ApiError> {
        if route != Some(Route::Health) {
            self.authorize(request.headers())?;
        }
        let Some(route) = route else { return Err(ApiError::not_found(&shortened(request.uri().path()))) };
        if *request.method() != route.method() {
            return Err(ApiError::method_not_allowed(route.method().as_str()));
        }
        match route {
            Route::Health => self.health(),
            Route::Metrics => Ok(text("text/plain; version=0.0.4", self.metrics.page())),
            Route::Models => Ok(text(JSON, reply::models(self.model.info()))),
            Route::Chat => self.chat(request).await,
            Route::Score => self.score(request).await,
        }
    }

    fn health(&self) -> Result<Reply, ApiError> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(ApiError::shutting_down());
        }
        let name = &self.model.info().name;
        Ok(text(JSON, serde_json::json!({"status": "ok", "model": name}).to_string()))
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

    async fn chat(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        check_content_type(request.headers(), "application/json")?;
        let _memory = self.reserve(declared(&request, &self.limits)?)?;
        let body = self.body(request).await?;
        let limits = self.limits;
        let chat_request = run_blocking(move || chat::parse(&body, &limits)).await?;
        let name = &self.model.info().name;
        if chat_request.model != *name {
            return Err(ApiError::model_not_found(&shortened(&chat_request.model), name));
        }
        let stream = chat_request.stream;
        let _more_memory = self.reserve(chat_request.decoded_bytes())?;
        let chat = run_blocking(move || chat_request.decode()).await?;
        match self.ask(Question::Chat(chat)).await? {
            Answer::Chat(answer) if stream => {
                Ok(text("text/event-stream", reply::events(&answer, name, self.completion_id())))
            }
            Answer::Chat(answer) => Ok(text(JSON, reply::completion(&answer, name, self.completion_id()))),
            Answer::Scores(_) => Err(ApiError::failed("the model answered a chat with scores")),
        }
    }

    async fn score(&self, request: Request<Incoming>) -> Result<Reply, ApiError> {
        check_content_type(request.headers(), "application/octet-stream")?;
        let shape = shape_of(&request)?;
        let accepted = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
        let wants_bytes = accepted.is_some_and(|kinds| kinds.contains("application/octet-stream"));
        let _memory = self.reserve(declared(&request, &self.limits)?)?;
        let body = self.body(request).await?;
        let block = score::parse(&shape, body.into(), &self.limits)?;
        match self.ask(Question::Score(block)).await? {
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
            Answer::Scores(scores) => Ok(text(JSON, reply::scores(&scores, &self.model.info().name))),
            Answer::Chat(_) => Err(ApiError::failed("the model answered a score request with a chat")),
        }
    }

    /// Room for so many bytes, while the result lives.
    fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let memory_units = u32::try_from(memory_units(bytes)).unwrap_or(u32::MAX);
        let room = self.memory.clone().try_acquire_many_owned(memory_units);
        room.map_err(|_| ApiError::overloaded("running requests use all of this server's memory"))
    }

    async fn body(&self, request: Request<Incoming>) -> Result<Bytes, ApiError> {
        let limit = self.limits.body_bytes;
        let body = Limited::new(request.into_body(), limit).collect();
        match timeout(self.limits.body_time, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
            Ok(Err(_)) => Err(ApiError::invalid("the body broke off")),
            Err(_) => Err(ApiError::request_timeout()),
        }
    }

    async fn ask(&self, question: Question) -> Result<Answer, ApiError> {
        self.model.check(&question)?;
        let answer = self.queue.put(question)?;
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

const JSON: &str = "application/json";

fn text(kind: &'static str, body: String) -> Reply {
    bytes(kind, body.into_bytes())
}

fn bytes(kind: &'static str, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
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
            if let Ok(method) = HeaderValue::from_str(route.method().as_str()) {
                headers.insert(ALLOW, method);
            }
        }
        (StatusCode::UNAUTHORIZED, _) => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    reply
}

fn too_large(limit: usize) -> ApiError {
    ApiError::too_large(format!("the body has more than the {limit} bytes that are allowed"))
}

/// How large a body is said to be; as large as allowed if that is not said.
fn declared(request: &Request<Incoming>, limits: &Limits) -> Result<usize, ApiError> {
    let length = request.headers().get(CONTENT_LENGTH).is_some().then(|| request.body().size_hint().lower());
    match length.map(usize::try_from) {
        Some(Ok(bytes)) if bytes <= limits.body_bytes => Ok(bytes),
        Some(_) => Err(too_large(limits.body_bytes)),
        None => Ok(limits.body_bytes),
    }
}

/// The shape of frames: in a header, or in the address as `?shape=`.
fn shape_of(request: &Request<Incoming>) -> Result<String, ApiError> {
    let header = request.headers().get(SHAPE).and_then(|value| value.to_str().ok());
    let pairs = request.uri().query().unwrap_or("").split('&');
    let query = pairs.filter_map(|pair| pair.strip_prefix("shape=")).next();
    let shape = header.map(String::from).or_else(|| query.map(|shape| shape.replace("%2C", ",")));
    shape.ok_or_else(|| ApiError::invalid("give the frames' shape: X-Plaudit-Shape: 8,128,128,3"))
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

fn memory_units(bytes: usize) -> usize {
    bytes.div_ceil(MEMORY_UNIT)
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
