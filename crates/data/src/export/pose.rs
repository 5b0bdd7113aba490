//! Which numbers of a state are a pose. Recordings do not say it; whoever exports them does.

use std::str::FromStr;

use super::ExportProblem;

/// How far a quaternion may be from length 1.
const TOLERANCE: f64 = 0.01;
/// What poses are relative to.
const FRAME_ID: &str = "base";

/// How the rotation of a pose is written, after its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Not at all.
    None,
    /// A quaternion, its real part first, as in ManiSkill and SAPIEN.
    RealFirst,
    /// A quaternion, its real part last, as in ROS and SERL.
    RealLast,
}

/// A pose in the state: x, y and z from a number on, and then a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePose {
    /// What it is of.
    pub name: String,
    /// Where it begins.
    pub first: usize,
    /// What follows the position.
    pub rotation: Rotation,
}

/// A text that says of no pose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no pose: expected NAME=FIRST:ORDER, where ORDER is xyz, wxyz or xyzw")]
pub struct NoPose {
    text: String,
}

impl FromStr for StatePose {
    type Err = NoPose;

    /// `tcp=19:wxyz`: position from number 19 on, and then a quaternion with its real part first.
    fn from_str(text: &str) -> Result<Self, NoPose> {
        let no_pose = || NoPose { text: text.into() };
        let (name, rest) = text.split_once('=').ok_or_else(no_pose)?;
        let (first, order) = rest.split_once(':').ok_or_else(no_pose)?;
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-.".contains(sign);
        let rotation = match order {
            "xyz" => Rotation::None,
            "wxyz" => Rotation::RealFirst,
            "xyzw" => Rotation::RealLast,
            _ => return Err(no_pose()),
        };
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(no_pose());
        }
        Ok(Self { name: name.into(), first: first.parse().map_err(|_| no_pose())?, rotation })
    }
}

impl StatePose {
    pub(super) fn frame_id(&self) -> &'static str {
        FRAME_ID
    }

    /// Position, and rotation as x, y, z, w.
    pub(super) fn of(&self, state: &[f32], frame: usize) -> Result<([f64; 3], [f64; 4]), ExportProblem> {
        let wrong = |why: String| ExportProblem::Pose { name: self.name.clone(), frame, why };
        let width = if self.rotation == Rotation::None { 3 } else { 7 };
        let numbers = self.first.checked_add(width).and_then(|end| state.get(self.first..end));
        let last = self.first.saturating_add(width - 1);
        let numbers = numbers.ok_or_else(|| {
            wrong(format!("numbers {} to {last} of a state of {}", self.first, state.len()))
        })?;
        let at = |index: usize| f64::from(numbers[index]);
        let rotation = match self.rotation {
            Rotation::None => [0.0, 0.0, 0.0, 1.0],
            Rotation::RealFirst => [at(4), at(5), at(6), at(3)],
            Rotation::RealLast => [at(3), at(4), at(5), at(6)],
        };
        let length = rotation.iter().map(|part| part * part).sum::<f64>().sqrt();
        if !((1.0 - TOLERANCE)..=(1.0 + TOLERANCE)).contains(&length) {
            let first = self.first + 3;
            return Err(wrong(format!(
                "numbers {first} to {last} have length {length:.3}, and a rotation has 1"
            )));
        }
        Ok(([at(0), at(1), at(2)], rotation.map(|part| part / length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poses_are_read_as_they_are_said_to_be() {
        let state = [9.0, 1.0, 2.0, 3.0, 0.6, 0.8, 0.0, 0.0];
        for (text, rotation) in [
            ("tcp=1:wxyz", [0.8, 0.0, 0.0, 0.6]),
            ("tcp=1:xyzw", [0.6, 0.8, 0.0, 0.0]),
            ("tcp=1:xyz", [0.0, 0.0, 0.0, 1.0]),
        ] {
            let (position, found) = text.parse::<StatePose>().unwrap().of(&state, 0).unwrap();
            assert_eq!(position, [1.0, 2.0, 3.0]);
            assert!(
                found.iter().zip(rotation).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-6),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn what_is_no_pose_is_refused() {
        for text in ["tcp", "tcp=1", "tcp=x:wxyz", "tcp=1:zyx", "=1:xyz", "a/b=1:xyz", "tcp=-1:xyz"] {
            let error = text.parse::<StatePose>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("NAME=FIRST:ORDER"), "{error}");
        }
        let state = [9.0, 1.0, 2.0, 3.0, 0.6, 0.8, 0.0, 0.0];
        for (text, what) in [
            ("tcp=2:wxyz", "numbers 2 to 8 of a state of 8"),
            ("tcp=0:wxyz", "numbers 3 to 6 have length 3.162"),
            ("tcp=18446744073709551615:xyz", "of a state of 8"),
        ] {
            let error = text.parse::<StatePose>().unwrap().of(&state, 4).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("frame 4") && error.contains("`tcp`"), "{error}");
        }
    }
}
