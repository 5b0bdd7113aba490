//! Gradients and the optimizer's state of a network that several ranks train together.
//!
//! Each parameter belongs to one rank, which sums its gradients. After a batch, every rank sends the others what theirs are
//! ([`DataParallel::reduce`]); the owner adds them in the order of ranks, which is the order of batches. So a sum has the same
//! order on any number of ranks, and with one rank: what is learned is bit-exact whoever computed which batch.
//!
//! At a step, ranks exchange these sums and each moves all parameters; or, with [`Sharding::Optimizer`], each moves those it
//! owns and they exchange what came out. Both send the same amount of numbers.

use std::sync::Arc;

use plaudit_core::{GradientSync, SumOnto, SyncError};

use super::parameters::{Parameters, Role, Value};
use crate::kernels::copy;
use crate::tensor::Tensor;

/// What is divided among ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharding {
    /// Nothing: every rank has all of it.
    #[default]
    Nothing,
    /// Summed gradients and the optimizer's moments: each rank has those of its own parameters (ZeRO).
    Optimizer,
}

/// A rank's part in a training.
#[derive(Debug)]
pub(crate) struct DataParallel {
    pub(crate) sync: Arc<dyn GradientSync>,
    pub(crate) sharding: Sharding,
    /// For each rank, the parameters it owns, in order.
    owned: Vec<Vec<usize>>,
    /// For each rank, how many numbers that is.
    lens: Vec<usize>,
    /// The sum of gradients of what this rank owns.
    sum: Vec<f32>,
    onto: SumOnto,
    /// For each parameter, whether a batch since the last step had a gradient for it.
    has_gradient: Vec<bool>,
    /// What all ranks own, one after another.
    slices: Vec<f32>,
}

impl DataParallel {
    pub(crate) fn new(sync: Arc<dyn GradientSync>, sharding: Sharding, parameters: &Parameters) -> Self {
        let sizes = parameters.specs.iter().enumerate().filter(|(_, spec)| spec.role == Role::Trained);
        let owned = owners(&sizes.map(|(i, spec)| (i, spec.len())).collect::<Vec<_>>(), sync.world());
        let lens: Vec<usize> =
            owned.iter().map(|owned| owned.iter().map(|i| parameters.specs[*i].len()).sum()).collect();
        Self {
            sum: vec![0.0; lens[sync.rank()]],
            slices: vec![0.0; lens.iter().sum()],
            has_gradient: vec![false; parameters.specs.len()],
            onto: SumOnto::Nothing,
            owned,
            lens,
            sync,
            sharding,
        }
    }

    /// Whether this rank keeps the moments of a parameter.
    pub(crate) fn keeps_moments(&self, parameter: usize) -> bool {
        self.sharding == Sharding::Nothing || self.own().contains(&parameter)
    }

    /// The parameters of this rank.
    pub(crate) fn own(&self) -> &[usize] {
        &self.owned[self.sync.rank()]
    }

    /// Each trained parameter and the rank that owns it, in the order of parameters.
    pub(crate) fn with_owners(&self) -> Vec<(usize, usize)> {
        let owned = self.owned.iter().enumerate();
        let pairs = owned.flat_map(|(rank, owned)| owned.iter().map(move |parameter| (*parameter, rank)));
        let mut pairs: Vec<(usize, usize)> = pairs.collect();
        pairs.sort_unstable();
        pairs
    }

    /// Takes the gradients of one batch on each rank, and adds them to the sums.
    pub(crate) fn reduce(
        &mut self,
        gradients: &mut [Option<Tensor<1>>],
        parameters: &Parameters,
    ) -> Result<(), SyncError> {
        let mut flags = Vec::with_capacity(parameters.specs.len());
        for (i, slice) in slices_of(self.owned.iter().flatten(), &mut self.slices, parameters) {
            let gradient = gradients[i].take();
            flags.push(if gradient.is_some() { 1.0 } else { 0.0 });
            match gradient {
                Some(gradient) => copy(gradient.numbers(), slice),
                None => slice.fill(0.0),
            }
        }
        for flags in self.sync.gather(&flags)? {
            let trained = self.owned.iter().flatten().zip(flags);
            trained.filter(|(_, flag)| *flag != 0.0).for_each(|(i, _)| self.has_gradient[*i] = true);
        }
        self.sync.reduce_scatter(&self.slices, &self.lens, &mut self.sum, self.onto)?;
        self.onto = SumOnto::Previous;
        Ok(())
    }

    /// The sums of all parameters, which then begin anew.
    pub(crate) fn all_gradients(
        &mut self,
        parameters: &Parameters,
    ) -> Result<Vec<Option<Tensor<1>>>, SyncError> {
        self.sync.all_gather(&self.sum, &self.lens, &mut self.slices)?;
        let has_gradient = self.begin_anew();
        let slices = slices_of(self.owned.iter().flatten(), &mut self.slices, parameters);
        Ok(as_gradients(slices, &has_gradient))
    }

    /// The sums of this rank's parameters, which then begin anew; and the length of the gradient of all.
    pub(crate) fn own_gradients(
        &mut self,
        parameters: &Parameters,
        sum_of_squares: impl Fn(&Tensor<1>) -> f64,
    ) -> Result<(Vec<Option<Tensor<1>>>, f64), SyncError> {
        let has_gradient = self.begin_anew();
        let own = &self.owned[self.sync.rank()];
        let gradients = as_gradients(slices_of(own, &mut self.sum, parameters), &has_gradient);
        // Squares of one parameter are rounded to single precision before they are summed, also with one rank.
        let squares =
            |i: &usize| gradients[*i].as_ref().map_or(0.0, |gradient| sum_of_squares(gradient) as f32);
        let own_squares: Vec<f32> = own.iter().map(squares).collect();
        let counts: Vec<usize> = self.owned.iter().map(Vec::len).collect();
        let mut by_owner = vec![0.0; counts.iter().sum()];
        self.sync.all_gather(&own_squares, &counts, &mut by_owner)?;
        let mut in_order = vec![0.0; has_gradient.len()];
        self.owned.iter().flatten().zip(by_owner).for_each(|(i, squares)| in_order[*i] = f64::from(squares));
        Ok((gradients, in_order.into_iter().sum::<f64>().sqrt()))
    }

    /// Every rank gets the parameters that others own.
    pub(crate) fn share_parameters(&mut self, parameters: &mut Parameters) -> Result<(), SyncError> {
        let own = &self.owned[self.sync.rank()];
        for (i, slice) in slices_of(own, &mut self.sum, parameters) {
            copy(parameters.flat(super::parameters::Id(i)).numbers(), slice);
        }
        self.sync.all_gather(&self.sum, &self.lens, &mut self.slices)?;
        let sizes: Vec<(usize, usize)> =
            self.owned.iter().flatten().map(|i| (*i, parameters.specs[*i].len())).collect();
        let mut begin = 0;
        for (i, len) in sizes {
            if let Value::Numbers(value) = &mut parameters.values[i] {
                copy(&self.slices[begin..begin + len], value.numbers_mut());
            }
            begin += len;
        }
        Ok(())
    }

    /// Sums begin anew. Gives which parameters they had gradients for.
    fn begin_anew(&mut self) -> Vec<bool> {
        self.onto = SumOnto::Nothing;
        let count = self.has_gradient.len();
        std::mem::replace(&mut self.has_gradient, vec![false; count])
    }
}

/// Which rank owns which parameters, given as `(parameter, numbers)`: the largest first, each to the rank that has least.
fn owners(sizes: &[(usize, usize)], world: usize) -> Vec<Vec<usize>> {
    let mut largest_first = sizes.to_vec();
    largest_first.sort_by_key(|(parameter, len)| (std::cmp::Reverse(*len), *parameter));
    let mut owned = vec![(0, Vec::new()); world];
    for (parameter, len) in largest_first {
        let least = owned.iter().enumerate().min_by_key(|(rank, (numbers, _))| (*numbers, *rank));
        let rank = least.map_or(0, |(rank, _)| rank);
        owned[rank].0 += len;
        owned[rank].1.push(parameter);
    }
    let sorted = |(_, mut parameters): (usize, Vec<usize>)| {
        parameters.sort_unstable();
        parameters
    };
    owned.into_iter().map(sorted).collect()
}

/// Numbers cut into those of each parameter.
fn slices_of<'a>(
    order: impl IntoIterator<Item = &'a usize>,
    numbers: &'a mut [f32],
    parameters: &Parameters,
) -> Vec<(usize, &'a mut [f32])> {
    let mut rest = numbers;
    let mut slices = Vec::new();
    for i in order {
        let (slice, after) = rest.split_at_mut(parameters.specs[*i].len());
        slices.push((*i, slice));
        rest = after;
    }
    slices
}

/// Those that have a gradient, by parameter.
fn as_gradients(slices: Vec<(usize, &mut [f32])>, has_gradient: &[bool]) -> Vec<Option<Tensor<1>>> {
    let mut gradients = vec![None; has_gradient.len()];
    for (i, slice) in slices.into_iter().filter(|(i, _)| has_gradient[*i]) {
        gradients[i] = Some(slice.to_vec().into());
    }
    gradients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_divided_by_size() {
        let sizes = [(0, 10), (2, 1), (3, 6), (4, 5), (7, 6)];
        assert_eq!(owners(&sizes, 1), [vec![0, 2, 3, 4, 7]]);
        assert_eq!(owners(&sizes, 2), [vec![0, 4], vec![2, 3, 7]]);
        assert_eq!(owners(&sizes, 3), [vec![0], vec![3, 4], vec![2, 7]]);
        assert_eq!(owners(&sizes[..1], 3), [vec![0], vec![], vec![]]);
    }
}
