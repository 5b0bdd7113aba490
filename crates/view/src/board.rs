//! Several runs that go on side by side, in one view: how far each is, and what is left.

use std::io::{self, Write};
use std::time::Duration;

use crate::format;
use crate::paint::{Row, TextStyle};
use crate::terminal::{Size, up};

/// Lines do not grow wider than this.
const WIDEST: usize = 110;
/// Cells of a run's bar.
const CELLS: usize = 20;

/// Where a run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunProgress {
    /// What it is called.
    pub name: String,
    /// Steps it has done.
    pub step: u64,
    /// Of how many, if it ends.
    pub steps: Option<u64>,
    /// The newest value that people look at, with its name.
    pub metric: Option<(String, f64)>,
}

impl RunProgress {
    /// How much of it is done, where that is known.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.steps.filter(|steps| *steps > 0).map(|steps| (self.step as f64 / steps as f64).min(1.0))
    }

    /// In one line, for output that is not a terminal.
    #[must_use]
    pub fn line(&self) -> String {
        let metric = match &self.metric {
            Some((name, value)) => format!(" · {name} {}", format::number(*value)),
            None => String::new(),
        };
        format!("{}: {}{metric}", self.name, self.extent())
    }

    fn extent(&self) -> String {
        match self.steps {
            Some(steps) => format!("{} of {}", format::count(self.step), format::count(steps)),
            None => format::count(self.step),
        }
    }

    fn row(&self, name_width: usize) -> Row {
        let filled = (self.share().unwrap_or(0.0) * CELLS as f64).floor() as usize;
        let row = Row::default().add(TextStyle::Plain, "  ").add(TextStyle::Plain, &self.name);
        let row = row.pad_to(name_width + 4).add(TextStyle::Accent, "━".repeat(filled));
        let row = row.add(TextStyle::Faint, "─".repeat(CELLS - filled));
        let row = row.add(TextStyle::Plain, format!("  {}", self.extent()));
        match &self.metric {
            Some((name, value)) => {
                row.add(TextStyle::Faint, format!("  {name} ")).add(TextStyle::Strong, format::number(*value))
            }
            None => row,
        }
    }
}

/// All runs at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoardState {
    /// What the runs are together.
    pub title: String,
    /// Runs that are done.
    pub done: usize,
    /// Runs that failed.
    pub failed: usize,
    /// All runs.
    pub total: usize,
    /// Those that run now.
    pub running: Vec<RunProgress>,
    /// How long it has taken.
    pub elapsed: Duration,
    /// How long it will take, if that can be guessed.
    pub left: Option<Duration>,
    /// Why no more runs are started now, if that needs a word.
    pub note: Option<String>,
}

impl BoardState {
    /// In one line: `cartpole_ppo: 3 of 10 runs done, 2 running · 1m 04s, 2m 10s left`.
    #[must_use]
    pub fn line(&self) -> String {
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let left = self.left.map_or(String::new(), |left| format!(", about {} left", format::duration(left)));
        let note = self.note.as_ref().map_or(String::new(), |note| format!(" · {note}"));
        format!(
            "{}: {} of {} runs done{failed}, {} running · {}{left}{note}",
            self.title,
            self.done,
            self.total,
            self.running.len(),
            format::duration(self.elapsed)
        )
    }

    fn rows(&self, width: usize, height: usize) -> Vec<Row> {
        let style = if self.failed > 0 { TextStyle::Warn } else { TextStyle::Strong };
        let mut rows = vec![Row::default().add(style, self.line())];
        let names = self.running.iter().map(|run| run.name.chars().count()).max().unwrap_or(0).min(48);
        let room = height.saturating_sub(2).max(1);
        rows.extend(self.running.iter().take(room).map(|run| run.row(names)));
        if self.running.len() > room {
            rows.push(
                Row::default().add(TextStyle::Faint, format!("  … and {} more", self.running.len() - room)),
            );
        }
        rows.into_iter().map(|row| row.fit(width.min(WIDEST))).collect()
    }
}

/// Draws the state of several runs in place. For terminals alone.
#[derive(Debug)]
pub struct Board<W: Write> {
    out: W,
    colour: bool,
    /// The width of each row that stands on the screen now, above the cursor.
    standing: Vec<usize>,
}

impl<W: Write> Board<W> {
    /// Nothing is drawn yet.
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour, standing: Vec::new() }
    }

    /// Draws the state over the one that stands. Lines of `news` stay above it.
    ///
    /// # Errors
    /// When the terminal cannot be written to.
    pub fn draw(&mut self, state: &BoardState, news: &[String], size: Size) -> io::Result<()> {
        let rows = state.rows(size.width, size.height);
        let mut frame = up(&self.standing, size.width) + "\x1b[J";
        news.iter().for_each(|line| frame += &format!("{line}\n"));
        for row in &rows {
            frame += &row.paint(self.colour);
            frame.push('\n');
        }
        self.standing = rows.iter().map(Row::width).collect();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> BoardState {
        let run = |name: &str, step| RunProgress {
            name: name.into(),
            step,
            steps: Some(60),
            metric: Some(("eval/return".into(), 123.4)),
        };
        BoardState {
            title: "cartpole_ppo".into(),
            done: 3,
            total: 10,
            running: vec![run("lr=0.001 seed=1", 30), run("lr=0.01 seed=2", 60)],
            elapsed: Duration::from_secs(64),
            left: Some(Duration::from_secs(130)),
            ..BoardState::default()
        }
    }

    #[test]
    fn the_view_says_how_far_each_run_is() {
        let mut board = Board::new(Vec::new(), false);
        board.draw(&state(), &["done: x".into()], Size { width: 100, height: 24 }).unwrap();
        board.draw(&state(), &[], Size { width: 100, height: 24 }).unwrap();
        let text = String::from_utf8(board.out).unwrap();
        let second = text.rsplit("\x1b[J").next().unwrap();
        assert_eq!(
            second,
            "cartpole_ppo: 3 of 10 runs done, 2 running · 1m 04s, about 2m 10s left\n  \
             lr=0.001 seed=1  ━━━━━━━━━━──────────  30 of 60  eval/return 123.4\n  \
             lr=0.01 seed=2   ━━━━━━━━━━━━━━━━━━━━  60 of 60  eval/return 123.4\n"
        );
        assert!(text.contains("\x1b[3A"), "it is drawn over the first: {text:?}");
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let rows = state().rows(30, 3);
        let text: Vec<String> = rows.iter().map(|row| row.paint(false)).collect();
        assert_eq!(text.len(), 3);
        assert!(text.iter().all(|line| line.chars().count() <= 30));
        assert_eq!(text[2], "  … and 1 more");
    }
}
