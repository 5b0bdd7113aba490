//! What is wrong with an MCAP file.

/// What is wrong with an MCAP file, or with what it recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McapError {
    /// It is none, is cut short, or damaged.
    #[error("byte {at}: {what}")]
    Damaged {
        /// Which byte of the file or of the chunk.
        at: usize,
        /// What is wrong.
        what: String,
    },
    /// A message that is not what its schema says.
    #[error("a message of `{topic}` at {time} ns is damaged: {what}")]
    Message {
        /// Its topic.
        topic: String,
        /// When it was logged.
        time: u64,
        /// What is wrong.
        what: String,
    },
    /// A topic that is needed is of a kind that is not read here.
    #[error("`{topic}` has messages `{schema}` as {encoding}, which are not read here")]
    Unsupported {
        /// The topic.
        topic: String,
        /// What its messages are.
        schema: String,
        /// How they are encoded.
        encoding: String,
    },
    /// A topic that is needed is not there.
    #[error("it has no {what} (its topics are {topics})")]
    NoTopic {
        /// What is missing.
        what: &'static str,
        /// What is there.
        topics: String,
    },
    /// A clock that went back.
    #[error("the clock of `{topic}` goes back from {before} to {after} ns")]
    Clock {
        /// The topic.
        topic: String,
        /// A time.
        before: u64,
        /// The time after it.
        after: u64,
    },
    /// Topics that have no time in common.
    #[error("no frame of `{camera}` has a message of every other topic beside it: {why}")]
    NoFrames {
        /// The main camera.
        camera: String,
        /// Which topic begins too late or ends too early.
        why: String,
    },
}

impl McapError {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "copy it again, or repair it with `mcap recover`",
            Self::Message { .. } => "take this topic out, or record it again",
            Self::Unsupported { .. } => {
                "record images as CompressedImage or Image, and numbers as JointState or Float64MultiArray"
            }
            Self::NoTopic { .. } => "record such a topic",
            Self::Clock { .. } => "sort it with `mcap sort`, or record it again",
            Self::NoFrames { .. } => "record all topics for the whole episode",
        }
    }
}
