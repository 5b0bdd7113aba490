//! A uniformly random policy: the baseline that every learner must beat.

use plaudit_core::{ActionSpace, Decision, Obs, Policy, PolicyError, Rng, Seed};

/// Samples every action uniformly from the action space.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomPolicy {
    space: ActionSpace,
}

impl RandomPolicy {
    /// For environments with this action space.
    pub fn new(space: ActionSpace) -> Self {
        Self { space }
    }

    fn sample(&self, rng: &mut Rng, actions: &mut Vec<f32>) {
        match &self.space {
            ActionSpace::Discrete { n } => actions.push(rng.below(*n) as f32),
            ActionSpace::Continuous { low, high } => actions.extend(
                low.iter().zip(high).map(|(low, high)| rng.uniform((*low).into(), (*high).into()) as f32),
            ),
        }
    }
}

impl Policy for RandomPolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let mut actions = Vec::with_capacity(obs.batch() * self.space.width());
        for row in 0..obs.batch() as u64 {
            self.sample(&mut seed.index(row).rng(), &mut actions);
        }
        Ok(Decision { actions, ..Decision::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_possible_and_rows_keep_their_samples_in_any_batch() {
        let spaces = [
            ActionSpace::Discrete { n: 3 },
            ActionSpace::Continuous { low: vec![-2.0, 0.5], high: vec![2.0, 0.6] },
        ];
        for space in spaces {
            let mut policy = RandomPolicy::new(space.clone());
            let mut act = |rows: usize| {
                policy.act(&Obs::from_state(rows, vec![0.0; rows]).unwrap(), Seed::new(4)).unwrap().actions
            };
            let many = act(200);
            space.check(200, &many).unwrap();
            assert_eq!(act(7), many[..7 * space.width()]);
            if let ActionSpace::Continuous { low, high } = &space {
                let within = |a: &[f32]| (0..2).all(|d| low[d] <= a[d] && a[d] <= high[d]);
                assert!(many.chunks(2).all(within));
            } else {
                assert!((0..3).all(|choice| many.contains(&(choice as f32))));
            }
        }
    }
}
