//! The Python names that a file may mention. Everything else is refused, and these are only understood, never
//! called.

use crate::dtype::DType;

/// A Python function or class that stands for plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Global {
    NumpyReconstruct,
    NumpyScalar,
    NumpyFromBuffer,
    NumpyDType,
    NumpyArray,
    RebuildTensor(RebuildTensorVersion),
    RebuildParameter,
    LoadFromBytes,
    Storage(Option<DType>),
    TorchDType(DType),
    TorchSize,
    TorchDevice,
    OrderedDict,
    DefaultDict,
    Encode,
    Set,
    FrozenSet,
    Bytes,
    ByteArray,
    Complex,
    Dict,
    /// A plain type that only says what a `defaultdict` makes when a key is missing.
    Factory,
}

/// The arguments of `torch._utils._rebuild_tensor…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RebuildTensorVersion {
    /// storage, offset, size, stride
    V1,
    /// …, requires_grad, hooks\[, metadata\]
    V2,
    /// storage, offset, size, stride, requires_grad, hooks, dtype\[, metadata\]
    V3,
}

pub(crate) fn find(module: &str, name: &str) -> Option<Global> {
    Some(match (module, name) {
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Global::NumpyReconstruct,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Global::NumpyScalar,
        ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Global::NumpyFromBuffer,
        ("numpy", "dtype") => Global::NumpyDType,
        ("numpy", "ndarray") => Global::NumpyArray,
        ("torch._utils", "_rebuild_tensor") => Global::RebuildTensor(RebuildTensorVersion::V1),
        ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor(RebuildTensorVersion::V2),
        ("torch._utils", "_rebuild_tensor_v3") => Global::RebuildTensor(RebuildTensorVersion::V3),
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Global::RebuildParameter,
        ("torch.storage", "_load_from_bytes") => Global::LoadFromBytes,
        ("torch" | "torch.storage", "UntypedStorage") => Global::Storage(None),
        ("torch", "Size") => Global::TorchSize,
        ("torch", "device") => Global::TorchDevice,
        ("torch" | "torch.cuda", _) => return find_torch_type(name),
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("collections", "defaultdict") => Global::DefaultDict,
        ("_codecs", "encode") => Global::Encode,
        ("builtins" | "__builtin__", _) => return find_builtin(name),
        _ => return None,
    })
}

fn find_torch_type(name: &str) -> Option<Global> {
    if let Some(dtype) = DType::from_torch_storage(name) {
        return Some(Global::Storage(Some(dtype)));
    }
    DType::from_torch_name(name).map(Global::TorchDType)
}

fn find_builtin(name: &str) -> Option<Global> {
    Some(match name {
        "set" => Global::Set,
        "frozenset" => Global::FrozenSet,
        "bytes" => Global::Bytes,
        "bytearray" => Global::ByteArray,
        "complex" => Global::Complex,
        "dict" => Global::Dict,
        "list" | "tuple" | "int" | "float" | "bool" | "str" => Global::Factory,
        _ => return None,
    })
}

/// The hint for a file that names something else.
pub(crate) fn hint(module: &str, name: &str) -> &'static str {
    match module {
        "torch._utils" if name.contains("sparse") => "sparse tensors are not read; save `x.to_dense()`",
        "torch._utils" if name.contains("qtensor") => "quantised tensors are not read; save `x.dequantize()`",
        "torch._utils" if name.contains("meta") => "a meta tensor has no numbers to read",
        "torch._utils" | "torch._tensor" | "torch.serialization" => {
            "this kind of tensor is not read; save a plain one (`x.detach().cpu().contiguous()`)"
        }
        "numpy.ma.core" => "masked arrays are not read; save `x.filled()` and the mask",
        module if module.starts_with("numpy") => "only plain arrays and scalars of numpy are read",
        module if module.starts_with("torch.nn") => {
            "whole torch modules are not read; save `module.state_dict()`"
        }
        _ => {
            "a file may hold data only, and this could run code; nothing was run. Save plain arrays, numbers, \
             text, lists and dicts instead"
        }
    }
}
