//! From settings to a batch of environments: the one `match` over what there is.

use plaudit_core::{ActionSpace, Env, EnvError, EnvSpec};

use crate::batch::{Batch, Task};
use crate::classic::{Acrobot, CartPole, ClassicTask, MountainCarContinuous, Pendulum};
use crate::{EnvId, EnvSettings, memory};

/// Builds the environments that `settings` ask for, or says why they cannot be.
pub fn make(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    settings.check()?;
    match settings.id {
        EnvId::CartPoleV0 | EnvId::CartPoleV1 => classic::<CartPole>(settings),
        EnvId::PendulumV1 => classic::<Pendulum>(settings),
        EnvId::AcrobotV1 => classic::<Acrobot>(settings),
        EnvId::MountainCarContinuousV0 => classic::<MountainCarContinuous>(settings),
    }
}

fn classic<T: ClassicTask + 'static>(settings: &EnvSettings) -> Result<Box<dyn Env>, EnvError> {
    batch(settings, T::STATE_WIDTH, T::actions(), T::CONTROL_HZ, T::default)
}

/// A batch of what `task` makes, if it fits in memory.
fn batch<T: Task + 'static>(
    settings: &EnvSettings,
    state_width: usize,
    actions: ActionSpace,
    control_hz: f64,
    task: impl FnMut() -> T,
) -> Result<Box<dyn Env>, EnvError> {
    // A row, and what one step hands out for it.
    let handed_out = (state_width + actions.width() + 2) * size_of::<f32>();
    memory::check(settings.num_envs, (size_of::<T>() + 128 + handed_out) as u64)?;
    let limit = settings.episode_limit();
    let spec = EnvSpec {
        id: settings.id.as_str().into(),
        num_envs: settings.num_envs,
        state_width,
        actions,
        cameras: Vec::new(),
        max_episode_steps: Some(limit),
        control_hz,
    };
    Ok(Box::new(Batch::new(spec, settings.first_row, limit, settings.ignore_terminations, task)))
}
