//! What a vision-language model is shown and asked: one turn of a user, in parts.

use std::borrow::Cow;

use plaudit_core::FrameShape;

/// A question with its pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation<'a> {
    /// Words before the question.
    pub system: Option<Cow<'a, str>>,
    /// Pictures, videos and words, in the order they are shown.
    pub parts: Vec<Part<'a>>,
}

/// A part of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Part<'a> {
    /// Words.
    Text(String),
    /// One picture.
    Image(Picture<'a>),
    /// Pictures one after the other.
    Video(Video<'a>),
}

/// An RGB picture, HWC.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture<'a> {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Three bytes for each pixel.
    pub pixels: Cow<'a, [u8]>,
}

/// Pictures of one size, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Video<'a> {
    /// The pictures; never none.
    pub frames: Vec<Picture<'a>>,
    /// How many of them make a second.
    pub fps: f64,
}

impl<'a> Picture<'a> {
    /// Of pixels of this shape: grey is made colour, and opacity is left out. `None` for other numbers of channels.
    #[must_use]
    pub fn rgb(shape: FrameShape, pixels: &'a [u8]) -> Option<Self> {
        let FrameShape { height, width, channels } = shape;
        let pixels: Cow<'a, [u8]> = match channels {
            1 => pixels.iter().flat_map(|grey| [*grey; 3]).collect(),
            3 => Cow::Borrowed(pixels),
            4 => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
            _ => return None,
        };
        Some(Self { height, width, pixels })
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        FrameShape::rgb(self.height, self.width)
    }
}

impl<'a> Conversation<'a> {
    /// Its words, without the pictures.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Image(_) | Part::Video(_) => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }

    /// Every picture, in order, also those of videos.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture<'a>> {
        self.parts.iter().flat_map(|part| match part {
            Part::Text(_) => [].as_slice(),
            Part::Image(picture) => std::slice::from_ref(picture),
            Part::Video(video) => &video.frames,
        })
    }
}
