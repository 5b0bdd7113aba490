//! Arrays: an element type, a shape, and bytes in C order.

use std::borrow::Cow;

use bytemuck::Pod;
use half::{bf16, f16};

use super::buffer::Buffer;
use super::dtype::DType;

/// A numpy array or torch tensor: contiguous, rows first, in this machine's byte order.
///
/// The bytes are a view of the file or of shared memory; cloning copies none of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    dtype: DType,
    shape: Box<[usize]>,
    data: Buffer,
}

/// A shape whose elements do not fill the bytes that came with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an array of {dtype} with shape {shape:?} needs {}, not {bytes} bytes", needs(.dtype, .shape))]
pub struct ShapeError {
    /// The element type.
    pub dtype: DType,
    /// The shape that was asked for.
    pub shape: Vec<usize>,
    /// The bytes that were given.
    pub bytes: usize,
}

fn needs(dtype: &DType, shape: &[usize]) -> String {
    match byte_len(*dtype, shape) {
        Some(bytes) => format!("{bytes}"),
        None => "more than can be addressed".into(),
    }
}

/// The bytes that a shape takes, if they can be counted. A type without width has room for nothing.
pub(crate) fn byte_len(dtype: DType, shape: &[usize]) -> Option<usize> {
    let count = element_count(shape)?;
    if dtype.size() == 0 && count > 0 {
        return None;
    }
    count.checked_mul(dtype.size()).filter(|bytes| *bytes <= isize::MAX as usize)
}

pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |product, side| product.checked_mul(*side))
}

impl Array {
    /// An array over bytes that are in C order and in this machine's byte order.
    ///
    /// # Errors
    /// When the shape does not take exactly these bytes.
    pub fn new(dtype: DType, shape: &[usize], data: impl Into<Buffer>) -> Result<Self, ShapeError> {
        let data = data.into();
        if byte_len(dtype, shape) != Some(data.len()) {
            return Err(ShapeError { dtype, shape: shape.to_vec(), bytes: data.len() });
        }
        Ok(Self { dtype, shape: shape.into(), data })
    }

    /// An array of numbers.
    ///
    /// # Errors
    /// When the shape does not take exactly these numbers.
    pub fn from_slice<T: Element>(shape: &[usize], numbers: &[T]) -> Result<Self, ShapeError> {
        Self::new(T::DTYPE, shape, bytemuck::cast_slice::<T, u8>(numbers))
    }

    /// A single boolean, as `np.bool_` or a 0-d tensor has it.
    #[must_use]
    pub fn from_bool(boolean: bool) -> Self {
        Self { dtype: DType::Bool, shape: [].into(), data: vec![u8::from(boolean)].into() }
    }

    /// A single number, without axes.
    #[must_use]
    pub fn from_number<T: Element>(number: T) -> Self {
        let data = bytemuck::bytes_of(&number).to_vec().into();
        Self { dtype: T::DTYPE, shape: [].into(), data }
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The length of each axis; empty for a single number.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        element_count(&self.shape).unwrap_or(0)
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// All elements as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The shared bytes themselves, to keep or to slice without a copy.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.data
    }

    /// The `index`-th array along the first axis, as a view.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<Self> {
        let (rows, rest) = self.shape.split_first()?;
        if index >= *rows {
            return None;
        }
        let bytes = byte_len(self.dtype, rest)?;
        Some(Self {
            dtype: self.dtype,
            shape: rest.into(),
            data: self.data.slice(index * bytes..(index + 1) * bytes)?,
        })
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// When the shape does not take the same elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, ShapeError> {
        Self::new(self.dtype, shape, self.data.clone())
    }

    /// The elements in place, if they are of type `T`; copied where the file does not align them.
    #[must_use]
    pub fn elements<T: Element>(&self) -> Option<Cow<'_, [T]>> {
        if T::DTYPE != self.dtype {
            return None;
        }
        Some(match bytemuck::try_cast_slice(&self.data) {
            Ok(aligned) => Cow::Borrowed(aligned),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(&self.data)),
        })
    }

    /// Every element as `f32` (integers and wide floats are rounded, booleans are 0 and 1), or nothing for
    /// complex numbers, dates and text.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        if let Some(same) = self.elements::<f32>() {
            return Some(same.into_owned());
        }
        Some(self.to_f64()?.into_iter().map(|x| x as f32).collect())
    }

    /// Every element as `f64`, as [`to_f32`](Self::to_f32) does.
    #[must_use]
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        fn all<T: Element>(array: &Array, convert: impl Fn(T) -> f64) -> Option<Vec<f64>> {
            Some(array.elements::<T>()?.iter().map(|x| convert(*x)).collect())
        }
        match self.dtype {
            DType::Bool => Some(self.data.iter().map(|x| f64::from(u8::from(*x != 0))).collect()),
            DType::I8 => all::<i8>(self, f64::from),
            DType::I16 => all::<i16>(self, f64::from),
            DType::I32 => all::<i32>(self, f64::from),
            DType::I64 => all::<i64>(self, |x| x as f64),
            DType::U8 => all::<u8>(self, f64::from),
            DType::U16 => all::<u16>(self, f64::from),
            DType::U32 => all::<u32>(self, f64::from),
            DType::U64 => all::<u64>(self, |x| x as f64),
            DType::F16 => all::<f16>(self, f64::from),
            DType::Bf16 => all::<bf16>(self, f64::from),
            DType::F32 => all::<f32>(self, f64::from),
            DType::F64 => all::<f64>(self, |x| x),
            _ => None,
        }
    }

    /// Every element as `i64`, or nothing where the type is no integer or a number does not fit.
    #[must_use]
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        fn all<T: Element + TryInto<i64>>(array: &Array) -> Option<Vec<i64>> {
            array.elements::<T>()?.iter().map(|x| (*x).try_into().ok()).collect()
        }
        match self.dtype {
            DType::Bool => Some(self.data.iter().map(|x| i64::from(*x != 0)).collect()),
            DType::I8 => all::<i8>(self),
            DType::I16 => all::<i16>(self),
            DType::I32 => all::<i32>(self),
            DType::I64 => all::<i64>(self),
            DType::U8 => all::<u8>(self),
            DType::U16 => all::<u16>(self),
            DType::U32 => all::<u32>(self),
            DType::U64 => all::<u64>(self),
            _ => None,
        }
    }

    /// The one element of an array of one element, as Python's `.item()`.
    #[must_use]
    pub(crate) fn single(&self) -> Option<Self> {
        (self.len() == 1).then(|| Self { shape: [].into(), ..self.clone() })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust number that is an element type.
pub trait Element: Pod + sealed::Sealed {
    /// The element type that it is.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($number:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $number {}
        impl Element for $number {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_takes_exactly_its_bytes() {
        assert!(Array::new(DType::F32, &[2, 3], vec![0; 24]).is_ok());
        let error = Array::new(DType::F32, &[2, 3], vec![0; 20]).unwrap_err();
        assert_eq!(error.to_string(), "an array of float32 with shape [2, 3] needs 24, not 20 bytes");
        assert!(Array::new(DType::F32, &[usize::MAX, 8], vec![]).is_err());
        assert!(Array::new(DType::F32, &[0, usize::MAX, 8], vec![]).is_ok());
        assert!(Array::new(DType::FixedBytes(0), &[1 << 40], vec![]).is_err());
    }

    #[test]
    fn rows_are_views() {
        let images = Array::from_slice(&[2, 2, 1], &[1u8, 2, 3, 4]).unwrap();
        let second = images.row(1).unwrap();
        assert_eq!((second.shape(), second.bytes()), (&[2, 1][..], &[3u8, 4][..]));
        assert!(images.row(2).is_none());
        assert!(Array::from_number(1.0f32).row(0).is_none());
    }

    #[test]
    fn numbers_convert() {
        let half = Array::from_slice(&[2], &[f16::from_f32(1.5), f16::from_f32(-2.0)]).unwrap();
        assert_eq!(half.to_f32().unwrap(), [1.5, -2.0]);
        assert!(half.elements::<f32>().is_none());
        assert_eq!(Array::from_slice(&[1], &[u64::MAX]).unwrap().to_i64(), None);
        assert_eq!(Array::from_bool(true).to_i64().unwrap(), [1]);
    }

    #[test]
    fn odd_places_are_read_all_the_same() {
        let bytes = Buffer::from([0u8].iter().copied().chain(1.25f32.to_ne_bytes()).collect::<Vec<u8>>());
        let array = Array::new(DType::F32, &[1], bytes.slice(1..5).unwrap()).unwrap();
        assert_eq!(array.to_f32().unwrap(), [1.25]);
    }
}
