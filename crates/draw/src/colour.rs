//! The colours that all images share.

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

/// Behind everything.
pub const PAPER: Rgb = [255, 255, 255];
/// Text.
pub const INK: Rgb = [24, 24, 27];
/// Text that matters less.
pub const MUTED: Rgb = [82, 82, 91];
/// Lines of a grid.
pub const FAINT: Rgb = [228, 228, 231];
/// Success.
pub const GREEN: Rgb = [22, 163, 74];
/// Failure.
pub const RED: Rgb = [220, 38, 38];
/// Neither.
pub const GREY: Rgb = [161, 161, 170];
/// A curve.
pub const BLUE: Rgb = [37, 99, 235];
