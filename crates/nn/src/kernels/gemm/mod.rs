//! Products of matrices.
//!
//! One register tile (`tile`) and two drivers. [`PackedRight`] copies both sides of a large product into the order in
//! which the tile reads them. The panels of a network whose weights lie in that order already are multiplied where they are
//! (`panel`): copying would cost more than it saves.

mod packed;
mod pairs;
mod panel;
pub(super) mod tile;

pub use packed::{Matrix, PackedRight};
pub(crate) use pairs::{pack_pairs, pack_rows, row_words};
pub(crate) use panel::{PANEL, PanelProduct, dots, panel_product, transpose};
pub(crate) use tile::GemmEpilogue;
