//! The simulated robot behind the routes of its server.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Faults, Shared, frames, millis};
use crate::serl::http::{Reply, Request};
use crate::serl::server::{self, Answer, Backend, Refusal, Reported};
use crate::{Compliance, GripperCommand, ToolPose};

/// How long making a scene may take.
const SCENE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long moving home may take, on the robot's clock.
const HOME_TIMEOUT: Duration = Duration::from_secs(10);
/// Home is this near.
const AT_HOME_M: f64 = 0.01;

pub(super) struct Simulated {
    shared: Arc<Shared>,
}

impl Simulated {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Success, facts and the full state.
    fn truth(&self) -> Reply {
        let scene = self.shared.told().scene;
        let snapshot = self.shared.snapshot();
        let Some(snapshot) = snapshot.as_ref() else {
            return Reply::text(503, "the simulation has not begun");
        };
        let fact = |(name, values): &(Arc<str>, Vec<f32>)| {
            (name.to_string(), values.first().map_or(Value::Null, |value| json!(value)))
        };
        let facts: Map<String, Value> = snapshot.facts.iter().map(fact).collect();
        Reply::json(&json!({
            "success": snapshot.success, "facts": facts, "state": snapshot.state, "scene": scene,
            "time": snapshot.time.elapsed().as_secs_f64(),
        }))
    }

    /// Makes a scene, and waits until it stands.
    fn scene(&self, request: &Request) -> Result<Reply, Refusal> {
        let wanted = if request.body.is_empty() { json!({}) } else { server::body(request)? };
        let mut told = self.shared.told();
        let scene = match wanted.get("scene") {
            None => told.scene + 1,
            Some(scene) => {
                scene.as_u64().ok_or_else(|| (400, "`scene` must be a whole number".to_string()))?
            }
        };
        (told.scene, told.scene_wanted) = (scene, true);
        let waiting = |told: &mut super::Told| told.scene_wanted && told.broken.is_none() && !told.killed;
        let waited = self.shared.scene_made.wait_timeout_while(told, SCENE_TIMEOUT, waiting);
        let (told, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        match &told.broken {
            Some(why) => Err((500, why.clone())),
            None if timeout.timed_out() => Err((503, "the scene took too long".into())),
            None => Ok(Reply::json(&json!({ "scene": scene }))),
        }
    }

    fn set_faults(&self, request: &Request) -> Result<Reply, Refusal> {
        server::body(request)?;
        let faults = Faults::from_json(&request.body).map_err(|why| (400, why))?;
        let now = self.shared.clock.now();
        let mut told = self.shared.told();
        told.refuse_until = now + millis(faults.refuse_for_ms);
        told.pause_until = now + millis(faults.pause_for_ms);
        told.killed |= faults.kill;
        told.faults = faults;
        Ok(Reply::json(&json!(told.faults)))
    }
}

impl Backend for Simulated {
    fn reported(&self) -> Result<Reported, Refusal> {
        // As SERL's, which stumble over a state that is not there yet.
        let missing = || (500, "Internal Server Error".to_string());
        self.shared.snapshot().as_ref().map(|snapshot| snapshot.reported.clone()).ok_or_else(missing)
    }

    fn target(&self, pose: ToolPose) -> Result<(), Refusal> {
        if let Some(watch) = self.shared.watch().as_mut() {
            let tool = self.shared.snapshot().as_ref().map(|snapshot| snapshot.reported.pose);
            watch.target(pose, tool);
        }
        let mut told = self.shared.told();
        if told.faults.reflex {
            // A controller in a reflex forgets its targets.
            told.target = None;
            let refused = Err((409, json!({ "error": "the robot is in a reflex" }).to_string()));
            return if told.faults.silent_reflex { Ok(()) } else { refused };
        }
        told.target = Some(pose);
        told.target_at = self.shared.clock.now();
        told.is_holding = false;
        Ok(())
    }

    fn gripper(&self, command: GripperCommand) -> Result<(), Refusal> {
        let mut told = self.shared.told();
        if !told.faults.stuck_gripper {
            told.gripper = match command {
                GripperCommand::Open => 1.0,
                GripperCommand::Close => -1.0,
                GripperCommand::To(open) => 2.0 * open - 1.0,
            };
        }
        Ok(())
    }

    fn clear_error(&self) -> Result<(), Refusal> {
        let mut told = self.shared.told();
        if told.faults.reflex {
            (told.faults.reflex, told.target) = (false, None);
        }
        Ok(())
    }

    fn joint_reset(&self, is_wanted: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let home = self.shared.told().home.ok_or_else(|| (500, "there is no home yet".to_string()))?;
        let deadline = self.shared.clock.now() + HOME_TIMEOUT;
        while self.shared.clock.now() < deadline && !self.shared.has_ended() {
            self.target(home)?;
            let pose = self.reported()?.pose;
            if pose.distance_m(home) < AT_HOME_M {
                return Ok(());
            }
            if !is_wanted() {
                self.target(pose)?;
                return Err((503, "the arm was stopped on its way home".into()));
            }
            self.shared.sleep(Duration::from_millis(50));
        }
        Err((500, "the arm did not reach its home".into()))
    }

    fn impedance(&self, is_on: bool) -> Result<(), Refusal> {
        let mut told = self.shared.told();
        (told.impedance_off, told.target) = (!is_on, None);
        Ok(())
    }

    fn compliance(&self, compliance: &Compliance) -> Result<(), Refusal> {
        self.shared.told().spring.set(compliance);
        Ok(())
    }

    fn before(&self, route: &str) -> Option<Answer> {
        if route.starts_with("plaudit/") {
            return None; // what steers the faults does not suffer from them
        }
        while self.shared.is_paused() && !self.shared.has_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.shared.has_ended() {
            return Some(Answer::HangUp);
        }
        let faults = self.shared.faults();
        let is_meant = faults.routes.is_empty() || faults.routes.iter().any(|known| known == route);
        if !is_meant || route.starts_with("camera/") {
            return None;
        }
        let delay = self.shared.dice.delay(&faults);
        if !delay.is_zero() {
            self.shared.sleep(delay);
        }
        let fails = self.shared.dice.hits(&faults, "error", faults.error_rate);
        fails.then(|| Answer::Reply(Reply::text(500, "Internal Server Error")))
    }

    fn other(&self, request: &Request) -> Option<Answer> {
        let route = request.path.trim_start_matches('/');
        if let Some(camera) = route.strip_prefix("camera/") {
            self.shared.cameras.iter().find(|known| &***known == camera)?;
            let (shared, camera) = (self.shared.clone(), camera.to_string());
            let stream = move |stream: &std::net::TcpStream| frames::stream_frames(&shared, &camera, stream);
            return Some(Answer::Stream(Box::new(stream)));
        }
        let is_post = request.method == "POST";
        let reply = match route {
            "plaudit/truth" => Ok(self.truth()),
            "plaudit/scene" if is_post => self.scene(request),
            "plaudit/faults" if is_post => self.set_faults(request),
            "plaudit/faults" => Ok(Reply::json(&json!(self.shared.faults()))),
            "plaudit/scene" => Err((405, "Method Not Allowed".into())),
            _ => return None,
        };
        Some(Answer::Reply(reply.unwrap_or_else(|(status, text)| Reply::text(status, text))))
    }

    fn refuses_connections(&self) -> bool {
        let (now, told) = (self.shared.clock.now(), self.shared.told());
        told.killed || now < told.refuse_until
    }
}
