//! `env.*.override_cfg`: a Franka arm and its task.

use indexmap::IndexMap;

use super::lerobot::LerobotSettings;
use crate::config::block::{Fill, block, choice};
use crate::config::range::{AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, Range};

/// x, y, z in metres, then roll, pitch, yaw in radians.
pub type Pose = [f64; 6];

/// Tool pointing down, half a metre ahead: where an unset target is. RLinf writes 3.14 and means half a turn.
#[allow(clippy::approx_constant)]
const STRAIGHT_DOWN: Pose = [0.5, 0.0, 0.1, -3.14, 0.0, 0.0];

choice! {
    /// Who may take over from the policy.
    PilotKind {
        /// Nobody.
        None = "none",
        /// The script that solves the task of the simulated robot, from its ground truth.
        Script = "script",
        /// A person at a SpaceMouse, and at the keys of the terminal.
        Spacemouse = "spacemouse",
        /// A person at a gamepad, and at the keys of the terminal.
        Gamepad = "gamepad",
        /// The keys of a keyboard at this machine, which move the arm while they are held.
        Keyboard = "keyboard",
        /// The keys of the terminal, which does not tell which are held: each press moves the arm for a moment.
        Terminal = "terminal",
    }
}

block! {
    /// A Franka arm and its task.
    RobotSettings as RobotSettingsWritten {
        /// Address of the controller. Not set: from the cluster's hardware. `sim`: a simulated robot, started inside.
        robot_ip: Option<String> = None,
        /// Address of a robot server that speaks SERL's HTTP dialect: `http://127.0.0.1:5000`.
        server_url: Option<String> = None,
        /// An arm of LeRobot's in the place of a robot server.
        lerobot: Option<LerobotSettings> = None,
        /// Cameras by name: `http://…` of an MJPEG stream, a device such as `/dev/video0`, a serial number, or `replay:FOLDER` for
        /// recorded frames. Not set: those of `camera_serials`, or of the simulated robot.
        camera_urls: IndexMap<String, String> = IndexMap::new(),
        /// Who may take over from the policy. Not set: with `use_spacemouse`, a SpaceMouse, or on a simulated robot the script.
        pilot: Option<PilotKind> = None,
        /// The gamepad or the keyboard among several: `/dev/input/event7`. Not set: the first gamepad, the only keyboard.
        pilot_device: Option<String> = None,
        /// How many times as fast as a real one the simulated robot lives.
        #[range(Range::Within(0.01, 100.0))]
        sim_speed: f64 = 1.0,
        /// How often something goes wrong with the simulated robot, per minute of its clock: late answers, errors, frozen frames, a
        /// reflex, a push, a server that stands still.
        #[range(NOT_NEGATIVE)]
        sim_incidents: f64 = 0.0,
        /// Scenes that the simulated robot goes through, an episode each: where things lie. 1: always the same.
        #[range(Range::Within(1.0, 1000.0))]
        sim_scenes: u64 = 1,
        /// Pixels of a side of the images that policies see.
        #[range(Range::Within(16.0, 512.0))]
        image_side: u64 = 128,
        /// Seconds that the pilot watches an episode before taking over, if the task is not solved by then. 0: takes over whenever
        /// the device is moved.
        #[range(NOT_NEGATIVE)]
        pilot_waits: f64 = 0.0,
        /// The share of episodes in which there is a pilot who may take over.
        #[range(Range::Within(0.0, 1.0))]
        pilot_share: f64 = 1.0,
        /// The arm holds when more newtons press on the tool.
        #[range(POSITIVE)]
        max_force: f64 = 40.0,
        /// The arm holds when more newton metres twist the tool.
        #[range(POSITIVE)]
        max_torque: f64 = 10.0,
        /// The policy moves the arm only while a person holds a key of a keyboard or a button of a gamepad.
        dead_man: bool = false,
        /// Serial numbers of cameras at this machine's ports, or what `camera_urls` takes; called `wrist_1`, `wrist_2`, … in this
        /// order.
        camera_serials: Option<Vec<String>> = None,
        /// Names for cameras by serial number. Not set: `wrist_1`, `wrist_2`, …
        camera_names: IndexMap<String, String> = IndexMap::new(),
        /// What the cameras are.
        camera_type: Option<String> = None,
        /// Part of each camera's image to keep, by serial number or name: top, left, bottom, right in 0..1. Not set: the square in the
        /// middle.
        camera_crop_regions: IndexMap<String, [f64; 4]> = IndexMap::new(),
        /// Show the cameras in a window.
        enable_camera_player: bool = true,
        /// What the gripper is.
        gripper_type: Option<String> = None,
        /// How the gripper is reached.
        gripper_connection: Option<String> = None,
        /// No hardware: made-up observations, for trying a setup.
        is_dummy: bool = false,
        /// Also reward by distance to the target.
        use_dense_reward: bool = false,
        /// Factor on the reward by distance.
        dense_reward_scale: f64 = 1.0,
        /// Success needs the right angles as well as the right place.
        check_orientation_success: bool = false,
        /// Factor on the task's reward.
        reward_scale: f64 = 1.0,
        /// Added to the reward at success.
        success_bonus: f64 = 0.0,
        /// Actions per second.
        #[range(POSITIVE)]
        step_frequency: f64 = 10.0,
        /// Where the tool must go: x, y, z, roll, pitch, yaw.
        target_ee_pose: Fill<Pose> = Fill::Given(STRAIGHT_DOWN),
        /// Where the tool starts. Not set: above the target.
        reset_ee_pose: Option<Fill<Pose>> = None,
        /// Joint angles of a full reset.
        joint_reset_qpos: Vec<f64> = vec![0.0, 0.0, 0.0, -1.9, 0.0, 2.0, 0.0],
        /// Steps after which the arm's own clock runs out.
        #[range(AT_LEAST_ONE)]
        max_num_steps: u64 = 100,
        /// How near counts as there: metres for x, y, z, radians for the angles.
        reward_threshold: Option<Pose> = None,
        /// Size of a full action: metres, radians, gripper.
        action_scale: Option<[f64; 3]> = None,
        /// Start each episode from a random place near the start pose.
        enable_random_reset: bool = false,
        /// Half width of the random start in x and y, metres.
        #[range(NOT_NEGATIVE)]
        random_xy_range: f64 = 0.0,
        /// How far below the start pose a random start may be, metres.
        #[range(NOT_NEGATIVE)]
        random_z_range_low: f64 = 0.0,
        /// How far above the start pose a random start may be, metres.
        #[range(NOT_NEGATIVE)]
        random_z_range_high: f64 = 0.0,
        /// Half width of the random start in yaw, radians.
        #[range(NOT_NEGATIVE)]
        random_rz_range: f64 = 0.0,
        /// Half width of the safety box in x, metres. Not set: as `clip_xy_range`.
        #[range(NOT_NEGATIVE)]
        clip_x_range: Option<f64> = None,
        /// Half width of the safety box in y, metres. Not set: as `clip_xy_range`.
        #[range(NOT_NEGATIVE)]
        clip_y_range: Option<f64> = None,
        /// Half width of the safety box in x and y, metres.
        #[range(NOT_NEGATIVE)]
        clip_xy_range: Option<f64> = None,
        /// Bottom of the safety box below the target, metres.
        #[range(NOT_NEGATIVE)]
        clip_z_range_low: Option<f64> = None,
        /// Top of the safety box above the target, metres.
        #[range(NOT_NEGATIVE)]
        clip_z_range_high: Option<f64> = None,
        /// Half width of the safety window in yaw, radians.
        #[range(NOT_NEGATIVE)]
        clip_rz_range: Option<f64> = None,
        /// Lowest pose the tool may be sent to.
        ee_pose_limit_min: Option<Pose> = None,
        /// Highest pose the tool may be sent to.
        ee_pose_limit_max: Option<Pose> = None,
        /// Stiffness and damping while moving.
        compliance_param: IndexMap<String, f64> = IndexMap::new(),
        /// Stiffness and damping while resetting.
        precision_param: IndexMap<String, f64> = IndexMap::new(),
        /// How far a gripper action must go to count.
        binary_gripper_threshold: f64 = 0.5,
        /// Penalise opening and closing.
        enable_gripper_penalty: bool = true,
        /// The penalty for opening or closing.
        gripper_penalty: f64 = 0.1,
        /// Where the arm's videos go.
        save_video_path: Option<String> = None,
        /// Resets between full joint resets.
        #[range(AT_LEAST_ONE)]
        joint_reset_cycle: u64 = 20_000,
        /// The task in words.
        task_description: String = String::new(),
        /// Steps the tool must stay at the target before the episode counts as a success.
        #[range(AT_LEAST_ONE)]
        success_hold_steps: u64 = 1,
        /// What is at the end of the arm.
        end_effector_type: String = "franka_gripper".into(),
        /// Episodes end by a person's key alone.
        manual_episode_control_only: bool = false,
    }
}
