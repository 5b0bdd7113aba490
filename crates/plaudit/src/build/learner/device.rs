//! Where a policy is trained.

use plaudit_compose::ComposeError;
use plaudit_nn::classifier::Device;
use plaudit_nn::dense::gpu::GpuKernels;
use plaudit_rl::LearnError;

use super::Builder;
use crate::config::blocks::actor::{Backbone, ModelType};
use crate::console;
use crate::device::{DeviceChoice, GpuWork, say_cpu};
use crate::hints::NO_GPU;

const KEY: &str = "actor.model.device";

impl Builder<'_> {
    /// Lets a learner compute on a GPU, by `use_gpu`, where the config asks for one or leaves it open and there is one.
    pub(super) fn choose_device(
        &self,
        use_gpu: impl FnOnce(GpuKernels) -> Result<String, LearnError>,
    ) -> Result<(), ComposeError> {
        let (model, cluster) = (&self.loaded.config.actor.model, &self.loaded.config.cluster);
        let choice: DeviceChoice = model
            .device
            .parse()
            .map_err(|error: String| self.loaded.problem(KEY, error, "auto takes the GPU if there is one"))?;
        // There is a path on a GPU for images alone (docs/gpu.md).
        let why_not = match (model.model_type, model.backbone) {
            (ModelType::Cnn, Backbone::Resnet) => Some("a policy above a frozen trunk is trained on the CPU"),
            (ModelType::Cnn, _) => None,
            _ => Some("a policy on states is trained on the CPU alone"),
        };
        let choice = match (choice, why_not) {
            (DeviceChoice::Cuda(_), Some(why)) => {
                return Err(self.loaded.problem(KEY, why, "set it to auto or cpu"));
            }
            (DeviceChoice::Auto, Some(why)) => {
                say_cpu("the policy learns", why);
                return Ok(());
            }
            (DeviceChoice::Cpu, Some(_)) => return Ok(()),
            (choice, None) => choice.or_placed(cluster.gpu_of("actor")),
        };
        let unusable = |error: &dyn std::fmt::Display| self.loaded.problem(KEY, error.to_string(), NO_GPU);
        let Device::Cuda(index) = choice.resolve(GpuWork::Policy).map_err(|error| unusable(&error))? else {
            return Ok(());
        };
        let kernels = GpuKernels::open(index).map_err(|error| unusable(&error))?;
        let name = use_gpu(kernels).map_err(|error| unusable(&error))?;
        console::eprintln(&format!("the policy learns on {name} (cuda:{index})"));
        Ok(())
    }
}
