//! Burn's tensors as slices, and our operations as nodes of Burn's graph.

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn_flex::{Flex, FlexTensor, Layout};
use burn_tensor::{BackendPrimitive, Bytes, DType, Float, Shape, Tensor};

type AutodiffTensor = <Float as BackendPrimitive<Autodiff<Flex>>>::Primitive;

/// A tensor that gradients may go back through.
pub(super) struct Operand {
    /// Its numbers, one after another.
    pub(super) values: FlexTensor,
    tracked: Option<AutodiffTensor>,
}

impl Operand {
    pub(super) fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        if !tensor.is_autodiff() {
            return Self { values: plain(tensor), tracked: None };
        }
        let tracked = tensor.try_into_primitive::<Autodiff<Flex>>();
        let tracked = tracked.unwrap_or_else(|error| unreachable!("networks are of one backend: {error:?}"));
        Self { values: contiguous(tracked.primitive().clone()), tracked: Some(tracked) }
    }

    pub(super) fn numbers(&self) -> &[f32] {
        numbers(&self.values)
    }

    /// Whether a gradient will be asked for.
    pub(super) fn is_tracked(&self) -> bool {
        self.tracked.as_ref().is_some_and(AutodiffTensor::is_tracked)
    }

    fn node(&self) -> NodeGuard {
        match &self.tracked {
            Some(tensor) => tensor.node(),
            None => AutodiffTensor::new(self.values.clone()).node(),
        }
    }
}

/// The output of an operation, entered into the graph with what its gradient needs if one of its operands is there.
pub(super) fn record<O: Backward<Flex, N>, const N: usize, const D: usize>(
    operation: O,
    operands: [&Operand; N],
    output: FlexTensor,
    state: impl FnOnce() -> O::State,
) -> Tensor<D> {
    if operands.iter().all(|operand| operand.tracked.is_none()) {
        return wrap(output);
    }
    let output =
        match operation.prepare::<NoCheckpointing>(operands.map(Operand::node)).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(state(), output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        };
    Tensor::from_primitive::<Autodiff<Flex>>(output)
}

/// The gradient of an operation's output.
pub(super) fn output_gradient<S, const N: usize>(ops: &Ops<S, N>, grads: &mut Gradients) -> FlexTensor {
    contiguous(grads.consume::<Flex>(&ops.node))
}

/// Hands gradients to those of the operands that want them.
pub(super) fn register<S, const N: usize>(ops: Ops<S, N>, gradients: [FlexTensor; N], grads: &mut Gradients) {
    for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
        if let Some(parent) = parent {
            grads.register::<Flex>(parent.id, gradient);
        }
    }
}

/// An operation with a gradient: its name, how many operands it has, what it keeps, and the gradients of its operands.
macro_rules! differentiable {
    ($(#[$doc:meta])* $name:ident, $operands:literal, $state:ty, |$saved:ident, $gradient:ident| $gradients:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        struct $name;

        impl burn_autodiff::ops::Backward<burn_flex::Flex, $operands> for $name {
            type State = $state;

            fn backward(
                self,
                ops: burn_autodiff::ops::Ops<$state, $operands>,
                grads: &mut burn_autodiff::grads::Gradients,
                _: &mut burn_autodiff::checkpoint::base::Checkpointer,
            ) {
                let $gradient = $crate::ops::graph::output_gradient(&ops, grads);
                let $saved = &ops.state;
                let found = $gradients;
                $crate::ops::graph::register(ops, found, grads);
            }
        }
    };
}
pub(super) use differentiable;

/// The values of a tensor outside the graph, one after another.
pub(super) fn plain<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    let values = tensor.try_into_primitive::<Flex>();
    contiguous(values.unwrap_or_else(|error| unreachable!("a tensor outside the graph: {error:?}")))
}

/// A tensor outside the graph.
pub(super) fn wrap<const D: usize>(values: FlexTensor) -> Tensor<D> {
    Tensor::from_primitive::<Flex>(values)
}

/// The same values one after another somewhere in their memory.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// The numbers of a tensor, which lie one after another.
pub(super) fn numbers(tensor: &FlexTensor) -> &[f32] {
    let numbers = tensor.as_slice::<f32>();
    numbers.unwrap_or_else(|| unreachable!("networks are f32, and this tensor is contiguous"))
}

/// The same to be changed; in place if nobody else holds them.
pub(super) fn numbers_mut(tensor: &mut FlexTensor) -> &mut [f32] {
    let (start, count) = (tensor.layout().start_offset(), tensor.layout().num_elements());
    &mut tensor.storage_mut::<f32>()[start..start + count]
}

pub(super) fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(numbers), Layout::contiguous(Shape::new(shape)), DType::F32)
}

/// Other numbers in the shape of a tensor.
pub(super) fn like(tensor: &FlexTensor, numbers: Vec<f32>) -> FlexTensor {
    let layout = Layout::contiguous(tensor.layout().shape().clone());
    FlexTensor::new(Bytes::from_elems(numbers), layout, DType::F32)
}

pub(super) fn dims<const D: usize>(tensor: &FlexTensor) -> [usize; D] {
    tensor.layout().shape().dims()
}
