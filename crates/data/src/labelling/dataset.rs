//! From a journal to `train.pt` and `val.pt`.

use std::path::Path;

use plaudit_pyfiles::{DType, PtWriter, PyValue};

use super::error::LabellingError;
use super::journal::{PixelReader, Recovered};
use super::marks::labels;
use super::session::check_lag;
use crate::convert::{Origins, PythonRandom, balance, cut_lone_blocks, split};
use crate::recording::SplitUnit;

/// Frames further apart than this were not taken in a row, seconds.
const IN_A_ROW_SECS: f64 = 0.5;

/// How a dataset is made.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetOptions {
    /// How late the person pressed, seconds.
    pub lag_secs: f64,
    /// The share of frames that validate.
    pub val_split: f64,
    /// Failures kept for each success in the training part; 0 keeps all.
    pub fail_success_ratio: f64,
    /// Seed of the split and of the choice.
    pub seed: i64,
    /// The longest block of time, seconds: a block is on one side.
    pub block_secs: f64,
    /// No training frame is nearer than this to a validation frame, seconds.
    pub gap_secs: f64,
}

impl Default for DatasetOptions {
    /// RLinf's share, ratio and seed.
    fn default() -> Self {
        Self {
            lag_secs: 0.0,
            val_split: 0.2,
            fail_success_ratio: 2.0,
            seed: 42,
            block_secs: 2.0,
            gap_secs: 0.5,
        }
    }
}

/// What was made: successes and failures each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetReport {
    /// Frames with a label.
    pub labelled: [usize; 2],
    /// Training images.
    pub train: [usize; 2],
    /// Validation images.
    pub val: [usize; 2],
    /// Training frames left out because they were too near to a validation frame.
    pub near_validation: usize,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// A frame with a label.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LabelledFrame {
    number: usize,
    time: f64,
    success: bool,
    block: usize,
}

/// The frames of both parts.
struct ChosenFrames {
    blocks: Vec<bool>,
    train: Vec<LabelledFrame>,
    val: Vec<LabelledFrame>,
    near_validation: usize,
}

/// Makes `train` and `val` out of the journal in a folder. They appear whole or not at all.
///
/// # Errors
/// When the journal cannot be read or is damaged, a class has nothing to train on, a setting makes no sense, or the
/// system refuses.
pub fn write_dataset(
    folder: &Path,
    (train, val): (&Path, &Path),
    options: &DatasetOptions,
) -> Result<DatasetReport, LabellingError> {
    check(options)?;
    let journal = Recovered::read(folder)?;
    let times: Vec<f64> = journal.frames.iter().map(|frame| frame.time).collect();
    let labels = labels(&times, &journal.marks, options.lag_secs);
    let with_label = labels.iter().enumerate().filter_map(|(number, label)| {
        label.map(|success| LabelledFrame { number, time: times[number], success, block: 0 })
    });
    let frames: Vec<LabelledFrame> = with_label.collect();
    let labelled = classes(&frames);
    let chosen = choose(frames, options);
    let report = report(&chosen, labelled);
    for (class, (of_class, labelled)) in
        [("success", (report.train[0], labelled[0])), ("failure", (report.train[1], labelled[1]))]
    {
        if of_class == 0 {
            return Err(LabellingError::NoneOf { class, labelled });
        }
    }
    let metadata = |part: &str| metadata(part, &journal, &report, options);
    let mut reader = PixelReader::open(folder, &journal.header)?;
    let mut fill = |path: &Path, part: &str, frames: &[LabelledFrame]| -> Result<_, LabellingError> {
        let mut writer = PtWriter::create(path)?;
        let shape = [journal.header.height, journal.header.width, 3];
        let (mut storage, mut images) = (writer.storage(DType::U8)?, Vec::with_capacity(frames.len()));
        for frame in frames {
            let pixels = reader.read(frame.number, &journal.frames[frame.number])?;
            images.push(storage.push(&shape, &pixels)?);
        }
        let value = PyValue::dict([
            ("images", PyValue::list(images)),
            ("labels", PyValue::list(frames.iter().map(|frame| PyValue::Int(frame.success.into())))),
            ("metadata", metadata(part)),
            origins(&chosen.blocks, frames).entry(),
        ]);
        Ok((writer, value))
    };
    let written = [fill(train, "train", &chosen.train)?, fill(val, "val", &chosen.val)?];
    for (writer, value) in written {
        writer.finish(&value)?;
    }
    Ok(report)
}

fn check(options: &DatasetOptions) -> Result<(), LabellingError> {
    check_lag(options.lag_secs)?;
    let wrong = |name, value, expected| Err(LabellingError::Setting { name, value, expected });
    let DatasetOptions { val_split, fail_success_ratio, block_secs, gap_secs, .. } = *options;
    if !(val_split > 0.0 && val_split < 1.0) {
        return wrong("the validation share", val_split, "between 0 and 1");
    }
    if !(fail_success_ratio.is_finite() && fail_success_ratio >= 0.0) {
        return wrong("the ratio of failures to successes", fail_success_ratio, "0 or more");
    }
    if !(block_secs.is_finite() && block_secs > 0.0) {
        return wrong("the length of blocks", block_secs, "more than 0 seconds");
    }
    if !(gap_secs.is_finite() && gap_secs >= 0.0) {
        return wrong("the gap between the parts", gap_secs, "0 seconds or more");
    }
    Ok(())
}

/// Cuts time into blocks, gives each to a part, and keeps the parts away from each other.
fn choose(frames: Vec<LabelledFrame>, options: &DatasetOptions) -> ChosenFrames {
    let mut blocks = blocks(frames, options.block_secs);
    cut_lone_blocks(&mut blocks, options.val_split, |frame| frame.success);
    for (number, block) in blocks.iter_mut().enumerate() {
        block.iter_mut().for_each(|frame| frame.block = number);
    }
    let of_block = |block: &Vec<LabelledFrame>| block.first().is_some_and(|frame| frame.success);
    let mut random = PythonRandom::new(options.seed);
    let split = split(SplitUnit::Run, &blocks, |frame| frame.success, options.val_split, &mut random);
    let frames_of = |numbers: &[usize]| -> Vec<LabelledFrame> {
        numbers.iter().flat_map(|number| blocks[*number].iter().copied()).collect()
    };
    let (mut train, mut val) = (frames_of(&split.train), frames_of(&split.val));
    val.sort_by(|a, b| a.time.total_cmp(&b.time));
    let before = train.len();
    train.retain(|frame| !is_near(&val, frame.time, options.gap_secs));
    let near_validation = before - train.len();
    let ratio = Some(options.fail_success_ratio).filter(|ratio| *ratio > 0.0);
    let train = balance(train, ratio, |frame| frame.success, &mut random);
    ChosenFrames { blocks: blocks.iter().map(of_block).collect(), train, val, near_validation }
}

/// Frames in a row with one label, no longer than `longest` seconds.
fn blocks(frames: Vec<LabelledFrame>, longest: f64) -> Vec<Vec<LabelledFrame>> {
    let mut blocks: Vec<Vec<LabelledFrame>> = Vec::new();
    for frame in frames {
        let goes_on = |block: &&mut Vec<LabelledFrame>| {
            let (Some(first), Some(last)) = (block.first(), block.last()) else { return false };
            last.success == frame.success
                && frame.time - last.time <= IN_A_ROW_SECS
                && frame.time - first.time < longest
        };
        match blocks.last_mut().filter(goes_on) {
            Some(block) => block.push(frame),
            None => blocks.push(vec![frame]),
        }
    }
    blocks
}

/// Whether one of some frames, in order of time, is nearer than `gap`.
fn is_near(sorted: &[LabelledFrame], time: f64, gap: f64) -> bool {
    let after = sorted.partition_point(|frame| frame.time < time);
    let is_near = |at: usize| sorted.get(at).is_some_and(|frame| (frame.time - time).abs() < gap);
    is_near(after) || after > 0 && is_near(after - 1)
}

fn classes(frames: &[LabelledFrame]) -> [usize; 2] {
    let successes = frames.iter().filter(|frame| frame.success).count();
    [successes, frames.len() - successes]
}

fn report(chosen: &ChosenFrames, labelled: [usize; 2]) -> DatasetReport {
    let (train, val) = (classes(&chosen.train), classes(&chosen.val));
    let mut notes = Vec::new();
    for (class, count) in [("success", val[0]), ("failure", val[1])] {
        if count == 0 {
            notes.push(format!(
                "no validation image is a {class}: label it at least twice, some seconds apart"
            ));
        }
    }
    DatasetReport { labelled, train, val, near_validation: chosen.near_validation, notes }
}

/// RLinf's keys first, then ours.
fn metadata(part: &str, journal: &Recovered, report: &DatasetReport, options: &DatasetOptions) -> PyValue {
    let count = |number: usize| PyValue::Int(number as i64);
    let [successes, failures] = report.labelled;
    PyValue::dict([
        ("num_success_frames", count(successes)),
        ("num_fail_frames", count(failures)),
        ("total_frames", count(successes + failures)),
        ("val_split", PyValue::Float(options.val_split)),
        ("fail_success_ratio", PyValue::Float(options.fail_success_ratio)),
        ("random_seed", PyValue::Int(options.seed)),
        ("num_train_samples", count(report.train.iter().sum())),
        ("num_val_samples", count(report.val.iter().sum())),
        ("source", PyValue::from("labelled live")),
        ("part", PyValue::from(part)),
        ("camera", PyValue::from(journal.header.camera.as_str())),
        ("reaction_lag_secs", PyValue::Float(options.lag_secs)),
        ("block_secs", PyValue::Float(options.block_secs)),
        ("gap_secs", PyValue::Float(options.gap_secs)),
        ("num_left_out_near_validation", count(report.near_validation)),
    ])
}

/// Blocks are what episodes are elsewhere.
fn origins(blocks: &[bool], frames: &[LabelledFrame]) -> Origins {
    let name = |(number, success): (usize, &bool)| {
        format!("block_{number:04}_{}", if *success { "success" } else { "fail" })
    };
    Origins {
        episodes: blocks.iter().enumerate().map(name).collect(),
        of: frames.iter().map(|frame| (frame.block, frame.number)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labelling::{JournalHeader, LabelKey, Session, SessionSettings};
    use crate::recording::{DatasetFormat, Recordings, Rules};
    use proptest::prelude::*;

    /// Labels by a script: for each run its label, or none, and how long it lasts; ten frames a second. The pixels of a
    /// frame have its number.
    fn label(folder: &Path, script: &[(Option<bool>, f64)]) {
        let header = JournalHeader { camera: "wrist_1".into(), height: 1, width: 1 };
        let settings = SessionSettings { header, targets: [10_000; 2], lag_secs: 0.0 };
        let mut session = Session::open(folder, settings).unwrap();
        let (mut tick, mut until) = (0u32, 0.0);
        for (label, lasts) in script {
            session.hold(*label, until).unwrap();
            until += lasts;
            while f64::from(tick) / 10.0 < until - 1e-9 {
                let [_, high, mid, low] = tick.to_be_bytes();
                session.frame(f64::from(tick) / 10.0, &[high, mid, low]).unwrap();
                tick += 1;
            }
        }
        session.key(LabelKey::Off, until).unwrap();
    }

    /// The numbers and labels of the images in a file.
    fn images(path: &Path) -> Vec<(u32, bool)> {
        let value = plaudit_pyfiles::read(path).unwrap();
        let images = value.get("images").and_then(|images| images.as_items()).unwrap();
        let labels = value.get("labels").and_then(|labels| labels.as_items()).unwrap();
        let number = |image: &PyValue| {
            let array = image.as_array().unwrap();
            assert_eq!(array.shape(), [1, 1, 3]);
            u32::from_be_bytes([0, array.bytes()[0], array.bytes()[1], array.bytes()[2]])
        };
        images.iter().map(number).zip(labels.iter().map(|label| label.to_i64() == Some(1))).collect()
    }

    /// Frames by number, and whether each is a success.
    type Numbered = Vec<(u32, bool)>;

    fn made(folder: &Path, options: &DatasetOptions) -> (DatasetReport, Numbered, Numbered) {
        let (train, val) = (folder.join("train.pt"), folder.join("val.pt"));
        let report = write_dataset(folder, (&train, &val), options).unwrap();
        (report, images(&train), images(&val))
    }

    #[test]
    fn images_have_the_labels_that_were_pressed() {
        let folder = tempfile::tempdir().unwrap();
        label(
            folder.path(),
            &[(None, 2.0), (Some(false), 15.0), (Some(true), 5.0), (None, 1.0), (Some(false), 5.0)],
        );
        let options = DatasetOptions { fail_success_ratio: 0.0, ..DatasetOptions::default() };
        let (report, train, val) = made(folder.path(), &options);
        assert_eq!(report.labelled, [50, 200]);
        assert!(report.notes.is_empty() && report.near_validation > 0, "{report:?}");
        for (number, success) in train.iter().chain(&val) {
            assert_eq!(*success, (170..220).contains(number), "frame {number}");
        }
        assert_eq!(train.len() + val.len() + report.near_validation, 250);
        let balanced = made(folder.path(), &DatasetOptions::default()).0;
        assert_eq!(balanced.train[1], 2 * balanced.train[0]);
        assert_eq!(balanced.val, report.val, "validation keeps its failures");

        // Three tenths of a second earlier.
        let (lagged, train, val) = made(folder.path(), &DatasetOptions { lag_secs: 0.3, ..options.clone() });
        assert_eq!(lagged.labelled, [50, 200]);
        for (number, success) in train.iter().chain(&val) {
            assert_eq!(*success, (167..217).contains(number), "frame {number}");
        }
        // The files are what every other command reads.
        let opened = Recordings::open(&folder.path().join("train.pt"), &Rules::default()).unwrap();
        assert_eq!(opened.format, DatasetFormat::Images);
    }

    #[test]
    fn what_cannot_be_trained_on_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        label(folder.path(), &[(Some(false), 5.0)]);
        let (train, val) = (folder.path().join("train.pt"), folder.path().join("val.pt"));
        let make = |options: &DatasetOptions| write_dataset(folder.path(), (&train, &val), options);
        let error = make(&DatasetOptions::default()).unwrap_err().to_string();
        assert_eq!(error, "no success is labelled that could be trained on (0 are labelled)");
        assert!(!train.exists() && !val.exists());
        for wrong in [
            DatasetOptions { val_split: 1.0, ..DatasetOptions::default() },
            DatasetOptions { fail_success_ratio: f64::NAN, ..DatasetOptions::default() },
            DatasetOptions { block_secs: 0.0, ..DatasetOptions::default() },
            DatasetOptions { gap_secs: -1.0, ..DatasetOptions::default() },
            DatasetOptions { lag_secs: -0.1, ..DatasetOptions::default() },
        ] {
            assert!(matches!(make(&wrong), Err(LabellingError::Setting { .. })), "{wrong:?}");
        }
    }

    proptest! {
        /// Neighbours never stand on both sides, whatever was pressed.
        #[test]
        fn parts_keep_their_distance(
            runs in prop::collection::vec((prop::option::of(any::<bool>()), 0.1f64..8.0), 1..12), seed: i64,
            val_split in 0.05f64..0.6, gap_secs in 0.0f64..1.5,
        ) {
            let mut times = Vec::new();
            let mut until = 0.0;
            for (label, lasts) in &runs {
                let from = until;
                until += lasts;
                let ticks = (0..).map(|tick| from + f64::from(tick) / 10.0).take_while(|time| *time < until);
                times.extend(ticks.filter_map(|time| label.map(|success| (time, success))));
            }
            let numbered = times.iter().enumerate();
            let frames: Vec<LabelledFrame> =
                numbered.map(|(number, (time, success))| LabelledFrame { number, time: *time, success: *success, block: 0 }).collect();
            let count = frames.len();
            let options = DatasetOptions { val_split, gap_secs, seed, fail_success_ratio: 0.0, ..DatasetOptions::default() };
            let chosen = choose(frames, &options);
            for train in &chosen.train {
                for val in &chosen.val {
                    prop_assert!((train.time - val.time).abs() >= gap_secs, "{train:?} {val:?}");
                    prop_assert!(train.block != val.block);
                }
            }
            prop_assert_eq!(chosen.train.len() + chosen.val.len() + chosen.near_validation, count);
            let mut numbers: Vec<usize> = chosen.train.iter().chain(&chosen.val).map(|frame| frame.number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len() + chosen.near_validation, count, "no frame twice");
        }
    }
}
