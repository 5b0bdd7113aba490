//! Pages for people: one HTML file that needs nothing but itself.
//!
//! Style, charts, images and videos are inside the file, so that it can be mailed, archived and opened without a
//! network. A page begins with its verdict in one sentence; what that rests on follows. It follows the reader's choice of
//! light or dark, fits a phone, prints on paper, and is whole without its script, which shows values under the pointer
//! and runs videos in step with their curves. Charts tell curves apart by dashes as well as by colours that people with
//! poor colour vision can distinguish.

mod chart;
mod html;
mod videos;

pub use chart::{Chart, Ends, Mark, Scale, Series, Size, Unit};
pub use html::{Finding, Html, Page, SCRIPT, STYLE, Tone, Verdict, data_url, escape};
pub use videos::{EmbeddedVideo, PageVideo};
