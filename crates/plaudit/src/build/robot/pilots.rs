//! Who may take over from the policy.

use plaudit_compose::ComposeError;
use plaudit_robot::{
    CombinedPilot, DevicePilot, KeyJog, NoPilot, Pilot, PilotError, RobotTask, SceneClient, StopToken,
    TerminalPilot,
};

use super::super::Builder;
use super::Server;
use crate::config::blocks::robot::PilotKind;
use crate::robot::ScriptPilot;

/// Where the problems of pilots are.
const KEY: &str = "override_cfg.pilot";

/// A pilot, and the terminal that it reads, which others may want for a while.
pub(super) struct BuiltPilot {
    pub(super) pilot: Box<dyn Pilot>,
    pub(super) terminal: Option<TerminalPilot>,
}

impl Builder<'_> {
    /// The pilot that is asked for, joined with the keys of the terminal where there is one: Esc stops.
    pub(super) fn robot_pilot(
        &self,
        server: &Server,
        task: &RobotTask,
        stop: &StopToken,
    ) -> Result<BuiltPilot, ComposeError> {
        let kind = self.pilot_kind(server);
        let mut pilots = self.devices(kind, server, task, stop)?;
        let terminal = match (kind, TerminalPilot::is_there()) {
            (PilotKind::Terminal, _) | (_, true) => {
                let opened = TerminalPilot::open(stop.clone());
                Some(opened.map_err(|error| self.no_pilot(PilotKind::Terminal, &error))?)
            }
            (_, false) => None,
        };
        let has_keys = terminal.is_some() || matches!(kind, PilotKind::Keyboard | PilotKind::Gamepad);
        if task.keys.is_some() && !has_keys {
            let message = "nobody can press its keys: there is no terminal, and the pilot has none";
            let hint =
                "run it in a terminal, in the foreground, or set override_cfg.pilot to keyboard or gamepad";
            return Err(self.problem("keyboard_reward_wrapper", message, hint));
        }
        pilots.extend(terminal.clone().map(|terminal| -> Box<dyn Pilot> {
            match kind {
                PilotKind::Terminal => Box::new(KeyJog::by_presses(Box::new(terminal), server.clock.clone())),
                // Keys beside another pilot label and stop.
                _ => Box::new(terminal),
            }
        }));
        let pilot: Box<dyn Pilot> = match pilots.pop() {
            Some(only) if pilots.is_empty() => only,
            Some(last) => {
                pilots.push(last);
                Box::new(CombinedPilot::new(pilots))
            }
            None => Box::new(NoPilot),
        };
        Ok(BuiltPilot { pilot, terminal })
    }

    fn pilot_kind(&self, server: &Server) -> PilotKind {
        let usual = match (&server.simulated, self.settings.use_spacemouse) {
            (_, false) => PilotKind::None,
            (Some(_), true) => PilotKind::Script,
            (None, true) => PilotKind::Spacemouse,
        };
        self.settings.override_cfg.pilot.unwrap_or(usual)
    }

    /// The devices beside the terminal.
    fn devices(
        &self,
        kind: PilotKind,
        server: &Server,
        task: &RobotTask,
        stop: &StopToken,
    ) -> Result<Vec<Box<dyn Pilot>>, ComposeError> {
        let robot = &self.settings.override_cfg;
        let path = robot.pilot_device.as_deref();
        let keyboard = |path| {
            let opened = DevicePilot::keyboard(path, stop.clone());
            opened.map_err(|error| self.no_pilot(PilotKind::Keyboard, &error))
        };
        let mut pilots: Vec<Box<dyn Pilot>> = Vec::new();
        match kind {
            PilotKind::None | PilotKind::Terminal => {}
            PilotKind::Script => pilots.push(self.script(server, task)?),
            PilotKind::Spacemouse => {
                let opened = DevicePilot::space_mouse().map_err(|error| self.no_pilot(kind, &error))?;
                pilots.push(Box::new(opened));
                if robot.dead_man {
                    // A SpaceMouse has no key that can be held without moving the arm.
                    pilots.push(Box::new(keyboard(path)?));
                }
            }
            PilotKind::Gamepad => {
                let opened = DevicePilot::gamepad(path, stop.clone());
                pilots.push(Box::new(opened.map_err(|error| self.no_pilot(kind, &error))?));
            }
            PilotKind::Keyboard => {
                let jog = KeyJog::by_held_keys(Box::new(keyboard(path)?), server.clock.clone());
                pilots.push(Box::new(jog));
            }
        }
        let knows_held = matches!(kind, PilotKind::Spacemouse | PilotKind::Gamepad | PilotKind::Keyboard);
        if robot.dead_man && !knows_held {
            let message = format!("nobody can hold the dead-man's switch: the pilot is `{}`", kind.word());
            let hint = "set override_cfg.pilot to keyboard, gamepad or spacemouse (with a keyboard), or leave it out";
            return Err(self.problem("override_cfg.dead_man", message, hint));
        }
        Ok(pilots)
    }

    fn script(&self, server: &Server, task: &RobotTask) -> Result<Box<dyn Pilot>, ComposeError> {
        let Some(simulated) = &server.simulated else {
            let message = "the script sees the simulator's ground truth, which a robot does not have";
            return Err(self.problem(
                KEY,
                message,
                "set it to spacemouse or none, or override_cfg.robot_ip to sim",
            ));
        };
        let wrong = |error: &dyn std::fmt::Display| self.problem(KEY, error, "set it to none");
        let scene = SceneClient::new(&server.url).map_err(|error| wrong(&error))?;
        let expert = simulated.task.expert().map_err(|error| wrong(&error))?;
        let pilot = ScriptPilot::start(scene, expert, server.clock.clone(), (task.action_m, task.action_rad));
        Ok(Box::new(pilot.map_err(|error| wrong(&error))?))
    }

    /// A device that is asked for and cannot be read.
    fn no_pilot(&self, kind: PilotKind, error: &PilotError) -> ComposeError {
        let hint = match kind {
            PilotKind::Keyboard => {
                "name one in override_cfg.pilot_device (`plaudit robot doctor` lists devices), or set pilot to terminal or none"
            }
            PilotKind::Terminal => "run it in a terminal, in the foreground, or set pilot to none",
            PilotKind::Spacemouse | PilotKind::Gamepad | PilotKind::Script | PilotKind::None => {
                "plug it in (`plaudit robot doctor` lists devices), or set override_cfg.pilot to spacemouse, gamepad, keyboard, terminal or none"
            }
        };
        self.problem(KEY, error, hint)
    }
}
