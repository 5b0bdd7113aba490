//! The simulator: a batch of environments that reset themselves, as numpy arrays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1};
use plaudit::env::{EnvId, EnvSettings, make};
use plaudit_core::{ActionSpace, End, Env, EnvSpec, Frames, FramesNeeded, Obs, Seed, Step};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{failed, failure, guarded, input};
use crate::process::compute;

/// What an observation is called whose camera has no images.
const STATE: &str = "state";

/// Environments of plaudit's simulator.
#[pyclass(frozen, module = "plaudit")]
pub(crate) struct Simulator {
    spec: EnvSpec,
    env: Mutex<Option<Box<dyn Env>>>,
}

/// What a step gives: observation, reward, terminated, truncated, success, facts, rows that ended, what they
/// saw last.
type Stepped<'py> = (
    Bound<'py, PyDict>,
    Bound<'py, PyArray1<f32>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyDict>,
    Vec<usize>,
    Vec<Bound<'py, PyDict>>,
);

#[pymethods]
impl Simulator {
    /// Environments by settings in JSON; `images` says that every observation has those of all cameras.
    #[new]
    fn new(py: Python<'_>, settings: &str, images: bool) -> PyResult<Self> {
        let settings: EnvSettings = serde_json::from_str(settings).map_err(|error| {
            input(error.to_string(), "docs/python.md lists what can be set of each environment")
        })?;
        let made = compute(py, || {
            make(&settings).map(|mut env| {
                if images {
                    env.set_frames_needed(FramesNeeded::Everything);
                }
                env
            })
        })?;
        let env = made.map_err(|error| failed(&error))?;
        Ok(Self { spec: env.spec().clone(), env: Mutex::new(Some(env)) })
    }

    /// The ids of all environments.
    #[staticmethod]
    fn ids() -> Vec<&'static str> {
        EnvId::ALL.into_iter().map(EnvId::as_str).collect()
    }

    /// What does not change: sizes, cameras, actions, the time limit.
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let spec = PyDict::new(py);
        spec.set_item("id", &*self.spec.id)?;
        spec.set_item("num_envs", self.spec.num_envs)?;
        spec.set_item("state_width", self.spec.state_width)?;
        spec.set_item("max_episode_steps", self.spec.max_episode_steps)?;
        spec.set_item("control_hz", self.spec.control_hz)?;
        let cameras = PyDict::new(py);
        for (name, shape) in &self.spec.cameras {
            cameras.set_item(&**name, (shape.height, shape.width, shape.channels))?;
        }
        spec.set_item("cameras", cameras)?;
        let parts = PyDict::new(py);
        for part in &self.spec.state_parts {
            parts.set_item(&*part.name, (part.range.start, part.range.end))?;
        }
        spec.set_item("state_parts", parts)?;
        match &self.spec.actions {
            ActionSpace::Discrete { n } => spec.set_item("discrete", *n)?,
            ActionSpace::Continuous { low, high } => {
                spec.set_item("low", PyArray1::from_slice(py, low))?;
                spec.set_item("high", PyArray1::from_slice(py, high))?;
            }
        }
        Ok(spec)
    }

    /// Starts every environment anew.
    fn reset<'py>(&self, py: Python<'py>, seed: u64) -> PyResult<Bound<'py, PyDict>> {
        guarded(|| {
            let obs = compute(py, || {
                let mut env = self.lock();
                Ok::<_, PyErr>(open(&mut env)?.reset(Seed::new(seed)))
            })??;
            observation(py, obs.map_err(|error| failed(&error))?)
        })
    }

    /// One step of every environment; `actions` are all rows, one after another.
    fn step<'py>(&self, py: Python<'py>, actions: PyReadonlyArray1<'py, f32>) -> PyResult<Stepped<'py>> {
        guarded(|| {
            let actions = actions.as_slice()?;
            let step = compute(py, || {
                let mut env = self.lock();
                Ok::<_, PyErr>(open(&mut env)?.step(actions))
            })??;
            stepped(py, step.map_err(|error| failed(&error))?)
        })
    }

    /// Gives its memory back.
    fn close(&self, py: Python<'_>) {
        // Who waits here must not keep from going on who steps.
        drop(py.detach(|| self.lock().take()));
    }
}

impl Simulator {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Env>>> {
        self.env.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(env: &mut Option<Box<dyn Env>>) -> PyResult<&mut Box<dyn Env>> {
    env.as_mut().ok_or_else(|| failure("the environments were closed", Some("make them again".into())))
}

fn stepped(py: Python<'_>, step: Step) -> PyResult<Stepped<'_>> {
    let facts = PyDict::new(py);
    for (name, values) in step.facts {
        facts.set_item(&*name, PyArray1::from_vec(py, values))?;
    }
    let ends = |end: End| PyArray1::from_vec(py, step.end.iter().map(|of| *of == end).collect());
    let (rows, last): (Vec<usize>, Vec<Obs>) = step.last.into_iter().unzip();
    let last = last.into_iter().map(|obs| observation(py, obs)).collect::<PyResult<_>>()?;
    Ok((
        observation(py, step.obs)?,
        PyArray1::from_vec(py, step.reward),
        ends(End::Terminated),
        ends(End::Truncated),
        PyArray1::from_vec(py, step.success),
        facts,
        rows,
        last,
    ))
}

/// The state and the images of an observation, each `[B, …]`. No number is copied.
fn observation(py: Python<'_>, obs: Obs) -> PyResult<Bound<'_, PyDict>> {
    let (batch, width) = (obs.batch(), obs.state_width());
    let seen = PyDict::new(py);
    let Obs { cameras, state, .. } = obs;
    seen.set_item(STATE, PyArray1::from_vec(py, state).reshape([batch, width])?)?;
    for (name, Frames { shape, pixels }) in cameras {
        let sides = [batch, shape.height, shape.width, shape.channels];
        let images: Bound<'_, PyArrayDyn<u8>> = PyArray1::from_vec(py, pixels).reshape(sides.to_vec())?;
        seen.set_item(&*name, images)?;
    }
    Ok(seen)
}
