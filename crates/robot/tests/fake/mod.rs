//! An arm on a virtual clock that follows its targets with lag, writes down what it is told, and breaks on demand.

#![allow(dead_code)] // each test file uses its own part of it

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glam::{DQuat, DVec3};
use plaudit_robot::{
    Arm, ArmError, ArmState, AxisBox, Clock, Compliance, GripperCommand, JOINTS, Limits, Time, ToolPose,
    Twist, VirtualClock, Workspace, Wrench,
};

/// The tool pointing down.
pub(crate) fn down() -> DQuat {
    DQuat::from_rotation_x(std::f64::consts::PI)
}

/// A workspace with a box in it to stay out of.
pub(crate) fn limits() -> Limits {
    let bounds = AxisBox { min_m: DVec3::new(0.3, -0.2, 0.05), max_m: DVec3::new(0.6, 0.2, 0.4) };
    let post = AxisBox { min_m: DVec3::new(0.5, 0.05, 0.0), max_m: DVec3::new(0.55, 0.1, 0.2) };
    let workspace = Workspace::new(bounds, down(), [0.2, 0.2, 0.8]).unwrap().with_keep_out(post).unwrap();
    Limits::new(workspace, 10.0)
}

/// Something the arm was told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    /// A target, and where the arm was.
    Target {
        target: ToolPose,
        measured: ToolPose,
    },
    Gripper(GripperCommand),
    Recover,
    JointReset,
}

/// What the arm is like now.
pub(crate) struct World {
    pub(crate) pose: ToolPose,
    pub(crate) target: Option<ToolPose>,
    pub(crate) told: Vec<(Time, Told)>,
    /// The arm has stopped itself.
    pub(crate) in_reflex: bool,
    /// The arm says so; SERL's do not.
    pub(crate) reports_reflex: bool,
    pub(crate) is_reachable: bool,
    /// Nobody answers between these seconds.
    pub(crate) outage: Range<f64>,
    pub(crate) wrench: Wrench,
    /// The state shows the negative quaternion.
    pub(crate) flip: bool,
    /// The state shows NaN.
    pub(crate) nan: bool,
    /// How much of the way to its target the arm covers in a second.
    pub(crate) rate_hz: f64,
    moved_until: Time,
}

/// The arm. Clones are the same one.
#[derive(Clone)]
pub(crate) struct FakeArm {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) clock: Arc<VirtualClock>,
}

impl FakeArm {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> Self {
        let pose = ToolPose::new(DVec3::new(0.45, -0.05, 0.2), down());
        let world = World {
            pose,
            target: None,
            told: Vec::new(),
            in_reflex: false,
            reports_reflex: true,
            is_reachable: true,
            outage: 0.0..0.0,
            wrench: Wrench::default(),
            flip: false,
            nan: false,
            rate_hz: 8.0,
            moved_until: clock.now(),
        };
        Self { world: Arc::new(Mutex::new(world)), clock }
    }

    /// The world at this time.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        let (mut world, now) = (self.world.lock().unwrap_or_else(PoisonError::into_inner), self.clock.now());
        let elapsed = now.since(world.moved_until).as_secs_f64();
        world.moved_until = now;
        if let (Some(target), false) = (world.target, world.in_reflex) {
            let part = 1.0 - (-world.rate_hz * elapsed).exp();
            let (translation, rotation) = target.motion_from(world.pose);
            world.pose = world.pose.moved(translation * part, rotation * part);
        }
        world
    }

    pub(crate) fn targets(&self) -> Vec<ToolPose> {
        let target = |told: &(Time, Told)| match told.1 {
            Told::Target { target, .. } => Some(target),
            _ => None,
        };
        self.world().told.iter().filter_map(target).collect()
    }

    fn tell(&self, told: Told) {
        let now = self.clock.now();
        self.world().told.push((now, told));
    }

    fn reach(&self, route: &'static str) -> Result<(), ArmError> {
        let why = "connection refused".to_string();
        let error = ArmError::Unreachable { address: "nowhere".into(), route, why };
        let world = self.world();
        let is_out = world.outage.contains(&self.clock.now().elapsed().as_secs_f64());
        if world.is_reachable && !is_out { Ok(()) } else { Err(error) }
    }
}

impl Arm for FakeArm {
    fn state(&mut self) -> Result<ArmState, ArmError> {
        self.reach("getstate")?;
        let (time, world) = (self.clock.now(), self.world());
        let mut pose = world.pose;
        if world.flip {
            pose.rotation = -pose.rotation;
        }
        if world.nan {
            pose.position_m.y = f64::NAN;
        }
        Ok(ArmState {
            pose,
            velocity: Twist::default(),
            wrench: world.wrench,
            joints_rad: [0.0; JOINTS],
            joint_speeds_rad_s: [0.0; JOINTS],
            gripper_open: Some(1.0),
            time,
        })
    }

    fn target(&mut self, target: &ToolPose) -> Result<(), ArmError> {
        self.reach("pose")?;
        let now = self.clock.now();
        let mut world = self.world();
        if world.in_reflex && world.reports_reflex {
            return Err(ArmError::Reflex { route: "pose", message: String::new() });
        }
        let measured = world.pose;
        world.told.push((now, Told::Target { target: *target, measured }));
        world.target = Some(*target);
        Ok(())
    }

    fn gripper(&mut self, command: GripperCommand) -> Result<(), ArmError> {
        self.reach("gripper")?;
        self.tell(Told::Gripper(command));
        Ok(())
    }

    fn compliance(&mut self, _: &Compliance) -> Result<(), ArmError> {
        self.reach("update_param")
    }

    fn recover(&mut self) -> Result<(), ArmError> {
        self.reach("clearerr")?;
        let now = self.clock.now();
        let mut world = self.world();
        world.in_reflex = false;
        world.target = None;
        world.told.push((now, Told::Recover));
        Ok(())
    }

    fn joint_reset(&mut self) -> Result<(), ArmError> {
        self.reach("jointreset")?;
        self.tell(Told::JointReset);
        Ok(())
    }
}
