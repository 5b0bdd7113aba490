//! Scripts in a person's place, and several pilots as one.

use crate::{Pilot, PilotError, PilotInput};

/// A script: a function of a state, of whatever kind. Without a state it is at rest.
///
/// ```
/// use plaudit_robot::{Deflection, Pilot, PilotInput, FunctionPilot};
///
/// // Takes over when the tool is lower than 5 cm, and lifts it.
/// let mut heights_m = [Some(0.2), Some(0.04), None].into_iter();
/// let lift = |height_m: &f64| {
///     let linear = if *height_m < 0.05 { glam::DVec3::Z } else { glam::DVec3::ZERO };
///     PilotInput { deflection: Deflection { linear, ..Deflection::default() }, ..PilotInput::default() }
/// };
/// let mut pilot = FunctionPilot::new(move || heights_m.next().flatten(), lift);
/// let takes_over: Vec<bool> = (0..3).map(|_| pilot.poll().unwrap().intervenes()).collect();
/// assert_eq!(takes_over, [false, true, false]);
/// ```
pub struct FunctionPilot<State> {
    observe: Box<dyn FnMut() -> Option<State> + Send>,
    act: Box<dyn FnMut(&State) -> PilotInput + Send>,
}

impl<State> FunctionPilot<State> {
    /// A script that sees what `observe` finds, which must not wait, and does what `act` says.
    pub fn new(
        observe: impl FnMut() -> Option<State> + Send + 'static,
        act: impl FnMut(&State) -> PilotInput + Send + 'static,
    ) -> Self {
        Self { observe: Box::new(observe), act: Box::new(act) }
    }
}

impl<State> Pilot for FunctionPilot<State> {
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let Some(state) = (self.observe)() else { return Ok(PilotInput::default()) };
        let mut input = (self.act)(&state);
        let deflection = &mut input.deflection;
        if !deflection.linear.is_finite() || !deflection.angular.is_finite() {
            let why = format!("it asks for {deflection:?}, which is no motion");
            return Err(PilotError { device: "script".into(), why });
        }
        deflection.linear = deflection.linear.clamp(glam::DVec3::NEG_ONE, glam::DVec3::ONE);
        deflection.angular = deflection.angular.clamp(glam::DVec3::NEG_ONE, glam::DVec3::ONE);
        Ok(input)
    }
}

/// Several devices of one person: a SpaceMouse and the keyboard. The first that is deflected moves the arm.
#[derive(Default)]
pub struct CombinedPilot {
    pilots: Vec<Box<dyn Pilot>>,
    /// What was pressed while another device could not be read.
    unread: PilotInput,
}

impl CombinedPilot {
    /// These pilots as one.
    pub fn new(pilots: Vec<Box<dyn Pilot>>) -> Self {
        Self { pilots, unread: PilotInput::default() }
    }
}

impl Pilot for CombinedPilot {
    /// An error of one device is told, and what the others said comes with the next call.
    fn poll(&mut self) -> Result<PilotInput, PilotError> {
        let pressed = std::mem::take(&mut self.unread.pressed);
        let mut together = PilotInput { pressed, ..PilotInput::default() };
        let mut error = None;
        for pilot in &mut self.pilots {
            match pilot.poll() {
                Ok(input) => merge(&mut together, input),
                Err(why) => error = error.or(Some(why)),
            }
        }
        match error {
            Some(error) => {
                self.unread = together;
                Err(error)
            }
            None => Ok(together),
        }
    }
}

fn merge(together: &mut PilotInput, input: PilotInput) {
    if !together.deflection.is_moved() {
        together.deflection = input.deflection;
    }
    together.buttons.left |= input.buttons.left;
    together.buttons.right |= input.buttons.right;
    together.pressed.extend(input.pressed);
    together.held.extend(input.held);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buttons, Deflection, Key};
    use glam::DVec3;

    fn moved(linear: DVec3) -> PilotInput {
        PilotInput { deflection: Deflection { linear, ..Deflection::default() }, ..PilotInput::default() }
    }

    #[test]
    fn a_script_that_asks_too_much_is_cut_or_named() {
        let mut pilot = FunctionPilot::new(|| Some(()), |()| moved(DVec3::new(5.0, 0.5, -3.0)));
        assert_eq!(pilot.poll().unwrap().deflection.linear, DVec3::new(1.0, 0.5, -1.0));
        let mut pilot = FunctionPilot::new(|| Some(()), |()| moved(DVec3::NAN));
        assert!(pilot.poll().unwrap_err().to_string().contains("no motion"));
    }

    /// A pilot that says these things, one after the other.
    fn says(inputs: Vec<Result<PilotInput, PilotError>>) -> Box<dyn Pilot> {
        struct Says(std::vec::IntoIter<Result<PilotInput, PilotError>>);
        impl Pilot for Says {
            fn poll(&mut self) -> Result<PilotInput, PilotError> {
                self.0.next().unwrap_or_else(|| Ok(PilotInput::default()))
            }
        }
        Box::new(Says(inputs.into_iter()))
    }

    #[test]
    fn devices_act_together_and_no_key_is_lost() {
        let press = PilotInput {
            pressed: vec![Key::Char('c')],
            buttons: Buttons { left: false, right: true },
            ..moved(DVec3::Y)
        };
        let gone = PilotError { device: "SpaceMouse".into(), why: "unplugged".into() };
        let mouse = says(vec![Ok(moved(DVec3::X)), Err(gone.clone())]);
        let mut pilot = CombinedPilot::new(vec![mouse, says(vec![Ok(press.clone()), Ok(press)])]);
        let both = pilot.poll().unwrap();
        assert_eq!((both.deflection.linear, both.buttons.right), (DVec3::X, true), "the first moves");
        assert_eq!(pilot.poll().unwrap_err(), gone);
        let after = pilot.poll().unwrap();
        assert_eq!((after.pressed, after.deflection.is_moved()), (vec![Key::Char('c')], false));
    }
}
