//! AV1 by rav1d, in Rust alone.

use re_rav1d::dav1d::{Decoder, Error, Picture, PixelLayout, PlanarImageComponent, Settings, pixel};

use super::colour::{Matrix, Yuv};
use super::{Decode, MOST_PIXELS};

pub(super) const NAME: &str = "rav1d";

/// A decoder that gives each frame with the sample that it was.
pub(super) struct Av1 {
    decoder: Decoder,
    /// Sequence headers of the container, which may stand nowhere else.
    config: Vec<u8>,
}

impl Av1 {
    /// `config` is what `av1C` holds: four bytes, and then headers.
    pub(super) fn new(config: &[u8]) -> Result<Self, String> {
        let mut settings = Settings::new();
        // One thread and no delay: episodes are decoded side by side, and each frame comes with its bytes.
        settings.set_n_threads(1);
        settings.set_max_frame_delay(1);
        settings.set_frame_size_limit(MOST_PIXELS as u32);
        let decoder = Decoder::with_settings(&settings).map_err(|error| error.to_string())?;
        Ok(Self { decoder, config: config.get(4..).unwrap_or_default().to_vec() })
    }

    fn take(&mut self, found: &mut Vec<(usize, Yuv)>) -> Result<(), String> {
        loop {
            match self.decoder.get_picture() {
                Ok(picture) => {
                    let sample = picture.timestamp().and_then(|at| usize::try_from(at).ok());
                    found.push((sample.ok_or("a frame without its number")?, planes(&picture)?));
                }
                Err(Error::Again) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Decode for Av1 {
    /// A keyframe leaves nothing of what was before it, and making a decoder costs as much as some small frames.
    fn restart(&mut self, codec: &[u8; 4], config: &[u8]) -> bool {
        self.config = config.get(4..).unwrap_or_default().to_vec();
        codec == b"av01"
    }

    fn decode(&mut self, sample: usize, bytes: &[u8]) -> Result<Vec<(usize, Yuv)>, String> {
        let mut found = Vec::new();
        let mut data = std::mem::take(&mut self.config);
        data.extend_from_slice(bytes);
        let mut sent = self.decoder.send_data(data, None, Some(sample as i64), None);
        while let Err(Error::Again) = sent {
            let before = found.len();
            self.take(&mut found)?;
            sent = self.decoder.send_pending_data();
            if found.len() == before && matches!(sent, Err(Error::Again)) {
                return Err("it takes no more data".into());
            }
        }
        sent.map_err(|error| error.to_string())?;
        self.take(&mut found)?;
        Ok(found)
    }
}

fn planes(picture: &Picture) -> Result<Yuv, String> {
    if picture.bit_depth() != 8 {
        return Err(format!("{} bits for each value, where 8 are decoded", picture.bit_depth()));
    }
    let plane = |component| (picture.plane(component).to_vec(), picture.stride(component) as usize);
    let chroma = match picture.pixel_layout() {
        PixelLayout::I400 => None,
        PixelLayout::I420 => Some([plane(PlanarImageComponent::U), plane(PlanarImageComponent::V)]),
        other => return Err(format!("chroma of the layout {other:?}, where 4:2:0 is decoded")),
    };
    let matrix = matrix(picture.matrix_coefficients())?;
    Ok(Yuv {
        width: picture.width() as usize,
        height: picture.height() as usize,
        y: plane(PlanarImageComponent::Y),
        chroma,
        matrix,
        is_full_range: picture.color_range() == pixel::YUVRange::Full,
    })
}

fn matrix(found: pixel::MatrixCoefficients) -> Result<Matrix, String> {
    use pixel::MatrixCoefficients as Found;
    Ok(match found {
        Found::BT709 => Matrix::Bt709,
        Found::BT2020NonConstantLuminance => Matrix::Bt2020,
        Found::Unspecified | Found::BT470M | Found::BT470BG | Found::ST170M => Matrix::Bt601,
        other => return Err(format!("colours by {other:?}, which are not converted")),
    })
}
