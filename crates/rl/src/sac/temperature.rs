//! The temperature of soft actor-critic: how much entropy is worth, tuned so that the policy keeps as much as asked.
//!
//! ```text
//! L(α) = −α · (mean log π + H̄)        α = softplus(x), exp(x), or fixed
//! ```

use plaudit_nn::dense::{Adam, AdamSettings};

/// How the temperature is kept positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemperatureKind {
    /// `α = log(1 + exp x)`.
    Softplus,
    /// `α = exp x`.
    Exp,
    /// It does not change.
    Fixed,
}

/// How the temperature begins and moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TemperatureSettings {
    /// How it is kept positive.
    pub kind: TemperatureKind,
    /// Where it starts.
    pub initial: f64,
    /// The entropy to hold, H̄.
    pub target_entropy: f64,
    /// Learning rate.
    pub lr: f64,
    /// Longest gradient.
    pub clip_grad: f64,
}

/// A temperature that learns.
#[derive(Debug, Clone)]
pub struct Temperature {
    settings: TemperatureSettings,
    /// The number that is trained; of a fixed temperature, the temperature itself.
    pub(super) x: f32,
    pub(super) adam: Adam,
}

/// What a step of the temperature did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TemperatureStep {
    /// The loss before the step.
    pub loss: f64,
    /// The gradient before it was clipped.
    pub gradient: f64,
}

impl Temperature {
    /// At its start.
    pub fn new(settings: TemperatureSettings) -> Self {
        let initial = settings.initial;
        let x = match settings.kind {
            TemperatureKind::Softplus => (initial.exp() - 1.0).ln(),
            TemperatureKind::Exp => initial.ln(),
            TemperatureKind::Fixed => initial,
        };
        Self { settings, x: x as f32, adam: Adam::new(1, AdamSettings::default()) }
    }

    /// α.
    pub fn alpha(&self) -> f32 {
        match self.settings.kind {
            // As PyTorch's softplus, straight where exp would overflow.
            TemperatureKind::Softplus if self.x > 20.0 => self.x,
            TemperatureKind::Softplus => self.x.exp().ln_1p(),
            TemperatureKind::Exp => self.x.exp(),
            TemperatureKind::Fixed => self.x,
        }
    }

    /// One step towards the target entropy, given the mean of log π.
    pub fn step(&mut self, mean_log_prob: f64) -> TemperatureStep {
        let missing = mean_log_prob + self.settings.target_entropy;
        let loss = -f64::from(self.alpha()) * missing;
        let derivative = match self.settings.kind {
            TemperatureKind::Softplus => 1.0 / (1.0 + (-f64::from(self.x)).exp()),
            TemperatureKind::Exp => f64::from(self.alpha()),
            TemperatureKind::Fixed => return TemperatureStep { loss: 0.0, gradient: 0.0 },
        };
        let gradient = -derivative * missing;
        let clip = self.settings.clip_grad;
        let clipped = gradient * (clip / (gradient.abs() + 1e-6)).min(1.0);
        self.adam.step(std::slice::from_mut(&mut self.x), &[clipped as f32], self.settings.lr as f32);
        TemperatureStep { loss, gradient }
    }
}
