//! Connections: how they are accepted, bounded by client, and let go when the server stops.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::limits::{Batching, Limits};
use crate::model::Model;
use crate::routes::Service;

/// The largest head of a request.
const HEAD_BYTES: usize = 32 << 10;
/// Most lines of a head.
const HEAD_LINES: usize = 64;
/// How often the server checks whether it should stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

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
    let limits = *service.limits();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(limits.connections));
    let clients =
        Arc::new(Clients { most: Limits::client_share(limits.connections), open: Mutex::default() });
    let graceful = GracefulShutdown::new();
    let mut stopped = pin!(async {
        while !stop() {
            sleep(STOP_POLL_INTERVAL).await;
        }
    });
    loop {
        let accepted = pin!(accept(&listener, &permits));
        match either(accepted, stopped.as_mut()).await {
            Either::Left((stream, client, permit)) => {
                service.connected();
                // One that has too many already is closed without a word.
                if let Some(place) = clients.place(client) {
                    spawn_connection(stream, client, (permit, place), service.clone(), &graceful);
                }
            }
            Either::Right(()) => break,
        }
    }
    drop(listener);
    let under_way = service.close();
    let _ = timeout(limits.shutdown_time, graceful.shutdown()).await;
    let cut = service.under_way();
    Ok(Shutdown { answered: under_way.saturating_sub(cut), cut })
}

/// Connections by client.
struct Clients {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One of a client's connections, until it is dropped.
struct ClientPlace(Arc<Clients>, IpAddr);

impl Clients {
    fn place(self: &Arc<Self>, client: IpAddr) -> Option<ClientPlace> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(ClientPlace(self.clone(), client))
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.1) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.1)),
        }
    }
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
) -> (tokio::net::TcpStream, IpAddr, Option<OwnedSemaphorePermit>) {
    let permit = permits.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => return (stream, client.ip(), permit),
            Err(_) => sleep(STOP_POLL_INTERVAL).await,
        }
    }
}

/// Serves a connection in a task of its own.
fn spawn_connection(
    stream: tokio::net::TcpStream,
    client: IpAddr,
    place: (Option<OwnedSemaphorePermit>, ClientPlace),
    service: Arc<Service>,
    graceful: &GracefulShutdown,
) {
    let _ = stream.set_nodelay(true);
    let header_time = service.limits().header_time;
    let service = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.respond(request, client).await) }
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
        drop(place);
    });
}
