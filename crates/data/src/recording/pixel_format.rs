//! Pixel formats of stored images, and how they become bytes of height, width and channel.

use plaudit_pyfiles::{Array, DType};

use super::problem::FileProblem;

/// The order of the axes of a stored image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelOrder {
    /// `[height, width, channels]`, as cameras and simulators give them.
    #[default]
    ChannelsLast,
    /// `[channels, height, width]`, as networks take them.
    ChannelsFirst,
}

/// What the numbers of a stored image mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Bytes already.
    Byte,
    /// From 0 to 1: times 255, rounded to even.
    Unit,
    /// From 0 to 255: cut to that range, fractions dropped.
    Clip,
}

/// The pixel format of a stored image: how it becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelFormat {
    dtype: DType,
    channel_order: ChannelOrder,
    scale: Scale,
    /// Height, width and channels as stored.
    stored: [u32; 3],
    /// Channels that are kept, or made of one.
    channels: u32,
}

/// What is done with numbers outside of what images have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Refused: floats are from 0 to 1, integers from 0 to 255.
    Refuse,
    /// As the oldest recordings: floats may also be whole numbers from 0 to 255.
    AllowByteFloats,
    /// As RLinf's window export: floats may be any numbers from 0 to 255; grey images become RGB, and a fourth
    /// channel is dropped.
    AllowBytes,
}

impl PixelFormat {
    /// Looks at a stored image. Floats are read through, since only their values tell what they mean.
    pub(crate) fn of(
        array: &Array,
        channel_order: ChannelOrder,
        strictness: Strictness,
        location: impl Fn() -> String,
    ) -> Result<Self, FileProblem> {
        let (stored, channels) = stored_shape(array.shape(), channel_order, strictness, &location)?;
        let scale = scale(array, strictness, &location)?;
        Ok(Self { dtype: array.dtype(), channel_order, scale, stored, channels })
    }

    /// Of bytes that lie as they are wanted.
    pub(crate) fn bytes(shape: [usize; 3]) -> Option<Self> {
        let stored = shape.map(narrow).try_all().filter(|sides| sides.iter().all(|side| *side > 0))?;
        let (dtype, channel_order) = (DType::U8, ChannelOrder::ChannelsLast);
        Some(Self { dtype, channel_order, scale: Scale::Byte, stored, channels: stored[2] })
    }

    /// Height, width and channels of the bytes it becomes.
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.stored[0] as usize, self.stored[1] as usize, self.channels as usize]
    }

    /// Bytes in the file.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored.iter().map(|side| *side as usize).product::<usize>() * self.dtype.size()
    }

    /// Whether the bytes in the file are the bytes wanted.
    pub(crate) fn is_plain(&self) -> bool {
        self.scale == Scale::Byte
            && self.channel_order == ChannelOrder::ChannelsLast
            && self.channels == self.stored[2]
    }

    /// Makes bytes of height, width and channel out of stored ones. Both slices have the right length.
    pub(crate) fn convert(&self, stored: &[u8], out: &mut [u8]) {
        if self.is_plain() {
            return out.copy_from_slice(stored);
        }
        let bytes = self.to_bytes(stored);
        let [height, width, channels] = self.stored.map(|side| side as usize);
        let kept = self.channels as usize;
        for (pixel, out) in out.chunks_exact_mut(kept).enumerate().take(height * width) {
            for (channel, out) in out.iter_mut().enumerate() {
                let channel = channel.min(channels - 1);
                *out = match self.channel_order {
                    ChannelOrder::ChannelsLast => bytes[pixel * channels + channel],
                    ChannelOrder::ChannelsFirst => bytes[channel * height * width + pixel],
                };
            }
        }
    }

    fn to_bytes(self, stored: &[u8]) -> Vec<u8> {
        let numbers = || {
            let count = stored.len() / self.dtype.size();
            Array::new(self.dtype, &[count], stored).ok().and_then(|array| array.to_f32()).unwrap_or_default()
        };
        match self.scale {
            Scale::Byte => stored.to_vec(),
            Scale::Unit => numbers().iter().map(|x| (x * 255.0).round_ties_even() as u8).collect(),
            Scale::Clip => numbers().iter().map(|x| x.clamp(0.0, 255.0) as u8).collect(),
        }
    }
}

/// The stored height, width and channels, and how many channels come out.
fn stored_shape(
    shape: &[usize],
    channel_order: ChannelOrder,
    strictness: Strictness,
    location: &impl Fn() -> String,
) -> Result<([u32; 3], u32), FileProblem> {
    let wrong = || FileProblem::Shape { location: location(), shape: shape.to_vec() };
    let sides = match *shape {
        [height, width] if strictness == Strictness::AllowBytes => {
            return Ok(([narrow(height), narrow(width), Some(1)].try_all().ok_or_else(wrong)?, 3));
        }
        [1, a, b, c] | [a, b, c] => [a, b, c],
        _ => return Err(wrong()),
    };
    let is_channels = |side: usize| matches!(side, 1 | 3 | 4);
    let [height, width, channels] = match channel_order {
        ChannelOrder::ChannelsLast if !is_channels(sides[2]) && is_channels(sides[0]) => {
            return Err(FileProblem::ChannelsFirst { location: location(), shape: shape.to_vec() });
        }
        ChannelOrder::ChannelsFirst if !is_channels(sides[0]) && is_channels(sides[2]) => {
            return Err(FileProblem::ChannelsLast { location: location(), shape: shape.to_vec() });
        }
        ChannelOrder::ChannelsLast => sides,
        ChannelOrder::ChannelsFirst => [sides[1], sides[2], sides[0]],
    };
    if !is_channels(channels) || height == 0 || width == 0 {
        return Err(wrong());
    }
    let stored = [narrow(height), narrow(width), narrow(channels)].try_all().ok_or_else(wrong)?;
    let kept = if strictness == Strictness::AllowBytes { stored[2].min(3) } else { stored[2] };
    Ok((stored, kept))
}

fn narrow(side: usize) -> Option<u32> {
    u32::try_from(side).ok()
}

trait TryAll {
    fn try_all(self) -> Option<[u32; 3]>;
}

impl TryAll for [Option<u32>; 3] {
    fn try_all(self) -> Option<[u32; 3]> {
        let [a, b, c] = self;
        Some([a?, b?, c?])
    }
}

fn scale(
    array: &Array,
    strictness: Strictness,
    location: &impl Fn() -> String,
) -> Result<Scale, FileProblem> {
    let dtype = array.dtype();
    if dtype == DType::U8 {
        return Ok(Scale::Byte);
    }
    let floats = matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64);
    let numbers = if dtype == DType::Bool { None } else { array.to_f32() };
    let Some(numbers) = numbers else { return Err(FileProblem::Type { location: location(), dtype }) };
    let (low, high) = range(&numbers);
    let out_of_range =
        || FileProblem::Range { location: location(), dtype, low: low.into(), high: high.into() };
    let in_range = |limit: f32| low >= 0.0 && high <= limit;
    match strictness {
        _ if low.is_nan() => Err(out_of_range()),
        _ if floats && in_range(1.0) => Ok(Scale::Unit),
        Strictness::AllowBytes if in_range(255.0) => Ok(Scale::Clip),
        _ if !floats && in_range(255.0) => Ok(Scale::Clip),
        Strictness::AllowByteFloats if in_range(255.0) && numbers.iter().all(|x| x.fract() == 0.0) => {
            Ok(Scale::Clip)
        }
        _ => Err(out_of_range()),
    }
}

/// The lowest and the highest number; not a number if any is none.
fn range(numbers: &[f32]) -> (f32, f32) {
    if numbers.iter().any(|x| x.is_nan()) {
        return (f32::NAN, f32::NAN);
    }
    numbers.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(
        array: &Array,
        channel_order: ChannelOrder,
        strictness: Strictness,
    ) -> ([usize; 3], Vec<u8>) {
        let pixel_format = PixelFormat::of(array, channel_order, strictness, || "image".into()).unwrap();
        let mut out = vec![0; pixel_format.shape().iter().product()];
        assert_eq!(pixel_format.stored_bytes(), array.bytes().len());
        pixel_format.convert(array.bytes(), &mut out);
        (pixel_format.shape(), out)
    }

    fn refused(array: &Array, channel_order: ChannelOrder) -> String {
        PixelFormat::of(array, channel_order, Strictness::Refuse, || "observations[0]".into())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn bytes_stay_bytes() {
        let array = Array::from_slice(&[1, 2, 3], &[1u8, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(
            converted(&array, ChannelOrder::ChannelsLast, Strictness::Refuse),
            ([1, 2, 3], vec![1, 2, 3, 4, 5, 6])
        );
    }

    #[test]
    fn channels_move_to_the_end() {
        let array = Array::from_slice(&[3, 1, 2], &[1u8, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(
            converted(&array, ChannelOrder::ChannelsFirst, Strictness::Refuse),
            ([1, 2, 3], vec![1, 3, 5, 2, 4, 6])
        );
    }

    #[test]
    fn unit_floats_are_rounded_to_even_as_numpy_does() {
        let array = Array::from_slice(&[1, 1, 3], &[0.0f32, 0.5, 1.0]).unwrap();
        assert_eq!(converted(&array, ChannelOrder::ChannelsLast, Strictness::Refuse).1, [0, 128, 255]);
    }

    #[test]
    fn windows_get_three_channels() {
        let grey = Array::from_slice(&[1, 2], &[7u8, 8]).unwrap();
        assert_eq!(
            converted(&grey, ChannelOrder::ChannelsLast, Strictness::AllowBytes),
            ([1, 2, 3], vec![7, 7, 7, 8, 8, 8])
        );
        let rgba = Array::from_slice(&[1, 1, 4], &[1u8, 2, 3, 255]).unwrap();
        assert_eq!(
            converted(&rgba, ChannelOrder::ChannelsLast, Strictness::AllowBytes),
            ([1, 1, 3], vec![1, 2, 3])
        );
        let bytes = Array::from_slice(&[1, 1, 3], &[0.0f32, 99.5, 255.0]).unwrap();
        assert_eq!(converted(&bytes, ChannelOrder::ChannelsLast, Strictness::AllowBytes).1, [0, 99, 255]);
        let wide = Array::from_slice(&[1, 1, 3], &[-4.0f32, 99.0, 300.0]).unwrap();
        assert!(
            PixelFormat::of(&wide, ChannelOrder::ChannelsLast, Strictness::AllowBytes, || "image".into())
                .is_err()
        );
    }

    #[test]
    fn old_recordings_may_have_bytes_as_floats() {
        let array = Array::from_slice(&[3, 1, 1], &[0.0f32, 128.0, 255.0]).unwrap();
        assert_eq!(
            converted(&array, ChannelOrder::ChannelsFirst, Strictness::AllowByteFloats).1,
            [0, 128, 255]
        );
        let array = Array::from_slice(&[3, 1, 1], &[0.5f32, 128.0, 255.0]).unwrap();
        assert!(
            PixelFormat::of(&array, ChannelOrder::ChannelsFirst, Strictness::AllowByteFloats, || "image"
                .into())
            .is_err()
        );
    }

    #[test]
    fn what_is_no_image_is_refused_with_a_reason() {
        let floats = Array::from_slice(&[1, 1, 3], &[0.0f32, 2.0, -1.0]).unwrap();
        assert!(refused(&floats, ChannelOrder::ChannelsLast).contains("float32 with values from -1 to 2"));
        let nan = Array::from_slice(&[1, 1, 3], &[0.0f32, f32::NAN, 1.0]).unwrap();
        assert!(refused(&nan, ChannelOrder::ChannelsLast).contains("NaN"));
        let first = Array::from_slice(&[3, 2, 2], &[0u8; 12]).unwrap();
        assert!(
            refused(&first, ChannelOrder::ChannelsLast).contains("[height, width, channels] was expected")
        );
        let last = Array::from_slice(&[2, 2, 3], &[0u8; 12]).unwrap();
        assert!(refused(&last, ChannelOrder::ChannelsFirst).contains("channels were said to come first"));
        let flat = Array::from_slice(&[12], &[0u8; 12]).unwrap();
        assert!(refused(&flat, ChannelOrder::ChannelsLast).contains("[12]"));
    }
}
