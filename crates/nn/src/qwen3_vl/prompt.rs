//! Prompts as the model's chat template writes them, and the prompt of a trend window.

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said and shown.
    pub content: Vec<ContentPart>,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions before the conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A content part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum ContentPart {
    /// Words.
    Text(String),
    /// An image is shown here.
    Image,
    /// A video is shown here.
    Video,
}

impl Message {
    /// A message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![ContentPart::Text(text.into())] }
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: vec![ContentPart::Text(text.into())] }
    }
}

/// What the template puts where a part is.
const IMAGE: &str = "<|vision_start|><|image_pad|><|vision_end|>";
const VIDEO: &str = "<|vision_start|><|video_pad|><|vision_end|>";
const VIDEO_PAD: &str = "<|video_pad|>";

const END_OF_TURN: &str = "<|im_end|>\n";

/// What the model's chat template makes of a conversation; with `answer_next`, up to where an answer begins.
///
/// A system message other than the first is left out, as the template does.
#[must_use]
pub fn chat(messages: &[Message], answer_next: bool) -> String {
    let mut text = String::new();
    for (i, Message { role, content }) in messages.iter().enumerate() {
        let role = match role {
            Role::System if i > 0 => continue,
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        text += &format!("<|im_start|>{role}\n");
        for part in content {
            match (part, role) {
                (ContentPart::Text(words), _) => text += words,
                (ContentPart::Image, "user") => text += IMAGE,
                (ContentPart::Video, "user") => text += VIDEO,
                _ => {} // only the user shows images
            }
        }
        text += END_OF_TURN;
    }
    if answer_next {
        text += "<|im_start|>assistant\n";
    }
    text
}

/// The same of a conversation whose last message goes on: its turn is not ended.
#[must_use]
pub fn open_chat(messages: &[Message]) -> String {
    let mut text = chat(messages, false);
    let ended = text.trim_end_matches(END_OF_TURN).len();
    text.truncate(ended);
    text
}

/// Where the words of a window's prompt stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptLayout {
    /// Videos, then words: RLinf's.
    #[default]
    VideosFirst,
    /// Words, then videos: what all windows share comes first and is computed once.
    SharedPrefix,
}

/// RLinf's question about a window of two views.
#[must_use]
pub fn trend_question(task: &str) -> String {
    format!(
        "You are currently performing the task: {task}. You are given two synchronized 5-frame videos from different \
         camera views (main view and third-person view) of the same robot action window. Judge whether the action \
         trend is positive, negative, or unclear. Answer with exactly one word: positive, negative, or unclear."
    )
}

/// The prompt of a window of `views` videos with this question, up to where the answer begins.
#[must_use]
pub fn window(views: usize, question: &str, layout: PromptLayout) -> String {
    let videos = vec![VIDEO_PAD; views].join("\n");
    let content = match layout {
        PromptLayout::VideosFirst => format!("{videos}\n\n{question}"),
        PromptLayout::SharedPrefix => format!("{question}\n\n{videos}"),
    };
    chat(&[Message::user(content)], true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_rendered_as_the_template_does() {
        let show = Message {
            role: Role::User,
            content: vec![ContentPart::Image, ContentPart::Video, ContentPart::Text("What changed?".into())],
        };
        let system = Message { role: Role::System, content: vec![ContentPart::Text("Be brief.".into())] };
        let text = chat(&[system, show, Message::assistant("Nothing.")], true);
        assert_eq!(
            text,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n\
             <|vision_start|><|image_pad|><|vision_end|><|vision_start|><|video_pad|><|vision_end|>What changed?\
             <|im_end|>\n<|im_start|>assistant\nNothing.<|im_end|>\n<|im_start|>assistant\n"
        );
    }
}
