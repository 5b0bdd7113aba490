//! Rules about a checkpoint that a config names: whether it was made for how it is used.

use super::Findings;

/// What the checkpoint says about itself against what the config says about it.
pub(super) fn differences(_findings: &mut Findings<'_>) {}
