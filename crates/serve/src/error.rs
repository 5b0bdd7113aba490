//! Error responses.

use hyper::StatusCode;
use serde_json::json;

/// An error response: why a request gets no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Seconds after which it may be worth another try.
    pub(crate) retry_after: Option<u64>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, code, message: message.into(), retry_after: None }
    }

    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_request", message)
    }

    /// The request is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", "too_large", message)
    }

    /// The model has another name.
    pub(crate) fn model_not_found(asked: &str, names: &str) -> Self {
        let message = format!("there is no model `{asked}` here, but {names}");
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", "model_not_found", message)
    }

    /// Nothing is at that address.
    pub(crate) fn not_found(path: &str) -> Self {
        let message =
            format!("there is nothing at {path}; see /v1/models, /v1/chat/completions and /v1/score");
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", "not_found", message)
    }

    pub(crate) fn method_not_allowed(allowed: &str) -> Self {
        let message = format!("only {allowed} is allowed here");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "method_not_allowed", message)
    }

    pub(crate) fn unsupported_media_type(expected: &str) -> Self {
        let message = format!("Content-Type must be {expected}");
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request_error",
            "unsupported_media_type",
            message,
        )
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "this server needs its token: Authorization: Bearer …";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", message)
    }

    pub(crate) fn request_timeout() -> Self {
        let message = "the body did not arrive in time, or stalled";
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "timeout", message)
    }

    /// Too much is under way.
    pub(crate) fn overloaded(message: &str) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "overloaded", message);
        Self { retry_after: Some(1), ..error }
    }

    pub(crate) fn shutting_down() -> Self {
        let message = "this server is about to stop";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", "closing", message);
        Self { retry_after: Some(5), ..error }
    }

    pub(crate) fn answer_timeout() -> Self {
        let message = "the model did not answer in time";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "server_error", "timeout", message)
    }

    /// The model failed, which is not the client's fault.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "model_failed", message)
    }

    /// As JSON, in the protocol's form.
    pub(crate) fn body(&self) -> String {
        let Self { kind, code, message, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
    }
}
