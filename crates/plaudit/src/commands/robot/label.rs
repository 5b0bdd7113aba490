//! `plaudit robot label`: a person labels frames while the robot moves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_core::Seed;
use plaudit_data::labelling::{
    DatasetOptions, DatasetReport, JOURNAL_FILE, JournalHeader, LabelKey, LabellingError, Session,
    SessionSettings, write_dataset,
};
use plaudit_robot::{Camera, CameraFrame, Clock, Key, RealClock, Time, first_frame};

use super::bench::{Bench, BenchArgs};
use super::{reaction, server};
use crate::cli::Verbosity;
use crate::commands::keys::Keys;
use crate::console;
use crate::failure::Failure;
use crate::output;
use crate::run::{interrupted, listen_for_interrupts};

/// How often keys and frames are looked at.
const LOOKS_EVERY: Duration = Duration::from_millis(5);
/// How often the bar changes; logs get a line so often.
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(3);
/// How long a camera may take to show something.
const FIRST_FRAME: Duration = Duration::from_secs(5);
/// Letters of a bar.
const BAR: usize = 20;
/// RLinf's numbers of frames.
const TARGETS: [u64; 2] = [50, 150];

/// Label frames by key while the robot moves: train.pt and val.pt
///
/// c: success, a: failure, space or b: neither, u: take the last label back, q: enough, write the files. A key switches a
/// label on until another one switches it off. The command only looks: the arm is moved by hand, or from another terminal.
///
/// Every frame and key goes into a journal in --output-dir first. A session that was killed goes on when the command is
/// started again with the same folder, and --rebuild makes the files again, with another --lag for instance.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit robot label --server http://127.0.0.1:5000 --camera base_camera \\
      --output-dir labels
  plaudit robot label realworld_collect_dataset \\
      --camera http://10.0.0.3:8080/stream --measure-lag
  plaudit robot label --rebuild --output-dir labels --lag 0.3")]
pub struct Label {
    #[command(flatten)]
    bench: BenchArgs,
    /// Where the journal, train.pt and val.pt go [default: logs/<time>-robot_label]
    #[arg(long, short, visible_alias = "output", value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Success frames to label [default: the config's, or 50]
    #[arg(long, value_name = "N")]
    success: Option<u64>,
    /// Failure frames to label [default: the config's, or 150]
    #[arg(long, value_name = "N")]
    fail: Option<u64>,
    /// Share of frames that validate [default: the config's, or 0.2]
    #[arg(long, value_name = "SHARE")]
    val_split: Option<f64>,
    /// Failures kept for each success in train.pt; 0 keeps all [default: the config's, or 2]
    #[arg(long, value_name = "RATIO")]
    fail_success_ratio: Option<f64>,
    /// Seed of the split and of the choice [default: the config's, or 42]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Longest block of time that is on one side of the split
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    block_secs: f64,
    /// Training frames nearer than this to a validation frame are left out
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    gap_secs: f64,
    /// How late you press: labels move back by this
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, conflicts_with = "measure_lag")]
    lag: f64,
    /// Measure how late you press before labelling, and offer to move labels back by that
    #[arg(long)]
    measure_lag: bool,
    /// Frames per second that are kept
    #[arg(long, value_name = "HZ", default_value_t = 10.0, value_parser = rate)]
    rate: f64,
    /// Pixels of a side of the images
    #[arg(long, value_name = "PIXELS", default_value_t = 128, value_parser = clap::value_parser!(u16).range(8..1025))]
    image_size: u16,
    /// Make train.pt and val.pt again from the journal in --output-dir, without a robot
    #[arg(long, conflicts_with = "measure_lag", requires = "output_dir")]
    rebuild: bool,
}

/// A rate that cameras have.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.1..=120.0).contains(&rate) => Ok(rate),
        _ => Err("a number from 0.1 to 120".into()),
    }
}

/// Why labelling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LabelEnd {
    /// There are enough frames, or the person said so.
    Enough,
    /// Ctrl-C.
    Interrupted,
}

impl Label {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        if self.rebuild {
            let folder = self.output_dir.clone().unwrap_or_default();
            return self.write(&folder, &self.options(None, self.lag), verbosity);
        }
        let bench = self.bench.resolve_cameras(verbosity)?;
        let Some(named) = bench.cameras.first() else {
            let help =
                "name one: --camera NAME of the robot server's, or --camera ADDRESS of a stream or a device";
            return Err(Failure::usage("which camera?", help.to_string()));
        };
        let size = usize::from(self.image_size);
        let clock = Arc::new(RealClock::new());
        let camera = named.address.open(&named.name, named.fit(size), clock.clone());
        let mut camera = camera.map_err(|error| server::wrong_camera(&error))?;
        first_frame(camera.as_mut(), FIRST_FRAME).map_err(|error| server::wrong_camera(&error))?;
        let folder = output_folder(self.output_dir.clone())?;
        listen_for_interrupts();
        let mut keys = Keys::listen()?;
        let lag_secs = if self.measure_lag { self.measured_lag(&mut keys, &*clock)? } else { self.lag };
        let options = self.options(Some(&bench), lag_secs);
        let header = JournalHeader { camera: named.name.clone(), height: size, width: size };
        let targets = self.targets(&bench);
        let session = Session::open(&folder, SessionSettings { header, targets, lag_secs })
            .map_err(|error| failed(&error))?;
        let mut labelling = Labelling {
            session,
            clock,
            started: Time::default(),
            period: Duration::from_secs_f64(1.0 / self.rate),
            last: None,
            bar: Bar { quiet: verbosity.quiet, shown: Instant::now(), rate_hz: 0.0 },
        };
        let ended = labelling.run(camera.as_mut(), &mut keys, &interrupted);
        drop(keys);
        if console::shows_status() && !verbosity.quiet {
            console::eprintln("");
        }
        match ended.map_err(|error| failed(&error))? {
            LabelEnd::Enough => self.write(&folder, &options, verbosity),
            LabelEnd::Interrupted => {
                console::eprintln(&format!(
                    "stopped; every label is in {}. Go on with the same command and --output-dir {}, or make the files \
                     from what is there with --rebuild",
                    folder.join(JOURNAL_FILE).display(),
                    folder.display()
                ));
                Err(Failure::Stopped)
            }
        }
    }

    fn targets(&self, bench: &Bench) -> [usize; 2] {
        let runner = bench.config.as_ref().map(|loaded| &loaded.config.runner);
        let config = runner.map_or(TARGETS, |runner| [runner.num_success_frames, runner.num_fail_frames]);
        let wanted = [self.success.unwrap_or(config[0]), self.fail.unwrap_or(config[1])];
        wanted.map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Flags before the config's words before RLinf's numbers.
    fn options(&self, bench: Option<&Bench>, lag_secs: f64) -> DatasetOptions {
        let usual = DatasetOptions::default();
        let runner = bench.and_then(|bench| bench.config.as_ref()).map(|loaded| &loaded.config.runner);
        let seed = runner.and_then(|runner| i64::try_from(runner.random_seed).ok());
        DatasetOptions {
            lag_secs,
            val_split: self.val_split.or(runner.map(|runner| runner.val_split)).unwrap_or(usual.val_split),
            fail_success_ratio: self
                .fail_success_ratio
                .or(runner.map(|runner| runner.fail_success_ratio))
                .unwrap_or(usual.fail_success_ratio),
            seed: self.seed.map(i64::from).or(seed).unwrap_or(usual.seed),
            block_secs: self.block_secs,
            gap_secs: self.gap_secs,
        }
    }

    /// Measures, says, and lets the person decide.
    fn measured_lag(&self, keys: &mut Keys, clock: &dyn Clock) -> Result<f64, Failure> {
        if !console::shows_status() {
            let help = "measure it in a terminal, or give it: --lag 0.3".to_string();
            return Err(Failure::usage("--measure-lag needs a terminal to show its signal in", help));
        }
        console::eprintln("Press c as soon as the bar is full, five times.");
        let seed = Seed::new(u64::from(self.seed.unwrap_or(42)));
        let reaction = reaction::measure(keys, clock, seed, &mut console::status, &interrupted);
        console::eprintln("");
        let Some(reaction) = reaction else {
            let help = "try again, or label without --measure-lag".to_string();
            return Err(Failure::runtime("too few presses to measure how late they are", help));
        };
        console::eprintln(&format!(
            "You press {:.2} s late (median of {}, half of them within {:.2} s). c: move labels back by that, space: \
             leave them as pressed",
            reaction.median_secs, reaction.count, reaction.spread_secs
        ));
        loop {
            let pressed = keys.pressed();
            if pressed.contains(&Key::Char('c')) {
                return Ok(reaction.median_secs);
            }
            if pressed.contains(&Key::Space) || keys.have_ended() {
                return Ok(0.0);
            }
            if interrupted() {
                return Err(Failure::Stopped);
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    fn write(&self, folder: &Path, options: &DatasetOptions, verbosity: Verbosity) -> Result<(), Failure> {
        let (train, val) = (folder.join("train.pt"), folder.join("val.pt"));
        let report = write_dataset(folder, (&train, &val), options).map_err(|error| failed(&error))?;
        for note in report.notes.iter().filter(|_| !verbosity.quiet) {
            console::eprintln(&format!("note: {note}"));
        }
        console::print(&page(&report, options, (&train, &val)))
    }
}

fn page(report: &DatasetReport, options: &DatasetOptions, (train, val): (&Path, &Path)) -> String {
    let row = |name: &str, [successes, failures]: [usize; 2], rest: &str| {
        format!("{name:<10} {successes:>6} success  {failures:>6} fail  {rest}\n")
    };
    let near = match report.near_validation {
        0 => String::new(),
        near => format!(
            "{near} training frames within {} s of a validation frame are left out\n",
            options.gap_secs
        ),
    };
    let lag = match options.lag_secs {
        0.0 => "labels are as pressed; --measure-lag measures how late that is\n".to_string(),
        lag => format!("labels are moved back by {lag:.2} s\n"),
    };
    row("labelled", report.labelled, "")
        + &row("train", report.train, &train.display().to_string())
        + &row("val", report.val, &val.display().to_string())
        + &near
        + &lag
}

fn output_folder(asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H:%M:%S").to_string();
    let folder = asked.unwrap_or_else(|| PathBuf::from(format!("logs/{time}-robot_label")));
    output::make_folder("--output-dir", &folder)?;
    Ok(folder)
}

fn failed(error: &LabellingError) -> Failure {
    let help = match error {
        LabellingError::InUse { .. } => "wait until it is done, or give another --output-dir",
        LabellingError::NoneOf { .. } => {
            "label some of both, each at least twice and some seconds apart; start again with the same --output-dir to \
             go on"
        }
        LabellingError::Line { .. } | LabellingError::Damaged { .. } => {
            "label in another --output-dir; the lines before are sound"
        }
        LabellingError::OtherQuestions { .. } => "label in another --output-dir",
        LabellingError::Setting { .. } => return Failure::usage(error, None),
        LabellingError::File { .. } | LabellingError::Size { .. } | LabellingError::Write(_) => {
            return Failure::runtime(error, None);
        }
    };
    Failure::runtime(error, help.to_string())
}

/// What a key does here.
fn label_key(key: Key) -> Option<LabelKey> {
    match key {
        Key::Char('c') => Some(LabelKey::Success),
        Key::Char('a') => Some(LabelKey::Fail),
        Key::Char('b') | Key::Space => Some(LabelKey::Off),
        Key::Char('u') | Key::Backspace => Some(LabelKey::Undo),
        _ => None,
    }
}

/// Labelling while it runs.
struct Labelling {
    session: Session,
    clock: Arc<dyn Clock>,
    started: Time,
    period: Duration,
    /// The newest frame that was kept: its number and time.
    last: Option<(u64, Time)>,
    bar: Bar,
}

impl Labelling {
    fn run(
        &mut self,
        camera: &mut dyn Camera,
        keys: &mut Keys,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<LabelEnd, LabellingError> {
        self.started = self.clock.now();
        let ended = loop {
            let now = self.clock.now();
            let pressed = keys.pressed();
            for key in pressed.iter().filter_map(|key| label_key(*key)) {
                self.session.key(key, self.seconds(now))?;
            }
            let is_over = pressed.iter().any(|key| matches!(key, Key::Char('q') | Key::Escape));
            if let Some(frame) = camera.newest() {
                self.keep(&frame)?;
                self.bar.show(&self.session, now.since(frame.time));
            }
            if is_stopped() {
                break LabelEnd::Interrupted;
            }
            // Nobody can press anything any more, and nothing is being labelled.
            let is_alone = keys.have_ended() && self.session.running().is_none();
            if is_over || is_alone || self.session.is_done() {
                break LabelEnd::Enough;
            }
            self.clock.sleep_until(now + LOOKS_EVERY);
        };
        let now = self.seconds(self.clock.now());
        self.session.key(LabelKey::Off, now)?;
        self.session.sync()?;
        Ok(ended)
    }

    fn seconds(&self, time: Time) -> f64 {
        time.since(self.started).as_secs_f64()
    }

    /// Keeps a frame that is new and not too soon after the last one.
    fn keep(&mut self, frame: &CameraFrame) -> Result<(), LabellingError> {
        let is_due = self.last.is_none_or(|(number, time)| {
            // A camera is not quite regular.
            frame.number != number && frame.time.since(time) >= self.period.mul_f64(0.75)
        });
        if !is_due || frame.time < self.started {
            return Ok(());
        }
        let since = self.last.map(|(_, time)| frame.time.since(time).as_secs_f64());
        self.bar.rate_hz = since.map_or(0.0, |since| 0.8 * self.bar.rate_hz + 0.2 / since.max(1e-3));
        self.last = Some((frame.number, frame.time));
        self.session.frame(self.seconds(frame.time), frame.image.image(0))
    }
}

/// The line that says how far labelling is.
struct Bar {
    quiet: bool,
    shown: Instant,
    rate_hz: f64,
}

impl Bar {
    fn show(&mut self, session: &Session, age: Duration) {
        let is_terminal = console::shows_status();
        let every = if is_terminal { BAR_EVERY } else { LINE_EVERY };
        if self.quiet || self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let text = bar(session, age, self.rate_hz);
        if is_terminal { console::status(&text) } else { console::eprintln(&text) }
    }
}

fn bar(session: &Session, age: Duration, rate_hz: f64) -> String {
    let ([successes, failures], targets) = (session.counts(), session.targets());
    let filled = |count: usize, target: usize| {
        let full = (BAR * count.min(target)).checked_div(target).unwrap_or(BAR);
        format!("{count}/{target} [{}{}]", "#".repeat(full), "-".repeat(BAR - full))
    };
    let label = session.running().map_or("off", |success| if success { "SUCCESS" } else { "FAIL" });
    format!(
        "success: {} fail: {}  label: {label}  frame {} ms old, {rate_hz:.0} Hz",
        filled(successes, targets[0]),
        filled(failures, targets[1]),
        age.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::{FrameShape, Frames};
    use plaudit_robot::{Pilot, PilotError, PilotInput, VirtualClock};

    /// A camera at twenty frames a second.
    struct Film {
        clock: Arc<VirtualClock>,
    }

    impl Camera for Film {
        fn name(&self) -> &'static str {
            "wrist_1"
        }

        fn shape(&self) -> FrameShape {
            FrameShape::rgb(2, 2)
        }

        fn newest(&mut self) -> Option<CameraFrame> {
            let number = self.clock.now().elapsed().as_millis() as u64 / 50;
            let image = Frames::new(self.shape(), vec![number as u8; 12]).unwrap();
            let time = Time::after_start(Duration::from_millis(50 * number));
            Some(CameraFrame { image: Arc::new(image), time, number })
        }
    }

    /// Keys at their times, in milliseconds.
    struct Script {
        clock: Arc<VirtualClock>,
        left: Vec<(u64, Key)>,
    }

    impl Pilot for Script {
        fn poll(&mut self) -> Result<PilotInput, PilotError> {
            let now = self.clock.now().elapsed().as_millis() as u64;
            let later = self.left.iter().position(|(at, _)| *at > now).unwrap_or(self.left.len());
            let pressed = self.left.drain(..later).map(|(_, key)| key).collect();
            Ok(PilotInput { pressed, ..PilotInput::default() })
        }
    }

    fn labelled(
        folder: &Path,
        keys: &[(u64, Key)],
        targets: [usize; 2],
        stops_after: Duration,
    ) -> (LabelEnd, [usize; 2]) {
        let clock = Arc::new(VirtualClock::new());
        let header = JournalHeader { camera: "wrist_1".into(), height: 2, width: 2 };
        let mut labelling = Labelling {
            session: Session::open(folder, SessionSettings { header, targets, lag_secs: 0.0 }).unwrap(),
            clock: clock.clone(),
            started: Time::default(),
            period: Duration::from_millis(100),
            last: None,
            bar: Bar { quiet: true, shown: Instant::now(), rate_hz: 0.0 },
        };
        let mut keys = Keys::of(Script { clock: clock.clone(), left: keys.to_vec() });
        let mut film = Film { clock: clock.clone() };
        let ended = labelling.run(&mut film, &mut keys, &|| clock.now().elapsed() >= stops_after).unwrap();
        (ended, labelling.session.counts())
    }

    #[test]
    fn a_script_of_keys_labels_ten_frames_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let keys = [
            (0, Key::Char('a')),
            (3000, Key::Char('c')),
            (4000, Key::Space),
            (5000, Key::Char('c')), // a slip
            (5500, Key::Char('u')),
            (6000, Key::Char('x')), // nothing
            (7000, Key::Char('q')),
        ];
        let (ended, counts) = labelled(folder.path(), &keys, [50, 150], Duration::MAX);
        assert_eq!((ended, counts), (LabelEnd::Enough, [10, 30]));
    }

    #[test]
    fn labelling_ends_when_there_is_enough_and_stops_when_it_should() {
        let folder = tempfile::tempdir().unwrap();
        let keys = [(0, Key::Char('c')), (1000, Key::Char('a'))];
        let (ended, counts) = labelled(folder.path(), &keys, [5, 8], Duration::from_secs(60));
        assert_eq!((ended, counts), (LabelEnd::Enough, [5, 8]));
        let folder = tempfile::tempdir().unwrap();
        let (ended, counts) = labelled(folder.path(), &keys, [50, 150], Duration::from_secs(3));
        assert_eq!((ended, counts), (LabelEnd::Interrupted, [10, 20]), "what was labelled is kept");
    }
}
