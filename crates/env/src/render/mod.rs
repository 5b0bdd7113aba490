//! A small software rasteriser: what a camera sees of a few hundred triangles, on any machine,
//! byte-exact.
//!
//! A [`Model`] is tessellated once; each image places its parts by [`Placement`]s, draws a shadow map and a
//! depth buffer, and then shades every pixel once.

mod camera;
mod canvas;
mod light;
mod mesh;
mod triangle;
mod wood;

pub(crate) use camera::Camera;
pub(crate) use canvas::{Canvas, Placement, Solids};
pub(crate) use mesh::{Detail, Model, ScenePart, Shape, Skin};
