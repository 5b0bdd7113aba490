//! A peg and a box with a hole that fits it.

use glam::{DQuat, DVec3};
use plaudit_core::Rng;

use crate::panda::Pose;
use crate::panda::kinematics::upright;
use crate::panda::tabletop::{MovableBox, Wall};

/// How much wider than the peg the hole is, on each side.
pub(crate) const CLEARANCE: f64 = 0.003;
/// Half the length and half the width of a peg.
const HALF_LENGTHS: (f64, f64) = (0.085, 0.125);
const HALF_WIDTHS: (f64, f64) = (0.015, 0.025);
/// Kilograms per cubic metre.
const DENSITY: f64 = 1000.0;
/// Metres that must be free between peg and box at the start.
const GAP: f64 = 0.01;

/// The sizes sampled for an episode, and where peg and box start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Workpiece {
    /// Half the peg's length. The box is a cube with the same half edge.
    pub(crate) half_length: f64,
    /// Half the width of the peg, which is square in section.
    pub(crate) half_width: f64,
    /// Where the hole is on the face of the box: y and z from the middle.
    pub(crate) hole_at: [f64; 2],
    /// Where the peg starts; its head looks along x.
    pub(crate) peg: Pose,
    /// Where the box stands; the hole goes along x.
    pub(crate) case: Pose,
}

impl Workpiece {
    /// A medium-sized one, for a table on which no episode has begun.
    pub(crate) fn medium() -> Self {
        let at = |y: f64, z: f64| Pose::new(DVec3::new(0.0, y, z), upright(std::f64::consts::FRAC_PI_2));
        Self {
            half_length: 0.1,
            half_width: 0.02,
            hole_at: [0.0; 2],
            peg: at(-0.15, 0.02),
            case: at(0.3, 0.1),
        }
    }

    /// Samples sizes and places as ManiSkill does, but never a peg that sticks in the box: such places are sampled
    /// again.
    pub(crate) fn sample(rng: &mut Rng) -> Self {
        let half_length = rng.uniform(HALF_LENGTHS.0, HALF_LENGTHS.1);
        let half_width = rng.uniform(HALF_WIDTHS.0, HALF_WIDTHS.1);
        let hole_at = [(); 2].map(|()| 0.5 * (half_length - half_width) * rng.uniform(-1.0, 1.0));
        let case = place(rng, (-0.05, 0.05), (0.2, 0.4), half_length, 8.0);
        let peg = place(rng, (-0.1, 0.1), (-0.3, 0.0), half_width, 3.0);
        let mut sampled = Self { half_length, half_width, hole_at, peg, case };
        while !sampled.is_apart() {
            sampled.peg = place(rng, (-0.1, 0.1), (-0.3, 0.0), half_width, 3.0);
        }
        sampled
    }

    /// Half the edges of the peg.
    pub(crate) fn peg_half(&self) -> DVec3 {
        DVec3::new(self.half_length, self.half_width, self.half_width)
    }

    /// Half the width of the hole, which ManiSkill calls its radius.
    pub(crate) fn hole_radius(&self) -> f64 {
        self.half_width + CLEARANCE
    }

    /// The middle of the hole, x along it.
    pub(crate) fn hole(&self) -> Pose {
        self.case.shifted(DVec3::new(0.0, self.hole_at[0], self.hole_at[1]))
    }

    /// The peg as something to move.
    pub(crate) fn object(&self) -> MovableBox {
        let half = self.peg_half();
        MovableBox { half, mass: peg_mass(half), pose: self.peg }
    }

    /// The four walls around the hole, in the frame of the box: middles and half edges.
    pub(crate) fn sides(&self) -> [(DVec3, DVec3); 4] {
        let (outer, inner) = (self.half_length, self.hole_radius());
        let [y, z] = self.hole_at;
        // From `low` to `high` across the hole's axis.
        let span = |low: f64, high: f64| ((low + high) / 2.0, (high - low) / 2.0);
        let beside =
            |(middle, half): (f64, f64)| (DVec3::new(0.0, middle, 0.0), DVec3::new(outer, half, outer));
        let over = |(middle, half): (f64, f64)| (DVec3::new(0.0, y, middle), DVec3::new(outer, inner, half));
        [
            beside(span(y + inner, outer)),
            beside(span(-outer, y - inner)),
            over(span(z + inner, outer)),
            over(span(-outer, z - inner)),
        ]
    }

    /// The walls where they stand.
    pub(crate) fn walls(&self) -> [Wall; 4] {
        self.sides().map(|(middle, half)| Wall { half, pose: self.case.shifted(middle) })
    }

    /// Whether a line can be drawn on the table between peg and box, with some room: two rectangles are apart
    /// if they are so along one of their four edges.
    fn is_apart(&self) -> bool {
        let reach = |pose: &Pose, half: [f64; 2], way: DVec3| {
            let along = |axis: DVec3| (pose.rotation * axis).dot(way).abs();
            half[0] * along(DVec3::X) + half[1] * along(DVec3::Y)
        };
        let between = self.case.position - self.peg.position;
        [self.peg, self.case].iter().any(|pose| {
            [DVec3::X, DVec3::Y].into_iter().any(|axis| {
                let way = pose.rotation * axis;
                let reaches = reach(&self.peg, [self.half_length, self.half_width], way)
                    + reach(&self.case, [self.half_length; 2], way);
                between.dot(way).abs() > reaches + GAP
            })
        })
    }
}

/// Kilograms of a peg with these half edges.
pub(crate) fn peg_mass(half: DVec3) -> f64 {
    8.0 * DENSITY * half.element_product()
}

/// A place on the table, turned by a quarter give or take `pi / parts`.
fn place(rng: &mut Rng, x: (f64, f64), y: (f64, f64), z: f64, parts: f64) -> Pose {
    let position = DVec3::new(rng.uniform(x.0, x.1), rng.uniform(y.0, y.1), z);
    let most = std::f64::consts::PI / parts;
    let turn: DQuat = upright(std::f64::consts::FRAC_PI_2 + rng.uniform(-most, most));
    Pose::new(position, turn)
}

#[cfg(test)]
mod tests {
    use plaudit_core::Seed;

    use super::*;

    #[test]
    fn the_walls_leave_exactly_the_hole() {
        for k in 0..50 {
            let piece = Workpiece::sample(&mut Seed::new(k).rng());
            let [y, z] = piece.hole_at;
            let radius = piece.hole_radius();
            let inside = |y: f64, z: f64| {
                let holds = |(middle, half): (DVec3, DVec3)| {
                    (y - middle.y).abs() < half.y && (z - middle.z).abs() < half.z
                };
                piece.sides().into_iter().any(holds)
            };
            for (dy, dz) in [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.9, 0.9), (-0.9, 0.9)] {
                let just = radius - 1e-6;
                assert!(!inside(y + dy * just, z + dz * just), "free within the hole");
                let beyond = radius * 1.2;
                assert!(inside(y + dy * beyond, z + dz * beyond), "wall around it");
            }
            let edge = piece.half_length - 1e-6;
            assert!(inside(edge, edge) && inside(-edge, edge) && !inside(edge + 2e-6, 0.0));
            assert!(piece.sides().iter().all(|(_, half)| half.min_element() > 0.01), "no thin walls");
        }
    }

    #[test]
    fn pegs_start_on_the_table_and_outside_of_the_box() {
        for k in 0..500 {
            let piece = Workpiece::sample(&mut Seed::new(k).rng());
            assert!(piece.peg.position.z == piece.half_width && piece.case.position.z == piece.half_length);
            let back = piece.case.inverse();
            for x in 0..=40 {
                let along = (f64::from(x) / 20.0 - 1.0) * piece.half_length;
                for across in [-piece.half_width, piece.half_width] {
                    let point = back.at(piece.peg.at(DVec3::new(along, across, 0.0)));
                    assert!(point.x.abs().max(point.y.abs()) > piece.half_length + 0.9 * GAP, "{k}: {point}");
                }
            }
        }
    }
}
