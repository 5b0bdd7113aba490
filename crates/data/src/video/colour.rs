//! From luma and chroma to RGB.

/// A decoded frame as its decoder leaves it: 8 bits, chroma of half the size in both directions or none.
#[derive(Debug)]
pub(super) struct Yuv {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Bytes, and how many there are from one row to the next.
    pub(super) y: (Vec<u8>, usize),
    /// Both chroma planes; nothing of a grey video.
    pub(super) chroma: Option<[(Vec<u8>, usize); 2]>,
    pub(super) matrix: Matrix,
    pub(super) is_full_range: bool,
}

/// How much of red and of blue is in luma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Matrix {
    /// What is taken where nothing is said, as FFmpeg does.
    #[default]
    Bt601,
    Bt709,
    Bt2020,
}

impl Matrix {
    /// By its number in ITU-T H.273; nothing where there is no such conversion here.
    pub(super) fn numbered(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Bt709),
            2 | 4 | 5 | 6 => Some(Self::Bt601),
            9 => Some(Self::Bt2020),
            _ => None,
        }
    }

    /// What V adds to red, U to blue, and what U and V take from green, for limited range: in 65536ths, the tables of
    /// FFmpeg's `ff_yuv2rgb_coeffs`.
    fn factors(self) -> [i64; 4] {
        match self {
            Self::Bt601 => [104_597, 132_201, -25_675, -53_279],
            Self::Bt709 => [117_489, 138_438, -13_975, -34_925],
            Self::Bt2020 => [110_013, 140_363, -12_277, -42_626],
        }
    }
}

/// Factors of 16 bits for values in eighths, so that a product's upper half is a byte: how FFmpeg's SIMD converter
/// counts, whose pixels these are bit by bit.
struct Factors {
    black: i32,
    luma: i32,
    red_v: i32,
    blue_u: i32,
    green_u: i32,
    green_v: i32,
}

impl Factors {
    fn of(frame: &Yuv) -> Self {
        let chroma = frame.matrix.factors();
        let (black, luma, chroma) = match frame.is_full_range {
            true => (0, 1 << 16, chroma.map(|factor| factor * 224 / 255)),
            false => (16 << 3, (1 << 16) * 255 / 219, chroma),
        };
        let rounded = |factor: i64| ((factor * (1 << 13) + (1 << 15)) >> 16) as i32;
        let [red_v, blue_u, green_u, green_v] = chroma.map(rounded);
        Self { black, luma: rounded(luma), red_v, blue_u, green_u, green_v }
    }
}

/// Writes a frame as RGB. Each pixel takes the chroma of its square of four, as FFmpeg's converter does.
///
/// `rgb` has three bytes per pixel.
pub(super) fn to_rgb(frame: &Yuv, rgb: &mut [u8]) {
    let factors = Factors::of(frame);
    let product = |value: i32, factor: i32| (value * factor) >> 16;
    let byte = |sum: i32| sum.clamp(0, 255) as u8;
    for (row, line) in rgb.chunks_exact_mut(frame.width.max(1) * 3).enumerate().take(frame.height) {
        let y = &frame.y.0[row * frame.y.1..];
        let planes = frame.chroma.as_ref();
        let chroma = planes.map(|planes| planes.each_ref().map(|(plane, stride)| &plane[row / 2 * stride..]));
        for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
            let luma = product((i32::from(y[column]) << 3) - factors.black, factors.luma);
            let value = |plane: &[u8]| (i32::from(plane[column / 2]) - 128) << 3;
            let [u, v] = chroma.map_or([0; 2], |planes| planes.map(value));
            pixel[0] = byte(luma + product(v, factors.red_v));
            pixel[1] = byte(luma + product(u, factors.green_u) + product(v, factors.green_v));
            pixel[2] = byte(luma + product(u, factors.blue_u));
        }
    }
}
