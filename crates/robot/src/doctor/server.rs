//! Whether a robot server answers, what it speaks, and how fast.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Finding, quantile};
use crate::{Arm, ArmError, ArmState, SerlArm};

const ABOUT: &str = "server";
/// How many states are read, and how long that may take.
const ASKS: usize = 100;
const LONGEST: Duration = Duration::from_secs(10);
/// Routes that plaudit cannot do without.
const NEEDED: [&str; 5] = ["getstate", "getpos", "pose", "clearerr", "update_param"];
/// Routes it uses for some tasks.
const USED: [&str; 4] = ["jointreset", "open_gripper", "close_gripper", "move_gripper"];
/// Routes that HIL-SERL's servers have and SERL's do not.
const HIL_SERL: [&str; 2] = ["set_load", "close_gripper_slow"];
/// A route that only the simulated robot has.
const SIMULATED: &str = "plaudit/truth";

/// Whose routes a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// SERL's.
    Serl,
    /// HIL-SERL's, which adds to SERL's.
    HilSerl,
    /// plaudit's simulated robot, which has HIL-SERL's.
    Simulated,
    /// The server does not say which routes it has.
    Unknown,
}

/// How long answers took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latencies {
    /// Half of them were quicker.
    pub median_ms: f64,
    /// All but one in a hundred were quicker.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// What is known about a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerCheck {
    /// Whose routes it has.
    pub dialect: Dialect,
    /// Routes that plaudit uses and the server does not have.
    pub missing: Vec<&'static str>,
    /// How long reading the state took.
    pub state: Latencies,
    /// States read per second, one after the other.
    pub asked_hz: f64,
    /// How often per second the state that was read was another one: an arm at rest may report the same for ever.
    pub changed_hz: f64,
    /// States that were asked for and did not come.
    pub failed: usize,
    /// Of so many.
    pub asked: usize,
    /// Whether it has a gripper.
    pub has_gripper: bool,
    /// The newest state.
    #[serde(skip)]
    pub newest: ArmState,
}

/// Reads the state many times. Routes are asked for with OPTIONS, which moves nothing.
pub fn check_server(arm: &mut SerlArm) -> Result<ServerCheck, ArmError> {
    let mut newest = arm.state()?;
    let mut has = Vec::new();
    for route in NEEDED.into_iter().chain(USED).chain(HIL_SERL).chain([SIMULATED]) {
        has.push((route, arm.has_route(route)?));
    }
    let begun = Instant::now();
    let (mut took_ms, mut asked, mut changed) = (Vec::with_capacity(ASKS), 0, 0);
    while asked < ASKS && begun.elapsed() < LONGEST {
        let sent = Instant::now();
        asked += 1;
        if let Ok(state) = arm.state() {
            took_ms.push(1e3 * sent.elapsed().as_secs_f64());
            changed += usize::from(ArmState { time: newest.time, ..state.clone() } != newest);
            newest = state;
        }
    }
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    let failed = asked - took_ms.len();
    took_ms.sort_by(f64::total_cmp);
    let max_ms = took_ms.last().copied().unwrap_or(0.0);
    let missing = |routes: &[&'static str]| -> Vec<&'static str> {
        let is_missing = |route: &&'static str| has.contains(&(*route, Some(false)));
        routes.iter().copied().filter(is_missing).collect()
    };
    Ok(ServerCheck {
        dialect: dialect(&has),
        missing: [missing(&NEEDED), missing(&USED)].concat(),
        state: Latencies { median_ms: quantile(&took_ms, 0.5), p99_ms: quantile(&took_ms, 0.99), max_ms },
        asked_hz: took_ms.len() as f64 / seconds,
        changed_hz: changed as f64 / seconds,
        failed,
        asked,
        has_gripper: newest.gripper_open.is_some(),
        newest,
    })
}

fn dialect(has: &[(&'static str, Option<bool>)]) -> Dialect {
    let there = |route| has.contains(&(route, Some(true)));
    if has.iter().any(|(_, known)| known.is_none()) {
        Dialect::Unknown
    } else if there(SIMULATED) {
        Dialect::Simulated
    } else if HIL_SERL.into_iter().all(there) {
        Dialect::HilSerl
    } else {
        Dialect::Serl
    }
}

impl ServerCheck {
    /// What that means for a loop of `control_hz`.
    pub fn findings(&self, control_hz: f64) -> Vec<Finding> {
        let speaks = match self.dialect {
            Dialect::Serl => "it speaks SERL's dialect",
            Dialect::HilSerl => "it speaks HIL-SERL's dialect",
            Dialect::Simulated => "it is plaudit's simulated robot",
            Dialect::Unknown => "it does not say which routes it has",
        };
        let gripper = if self.has_gripper { "with a gripper" } else { "without a gripper" };
        let mut findings = vec![Finding::fine(ABOUT, format!("{speaks}, {gripper}"))];
        let (needed, used): (Vec<&str>, Vec<&str>) =
            self.missing.iter().partition(|route| NEEDED.contains(route));
        if !needed.is_empty() {
            let text = format!("it has no {}", needed.join(", "));
            findings.push(Finding::wrong(ABOUT, text, "plaudit needs these routes of SERL's servers"));
        }
        if !used.is_empty() {
            let text = format!("it has no {}", used.join(", "));
            let advice = "fine for tasks that move no gripper and never reset the joints";
            findings.push(Finding::warning(ABOUT, text, advice));
        }
        findings.push(self.latency_finding(control_hz));
        if self.failed > 0 {
            let text = format!("{} of {} states did not come", self.failed, self.asked);
            let advice = "look at the server's own log; the arm holds whenever its state is 300 ms old";
            let is_rare = self.failed * 50 <= self.asked;
            let finding = if is_rare { Finding::warning } else { Finding::wrong };
            findings.push(finding(ABOUT, text, advice.to_string()));
        }
        findings
    }

    /// A step sends a target and reads the state: both must fit into a period, with room for the model.
    fn latency_finding(&self, control_hz: f64) -> Finding {
        let (Latencies { median_ms, p99_ms, max_ms }, period_ms) = (self.state, 1e3 / control_hz);
        let text = format!(
            "a state takes {median_ms:.1} ms (median; p99 {p99_ms:.1}, slowest {max_ms:.1}): {:.0} per second, {:.0} \
             of them new",
            self.asked_hz, self.changed_hz
        );
        let advice = format!(
            "a step of {control_hz} Hz has {period_ms:.0} ms for a target and a state; put the server on a wired \
             network, or lower step_frequency"
        );
        if 2.0 * p99_ms > period_ms {
            Finding::wrong(ABOUT, text, advice)
        } else if 4.0 * p99_ms > period_ms {
            Finding::warning(ABOUT, text, advice)
        } else {
            Finding::fine(ABOUT, text)
        }
    }
}
