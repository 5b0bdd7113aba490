//! Shapes as triangles, made once.

use std::f32::consts::{PI, TAU};

use glam::{Affine3A, Vec3};

/// How finely round shapes are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Sides of a round shape.
    sides: usize,
    /// Rings of half a ball.
    rings: usize,
}

impl Detail {
    /// Enough for small images: light is spread between corners, and edges are a pixel anyway.
    pub(crate) const COARSE: Self = Self { sides: 12, rings: 2 };
    /// For images in which people would see the corners.
    pub(crate) const FINE: Self = Self { sides: 32, rings: 8 };
}

/// A solid in the frame of the part it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// All points within `radius` of a line from `from` to `to`; a ball if they are the same.
    Capsule { from: Vec3, to: Vec3, radius: f32 },
    /// A cylinder with flat ends.
    Cylinder { from: Vec3, to: Vec3, radius: f32 },
    /// A box around `centre` with half edges `half`, turned about x by `tilt`.
    Box { centre: Vec3, half: Vec3, tilt: f32 },
}

/// How a surface looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Skin {
    /// One colour, each channel between 0 and 1.
    Plain(Vec3),
    /// A wooden board.
    Wood,
    /// One colour that is not dimmed by shadow and casts none: a marker, not an object.
    Marker(Vec3),
}

/// One solid of one colour that moves as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScenePart {
    /// The number of the placement it moves with.
    pub(crate) frame: usize,
    pub(crate) shape: Shape,
    pub(crate) skin: Skin,
}

/// A triangle of three corners, numbered within its part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Triangle {
    pub(crate) corners: [u16; 3],
}

/// A part as triangles in its frame.
#[derive(Debug, Clone)]
pub(crate) struct Mesh {
    pub(crate) part: ScenePart,
    pub(crate) points: Vec<Vec3>,
    pub(crate) normals: Vec<Vec3>,
    pub(crate) triangles: Vec<Triangle>,
    /// A ball around it.
    pub(crate) centre: Vec3,
    pub(crate) radius: f32,
}

/// Everything that can be drawn, tessellated.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) meshes: Vec<Mesh>,
}

impl Model {
    pub(crate) fn new(parts: &[ScenePart], detail: Detail) -> Self {
        Self { meshes: parts.iter().map(|part| Mesh::new(part, detail)).collect() }
    }
}

impl Mesh {
    fn new(part: &ScenePart, detail: Detail) -> Self {
        let mut mesh = Self {
            part: *part,
            points: Vec::new(),
            normals: Vec::new(),
            triangles: Vec::new(),
            centre: Vec3::ZERO,
            radius: 0.0,
        };
        match part.shape {
            Shape::Capsule { from, to, radius } => mesh.add_capsule(from, to, radius, detail),
            Shape::Cylinder { from, to, radius } => mesh.add_cylinder(from, to, radius, detail.sides),
            Shape::Box { centre, half, tilt } => mesh.add_box(centre, half, tilt),
        }
        let low = mesh.points.iter().copied().fold(Vec3::INFINITY, Vec3::min);
        let high = mesh.points.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
        mesh.centre = (low + high) / 2.0;
        mesh.radius = mesh.points.iter().map(|p| p.distance(mesh.centre)).fold(0.0, f32::max);
        mesh
    }

    fn add(&mut self, point: Vec3, normal: Vec3) -> u16 {
        self.points.push(point);
        self.normals.push(normal);
        (self.points.len() - 1) as u16
    }

    fn quad(&mut self, a: u16, b: u16, c: u16, d: u16) {
        for corners in [[a, b, c], [a, c, d]] {
            let [p, q, r] = corners.map(|corner| self.points[corner as usize]);
            if (q - p).cross(r - p).length_squared() > 1e-16 {
                self.triangles.push(Triangle { corners });
            }
        }
    }

    fn add_capsule(&mut self, from: Vec3, to: Vec3, radius: f32, Detail { sides, rings }: Detail) {
        let axes = Affine3A::from_mat3(along(to - from));
        let circles: Vec<(Vec3, f32)> = (0..=rings)
            .map(|ring| (from, (ring as f32 / rings as f32 - 1.0) * PI / 2.0))
            .chain((0..=rings).map(|ring| (to, ring as f32 / rings as f32 * PI / 2.0)))
            .collect();
        for (centre, latitude) in &circles {
            for side in 0..sides {
                let (sin, cos) = (side as f32 / sides as f32 * TAU).sin_cos();
                let normal = Vec3::new(cos * latitude.cos(), sin * latitude.cos(), latitude.sin());
                let normal = axes.transform_vector3(normal);
                self.add(*centre + normal * radius, normal);
            }
        }
        self.stitch(sides, circles.len());
    }

    fn add_cylinder(&mut self, from: Vec3, to: Vec3, radius: f32, sides: usize) {
        let axes = along(to - from);
        let outward = |side: usize| {
            let (sin, cos) = (side as f32 / sides as f32 * TAU).sin_cos();
            axes * Vec3::new(cos, sin, 0.0)
        };
        for centre in [from, to] {
            for side in 0..sides {
                self.add(centre + outward(side) * radius, outward(side));
            }
        }
        self.stitch(sides, 2);
        for (centre, normal) in [(from, -axes.z_axis), (to, axes.z_axis)] {
            let middle = self.add(centre, normal);
            for side in 0..sides {
                self.add(centre + outward(side) * radius, normal);
            }
            for side in 0..sides as u16 {
                let (a, b) = (middle + 1 + side, middle + 1 + (side + 1) % sides as u16);
                let corners = if centre == to { [middle, a, b] } else { [middle, b, a] };
                self.triangles.push(Triangle { corners });
            }
        }
    }

    /// Joins the first `circles` circles of `sides` points each.
    fn stitch(&mut self, sides: usize, circles: usize) {
        for ring in 0..circles - 1 {
            for side in 0..sides {
                let at = |ring: usize, side: usize| (ring * sides + side % sides) as u16;
                self.quad(at(ring, side), at(ring, side + 1), at(ring + 1, side + 1), at(ring + 1, side));
            }
        }
    }

    fn add_box(&mut self, centre: Vec3, half: Vec3, tilt: f32) {
        let turn = glam::Quat::from_rotation_x(tilt);
        for axis in 0..3 {
            for sign in [-1.0, 1.0] {
                let normal = Vec3::AXES[axis] * sign;
                let (u, v) = (Vec3::AXES[(axis + 1) % 3] * sign, Vec3::AXES[(axis + 2) % 3]);
                let corners = [-u - v, u - v, u + v, v - u]
                    .map(|corner| self.add(centre + turn * ((corner + normal) * half), turn * normal));
                self.quad(corners[0], corners[1], corners[2], corners[3]);
            }
        }
    }
}

/// Axes of which the third points along `way`.
fn along(way: Vec3) -> glam::Mat3 {
    let z = way.normalize_or(Vec3::Z);
    let (x, y) = z.any_orthonormal_pair();
    glam::Mat3::from_cols(x, y, z)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every triangle of a convex shape looks away from its middle, and its corners' normals with it.
    #[test]
    fn surfaces_look_outwards() {
        let (from, to) = (Vec3::new(0.1, 0.0, 0.0), Vec3::new(0.1, 0.3, 0.1));
        let shapes = [
            Shape::Capsule { from, to, radius: 0.1 },
            Shape::Capsule { from, to: from, radius: 0.1 },
            Shape::Cylinder { from, to, radius: 0.1 },
            Shape::Box { centre: from, half: Vec3::new(0.1, 0.2, 0.3), tilt: 0.4 },
        ];
        for shape in shapes {
            let mesh = Mesh::new(&ScenePart { frame: 0, shape, skin: Skin::Wood }, Detail::COARSE);
            assert!(!mesh.triangles.is_empty());
            for triangle in &mesh.triangles {
                let [a, b, c] = triangle.corners.map(|corner| mesh.points[corner as usize]);
                let normal = (b - a).cross(c - a);
                assert!(normal.dot(a - mesh.centre) > 0.0, "{shape:?}");
                assert!(triangle.corners.iter().all(|k| mesh.normals[*k as usize].dot(normal) > 0.0));
            }
        }
    }
}
