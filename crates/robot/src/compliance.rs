//! How an arm gives way: stiffness, damping and clips of SERL's impedance controller, with their ranges.

use thiserror::Error;

/// Every parameter: its name, the controller's default, and the largest value it takes. The smallest is 0.
pub const COMPLIANCE: [(&str, f64, f64); 20] = [
    ("translational_stiffness", 2000.0, 6000.0),
    ("translational_damping", 89.0, 400.0),
    ("rotational_stiffness", 150.0, 300.0),
    ("rotational_damping", 7.0, 30.0),
    ("nullspace_stiffness", 0.2, 100.0),
    ("joint1_nullspace_stiffness", 100.0, 100.0),
    ("translational_clip_x", 0.01, 0.1),
    ("translational_clip_y", 0.01, 0.1),
    ("translational_clip_z", 0.01, 0.1),
    ("translational_clip_neg_x", 0.01, 0.1),
    ("translational_clip_neg_y", 0.01, 0.1),
    ("translational_clip_neg_z", 0.01, 0.1),
    ("rotational_clip_x", 0.05, 0.1),
    ("rotational_clip_y", 0.05, 0.1),
    ("rotational_clip_z", 0.05, 0.1),
    ("rotational_clip_neg_x", 0.05, 0.1),
    ("rotational_clip_neg_y", 0.05, 0.1),
    ("rotational_clip_neg_z", 0.05, 0.1),
    ("translational_Ki", 0.0, 100.0),
    ("rotational_Ki", 0.0, 100.0),
];

/// Parameters to set, each within its range; the others stay as they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Compliance {
    values: Vec<(&'static str, f64)>,
}

impl Compliance {
    /// Checks names and ranges. A name that comes twice has its last value.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self, ComplianceError> {
        let mut checked = Self::default();
        for (name, value) in values {
            let Some((name, _, most)) = COMPLIANCE.into_iter().find(|(known, ..)| *known == name) else {
                return Err(ComplianceError::Name { name: name.into() });
            };
            if !(0.0..=most).contains(&value) {
                return Err(ComplianceError::Range { name, value, least: 0.0, most });
            }
            checked.values.retain(|(known, _)| *known != name);
            checked.values.push((name, value));
        }
        Ok(checked)
    }

    /// The parameters.
    pub fn values(&self) -> &[(&'static str, f64)] {
        &self.values
    }
}

/// A parameter that the controller would not take.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ComplianceError {
    /// No such parameter.
    #[error("the controller has no parameter `{name}`; it has {}", COMPLIANCE.map(|(name, ..)| name).join(", "))]
    Name {
        /// What was written.
        name: String,
    },
    /// Too large, negative, or no number.
    #[error("`{name}` is {value}, but the controller takes {least} to {most}")]
    Range {
        /// Which.
        name: &'static str,
        /// What was written.
        value: f64,
        /// The smallest there is.
        least: f64,
        /// The largest there is.
        most: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant 13: what the controller would not take is refused when it is read.
    #[test]
    fn values_outside_the_controllers_ranges_are_refused() {
        for (name, usual, most) in COMPLIANCE {
            assert!(Compliance::new([(name, usual)]).is_ok() && Compliance::new([(name, most)]).is_ok());
            for wrong in [-0.001, most * 1.001, f64::NAN, f64::INFINITY] {
                let error = Compliance::new([(name, wrong)]).unwrap_err();
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        let error = Compliance::new([("stiffness", 1.0)]).unwrap_err().to_string();
        assert!(
            error.starts_with("the controller has no parameter `stiffness`; it has translational_"),
            "{error}"
        );
        let twice = Compliance::new([("rotational_Ki", 1.0), ("rotational_Ki", 2.0)]).unwrap();
        assert_eq!(twice.values(), [("rotational_Ki", 2.0)]);
    }
}
