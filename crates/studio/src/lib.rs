//! A web app of this machine: what is in a folder, looked at, labelled and compared in a browser.
//!
//! ```text
//! browser ─server─► Gate: token, Host, Origin ─► Request ─► one Page of PAGES ─► Reply
//!                                                              │
//!              Events (server-sent) ◄── Scoring, Library ◄─────┘  threads of their own
//! ```
//!
//! A page is one file of `pages/`: what it is called, where it lies, and a function from a request to a reply. HTML comes from
//! here, in the parts that reports are made of ([`plaudit_view::page`]), so that everything that plaudit shows looks the same;
//! a small script per page moves it. Nothing is loaded from elsewhere, and no script stands in a page.
//!
//! Whoever may look must have the token, which is in the address that [`Studio::address`] gives and then in a cookie. Requests that
//! another site causes are refused, and so is whatever lies outside the folder, links included. Nobody can send a file. Without
//! [`StudioSettings::read_only`], labels and what is made of them are written below the folder, and nothing else is.
//!
//! It is for one person or a few of one lab: there is no TLS, one token for everybody, and work is queued, not spread.

mod app;
mod assets;
mod backend;
mod clip;
mod compare;
mod curves;
mod error;
mod events;
mod export;
mod folder;
mod gate;
mod http;
mod images;
mod labels;
mod library;
mod lines;
mod lru;
mod models;
mod pages;
mod robot;
mod runs;
mod scoring;
mod server;
mod shell;

pub use backend::{Backend, FieldKind, RecipeField, RobotConfig, Work};
pub use error::StudioError;
pub use server::{Studio, StudioSettings};
