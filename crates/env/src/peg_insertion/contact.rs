//! What peg, box and fingers do to each other: nothing passes through anything, and what is held stays.

use glam::{DQuat, DVec3};
use plaudit_core::{Obs, Policy, Seed};

use super::*;
use crate::panda::{ControlMode, Pose};

/// How deep two boxes overlap, measured at the corners of each: 0 if none is inside of the other.
fn overlap(a: (Pose, DVec3), b: (Pose, DVec3)) -> f64 {
    let deepest = |(pose, half): (Pose, DVec3), (other, other_half): (Pose, DVec3)| {
        let back = other.inverse() * pose;
        let corner = |k: usize| {
            let sign = |bit: usize| if k >> bit & 1 == 0 { -1.0 } else { 1.0 };
            let at = back.at(half * DVec3::new(sign(0), sign(1), sign(2)));
            (other_half - at.abs()).min_element()
        };
        (0..8).map(corner).fold(0.0, f64::max)
    };
    deepest(a, b).max(deepest(b, a))
}

fn new_task(control_mode: ControlMode, seed: u64) -> PegInsertion {
    let settings = PegInsertionSettings { control_mode, ..PegInsertionSettings::default() };
    let cameras = settings.cameras();
    let mut task = PegInsertion::new(Arc::new(Setup { settings, cameras }));
    task.reset(&mut Seed::new(seed).rng());
    task
}

impl PegInsertion {
    /// How deep the peg is in a wall, and in the table.
    fn sunk(&self) -> (f64, f64) {
        let (peg, half) = (self.station.object(), self.piece.peg_half());
        let walls = self.piece.walls().into_iter();
        let in_wall = walls.map(|wall| overlap((peg, half), (wall.pose, wall.half))).fold(0.0, f64::max);
        let down = half.dot((peg.rotation.conjugate() * DVec3::Z).abs());
        (in_wall, (down - peg.position.z).max(0.0))
    }

    /// Whether the peg is within 5 mm of a wall.
    fn nearly_touches(&self) -> bool {
        let peg = (self.station.object(), self.piece.peg_half() + DVec3::splat(0.005));
        self.piece.walls().into_iter().any(|wall| overlap(peg, (wall.pose, wall.half)) > 0.0)
    }

    /// Whether the straight way from one place to another goes through the inside of the box.
    fn crosses(&self, from: DVec3, to: DVec3) -> bool {
        let back = self.piece.case.inverse();
        let inside = |k: u32| {
            let at = back.at(from.lerp(to, f64::from(k) / 100.0));
            at.abs().max_element() < 0.9 * self.piece.half_length
        };
        (0..=100).any(inside)
    }

    fn follow(&mut self, expert: &mut PegInsertionExpert, t: u64) -> StepResult {
        let mut state = vec![0.0; 43];
        self.observe(&mut state);
        let obs = Obs::from_state(1, state).unwrap();
        let action = expert.act(&obs, Seed::new(1).index(t)).unwrap().actions;
        self.step(&action, false)
    }
}

#[test]
fn overlaps_are_measured() {
    let at = |x: f64| (Pose::new(DVec3::new(x, 0.0, 0.0), DQuat::IDENTITY), DVec3::splat(0.1));
    assert_eq!(overlap(at(0.0), at(0.21)), 0.0);
    let small = (Pose::new(DVec3::X * 0.104, DQuat::IDENTITY), DVec3::splat(0.01));
    assert!((overlap(at(0.0), small) - 0.006).abs() < 1e-12);
}

#[test]
fn pegs_touch_the_walls_but_do_not_enter_them() {
    let (mut worst, mut solved) = ((0.0f64, 0.0f64), 0);
    for seed in 0..24 {
        let noise = if seed % 2 == 0 { 0.0 } else { 0.15 };
        let mut expert = PegInsertionExpert::new(ControlMode::PdJointDeltaPos).unwrap().with_noise(noise);
        let mut task = new_task(ControlMode::PdJointDeltaPos, seed);
        for t in 0..100 {
            let result = task.follow(&mut expert, t);
            let (wall, table) = task.sunk();
            worst = (worst.0.max(wall), worst.1.max(table));
            if result.success {
                solved += 1;
                break;
            }
        }
    }
    println!("deepest in a wall {:.2} mm, in the table {:.2} mm", worst.0 * 1e3, worst.1 * 1e3);
    assert!(solved >= 12, "{solved}");
    assert!(worst.0 < 2e-3 && worst.1 < 3e-3, "{worst:?}");
}

/// Rams the peg against the face of the box beside the hole, as hard as the arm can.
#[test]
fn pegs_do_not_tunnel_however_hard_they_are_pushed() {
    let mut worst = 0.0f64;
    for seed in [2, 4, 6] {
        let mut expert = PegInsertionExpert::new(ControlMode::PdJointDeltaPos).unwrap();
        let mut task = new_task(ControlMode::PdJointDeltaPos, seed);
        let outside = task.piece;
        // The expert believes that the hole is 4 cm above where it is.
        task.piece.case = outside.case.shifted(DVec3::Z * 0.04);
        let mut touched = 0;
        for t in 0..200 {
            task.follow(&mut expert, t);
            let believed = std::mem::replace(&mut task.piece, outside);
            let (truth, (wall, _)) = (task.truth(), task.sunk());
            worst = worst.max(wall);
            touched += usize::from(truth.head.x > -outside.half_length - 1e-3);
            assert!(truth.head.x < -outside.half_length + 0.02, "through the wall: {}", truth.head);
            task.piece = believed;
        }
        assert!(touched > 50, "it was pushed: {touched}");
    }
    println!("deepest when rammed {:.2} mm", worst * 1e3);
    assert!(worst < 4e-3, "{worst}");
}

/// Swings the held peg against the box from the side, as fast as the arm turns.
#[test]
fn pegs_do_not_tunnel_however_fast_they_are_swung() {
    let (mut deepest, mut fastest, mut hits) = (0.0f64, 0.0f64, 0);
    for seed in 0..12 {
        let mut expert = PegInsertionExpert::new(ControlMode::PdJointPos).unwrap();
        let mut task = new_task(ControlMode::PdJointPos, seed);
        let lifted =
            |task: &PegInsertion| task.station.is_grasped() && task.station.object().position.z > 0.05;
        let steps = (0..100).take_while(|t| !lifted(&task) && !task.follow(&mut expert, *t).success).count();
        assert!(steps < 60, "{steps}");
        let mut swing: Vec<f32> = task.station.joints().take(JOINTS).map(|angle| angle as f32).collect();
        swing.push(-1.0);
        for aim in [0.9, -0.9, 1.5, -1.5, 2.0] {
            swing[0] = aim;
            for _ in 0..12 {
                let before = task.station.object().position;
                task.step(&swing, false);
                let after = task.station.object().position;
                fastest = fastest.max(after.distance(before) * 20.0);
                deepest = deepest.max(task.sunk().0);
                hits += usize::from(task.nearly_touches());
                assert!(!task.crosses(before, after), "{seed}: through the box from {before} to {after}");
            }
        }
    }
    println!("deepest when swung at up to {fastest:.1} m/s: {:.2} mm ({hits} hits)", deepest * 1e3);
    assert!(hits > 50 && fastest > 1.0, "it was swung: {hits} hits, {fastest} m/s");
    assert!(deepest < 0.02, "for a moment it goes in, but not through: {deepest}");
}

#[test]
fn a_held_peg_stays_where_it_is_held() {
    let mut worst = (0.0f64, 0.0f64);
    for seed in 0..6 {
        let mut expert = PegInsertionExpert::new(ControlMode::PdJointPos).unwrap();
        let mut task = new_task(ControlMode::PdJointPos, seed);
        let lifted =
            |task: &PegInsertion| task.station.is_grasped() && task.station.object().position.z > 0.06;
        let steps = (0..100).take_while(|t| !lifted(&task) && !task.follow(&mut expert, *t).success).count();
        assert!(steps < 60, "{steps}");
        let angles: Vec<f32> = task.station.joints().take(JOINTS).map(|angle| angle as f32).collect();
        let hold = [angles, vec![-1.0]].concat();
        let mut after_steps = |steps: usize| {
            for _ in 0..steps {
                task.step(&hold, false);
            }
            task.station.tool().inverse() * task.station.object()
        };
        let (before, after) = (after_steps(20), after_steps(200));
        assert!(task.station.is_grasped());
        worst.0 = worst.0.max(after.position.distance(before.position));
        worst.1 = worst.1.max(after.rotation.angle_between(before.rotation).to_degrees());
    }
    println!("in 10 s it crept {:.2} mm and turned {:.2} degrees", worst.0 * 1e3, worst.1);
    assert!(worst.0 < 2e-3 && worst.1 < 2.0, "{worst:?}");
}
