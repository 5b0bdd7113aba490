//! From shared memory to observations and steps.

use std::sync::Arc;

use plaudit_core::{End, EnvSpec, Facts, Frames, FramesNeeded, Intervention, Obs, ObsError, Step};
use plaudit_pyprocess::{Region, SharedMemory};

use super::error::BridgeError;
use super::layout::{MemoryLayout, ObsRegions};

/// What RLinf's environments call the action of a person in `info`.
const INTERVENTION: &str = "intervene_action";

/// Reads what the process has written for one reset or step.
pub(super) struct Reader<'a> {
    pub(super) memory: &'a SharedMemory,
    pub(super) spec: &'a EnvSpec,
    pub(super) layout: &'a MemoryLayout,
    pub(super) watch: FramesNeeded,
    pub(super) instruction: &'a Option<Arc<str>>,
    pub(super) facts: &'a [Arc<str>],
}

impl Reader<'_> {
    /// What the policy sees next.
    pub(super) fn obs(&self) -> Result<Obs, BridgeError> {
        let images = self.watch == FramesNeeded::Everything;
        let obs = self.show(&self.layout.now, self.spec.num_envs, Region::all, images)?;
        self.check_state(&obs, 0)?;
        Ok(obs)
    }

    /// What a step did.
    pub(super) fn step(&self) -> Result<Step, BridgeError> {
        let (memory, layout) = (self.memory, self.layout);
        let reward: Vec<f32> = memory.read(layout.reward.all());
        if let Some(row) = reward.iter().position(|reward| !reward.is_finite()) {
            return Err(BridgeError::Reward { id: self.id(), row, value: reward[row] });
        }
        let end: Vec<End> = memory.read::<u8>(layout.end.all()).into_iter().map(end_of).collect();
        let success: Vec<u8> = memory.read(layout.success.all());
        let facts = self.facts();
        Ok(Step {
            obs: self.obs()?,
            reward,
            last: self.last(&end)?,
            end,
            success: success.into_iter().map(|byte| byte != 0).collect(),
            interventions: interventions(&facts, self.spec),
            facts,
        })
    }

    /// The last real observation of each ended row.
    fn last(&self, end: &[End]) -> Result<Vec<(usize, Obs)>, BridgeError> {
        let ended = end.iter().enumerate().filter(|(_, end)| end.is_end());
        let one = |(row, _)| {
            let obs = self.show(
                &self.layout.last,
                1,
                |region| region.row(row),
                self.watch != FramesNeeded::Nothing,
            )?;
            self.check_state(&obs, row)?;
            Ok((row, obs))
        };
        ended.map(one).collect()
    }

    fn show(
        &self,
        regions: &ObsRegions,
        rows: usize,
        part: impl Fn(Region) -> std::ops::Range<usize>,
        images: bool,
    ) -> Result<Obs, BridgeError> {
        let misfit = |error: ObsError| BridgeError::Setting(error.to_string());
        let mut obs = Obs::from_state(rows, self.memory.read(part(regions.state))).map_err(misfit)?;
        if let Some(words) = self.instruction {
            obs = obs.with_tasks(vec![words.clone(); rows]).map_err(misfit)?;
        }
        let cameras = if images { self.spec.cameras.as_slice() } else { &[] };
        for ((name, shape), region) in cameras.iter().zip(&regions.cameras) {
            let frames = Frames::new(*shape, self.memory.read(part(*region))).map_err(misfit)?;
            obs = obs.with_camera(name.clone(), frames).map_err(misfit)?;
        }
        Ok(obs)
    }

    fn facts(&self) -> Facts {
        let values: Vec<f32> = self.memory.read(self.layout.facts.all());
        let columns = values.chunks_exact(self.spec.num_envs);
        self.facts.iter().cloned().zip(columns.map(<[f32]>::to_vec)).collect()
    }

    fn check_state(&self, obs: &Obs, first_row: usize) -> Result<(), BridgeError> {
        match obs.state.iter().position(|value| value.is_nan()) {
            Some(at) => {
                let (row, at) = (first_row + at / obs.state_width(), at % obs.state_width());
                Err(BridgeError::State { id: self.id(), row, at })
            }
            None => Ok(()),
        }
    }

    fn id(&self) -> String {
        self.spec.id.to_string()
    }
}

/// What a person did, by row: no number where nobody took over. A list in `info` is a fact for each of its numbers.
fn interventions(facts: &Facts, spec: &EnvSpec) -> Vec<Intervention> {
    let place = |name: &str| name.strip_prefix(INTERVENTION)?.strip_prefix('.')?.parse::<usize>().ok();
    let column = |dim| facts.iter().find(|(name, _)| place(name) == Some(dim)).map(|(_, values)| values);
    let columns: Option<Vec<_>> = (0..spec.actions.width()).map(column).collect();
    let Some(columns) = columns else { return Vec::new() };
    let action = |row: usize| {
        let number = |column: &&Vec<f32>| column.get(row).copied().filter(|value| value.is_finite());
        let action = columns.iter().map(number).collect::<Option<_>>()?;
        Some(Intervention { row, action, by_person: true })
    };
    (0..spec.num_envs).filter_map(action).collect()
}

fn end_of(bits: u8) -> End {
    match bits {
        0 => End::No,
        2 => End::Truncated,
        _ => End::Terminated, // also when the clock ran out at the same moment
    }
}
