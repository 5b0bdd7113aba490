//! Connections: how they are accepted, bounded by client, and let go when a server stops.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::limits::Limits;

/// The largest head of a request.
const HEAD_BYTES: usize = 32 << 10;
/// Most lines of a head.
const HEAD_LINES: usize = 64;
/// How often the server checks whether it should stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What the connections of all clients may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once; further ones wait. One client may have three quarters of them.
    pub connections: usize,
    /// How long a client may take for the head of a request, or to begin another.
    pub header_time: Duration,
}

/// Something that answers requests, each in a task of its own.
pub trait Respond: Send + Sync + 'static {
    /// The body of its answers.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// The answer to a request of a client.
    fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: IpAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// A connection was accepted.
    fn connected(&self) {}
}

/// Serves connections until `stop` says to stop, and listens no longer then. Connections that are still open end with the
/// requests under way once the caller asks for that.
///
/// # Errors
/// When the system does not let it listen.
pub async fn serve_until<R: Respond>(
    listener: TcpListener,
    limits: ConnectionLimits,
    responder: &Arc<R>,
    stop: impl Fn() -> bool,
) -> io::Result<GracefulShutdown> {
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
                responder.connected();
                // One that has too many already is closed without a word.
                if let Some(place) = clients.place(client) {
                    spawn_connection(stream, client, (permit, place), responder.clone(), limits, &graceful);
                }
            }
            Either::Right(()) => return Ok(graceful),
        }
    }
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
fn spawn_connection<R: Respond>(
    stream: tokio::net::TcpStream,
    client: IpAddr,
    place: (Option<OwnedSemaphorePermit>, ClientPlace),
    responder: Arc<R>,
    limits: ConnectionLimits,
    graceful: &GracefulShutdown,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let responder = responder.clone();
        async move { Ok::<_, Infallible>(responder.respond(request, client).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        let _ = connection.await; // a client that disconnects is no error of ours
        drop(place);
    });
}
