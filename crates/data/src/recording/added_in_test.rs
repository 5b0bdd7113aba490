//! A format that only tests have: `*.plain` files of raw bytes. This file and one line of `formats.rs` are all it takes, and
//! every consumer of recordings reads it: the test below says so.
//!
//! A file is steps of 28 bytes: an image of 3 by 3 pixels in RGB, and then a byte of success.

use plaudit_pyfiles::{Array, DType};

use super::Recording;
use super::formats::Format;
use super::item::Item;
use super::observation::Columns;
use super::probe::list;

const IMAGE: usize = 27;

pub(super) const FORMAT: Format = Format {
    name: "plain",
    describe: "plain bytes",
    is_at: |probe| probe.has_files("plain"),
    items: |path| {
        let item = |file: std::path::PathBuf| {
            Item::new(file.clone(), move |_| Ok(vec![read(&std::fs::read(&file)?)]))
        };
        Ok(list(path, "plain")?.into_iter().map(item).collect::<Vec<_>>().into())
    },
    ..Format::EPISODES
};

fn read(bytes: &[u8]) -> Recording {
    let steps: Vec<&[u8]> = bytes.chunks_exact(IMAGE + 1).collect();
    let image = |step: &&[u8]| Array::new(DType::U8, &[3, 3, 3], &step[..IMAGE]).unwrap();
    let labels: Vec<Option<bool>> = steps.iter().map(|step| Some(step[IMAGE] == 1)).collect();
    let count = |at: usize| steps[..=at].iter().filter(|step| step[IMAGE] == 1).count() as f64;
    let columns = Columns {
        cameras: vec![("main_images".into(), steps.iter().map(image).collect())],
        states: vec![vec![1.0, 2.0]; steps.len()],
        ..Columns::default()
    };
    Recording {
        observations: columns.rows(steps.len()),
        actions: vec![vec![0.5]; steps.len() - 1],
        rewards: (0..steps.len()).map(count).collect(),
        success: Some(labels.contains(&Some(true))),
        labels,
        ..Recording::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::convert::{ImageOptions, WindowOptions, convert_images, convert_windows};
    use crate::demonstrations;
    use crate::inspect::{InspectOptions, SheetOptions, contact_sheet, inspect, verify};
    use crate::labelled::{LabelledData, ReadOptions, SplitOptions};
    use crate::recording::{DatasetFormat, Recordings, Rules};

    /// Ten episodes of eight steps; the last three of each are solved.
    fn dataset(folder: &Path) {
        for number in 0..10u8 {
            let step = |at: u8| {
                let image = (0..IMAGE as u8).map(move |byte| byte * 3 + number * 8 + at);
                image.chain([u8::from(at > 4)])
            };
            std::fs::write(
                folder.join(format!("{number}.plain")),
                (0..8).flat_map(step).collect::<Vec<u8>>(),
            )
            .unwrap();
        }
    }

    #[test]
    fn a_format_is_one_file_and_one_line_and_everything_reads_it() {
        let (raw, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        dataset(raw.path());
        let found = Recordings::open(raw.path(), &Rules::default()).unwrap();
        assert_eq!((found.format, found.len(), found.format.name()), (DatasetFormat::Added, 10, "plain"));
        assert_eq!("plain".parse::<DatasetFormat>(), Ok(DatasetFormat::Added));

        let report = inspect(raw.path(), &InspectOptions::default(), &|_, _| {}).unwrap();
        assert_eq!((report.episodes, report.frames, report.success.once), (10, 80, 10), "{report}");
        assert!(contact_sheet(raw.path(), &report, &SheetOptions::default()).is_ok());
        assert_eq!(verify(raw.path(), &|_, _| {}).unwrap().whole, 10);

        let (train, val) = (out.path().join("train.pt"), out.path().join("val.pt"));
        let images = convert_images(raw.path(), &train, &val, &ImageOptions::default(), &|_| {}).unwrap();
        assert_eq!((images.train, images.val), ([24, 40], [6, 10]));

        let data = LabelledData::read(raw.path(), &ReadOptions::default(), &|_| {}).unwrap();
        assert_eq!(data.split(&SplitOptions::default()).unwrap().train.len(), 64);

        let options = WindowOptions { extra_views: Vec::new(), ..WindowOptions::default() };
        let windows = convert_windows(raw.path(), &out.path().join("windows"), &options, &|_| {}).unwrap();
        assert!(windows.train["positive"] > 0, "{:?}", windows.train);

        let demos = demonstrations::read(raw.path()).unwrap();
        assert_eq!((demos.len(), demos[0].len(), demos[0].cameras.len()), (10, 7, 1));
    }

    /// What a consumer asks of a format, it asks of its description: no other file has a case for one.
    #[test]
    fn no_consumer_has_a_case_for_a_format() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for folder in ["labelled", "convert", "convert/images", "convert/windows", "inspect", "."] {
            for entry in std::fs::read_dir(source.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|extension| extension != "rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                for (at, _) in code.match_indices("DatasetFormat::") {
                    let only_named =
                        code[..at].ends_with("format: ") || code[at..].starts_with("DatasetFormat::ALL");
                    assert!(only_named, "{} has a case for a format", path.display());
                }
            }
        }
    }
}
