//! What stands on the screen, and what goes into a file instead.

use std::io::{self, Write};
use std::time::Duration;

use plaudit_core::{Emit, EndReason, Event, Level};
use plaudit_view::{LiveView, Size, Terminal};

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
}

/// A short run: what happened, and when.
fn run() -> Vec<(f64, Event)> {
    let (name, job, unit) = ("pick_cube".into(), "train".into(), "updates".into());
    let warning = "3 episodes have no label and were left out of training".into();
    let metrics = |step: u64| {
        let values = [("train/loss", 1.0 / step as f64), ("env/success_once", 0.5)];
        Event::Metrics { step, values: values.map(|(name, value)| (name.to_owned(), value)).into() }
    };
    let mut events = vec![(0.0, Event::Started { name, job, unit, step: 0, steps: Some(20) })];
    for step in 1..=20 {
        events.push((step as f64, Event::Progress { step }));
        events.push((step as f64, metrics(step)));
        if step == 10 {
            events.push((10.0, Event::Notice { level: Level::Warning, text: warning }));
            break;
        }
    }
    events.extend((11..=20).map(|step| (step as f64, metrics(step))));
    events.push((20.0, Event::Ended { step: 20, reason: EndReason::Done }));
    events
}

fn live(width: usize, height: usize) -> Terminal<Vec<u8>> {
    Terminal::live(Vec::new(), false, move || Size { width, height })
}

/// The screen after some output: enough of a terminal to follow the few codes that are used.
fn screen(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let mut lines = vec![String::new()];
    let mut row = 0;
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(String::new());
                }
            }
            '\r' => lines[row].clear(), // every row is written again from its start
            '\x1b' => {
                let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
                match (&rest[1..end], &rest[end..=end]) {
                    (up, "A") => {
                        row -= up.parse::<usize>().unwrap_or(1);
                        lines[row..].iter_mut().for_each(String::clear);
                    }
                    ("", "J") => lines.truncate(row + 1),
                    ("", "K") => {}
                    other => panic!("unknown code {other:?}"),
                }
                rest = &rest[end + 1..];
            }
            c => lines[row].push(c),
        }
    }
    lines
}

#[test]
fn notices_stay_above_and_the_last_frame_stays() {
    let mut terminal = live(40, 24);
    let mut view = LiveView::default();
    terminal.tick_at(secs(0.0)); // nothing to see yet
    for (at, event) in run() {
        terminal.on_event_at(&event, secs(at));
        view.on_event(&event, secs(at));
    }
    terminal.tick_at(secs(30.0)); // nothing more to see
    terminal.on_event_at(&Event::Progress { step: 20 }, secs(31.0));
    let mut expected = vec![
        "warning: 3 episodes have no label and".to_owned(),
        "         were left out of training".to_owned(),
    ];
    expected.extend(view.render(secs(20.0), 40, false));
    expected.push(String::new());
    assert_eq!(screen(&terminal.into_inner()), expected);
}

#[test]
fn what_is_erased_leaves_notices_alone() {
    let mut terminal = live(60, 24);
    for (at, event) in run().into_iter().filter(|(_, event)| !matches!(event, Event::Ended { .. })) {
        terminal.on_event_at(&event, secs(at));
    }
    terminal.erase();
    let expected = ["warning: 3 episodes have no label and were left out of", "         training", ""];
    assert_eq!(screen(&terminal.into_inner()), expected);
}

#[test]
fn a_low_terminal_is_never_overfilled() {
    let mut terminal = live(60, 6);
    for (at, event) in run().into_iter().filter(|(_, event)| !matches!(event, Event::Notice { .. })) {
        terminal.on_event_at(&event, secs(at));
    }
    let screen = screen(&terminal.into_inner());
    assert!(screen.len() <= 6, "{screen:#?}");
}

#[test]
fn frames_are_at_most_ten_a_second() {
    let mut terminal = live(60, 24);
    for step in 0..=2000 {
        terminal.on_event_at(&Event::Progress { step }, secs(step as f64 / 1000.0));
    }
    let output = String::from_utf8(terminal.into_inner()).unwrap_or_default();
    let frames = output.matches("\x1b[J").count();
    assert!((15..=21).contains(&frames), "{frames}");
}

#[test]
fn a_file_gets_plain_lines_now_and_then() {
    let mut terminal = Terminal::plain(Vec::new());
    run().iter().for_each(|(at, event)| terminal.on_event_at(event, secs(*at)));
    let output = String::from_utf8(terminal.into_inner()).unwrap_or_default();
    let expected = "
pick_cube 1.0s · 1 of 20 updates · 1.0 updates/s · 19s left · env/success_once 0.5000 · train/loss 1
pick_cube 6.0s · 6 of 20 updates · 1.0 updates/s · 14s left · env/success_once 0.5000 · train/loss 0.1667
warning: 3 episodes have no label and were left out of training
pick_cube 11s · 11 of 20 updates · 1.0 updates/s · 9.0s left · env/success_once 0.5000 · train/loss 0.09091
pick_cube 16s · 16 of 20 updates · 1.0 updates/s · 4.0s left · env/success_once 0.5000 · train/loss 0.06250
pick_cube 20s · 20 updates · 1.0 updates/s · done · env/success_once 0.5000 · train/loss 0.05000
";
    assert_eq!(output, expected.trim_start_matches('\n'), "\n{output}");
}

#[test]
fn output_that_breaks_stops_nothing_and_is_remembered() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut terminal = Terminal::plain(Broken);
    run().into_iter().for_each(|(_, event)| terminal.emit(event));
    assert_eq!(terminal.write_error().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
}
