//! An image classifier behind `plaudit serve`: frames go as bytes, scores come back as the floats that the model computed.

use std::sync::Arc;

use plaudit_core::{FrameShape, Score};

use super::connection::Connection;
use super::error::{EndpointError, RequestError};
use super::{ChatEndpoint, EndpointCallbacks, EndpointSettings};
use crate::models::{CameraView, FrameRewardModel, FrameStack, RewardModelError};

/// What a server calls such a model in its list of models, under `kind`.
pub const IMAGE_CLASSIFIER: &str = "image classifier";
/// Frames of one request, all views together; as many as a server scores at once by default.
const REQUEST_FRAMES: usize = 64;
/// Bytes of one request, below what servers take by default.
const REQUEST_BYTES: usize = 32 << 20;

/// An image classifier on a server, and what the server says about it.
pub struct FrameEndpoint {
    connection: Connection,
    /// Its views, in order.
    pub image_keys: Vec<String>,
    /// The score above which it means success, if it has one.
    pub threshold: Option<f32>,
}

/// The model of a server, by what it takes.
pub enum ServerModel {
    /// An image classifier behind `plaudit serve`, which takes frames.
    Frames(Box<FrameEndpoint>),
    /// A model behind the OpenAI chat protocol.
    Chat(Box<ChatEndpoint>),
}

impl ServerModel {
    /// Asks the server what it has. What does not say that it is an image classifier is asked in words.
    ///
    /// # Errors
    /// When the server is not there, or has no model of that name.
    pub fn open(settings: EndpointSettings, callbacks: EndpointCallbacks) -> Result<Self, EndpointError> {
        let connection = Connection::open(settings, callbacks)?;
        Ok(match FrameEndpoint::over(connection) {
            Ok(frames) => Self::Frames(Box::new(frames)),
            Err(connection) => Self::Chat(Box::new(ChatEndpoint::over(*connection))),
        })
    }
}

impl FrameEndpoint {
    /// The model of a connection, or the connection if its model is of another kind.
    fn over(connection: Connection) -> Result<Self, Box<Connection>> {
        let details = &connection.model.details;
        let keys = details.get("views").and_then(|views| views.as_array());
        let keys = keys.and_then(|keys| keys.iter().map(|key| key.as_str().map(String::from)).collect());
        let is_classifier = details.get("kind").and_then(|kind| kind.as_str()) == Some(IMAGE_CLASSIFIER);
        let threshold = details.get("threshold").and_then(|value| value.as_f64());
        match keys {
            Some(image_keys) if is_classifier => {
                Ok(Self { connection, image_keys, threshold: threshold.map(|value| value as f32) })
            }
            _ => Err(Box::new(connection)),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &str {
        self.connection.base()
    }

    /// The same model, asked in words.
    #[must_use]
    pub fn in_words(self) -> ChatEndpoint {
        ChatEndpoint::over(self.connection)
    }

    /// The classifier as a reward model in an environment. `views` are what its `image_keys` are there, in that order.
    #[must_use]
    pub fn reward_model(self, views: Vec<CameraView>) -> RemoteClassifier {
        let (cameras, backs) = views.into_iter().map(|CameraView { camera, back }| (camera, back)).unzip();
        RemoteClassifier { connection: self.connection, cameras, backs, threshold: self.threshold }
    }
}

/// An image classifier on a server that looks through an environment's cameras.
pub struct RemoteClassifier {
    connection: Connection,
    cameras: Vec<Arc<str>>,
    /// How many steps back each of the model's views is.
    backs: Vec<usize>,
    threshold: Option<f32>,
}

impl FrameRewardModel for RemoteClassifier {
    fn cameras(&self) -> &[Arc<str>] {
        &self.cameras
    }

    fn history_len(&self) -> usize {
        self.backs.iter().copied().max().unwrap_or(0)
    }

    fn threshold(&self) -> Option<f32> {
        self.threshold
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let Some(first) = frames.first() else { return Ok(Vec::new()) };
        let shape = self.shape(first)?;
        let per_request =
            REQUEST_FRAMES.min(REQUEST_BYTES / shape.bytes().max(1)) / self.cameras.len().max(1);
        let requests: Vec<&[FrameStack<'_>]> = frames.chunks(per_request.max(1)).collect();
        let ask = |frames: &&[FrameStack<'_>]| -> Result<Vec<f32>, RewardModelError> {
            Ok(self.ask(&self.pixels(frames, shape)?, shape)?)
        };
        let scored = self.connection.in_parallel(&requests, ask)?;
        // A server that was started again may have come back with another model.
        self.connection.check_unchanged()?;
        let score = |(frame, value): (usize, f32)| {
            Score::new(value).ok_or(RewardModelError::NotAScore { value, frame })
        };
        scored.into_iter().flatten().enumerate().map(score).collect()
    }
}

impl RemoteClassifier {
    /// The shape that the frames of all cameras have.
    fn shape(&self, frame: &FrameStack<'_>) -> Result<FrameShape, RewardModelError> {
        let mut shapes = self.cameras.iter().map(|camera| match frame.now().image(camera) {
            Some((shape, _)) if shape.channels != 3 => {
                Err(RewardModelError::Channels { camera: camera.clone(), channels: shape.channels })
            }
            Some((shape, _)) => Ok(shape),
            None => Err(RewardModelError::Camera { camera: camera.clone() }),
        });
        shapes.next().unwrap_or_else(|| Err(EndpointError::NoViews { base: self.base() }.into()))
    }

    /// The frames of one request: `[N, V, H, W, 3]`.
    fn pixels(&self, frames: &[FrameStack<'_>], shape: FrameShape) -> Result<Vec<u8>, RewardModelError> {
        let mut pixels = Vec::with_capacity(frames.len() * self.cameras.len() * shape.bytes());
        for frame in frames {
            for (camera, back) in self.cameras.iter().zip(&self.backs) {
                match frame.back(*back).image(camera) {
                    Some((own, image)) if own == shape => pixels.extend_from_slice(image),
                    Some(_) => return Err(RewardModelError::Shapes { camera: camera.clone() }),
                    None => return Err(RewardModelError::Camera { camera: camera.clone() }),
                }
            }
        }
        Ok(pixels)
    }

    /// The scores of one request.
    fn ask(&self, pixels: &[u8], shape: FrameShape) -> Result<Vec<f32>, EndpointError> {
        let views = self.cameras.len();
        let count = pixels.len() / (views * shape.bytes());
        let sizes = format!("{count},{views},{},{},{}", shape.height, shape.width, shape.channels);
        let bytes = "application/octet-stream";
        let mut headers =
            vec![("Content-Type", bytes), ("Accept", bytes), ("X-Plaudit-Shape", sizes.as_str())];
        // A name that no header can hold is that of an only model, or cannot be told.
        let model = Some(self.connection.model.name.as_str());
        let is_plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_graphic());
        headers.extend(model.filter(is_plain).map(|name| ("X-Plaudit-Model", name)));
        self.connection.retry(|| {
            let reply = self.connection.post("/v1/score", &headers, pixels)?;
            let scores: Vec<f32> =
                reply.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            match scores.len() == count && reply.len() == count * size_of::<f32>() {
                true => Ok(scores),
                false => {
                    let length = reply.len();
                    Err(RequestError::Malformed(format!("{length} bytes for the scores of {count} frames")))
                }
            }
        })
    }

    fn base(&self) -> String {
        self.connection.base().into()
    }
}
