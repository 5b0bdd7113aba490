//! From settings to a batch of environments: the one `match` over what there is.

use std::sync::Arc;

use plaudit_core::{ActionSpace, Env, EnvError, EnvSpec, FramesNeeded, StatePart};

use crate::batch::{Batch, BatchOptions, Task};
use crate::classic::{Acrobot, CartPole, ClassicTask, MountainCarContinuous, Pendulum};
use crate::panda::{CONTROL_HZ, CameraSettings, ControlMode, Engine, ObsMode};
use crate::peg_insertion::{self, PegInsertion};
use crate::pick_cube::{self, PickCube};
use crate::{EnvId, EnvSettings, memory};

/// Builds the environments that `settings` ask for, or says why they cannot be.
pub fn make(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    settings.check()?;
    match settings.id {
        EnvId::CartPoleV0 | EnvId::CartPoleV1 => classic::<CartPole>(settings),
        EnvId::PendulumV1 => classic::<Pendulum>(settings),
        EnvId::AcrobotV1 => classic::<Acrobot>(settings),
        EnvId::MountainCarContinuousV0 => classic::<MountainCarContinuous>(settings),
        EnvId::PickCubeV1 | EnvId::PickCube3ViewV1 => pick_cube(settings),
        EnvId::PegInsertionSideV1 => peg_insertion(settings),
    }
}

fn classic<T: ClassicTask + 'static>(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    let spec = spec(settings, T::STATE_WIDTH, T::actions(), T::CONTROL_HZ);
    Ok(Box::new(batch(settings, spec, size_of::<T>() as u64, T::default)?))
}

fn pick_cube(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    let own = settings.pick_cube.clone().unwrap_or_default();
    let cameras = own.cameras_of(settings.id);
    let parts = pick_cube::state_parts(own.obs_mode);
    let spec = table_spec(settings, parts, own.control_mode, &cameras);
    let obs_mode = own.obs_mode;
    let bytes = own.engine.bytes();
    let setup = Arc::new(pick_cube::Setup::new(own, cameras)?);
    at_table(settings, spec, obs_mode, bytes, || PickCube::new(setup.clone()))
}

fn peg_insertion(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    let own = settings.peg_insertion.clone().unwrap_or_default();
    let cameras = own.cameras();
    let parts = peg_insertion::state_parts(own.obs_mode);
    let spec = table_spec(settings, parts, own.control_mode, &cameras);
    let obs_mode = own.obs_mode;
    let setup = Arc::new(peg_insertion::Setup { settings: own, cameras });
    at_table(settings, spec, obs_mode, Engine::Rapier.bytes(), || PegInsertion::new(setup.clone()))
}

fn table_spec(
    settings: &EnvSettings,
    state_parts: Vec<StatePart>,
    control_mode: ControlMode,
    cameras: &[CameraSettings],
) -> EnvSpec {
    let cameras = cameras.iter().map(CameraSettings::named_shape).collect();
    let state_width = state_parts.iter().map(|part| part.range.end).max().unwrap_or(0);
    let spec = spec(settings, state_width, control_mode.actions(), CONTROL_HZ);
    EnvSpec { cameras, state_parts, ..spec }
}

fn at_table<T: Task + 'static>(
    settings: &EnvSettings,
    spec: EnvSpec,
    obs_mode: ObsMode,
    bytes: u64,
    task: impl FnMut() -> T,
) -> Result<Box<dyn Env>, EnvError> {
    let mut env = batch(settings, spec, bytes, task)?;
    if obs_mode == ObsMode::Rgb {
        env.set_frames_needed(FramesNeeded::Everything);
    }
    Ok(Box::new(env))
}

fn spec(settings: &EnvSettings, state_width: usize, actions: ActionSpace, control_hz: f64) -> EnvSpec {
    EnvSpec {
        id: settings.id.as_str().into(),
        num_envs: settings.num_envs,
        state_width,
        state_parts: Vec::new(),
        actions,
        cameras: Vec::new(),
        max_episode_steps: Some(settings.episode_limit()),
        control_hz,
    }
}

/// A batch of what `task` makes, if it fits in memory. A task itself takes about `task_bytes`.
fn batch<T: Task>(
    settings: &EnvSettings,
    spec: EnvSpec,
    task_bytes: u64,
    task: impl FnMut() -> T,
) -> Result<Batch<T>, EnvError> {
    // A row, and what one step hands out for it.
    let numbers = (spec.state_width + spec.actions.width() + 32) * size_of::<f32>();
    let pixels: usize = spec.cameras.iter().map(|(_, shape)| shape.bytes()).sum();
    memory::check(settings.num_envs, task_bytes + (numbers + pixels) as u64)?;
    let options = BatchOptions {
        first_row: settings.first_row,
        group_size: settings.group_size as u64,
        limit: settings.episode_limit(),
        ignore_terminations: settings.ignore_terminations,
    };
    Ok(Batch::new(spec, options, task))
}
