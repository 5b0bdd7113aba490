//! `plaudit robot pose`: where the tool is, as a config wants it.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use plaudit_robot::{ArmError, Clock, RealClock, SerlArm, ToolPose};
use serde_json::json;

use super::server;
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;

/// How often the pose is read, and how long apart: an arm that is pushed by hand does not rest.
const READS: usize = 5;
const APART: Duration = Duration::from_millis(100);
/// A tool that moves further than this between the reads has no pose to write down.
const AT_REST_M: f64 = 0.001;
const AT_REST_RAD: f64 = 0.01;
/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Read the pose of the tool, to write it into a config
///
/// Nothing moves. The arm is read five times within half a second; a tool that moves meanwhile is said to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit robot pose http://127.0.0.1:5000
  plaudit robot pose http://10.0.0.2:5000 --as reset
  plaudit robot pose http://10.0.0.2:5000 --json")]
pub struct Pose {
    /// The robot server
    #[arg(value_name = "URL")]
    server: String,
    /// What the pose is for
    #[arg(long = "as", value_name = "WHICH", value_enum, default_value_t = PoseKey::Target)]
    key: PoseKey,
    /// Print the pose as JSON
    #[arg(long)]
    json: bool,
}

/// The key of a config that a pose is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PoseKey {
    /// Where the tool must go
    Target,
    /// Where the tool starts
    Reset,
}

impl PoseKey {
    fn key(self) -> &'static str {
        match self {
            Self::Target => "target_ee_pose",
            Self::Reset => "reset_ee_pose",
        }
    }
}

/// What was read.
struct PoseReading {
    pose: ToolPose,
    moved_m: f64,
    moved_rad: f64,
}

impl Pose {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let clock = Arc::new(RealClock::new());
        let arm = server::arm(&self.server, clock.clone())?.with_timeout(TIMEOUT);
        let reading = read(&arm, &*clock).map_err(|error| server::failed(&error))?;
        let is_moving = reading.moved_m > AT_REST_M || reading.moved_rad > AT_REST_RAD;
        if is_moving && !verbosity.quiet {
            console::eprintln(&format!(
                "note: the tool moved by {:.1} mm and {:.3} rad while it was read; read it again at rest",
                1e3 * reading.moved_m,
                reading.moved_rad
            ));
        }
        if self.json {
            let value = json!({
                "server": self.server,
                "xyz_euler": reading.pose.to_xyz_euler(),
                "xyz_quat": reading.pose.to_xyz_quat(),
                "moved_m": reading.moved_m,
                "moved_rad": reading.moved_rad,
            });
            return console::print(&format!("{value}\n"));
        }
        console::print(&yaml(self.key, reading.pose))
    }
}

fn read(arm: &SerlArm, clock: &dyn Clock) -> Result<PoseReading, ArmError> {
    let first = arm.pose()?;
    let mut reading = PoseReading { pose: first, moved_m: 0.0, moved_rad: 0.0 };
    for _ in 1..READS {
        clock.sleep_until(clock.now() + APART);
        reading.pose = arm.pose()?;
        reading.moved_m = reading.moved_m.max(reading.pose.distance_m(first));
        reading.moved_rad = reading.moved_rad.max(reading.pose.angle_rad(first));
    }
    Ok(reading)
}

/// The pose under its key. Config files have angles; the quaternion is for whoever compares.
fn yaml(key: PoseKey, pose: ToolPose) -> String {
    format!(
        "env:\n  eval:\n    override_cfg:\n      # x, y, z in metres, then roll, pitch, yaw in radians about the \
         base's fixed axes\n      {}: {}\n      # the same with a quaternion x, y, z, w: {}\n",
        key.key(),
        numbers(&pose.to_xyz_euler()),
        numbers(&pose.to_xyz_quat()),
    )
}

/// Tenths of a millimetre and of a milliradian are more than an arm repeats.
fn numbers(numbers: &[f64]) -> String {
    let rounded = |number: &f64| {
        let text = format!("{number:.4}");
        if text == "-0.0000" { "0.0000".to_string() } else { text }
    };
    format!("[{}]", numbers.iter().map(rounded).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yaml_has_the_pose_to_a_tenth_of_a_millimetre() {
        let pose =
            ToolPose::from_xyz_euler([0.5, -0.000_01, 0.123_44, std::f64::consts::PI, 0.0, 0.25]).unwrap();
        let text = yaml(PoseKey::Reset, pose);
        assert!(
            text.contains("      reset_ee_pose: [0.5000, 0.0000, 0.1234, 3.1416, 0.0000, 0.2500]\n"),
            "{text}"
        );
        // By hand: half a turn about x, then 0.25 rad about z: (cos 0.125, sin 0.125, 0, 0).
        assert!(text.contains("[0.5000, 0.0000, 0.1234, 0.9922, 0.1247, 0.0000, 0.0000]"), "{text}");
    }
}
