//! Images as people have them: numpy arrays, tensors by DLPack, PIL images, lists of these, one for each
//! camera.

use numpy::{PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use plaudit_nn::images::{ImageLayout, Pixels, ViewPixels};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::input;

/// What is accepted, in every message about something else.
const EXPECTED: &str = "pass uint8 (or float32 from 0 to 1) images of height, width and 3 colours, one or a \
                        batch of them: a numpy array, a tensor, a PIL image, or a list of these";

/// The kinds of device that DLPack numbers, as far as anybody has them.
const DEVICES: [(i32, &str); 6] =
    [(2, "cuda"), (7, "vulkan"), (8, "metal"), (10, "rocm"), (13, "cuda_managed"), (14, "oneapi")];
/// The CPU, there, and its memory that a GPU can reach.
const CPU: i32 = 1;
const PINNED: i32 = 3;

/// The images of one camera, held while they are read.
pub(crate) struct View<'py> {
    key: String,
    array: Held<'py>,
    shape: [usize; 4],
    layout: ImageLayout,
}

/// An array whose numbers lie one after another.
enum Held<'py> {
    U8(PyReadonlyArrayDyn<'py, u8>),
    F32(PyReadonlyArrayDyn<'py, f32>),
}

/// The images of every camera, and whether they are a batch or one of each.
pub(crate) struct Images<'py> {
    pub(crate) views: Vec<View<'py>>,
    pub(crate) is_one: bool,
    /// Axes before those of an image: steps of a window come after the batch.
    lead: Vec<usize>,
}

impl<'py> Images<'py> {
    /// Single images or a batch; `camera` is what images without a name are of.
    pub(crate) fn of(images: &Bound<'py, PyAny>, camera: &str, layout: Option<&str>) -> PyResult<Self> {
        Self::with_lead(images, camera, layout, 1)
    }

    /// Windows of images, or a batch of windows.
    pub(crate) fn windows(images: &Bound<'py, PyAny>, camera: &str, layout: Option<&str>) -> PyResult<Self> {
        Self::with_lead(images, camera, layout, 2)
    }

    /// Up to `most` axes stand before those of an image; one less, and it is a single one.
    fn with_lead(
        images: &Bound<'py, PyAny>,
        camera: &str,
        layout: Option<&str>,
        most: usize,
    ) -> PyResult<Self> {
        let layout = layout.map(named_layout).transpose()?;
        let named: Vec<(String, Bound<'py, PyAny>)> = match images.cast::<PyDict>() {
            Ok(cameras) => cameras
                .iter()
                .map(|(name, images)| Ok((name.extract().map_err(|_| no_name(&name))?, images)))
                .collect::<PyResult<_>>()?,
            Err(_) => vec![(camera.to_owned(), images.clone())],
        };
        if named.is_empty() {
            return Err(input("there are no images: the dict is empty", EXPECTED));
        }
        let mut views = Vec::with_capacity(named.len());
        let mut lead: Option<Vec<usize>> = None;
        for (key, images) in named {
            let (view, own) = View::of(key, &images, layout, most)?;
            match &lead {
                Some(lead) if *lead != own => {
                    let message =
                        format!("camera `{}` has images of {own:?}, and another of {lead:?}", view.key);
                    return Err(input(message, "pass as many images of each camera"));
                }
                _ => lead = Some(own),
            }
            views.push(view);
        }
        let lead = lead.unwrap_or_default();
        Ok(Self { is_one: lead.len() < most, views, lead })
    }

    /// How many images there are of each camera.
    pub(crate) fn count(&self) -> usize {
        self.lead.iter().product()
    }

    /// Windows, and frames of each.
    pub(crate) fn windows_and_frames(&self) -> (usize, usize) {
        match self.lead[..] {
            [windows, frames] => (windows, frames),
            [frames] => (1, frames),
            _ => (0, 0),
        }
    }

    /// The images, where they lie.
    pub(crate) fn pixels(&self) -> PyResult<Vec<ViewPixels<'_>>> {
        self.views.iter().map(View::pixels).collect()
    }
}

impl<'py> View<'py> {
    fn of(
        key: String,
        images: &Bound<'py, PyAny>,
        layout: Option<ImageLayout>,
        most: usize,
    ) -> PyResult<(Self, Vec<usize>)> {
        let array = to_array(images)?;
        let sides = array.shape().to_vec();
        if !(2 + most..=3 + most).contains(&sides.len()) {
            let axes = if most == 1 {
                "3 axes (one image) or 4 (a batch)"
            } else {
                "4 axes (one window) or 5 (a batch)"
            };
            let message = format!("camera `{key}`: an array of shape {sides:?}; expected {axes}");
            return Err(input(message, EXPECTED));
        }
        let (lead, image) = sides.split_at(sides.len() - 3);
        let count = lead.iter().product();
        let layout = layout.unwrap_or_else(|| ImageLayout::of_shape([count, image[0], image[1], image[2]]));
        let shape = match layout {
            ImageLayout::Hwc => [count, image[0], image[1], image[2]],
            ImageLayout::Chw => [count, image[1], image[2], image[0]],
        };
        if !matches!(shape[3], 1 | 3 | 4) {
            let message =
                format!("camera `{key}`: an array of shape {sides:?} has no axis of colours, first or last");
            return Err(input(message, EXPECTED));
        }
        Ok((Self { array: Held::of(&key, &array)?, key, shape, layout }, lead.to_vec()))
    }

    fn pixels(&self) -> PyResult<ViewPixels<'_>> {
        let pixels = match &self.array {
            Held::U8(array) => Pixels::U8(array.as_slice()?),
            Held::F32(array) => Pixels::F32(array.as_slice()?),
        };
        let [count, height, width, channels] = self.shape;
        Ok(ViewPixels { key: &self.key, pixels, layout: self.layout, count, height, width, channels })
    }
}

impl<'py> Held<'py> {
    fn of(key: &str, array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let array = if array.is_c_contiguous() { array.clone() } else { contiguous(array)? };
        if let Ok(bytes) = array.cast::<PyArrayDyn<u8>>() {
            return Ok(Self::U8(bytes.try_readonly().map_err(|error| input(error.to_string(), EXPECTED))?));
        }
        if let Ok(floats) = array.cast::<PyArrayDyn<f32>>() {
            return Ok(Self::F32(floats.try_readonly().map_err(|error| input(error.to_string(), EXPECTED))?));
        }
        Err(input(
            format!("camera `{key}`: images of {}; expected uint8 or float32", array.dtype()),
            EXPECTED,
        ))
    }
}

fn named_layout(name: &str) -> PyResult<ImageLayout> {
    match name {
        "hwc" => Ok(ImageLayout::Hwc),
        "chw" => Ok(ImageLayout::Chw),
        _ => Err(input(format!("there is no layout `{name}`"), "pass \"hwc\", \"chw\", or leave it out")),
    }
}

fn no_name(name: &Bound<'_, PyAny>) -> PyErr {
    input(format!("{name} is no name of a camera"), "pass a dict from the names of cameras to their images")
}

fn contiguous<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    Ok(array.py().import("numpy")?.call_method1("ascontiguousarray", (array,))?.cast_into()?)
}

/// Anything that is an array, as numpy has it; a copy only where it lies elsewhere.
pub(crate) fn to_array<'py>(images: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = images.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let numpy = images.py().import("numpy")?;
    if images.is_instance_of::<PyList>() || images.is_instance_of::<PyTuple>() {
        return stacked(images, &numpy);
    }
    if images.hasattr("__dlpack__")? {
        if let Some(copied) = copied_from_device(images)? {
            return to_array(&copied);
        }
        let array = numpy.call_method1("from_dlpack", (images,)).map_err(|error| {
            input(format!("this tensor cannot be read: {error}"), "pass tensor.detach().cpu()")
        })?;
        return Ok(array.cast_into()?);
    }
    if images.hasattr("__array_interface__")? {
        if let Ok(mode) = images.getattr("mode").and_then(|mode| mode.extract::<String>())
            && mode != "RGB"
        {
            return Err(input(
                format!("a PIL image of mode {mode}; expected RGB"),
                "pass image.convert(\"RGB\")",
            ));
        }
        return Ok(numpy.call_method1("asarray", (images,))?.cast_into()?);
    }
    Err(input(format!("{} is no image", images.get_type().name()?), EXPECTED))
}

/// Images of a list, one after another: all of one shape.
fn stacked<'py>(
    images: &Bound<'py, PyAny>,
    numpy: &Bound<'py, PyModule>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let arrays = images.try_iter()?.map(|image| to_array(&image?)).collect::<PyResult<Vec<_>>>()?;
    let Some(first) = arrays.first() else {
        return Err(input("there are no images: the list is empty", EXPECTED));
    };
    if let Some(other) = arrays.iter().find(|array| array.shape() != first.shape()) {
        let message = format!("images of shapes {:?} and {:?} are no batch", first.shape(), other.shape());
        return Err(input(message, "pass images of one size, or one image at a time"));
    }
    Ok(numpy.call_method1("stack", (arrays,))?.cast_into()?)
}

/// A tensor that is elsewhere than in the CPU's memory, copied there; nothing for one that is there.
fn copied_from_device<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let place = tensor.call_method0("__dlpack_device__").and_then(|place| place.extract());
    let (kind, index): (i32, i32) = place.map_err(|error| {
        input(format!("this tensor cannot be read: {error}"), "pass a tensor that is on the CPU or a GPU")
    })?;
    if kind == CPU || kind == PINNED {
        return Ok(None);
    }
    let name = DEVICES.iter().find(|(known, _)| *known == kind).map_or("another device", |(_, name)| *name);
    // torch's way, CuPy's, and that of JAX and whoever else turns into an array of numpy.
    let copied = if tensor.hasattr("cpu")? {
        tensor.call_method0("cpu")
    } else if tensor.hasattr("get")? {
        tensor.call_method0("get")
    } else if tensor.hasattr("__array__")? {
        tensor.call_method0("__array__")
    } else {
        let message =
            format!("the tensor is on {name}:{index}, and does not say how it is copied from there");
        return Err(input(message, "copy it to the CPU, and pass the copy"));
    };
    let failed = |error| {
        input(
            format!("the tensor cannot be copied from {name}:{index}: {error}"),
            "pass tensor.detach().cpu()",
        )
    };
    let copied = copied.map_err(failed)?;
    if copied.is(tensor) {
        let message = format!("the tensor is on {name}:{index}, and its copy is there as well");
        return Err(input(message, "copy it to the CPU, and pass the copy"));
    }
    Ok(Some(copied))
}
