//! From triangles to pixels.

use glam::{Affine3A, Vec3};

use super::camera::Camera;
use super::light::{KEY, SHADOW_SIZE, brightness, shadow_at, to_shadow};
use super::mesh::{Mesh, Model, Skin};
use super::wood::grain;

/// Where the parts of one frame are; `None` hides them.
pub(crate) type Placement = Option<Affine3A>;

/// Nothing nearer than this is seen.
const NEAR: f32 = 0.01;
const NOTHING: u16 = u16::MAX;
const WOOD: Vec3 = Vec3::new(0.66, 0.46, 0.31);
const FLOOR: Vec3 = Vec3::new(0.34, 0.35, 0.37);
const FLOOR_HEIGHT: f32 = -0.92;
const WALL: Vec3 = Vec3::new(0.55, 0.58, 0.62);

/// Buffers that pictures are made in. They are cleared for each picture, and only kept to be reused.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    width: usize,
    height: usize,
    /// One over the depth of what is seen; 0 is infinitely far.
    depth: Vec<f32>,
    /// The visible triangle of each pixel, a number in `seen`.
    visible: Vec<u16>,
    seen: Vec<Facet>,
    shadow: Vec<f32>,
    world: Vec<Vec3>,
    view: Vec<Vec3>,
}

/// A triangle that may be visible, with what shading needs to know.
#[derive(Debug, Clone, Copy)]
struct Facet {
    mesh: u16,
    /// The normal as a linear function of the point: at the first corner, and per metre of world.
    origin: Vec3,
    edges: [Vec3; 2],
    normals: [Vec3; 3],
}

/// A corner on the screen: column, row, one over depth.
type Corner = Vec3;

impl Canvas {
    /// Draws `model` as `camera` sees it into `frame`, `height` rows of `width` RGB pixels.
    pub(crate) fn draw(
        &mut self,
        model: &Model,
        places: &[Placement],
        camera: &Camera,
        (height, width): (usize, usize),
        frame: &mut [u8],
    ) {
        self.clear(height, width);
        for (number, mesh) in model.meshes.iter().enumerate() {
            if let Some(place) = &places[mesh.part.frame] {
                self.place(mesh, place);
                if casts_shadow(mesh.part.skin) {
                    self.draw_shadow(mesh);
                }
                self.draw_mesh(number as u16, mesh, place, camera);
            }
        }
        self.shade(model, camera, frame);
    }

    fn clear(&mut self, height: usize, width: usize) {
        (self.width, self.height) = (width, height);
        self.depth.clear();
        self.depth.resize(width * height, 0.0);
        self.visible.clear();
        self.visible.resize(width * height, NOTHING);
        self.shadow.clear();
        self.shadow.resize(SHADOW_SIZE * SHADOW_SIZE, f32::NEG_INFINITY);
        self.seen.clear();
    }

    fn place(&mut self, mesh: &Mesh, place: &Affine3A) {
        self.world.clear();
        self.world.extend(mesh.points.iter().map(|point| place.transform_point3(*point)));
    }

    fn draw_shadow(&mut self, mesh: &Mesh) {
        self.view.clear();
        self.view.extend(self.world.iter().map(|point| to_shadow(*point)));
        for triangle in &mesh.triangles {
            let [a, b, c] = triangle.corners.map(|corner| self.view[corner as usize]);
            // Faces that look at the light hide what is below them; the others are hidden themselves.
            if (b - a).truncate().perp_dot((c - a).truncate()) > 0.0 {
                fill([a, b, c], SHADOW_SIZE, SHADOW_SIZE, |at, height| {
                    self.shadow[at] = self.shadow[at].max(height);
                });
            }
        }
    }

    fn draw_mesh(&mut self, number: u16, mesh: &Mesh, place: &Affine3A, camera: &Camera) {
        let view = camera.view();
        let scale = self.height as f32 / 2.0 / camera.half_height;
        if !self.may_show(view * (place.transform_point3(mesh.centre) - camera.eye), mesh.radius, scale) {
            return;
        }
        self.view.clear();
        self.view.extend(self.world.iter().map(|point| view * (*point - camera.eye)));
        for triangle in &mesh.triangles {
            let corners = triangle.corners.map(|corner| corner as usize);
            let [a, b, c] = corners.map(|corner| self.view[corner]);
            // In view coordinates (right, up, forward: left-handed) a front face has this sign.
            if (b - a).cross(c - a).dot(a) <= 0.0 || a.z.max(b.z).max(c.z) <= NEAR {
                continue;
            }
            let facet = self.seen.len() as u16;
            if self.paint([a, b, c], scale, facet) {
                let [p, q, r] = corners.map(|corner| self.world[corner]);
                let normals = corners.map(|corner| place.transform_vector3(mesh.normals[corner]));
                self.seen.push(Facet { mesh: number, origin: p, edges: [q - p, r - p], normals });
            }
        }
    }

    /// Whether a ball at `centre` (in view coordinates) can be on the picture at all.
    fn may_show(&self, centre: Vec3, radius: f32, scale: f32) -> bool {
        let half = [self.width as f32 / 2.0 / scale, self.height as f32 / 2.0 / scale];
        let outside =
            |along: f32, half: f32| (along.abs() - half * centre.z) / (1.0 + half * half).sqrt() > radius;
        centre.z + radius > NEAR && !outside(centre.x, half[0]) && !outside(centre.y, half[1])
    }

    /// Fills a triangle given in view coordinates; says whether any pixel became it.
    fn paint(&mut self, corners: [Vec3; 3], scale: f32, facet: u16) -> bool {
        let (polygon, count) = clip(corners);
        let (middle_x, middle_y) = (self.width as f32 / 2.0, self.height as f32 / 2.0);
        let screen = polygon.map(|p| {
            let depth = 1.0 / p.z;
            Corner::new(middle_x + p.x * depth * scale, middle_y - p.y * depth * scale, depth)
        });
        let (width, height) = (self.width, self.height);
        let (depths, visible) = (&mut self.depth, &mut self.visible);
        let mut any = false;
        for k in 2..count {
            fill([screen[0], screen[k - 1], screen[k]], width, height, |at, depth| {
                if depth > depths[at] {
                    depths[at] = depth;
                    visible[at] = facet;
                    any = true;
                }
            });
        }
        any
    }

    fn shade(&self, model: &Model, camera: &Camera, frame: &mut [u8]) {
        let step = 2.0 * camera.half_height / self.height as f32;
        let (half_width, half_height) = (self.width as f32 / 2.0, self.height as f32 / 2.0);
        for (row, line) in frame.chunks_exact_mut(self.width * 3).enumerate() {
            let up = (half_height - row as f32 - 0.5) * step;
            let left = camera.forward + camera.up * up;
            for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
                let ray = left + camera.right * ((column as f32 + 0.5 - half_width) * step);
                let at = row * self.width + column;
                let colour = match self.seen.get(self.visible[at] as usize) {
                    Some(facet) => {
                        let point = camera.eye + ray / self.depth[at];
                        self.colour(facet, model.meshes[facet.mesh as usize].part.skin, point)
                    }
                    None => background(camera.eye, ray),
                };
                let bytes = (colour * 255.0 + 0.5).min(Vec3::splat(255.0));
                pixel.copy_from_slice(&[bytes.x as u8, bytes.y as u8, bytes.z as u8]);
            }
        }
    }

    fn colour(&self, facet: &Facet, skin: Skin, point: Vec3) -> Vec3 {
        let normal = facet.normal(point);
        let shadow = || if normal.dot(KEY) > 0.0 { shadow_at(&self.shadow, point) } else { 1.0 };
        match skin {
            Skin::Plain(colour) => colour * brightness(normal, shadow()),
            Skin::Wood => WOOD * grain(point.x, point.y) * brightness(normal, shadow()),
            Skin::Marker(colour) => colour * (0.6 + 0.4 * brightness(normal, 0.0)),
        }
    }
}

impl Facet {
    /// The smooth normal at `point`: the corners' normals, weighted.
    fn normal(&self, point: Vec3) -> Vec3 {
        let [first, second, third] = self.normals;
        if first == second && second == third {
            return first;
        }
        let [u, v] = self.edges;
        let way = point - self.origin;
        let (uu, uv, vv, wu, wv) = (u.dot(u), u.dot(v), v.dot(v), way.dot(u), way.dot(v));
        let scale = 1.0 / (uu * vv - uv * uv);
        let (s, t) = ((wu * vv - wv * uv) * scale, (wv * uu - wu * uv) * scale);
        (first + (second - first) * s + (third - first) * t).normalize_or(first)
    }
}

fn casts_shadow(skin: Skin) -> bool {
    matches!(skin, Skin::Plain(_))
}

/// The floor under the table, and a wall that brightens upwards.
fn background(eye: Vec3, ray: Vec3) -> Vec3 {
    if ray.z < 0.0 {
        let way = (FLOOR_HEIGHT - eye.z) / ray.z;
        let far = (way * 0.12).min(1.0);
        return FLOOR.lerp(WALL, far);
    }
    WALL
}

/// Cuts off what is nearer than the near plane: a triangle becomes a polygon of up to four corners.
fn clip(corners: [Vec3; 3]) -> ([Vec3; 4], usize) {
    let mut polygon = [Vec3::ONE; 4];
    polygon[..3].copy_from_slice(&corners);
    if corners.iter().all(|corner| corner.z > NEAR) {
        return (polygon, 3);
    }
    let mut count = 0;
    for k in 0..3 {
        let (a, b) = (corners[k], corners[(k + 1) % 3]);
        if a.z > NEAR {
            polygon[count] = a;
            count += 1;
        }
        if (a.z > NEAR) != (b.z > NEAR) {
            polygon[count] = a + (b - a) * ((NEAR - a.z) / (b.z - a.z));
            polygon[count].z = NEAR;
            count += 1;
        }
    }
    (polygon, count)
}

/// Calls `put` with every pixel whose middle lies in the triangle, and the third coordinate there.
///
/// Neighbouring triangles compute their common edge from the same two corners in the same order, so that
/// no pixel falls between them.
fn fill(corners: [Corner; 3], width: usize, height: usize, mut put: impl FnMut(usize, f32)) {
    let [mut top, mut middle, mut bottom] = corners;
    if middle.y < top.y {
        std::mem::swap(&mut top, &mut middle);
    }
    if bottom.y < top.y {
        std::mem::swap(&mut top, &mut bottom);
    }
    if bottom.y < middle.y {
        std::mem::swap(&mut middle, &mut bottom);
    }
    let first = (top.y - 0.5).ceil().max(0.0);
    let last = (bottom.y - 0.5).ceil().min(height as f32);
    if first >= last {
        return;
    }
    // The third coordinate as a plane over the screen.
    let (u, v) = (middle - top, bottom - top);
    let area = u.x * v.y - v.x * u.y;
    if area.abs() < 1e-12 {
        return;
    }
    let per_column = (u.z * v.y - v.z * u.y) / area;
    let per_row = (v.z * u.x - u.z * v.x) / area;
    let edge = |from: Corner, to: Corner, y: f32| from.x + (to.x - from.x) * ((y - from.y) / (to.y - from.y));
    for row in first as usize..last as usize {
        let y = row as f32 + 0.5;
        let long = edge(top, bottom, y);
        let short = if y < middle.y { edge(top, middle, y) } else { edge(middle, bottom, y) };
        let left = (long.min(short) - 0.5).ceil().max(0.0) as usize;
        let right = (long.max(short) - 0.5).ceil().clamp(0.0, width as f32) as usize;
        let start = top.z + per_row * (y - top.y) + per_column * (0.5 - top.x);
        for column in left..right {
            put(row * width + column, start + per_column * column as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mesh::{Part, Shape};
    use super::*;

    #[test]
    fn two_triangles_fill_a_square_without_gap_or_overlap() {
        let corner = |x: f32, y: f32| Corner::new(x, y, x + 2.0 * y);
        let (a, b, c, d) = (corner(1.3, 0.2), corner(8.9, 1.1), corner(9.6, 9.7), corner(0.4, 7.5));
        let mut count = [0; 100];
        for triangle in [[a, b, c], [a, c, d]] {
            fill(triangle, 10, 10, |at, z| {
                count[at] += 1;
                let (x, y) = ((at % 10) as f32 + 0.5, (at / 10) as f32 + 0.5);
                assert!((z - (x + 2.0 * y)).abs() < 1e-4);
            });
        }
        assert!(count.iter().all(|n| *n <= 1));
        assert_eq!(count[55], 1);
        assert!(count.iter().sum::<i32>() > 50);
        fill([corner(-50.0, -50.0), corner(90.0, -20.0), corner(0.0, 400.0)], 10, 10, |at, _| {
            assert!(at < 100)
        });
    }

    #[test]
    fn a_ball_is_drawn_where_it_is_and_hides_what_is_behind() {
        let ball = |x: f32, frame: usize, colour: Vec3| Part {
            frame,
            shape: Shape::Capsule { from: Vec3::X * x, to: Vec3::X * x, radius: 0.2 },
            skin: Skin::Plain(colour),
        };
        let model = Model::new(&[ball(1.0, 0, Vec3::X), ball(2.0, 1, Vec3::Y)]);
        let camera = Camera::look_at(Vec3::ZERO, Vec3::X, 1.0);
        let mut canvas = Canvas::default();
        let mut draw = |places: [Placement; 2]| {
            let mut frame = vec![0; 32 * 48 * 3];
            canvas.draw(&model, &places, &camera, (32, 48), &mut frame);
            let at = |row: usize, column: usize| {
                let k = (row * 48 + column) * 3;
                [frame[k], frame[k + 1], frame[k + 2]]
            };
            (at(16, 24), at(0, 0))
        };
        let shown = Some(Affine3A::IDENTITY);
        let (middle, corner) = draw([shown, shown]);
        assert!(middle[0] > 50 && middle[1] == 0, "the near ball: {middle:?}");
        assert!(corner[0] > 50 && corner[1] > 50, "the wall: {corner:?}");
        let (middle, _) = draw([None, shown]);
        assert!(middle[1] > 50 && middle[0] == 0, "the far ball: {middle:?}");
    }
}
