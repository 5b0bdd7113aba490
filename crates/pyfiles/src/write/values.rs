//! numpy's and torch's values in a pickle.

use std::io::Write;

use super::Fault;
use super::pickler::{Pickler, TensorStyle, Tensors, address, c_strides, unsupported_value};
use super::pt::StoredTensor;
use crate::array::Array;
use crate::dtype::{DType, TimeUnit};
use crate::pickle::opcode as op;
use crate::torch_legacy;
use crate::value::{Library, ObjectArray};

/// numpy 2 keeps the old module name alive, and numpy 1 knows no other.
const MULTIARRAY: &str = "numpy.core.multiarray";

impl<W: Write> Pickler<'_, W> {
    // ---- numpy

    pub(super) fn array(&mut self, array: &Array) -> Result<(), Fault> {
        self.begin_array(array.shape(), Some(array.dtype()))?;
        self.bytes(&[array.bytes()])?;
        self.put(&[op::TUPLE, op::BUILD])
    }

    pub(super) fn object_array(&mut self, array: &ObjectArray, depth: usize) -> Result<(), Fault> {
        self.begin_array(array.shape(), None)?;
        match (array.shape(), array.items()) {
            // What stands around one object adds nothing to the way to it.
            ([], [item]) => {
                self.put(&[op::EMPTY_LIST, op::MARK])?;
                self.value(item, depth + 1)?;
                self.put(&[op::APPENDS])?;
            }
            (_, items) => self.list(items, depth)?,
        }
        self.put(&[op::TUPLE, op::BUILD])
    }

    /// `_reconstruct(ndarray, (0,), b"b")` and the state up to the data: `(1, shape, dtype, False, `
    fn begin_array(&mut self, shape: &[usize], dtype: Option<DType>) -> Result<(), Fault> {
        self.global(MULTIARRAY, "_reconstruct")?;
        self.global("numpy", "ndarray")?;
        self.sizes([0])?;
        self.bytes(&[b"b"])?;
        self.put(&[op::TUPLE3, op::REDUCE, op::MARK])?;
        self.int(1)?;
        self.sizes(shape.iter().copied())?;
        self.dtype(dtype)?;
        self.boolean(false)
    }

    pub(super) fn scalar(&mut self, scalar: &Array) -> Result<(), Fault> {
        if !scalar.shape().is_empty() {
            return self.array(scalar);
        }
        self.global(MULTIARRAY, "scalar")?;
        self.dtype(Some(scalar.dtype()))?;
        self.bytes(&[scalar.bytes()])?;
        self.put(&[op::TUPLE2, op::REDUCE])
    }

    /// `dtype("f4", False, True)` with its state; `None` is the type of Python objects.
    fn dtype(&mut self, dtype: Option<DType>) -> Result<(), Fault> {
        if let Some(place) = self.dtypes.get(&dtype) {
            return self.memo_get(*place);
        }
        let name = match dtype {
            None => "O8".to_owned(),
            Some(dtype) => dtype.numpy_name().ok_or_else(|| {
                unsupported_value(
                    format!("an array of {dtype}"),
                    "as a numpy array",
                    "write it as a torch tensor, or as float32",
                )
            })?,
        };
        self.global("numpy", "dtype")?;
        self.text(&name)?;
        self.put(&[op::NEWFALSE, op::NEWTRUE, op::TUPLE3, op::REDUCE])?;
        self.dtype_state(dtype)?;
        let place = self.memoize()?;
        self.dtypes.insert(dtype, place);
        Ok(())
    }

    /// `(3, "<", None, None, None, -1, -1, 0)`; dates have a ninth entry.
    fn dtype_state(&mut self, dtype: Option<DType>) -> Result<(), Fault> {
        let (unit, sizes, flags) = match dtype {
            Some(DType::DateTime(unit) | DType::TimeDelta(unit)) => (Some(unit), (-1, -1), 0),
            Some(DType::FixedStr(_)) => (None, (dtype.map_or(0, DType::size) as i64, 4), 8),
            Some(DType::FixedBytes(n)) => (None, (i64::from(n), 1), 0),
            Some(_) => (None, (-1, -1), 0),
            None => (None, (-1, -1), 63),
        };
        self.put(&[op::MARK])?;
        self.int(if unit.is_some() { 4 } else { 3 })?;
        let order = dtype.map_or('|', DType::order_mark);
        self.text(order.encode_utf8(&mut [0; 4]))?;
        self.put(&[op::NONE, op::NONE, op::NONE])?;
        self.int(sizes.0)?;
        self.int(sizes.1)?;
        self.int(flags)?;
        if let Some(unit) = unit {
            self.time_unit(unit)?;
        }
        self.put(&[op::TUPLE, op::BUILD])
    }

    /// `({}, (b"ns", 1, 1, 1))`
    fn time_unit(&mut self, unit: TimeUnit) -> Result<(), Fault> {
        self.put(&[op::EMPTY_DICT, op::MARK])?;
        self.bytes(&[unit.base.as_bytes()])?;
        self.int(i64::from(unit.count))?;
        self.int(1)?;
        self.int(1)?;
        self.put(&[op::TUPLE, op::TUPLE2])
    }

    // ---- torch

    pub(super) fn tensor(&mut self, tensor: &Array) -> Result<(), Fault> {
        match self.tensors {
            Tensors::Inline(TensorStyle::Numpy) => self.array(tensor),
            Tensors::Inline(TensorStyle::Torch) => self.inline_tensor(tensor),
            Tensors::Archive { places, .. } => match places.get(&address(tensor)) {
                Some(place) => self.archived_tensor(place),
                None => Err(unsupported_value(
                    "a tensor that was not stored",
                    "in a torch file",
                    "write the value whole",
                )),
            },
        }
    }

    /// A tensor whose bytes were streamed into this very file.
    pub(super) fn stored_tensor(&mut self, tensor: &StoredTensor) -> Result<(), Fault> {
        match self.tensors {
            Tensors::Archive { writer, .. } if writer == tensor.writer => self.archived_tensor(tensor),
            _ => {
                let hint = "finish the writer that stored it with this value";
                Err(unsupported_value("a tensor that another file holds", "here", hint))
            }
        }
    }

    /// `_rebuild_tensor_v2(_load_from_bytes(b"…"), 0, size, stride, False, OrderedDict())`
    fn inline_tensor(&mut self, tensor: &Array) -> Result<(), Fault> {
        let Some(class) = tensor.dtype().torch_storage() else {
            let hint = "torch itself cannot load it from there: write a numpy array or a .pt file";
            return Err(unsupported_value(
                format!("a tensor of {}", tensor.dtype()),
                "in a plain pickle",
                hint,
            ));
        };
        self.global("torch._utils", "_rebuild_tensor_v2")?;
        self.put(&[op::MARK])?;
        self.global("torch.storage", "_load_from_bytes")?;
        self.bytes(&[&torch_legacy::head(class, tensor.len()), tensor.bytes()])?;
        self.put(&[op::TUPLE1, op::REDUCE])?;
        self.tensor_layout(0, tensor.shape())?;
        self.put(&[op::TUPLE, op::REDUCE])
    }

    /// `_rebuild_tensor_v2(("storage", FloatStorage, "0", "cpu", 12), offset, size, stride, False, OrderedDict())`
    fn archived_tensor(&mut self, tensor: &StoredTensor) -> Result<(), Fault> {
        let Tensors::Archive { storages, .. } = self.tensors else { return Ok(()) };
        let len = storages.get(tensor.storage).copied().unwrap_or(0);
        let Some(name) = tensor.dtype.torch_name() else {
            let hint = "write it as a numpy array in a pickle or .npy file";
            return Err(unsupported_value(
                format!("an array of {}", tensor.dtype),
                "as a torch tensor",
                hint,
            ));
        };
        let class = tensor.dtype.torch_storage();
        let rebuild_fn = if class.is_some() { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" };
        self.global("torch._utils", rebuild_fn)?;
        self.put(&[op::MARK, op::MARK])?;
        self.text("storage")?;
        let unit = match class {
            Some(class) => {
                self.global("torch", class)?;
                tensor.dtype.size() as u64
            }
            None => {
                self.global("torch.storage", "UntypedStorage")?;
                1
            }
        };
        self.text(&tensor.storage.to_string())?;
        self.text("cpu")?;
        self.size(usize::try_from(len / unit).unwrap_or(usize::MAX))?;
        self.put(&[op::TUPLE, op::BINPERSID])?;
        self.tensor_layout(tensor.offset, &tensor.shape)?;
        if class.is_none() {
            self.global("torch", name)?;
        }
        self.put(&[op::TUPLE, op::REDUCE])
    }

    /// `offset, size, stride, requires_grad=False, hooks=OrderedDict()`
    fn tensor_layout(&mut self, offset: usize, shape: &[usize]) -> Result<(), Fault> {
        self.size(offset)?;
        self.sizes(shape.iter().copied())?;
        self.sizes(c_strides(shape))?;
        self.boolean(false)?;
        self.global("collections", "OrderedDict")?;
        self.put(&[op::EMPTY_TUPLE, op::REDUCE])
    }

    pub(super) fn dtype_value(&mut self, library: Library, dtype: DType) -> Result<(), Fault> {
        match (library, dtype.torch_name()) {
            (Library::Numpy, _) => self.dtype(Some(dtype)),
            (Library::Torch, Some(name)) => self.global("torch", name),
            (Library::Torch, None) => {
                Err(unsupported_value(format!("{dtype}"), "as a torch dtype", "torch has no such type"))
            }
        }
    }

    pub(super) fn device(&mut self, name: &str) -> Result<(), Fault> {
        self.global("torch", "device")?;
        self.text(name)?;
        self.put(&[op::TUPLE1, op::REDUCE])
    }
}
