//! Lists of whole numbers that kernels read.

use crate::gpu::Address;

/// Lists of whole numbers that go to the GPU in one copy.
#[derive(Debug, Default)]
pub(super) struct Lists {
    numbers: Vec<i32>,
}

/// A list among [`Lists`].
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    from: usize,
    pub(super) len: usize,
}

impl Lists {
    pub(super) fn add(&mut self, numbers: impl IntoIterator<Item = usize>) -> List {
        self.add_ints(numbers.into_iter().map(|number| number as i32))
    }

    pub(super) fn add_ints(&mut self, numbers: impl IntoIterator<Item = i32>) -> List {
        let from = self.numbers.len();
        self.numbers.extend(numbers);
        List { from, len: self.numbers.len() - from }
    }

    pub(super) fn numbers(&self) -> &[i32] {
        &self.numbers
    }
}

impl List {
    /// Where it is, if all lists were put at `base`.
    pub(super) fn at(self, base: Address) -> Address {
        base.plus_ints(self.from)
    }

    /// The numbers of it.
    #[cfg(test)]
    pub(super) fn of(self, lists: &Lists) -> &[i32] {
        &lists.numbers[self.from..self.from + self.len]
    }
}
