//! The server's side: every route of SERL's, for whatever robot is behind them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{self, Reply, Request};
use crate::{Compliance, GripperCommand, StopToken, ToolPose};

/// How long a request may take to arrive and a reply to leave.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More connections at once than this are turned away.
const MOST_CONNECTIONS: usize = 64;

/// What a robot server knows about its robot, in the dialect's own numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reported {
    pub(crate) pose: ToolPose,
    pub(crate) vel: [f64; 6],
    pub(crate) force: [f64; 3],
    pub(crate) torque: [f64; 3],
    pub(crate) q: [f64; 7],
    pub(crate) dq: [f64; 7],
    pub(crate) jacobian: [[f64; 7]; 6],
    /// 1 is open.
    pub(crate) gripper_pos: f64,
}

/// What hangs on the flange.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    pub(crate) mass_kg: f64,
    pub(crate) centre_m: [f64; 3],
    pub(crate) inertia_kg_m2: [f64; 9],
}

/// A refusal: status and text.
pub(crate) type Refusal = (u16, String);

/// Writes a reply that goes on until the client hangs up.
pub(crate) type StreamWriter = Box<dyn FnOnce(&TcpStream) -> io::Result<()>>;

/// What a connection gets.
pub(crate) enum Answer {
    Reply(Reply),
    /// Nothing: the connection is closed.
    HangUp,
    /// The connection itself, for as long as it takes.
    Stream(StreamWriter),
}

/// A robot behind the routes.
pub(crate) trait Backend: Send + Sync {
    /// What it reports, once there is something.
    fn reported(&self) -> Result<Reported, Refusal>;
    fn target(&self, pose: ToolPose) -> Result<(), Refusal>;
    fn gripper(&self, command: GripperCommand) -> Result<(), Refusal>;
    fn clear_error(&self) -> Result<(), Refusal>;
    /// Takes as long as the joints move. Whoever does not want it any more has hung up.
    fn joint_reset(&self, is_wanted: &dyn Fn() -> bool) -> Result<(), Refusal>;
    /// Whether targets are followed.
    fn impedance(&self, is_on: bool) -> Result<(), Refusal>;
    fn compliance(&self, compliance: &Compliance) -> Result<(), Refusal>;
    /// What the arm carries, for robots that feel it.
    fn load(&self, _load: &Load) -> Result<(), Refusal> {
        Ok(())
    }
    /// Before a route is served: what a fault makes of it.
    fn before(&self, _route: &str) -> Option<Answer> {
        None
    }
    /// Routes that are not SERL's.
    fn other(&self, _request: &Request) -> Option<Answer> {
        None
    }
    /// While this says so nobody listens.
    fn refuses_connections(&self) -> bool {
        false
    }
}

/// Routes without a body that have a text as confirmation, or JSON as an answer.
const ROUTES: &[&str] = &[
    "getstate",
    "getpos",
    "getpos_euler",
    "getvel",
    "getforce",
    "gettorque",
    "getq",
    "getdq",
    "getjacobian",
    "get_gripper",
    "pose",
    "clearerr",
    "jointreset",
    "startimp",
    "stopimp",
    "update_param",
    "open_gripper",
    "close_gripper",
    "close_gripper_slow",
    "move_gripper",
    "activate_gripper",
    "reset_gripper",
    "set_load",
];

/// What the route of a request gives, for somebody who waits for it as long as `is_wanted`.
pub(crate) fn answer(backend: &dyn Backend, request: &Request, is_wanted: &dyn Fn() -> bool) -> Answer {
    let route = request.path.trim_start_matches('/');
    if let Some(answer) = backend.before(route) {
        return answer;
    }
    if !ROUTES.contains(&route) {
        let not_found = || Answer::Reply(Reply::text(404, "Not Found"));
        return backend.other(request).unwrap_or_else(not_found);
    }
    if request.method != "POST" {
        return Answer::Reply(Reply::text(405, "Method Not Allowed"));
    }
    let reply = serve_route(backend, route, request, is_wanted);
    Answer::Reply(reply.unwrap_or_else(|(status, text)| Reply::text(status, text)))
}

fn serve_route(
    backend: &dyn Backend,
    route: &str,
    request: &Request,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Reply, Refusal> {
    let confirmed = |text: &str| Ok(Reply::text(200, text));
    match route {
        "pose" => {
            let numbers = numbers(&body(request)?, "arr", 7)?;
            let pose = ToolPose::from_xyz_quat(std::array::from_fn(|at| numbers[at]));
            backend
                .target(pose.ok_or_else(|| (400, "`arr` is no pose: x, y, z, then x, y, z, w".into()))?)?;
            confirmed("Moved")
        }
        "clearerr" => backend.clear_error().and_then(|()| confirmed("Clear")),
        "jointreset" => backend.joint_reset(is_wanted).and_then(|()| confirmed("Reset Joint")),
        "startimp" => backend.impedance(true).and_then(|()| confirmed("Started impedance")),
        "stopimp" => backend.impedance(false).and_then(|()| confirmed("Stopped impedance")),
        "update_param" => {
            backend.compliance(&compliance(&body(request)?)?)?;
            confirmed("Updated compliance parameters")
        }
        "open_gripper" => backend.gripper(GripperCommand::Open).and_then(|()| confirmed("Opened")),
        "close_gripper" | "close_gripper_slow" => {
            backend.gripper(GripperCommand::Close).and_then(|()| confirmed("Closed"))
        }
        "move_gripper" => {
            let position = numbers(&body(request)?, "gripper_pos", 1)?[0];
            if !(0.0..=255.0).contains(&position) {
                return Err((400, "`gripper_pos` is not within 0 and 255".into()));
            }
            backend.gripper(GripperCommand::To(position / 255.0))?;
            confirmed("Moved Gripper")
        }
        "activate_gripper" => confirmed("Activated"),
        "reset_gripper" => confirmed("Reset"),
        "set_load" => {
            backend.load(&load(&body(request)?)?)?;
            confirmed("Set Load")
        }
        _ => Ok(Reply::json(&report(route, &backend.reported()?))),
    }
}

/// What a route that asks something gets.
fn report(route: &str, reported: &Reported) -> Value {
    let Reported { pose, vel, force, torque, q, dq, jacobian, gripper_pos } = reported;
    match route {
        "getpos" => json!({ "pose": pose.to_xyz_quat() }),
        "getpos_euler" => json!({ "pose": pose.to_xyz_euler() }),
        "getvel" => json!({ "vel": vel }),
        "getforce" => json!({ "force": force }),
        "gettorque" => json!({ "torque": torque }),
        "getq" => json!({ "q": q }),
        "getdq" => json!({ "dq": dq }),
        "getjacobian" => json!({ "jacobian": jacobian }),
        "get_gripper" => json!({ "gripper": gripper_pos }),
        _ => json!({
            "pose": pose.to_xyz_quat(), "vel": vel, "force": force, "torque": torque, "q": q, "dq": dq,
            "jacobian": jacobian, "gripper_pos": gripper_pos,
        }),
    }
}

/// The body as JSON, which must be announced as such.
pub(crate) fn body(request: &Request) -> Result<Value, Refusal> {
    if !request.content_type.starts_with("application/json") {
        return Err((
            415,
            "Did not attempt to load JSON data: the Content-Type is not application/json".into(),
        ));
    }
    serde_json::from_slice(&request.body).map_err(|error| (400, format!("the body is no JSON: {error}")))
}

/// So many finite numbers under a key; one may stand alone.
fn numbers(body: &Value, key: &str, count: usize) -> Result<Vec<f64>, Refusal> {
    let wrong = || (400, format!("`{key}` must be {count} finite numbers"));
    let value = body.get(key).ok_or_else(wrong)?;
    let numbers: Option<Vec<f64>> = match value {
        Value::Array(items) => items.iter().map(Value::as_f64).collect(),
        alone => alone.as_f64().map(|number| vec![number]),
    };
    let numbers = numbers.filter(|numbers| numbers.len() == count && numbers.iter().all(|n| n.is_finite()));
    numbers.ok_or_else(wrong)
}

fn compliance(body: &Value) -> Result<Compliance, Refusal> {
    let object = body.as_object().ok_or_else(|| (400, "the body is no object".to_string()))?;
    let number = |(key, value): (&String, &Value)| {
        let number = value.as_f64().ok_or_else(|| (400, format!("`{key}` is no number")))?;
        Ok((key.clone(), number))
    };
    let values = object.iter().map(number).collect::<Result<Vec<_>, Refusal>>()?;
    let values = values.iter().map(|(key, value)| (key.as_str(), *value));
    Compliance::new(values).map_err(|error| (400, error.to_string()))
}

fn load(body: &Value) -> Result<Load, Refusal> {
    let mass_kg = numbers(body, "mass", 1)?[0];
    let (centre, inertia) = (numbers(body, "F_x_center_load", 3)?, numbers(body, "load_inertia", 9)?);
    Ok(Load {
        mass_kg,
        centre_m: std::array::from_fn(|at| centre[at]),
        inertia_kg_m2: std::array::from_fn(|at| inertia[at]),
    })
}

/// A server that answers on its own threads until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    ended: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address`; port 0 is any that is free.
    pub(crate) fn start(address: SocketAddr, backend: Arc<dyn Backend>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let ended = StopToken::new();
        let has_ended = ended.clone();
        let accept = move || accept_all(listener, address, &backend, &has_ended);
        let thread = std::thread::Builder::new().name("robot-server".into()).spawn(accept)?;
        Ok(Self { address, ended, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.raise();
        wake(self.address);
        if let Some(thread) = self.thread.take() {
            // Nothing is left to do for a thread that panicked.
            let _ = thread.join();
        }
    }
}

/// Makes a thread that waits for connections look around.
pub(crate) fn wake(address: SocketAddr) {
    // If nobody listens there is nobody to wake.
    let _ = TcpStream::connect_timeout(&address, Duration::from_millis(200));
}

fn accept_all(mut listener: TcpListener, address: SocketAddr, backend: &Arc<dyn Backend>, ended: &StopToken) {
    let open = Arc::new(AtomicUsize::new(0));
    while !ended.is_raised() {
        let accepted = listener.accept();
        if ended.is_raised() {
            return;
        }
        if backend.refuses_connections() {
            drop(listener);
            while backend.refuses_connections() && !ended.is_raised() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let Some(again) = bind_again(address, ended) else { return };
            listener = again;
            continue;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(Duration::from_millis(5)); // out of file descriptors, perhaps not for long
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (backend, count) = (backend.clone(), open.clone());
        let serve = move || {
            serve_connection(&stream, &*backend);
            count.fetch_sub(1, Ordering::SeqCst);
        };
        if std::thread::Builder::new().name("robot-connection".into()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn bind_again(address: SocketAddr, ended: &StopToken) -> Option<TcpListener> {
    while !ended.is_raised() {
        if let Ok(listener) = TcpListener::bind(address) {
            return Some(listener);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Errors of a connection end it, and nothing else: its client is gone, or speaks something else.
fn serve_connection(stream: &TcpStream, backend: &dyn Backend) {
    let _ = stream.set_nodelay(true);
    let answer = match http::read_request(stream, TIMEOUT) {
        Ok(request) => answer(backend, &request, &|| !has_hung_up(stream)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Answer::Reply(Reply::text(400, format!("Bad Request: {error}")))
        }
        Err(_) => Answer::HangUp,
    };
    let _ = match answer {
        Answer::Reply(reply) => http::write_reply(stream, &reply, TIMEOUT),
        Answer::Stream(serve) => serve(stream),
        Answer::HangUp => Ok(()),
    };
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// Whether the client is gone: it closed its end, or its machine says that there is none.
fn has_hung_up(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut [0]);
    let is_open = match peeked {
        Ok(count) => count > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    };
    stream.set_nonblocking(false).is_err() || !is_open
}
