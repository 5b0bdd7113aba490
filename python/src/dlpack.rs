//! Images that lie on the model's GPU, taken by DLPack where they are.
//!
//! A tensor of bytes on that GPU is read in place: `__dlpack__` is told the stream that computes, so that what wrote the tensor is done by
//! then, and the capsule is given back when the scores are there. Whatever is of another kind, on another device or of another size goes
//! by way of the CPU, as it did before ([`crate::images`]). A capsule that contradicts itself is an error.

#![allow(unsafe_code)] // DLPack is structures in memory; each block says why

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use plaudit_nn::classifier::GpuView;
use plaudit_nn::images::ImageLayout;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::input;

/// The numbers of DLPack: a GPU of NVIDIA, whole numbers without a sign, and the version that is read here.
const CUDA: i32 = 2;
const UNSIGNED: u8 = 1;
const MAJOR: u32 = 1;

/// What capsules are called, before somebody takes what is in them and after.
const NAMES: [&CStr; 2] = [c"dltensor", c"used_dltensor"];
const VERSIONED_NAMES: [&CStr; 2] = [c"dltensor_versioned", c"used_dltensor_versioned"];

/// What is expected, in every message about a capsule.
const EXPECTED: &str = "a capsule of DLPack 0 or 1, of bytes [images, rows, columns, colours] on the GPU that the tensor says; \
                        pass tensor.cpu() to go by way of the CPU";

#[repr(C)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
#[allow(dead_code)] // what is not read has its place
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
#[allow(dead_code)] // what is not read has its place
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a capsule holds.
#[derive(Clone, Copy)]
enum Held {
    Plain(NonNull<Managed>),
    Versioned(NonNull<Versioned>),
}

impl Held {
    /// The names of such a capsule.
    fn names(self) -> [&'static CStr; 2] {
        match self {
            Self::Plain(_) => NAMES,
            Self::Versioned(_) => VERSIONED_NAMES,
        }
    }

    /// Gives it back to whoever made it. Not twice.
    fn release(self) {
        // SAFETY: it came from a capsule that was not taken before, and this is called once; `deleter` is the way to give it back.
        unsafe {
            match self {
                Self::Plain(held) => {
                    if let Some(deleter) = held.as_ref().deleter {
                        deleter(held.as_ptr());
                    }
                }
                Self::Versioned(held) => {
                    if let Some(deleter) = held.as_ref().deleter {
                        deleter(held.as_ptr());
                    }
                }
            }
        }
    }
}

/// A tensor that was taken from a capsule; given back when this is dropped.
pub(crate) struct GpuTensor {
    held: Held,
    found: Found,
}

impl Drop for GpuTensor {
    fn drop(&mut self) {
        self.held.release();
    }
}

/// Bytes on a GPU.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    address: u64,
    shape: Vec<usize>,
    /// In bytes, which are also numbers.
    strides: Vec<usize>,
}

/// What a tensor is taken as.
enum Taken {
    /// It is not of bytes on that GPU: there is another way.
    Otherwise,
    Bytes(GpuTensor),
}

/// Images of every camera on a GPU.
pub(crate) struct GpuImages {
    /// Held until they were read.
    _tensors: Vec<GpuTensor>,
    pub(crate) views: Vec<GpuView>,
    pub(crate) count: usize,
    pub(crate) is_one: bool,
}

/// The model that images are for.
pub(crate) struct Taker<'a> {
    /// The GPU, and CUDA's handle of the stream that will read.
    pub(crate) stream: (usize, u64),
    pub(crate) image_keys: &'a [String],
    /// Rows and columns that it takes.
    pub(crate) size: [usize; 2],
}

impl Taker<'_> {
    /// The images of every camera, if all of them are bytes of the model's size on its GPU; nothing if there is another way to go.
    pub(crate) fn take(
        &self,
        images: &Bound<'_, PyAny>,
        layout: Option<&str>,
    ) -> PyResult<Option<GpuImages>> {
        let Some(tensors) = self.by_camera(images)? else { return Ok(None) };
        // Nothing is taken before all of them are known to be there.
        for tensor in &tensors {
            if !is_on_gpu(tensor, self.stream.0)? {
                return Ok(None);
            }
        }
        let (mut taken, mut views, mut lead) = (Vec::new(), Vec::new(), None);
        for tensor in &tensors {
            let Taken::Bytes(tensor) = take(tensor, self.stream)? else { return Ok(None) };
            let Some((view, own)) = self.view(&tensor.found, layout) else { return Ok(None) };
            if lead.get_or_insert_with(|| own.clone()) != &own {
                return Ok(None); // the other way has the words for it
            }
            views.push(view);
            taken.push(tensor);
        }
        let lead = lead.unwrap_or_default();
        Ok(Some(GpuImages { _tensors: taken, views, count: lead.iter().product(), is_one: lead.is_empty() }))
    }

    /// The tensor of each camera of the model.
    fn by_camera<'py>(&self, images: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let named = match images.cast::<PyDict>() {
            Err(_) if self.image_keys.len() == 1 => return Ok(Some(vec![images.clone()])),
            Err(_) => return Ok(None),
            Ok(named) => named,
        };
        if let (1, [_]) = (named.len(), self.image_keys) {
            return Ok(Some(named.values().iter().collect()));
        }
        self.image_keys.iter().map(|key| named.get_item(key)).collect::<PyResult<Option<Vec<_>>>>()
    }

    /// The images of a tensor, and the axes before those of an image.
    fn view(&self, found: &Found, layout: Option<&str>) -> Option<(GpuView, Vec<usize>)> {
        let axes = found.shape.len();
        if !(3..=4).contains(&axes) {
            return None;
        }
        let (lead, image) = found.shape.split_at(axes - 3);
        let (before, strides) = found.strides.split_at(axes - 3);
        let count = lead.iter().product();
        let layout = match layout {
            Some("hwc") => ImageLayout::Hwc,
            Some("chw") => ImageLayout::Chw,
            Some(_) => return None,
            None => ImageLayout::of_shape([count, image[0], image[1], image[2]]),
        };
        let order = match layout {
            ImageLayout::Hwc => [0, 1, 2],
            ImageLayout::Chw => [1, 2, 0],
        };
        let [height, width, colours] = order.map(|axis| image[axis]);
        let [row, column, colour] = order.map(|axis| strides[axis]);
        if [height, width, colours] != [self.size[0], self.size[1], 3] {
            return None;
        }
        // Of one image alone the first stride matters to nobody but to those who look whether there are gaps.
        let first = before.first().copied().filter(|_| count > 1).unwrap_or(height * width * colours);
        Some((GpuView { address: found.address, strides: [first, row, column, colour] }, lead.to_vec()))
    }
}

/// Whether it is a tensor on this GPU.
fn is_on_gpu(tensor: &Bound<'_, PyAny>, index: usize) -> PyResult<bool> {
    if !(tensor.hasattr("__dlpack__")? && tensor.hasattr("__dlpack_device__")?) {
        return Ok(false);
    }
    // What does not say where it is has its error on the other way.
    let place = tensor.call_method0("__dlpack_device__").and_then(|place| place.extract::<(i32, i32)>());
    Ok(place.is_ok_and(|(kind, at)| kind == CUDA && usize::try_from(at) == Ok(index)))
}

/// What is in the capsule of a tensor that says it is on this GPU. Only what can be used is taken; the rest stays in its capsule, which
/// gives it back.
fn take(tensor: &Bound<'_, PyAny>, (index, stream): (usize, u64)) -> PyResult<Taken> {
    let capsule = capsule_of(tensor, stream)?;
    let held = held_by(&capsule)?;
    // SAFETY: the capsule is alive and has the name of such a structure.
    let tensor = unsafe {
        match held {
            Held::Plain(held) => &held.as_ref().tensor,
            Held::Versioned(held) => {
                let major = held.as_ref().major;
                if major != MAJOR {
                    return Err(wrong(format!("DLPack of version {major}.{}", held.as_ref().minor)));
                }
                &held.as_ref().tensor
            }
        }
    };
    let Some(found) = found_in(tensor, index)? else { return Ok(Taken::Otherwise) };
    let [_, used] = held.names();
    // SAFETY: the capsule is alive; from here on nobody else gives back what is in it.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    Ok(Taken::Bytes(GpuTensor { held, found }))
}

/// What the tensor gives for this stream; of DLPack 1 where it knows that.
fn capsule_of<'py>(tensor: &Bound<'py, PyAny>, stream: u64) -> PyResult<Bound<'py, PyCapsule>> {
    let words = PyDict::new(tensor.py());
    words.set_item("stream", stream)?;
    words.set_item("max_version", (MAJOR, 0))?;
    let given = match tensor.call_method("__dlpack__", (), Some(&words)) {
        Err(error) if error.is_instance_of::<PyTypeError>(tensor.py()) => {
            words.del_item("max_version")?;
            tensor.call_method("__dlpack__", (), Some(&words))
        }
        given => given,
    };
    let given = given.map_err(|error| wrong(format!("this tensor cannot be read: {error}")))?;
    let kind = given.get_type().name()?.to_string();
    given.cast_into().map_err(|_| wrong(format!("`__dlpack__` gave a {kind} and no capsule")))
}

fn held_by(capsule: &Bound<'_, PyCapsule>) -> PyResult<Held> {
    let at = capsule.as_ptr();
    // SAFETY: the capsule is alive; it is asked for what it has under a name only when it has that name.
    let [plain, versioned] = [NAMES[0], VERSIONED_NAMES[0]].map(|name| unsafe {
        let is_called_so = ffi::PyCapsule_IsValid(at, name.as_ptr()) != 0;
        is_called_so.then(|| ffi::PyCapsule_GetPointer(at, name.as_ptr())).and_then(NonNull::new)
    });
    match (plain, versioned) {
        (Some(held), _) => Ok(Held::Plain(held.cast())),
        (_, Some(held)) => Ok(Held::Versioned(held.cast())),
        (None, None) => Err(wrong("a capsule that somebody has taken already, or of another kind".into())),
    }
}

/// What a tensor says about itself, if it is of bytes.
fn found_in(tensor: &Tensor, index: usize) -> PyResult<Option<Found>> {
    let Device { kind, index: own } = tensor.device;
    if kind != CUDA || usize::try_from(own) != Ok(index) {
        let text = format!("a capsule of device {kind}:{own} from a tensor on {CUDA}:{index} (2 is CUDA)");
        return Err(wrong(text));
    }
    if (tensor.code, tensor.bits, tensor.lanes) != (UNSIGNED, 8, 1) {
        return Ok(None);
    }
    let axes = usize::try_from(tensor.axes).ok().filter(|axes| *axes <= 8);
    let Some(axes) = axes else { return Err(wrong(format!("a tensor of {} axes", tensor.axes))) };
    // SAFETY: DLPack has as many numbers at `shape`, and at `strides` unless that is nothing.
    let numbers = |at: *const i64| match at.is_null() || axes == 0 {
        true => None,
        false => Some(unsafe { std::slice::from_raw_parts(at, axes) }.to_vec()),
    };
    let shape = numbers(tensor.shape).unwrap_or_default();
    let sizes = |numbers: &[i64]| {
        numbers.iter().map(|number| usize::try_from(*number).ok()).collect::<Option<Vec<usize>>>()
    };
    let Some(sides) = sizes(&shape).filter(|sides| sides.len() == axes) else {
        return Err(wrong(format!("a tensor of shape {shape:?}")));
    };
    let strides = match numbers(tensor.strides) {
        Some(strides) => match sizes(&strides) {
            Some(strides) => strides,
            None => return Err(wrong(format!("strides {strides:?}, of which some go backwards"))),
        },
        None => without_gaps(&sides).ok_or_else(|| wrong(format!("a tensor of shape {shape:?}")))?,
    };
    let address = (tensor.data as u64).checked_add(tensor.byte_offset);
    let Some(address) = address.filter(|address| *address != 0 || sides.contains(&0)) else {
        return Err(wrong(format!("no address, or one past the end (offset {})", tensor.byte_offset)));
    };
    Ok(Some(Found { address, shape: sides, strides }))
}

/// Strides of a tensor that has none.
fn without_gaps(sides: &[usize]) -> Option<Vec<usize>> {
    let mut strides = vec![1usize; sides.len()];
    for axis in (1..sides.len()).rev() {
        strides[axis - 1] = strides[axis].checked_mul(sides[axis].max(1))?;
    }
    Some(strides)
}

fn wrong(what: String) -> PyErr {
    input(what, format!("expected {EXPECTED}"))
}

/// Where a tensor lies, its shape and its strides.
type Place = (u64, Vec<usize>, Vec<usize>);

/// What a tensor on a GPU would be taken as; nothing if it goes by way of the CPU. Takes and gives back.
#[pyfunction]
#[pyo3(signature = (tensor, index = 0, stream = 3))]
pub(crate) fn dlpack_of(tensor: &Bound<'_, PyAny>, index: usize, stream: u64) -> PyResult<Option<Place>> {
    if !is_on_gpu(tensor, index)? {
        return Ok(None);
    }
    Ok(match take(tensor, (index, stream))? {
        Taken::Otherwise => None,
        Taken::Bytes(tensor) => {
            let Found { address, shape, strides } = tensor.found.clone();
            Some((address, shape, strides))
        }
    })
}
