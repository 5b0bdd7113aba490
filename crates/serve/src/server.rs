//! A server: its models, each with a thread, and its end.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::body::Incoming;
use hyper::{Request, Response};
use thiserror::Error;
use tokio::time::timeout;

use crate::body::ReplyBody;
use crate::connections::{ConnectionLimits, Respond, serve_until};
use crate::limits::{Batching, Limits};
use crate::model::Model;
use crate::routes::Service;

impl Respond for Service {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, request: Request<Incoming>, client: IpAddr) -> Response<ReplyBody> {
        self.reply_to(request, client).await
    }

    fn connected(&self) {
        self.count_connection();
    }
}

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
    /// There is nothing to serve.
    #[error("there is no model to serve")]
    NoModel,
    /// Clients could not tell two models apart.
    #[error("two models are called `{name}`")]
    SameName {
        /// What both are called.
        name: String,
    },
    /// The system has no more threads or files.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// What became of the requests that were under way when a server was stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// Answered, or refused with a reason.
    pub answered: usize,
    /// Cut off: the time to answer them was over.
    pub cut: usize,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<Service>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens, and readies a thread for each model. They share the memory for their work.
    ///
    /// # Errors
    /// When the address cannot be had, there is no model, or two have one name.
    pub fn bind(settings: ServerSettings, models: Vec<Arc<dyn Model>>) -> Result<Self, ServeError> {
        let ServerSettings { address, token, mut limits, mut batching } = settings;
        check_names(&models)?;
        limits.work_bytes /= models.len();
        batching.work_bytes /= models.len();
        let listener = TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let count = models.len();
        let service = Arc::new(Service::new(models, token, limits));
        let worker = |number: usize| {
            let working = service.clone();
            let thread = std::thread::Builder::new().name(format!("model {number}"));
            thread.spawn(move || working.work(number, batching))
        };
        let workers = (0..count).map(worker).collect::<Result<_, _>>()?;
        Ok(Self { listener, address, service, workers })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` says to stop; then lets requests under way finish, as long as the limits allow.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn run(self, stop: impl Fn() -> bool) -> Result<Shutdown, ServeError> {
        let Self { listener, service, workers, .. } = self;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(cores) // they decode images
            .build()?;
        let served = runtime.block_on(serve(listener, &service, stop));
        service.abandon();
        runtime.shutdown_background();
        for worker in workers {
            let _ = worker.join();
        }
        served
    }
}

fn check_names(models: &[Arc<dyn Model>]) -> Result<(), ServeError> {
    let mut names: Vec<&str> = models.iter().map(|model| model.info().name.as_str()).collect();
    names.sort_unstable();
    match (names.is_empty(), names.windows(2).find(|pair| pair[0] == pair[1])) {
        (true, _) => Err(ServeError::NoModel),
        (false, Some(pair)) => Err(ServeError::SameName { name: pair[0].into() }),
        (false, None) => Ok(()),
    }
}

async fn serve(
    listener: TcpListener,
    service: &Arc<Service>,
    stop: impl Fn() -> bool,
) -> Result<Shutdown, ServeError> {
    let Limits { connections, header_time, shutdown_time, .. } = *service.limits();
    let graceful =
        serve_until(listener, ConnectionLimits { connections, header_time }, service, stop).await?;
    let under_way = service.close();
    let _ = timeout(shutdown_time, graceful.shutdown()).await;
    let cut = service.under_way();
    Ok(Shutdown { answered: under_way.saturating_sub(cut), cut })
}
