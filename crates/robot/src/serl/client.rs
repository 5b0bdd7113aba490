//! A robot server as an arm.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use glam::DVec3;
use serde_json::{Value, json};
use thiserror::Error;

use super::http;
use crate::{Arm, ArmError, ArmState, Clock, Compliance, GripperCommand, JOINTS, ToolPose, Twist, Wrench};

/// The port of SERL's servers.
pub const SERL_PORT: u16 = 5000;
/// How long a server may take to answer what does not move the arm far.
const TIMEOUT: Duration = Duration::from_millis(250);
/// Starting or stopping the controller takes seconds.
const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(15);
/// Moving all joints home takes up to three quarters of a minute.
const JOINT_RESET_TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of an answer that a message repeats.
const REPEATED: usize = 200;

/// An arm behind SERL's HTTP dialect.
///
/// Tolerant of its ports: poses of 6 (angles) or 7 numbers (a quaternion), Jacobians flat or nested, texts or JSON as
/// confirmation, arms of fewer than seven joints, servers without a gripper. 409 means that the arm has stopped itself,
/// 503 that it is not ready.
#[derive(Clone)]
pub struct SerlArm {
    address: SocketAddr,
    host: String,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

/// An address at which no robot server can be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{address}` is no address of a robot server: {why}")]
pub struct AddressError {
    /// What was written.
    pub address: String,
    /// What is wrong with it.
    pub why: String,
}

impl SerlArm {
    /// The arm at an address such as `http://127.0.0.1:5000`. Nothing is sent yet.
    pub fn new(address: &str, clock: Arc<dyn Clock>) -> Result<Self, AddressError> {
        let wrong = |why: String| AddressError { address: address.into(), why };
        let (host, path) = http::parse_address(address, SERL_PORT).map_err(wrong)?;
        if path != "/" {
            return Err(wrong(format!("`{path}` is a route; give the server alone")));
        }
        let mut found = host.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let address = found.next().ok_or_else(|| wrong("the name leads nowhere".into()))?;
        Ok(Self { address, host, clock, timeout: TIMEOUT })
    }

    /// The same with another time-out for what should be answered at once.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.host
    }

    /// Starts the impedance controller.
    pub fn start_impedance(&self) -> Result<(), ArmError> {
        self.post_within("startimp", None, CONTROLLER_TIMEOUT).map(|_| ())
    }

    /// Stops it: the arm follows no targets any more.
    pub fn stop_impedance(&self) -> Result<(), ArmError> {
        self.post_within("stopimp", None, CONTROLLER_TIMEOUT).map(|_| ())
    }

    /// Wakes a gripper that has to be woken.
    pub fn activate_gripper(&self) -> Result<(), ArmError> {
        self.post("activate_gripper", None).map(|_| ())
    }

    /// Resets the gripper.
    pub fn reset_gripper(&self) -> Result<(), ArmError> {
        self.post("reset_gripper", None).map(|_| ())
    }

    /// Closes the gripper slowly; HIL-SERL's servers can.
    pub fn close_gripper_slowly(&self) -> Result<(), ArmError> {
        self.post("close_gripper_slow", None).map(|_| ())
    }

    /// Says what hangs on the flange: kilograms, its centre in metres, its inertia; HIL-SERL's servers listen.
    pub fn set_load(&self, mass_kg: f64, centre_m: DVec3, inertia_kg_m2: [f64; 9]) -> Result<(), ArmError> {
        let load = json!({
            "mass": mass_kg, "F_x_center_load": centre_m.to_array(), "load_inertia": inertia_kg_m2,
        });
        self.post("set_load", Some(&load)).map(|_| ())
    }

    /// The pose alone.
    pub fn pose(&self) -> Result<ToolPose, ArmError> {
        pose_of("getpos", &self.get("getpos")?)
    }

    /// The pose as x, y, z and angles about the base's fixed axes.
    pub fn pose_euler(&self) -> Result<ToolPose, ArmError> {
        pose_of("getpos_euler", &self.get("getpos_euler")?)
    }

    /// The velocity alone.
    pub fn velocity(&self) -> Result<Twist, ArmError> {
        velocity_of("getvel", &self.get("getvel")?)
    }

    /// What presses on the tool, alone.
    pub fn wrench(&self) -> Result<Wrench, ArmError> {
        let force = numbers("getforce", &self.get("getforce")?, "force")?;
        let torque = numbers("gettorque", &self.get("gettorque")?, "torque")?;
        Ok(Wrench {
            force_n: vector("getforce", "force", &force)?,
            torque_nm: vector("gettorque", "torque", &torque)?,
        })
    }

    /// Joint angles and speeds alone.
    pub fn joints(&self) -> Result<([f64; JOINTS], [f64; JOINTS]), ArmError> {
        let angles = joints("getq", &numbers("getq", &self.get("getq")?, "q")?)?;
        Ok((angles, joints("getdq", &numbers("getdq", &self.get("getdq")?, "dq")?)?))
    }

    /// How far the gripper is open.
    pub fn gripper_open(&self) -> Result<f64, ArmError> {
        let reply = self.get("get_gripper")?;
        numbers("get_gripper", &reply, "gripper")?
            .first()
            .copied()
            .ok_or_else(|| not_understood("get_gripper", "`gripper` is empty"))
    }

    /// The Jacobian, row by row: how each joint moves and turns the tool.
    pub fn jacobian(&self) -> Result<[[f64; JOINTS]; 6], ArmError> {
        let flat = numbers("getjacobian", &self.get("getjacobian")?, "jacobian")?;
        if flat.len() != 6 * JOINTS {
            return Err(not_understood("getjacobian", format!("{} numbers are no 6x7 matrix", flat.len())));
        }
        Ok(std::array::from_fn(|row| std::array::from_fn(|joint| flat[row * JOINTS + joint])))
    }

    /// Whether the server has a route; `None` where it does not say. Asks with OPTIONS, which runs no route: Flask answers
    /// it for routes it has, and others refuse the method and not the route.
    pub fn has_route(&self, route: &'static str) -> Result<Option<bool>, ArmError> {
        let place = (self.address, self.host.as_str());
        let (status, _) = http::exchange(place, ("OPTIONS", &format!("/{route}")), None, self.timeout)
            .map_err(|error| self.unreachable(route, &error))?;
        Ok(match status {
            404 => Some(false),
            200..300 | 405 => Some(true),
            _ => None,
        })
    }

    fn get(&self, route: &'static str) -> Result<Value, ArmError> {
        let body = self.post(route, None)?;
        serde_json::from_slice(&body).map_err(|error| not_understood(route, error.to_string()))
    }

    fn post(&self, route: &'static str, json: Option<&Value>) -> Result<Vec<u8>, ArmError> {
        self.post_within(route, json, self.timeout)
    }

    fn post_within(
        &self,
        route: &'static str,
        json: Option<&Value>,
        timeout: Duration,
    ) -> Result<Vec<u8>, ArmError> {
        let place = (self.address, self.host.as_str());
        let (status, body) = http::exchange(place, ("POST", &format!("/{route}")), json, timeout)
            .map_err(|error| self.unreachable(route, &error))?;
        let message = || repeated(&body);
        match status {
            200..300 => Ok(body),
            409 => Err(ArmError::Reflex { route, message: message() }),
            503 => Err(ArmError::NotReady { route, status, message: message() }),
            // Until the first state has arrived, and for ever with --gripper_type=None.
            500 if route == "getstate" => Err(ArmError::NotReady { route, status, message: String::new() }),
            _ => Err(ArmError::Refused { route, status, message: message() }),
        }
    }

    fn unreachable(&self, route: &'static str, error: &std::io::Error) -> ArmError {
        let address = format!("http://{}", self.host);
        match error.kind() {
            std::io::ErrorKind::InvalidData => not_understood(route, error.to_string()),
            std::io::ErrorKind::TimedOut => {
                ArmError::Unreachable { address, route, why: "no answer in time".into() }
            }
            std::io::ErrorKind::UnexpectedEof => {
                ArmError::Unreachable { address, route, why: "it hung up".into() }
            }
            _ => ArmError::Unreachable { address, route, why: error.to_string() },
        }
    }
}

impl Arm for SerlArm {
    fn state(&mut self) -> Result<ArmState, ArmError> {
        const ROUTE: &str = "getstate";
        let time = self.clock.now();
        let reply = self.get(ROUTE)?;
        let three = |key| vector(ROUTE, key, &numbers(ROUTE, &reply, key)?);
        let seven = |key| match reply.get(key) {
            None => Ok([0.0; JOINTS]),
            Some(_) => joints(ROUTE, &numbers(ROUTE, &reply, key)?),
        };
        let gripper = reply.get("gripper_pos").map(|_| numbers(ROUTE, &reply, "gripper_pos")).transpose()?;
        Ok(ArmState {
            pose: pose_of(ROUTE, &reply)?,
            velocity: velocity_of(ROUTE, &reply)?,
            wrench: Wrench { force_n: three("force")?, torque_nm: three("torque")? },
            joints_rad: seven("q")?,
            joint_speeds_rad_s: seven("dq")?,
            gripper_open: gripper.and_then(|numbers| numbers.first().copied()),
            time,
        })
    }

    fn target(&mut self, pose: &ToolPose) -> Result<(), ArmError> {
        self.post("pose", Some(&json!({ "arr": pose.to_xyz_quat() }))).map(|_| ())
    }

    fn gripper(&mut self, command: GripperCommand) -> Result<(), ArmError> {
        match command {
            GripperCommand::Open => self.post("open_gripper", None),
            GripperCommand::Close => self.post("close_gripper", None),
            // As the Franka hand's server reads it: 255 is open.
            GripperCommand::To(open) => {
                let position = (255.0 * open.clamp(0.0, 1.0)).round();
                self.post("move_gripper", Some(&json!({ "gripper_pos": position as u8 })))
            }
        }
        .map(|_| ())
    }

    fn compliance(&mut self, compliance: &Compliance) -> Result<(), ArmError> {
        let values = compliance.values().iter().map(|(name, value)| ((*name).to_string(), json!(value)));
        self.post("update_param", Some(&Value::Object(values.collect()))).map(|_| ())
    }

    fn recover(&mut self) -> Result<(), ArmError> {
        self.post("clearerr", None).map(|_| ())
    }

    fn joint_reset(&mut self) -> Result<(), ArmError> {
        let timeout = self.clock.in_wall_time(JOINT_RESET_TIMEOUT).max(self.timeout);
        self.post_within("jointreset", None, timeout).map(|_| ())
    }
}

fn not_understood(route: &'static str, why: impl Into<String>) -> ArmError {
    ArmError::Reply { route, why: why.into() }
}

/// The words of an answer: a text, or what JSON has to say.
fn repeated(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let json: Option<Value> = serde_json::from_str(&text).ok();
    let keys = ["error", "message", "detail"];
    let said = json.as_ref().and_then(|json| keys.iter().find_map(|key| json.get(key)?.as_str()));
    let words = said.unwrap_or(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.starts_with('<') { String::new() } else { words.chars().take(REPEATED).collect() }
}

/// All numbers under a key, however they are nested.
fn numbers(route: &'static str, reply: &Value, key: &str) -> Result<Vec<f64>, ArmError> {
    let value = reply.get(key).ok_or_else(|| not_understood(route, format!("it has no `{key}`")))?;
    let mut flat = Vec::new();
    let all_numbers = match value {
        Value::Array(items) => items.iter().all(|item| match item {
            Value::Array(row) => row.iter().all(|number| push(&mut flat, number)),
            number => push(&mut flat, number),
        }),
        number => push(&mut flat, number),
    };
    if all_numbers {
        Ok(flat)
    } else {
        Err(not_understood(route, format!("`{key}` has something that is no finite number")))
    }
}

fn push(flat: &mut Vec<f64>, number: &Value) -> bool {
    match number.as_f64() {
        Some(number) if number.is_finite() => {
            flat.push(number);
            true
        }
        _ => false,
    }
}

fn vector(route: &'static str, key: &str, numbers: &[f64]) -> Result<DVec3, ArmError> {
    let three: Result<[f64; 3], _> = numbers.try_into();
    three
        .map(DVec3::from_array)
        .map_err(|_| not_understood(route, format!("`{key}` has {} numbers instead of 3", numbers.len())))
}

fn pose_of(route: &'static str, reply: &Value) -> Result<ToolPose, ArmError> {
    let numbers = numbers(route, reply, "pose")?;
    let pose = match numbers.len() {
        7 => ToolPose::from_xyz_quat(std::array::from_fn(|at| numbers[at])),
        6 => ToolPose::from_xyz_euler(std::array::from_fn(|at| numbers[at])),
        _ => None,
    };
    pose.ok_or_else(|| {
        not_understood(
            route,
            format!("`pose` is {numbers:?}, neither x, y, z and a unit quaternion nor and angles"),
        )
    })
}

fn velocity_of(route: &'static str, reply: &Value) -> Result<Twist, ArmError> {
    let numbers = numbers(route, reply, "vel")?;
    if numbers.len() != 6 {
        return Err(not_understood(route, format!("`vel` has {} numbers instead of 6", numbers.len())));
    }
    Ok(Twist {
        linear_m_s: DVec3::from_slice(&numbers[..3]),
        angular_rad_s: DVec3::from_slice(&numbers[3..]),
    })
}

/// Arms of six joints have a seventh that is 0.
fn joints(route: &'static str, numbers: &[f64]) -> Result<[f64; JOINTS], ArmError> {
    if numbers.len() > JOINTS {
        return Err(not_understood(route, format!("{} joints are more than {JOINTS}", numbers.len())));
    }
    Ok(std::array::from_fn(|joint| numbers.get(joint).copied().unwrap_or(0.0)))
}
