//! A script in the place of the person at the SpaceMouse: it sees the simulator's ground truth, as a person sees the table.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use glam::DVec3;
use plaudit_core::{Obs, Policy, Seed};
use plaudit_robot::{
    Buttons, Clock, Deflection, Pilot, PilotError, PilotInput, SceneClient, StopToken, Time,
};

/// Metres and radians that the script's action of 1 asks for.
const DELTA: f64 = 0.1;
/// How often the script looks, on the robot's clock.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// A decision that is older than this is none.
const FORGETS: Duration = Duration::from_millis(500);

/// The newest decision, and when it was made.
type Decided = Arc<Mutex<Option<(PilotInput, Time)>>>;

/// A script as a pilot, on a thread of its own.
pub struct ScriptPilot {
    decided: Decided,
    clock: Arc<dyn Clock>,
    ended: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl ScriptPilot {
    /// Begins to look at the table. `action` is what an action of 1 asks for: metres and radians.
    pub fn start(
        scene: SceneClient,
        mut expert: Box<dyn Policy + Send>,
        clock: Arc<dyn Clock>,
        action: (f64, f64),
    ) -> std::io::Result<Self> {
        let (decided, ended) = (Decided::default(), StopToken::new());
        let (to, has_ended, ticks) = (decided.clone(), ended.clone(), clock.clone());
        let look = move || {
            while !has_ended.is_raised() {
                let input = scene.truth().ok().and_then(|truth| decide(expert.as_mut(), truth.state, action));
                *to.lock().unwrap_or_else(PoisonError::into_inner) = input.map(|input| (input, ticks.now()));
                ticks.sleep_until(ticks.now() + LOOKS_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("script-pilot".into()).spawn(look)?;
        Ok(Self { decided, clock, ended, thread: Some(thread) })
    }
}

/// What the script does in a state.
fn decide(
    expert: &mut dyn Policy,
    state: Vec<f32>,
    (action_m, action_rad): (f64, f64),
) -> Option<PilotInput> {
    let obs = Obs::from_state(1, state).ok()?;
    let actions = expert.act(&obs, Seed::new(0)).ok()?.actions;
    let vector = |from: usize| DVec3::from_array(std::array::from_fn(|axis| f64::from(actions[from + axis])));
    let fit = |way: DVec3| way.clamp(DVec3::NEG_ONE, DVec3::ONE);
    let closes = actions.last().is_some_and(|gripper| *gripper < 0.0);
    Some(PilotInput {
        deflection: Deflection {
            linear: fit(vector(0) * DELTA / action_m),
            // There, a rotation of 1 is minus 0.1 rad.
            angular: fit(vector(3) * -DELTA / action_rad),
        },
        buttons: Buttons { left: closes, right: !closes },
        ..PilotInput::default()
    })
}

impl Pilot for ScriptPilot {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fresh = decided.filter(|(_, made)| self.clock.now().since(*made) < FORGETS);
        Ok(fresh.map(|(input, _)| input).unwrap_or_default())
    }
}

impl Drop for ScriptPilot {
    fn drop(&mut self) {
        self.ended.raise();
        if let Some(thread) = self.thread.take() {
            // A script that panicked has no more to say.
            let _ = thread.join();
        }
    }
}
