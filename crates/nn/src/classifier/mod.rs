//! The image reward model: an image, or one from each camera, to one number that says "done".
//!
//! [`ClassifierSettings`] name a network. A [`Trainer`] trains it, a [`Scorer`] runs it. Both run the one definition of
//! the network (`network.rs`), which knows layers and their order but not what a layer does: while training, a
//! convolution is followed by the normalisation of its batch and remembers what its gradient needs; for scoring, the
//! normalisation has been multiplied into the weights beforehand.

mod data_parallel;
mod device;
mod error;
mod fold;
mod gpu;
mod init;
mod load;
mod loss;
mod network;
mod optimizer;
mod parameters;
mod progress;
mod pu_loss;
mod scorer;
mod settings;
mod trainer;
mod trunk;

pub use data_parallel::Sharding;
pub use device::Device;
pub use error::{ClassifierError, Mismatch};
pub use gpu::{GpuView, LayerTime};
pub(crate) use init::Init;
pub use load::Notice;
pub use loss::Loss;
pub(crate) use optimizer::Optimizer;
pub use optimizer::{AdamW, StepOutcome};
pub(crate) use parameters::{Id, Order, Parameters, Role, Spec, Value};
pub use progress::{ProgressBins, ProgressDistribution, ProgressLabel};
pub use pu_loss::{NonNegativePu, PuRisk};
pub use scorer::{GpuTimes, Scorer};
pub use settings::{Arch, ClassifierSettings, Precision};
pub use trainer::{Accumulated, BatchLoss, Trainer, TrainerSnapshot, TrainingImages};
pub use trunk::FrozenTrunk;
