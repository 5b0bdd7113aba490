//! Generalised advantage estimation (Schulman et al., "High-dimensional continuous control using generalized
//! advantage estimation", 2016).
//!
//! ```text
//! δ_t = r_t + γ V(what step t led to) − V_t
//! A_t = δ_t + γλ A_{t+1}        cut where an episode ends
//! R_t = A_t + V_t
//! ```
//!
//! What a step led to decides how an end counts. A truncated episode would have gone on: its last real
//! observation has a value. A terminated one is over: nothing follows, unless every end is to be bootstrapped
//! ([`Bootstrap::Always`]), which treats success like running out of time.

use plaudit_core::End;

/// Which ends of episodes are bootstrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bootstrap {
    /// Truncation only: what a textbook says.
    Standard,
    /// Every end.
    Always,
}

/// How far advantages look, and past what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaeSettings {
    /// Discount of the future, γ.
    pub gamma: f32,
    /// Trust in rewards over values, λ.
    pub lambda: f32,
    /// Which ends are bootstrapped.
    pub bootstrap: Bootstrap,
}

/// What advantages are made of: columns of a segment, `[T, B]`.
#[derive(Debug, Clone, Copy)]
pub struct GaeInputs<'a> {
    /// B.
    pub batch: usize,
    /// The rewards.
    pub reward: &'a [f32],
    /// How each step ended.
    pub end: &'a [End],
    /// V_t.
    pub value: &'a [f32],
    /// The value of what each step led to: of the next observation, or of the last real one.
    pub after: &'a [f32],
    /// Where units of time begin: at every step, or where chunks of actions were decided. A unit gets the
    /// summed reward of its steps and is discounted once.
    pub starts: &'a [bool],
}

/// Advantages and the returns that values should learn, `[T, B]`; meaningful where units of time begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Advantages {
    /// A_t.
    pub advantage: Vec<f32>,
    /// R_t.
    pub target: Vec<f32>,
}

impl GaeSettings {
    /// Advantages, from the last step to the first.
    pub fn advantages(&self, inputs: GaeInputs<'_>) -> Advantages {
        let GaeInputs { batch, reward, end, value, after, starts } = inputs;
        let mut made = Advantages { advantage: vec![0.0; reward.len()], target: vec![0.0; reward.len()] };
        // Per row: A of the unit that follows, and of the unit being summed up its reward, its value, its end.
        let mut following = vec![0.0; batch];
        let mut open: Vec<Option<Unit>> = vec![None; batch];
        for at in (0..reward.len()).rev() {
            let row = at % batch;
            let unit = open[row].get_or_insert(Unit { reward_sum: 0.0, after: after[at], end: end[at] });
            unit.reward_sum += reward[at];
            if starts[at] {
                let Unit { reward_sum, after, end } = *unit;
                let delta = reward_sum + self.gamma * self.bootstrap_value(after, end) - value[at];
                let carried = if end.is_end() { 0.0 } else { self.gamma * self.lambda * following[row] };
                following[row] = delta + carried;
                made.advantage[at] = following[row];
                made.target[at] = following[row] + value[at];
                open[row] = None;
            }
        }
        made
    }

    /// The value of what a step led to, given how it ended.
    fn bootstrap_value(&self, after: f32, end: End) -> f32 {
        match (end, self.bootstrap) {
            (End::No | End::Truncated, _) | (End::Terminated, Bootstrap::Always) => after,
            (End::Terminated, Bootstrap::Standard) => 0.0,
        }
    }
}

/// Steps that count as one, seen from their end.
#[derive(Debug, Clone, Copy)]
struct Unit {
    reward_sum: f32,
    after: f32,
    end: End,
}

/// Scales to mean 0 and standard deviation 1 (unbiased, with 1e-5 added, as RLinf does).
pub(crate) fn normalize(values: &mut [f32]) {
    let n = values.len() as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / n.max(1.0);
    let squares: f64 = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum();
    let deviation = (squares / (n - 1.0).max(1.0)).sqrt() + 1e-5;
    for value in values {
        *value = ((f64::from(*value) - mean) / deviation) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One row's inputs, owned.
    #[derive(Debug, Clone)]
    struct Row {
        reward: Vec<f32>,
        end: Vec<End>,
        value: Vec<f32>,
        after: Vec<f32>,
        starts: Vec<bool>,
    }

    impl Row {
        fn advantages(&self, settings: GaeSettings) -> Advantages {
            let Self { reward, end, value, after, starts } = self;
            settings.advantages(GaeInputs { batch: 1, reward, end, value, after, starts })
        }
    }

    /// The definition, without recursion: A_t = Σ_l (γλ)^l δ_{t+l} up to the end of the episode, and a unit's
    /// δ from the sum of its rewards. Quadratic, in f64.
    fn by_definition(row: &Row, settings: GaeSettings) -> Vec<(usize, f64)> {
        let GaeSettings { gamma, lambda, bootstrap } = settings;
        let (gamma, lambda) = (f64::from(gamma), f64::from(lambda));
        let begins: Vec<usize> = (0..row.reward.len()).filter(|&t| row.starts[t]).collect();
        let units: Vec<(usize, f64, bool)> = begins
            .iter()
            .enumerate()
            .map(|(i, &t)| {
                let stop = begins.get(i + 1).copied().unwrap_or(row.reward.len());
                let reward_sum: f64 = row.reward[t..stop].iter().map(|&r| f64::from(r)).sum();
                let end = row.end[stop - 1];
                let is_worth_nothing = end == End::Terminated && bootstrap == Bootstrap::Standard;
                let next = if is_worth_nothing { 0.0 } else { f64::from(row.after[stop - 1]) };
                (t, reward_sum + gamma * next - f64::from(row.value[t]), end.is_end())
            })
            .collect();
        let sum = |from: usize| {
            let mut total = 0.0;
            for (l, (_, delta, is_end)) in units[from..].iter().enumerate() {
                total += (gamma * lambda).powi(l as i32) * delta;
                if *is_end {
                    break;
                }
            }
            total
        };
        (0..units.len()).map(|i| (units[i].0, sum(i))).collect()
    }

    fn any_end() -> impl Strategy<Value = End> {
        prop_oneof![6 => Just(End::No), 1 => Just(End::Terminated), 1 => Just(End::Truncated)]
    }

    prop_compose! {
        fn any_row()(steps in 1usize..40)(
            reward in proptest::collection::vec(-2.0f32..2.0, steps),
            end in proptest::collection::vec(any_end(), steps),
            value in proptest::collection::vec(-3.0f32..3.0, steps),
            after in proptest::collection::vec(-3.0f32..3.0, steps),
            starts in proptest::collection::vec(proptest::bool::ANY, steps),
        ) -> Row {
            let mut row = Row { reward, end, value, after, starts };
            row.starts[0] = true;
            for t in 1..row.end.len() {
                row.starts[t] |= row.end[t - 1].is_end(); // nothing decided for one episode goes on in the next
            }
            row
        }
    }

    proptest! {
        #[test]
        fn the_recursion_is_the_definition(
            row in any_row(), gamma in 0.0f32..1.0, lambda in 0.0f32..1.0, always: bool,
        ) {
            let bootstrap = if always { Bootstrap::Always } else { Bootstrap::Standard };
            let settings = GaeSettings { gamma, lambda, bootstrap };
            let made = row.advantages(settings);
            for (t, expected) in by_definition(&row, settings) {
                let close = (f64::from(made.advantage[t]) - expected).abs() < 1e-4;
                prop_assert!(close, "step {t}: {} where {expected} is right", made.advantage[t]);
                prop_assert_eq!(made.target[t], made.advantage[t] + row.value[t]);
            }
        }

        /// Rows do not touch each other: two side by side are the two alone.
        #[test]
        fn rows_are_independent(a in any_row(), b in any_row()) {
            let settings = GaeSettings { gamma: 0.9, lambda: 0.8, bootstrap: Bootstrap::Standard };
            let steps = a.reward.len().min(b.reward.len());
            let cut = |row: &Row| Row {
                reward: row.reward[..steps].into(), end: row.end[..steps].into(), value: row.value[..steps].into(),
                after: row.after[..steps].into(), starts: row.starts[..steps].into(),
            };
            let (a, b) = (cut(&a), cut(&b));
            fn woven<T: Copy>(a: &[T], b: &[T]) -> Vec<T> {
                a.iter().zip(b).flat_map(|(a, b)| [*a, *b]).collect()
            }
            let both = settings.advantages(GaeInputs {
                batch: 2,
                reward: &woven(&a.reward, &b.reward),
                end: &woven(&a.end, &b.end),
                value: &woven(&a.value, &b.value),
                after: &woven(&a.after, &b.after),
                starts: &woven(&a.starts, &b.starts),
            });
            let alone = woven(&a.advantages(settings).advantage, &b.advantages(settings).advantage);
            prop_assert_eq!(both.advantage, alone);
        }
    }

    #[test]
    fn ends_count_as_the_setting_says() {
        let row = |end| Row {
            reward: vec![1.0],
            end: vec![end],
            value: vec![0.5],
            after: vec![10.0],
            starts: vec![true],
        };
        for (end, bootstrap, expected) in [
            (End::No, Bootstrap::Standard, 5.5),
            (End::Truncated, Bootstrap::Standard, 5.5),
            (End::Terminated, Bootstrap::Standard, 0.5),
            (End::Terminated, Bootstrap::Always, 5.5),
        ] {
            let settings = GaeSettings { gamma: 0.5, lambda: 0.9, bootstrap };
            assert_eq!(row(end).advantages(settings).advantage, [expected], "{end:?} {bootstrap:?}");
        }
    }

    #[test]
    fn normalized_values_have_mean_zero_and_deviation_one() {
        let mut values = vec![1.0, 2.0, 3.0, 6.0];
        normalize(&mut values);
        // The mean is 3, the unbiased variance (4 + 1 + 0 + 9) / 3.
        let deviation = (14.0f64 / 3.0).sqrt() + 1e-5;
        let expected = [-2.0, -1.0, 0.0, 3.0].map(|x: f64| (x / deviation) as f32);
        assert_eq!(values, expected);
        let mut one = vec![5.0];
        normalize(&mut one);
        assert_eq!(one, [0.0]);
    }
}
