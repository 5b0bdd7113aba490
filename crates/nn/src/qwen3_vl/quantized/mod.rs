//! Folders of quantised weights: what their `quantization_config` says, and the tensors of a layer as one matrix.
//!
//! | `quant_method` | a layer's tensors |
//! |---|---|
//! | `fp8` (Qwen's own folders) | `weight` (E4M3), `weight_scale_inv` of blocks |
//! | `awq` | `qweight`, `qzeros`, `scales`, in the `gemm` version |
//! | `gptq` | `qweight`, `qzeros`, `scales`, `g_idx`, of 4 or 8 bits, with or without activation order |
//! | `compressed-tensors` | `weight_packed`, `weight_scale`, `weight_shape`, `weight_zero_point`; or `weight` (E4M3 or int8) with `weight_scale` |
//!
//! Layers that a folder leaves as they were are read as they are. Activations are never quantised here: where a folder says how,
//! the full numbers are used. Everything else is refused by name.

mod layers;
mod scheme;
mod tensor;

pub(super) use layers::LayerTensors;
pub(super) use scheme::Scheme;
pub(super) use tensor::{PackedKind, PackedMatrix, QuantizedTensor};
