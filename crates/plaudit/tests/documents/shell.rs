//! The commands of a ```` ```bash ```` block. Bash itself runs them; here they are only split, and given other numbers.

use crate::documents::markdown::Block;

/// A command, with the lines it goes on over joined and its comment gone. Words are as written, quotes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its first line in the document, from 1.
    pub(crate) line: usize,
    pub(crate) words: Vec<String>,
}

impl Command {
    pub(crate) fn text(&self) -> String {
        self.words.join(" ")
    }

    /// Whether it is plaudit's command of the first of these words, with the others somewhere after it, in this order.
    pub(crate) fn has(&self, words: &str) -> bool {
        let mut rest = self.words.iter().skip_while(|word| *word != "plaudit").skip(1).map(|word| bare(word));
        let mut wanted = words.split(' ');
        rest.next() == wanted.next() && wanted.all(|wanted| rest.any(|word| word == wanted))
    }

    /// Gives a key or a flag another value, or adds it before whatever belongs to the shell.
    pub(crate) fn set(&mut self, setting: &str) {
        let (name, value) =
            setting.split_once(['=', ' ']).unwrap_or_else(|| panic!("`{setting}` sets nothing"));
        if name.starts_with("--") {
            if let Some(at) = self.words.iter().position(|word| word == name) {
                self.words[at + 1] = value.into();
                return;
            }
        } else if let Some(at) =
            self.words.iter().position(|word| bare(word).split_once('=').is_some_and(|(key, _)| key == name))
        {
            self.words[at] = setting.into();
            return;
        }
        let of_shell = |word: &String| [">", "|", "&", "&&", ";"].contains(&word.as_str());
        let at = self.words.iter().position(of_shell).unwrap_or(self.words.len());
        self.words.splice(at..at, setting.split(' ').map(String::from));
    }
}

/// A word without the quotes around it.
fn bare(word: &str) -> &str {
    word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')).unwrap_or(word)
}

/// The commands of a block.
pub(crate) fn commands(block: &Block) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut lines = block.text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut text = line.to_string();
        while let Some(begun) = text.strip_suffix('\\') {
            let (_, next) =
                lines.next().unwrap_or_else(|| panic!("line {}: nothing follows `\\`", block.line + at));
            text = format!("{begun}{next}");
        }
        let words = words(&text);
        if !words.is_empty() {
            commands.push(Command { line: block.line + at, words });
        }
    }
    commands
}

/// Words as bash splits them, up to a comment.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut depth) = (Vec::new(), String::new(), None, 0);
    for letter in text.chars() {
        match letter {
            '#' if word.is_empty() && quote.is_none() => break,
            ' ' if quote.is_none() && depth == 0 => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                continue;
            }
            '\'' | '"' if quote.is_none() => quote = Some(letter),
            _ if quote == Some(letter) => quote = None,
            '(' if quote.is_none() => depth += 1,
            ')' if quote.is_none() => depth -= 1,
            _ => {}
        }
        word.push(letter);
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::markdown::Language;

    fn one(text: &str) -> Command {
        let block = Block { language: Language::Bash, line: 1, text: text.into(), follows: false };
        commands(&block).remove(0)
    }

    #[test]
    fn commands_are_split() {
        let text =
            "# a comment\nplaudit a --b 1 \\\n    'c={d: 1, e: 2}'   # why\n\nx=$(date +%s) plaudit f > g\n";
        let block = Block { language: Language::Bash, line: 10, text: text.into(), follows: false };
        let found: Vec<_> = commands(&block).iter().map(|command| (command.line, command.text())).collect();
        let expected = [(11, "plaudit a --b 1 'c={d: 1, e: 2}'"), (14, "x=$(date +%s) plaudit f > g")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_string())));
    }

    #[test]
    fn a_command_gets_other_numbers() {
        for (before, setting, after) in [
            ("plaudit a --b 10 c", "--b 2", "plaudit a --b 2 c"),
            ("plaudit a d.e=10 c", "d.e=2", "plaudit a d.e=2 c"),
            ("plaudit a 'd.e=[1, 2]' c", "d.e=2", "plaudit a d.e=2 c"),
            ("plaudit a > f", "d.e=2", "plaudit a d.e=2 > f"),
            ("plaudit a &", "--b 2", "plaudit a --b 2 &"),
        ] {
            let mut command = one(before);
            command.set(setting);
            assert_eq!(command.text(), after);
        }
    }

    #[test]
    fn a_command_is_known_by_its_words() {
        for (text, words, expected) in [
            ("plaudit reward train x", "reward train", true),
            ("plaudit reward --a train x", "reward train", true),
            ("plaudit reward train x", "train", false),
            ("T=1 plaudit train x", "train", true),
            ("plaudit retrain x", "train", false),
            ("cargo train x", "train", false),
        ] {
            assert_eq!(one(text).has(words), expected, "{text}");
        }
    }
}
