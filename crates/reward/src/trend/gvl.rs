//! Generative value learning (GVL): how far the task is in frames of an episode that are shown in random order.
//!
//! The words are those of the paper's appendix, without its sentence about examples, as none are shown.

use super::conversation::{AnswerPlace, ContentPart, Conversation};

/// Tokens of an answer for each frame, which is described before it gets its number, and the fewest of all.
const FRAME_TOKENS: usize = 64;
const FEWEST_TOKENS: usize = 512;

/// The longest answer about so many frames.
pub(super) fn answer_tokens(frames: usize) -> usize {
    (frames * FRAME_TOKENS).max(FEWEST_TOKENS)
}

/// What is asked about frames in random order, after the frame that the episode begins with.
pub(super) fn question<'f>(
    task: &str,
    initial: ContentPart<'f>,
    shuffled: Vec<ContentPart<'f>>,
) -> Conversation<'f> {
    let text = ContentPart::Text;
    let mut parts = vec![
        text(format!(
            "You are an expert roboticist tasked to predict task completion percentages for frames of a robot for the task \
             of {task}. The task completion percentages are between 0 and 100, where 100 corresponds to full task \
             completion. Note that these frames are in random order, so please pay attention to the individual frames \
             when reasoning about task completion percentage.\nInitial robot scene: "
        )),
        initial,
        text(format!(
            "\nIn the initial robot scene, the task completion percentage is 0.\nNow, for the task of {task}, output the \
             task completion percentage for the following frames that are presented in random order. For each frame, \
             format your response as follow: Frame {{i}}: Frame Description: {{}}, Task Completion Percentages:{{}}%\n"
        )),
    ];
    for (number, frame) in shuffled.into_iter().enumerate() {
        parts.push(text(format!("Frame {}: ", number + 1)));
        parts.push(frame);
        parts.push(text("\n".into()));
    }
    Conversation { system: None, parts, answer: AnswerPlace::NextTurn }
}

/// The percentage of each frame in an answer, on lines of their own or one after another; what is said last of a frame counts.
pub(super) fn percentages(text: &str, frames: usize) -> Vec<Option<f64>> {
    let lower = text.to_lowercase();
    let headers: Vec<(usize, Header)> =
        lower.match_indices("frame").filter_map(|(at, _)| Some((at, header(&lower, at)?))).collect();
    let mut found = vec![None; frames];
    for (place, (_, Header { frame, end })) in headers.iter().enumerate() {
        let next = headers.get(place + 1).map_or(lower.len(), |(at, _)| *at);
        let percent = percent(&lower[*end..next]);
        if let (Some(percent), Some(value)) =
            (percent, frame.checked_sub(1).and_then(|index| found.get_mut(index)))
        {
            *value = Some(percent / 100.0);
        }
    }
    found
}

/// Where it begins to be about a frame.
struct Header {
    frame: usize,
    /// After the frame's number.
    end: usize,
}

/// The header that `frame` at this place is: it begins a line, or a colon follows its number. A description may speak of other frames.
fn header(lower: &str, at: usize) -> Option<Header> {
    let after = at + "frame".len();
    let start = after + lower[after..].find(|c: char| c.is_alphanumeric() || c == '\n')?;
    let digits = lower[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len() - start);
    let (frame, end) = (lower[start..start + digits].parse().ok()?, start + digits);
    let begins_line = !lower[..at].rsplit('\n').next()?.contains(char::is_alphanumeric);
    let has_colon = lower[end..].trim_start_matches(|c: char| " *])\"".contains(c)).starts_with(':');
    (begins_line || has_colon).then_some(Header { frame, end })
}

/// The last number with a percent sign, or else the last number; only from 0 to 100.
fn percent(said: &str) -> Option<f64> {
    let (mut last, mut last_percent, mut rest) = (None, None, said);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let from = &rest[at..];
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let number = from[..end].trim_end_matches('.').parse::<f64>().ok();
        last = number.or(last);
        if from[end..].trim_start().starts_with('%') {
            last_percent = number.or(last_percent);
        }
        rest = &from[end..];
    }
    last_percent.or(last).filter(|percent| (0.0..=100.0).contains(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_frame_by_frame() {
        for (text, expected) in [
            (
                "Sure.\nFrame 1: the arm is up, task completion: 12.5%\nframe 3 - 100 %\nFrame 9: 4%\nFrame 2: none\n",
                &[Some(0.125), None, Some(1.0)][..],
            ),
            ("Frame 1: 140%", &[None]),
            // As the question asks for it, also without new lines, and with other numbers in the description.
            (
                "Frame 1: Frame Description: 3 cm above the cube as in frame 2, Task Completion Percentages:20% Frame 2: Frame \
                 Description: it holds 1 cube, Task Completion Percentages: 90%.",
                &[Some(0.2), Some(0.9)],
            ),
            ("**Frame 1**: 10%\n**Frame 2:** 30 percent\n**Frame 1**: 20%", &[Some(0.2), Some(0.3)]),
            ("- Frame [2]: 7", &[None, Some(0.07)]),
            ("Frame 0: 5%\nFrame 99999999999999999999: 5%\nframe", &[None, None]),
            ("", &[None]),
        ] {
            assert_eq!(percentages(text, expected.len()), expected, "{text}");
        }
    }

    #[test]
    fn the_first_frame_stands_before_the_shuffled_ones() {
        let shown = |name: &str| ContentPart::Text(format!("[{name}]"));
        let asked = question("stacking cups", shown("start"), vec![shown("b"), shown("a")]);
        let words = |part: &ContentPart<'_>| match part {
            ContentPart::Text(words) => words.clone(),
            ContentPart::Image(_) | ContentPart::Video(_) => String::new(),
        };
        let text: String = asked.parts.iter().map(words).collect();
        for part in [
            "for the task of stacking cups.",
            "Initial robot scene: [start]\nIn the initial",
            "Frame 1: [b]\nFrame 2: [a]\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
