//! The policy of rollouts on another machine: the networks are built there from the same settings, and their parameters
//! arrive from the learner whenever they have changed.

use std::sync::Arc;

use plaudit_core::Policy;

use crate::learner::LearnError;
use crate::sac::{SoftNetworks, SoftPolicy};
use crate::vision_encoder::VisionEncoder;
use crate::{ActionMode, ActorCritic, StateScale};

/// Everything of an explorer that learning changes or that the learner alone knows.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplorerParams {
    /// Parameters of the policy.
    pub policy: Arc<Vec<f32>>,
    /// Parameters of the encoder that the policy shares with critics; empty where it has its own or none.
    pub encoder: Arc<Vec<f32>>,
    /// How states are scaled, where they are.
    pub scale: Option<StateScale>,
    /// The hash of the frozen trunk, which does not travel; 0 without one.
    pub trunk: u64,
}

/// Networks without parameters: what makes a learner's explorers where there is no learner.
#[derive(Debug, Clone)]
pub enum ExplorerNetworks {
    /// PPO's.
    ActorCritic(Arc<ActorCritic>),
    /// SAC's.
    Soft(Arc<SoftNetworks>),
}

impl ExplorerNetworks {
    /// The same policy as the explorer of the learner that these parameters are of.
    ///
    /// # Errors
    /// When the learner has other networks.
    pub fn explorer(&self, params: &ExplorerParams) -> Result<Box<dyn Policy>, LearnError> {
        let (policy, encoder, vision_encoder) = match self {
            Self::ActorCritic(networks) => (networks.actor_range().len(), 0, networks.vision_encoder()),
            Self::Soft(networks) => {
                (networks.policy.len(), networks.encoder_len(), networks.vision_encoder.as_ref())
            }
        };
        expect("parameters of a policy", policy, params.policy.len())?;
        expect("parameters of an encoder", encoder, params.encoder.len())?;
        if vision_encoder.map_or(0, VisionEncoder::trunk_hash) != params.trunk {
            return Err(LearnError::OtherTrunk);
        }
        Ok(match self {
            Self::ActorCritic(networks) => Box::new(networks.policy(&params.policy, ActionMode::Explore)),
            Self::Soft(networks) => {
                let networks = match params.scale == networks.scale {
                    true => networks.clone(),
                    false => {
                        let mut scaled = (**networks).clone();
                        scaled.scale.clone_from(&params.scale);
                        Arc::new(scaled)
                    }
                };
                let (policy, encoder) = (params.policy.clone(), &params.encoder);
                Box::new(SoftPolicy::new(networks, policy, encoder, ActionMode::Explore))
            }
        })
    }
}

fn expect(what: &'static str, expected: usize, got: usize) -> Result<(), LearnError> {
    if got == expected { Ok(()) } else { Err(LearnError::Width { what, expected, got }) }
}
