//! What a vision-language model is shown and asked: one turn of a user, in parts.

use std::borrow::Cow;

use plaudit_core::FrameShape;
use plaudit_nn::qwen3_vl::FrameSampling;

/// A question with its images.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation<'a> {
    /// Words before the question.
    pub system: Option<Cow<'a, str>>,
    /// Images, videos and words, in the order they are shown.
    pub parts: Vec<ContentPart<'a>>,
    /// Where the answer stands.
    pub answer: AnswerPlace,
}

/// Where a model's answer to a question stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerPlace {
    /// In a turn of its own, as a chat has it.
    #[default]
    NextTurn,
    /// Right after the last words of the question, which go on: how TOPReward asks. A model that was tuned to chat weighs a
    /// statement there, where in a turn of its own it is polite.
    SameTurn,
}

/// A part of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart<'a> {
    /// Words.
    Text(String),
    /// One image.
    Image(RgbImage<'a>),
    /// Images one after the other.
    Video(Video<'a>),
}

/// An RGB image, HWC.
#[derive(Debug, Clone, PartialEq)]
pub struct RgbImage<'a> {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Three bytes for each pixel.
    pub pixels: Cow<'a, [u8]>,
}

/// Images of one size, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Video<'a> {
    /// The images; never none.
    pub frames: Vec<RgbImage<'a>>,
    /// How many of them make a second.
    pub fps: f64,
    /// Which of them the model sees.
    pub sampling: FrameSampling,
}

impl<'a> RgbImage<'a> {
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

    /// The same of pixels that may be owned; other numbers of channels are shown as their first, in grey.
    pub(crate) fn rgb_of(shape: FrameShape, pixels: Cow<'a, [u8]>) -> Self {
        let FrameShape { height, width, channels } = shape;
        let pixels: Cow<'a, [u8]> = match channels {
            3 => pixels,
            4 => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
            channels => pixels.chunks_exact(channels.max(1)).flat_map(|pixel| [pixel[0]; 3]).collect(),
        };
        Self { height, width, pixels }
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        FrameShape::rgb(self.height, self.width)
    }
}

impl<'a> Conversation<'a> {
    /// Its words, without the images.
    #[must_use]
    pub fn text(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            ContentPart::Image(_) | ContentPart::Video(_) => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }

    /// Every image, in order, also those of videos.
    pub fn images(&self) -> impl Iterator<Item = &RgbImage<'a>> {
        self.parts.iter().flat_map(|part| match part {
            ContentPart::Text(_) => [].as_slice(),
            ContentPart::Image(image) => std::slice::from_ref(image),
            ContentPart::Video(video) => &video.frames,
        })
    }
}
