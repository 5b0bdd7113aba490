//! From triangles to pixels.

use glam::{Affine3A, Vec3};

use super::camera::Camera;
use super::light::{KEY, SHADOW_SIZE, along_shadow, brightness, shadow_at, to_shadow};
use super::mesh::{Mesh, Model, Skin};
use super::triangle::{Corner, NEAR, clip, fill, round, turn};
use super::wood::grain;

/// Where the parts of one frame are; `None` hides them.
pub(crate) type Placement = Option<Affine3A>;

/// A model and where its parts are, one placement per frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Solids<'a> {
    pub(crate) model: &'a Model,
    pub(crate) places: &'a [Placement],
}

const NOTHING: u16 = u16::MAX;
const WOOD: Vec3 = Vec3::new(0.66, 0.46, 0.31);
const FLOOR: Vec3 = Vec3::new(0.34, 0.35, 0.37);
const FLOOR_HEIGHT: f32 = -0.92;
const WALL: Vec3 = Vec3::new(0.55, 0.58, 0.62);

/// Buffers that images are made in. They are cleared for each image, and only kept to be reused.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    width: usize,
    height: usize,
    /// Pixels per unit of slope.
    scale: f32,
    /// One over the depth of what is seen; 0 is infinitely far.
    depth: Vec<f32>,
    /// The visible triangle of each pixel, a number in `seen`.
    visible: Vec<u16>,
    seen: Vec<Facet>,
    shadow: Vec<f32>,
    world: Vec<Vec3>,
    view: Vec<Vec3>,
    row: Row,
}

/// Where the pixels of one row are in the world and on the shadow map. Columns of numbers, so that the
/// compiler computes several at once.
#[derive(Debug, Default)]
struct Row {
    /// 0, 1, 2, … as floats: converting whole numbers costs more than reading these.
    columns: Vec<f32>,
    /// How far along its ray each pixel's place is.
    way: Vec<f32>,
    world: [Vec<f32>; 3],
    shadow: [Vec<f32>; 3],
    /// Red, green, blue, red, …: 0 to 1 and sometimes beyond.
    colours: Vec<f32>,
}

/// A triangle that is visible, with what shading needs to know.
#[derive(Debug, Clone, Copy)]
struct Facet {
    skin: Skin,
    /// Which of the drawn solids it is of, and which frame of that moves it.
    of: (u8, u8),
    to_key: Slope,
    to_top: Slope,
}

/// A number that changes linearly over a triangle, as a function of the place in the world.
#[derive(Debug, Clone, Copy)]
struct Slope {
    at_origin: f32,
    per_metre: Vec3,
}

impl Canvas {
    /// Draws `solids` as `camera` sees them into `frame`, `height` rows of `width` RGB pixels.
    pub(crate) fn draw(
        &mut self,
        solids: &[Solids<'_>],
        camera: &Camera,
        (height, width): (usize, usize),
        frame: &mut [u8],
    ) {
        self.clear(height, width);
        self.scale = height as f32 / 2.0 / camera.half_height;
        for (solid, Solids { model, places }) in solids.iter().enumerate() {
            for mesh in &model.meshes {
                if let Some(place) = &places[mesh.part.frame] {
                    self.add(solid as u8, mesh, place, camera);
                }
            }
        }
        self.shade(camera, frame);
    }

    /// For each pixel of the image drawn last, which of the solids it shows and which frame of that moves it.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Option<(usize, usize)>> {
        let of = |facet: &Facet| (facet.of.0.into(), facet.of.1.into());
        self.visible.iter().map(move |visible| self.seen.get(usize::from(*visible)).map(of))
    }

    fn add(&mut self, solid: u8, mesh: &Mesh, place: &Affine3A, camera: &Camera) {
        self.world.clear();
        self.world.extend(mesh.points.iter().map(|point| place.transform_point3(*point)));
        if casts_shadow(mesh.part.skin) {
            self.draw_shadow(mesh);
        }
        self.draw_mesh(solid, mesh, place, camera);
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

    fn draw_shadow(&mut self, mesh: &Mesh) {
        self.view.clear();
        self.view.extend(self.world.iter().map(|point| to_shadow(*point)));
        for triangle in &mesh.triangles {
            let [a, b, c] = triangle.corners.map(|corner| self.view[corner as usize]);
            // Faces that look at the light hide what is below them; the others are hidden themselves.
            if turn(a, b, c) > 0.0 {
                fill([a, b, c], SHADOW_SIZE, SHADOW_SIZE, |at, start, step, count| {
                    let mut height = start;
                    for pixel in &mut self.shadow[at..at + count] {
                        *pixel = pixel.max(height);
                        height += step;
                    }
                });
            }
        }
    }

    fn draw_mesh(&mut self, solid: u8, mesh: &Mesh, place: &Affine3A, camera: &Camera) {
        let view = camera.view();
        let centre = view * (place.transform_point3(mesh.centre) - camera.eye);
        if !self.may_show(centre, mesh.radius) {
            return;
        }
        let all_in_front = centre.z - mesh.radius > NEAR;
        let world = self.world.iter().map(|point| view * (*point - camera.eye));
        self.view.clear();
        if all_in_front {
            let (scale, middle) = (self.scale, self.middle());
            self.view.extend(world.map(|point| project(point, scale, middle)));
        } else {
            self.view.extend(world);
        }
        for triangle in &mesh.triangles {
            let corners = triangle.corners.map(|corner| corner as usize);
            let points = corners.map(|corner| self.view[corner]);
            let seen = if all_in_front { self.paint(points) } else { self.paint_clipped(points) };
            if seen {
                let facet = Facet::new(
                    (solid, mesh.part.frame as u8),
                    mesh.part.skin,
                    corners.map(|corner| self.world[corner]),
                    corners.map(|corner| place.transform_vector3(mesh.normals[corner])),
                );
                self.seen.push(facet);
            }
        }
    }

    fn middle(&self) -> [f32; 2] {
        [self.width as f32 / 2.0, self.height as f32 / 2.0]
    }

    /// Whether a ball at `centre` (in view coordinates) can be on the image at all.
    fn may_show(&self, centre: Vec3, radius: f32) -> bool {
        let half = self.middle().map(|pixels| pixels / self.scale);
        let outside =
            |along: f32, half: f32| (along.abs() - half * centre.z) / (1.0 + half * half).sqrt() > radius;
        centre.z + radius > NEAR && !outside(centre.x, half[0]) && !outside(centre.y, half[1])
    }

    /// Fills a triangle given in view coordinates, of which some may be behind the camera.
    fn paint_clipped(&mut self, corners: [Vec3; 3]) -> bool {
        let (polygon, count) = clip(corners);
        let screen = polygon.map(|point| project(point, self.scale, self.middle()));
        let mut any = false;
        for k in 2..count {
            any |= self.paint([screen[0], screen[k - 1], screen[k]]);
        }
        any
    }

    /// Fills a triangle on the screen, if it faces the camera; says whether any pixel became it.
    fn paint(&mut self, [a, b, c]: [Corner; 3]) -> bool {
        // Rows count downwards, so that front faces turn the other way than in the world.
        if turn(a, b, c) >= 0.0 {
            return false;
        }
        let facet = self.seen.len() as u16;
        let mut any = false;
        fill([a, b, c], self.width, self.height, |at, start, step, count| {
            let pixels = self.depth[at..at + count].iter_mut().zip(&mut self.visible[at..at + count]);
            let mut depth = start;
            for (nearest, visible) in pixels {
                if depth > *nearest {
                    (*nearest, *visible) = (depth, facet);
                    any = true;
                }
                depth += step;
            }
        });
        any
    }

    fn shade(&mut self, camera: &Camera, frame: &mut [u8]) {
        let step = 1.0 / self.scale;
        let [half_width, half_height] = self.middle();
        for (number, line) in frame.chunks_exact_mut(self.width * 3).enumerate() {
            let up = camera.up * ((half_height - number as f32 - 0.5) * step);
            let ray = Ray {
                eye: camera.eye,
                first: camera.forward + up + camera.right * ((0.5 - half_width) * step),
                step: camera.right * step,
            };
            self.row.locate(&ray, &self.depth[number * self.width..][..self.width]);
            self.row.colours.resize(line.len(), 0.0);
            for column in 0..self.width {
                let visible = self.visible[number * self.width + column];
                let colour = match self.seen.get(visible as usize) {
                    Some(facet) => facet.colour(self.row.at(column), &self.shadow),
                    None => background(ray.eye, ray.first + ray.step * column as f32),
                };
                self.row.colours[column * 3..column * 3 + 3].copy_from_slice(&colour.to_array());
            }
            for (byte, colour) in line.iter_mut().zip(&self.row.colours) {
                *byte = round((colour * 255.0).min(255.0)) as u8;
            }
        }
    }
}

/// The rays through one row of pixels: from `eye` along `first`, `first + step`, …
struct Ray {
    eye: Vec3,
    first: Vec3,
    step: Vec3,
}

impl Row {
    /// Finds the places of a row from their (inverse) depths.
    fn locate(&mut self, ray: &Ray, depth: &[f32]) {
        if self.columns.len() != depth.len() {
            self.columns = (0..depth.len()).map(|column| column as f32).collect();
        }
        self.way.clear();
        self.way.extend(depth.iter().map(|depth| 1.0 / depth));
        let ways = [along_shadow(ray.first), along_shadow(ray.step), to_shadow(ray.eye)];
        for axis in 0..3 {
            spread(
                &mut self.world[axis],
                &self.columns,
                &self.way,
                [ray.first, ray.step, ray.eye].map(|way| way[axis]),
            );
            spread(&mut self.shadow[axis], &self.columns, &self.way, ways.map(|way| way[axis]));
        }
    }

    /// A pixel's place in the world, and on the shadow map.
    #[inline(always)]
    fn at(&self, column: usize) -> [Vec3; 2] {
        [&self.world, &self.shadow].map(|[x, y, z]| Vec3::new(x[column], y[column], z[column]))
    }
}

/// One coordinate of the points `eye + (first + column * step) * way`.
fn spread(out: &mut Vec<f32>, columns: &[f32], ways: &[f32], [first, step, eye]: [f32; 3]) {
    out.clear();
    out.extend(columns.iter().zip(ways).map(|(column, way)| eye + (first + column * step) * way));
}

impl Facet {
    /// Light is computed at the corners and spread between them.
    fn new(of: (u8, u8), skin: Skin, points: [Vec3; 3], normals: [Vec3; 3]) -> Self {
        let slope = |towards: Vec3| {
            let [first, second, third] = normals.map(|normal| normal.dot(towards));
            if first == second && second == third {
                return Slope { at_origin: first, per_metre: Vec3::ZERO };
            }
            let (u, v) = (points[1] - points[0], points[2] - points[0]);
            let (uu, uv, vv) = (u.dot(u), u.dot(v), v.dot(v));
            let scale = 1.0 / (uu * vv - uv * uv).max(1e-20);
            let along_u = (u * vv - v * uv) * scale;
            let along_v = (v * uu - u * uv) * scale;
            let per_metre = along_u * (second - first) + along_v * (third - first);
            Slope { at_origin: first - per_metre.dot(points[0]), per_metre }
        };
        Self { skin, of, to_key: slope(KEY), to_top: slope(Vec3::Z) }
    }

    /// The colour at a place in the world, which is also a place on the shadow map.
    #[inline(always)]
    fn colour(&self, [place, on_map]: [Vec3; 2], shadows: &[f32]) -> Vec3 {
        let (to_key, to_top) = (self.to_key.at(place), self.to_top.at(place));
        let shadow = match self.skin {
            Skin::Marker(_) => 0.0,
            _ if to_key <= 0.0 => 1.0,
            _ => shadow_at(shadows, on_map),
        };
        let light = brightness(to_key, to_top, shadow);
        match self.skin {
            Skin::Plain(colour) => colour * light,
            Skin::Wood => WOOD * (grain(place.x, place.y) * light),
            Skin::Marker(colour) => colour * (0.6 + 0.4 * light),
        }
    }
}

impl Slope {
    fn at(&self, point: Vec3) -> f32 {
        self.at_origin + self.per_metre.dot(point)
    }
}

/// From view coordinates to the screen.
fn project(point: Vec3, scale: f32, [middle_x, middle_y]: [f32; 2]) -> Corner {
    let depth = 1.0 / point.z;
    Corner::new(middle_x + point.x * (depth * scale), middle_y - point.y * (depth * scale), depth)
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

#[cfg(test)]
mod tests {
    use super::super::mesh::{Detail, ScenePart, Shape};
    use super::*;

    #[test]
    fn a_ball_is_drawn_where_it_is_and_hides_what_is_behind() {
        let ball = |x: f32, frame: usize, colour: Vec3| ScenePart {
            frame,
            shape: Shape::Capsule { from: Vec3::X * x, to: Vec3::X * x, radius: 0.2 },
            skin: Skin::Plain(colour),
        };
        let model = Model::new(&[ball(1.0, 0, Vec3::X), ball(2.0, 1, Vec3::Y)], Detail::COARSE);
        let camera = Camera::look_at(Vec3::ZERO, Vec3::X, 1.0);
        let mut canvas = Canvas::default();
        let mut draw = |places: [Placement; 2]| {
            let mut frame = vec![0; 32 * 48 * 3];
            canvas.draw(&[Solids { model: &model, places: &places }], &camera, (32, 48), &mut frame);
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
