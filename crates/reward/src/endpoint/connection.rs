//! The connection to a server: which model it has, retries, and several requests at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};

use super::backoff::{self, RetryBackoff};
use super::error::{EndpointError, RequestError};
use super::reply::{self, ServedModel};
use super::{EndpointCallbacks, EndpointSettings};

/// The largest reply that is read; one of a few words is some hundred bytes.
const LARGEST_REPLY: u64 = 4 << 20;
/// How long a server may take to say which models it has.
const MODELS_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that has a model.
pub(super) struct Connection {
    agent: ureq::Agent,
    /// The address up to and without `/v1`.
    base: String,
    pub(super) settings: EndpointSettings,
    pub(super) callbacks: EndpointCallbacks,
    /// The model that is asked.
    pub(super) model: ServedModel,
    /// A notice said that the server is down.
    is_down: AtomicBool,
}

impl Connection {
    /// Asks the server which models it has.
    pub(super) fn open(
        settings: EndpointSettings,
        callbacks: EndpointCallbacks,
    ) -> Result<Self, EndpointError> {
        let base = base_of(&settings.api_base)?;
        // What the machine trusts, so that a lab's own certificates count.
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections_per_host(settings.concurrency.get())
            .proxy(None) // servers stand beside the robot, and the user's environment is not read here
            .user_agent(concat!("plaudit/", env!("CARGO_PKG_VERSION")))
            .build();
        let (agent, model) = (config.into(), ServedModel::default());
        let mut connection =
            Self { agent, base, settings, callbacks, model, is_down: AtomicBool::new(false) };
        connection.model = connection.find_model()?;
        Ok(connection)
    }

    /// The address, for messages.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The model that was asked for. A server that does not list its models is believed to have it.
    fn find_model(&self) -> Result<ServedModel, EndpointError> {
        let (status, body) = self.models().map_err(|failure| self.unreachable_error(&failure))?;
        let named = self.settings.model.clone();
        let models = match status {
            200 => reply::models(&body),
            401 | 403 => return Err(EndpointError::Access { base: self.base.clone() }),
            _ => Vec::new(),
        };
        match named {
            None if models.len() > 1 => {
                Err(EndpointError::SeveralModels { base: self.base.clone(), names: names(&models) })
            }
            None => {
                models.into_iter().next().ok_or_else(|| EndpointError::NoModels { base: self.base.clone() })
            }
            Some(name) if models.is_empty() => Ok(ServedModel { name, ..ServedModel::default() }),
            Some(name) => {
                let names = names(&models);
                let found = models.into_iter().find(|model| model.name == name);
                found.ok_or_else(|| EndpointError::Model { base: self.base.clone(), model: name, names })
            }
        }
    }

    /// What the server says about its models.
    fn models(&self) -> Result<(u16, Vec<u8>), RequestError> {
        let timeout = Some(MODELS_TIMEOUT.min(self.settings.timeout));
        let request = self.agent.get(format!("{}/v1/models", self.base));
        let reply = self.authorized(request).config().timeout_global(timeout).build().call()?;
        read(reply)
    }

    /// Whether the server still has the model that it had when it was opened.
    pub(super) fn check_unchanged(&self) -> Result<(), EndpointError> {
        let models = self.retry(|| match self.models()? {
            (200, body) => Ok(reply::models(&body)),
            (status, body) => Err(status_error(status, &body, None)),
        })?;
        if models.contains(&self.model) {
            return Ok(());
        }
        Err(EndpointError::Changed { base: self.base.clone(), model: self.model.name.clone() })
    }

    /// The body of the answer to one request.
    pub(super) fn post(
        &self,
        route: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Vec<u8>, RequestError> {
        let request = self.authorized(self.agent.post(format!("{}{route}", self.base)));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let reply = request.send(body)?;
        let pause = retry_after(&reply);
        match read(reply)? {
            (200, body) => Ok(body),
            (status, body) => Err(status_error(status, &body, pause)),
        }
    }

    fn unreachable_error(&self, failure: &RequestError) -> EndpointError {
        EndpointError::Unreachable { base: self.base.clone(), why: failure.to_string() }
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.settings.api_key {
            Some(key) => request.header("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// What `once` gives, however often it has to be asked, until the server has been down for too long.
    pub(super) fn retry<T>(&self, once: impl Fn() -> Result<T, RequestError>) -> Result<T, EndpointError> {
        let mut backoff = RetryBackoff::new(self.settings.give_up);
        loop {
            let failure = match once() {
                Ok(answer) => {
                    self.report_up(&backoff);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let Some(pause) = backoff.after(&failure) else {
                return Err(self.unanswered(&failure, &backoff));
            };
            self.report_down(&failure);
            if !backoff::sleep(pause, &*self.callbacks.stop) {
                return Err(EndpointError::Stopped { base: self.base.clone(), why: failure.to_string() });
            }
        }
    }

    /// One answer for each of `asked`, in order; several are under way at once.
    pub(super) fn in_parallel<Q: Sync, A: Send, E: Send>(
        &self,
        asked: &[Q],
        ask: impl Fn(&Q) -> Result<A, E> + Sync,
    ) -> Result<Vec<A>, E> {
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<E>> = Mutex::new(None);
        let answers: Mutex<Vec<Option<A>>> = Mutex::new(asked.iter().map(|_| None).collect());
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(question) = asked.get(at) else { return };
                match ask(question) {
                    Ok(answer) => answers.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(answer),
                    Err(error) => {
                        next.store(asked.len(), Ordering::Relaxed); // nobody starts another
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.settings.concurrency.get().min(asked.len()) {
                scope.spawn(work);
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(answers.into_iter().flatten().collect())
    }

    fn report_down(&self, failure: &RequestError) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            let (base, secs) = (&self.base, self.settings.give_up.as_secs());
            (self.callbacks.notify)(&format!(
                "the reward server at {base} does not answer ({failure}); trying again for up to {secs} s"
            ));
        }
    }

    fn report_up(&self, backoff: &RetryBackoff) {
        if backoff.was_tried() && self.is_down.swap(false, Ordering::Relaxed) {
            (self.callbacks.notify)(&format!("the reward server at {} answers again", self.base));
        }
    }

    fn unanswered(&self, failure: &RequestError, backoff: &RetryBackoff) -> EndpointError {
        EndpointError::Unanswered {
            base: self.base.clone(),
            why: failure.to_string(),
            tries: backoff.tries(),
            secs: backoff.waited().as_secs(),
        }
    }
}

fn names(models: &[ServedModel]) -> String {
    models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn status_error(status: u16, body: &[u8], pause: Option<Duration>) -> RequestError {
    RequestError::Status { status, message: reply::error_message(body), pause }
}

/// The address without a trailing `/` and `/v1`.
fn base_of(address: &str) -> Result<String, EndpointError> {
    let base = address.trim().trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/');
    match base.split_once("://") {
        Some(("http" | "https", host)) if !host.is_empty() => Ok(base.into()),
        _ => Err(EndpointError::Address { address: address.into() }),
    }
}

fn read(mut reply: ureq::http::Response<ureq::Body>) -> Result<(u16, Vec<u8>), RequestError> {
    let status = reply.status().as_u16();
    let body = reply.body_mut().with_config().limit(LARGEST_REPLY).read_to_vec()?;
    Ok((status, body))
}

/// How long the server asks to be left alone.
fn retry_after(reply: &ureq::http::Response<ureq::Body>) -> Option<Duration> {
    let seconds = reply.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
