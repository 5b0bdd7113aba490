//! Pages for people: one HTML file that needs nothing but itself.
//!
//! Style, charts and pictures are inside the file, so that it can be mailed, archived and opened without a network. It
//! follows the reader's choice of light or dark, prints on paper, and uses no script. Charts tell curves apart by
//! dashes as well as by colours that people with poor colour vision can distinguish.

mod chart;
mod html;

pub use chart::{Chart, Mark, Scale, Series};
pub use html::{Html, Page, Tone, escape, picture};
