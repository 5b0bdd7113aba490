//! HTTP as pages see it: a request that was let in, and what is replied.

mod params;
mod reply;
mod request;

pub(crate) use params::{Params, decode, encode};
pub(crate) use reply::{Refusal, Reply, ReplyBody};
pub(crate) use request::{Request, receive};
