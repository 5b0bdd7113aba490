//! What torch's functions make of their arguments: storages, tensors, sizes, devices.

use super::globals::{Global, RebuildTensorVersion};
use super::heap::{Node, Slot, Storage, TensorNode};
use super::machine::{Machine, StorageId};
use crate::error::{ReadError, Result};
use crate::torch_legacy;

impl Machine<'_> {
    /// `("storage", torch.FloatStorage, "0", "cpu", 12[, None])`
    pub(super) fn persistent(&mut self, id: Slot) -> Result<()> {
        let storage = self.storage(id)?;
        self.make(Node::Storage(Box::new(storage)))
    }

    fn storage(&mut self, id: Slot) -> Result<Storage> {
        let (class, key, len, view) = match self.heap.tuple(id) {
            Some(&[kind, class, key, _, len]) if self.heap.str(kind) == Some("storage") => {
                (class, key, len, Slot::None)
            }
            Some(&[kind, class, key, _, len, view]) if self.heap.str(kind) == Some("storage") => {
                (class, key, len, view)
            }
            _ => return Err(self.bad("the name of a torch storage", self.heap.kind(id))),
        };
        let Some(Global::Storage(dtype)) = self.heap.global(class) else {
            return Err(self.bad("a class of torch storage", self.heap.kind(class)));
        };
        if !matches!(view, Slot::None) {
            let hint = "load and save the file once with torch 1.6 or newer";
            return Err(ReadError::unsupported(
                self.at,
                "a view of a storage, as very old torch wrote it",
                hint,
            ));
        }
        let len = self.size(len, "the length of a storage")?;
        let Some(key) = self.heap.str(key).filter(|key| key.len() < 256) else {
            return Err(self.bad("the short key of a storage", self.heap.kind(key)));
        };
        (self.find_storage)(&StorageId { dtype, key, len }, self.at)
    }

    /// `_load_from_bytes(b"…")`: a whole stream of old torch inside a string, which is how a plain pickle holds
    /// a tensor.
    pub(super) fn storage_in_bytes(&mut self, arguments: &[Slot]) -> Result<Node> {
        let bytes = match arguments {
            [bytes] => self.heap.bytes(*bytes).cloned(),
            _ => None,
        };
        let Some(bytes) = bytes else {
            return Err(self.bad("the bytes of a torch stream", "something else"));
        };
        if self.nesting > 0 {
            let hint = "save tensors, not bytes of saved tensors";
            return Err(ReadError::unsupported(self.at, "a torch stream inside a torch stream", hint));
        }
        let at = self.at;
        let storage =
            torch_legacy::storage(&bytes, self.meter, self.nesting + 1).map_err(|error| error.nested(at))?;
        Ok(Node::Storage(Box::new(storage)))
    }

    pub(super) fn tensor(&mut self, version: RebuildTensorVersion, arguments: &[Slot]) -> Result<Node> {
        let [storage, offset, shape, strides, rest @ ..] = arguments else {
            return Err(self.bad("storage, offset, size and stride of a tensor", "fewer arguments"));
        };
        let (number, storage_dtype) = match (storage, self.heap.get(*storage)) {
            (Slot::Node(number), Some(Node::Storage(storage))) => (*number, storage.dtype),
            _ => return Err(self.bad("the storage of a tensor", self.heap.kind(*storage))),
        };
        let (dtype, metadata) = match (version, rest) {
            (RebuildTensorVersion::V3, [_, _, dtype, metadata @ ..]) => match self.heap.global(*dtype) {
                Some(Global::TorchDType(dtype)) => (Some(dtype), metadata),
                _ => return Err(self.bad("a torch dtype", self.heap.kind(*dtype))),
            },
            (RebuildTensorVersion::V3, _) => return Err(self.bad("a torch dtype", "fewer arguments")),
            (_, [_, _, metadata @ ..]) => (storage_dtype, metadata),
            _ => (storage_dtype, &[][..]),
        };
        let Some(dtype) = dtype else { return Err(self.bad("a storage with a type", "an untyped storage")) };
        self.check_metadata(metadata)?;
        let offset = self.size(*offset, "the offset of a tensor")?;
        let shape = self.sizes(*shape, "the size of a tensor")?;
        let strides = self.sizes(*strides, "the stride of a tensor")?;
        if shape.len() != strides.len() {
            return Err(self.bad("a stride for each axis", format!("{} for {}", strides.len(), shape.len())));
        }
        Ok(Node::Tensor(Box::new(TensorNode { storage: number, dtype, offset, shape, strides })))
    }

    /// Metadata says that numbers are to be read as their conjugates or negatives.
    fn check_metadata(&self, metadata: &[Slot]) -> Result<()> {
        match metadata.first().map(|slot| (slot, self.heap.get(*slot))) {
            None | Some((Slot::None, _)) => Ok(()),
            Some((_, Some(Node::Dict(dict)))) if dict.entries.is_empty() => Ok(()),
            _ => {
                let hint = "save `x.resolve_conj().resolve_neg()`";
                Err(ReadError::unsupported(self.at, "a lazily conjugated or negated tensor", hint))
            }
        }
    }

    /// `_rebuild_parameter(tensor, requires_grad, hooks)`
    pub(super) fn parameter(&self, arguments: &[Slot]) -> Result<Slot> {
        match arguments.first().map(|slot| (*slot, self.heap.get(*slot))) {
            Some((slot, Some(Node::Tensor(_)))) => Ok(slot),
            _ => Err(self.bad("the tensor of a parameter", "something else")),
        }
    }

    /// `Size((2, 3))`
    pub(super) fn torch_size(&mut self, arguments: &[Slot]) -> Result<Node> {
        const WHAT: &str = "the numbers of a torch.Size";
        let sizes = match arguments {
            [] => [].into(),
            [sizes] => match self.heap.get(*sizes) {
                Some(Node::List(items)) if items.len() <= 64 => items.as_slice().into(),
                _ => self
                    .sizes(*sizes, WHAT)
                    .map(|sizes| sizes.iter().map(|n| Slot::Int(*n as i64)).collect())?,
            },
            _ => return Err(self.bad(WHAT, "several arguments")),
        };
        Ok(Node::Tuple(sizes))
    }

    /// `device("cuda", 0)`
    pub(super) fn torch_device(&self, arguments: &[Slot]) -> Result<Node> {
        let name = arguments.first().and_then(|kind| self.heap.str(*kind)).filter(|kind| kind.len() < 64);
        match (name, arguments) {
            (Some(kind), [_]) => Ok(Node::Device(kind.into())),
            (Some(kind), [_, Slot::Int(index)]) => Ok(Node::Device(format!("{kind}:{index}").into())),
            _ => Err(self.bad("the name of a torch device", "something else")),
        }
    }
}
