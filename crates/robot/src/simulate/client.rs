//! What only a simulated robot has, from outside: its truth, its scenes, its faults.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Faults;
use crate::serl::http;
use crate::{AddressError, ArmError, SERL_PORT};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to make a scene.
const SCENE_TIMEOUT: Duration = Duration::from_secs(70);

/// The ground truth of a simulated robot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Truth {
    /// Whether the task is solved.
    pub success: bool,
    /// The environment's own state row.
    pub state: Vec<f32>,
    /// The number of the scene.
    pub scene: u64,
    /// Seconds on the robot's clock.
    pub time: f64,
}

/// The side of a simulated robot server that a robot does not have.
#[derive(Debug, Clone)]
pub struct SceneClient {
    address: SocketAddr,
    host: String,
}

impl SceneClient {
    /// For the server at `address`, such as `http://127.0.0.1:5000`. Nothing is sent yet.
    pub fn new(address: &str) -> Result<Self, AddressError> {
        let wrong = |why: String| AddressError { address: address.into(), why };
        let (host, _) = http::parse_address(address, SERL_PORT).map_err(wrong)?;
        let mut found = host.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let address = found.next().ok_or_else(|| wrong("the name leads nowhere".into()))?;
        Ok(Self { address, host })
    }

    /// The truth now.
    pub fn truth(&self) -> Result<Truth, ArmError> {
        let body = self.post("plaudit/truth", None, TIMEOUT)?;
        serde_json::from_slice(&body)
            .map_err(|error| ArmError::Reply { route: "plaudit/truth", why: error.to_string() })
    }

    /// A person resets the table: the next scene, or the one with this number.
    pub fn reset_scene(&self, scene: Option<u64>) -> Result<(), ArmError> {
        let wanted = scene.map_or_else(|| json!({}), |scene| json!({ "scene": scene }));
        self.post("plaudit/scene", Some(&wanted), SCENE_TIMEOUT).map(|_| ())
    }

    /// What goes wrong from now on, instead of what went wrong before.
    pub fn set_faults(&self, faults: &Faults) -> Result<(), ArmError> {
        self.post("plaudit/faults", Some(&json!(faults)), TIMEOUT).map(|_| ())
    }

    fn post(
        &self,
        route: &'static str,
        json: Option<&Value>,
        timeout: Duration,
    ) -> Result<Vec<u8>, ArmError> {
        let place = (self.address, self.host.as_str());
        let reply = http::exchange(place, ("POST", &format!("/{route}")), json, timeout);
        let (status, body) = reply.map_err(|error| ArmError::Unreachable {
            address: format!("http://{}", self.host),
            route,
            why: error.to_string(),
        })?;
        match status {
            200 => Ok(body),
            _ => {
                let message = String::from_utf8_lossy(&body).chars().take(200).collect();
                Err(ArmError::Refused { route, status, message })
            }
        }
    }
}
