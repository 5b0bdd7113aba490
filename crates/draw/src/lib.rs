//! Images for people: what videos, contact sheets and charts are drawn with.
//!
//! A [`Canvas`] is RGB bytes with rectangles, smooth lines, images and text on them. [`Font`] is the one font of all images:
//! Inter, subset and inside the binary (its licence is `font/OFL.txt`), so that an image is the same on every machine. A
//! [`ContactSheet`] lays frames out under headings, with a title and a legend; names are never cut, they go on in
//! the next line. [`half_blocks`] shows an image in a terminal. Nothing here reads a file or knows what is drawn.
//!
//! ```
//! use plaudit_core::FrameShape;
//! use plaudit_draw::{ContactSheet, Group, Canvas, SheetFrame, Tint};
//!
//! let image = Canvas::fitted(FrameShape::rgb(2, 2), &[90; 12], 128);
//! let frame = SheetFrame { image, tint: Tint::Green, caption: vec!["frame 7".into()] };
//! let sheet = ContactSheet {
//!     title: "One episode".into(),
//!     about: "first frame to last".into(),
//!     legend: vec![(Tint::Green.colour(), "labelled success".into())],
//!     columns: 5,
//!     groups: vec![Group { heading: "episode_0.pkl".into(), frames: vec![frame] }],
//! };
//! assert!(sheet.draw().png().starts_with(b"\x89PNG"));
//! ```

mod canvas;
pub mod colour;
mod encode;
mod font;
mod half_blocks;
mod sheet;
mod wrap;

pub use canvas::{Canvas, WrongPixels};
pub use colour::Rgb;
pub use encode::encode_png;
pub use font::{Font, Weight};
pub use half_blocks::half_blocks;
pub use sheet::{ContactSheet, Group, SheetFrame, Tint};
pub use wrap::wrap;
