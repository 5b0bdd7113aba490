//! Animated GIF.
//!
//! The first frames are kept until they fill [`LOOK_AHEAD`]; their colours make the palette of the whole video. A later
//! frame whose new colours that palette does not show well brings its own. Each frame after the first holds only the
//! pixels that changed.

use std::fs::File;
use std::io::{self, BufWriter};

use gif::{DisposalMethod, Encoder, EncodingError, Frame, Repeat};

use super::difference::Area;
use super::dither::Dither;
use super::encode::Encode;
use super::palette::Histogram;
use super::picture::{Picture, Rgb};

/// Bytes of pictures that may wait for the palette.
const LOOK_AHEAD: usize = 16 << 20;
/// Colours of a palette; one place is left for "as before".
const COLOURS: usize = 255;
/// Browsers slow down anything faster than this, in hundredths of a second.
const SHORTEST: u64 = 2;

/// Writes an animated GIF.
pub(super) struct Gif {
    stage: Stage,
    clock: Clock,
}

/// Before and after the palette is known.
enum Stage {
    Collecting { file: Option<BufWriter<File>>, waiting: Vec<(Picture, u16)>, colours: Histogram },
    Writing(Box<Writing>),
}

struct Writing {
    encoder: Encoder<BufWriter<File>>,
    palette: Vec<Rgb>,
    dither: Dither,
    /// The last frame as it was given, and as it is shown.
    before: Option<(Picture, Vec<Rgb>)>,
}

impl Gif {
    pub(super) fn new(file: BufWriter<File>) -> Self {
        let (waiting, colours) = (Vec::new(), Histogram::default());
        Self { stage: Stage::Collecting { file: Some(file), waiting, colours }, clock: Clock::default() }
    }

    /// Chooses the palette and writes what waited for it.
    fn start(&mut self) -> io::Result<&mut Writing> {
        if let Stage::Collecting { file, waiting, colours } = &mut self.stage {
            let file = file.take().ok_or_else(|| io::Error::other("an earlier write failed"))?;
            let waiting = std::mem::take(waiting);
            let size = waiting.first().map_or((1, 1), |(picture, _)| picture.size());
            let mut writing = Writing::new(file, size, colours.palette(COLOURS))?;
            for (picture, delay) in waiting {
                writing.frame(picture, delay)?;
            }
            self.stage = Stage::Writing(Box::new(writing));
        }
        match &mut self.stage {
            Stage::Writing(writing) => Ok(writing),
            Stage::Collecting { .. } => Err(io::Error::other("the palette was not chosen")),
        }
    }
}

impl Encode for Gif {
    fn picture(&mut self, picture: &Picture, secs: f64) -> io::Result<()> {
        let Some(delay) = self.clock.show(secs) else { return Ok(()) };
        if let Stage::Collecting { waiting, colours, .. } = &mut self.stage {
            count_new(colours, waiting.last().map(|(last, _)| last), picture);
            waiting.push((picture.clone(), delay));
            if waiting.len() * picture.pixels().len() < LOOK_AHEAD {
                return Ok(());
            }
            return self.start().map(|_| ());
        }
        self.start()?.frame(picture.clone(), delay)
    }

    fn finish(mut self: Box<Self>) -> io::Result<File> {
        self.start()?;
        match self.stage {
            Stage::Writing(writing) => {
                let file = writing.encoder.into_inner().map_err(plain)?;
                file.into_inner().map_err(io::IntoInnerError::into_error)
            }
            Stage::Collecting { .. } => Err(io::Error::other("the palette was not chosen")),
        }
    }
}

/// Counts the colours of all pixels that differ from the picture before.
fn count_new(colours: &mut Histogram, before: Option<&Picture>, picture: &Picture) {
    let new = picture.pixels().as_chunks::<3>().0;
    let old = before.map(|before| before.pixels().as_chunks::<3>().0);
    let (mut run, mut length) = (new[0], 0);
    for (at, colour) in new.iter().enumerate() {
        if old.is_some_and(|old| old[at] == *colour) {
            continue;
        }
        if *colour != run {
            if length > 0 {
                colours.count(run, length);
            }
            (run, length) = (*colour, 0);
        }
        length += 1;
    }
    if length > 0 {
        colours.count(run, length);
    }
}

impl Writing {
    fn new(file: BufWriter<File>, (width, height): (usize, usize), palette: Vec<Rgb>) -> io::Result<Self> {
        let mut encoder =
            Encoder::new(file, width as u16, height as u16, palette.as_flattened()).map_err(plain)?;
        encoder.set_repeat(Repeat::Infinite).map_err(plain)?;
        let dither = Dither::new(&palette);
        Ok(Self { encoder, palette, dither, before: None })
    }

    fn frame(&mut self, picture: Picture, delay: u16) -> io::Result<()> {
        let area = match &self.before {
            None => Area::whole(&picture),
            Some((before, _)) => Area::changed(before, &picture),
        };
        let mut shown = match self.before.take() {
            None => Shown { before: None, colours: vec![[0; 3]; picture.width() * picture.height()] },
            Some((before, colours)) => Shown { before: Some(before), colours },
        };
        let (pixels, misfits) = shown.indices(&picture, &area, &self.palette, &mut self.dither);
        let mut frame = Frame {
            delay,
            dispose: DisposalMethod::Keep,
            left: area.x.start as u16,
            top: area.y.start as u16,
            width: area.width() as u16,
            height: area.height() as u16,
            transparent: Some(self.palette.len() as u8),
            buffer: pixels.into(),
            ..Frame::default()
        };
        if misfits {
            let mut colours = Histogram::default();
            count_new(&mut colours, shown.before.as_ref(), &picture);
            let own = colours.palette(COLOURS);
            frame.buffer = shown.indices(&picture, &area, &own, &mut Dither::new(&own)).0.into();
            frame.transparent = Some(own.len() as u8);
            shown.apply(&frame.buffer, &area, picture.width(), &own);
            frame.palette = Some(own.into_flattened());
        } else {
            shown.apply(&frame.buffer, &area, picture.width(), &self.palette);
        }
        self.before = Some((picture, shown.colours));
        self.encoder.write_frame(&frame).map_err(plain)
    }
}

/// What a viewer sees before a frame.
struct Shown {
    before: Option<Picture>,
    colours: Vec<Rgb>,
}

impl Shown {
    /// Places in the palette for an area, "as before" where nothing changes; and whether the palette shows it badly.
    fn indices(
        &self,
        picture: &Picture,
        area: &Area,
        palette: &[Rgb],
        dither: &mut Dither,
    ) -> (Vec<u8>, bool) {
        let as_before = palette.len() as u8;
        let mut pixels = Vec::with_capacity(area.width() * area.height());
        let (mut changed, mut misfits) = (0, 0);
        for y in area.y.clone() {
            for x in area.x.clone() {
                let colour = picture.at(x, y);
                if self.before.as_ref().is_some_and(|before| before.at(x, y) == colour) {
                    pixels.push(as_before);
                    continue;
                }
                let mix = dither.mix(colour);
                changed += 1;
                misfits += usize::from(mix.misfit);
                let index = mix.at(x, y);
                let same = self.colours[y * picture.width() + x] == palette[usize::from(index)];
                pixels.push(if same && self.before.is_some() { as_before } else { index });
            }
        }
        (pixels, misfits * 100 > changed)
    }

    /// Shows a frame.
    fn apply(&mut self, pixels: &[u8], area: &Area, width: usize, palette: &[Rgb]) {
        for (y, row) in area.y.clone().zip(pixels.chunks_exact(area.width())) {
            for (x, index) in area.x.clone().zip(row) {
                if let Some(colour) = palette.get(usize::from(*index)) {
                    self.colours[y * width + x] = *colour;
                }
            }
        }
    }
}

/// The I/O error that an encoder met.
fn plain(error: EncodingError) -> io::Error {
    match error {
        EncodingError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Keeps time in hundredths of a second, without drift.
#[derive(Default)]
struct Clock {
    /// When the next frame is due, in seconds.
    due: f64,
    /// Up to when frames were written, in hundredths.
    written: u64,
}

impl Clock {
    /// How long to show a frame that lasts `secs`; not at all if the one before still has to be seen.
    fn show(&mut self, secs: f64) -> Option<u16> {
        self.due += secs;
        let end = (self.due * 100.0).round() as u64;
        if self.written > 0 && end < self.written + SHORTEST {
            return None;
        }
        let delay = end.saturating_sub(self.written).clamp(SHORTEST, u64::from(u16::MAX));
        self.written += delay;
        Some(delay as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long 12 frames are shown.
    fn delays(fps: f64) -> Vec<Option<u16>> {
        let mut clock = Clock::default();
        (0..12).map(|_| clock.show(1.0 / fps)).collect()
    }

    #[test]
    fn time_does_not_drift_and_is_never_too_short() {
        assert_eq!(delays(20.0), [Some(5); 12]);
        assert_eq!(delays(30.0).into_iter().flatten().sum::<u16>(), 40);
        let fast = delays(60.0);
        assert_eq!(fast.iter().flatten().sum::<u16>(), 20);
        assert!(fast.iter().flatten().all(|delay| *delay >= 2) && fast.contains(&None));
    }
}
