//! The code blocks of a document.

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Bash,
    Text,
    Yaml,
    Python,
    Json,
    /// Nobody said: an indented block, or a fence without a word behind it.
    Unknown,
}

/// A block of code.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) language: Language,
    /// The line of its first line of code, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// Nothing but blank lines stands between it and the block before.
    pub(crate) follows: bool,
}

/// All code blocks, fenced and indented.
pub(crate) fn blocks(document: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut follows, mut after_blank) = (false, true);
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        if let Some(word) = line.strip_prefix("```") {
            let mut code = Vec::new();
            loop {
                let (_, line) =
                    lines.next().unwrap_or_else(|| panic!("{document}:{}: a fence stays open", at + 1));
                if line == "```" {
                    break;
                }
                code.push(line);
            }
            blocks.push(Block { language: language(word), line: at + 2, text: code.join("\n"), follows });
            (follows, after_blank) = (true, true);
        } else if after_blank && line.starts_with("    ") {
            let mut code = vec![line];
            while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("    ")) {
                code.push(line);
            }
            blocks.push(Block { language: Language::Unknown, line: at + 1, text: code.join("\n"), follows });
            follows = true;
        } else {
            after_blank = line.trim().is_empty();
            follows &= after_blank;
        }
    }
    blocks
}

fn language(word: &str) -> Language {
    match word {
        "bash" => Language::Bash,
        "text" => Language::Text,
        "yaml" => Language::Yaml,
        "python" => Language::Python,
        "json" => Language::Json,
        _ => Language::Unknown,
    }
}

#[test]
fn blocks_are_found_where_they_are() {
    let text = "Prose.\n```bash\nplaudit a\n```\n\n```text\nb 1\n```\nMore prose\n    that is no code.\n\n    but this is\n```\nc\n```\n";
    let found: Vec<_> =
        blocks("x", text).into_iter().map(|b| (b.language, b.line, b.text, b.follows)).collect();
    let expected = [
        (Language::Bash, 3, "plaudit a", false),
        (Language::Text, 7, "b 1", true),
        (Language::Unknown, 12, "    but this is", false),
        (Language::Unknown, 14, "c", true),
    ];
    assert_eq!(
        found,
        expected.map(|(language, line, text, follows)| (language, line, text.to_string(), follows))
    );
}
