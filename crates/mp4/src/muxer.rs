//! MP4 files with one H.264 track (ISO/IEC 14496-12 and -15).

use std::io::{self, Seek, SeekFrom, Write};

/// The time scale: ticks per second.
pub const TICKS_PER_SEC: u32 = 90_000;
/// No rotation, no scale.
const UNTURNED: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Writes an MP4 file: samples first, as they come, and the table of them last.
#[derive(Debug)]
pub struct Muxer<W> {
    out: W,
    samples: Vec<Listed>,
    bytes: u64,
}

/// One sample of the table.
#[derive(Debug)]
struct Listed {
    bytes: u32,
    ticks: u32,
    is_key: bool,
}

impl<W: Write + Seek> Muxer<W> {
    /// Begins a file where `out` stands, which has to be its start.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&file_type())?;
        out.write_all(&samples_head(0))?; // how many bytes there are is known at the end
        Ok(Self { out, samples: Vec::new(), bytes: 0 })
    }

    /// Adds a sample that is shown for so many ticks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn push(&mut self, bytes: &[u8], ticks: u32, is_key: bool) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| io::Error::other("a frame of 4 GiB or more"))?;
        self.out.write_all(bytes)?;
        self.samples.push(Listed { bytes: length, ticks, is_key });
        self.bytes += u64::from(length);
        Ok(())
    }

    /// Bytes of all samples so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Completes the file: samples of this size, which a decoder reads with this `avcC`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, size: (usize, usize), config: &[u8]) -> io::Result<W> {
        self.out.write_all(&movie(size, config, &self.samples))?;
        self.out.seek(SeekFrom::Start(file_type().len() as u64))?;
        self.out.write_all(&samples_head(self.bytes))?;
        self.out.seek(SeekFrom::End(0))?;
        Ok(self.out)
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

/// The head of the box of samples, with a length of 64 bits.
fn samples_head(bytes: u64) -> Vec<u8> {
    let mut head = words([1]);
    head.extend(b"mdat");
    head.extend((bytes + 16).to_be_bytes());
    head
}

/// The box that describes all samples. Durations have 64 bits: half a day of ticks does not fit into 32.
fn movie(size: (usize, usize), config: &[u8], samples: &[Listed]) -> Vec<u8> {
    let ticks: u64 = samples.iter().map(|sample| u64::from(sample.ticks)).sum();
    let ticks = [(ticks >> 32) as u32, ticks as u32];
    let wide = 0x0100_0000; // version 1
    let mut head = words([wide, 0, 0, 0, 0, TICKS_PER_SEC, ticks[0], ticks[1], 0x1_0000, 0x0100_0000, 0, 0]);
    head.extend(words(UNTURNED));
    head.extend(words([0, 0, 0, 0, 0, 0, 2]));
    boxed(b"moov", &[&boxed(b"mvhd", &[&head]), &track(size, config, samples, ticks)])
}

fn track(size: (usize, usize), config: &[u8], samples: &[Listed], ticks: [u32; 2]) -> Vec<u8> {
    let wide = 0x0100_0000; // version 1
    let mut head = words([wide | 3, 0, 0, 0, 0, 1, 0, ticks[0], ticks[1], 0, 0, 0, 0]);
    head.extend(words(UNTURNED));
    head.extend(words([(size.0 as u32) << 16, (size.1 as u32) << 16]));
    let media_head = words([wide, 0, 0, 0, 0, TICKS_PER_SEC, ticks[0], ticks[1], 0x55c4_0000]); // no language
    let handler = [&words([0, 0])[..], b"vide", &words([0, 0, 0]), b"video\0"].concat();
    let url = boxed(b"url ", &[&words([1])]);
    let here = boxed(b"dinf", &[&boxed(b"dref", &[&words([0, 1]), &url])]);
    let video = boxed(b"vmhd", &[&words([1, 0, 0])]);
    let information = boxed(b"minf", &[&video, &here, &table(size, config, samples)]);
    let media =
        boxed(b"mdia", &[&boxed(b"mdhd", &[&media_head]), &boxed(b"hdlr", &[&handler]), &information]);
    boxed(b"trak", &[&boxed(b"tkhd", &[&head]), &media])
}

/// Where the samples are, how long each is shown, and which stand alone.
fn table(size: (usize, usize), config: &[u8], samples: &[Listed]) -> Vec<u8> {
    let count = samples.len() as u32;
    let times = samples.chunk_by(|a, b| a.ticks == b.ticks).map(|run| [run.len() as u32, run[0].ticks]);
    let times: Vec<u32> = times.flatten().collect();
    let keys: Vec<u32> = (1..).zip(samples).filter(|(_, sample)| sample.is_key).map(|(n, _)| n).collect();
    let first = (file_type().len() + samples_head(0).len()) as u32;
    boxed(
        b"stbl",
        &[
            &boxed(b"stsd", &[&words([0, 1]), &description(size, config)]),
            &boxed(b"stts", &[&words([0, times.len() as u32 / 2]), &words(times)]),
            &boxed(b"stss", &[&words([0, keys.len() as u32]), &words(keys)]),
            &boxed(b"stsc", &[&words([0, 1, 1, count, 1])]),
            &boxed(b"stsz", &[&words([0, 0, count]), &words(samples.iter().map(|sample| sample.bytes))]),
            &boxed(b"stco", &[&words([0, 1, first])]),
        ],
    )
}

/// What a decoder has to know before the first sample.
fn description((width, height): (usize, usize), config: &[u8]) -> Vec<u8> {
    let mut head = words([0, 1, 0, 0, 0, 0]); // the first and only source of data
    head.extend(words([(width as u32) << 16 | height as u32, 0x48_0000, 0x48_0000, 0]));
    head.extend([0, 1]); // one image per sample
    head.extend([0; 32]); // no name
    head.extend([0, 24, 0xff, 0xff]); // colours, no palette
    // Primaries as BT.709 and sRGB, transfer as sRGB, matrix of BT.601, narrow range.
    let colours = [&b"nclx"[..], &[0, 1, 0, 13, 0, 6, 0]].concat();
    boxed(b"avc1", &[&head, &boxed(b"avcC", &[config]), &boxed(b"colr", &[&colours])])
}
