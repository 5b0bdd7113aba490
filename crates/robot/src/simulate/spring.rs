//! How hard the simulated arm presses: the spring of SERL's impedance controller.

use glam::DVec3;

use crate::{COMPLIANCE, Compliance};

/// A spring between tool and target that ends at its clips, along the base's axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spring {
    stiffness_n_m: f64,
    /// The longest it gets where the tool is beyond its target, and where it is short of it.
    clip_m: DVec3,
    clip_neg_m: DVec3,
}

impl Default for Spring {
    /// As the controller starts.
    fn default() -> Self {
        let mut spring = Self { stiffness_n_m: 0.0, clip_m: DVec3::ZERO, clip_neg_m: DVec3::ZERO };
        COMPLIANCE.into_iter().for_each(|(name, usual, _)| spring.set_one(name, usual));
        spring
    }
}

impl Spring {
    /// Takes what it knows from new parameters; turning, damping and integrals are not its.
    pub(super) fn set(&mut self, compliance: &Compliance) {
        compliance.values().iter().for_each(|(name, value)| self.set_one(name, *value));
    }

    fn set_one(&mut self, name: &str, value: f64) {
        match name {
            "translational_stiffness" => self.stiffness_n_m = value,
            "translational_clip_x" => self.clip_m.x = value,
            "translational_clip_y" => self.clip_m.y = value,
            "translational_clip_z" => self.clip_m.z = value,
            "translational_clip_neg_x" => self.clip_neg_m.x = value,
            "translational_clip_neg_y" => self.clip_neg_m.y = value,
            "translational_clip_neg_z" => self.clip_neg_m.z = value,
            _ => (),
        }
    }

    /// Newtons with which it pulls a tool whose target is `way` metres away.
    pub(super) fn force_n(&self, way: DVec3) -> f64 {
        // The controller clips where the tool is, seen from its target.
        let stretched = (-way).clamp(-self.clip_neg_m, self.clip_m);
        self.stiffness_n_m * stretched.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pulls_by_its_stiffness_up_to_its_clips() {
        let mut spring = Spring::default();
        assert!((spring.force_n(DVec3::X * 0.004) - 8.0).abs() < 1e-9);
        assert!((spring.force_n(DVec3::NEG_Z * 0.3) - 20.0).abs() < 1e-9, "a centimetre at most");
        let softer = [("translational_stiffness", 1000.0), ("translational_clip_z", 0.002)];
        spring.set(&Compliance::new(softer).unwrap());
        assert!((spring.force_n(DVec3::NEG_Z * 0.3) - 2.0).abs() < 1e-9, "the tool is above its target");
        assert!((spring.force_n(DVec3::Z * 0.3) - 10.0).abs() < 1e-9, "the others stay as they were");
    }
}
