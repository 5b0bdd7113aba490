//! Animated PNG: exact, and after the first frame only the pixels that changed.

use std::io::{self, Seek, SeekFrom, Write};

use miniz_oxide::deflate::compress_to_vec_zlib;

use super::difference::Area;
use super::encode::Encode;
use plaudit_draw::Canvas;
use plaudit_pyfiles::AtomicFile;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Offset of the number of frames, after the signature and the header.
const COUNT_AT: u64 = 8 + 25;
/// A good trade of size for time.
const LEVEL: u8 = 6;
/// Bytes of a pixel: red, green, blue, and whether it changed.
const RGBA: usize = 4;

/// Writes an animated PNG.
pub(super) struct Apng {
    file: AtomicFile,
    before: Option<Canvas>,
    frames: u32,
    /// Frame headers and frame data are numbered together.
    sequence: u32,
    /// Shown so far, in seconds, and in the milliseconds written.
    shown_secs: f64,
    shown_ms: u64,
}

impl Apng {
    pub(super) fn new(file: AtomicFile) -> Self {
        Self { file, before: None, frames: 0, sequence: 0, shown_secs: 0.0, shown_ms: 0 }
    }

    fn head(&mut self, image: &Canvas) -> io::Result<()> {
        self.file.write_all(SIGNATURE)?;
        let mut header = Vec::with_capacity(13);
        header.extend((image.width() as u32).to_be_bytes());
        header.extend((image.height() as u32).to_be_bytes());
        header.extend([8, 6, 0, 0, 0]); // 8 bits of RGBA, not interlaced
        self.chunk(b"IHDR", &header)?;
        self.count()
    }

    /// How many frames there are; forever repeated.
    fn count(&mut self) -> io::Result<()> {
        let mut count = self.frames.to_be_bytes().to_vec();
        count.extend(0_u32.to_be_bytes());
        self.chunk(b"acTL", &count)
    }

    fn frame_head(&mut self, area: &Area, ms: u16) -> io::Result<()> {
        let mut head = self.number().to_vec();
        for value in [area.width(), area.height(), area.x.start, area.y.start] {
            head.extend((value as u32).to_be_bytes());
        }
        head.extend(ms.to_be_bytes());
        head.extend(1000_u16.to_be_bytes());
        head.extend([0, 1]); // stays, and lies over what was before
        self.chunk(b"fcTL", &head)
    }

    fn number(&mut self) -> [u8; 4] {
        self.sequence += 1;
        (self.sequence - 1).to_be_bytes()
    }

    fn chunk(&mut self, kind: &[u8; 4], data: &[u8]) -> io::Result<()> {
        let mut crc = crc32fast::Hasher::new();
        crc.update(kind);
        crc.update(data);
        self.file.write_all(&(data.len() as u32).to_be_bytes())?;
        self.file.write_all(kind)?;
        self.file.write_all(data)?;
        self.file.write_all(&crc.finalize().to_be_bytes())
    }

    /// How long to show a frame, without drift.
    fn milliseconds(&mut self, secs: f64) -> u16 {
        self.shown_secs += secs;
        let end = (self.shown_secs * 1000.0).round() as u64;
        let ms = end.saturating_sub(self.shown_ms).clamp(1, u64::from(u16::MAX));
        self.shown_ms += ms;
        ms as u16
    }
}

impl Encode for Apng {
    fn image(&mut self, image: &Canvas, secs: f64) -> io::Result<()> {
        let ms = self.milliseconds(secs);
        let Some(before) = self.before.replace(image.clone()) else {
            self.head(image)?;
            let area = Area::whole(image);
            self.frame_head(&area, ms)?;
            self.frames = 1;
            let rows = (0..image.height()).map(|y| opaque(image, y)).collect();
            return self.chunk(b"IDAT", &compress_to_vec_zlib(&filtered(rows), LEVEL));
        };
        let area = Area::changed(&before, image);
        self.frame_head(&area, ms)?;
        self.frames += 1;
        let mut data = self.number().to_vec();
        data.extend(compress_to_vec_zlib(&changes(&before, image, &area), LEVEL));
        self.chunk(b"fdAT", &data)
    }

    fn finish(mut self: Box<Self>) -> io::Result<AtomicFile> {
        self.chunk(b"IEND", &[])?;
        self.file.seek(SeekFrom::Start(COUNT_AT))?;
        self.count()?;
        Ok(self.file)
    }
}

/// The pixels that changed, and nothing (all zero) where none did; rows as they are, since zeros pack best.
fn changes(before: &Canvas, image: &Canvas, area: &Area) -> Vec<u8> {
    let mut data = Vec::with_capacity((area.width() * RGBA + 1) * area.height());
    for y in area.y.clone() {
        data.push(0);
        for x in area.x.clone() {
            let new = image.at(x, y);
            let [red, green, blue] = new;
            data.extend(if before.at(x, y) == new { [0; RGBA] } else { [red, green, blue, 255] });
        }
    }
    data
}

fn opaque(image: &Canvas, y: usize) -> Vec<u8> {
    image.row(y).as_chunks::<3>().0.iter().flat_map(|&[red, green, blue]| [red, green, blue, 255]).collect()
}

/// Rows as differences to the pixel on the left or above, whichever is smaller.
fn filtered(rows: Vec<Vec<u8>>) -> Vec<u8> {
    const LEFT: u8 = 1;
    const ABOVE: u8 = 2;
    let mut data = Vec::new();
    let mut above = vec![0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        let left = [0; RGBA].iter().chain(&row);
        let by_left: Vec<u8> = row.iter().zip(left).map(|(a, b)| a.wrapping_sub(*b)).collect();
        let by_above: Vec<u8> = row.iter().zip(&above).map(|(a, b)| a.wrapping_sub(*b)).collect();
        let cost = |row: &[u8]| row.iter().map(|b| u64::from((*b as i8).unsigned_abs())).sum::<u64>();
        let (kind, chosen) =
            if cost(&by_left) <= cost(&by_above) { (LEFT, by_left) } else { (ABOVE, by_above) };
        data.push(kind);
        data.extend(chosen);
        above = row;
    }
    data
}
