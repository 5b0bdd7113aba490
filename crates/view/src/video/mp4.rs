//! MP4 files with one H.264 track (ISO/IEC 14496-12 and -15).

use std::io::{self, Seek, SeekFrom, Write};

use super::encode::Encode;
use super::h264::H264;
use plaudit_draw::Canvas;
use plaudit_pyfiles::AtomicFile;

/// The time scale: ticks per second.
const TICKS_PER_SEC: u32 = 90_000;
/// No rotation, no scale.
const UNTURNED: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Writes an MP4 file: images first, as they come, and the table of them last.
pub(super) struct Mp4 {
    file: AtomicFile,
    encoder: Option<H264>,
    samples: Vec<Sample>,
    /// Shown so far, in seconds.
    secs: f64,
}

/// One image of the table.
struct Sample {
    bytes: u32,
    ticks: u32,
    key: bool,
}

impl Mp4 {
    pub(super) fn new(file: AtomicFile) -> Self {
        Self { file, encoder: None, samples: Vec::new(), secs: 0.0 }
    }

    /// The head of the file, up to the images. Their size is written at the end.
    fn head(&mut self) -> io::Result<()> {
        self.file.write_all(&file_type())?;
        self.file.write_all(&images_head(0))
    }
}

impl Encode for Mp4 {
    fn image(&mut self, image: &Canvas, secs: f64) -> io::Result<()> {
        if self.encoder.is_none() {
            self.head()?;
        }
        let encoder = self.encoder.get_or_insert_with(|| H264::new(image.size()));
        let encoded = encoder.encode(image);
        let length = encoded.unit.len() as u32;
        self.file.write_all(&length.to_be_bytes())?;
        self.file.write_all(&encoded.unit)?;
        let ticks = |secs: f64| (secs * f64::from(TICKS_PER_SEC)).round() as u64;
        let shown = ticks(self.secs + secs) - ticks(self.secs);
        self.secs += secs;
        self.samples.push(Sample { bytes: length + 4, ticks: shown as u32, key: encoded.key });
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<AtomicFile> {
        let encoder = self.encoder.take().unwrap_or_else(|| H264::new((1, 1)));
        self.file.write_all(&movie(&encoder, &self.samples))?;
        let size = self.samples.iter().map(|sample| u64::from(sample.bytes)).sum();
        self.file.seek(SeekFrom::Start(file_type().len() as u64))?;
        self.file.write_all(&images_head(size))?;
        Ok(self.file)
    }
}

/// A box: its length, its name, its contents.
fn boxed(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(name);
    parts.iter().for_each(|part| bytes.extend(*part));
    bytes
}

/// Numbers of 32 bits.
fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn file_type() -> Vec<u8> {
    boxed(b"ftyp", &[b"isom", &words([512]), b"isomiso2avc1mp41"])
}

/// The head of the box of images, with a length of 64 bits.
fn images_head(size: u64) -> Vec<u8> {
    let mut head = words([1]);
    head.extend(b"mdat");
    head.extend((size + 16).to_be_bytes());
    head
}

/// The box that describes all images.
fn movie(encoder: &H264, samples: &[Sample]) -> Vec<u8> {
    let ticks: u64 = samples.iter().map(|sample| u64::from(sample.ticks)).sum();
    let ticks = ticks.min(u64::from(u32::MAX)) as u32;
    let mut head = words([0, 0, 0, TICKS_PER_SEC, ticks, 0x1_0000, 0x0100_0000, 0, 0]);
    head.extend(words(UNTURNED));
    head.extend(words([0, 0, 0, 0, 0, 0, 2]));
    boxed(b"moov", &[&boxed(b"mvhd", &[&head]), &track(encoder, samples, ticks)])
}

fn track(encoder: &H264, samples: &[Sample], ticks: u32) -> Vec<u8> {
    let (width, height) = encoder.shown();
    let mut head = words([3, 0, 0, 1, 0, ticks, 0, 0, 0, 0]);
    head.extend(words(UNTURNED));
    head.extend(words([(width as u32) << 16, (height as u32) << 16]));
    let media_head = words([0, 0, 0, TICKS_PER_SEC, ticks, 0x55c4_0000]); // no language
    let handler = [&words([0, 0])[..], b"vide", &words([0, 0, 0]), b"video\0"].concat();
    let url = boxed(b"url ", &[&words([1])]);
    let here = boxed(b"dinf", &[&boxed(b"dref", &[&words([0, 1]), &url])]);
    let video = boxed(b"vmhd", &[&words([1, 0, 0])]);
    let information = boxed(b"minf", &[&video, &here, &table(encoder, samples)]);
    let media =
        boxed(b"mdia", &[&boxed(b"mdhd", &[&media_head]), &boxed(b"hdlr", &[&handler]), &information]);
    boxed(b"trak", &[&boxed(b"tkhd", &[&head]), &media])
}

/// Where the images are, how long each is shown, and which stand alone.
fn table(encoder: &H264, samples: &[Sample]) -> Vec<u8> {
    let count = samples.len() as u32;
    let times = samples.chunk_by(|a, b| a.ticks == b.ticks).map(|run| [run.len() as u32, run[0].ticks]);
    let times: Vec<u32> = times.flatten().collect();
    let keys: Vec<u32> = (1..).zip(samples).filter(|(_, sample)| sample.key).map(|(n, _)| n).collect();
    let first = (file_type().len() + images_head(0).len()) as u32;
    boxed(
        b"stbl",
        &[
            &boxed(b"stsd", &[&words([0, 1]), &description(encoder)]),
            &boxed(b"stts", &[&words([0, times.len() as u32 / 2]), &words(times)]),
            &boxed(b"stss", &[&words([0, keys.len() as u32]), &words(keys)]),
            &boxed(b"stsc", &[&words([0, 1, 1, count, 1])]),
            &boxed(b"stsz", &[&words([0, 0, count]), &words(samples.iter().map(|sample| sample.bytes))]),
            &boxed(b"stco", &[&words([0, 1, first])]),
        ],
    )
}

/// What a decoder has to know before the first image.
fn description(encoder: &H264) -> Vec<u8> {
    let (width, height) = encoder.shown();
    let (sequence, image) = (encoder.sequence_parameters(), encoder.picture_parameters());
    let mut sets = vec![1, sequence[1], sequence[2], sequence[3], 0xff, 0xe1]; // lengths of 4 bytes, 1 set
    sets.extend((sequence.len() as u16).to_be_bytes());
    sets.extend(&sequence);
    sets.push(1);
    sets.extend((image.len() as u16).to_be_bytes());
    sets.extend(&image);
    let mut head = words([0, 1, 0, 0, 0, 0]); // the first and only source of data
    head.extend(words([(width as u32) << 16 | height as u32, 0x48_0000, 0x48_0000, 0]));
    head.extend([0, 1]); // one image per sample
    head.extend([0; 32]); // no name
    head.extend([0, 24, 0xff, 0xff]); // colours, no palette
    boxed(b"avc1", &[&head, &boxed(b"avcC", &[&sets])])
}
