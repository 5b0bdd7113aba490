//! Writes what the cameras of a task see while its expert works, as one PNG: a row per camera.
//!
//! `cargo run -p plaudit-env --example contact_sheet -- PickCube-v1 sheet.png [side in pixels] [seed]`

use std::error::Error;

use plaudit_core::{FramesNeeded, Obs, Policy, Seed};
use plaudit_draw::{Canvas, ContactSheet, Group, SheetFrame, Tint};
use plaudit_env::{
    CameraName, CameraSettings, ControlMode, EnvId, EnvSettings, PegInsertionExpert, PegInsertionSettings,
    PickCubeExpert, PickCubeSettings, make,
};

const COLUMNS: usize = 6;
/// The steps of the first column and the last: when the expert begins, and when it is about done.
const PICK_CUBE_STEPS: usize = 27;
const PEG_INSERTION_STEPS: usize = 47;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let id: EnvId = arguments.next().as_deref().unwrap_or("PickCube-v1").parse()?;
    let path = arguments.next().unwrap_or_else(|| "sheet.png".into());
    let side: usize = arguments.next().map_or(Ok(128), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let Show { settings, mut expert, steps } = show(id, side)?;
    let mut env = make(&settings)?;
    env.set_frames_needed(FramesNeeded::Everything);
    let mut obs = env.reset(Seed::new(seed))?;
    let mut sheet = empty_sheet(id, &obs);
    for t in 0..=steps {
        if (0..COLUMNS).any(|column| column * steps / (COLUMNS - 1) == t) {
            add(&mut sheet, &obs, t, side);
        }
        obs = env.step(&expert.act(&obs, Seed::new(0))?.actions)?.obs;
    }
    Ok(std::fs::write(path, sheet.draw().png())?)
}

/// One environment with every camera, who solves it, and in how many steps.
struct Show {
    settings: EnvSettings,
    expert: Box<dyn Policy>,
    steps: usize,
}

fn show(id: EnvId, side: usize) -> Result<Show, Box<dyn Error>> {
    let names = [CameraName::BaseCamera, CameraName::ThirdViewCamera, CameraName::HandCamera];
    let cameras = Some(names.map(|name| CameraSettings { name, width: side, height: side }).to_vec());
    let plain = EnvSettings { ignore_terminations: true, ..EnvSettings::new(id, 1) };
    let mode = ControlMode::default();
    Ok(match id {
        EnvId::PegInsertionSideV1 => {
            let peg_insertion = Some(PegInsertionSettings { cameras, ..PegInsertionSettings::default() });
            let expert = Box::new(PegInsertionExpert::new(mode)?);
            let settings = EnvSettings { peg_insertion, ..plain };
            Show { settings, expert, steps: PEG_INSERTION_STEPS }
        }
        _ => {
            let pick_cube = Some(PickCubeSettings { cameras, ..PickCubeSettings::default() });
            let expert = Box::new(PickCubeExpert::new(mode));
            Show { settings: EnvSettings { pick_cube, ..plain }, expert, steps: PICK_CUBE_STEPS }
        }
    })
}

fn empty_sheet(id: EnvId, obs: &Obs) -> ContactSheet {
    let group = |name: &str| Group { heading: name.into(), frames: Vec::new() };
    ContactSheet {
        title: format!("{id}: what its cameras see while the expert works"),
        about: String::new(),
        legend: Vec::new(),
        columns: COLUMNS,
        groups: obs.cameras.iter().map(|(name, _)| group(name)).collect(),
    }
}

/// Adds a frame of each camera.
fn add(sheet: &mut ContactSheet, obs: &Obs, step: usize, side: usize) {
    for ((_, frames), group) in obs.cameras.iter().zip(&mut sheet.groups) {
        let image = Canvas::fitted(frames.shape, frames.image(0), side);
        let caption = vec![format!("step {step}")];
        group.frames.push(SheetFrame { image, tint: Tint::Plain, caption });
    }
}
