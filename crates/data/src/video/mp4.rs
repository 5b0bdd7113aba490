//! The video track of an MP4 file: where each frame's bytes are, when it is shown, and where decoding can begin.
//!
//! Counts and sizes are checked against the bytes that are there before memory follows them.

use std::ops::Range;

use super::error::VideoError;

/// Frames in one file: eleven days at 60 a second.
const MOST_SAMPLES: u64 = 1 << 26;
/// Bytes of a visual sample entry before the boxes inside it.
const VISUAL_ENTRY: usize = 78;

/// Where one frame's bytes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: u64,
    pub(super) size: u32,
    /// When it is shown, in ticks.
    pub(super) shown: i64,
    /// Whether decoding can begin here.
    pub(super) is_key: bool,
}

/// The video track.
#[derive(Debug)]
pub(super) struct Track {
    /// The sample entry: `av01`, `avc1` and so on.
    pub(super) codec: [u8; 4],
    /// What the codec needs before the first frame: the content of `av1C` or `avcC`.
    pub(super) config: Range<usize>,
    /// Width and height, as the container has them.
    pub(super) size: [u32; 2],
    /// Matrix coefficients and whether the range is full, where the container says.
    pub(super) colour: Option<(u16, bool)>,
    pub(super) ticks_per_second: u32,
    /// In the order of decoding.
    pub(super) samples: Vec<Sample>,
    /// Samples in the order in which they are shown.
    pub(super) shown: Vec<u32>,
}

/// A box: its kind, where its content begins, and that content.
#[derive(Clone, Copy)]
struct Part<'a> {
    kind: [u8; 4],
    at: usize,
    body: &'a [u8],
}

type Result<T> = std::result::Result<T, VideoError>;

impl Track {
    /// Finds the first video track.
    pub(super) fn find(file: &[u8]) -> Result<Self> {
        let moov = top_level(file)?;
        for part in parts(file, moov)? {
            if part.kind == *b"trak"
                && let Some(track) = Self::read(file, part)?
            {
                return Ok(track);
            }
        }
        Err(VideoError::NoVideo)
    }

    /// A track, if it is a video.
    fn read(file: &[u8], trak: Part<'_>) -> Result<Option<Self>> {
        let media = need(file, trak, b"mdia")?;
        let handler = need(file, media, b"hdlr")?;
        if handler.body.get(8..12) != Some(b"vide") {
            return Ok(None);
        }
        let ticks_per_second = timescale(need(file, media, b"mdhd")?)?;
        let table = need(file, need(file, media, b"minf")?, b"stbl")?;
        let entry = SampleEntry::read(file, need(file, table, b"stsd")?)?;
        let skipped = match find(file, trak, b"edts")? {
            Some(edits) => find(file, edits, b"elst")?.map_or(Ok(0), media_start)?,
            None => 0,
        };
        let samples = samples(file, table, skipped)?;
        let mut shown: Vec<u32> = (0..samples.len() as u32).collect();
        shown.sort_by_key(|at| samples[*at as usize].shown);
        let SampleEntry { codec, config, size, colour } = entry;
        Ok(Some(Self { codec, config, size, colour, ticks_per_second, samples, shown }))
    }
}

/// The content of `moov`.
fn top_level(file: &[u8]) -> Result<Part<'_>> {
    let mut at = 0;
    while at < file.len() {
        let part = part_at(file, at..file.len())
            .map_err(|error| if at == 0 { VideoError::NoVideo } else { error })?;
        if part.kind == *b"moov" {
            return Ok(part);
        }
        at = part.at + part.body.len();
    }
    Err(VideoError::NoVideo)
}

/// The box that begins a range of the file.
fn part_at(file: &[u8], within: Range<usize>) -> Result<Part<'_>> {
    let start = within.start;
    let cut = |what: String, end: u64| VideoError::Cut { what, end, len: within.end as u64 };
    let room = &file[within.clone()];
    if room.len() < 8 {
        return Err(cut("a box".into(), start as u64 + 8));
    }
    let kind = [room[4], room[5], room[6], room[7]];
    let (head, size) = match u32_at(room, 0).unwrap_or(0) {
        0 => (8, room.len() as u64),
        1 => {
            let large = u64_at(room, 8).ok_or_else(|| cut(name(kind), start as u64 + 16))?;
            (16, large)
        }
        size => (8, u64::from(size)),
    };
    if size < head as u64 {
        return Err(malformed(Part { kind, at: start, body: &[] }, "a size", size));
    }
    if size > room.len() as u64 {
        return Err(cut(format!("`{}`", name(kind)), (start as u64).saturating_add(size)));
    }
    Ok(Part { kind, at: start + head, body: &room[head..size as usize] })
}

/// The boxes inside one.
fn parts<'a>(file: &'a [u8], of: Part<'_>) -> Result<Vec<Part<'a>>> {
    parts_in(file, of.at..of.at + of.body.len())
}

fn parts_in(file: &[u8], within: Range<usize>) -> Result<Vec<Part<'_>>> {
    let (mut all, mut at) = (Vec::new(), within.start);
    // Less than a box may be left over, as QuickTime's terminator is.
    while at + 8 <= within.end {
        let part = part_at(file, at..within.end)?;
        at = part.at + part.body.len();
        all.push(part);
    }
    Ok(all)
}

fn find<'a>(file: &'a [u8], of: Part<'_>, kind: &[u8; 4]) -> Result<Option<Part<'a>>> {
    Ok(parts(file, of)?.into_iter().find(|part| part.kind == *kind))
}

fn need<'a>(file: &'a [u8], of: Part<'_>, kind: &'static [u8; 4]) -> Result<Part<'a>> {
    find(file, of, kind)?
        .ok_or_else(|| malformed(of, "all parts of a track", format!("none called `{}`", name(*kind))))
}

fn name(kind: [u8; 4]) -> String {
    kind.escape_ascii().to_string()
}

fn malformed(part: Part<'_>, expected: &'static str, found: impl ToString) -> VideoError {
    VideoError::Malformed { part: name(part.kind), at: part.at as u64, expected, found: found.to_string() }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn timescale(mdhd: Part<'_>) -> Result<u32> {
    let at = if mdhd.body.first() == Some(&1) { 20 } else { 12 };
    let found = u32_at(mdhd.body, at);
    found.filter(|ticks| *ticks > 0).ok_or_else(|| malformed(mdhd, "ticks per second", "none"))
}

/// What is skipped at the beginning of the track's media, in ticks.
fn media_start(elst: Part<'_>) -> Result<i64> {
    let wide = elst.body.first() == Some(&1);
    let each = if wide { 20 } else { 12 };
    let entries = elst.body.get(8..).unwrap_or_default().chunks_exact(each);
    let start = |entry: &[u8]| match wide {
        true => u64_at(entry, 8).map_or(0, |time| time as i64),
        false => u32_at(entry, 4).map_or(0, |time| i64::from(time as i32)),
    };
    // An entry of -1 only delays what follows.
    Ok(entries.map(start).find(|time| *time >= 0).unwrap_or(0))
}

/// What `stsd` says of the video.
struct SampleEntry {
    codec: [u8; 4],
    config: Range<usize>,
    size: [u32; 2],
    colour: Option<(u16, bool)>,
}

impl SampleEntry {
    fn read(file: &[u8], stsd: Part<'_>) -> Result<Self> {
        let within = stsd.at + 8.min(stsd.body.len())..stsd.at + stsd.body.len();
        let entry = part_at(file, within)?;
        if entry.body.len() < VISUAL_ENTRY {
            return Err(malformed(
                entry,
                "the description of a video",
                format!("{} bytes", entry.body.len()),
            ));
        }
        let side = |at: usize| u16_at(entry.body, at).map_or(0, u32::from);
        let inside = parts_in(file, entry.at + VISUAL_ENTRY..entry.at + entry.body.len())?;
        let config = inside.iter().find(|part| [*b"av1C", *b"avcC"].contains(&part.kind));
        let colour = inside.iter().find(|part| part.kind == *b"colr").and_then(|part| {
            let is_full = || Some(part.body.get(10)? & 0x80 != 0);
            (part.body.get(..4)? == b"nclx").then(|| Some((u16_at(part.body, 8)?, is_full()?)))?
        });
        Ok(Self {
            codec: entry.kind,
            config: config.map_or(0..0, |part| part.at..part.at + part.body.len()),
            size: [side(24), side(26)],
            colour,
        })
    }
}

/// The entries of a table of 32-bit numbers after its head, `each` numbers an entry.
fn table(part: Part<'_>, head: usize, each: usize) -> Result<Vec<u32>> {
    let count =
        u32_at(part.body, head - 4).ok_or_else(|| malformed(part, "a table", "less than its head"))?;
    let bytes = (count as usize).checked_mul(4 * each);
    let entries = bytes.and_then(|bytes| part.body.get(head..head.checked_add(bytes)?));
    let entries =
        entries.ok_or_else(|| malformed(part, "as many entries as it counts", format!("{count} counted")))?;
    Ok(entries.chunks_exact(4).map(|number| u32_at(number, 0).unwrap_or(0)).collect())
}

fn samples(file: &[u8], stbl: Part<'_>, skipped: i64) -> Result<Vec<Sample>> {
    let sizes = sizes(need(file, stbl, b"stsz")?, file.len() as u64)?;
    let mut samples: Vec<Sample> =
        sizes.iter().map(|&size| Sample { at: 0, size, shown: 0, is_key: true }).collect();
    place(file, stbl, &mut samples)?;
    let durations = need(file, stbl, b"stts")?;
    let mut decoded_at = -i128::from(skipped);
    let mut left = samples.iter_mut();
    for run in table(durations, 8, 2)?.chunks_exact(2) {
        for sample in left.by_ref().take(run[0] as usize) {
            sample.shown =
                i64::try_from(decoded_at).map_err(|_| malformed(durations, "times", "one too late"))?;
            decoded_at += i128::from(run[1]);
        }
    }
    if left.next().is_some() {
        return Err(malformed(durations, "a time for every frame", "fewer"));
    }
    if let Some(offsets) = find(file, stbl, b"ctts")? {
        let mut left = samples.iter_mut();
        for run in table(offsets, 8, 2)?.chunks_exact(2) {
            let later = i64::from(run[1] as i32);
            left.by_ref()
                .take(run[0] as usize)
                .for_each(|sample| sample.shown = sample.shown.saturating_add(later));
        }
    }
    if let Some(keys) = find(file, stbl, b"stss")? {
        samples.iter_mut().for_each(|sample| sample.is_key = false);
        for number in table(keys, 8, 1)? {
            let sample = (number as usize).checked_sub(1).and_then(|at| samples.get_mut(at));
            sample.ok_or_else(|| malformed(keys, "numbers of frames", number))?.is_key = true;
        }
    }
    Ok(samples)
}

fn sizes(stsz: Part<'_>, len: u64) -> Result<Vec<u32>> {
    let each = u32_at(stsz.body, 4).ok_or_else(|| malformed(stsz, "sizes", "less than its head"))?;
    if each == 0 {
        return table(stsz, 12, 1);
    }
    let count = u32_at(stsz.body, 8).map_or(0, u64::from);
    if count.saturating_mul(u64::from(each)) > len || count > MOST_SAMPLES {
        return Err(malformed(stsz, "frames that fit into the file", format!("{count} of {each} bytes")));
    }
    Ok(vec![each; count as usize])
}

/// Where each sample is: chunk after chunk.
fn place(file: &[u8], stbl: Part<'_>, samples: &mut [Sample]) -> Result<()> {
    let chunks: Vec<u64> = match find(file, stbl, b"co64")? {
        Some(part) => {
            let halves = table(part, 8, 2)?;
            halves.chunks_exact(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[1])).collect()
        }
        None => table(need(file, stbl, b"stco")?, 8, 1)?.into_iter().map(u64::from).collect(),
    };
    let runs_part = need(file, stbl, b"stsc")?;
    let runs = table(runs_part, 8, 3)?;
    let mut runs = runs.chunks_exact(3).peekable();
    let (mut left, mut per_chunk) = (samples.iter_mut(), 0);
    for (at, &start) in chunks.iter().enumerate() {
        while let Some(run) = runs.next_if(|run| run[0] as usize <= at + 1) {
            per_chunk = run[1] as usize;
        }
        let mut next = start;
        for sample in left.by_ref().take(per_chunk) {
            sample.at = next;
            next = next.saturating_add(u64::from(sample.size));
        }
    }
    match left.next() {
        Some(_) => Err(malformed(runs_part, "a place for every frame", "fewer")),
        None => Ok(()),
    }
}
