//! The tape: what was computed, and the backward pass over it.
//!
//! A node is a leaf or an operation. It knows nothing of shapes: a gradient is as many numbers as its tensor has, in the
//! same order, and so a reshaped tensor has the node of the one it came from.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Numbers, Tensor};

/// Where a gradient goes.
pub(crate) struct Node {
    /// Nodes are numbered as they are made, so that an operation has a higher number than its inputs.
    number: u64,
    origin: Origin,
}

enum Origin {
    /// Somebody will take the gradient.
    Leaf,
    /// It goes on to the inputs; taken when it has.
    Operation(Mutex<Option<Operation>>),
}

struct Operation {
    inputs: Vec<Option<Arc<Node>>>,
    backward: Box<dyn FnOnce(Numbers) -> Vec<Option<Numbers>> + Send>,
}

impl Node {
    fn new(origin: Origin) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { number: NEXT.fetch_add(1, Ordering::Relaxed), origin })
    }

    pub(super) fn leaf() -> Arc<Self> {
        Self::new(Origin::Leaf)
    }

    /// The node of an operation, unless no input wants a gradient. `backward` gives a gradient for each input that does.
    pub(super) fn record(
        inputs: Vec<Option<Arc<Self>>>,
        backward: impl FnOnce(Numbers) -> Vec<Option<Numbers>> + Send + 'static,
    ) -> Option<Arc<Self>> {
        inputs.iter().any(Option::is_some).then(|| {
            let operation = Operation { inputs, backward: Box::new(backward) };
            Self::new(Origin::Operation(Mutex::new(Some(operation))))
        })
    }

    fn take_operation(&self) -> Option<Operation> {
        match &self.origin {
            Origin::Leaf => None,
            Origin::Operation(operation) => operation.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }

    fn take_inputs(&self) -> Vec<Arc<Self>> {
        self.take_operation()
            .map(|operation| operation.inputs.into_iter().flatten().collect())
            .unwrap_or_default()
    }
}

impl Drop for Node {
    /// Frees what came before one by one: by recursion, a deep network would need a deep stack.
    fn drop(&mut self) {
        let mut inputs = self.take_inputs();
        while let Some(node) = inputs.pop() {
            if let Some(unshared) = Arc::into_inner(node) {
                inputs.append(&mut unshared.take_inputs());
            }
        }
    }
}

/// The gradients of leaves.
#[derive(Debug)]
pub(crate) struct Gradients(HashMap<u64, Numbers>);

impl Gradients {
    /// The backward pass from tensors whose gradients are known. Operations run from the youngest to the oldest, so that each
    /// has heard from all that used its output; each is freed when it has run, whoever still holds its output.
    pub(crate) fn of<const D: usize>(roots: impl IntoIterator<Item = (Tensor<D>, Tensor<D>)>) -> Self {
        let mut waiting = Waiting(BTreeMap::new());
        for (Tensor { shape, node, .. }, gradient) in roots {
            assert_eq!(gradient.shape, shape, "the gradient of a tensor has its shape");
            waiting.add(node, Some(gradient.numbers));
        }
        let mut leaves = HashMap::new();
        while let Some((number, (node, gradient))) = waiting.0.pop_last() {
            if matches!(node.origin, Origin::Leaf) {
                leaves.insert(number, gradient);
                continue;
            }
            let Some(Operation { inputs, backward }) = node.take_operation() else {
                unreachable!("a backward pass went through here before")
            };
            drop(node);
            inputs.into_iter().zip(backward(gradient)).for_each(|(input, found)| waiting.add(input, found));
        }
        Self(leaves)
    }

    /// The gradient of a leaf; none if nothing depended on it.
    pub(crate) fn take<const D: usize>(&mut self, leaf: &Tensor<D>) -> Option<Tensor<D>> {
        let numbers = self.0.remove(&leaf.node.as_ref()?.number)?;
        Some(Tensor::new(numbers, leaf.shape))
    }
}

/// Nodes by number, and the sums of the gradients that they were given so far.
struct Waiting(BTreeMap<u64, (Arc<Node>, Numbers)>);

impl Waiting {
    fn add(&mut self, node: Option<Arc<Node>>, gradient: Option<Numbers>) {
        let (Some(node), Some(gradient)) = (node, gradient) else { return };
        match self.0.entry(node.number) {
            Entry::Vacant(place) => {
                place.insert((node, gradient));
            }
            Entry::Occupied(mut place) => {
                let sum = std::mem::replace(&mut place.get_mut().1, Vec::new().into());
                place.get_mut().1 = sum.plus(gradient);
            }
        }
    }
}
