//! From settings to a batch of environments: the one `match` over what there is.

use std::sync::Arc;

use plaudit_core::{ActionSpace, Env, EnvError, EnvSpec, Watch};

use crate::batch::{Batch, Task};
use crate::classic::{Acrobot, CartPole, ClassicTask, MountainCarContinuous, Pendulum};
use crate::panda::{CONTROL_HZ, CameraSettings, ObsMode};
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
    }
}

fn classic<T: ClassicTask + 'static>(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    let spec = spec(settings, T::STATE_WIDTH, T::actions(), T::CONTROL_HZ);
    Ok(Box::new(batch(settings, spec, size_of::<T>() as u64, T::default)?))
}

fn pick_cube(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    let own = settings.pick_cube.clone().unwrap_or_default();
    let cameras = own.cameras_of(settings.id);
    let width = pick_cube::state_width(own.obs_mode);
    let mut spec = spec(settings, width, own.control_mode.actions(), CONTROL_HZ);
    spec.cameras = cameras.iter().map(CameraSettings::named_shape).collect();
    let pictures = own.obs_mode == ObsMode::Rgb;
    let setup = Arc::new(pick_cube::Setup { settings: own, cameras });
    let mut env = batch(settings, spec, pick_cube::BYTES, || PickCube::new(setup.clone()))?;
    if pictures {
        env.watch(Watch::Everything);
    }
    Ok(Box::new(env))
}

fn spec(settings: &EnvSettings, state_width: usize, actions: ActionSpace, control_hz: f64) -> EnvSpec {
    EnvSpec {
        id: settings.id.as_str().into(),
        num_envs: settings.num_envs,
        state_width,
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
    Ok(Batch::new(spec, settings.first_row, settings.episode_limit(), settings.ignore_terminations, task))
}
