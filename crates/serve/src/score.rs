//! Frames as plain bytes.

use crate::error::ApiError;
use crate::limits::Limits;
use crate::model::FrameBlock;

/// Sizes that frames may have before height and width: timesteps, cameras, frames.
const LEADING: usize = 3;

/// Frames of a shape such as `8,128,128,3`.
///
/// # Errors
/// What is wrong with it.
pub fn parse(shape: &str, body: Vec<u8>, limits: &Limits) -> Result<FrameBlock, ApiError> {
    let wrong = |why: String| Err(ApiError::invalid(format!("shape `{}`: {why}", shortened(shape))));
    let sizes: Result<Vec<usize>, _> = shape.split(',').map(|size| size.trim().parse()).collect();
    let Ok(sizes) = sizes else { return wrong("write sizes with commas, such as 8,128,128,3".into()) };
    let [leading @ .., height, width, 3] = sizes.as_slice() else {
        return wrong("it must end in height, width and 3 colours".into());
    };
    if leading.len() > LEADING || sizes.contains(&0) {
        return wrong(format!("at most {LEADING} sizes before height and width, and none of them 0"));
    }
    let Some(bytes) = sizes.iter().try_fold(1usize, |bytes, size| bytes.checked_mul(*size)) else {
        return wrong("it is too large".into());
    };
    if bytes != body.len() {
        return wrong(format!("that is {bytes} bytes, and {} came", body.len()));
    }
    let frames = bytes / (height * width * 3);
    if frames > limits.frames {
        let most = limits.frames;
        return Err(ApiError::too_large(format!("{frames} frames in one request, where {most} are allowed")));
    }
    if height * width > limits.image_pixels {
        let most = limits.image_pixels;
        return Err(ApiError::too_large(format!(
            "frames of {height}x{width}, where {most} pixels are allowed"
        )));
    }
    Ok(FrameBlock { leading: leading.to_vec(), height: *height, width: *width, pixels: body })
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
