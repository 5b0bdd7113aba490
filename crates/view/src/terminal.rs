//! The view of a run, drawn where a person watches.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use plaudit_core::{Emit, Event, Level};

use crate::live_view::LiveView;
use crate::paint::{Row, TextStyle, wrap};

/// A terminal is redrawn at most this often.
const FRAME: Duration = Duration::from_millis(100);
/// A pipe or a file gets a line of metrics at most this often.
const LINE: Duration = Duration::from_secs(5);

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Size {
    /// The size of the terminal this process runs in, or that of an old one where there is none.
    #[must_use]
    pub fn now() -> Self {
        let size = terminal_size::terminal_size();
        let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
        Self { width: usize::from(width).max(10), height: usize::from(height).max(4) }
    }
}

/// Shows a run to the person who started it.
///
/// In a terminal it draws in place, and leaves the last frame standing. Elsewhere (a file, a pipe, a cluster's log)
/// it writes notices, now and then a line of metrics, and the end.
pub struct Terminal<W: Write> {
    out: W,
    view: LiveView,
    began: Instant,
    colour: bool,
    mode: Mode,
    write_error: Option<io::Error>,
}

enum Mode {
    Live {
        size: Box<dyn Fn() -> Size + Send>,
        /// The width of each row that stands on the screen now, above the cursor.
        standing: Vec<usize>,
        last: Option<Duration>,
    },
    Plain {
        last: Option<Duration>,
    },
}

impl<W: Write + IsTerminal> Terminal<W> {
    /// Draws in place if `out` is a terminal, and writes lines if not.
    pub fn on(out: W, colour: bool) -> Self {
        if out.is_terminal() { Self::live(out, colour, Size::now) } else { Self::plain(out) }
    }
}

impl<W: Write> Terminal<W> {
    /// Draws in place, asking for the size each time.
    pub fn live(out: W, colour: bool, size: impl Fn() -> Size + Send + 'static) -> Self {
        Self::with(out, colour, Mode::Live { size: Box::new(size), standing: Vec::new(), last: None })
    }

    /// Writes lines.
    pub fn plain(out: W) -> Self {
        Self::with(out, false, Mode::Plain { last: None })
    }

    fn with(out: W, colour: bool, mode: Mode) -> Self {
        Self { out, view: LiveView::default(), began: Instant::now(), colour, mode, write_error: None }
    }

    /// Redraws what time alone changes, such as the time left. Worth a call now and then while a step takes long.
    pub fn tick(&mut self) {
        self.tick_at(self.began.elapsed());
    }

    /// [`Terminal::tick`] at a time of the caller's choice.
    pub fn tick_at(&mut self, at: Duration) {
        let drawn = self.draw(at, false);
        self.remember(drawn);
    }

    /// Erases the current frame, for work whose result says it all.
    pub fn erase(&mut self) {
        if let Mode::Live { size, standing, last } = &mut self.mode {
            let frame = up(standing, size().width) + "\x1b[J";
            standing.clear();
            *last = None;
            let erased = self.out.write_all(frame.as_bytes()).and_then(|()| self.out.flush());
            self.remember(erased);
        }
    }

    /// Shows an event that happened at `at`, measured from any fixed moment.
    pub fn on_event_at(&mut self, event: &Event, at: Duration) {
        self.view.on_event(event, at);
        let shown = match event {
            Event::Notice { level, text } => self.notice(*level, text, at),
            Event::Ended { .. } => self.end(at),
            Event::Metrics { .. } if matches!(self.mode, Mode::Plain { .. }) => self.line(at),
            _ => self.draw(at, matches!(event, Event::Started { .. })),
        };
        self.remember(shown);
    }

    /// The first error while writing, if any. Output that cannot be written never stops a run.
    #[must_use]
    pub fn write_error(&self) -> Option<&io::Error> {
        self.write_error.as_ref()
    }

    /// Gives the output back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn remember(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.write_error.get_or_insert(error);
        }
    }

    /// Draws the frame over the one that stands, unless that is recent.
    fn draw(&mut self, at: Duration, now: bool) -> io::Result<()> {
        let Mode::Live { size, standing, last } = &mut self.mode else { return Ok(()) };
        let recent = last.is_some_and(|last| at < last + FRAME);
        if !now && (recent || !self.view.is_running()) {
            return Ok(());
        }
        let size = size();
        let rows = self.view.rows(at, size.width, size.height.saturating_sub(1));
        let mut frame = up(standing, size.width);
        for row in &rows {
            frame.push_str(&row.paint(self.colour));
            frame.push_str("\x1b[K\n");
        }
        frame.push_str("\x1b[J");
        *standing = rows.iter().map(Row::width).collect();
        *last = Some(at);
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Notices stay: they are written above the frame, which moves down.
    fn notice(&mut self, level: Level, text: &str, at: Duration) -> io::Result<()> {
        let Mode::Live { size, standing, last } = &mut self.mode else {
            self.out.write_all(notice_lines(level, text, usize::MAX, self.colour).as_bytes())?;
            return self.out.flush();
        };
        let width = size().width;
        let frame = up(standing, width) + "\x1b[J" + &notice_lines(level, text, width, self.colour);
        standing.clear();
        let redraw = last.is_some();
        self.out.write_all(frame.as_bytes())?;
        if redraw { self.draw(at, true) } else { self.out.flush() }
    }

    /// A line of metrics, unless the last one is recent.
    fn line(&mut self, at: Duration) -> io::Result<()> {
        let Mode::Plain { last } = &mut self.mode else { return Ok(()) };
        if last.is_some_and(|last| at < last + LINE) {
            return Ok(());
        }
        *last = Some(at);
        writeln!(self.out, "{}", self.view.line(at))?;
        self.out.flush()
    }

    /// The last frame, which stays; whatever comes next starts below it.
    fn end(&mut self, at: Duration) -> io::Result<()> {
        let drawn = self.draw(at, true);
        match &mut self.mode {
            Mode::Live { standing, last, .. } => {
                standing.clear();
                *last = None;
                drawn
            }
            Mode::Plain { last } => {
                *last = None;
                writeln!(self.out, "{}", self.view.line(at))?;
                self.out.flush()
            }
        }
    }
}

impl<W: Write> Emit for Terminal<W> {
    fn emit(&mut self, event: Event) {
        self.on_event_at(&event, self.began.elapsed());
    }
}

impl<W: Write> fmt::Debug for Terminal<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Moves the cursor to the start of the current frame. Rows wrap when the terminal has become narrower since.
pub(crate) fn up(standing: &[usize], width: usize) -> String {
    let lines: usize = standing.iter().map(|row| row.div_ceil(width.max(1)).max(1)).sum();
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r") }
}

/// `warning: …`, with what does not fit on the first line below it.
fn notice_lines(level: Level, text: &str, width: usize, colour: bool) -> String {
    let (style, mark) = match level {
        Level::Info => (TextStyle::Accent, "info"),
        Level::Warning => (TextStyle::Warn, "warning"),
    };
    let indent = mark.len() + 2;
    let lines = wrap(text, width.saturating_sub(indent)).into_iter().enumerate();
    let row = |(n, line): (usize, String)| match n {
        0 => Row::default().add(style, mark).add(TextStyle::Plain, ": ").add(TextStyle::Plain, line),
        _ => Row::default().pad_to(indent).add(TextStyle::Plain, line),
    };
    lines.map(|line| row(line).paint(colour) + "\n").collect()
}
