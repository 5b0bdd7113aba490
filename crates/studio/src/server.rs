//! The server: connections, who is let in, and the end.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use plaudit_reward::open::OpenOptions;
use plaudit_serve::{ConnectionLimits, Respond, serve_until};
use plaudit_view::page::escape;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::assets;
use crate::backend::Backend;
use crate::error::StudioError;
use crate::folder::Folder;
use crate::gate::{Gate, Pass, Token};
use crate::http::{Refusal, Reply, ReplyBody, receive};
use crate::pages;
use crate::shell;

/// What clients may cost.
const LIMITS: ConnectionLimits = ConnectionLimits { connections: 128, header_time: Duration::from_secs(5) };
/// How long requests under way may take once the server should stop.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);
/// How often open streams show that they are alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Requests that read files and decode images at a time.
const WORKERS: usize = 4;

/// How a studio is set up.
pub struct StudioSettings {
    /// What is shown. Nothing outside of it is read, but for models that are named.
    pub folder: PathBuf,
    /// Where it listens; port 0 takes any free one.
    pub address: SocketAddr,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Reward models to begin with, wherever they lie; those in the folder are found.
    pub models: Vec<PathBuf>,
    /// How models are opened.
    pub open_options: OpenOptions,
}

/// A studio that listens.
pub struct Studio {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    service: Arc<Service>,
}

/// What every connection needs.
struct Service {
    app: Arc<App>,
    gate: Gate,
}

impl Studio {
    /// Listens, and begins to look for what is in the folder.
    ///
    /// # Errors
    /// When the folder is not there, the address cannot be had, or the system gives no threads.
    pub fn bind(settings: StudioSettings) -> Result<Self, StudioError> {
        Self::bind_with(settings, None)
    }

    /// The same with somebody who knows configs and commands, so that runs can be started and stopped.
    ///
    /// # Errors
    /// As [`Studio::bind`].
    pub fn bind_with(
        settings: StudioSettings,
        backend: Option<Arc<dyn Backend>>,
    ) -> Result<Self, StudioError> {
        let folder = Folder::open(&settings.folder)?;
        let address = settings.address;
        let listener =
            TcpListener::bind(address).map_err(|source| StudioError::Listen { address, source })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let token = Token::random().ok_or(StudioError::NoRandom)?;
        let gate = Gate::new(token.clone(), address.port(), !address.ip().is_loopback());
        let app = App::start(folder, settings, backend)?;
        Ok(Self { listener, address, token, service: Arc::new(Service { app, gate }) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to open, with its token. Where it listens on every address of the machine, that is this machine's own.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let own = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
            address.set_ip(own.parse().unwrap_or(address.ip()));
        }
        format!("http://{address}/?token={}", self.token.text())
    }

    /// Serves until `stop` says to stop; then lets requests under way finish, for a little while.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn run(self, stop: impl Fn() -> bool) -> Result<(), StudioError> {
        let Self { listener, service, .. } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(WORKERS)
            .build()?;
        let served = runtime.block_on(async {
            let streams = service.app.clone();
            let alive = tokio::spawn(async move {
                loop {
                    sleep(KEEP_ALIVE).await;
                    streams.events.keep_alive();
                }
            });
            let graceful = serve_until(listener, LIMITS, &service, stop).await;
            alive.abort();
            service.app.stop();
            if let Ok(graceful) = graceful {
                let _ = timeout(SHUTDOWN_TIME, graceful.shutdown()).await;
                return Ok(());
            }
            graceful.map(drop).map_err(StudioError::from)
        });
        runtime.shutdown_background();
        served
    }
}

impl Respond for Service {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, request: Request<Incoming>, _: IpAddr) -> Response<ReplyBody> {
        let is_head = request.method() == Method::HEAD;
        let reply = match self.gate.check(request.method(), request.uri(), request.headers()) {
            Err(refusal) => Reply::refused(&refusal),
            Ok(Pass::FirstVisit) => first_visit(request.uri().path()).with_cookie(self.gate.cookie()),
            Ok(Pass::Known) => self.answer(request).await,
        };
        reply.into_response(is_head)
    }
}

impl Service {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let wants_page = request.headers().get(hyper::header::ACCEPT);
        let wants_page =
            wants_page.and_then(|value| value.to_str().ok()).is_some_and(|text| text.contains("text/html"));
        let replied = match receive(request).await {
            Err(refusal) => Err(refusal),
            Ok(request) if request.word(0) == "events" => Ok(Reply::events(self.app.events.listen())),
            Ok(request) if request.word(0) == "static" => assets::reply(request.word(1)),
            // Nothing that others ask for may keep an arm moving: a thread of its own, and no place in a queue.
            Ok(request) if request.is_post() && request.word(0) == "robot" && request.word(1) == "hold" => {
                on_own_thread(self.app.clone(), request).await
            }
            Ok(request) => {
                let app = self.app.clone();
                let answered = tokio::task::spawn_blocking(move || pages::answer(&app, &request)).await;
                answered.unwrap_or_else(|_| {
                    Err(Refusal::failed("this request broke something; the others go on"))
                })
            }
        };
        replied.unwrap_or_else(|refusal| match wants_page {
            true => shell::refused(&self.app, &refusal),
            false => Reply::refused(&refusal),
        })
    }
}

/// Answers a request beside all others.
async fn on_own_thread(app: Arc<App>, request: crate::http::Request) -> Result<Reply, Refusal> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let answer = move || {
        // Whoever asked may have gone; it is done all the same.
        let _ = sender.send(pages::answer(&app, &request));
    };
    let started = std::thread::Builder::new().name("hold".into()).spawn(answer);
    started.map_err(|error| Refusal::failed(error.to_string()))?;
    receiver.await.unwrap_or_else(|_| Err(Refusal::failed("this request broke something; the others go on")))
}

/// Goes on without the token in the address. A reply that says to go elsewhere would not do: where another site led here, the
/// browser would leave the new cookie out.
fn first_visit(path: &str) -> Reply {
    Reply::html(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><link rel=\"icon\" href=\"data:,\"><title>plaudit studio</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={0}\"></head><body><a href=\"{0}\">plaudit studio</a></body></html>\n",
        escape(path)
    ))
}
