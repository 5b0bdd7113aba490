//! A thread per camera: it opens, reads and reopens, and nobody ever waits for it.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plaudit_core::{FrameShape, Frames};

use crate::{Camera, CameraError, CameraFrame, Clock, FrameFit, StopToken, Time};

/// How long a read waits before it looks whether the camera is still wanted.
pub(super) const READ_SLICE: Duration = Duration::from_millis(100);
/// A camera without a new frame for so long is opened again.
const STALLED_AFTER: Duration = Duration::from_secs(2);
/// How long it takes before a camera that broke is tried again.
const REOPEN_AFTER: Duration = Duration::from_millis(500);
/// How often the first frame is looked for.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// What one read of a stream brought.
pub(super) enum Delivery {
    /// A whole RGB image, and when it began to arrive.
    Image(Frames, Time),
    /// The image that came before, again: a frozen camera, which must grow old.
    Repeated,
    /// Something that is no image; the stream goes on.
    Broken(String),
    /// Nothing yet.
    Nothing,
}

/// Images, one after the other.
pub(super) trait FrameStream {
    /// The newest image that is there, after waiting for about [`READ_SLICE`]. An error ends the stream.
    fn read(&mut self) -> Result<Delivery, String>;
}

/// A camera that can be opened, again and again.
pub(super) trait FrameDevice: Send + 'static {
    /// Where it is, for messages.
    fn address(&self) -> String;

    /// Opens it, within seconds.
    fn open(&mut self) -> Result<Box<dyn FrameStream>, String>;
}

/// What a camera has gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CameraCounts {
    /// Frames that can be used.
    pub frames: u64,
    /// Frames that were no image, or one of another size.
    pub broken: u64,
    /// Frames that were sent again.
    pub repeated: u64,
    /// How often it was opened.
    pub opened: u64,
}

#[derive(Default)]
struct Shared {
    frame: Option<CameraFrame>,
    trouble: Option<CameraError>,
    counts: CameraCounts,
}

/// A camera with a thread of its own: [`MjpegCamera`](crate::MjpegCamera) or [`V4l2Camera`](crate::V4l2Camera).
pub struct LiveCamera<Device> {
    name: String,
    address: String,
    fit: FrameFit,
    shared: Arc<Mutex<Shared>>,
    ended: StopToken,
    thread: Option<JoinHandle<()>>,
    device: PhantomData<fn() -> Device>,
}

impl<Device> LiveCamera<Device> {
    pub(super) fn start(
        name: &str,
        device: Device,
        fit: FrameFit,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CameraError>
    where
        Device: FrameDevice,
    {
        fit.check().map_err(|why| CameraError::Broken { name: name.into(), why })?;
        let (address, shared) = (device.address(), Arc::<Mutex<Shared>>::default());
        let ended = StopToken::new();
        let reader = Reader {
            name: name.into(),
            device,
            fit,
            clock,
            shared: shared.clone(),
            ended: ended.clone(),
            size: None,
        };
        let thread = std::thread::Builder::new()
            .name(format!("camera-{name}"))
            .spawn(move || reader.run())
            .map_err(|error| CameraError::Unreachable {
            name: name.into(),
            address: address.clone(),
            why: format!("there is no thread for it: {error}"),
        })?;
        Ok(Self { name: name.into(), address, fit, shared, ended, thread: Some(thread), device: PhantomData })
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it has gone through.
    pub fn counts(&self) -> CameraCounts {
        lock(&self.shared).counts
    }
}

impl<Device> Camera for LiveCamera<Device> {
    fn name(&self) -> &str {
        &self.name
    }

    fn shape(&self) -> FrameShape {
        self.fit.shape()
    }

    fn newest(&mut self) -> Option<CameraFrame> {
        lock(&self.shared).frame.clone()
    }

    fn trouble(&self) -> Option<CameraError> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            let why = "its thread has ended by a fault of this program".into();
            return Some(CameraError::Broken { name: self.name.clone(), why });
        }
        lock(&self.shared).trouble.clone()
    }
}

impl<Device> Drop for LiveCamera<Device> {
    fn drop(&mut self) {
        self.ended.raise();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has no more to say.
            let _ = thread.join();
        }
    }
}

/// Waits for a camera's first frame, for at most `timeout` of the machine's time.
pub fn first_frame(camera: &mut dyn Camera, timeout: Duration) -> Result<CameraFrame, CameraError> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(frame) = camera.newest() {
            return Ok(frame);
        }
        if Instant::now() >= deadline {
            let why = format!("it sent no frame within {:.1} s", timeout.as_secs_f64());
            return Err(camera
                .trouble()
                .unwrap_or_else(|| CameraError::Broken { name: camera.name().into(), why }));
        }
        std::thread::sleep(LOOKS_EVERY);
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The side of the thread.
struct Reader<D> {
    name: String,
    device: D,
    fit: FrameFit,
    clock: Arc<dyn Clock>,
    shared: Arc<Mutex<Shared>>,
    ended: StopToken,
    /// Rows and columns of the first image.
    size: Option<(usize, usize)>,
}

impl<D: FrameDevice> Reader<D> {
    fn run(mut self) {
        while !self.ended.is_raised() {
            match self.device.open() {
                Ok(mut stream) => {
                    lock(&self.shared).counts.opened += 1;
                    if let Err(why) = self.read_all(stream.as_mut()) {
                        self.unreachable(why);
                    }
                }
                Err(why) => self.unreachable(why),
            }
            let again = Instant::now() + REOPEN_AFTER;
            while Instant::now() < again && !self.ended.is_raised() {
                std::thread::sleep(READ_SLICE.min(REOPEN_AFTER));
            }
        }
    }

    /// Reads until the stream ends, stalls or is not wanted any more.
    fn read_all(&mut self, stream: &mut dyn FrameStream) -> Result<(), String> {
        let mut last_new = Instant::now();
        let mut why = "nothing came";
        while !self.ended.is_raised() {
            match stream.read()? {
                Delivery::Image(image, time) => match self.checked(image) {
                    Ok(image) => {
                        self.show(image, time);
                        last_new = Instant::now();
                        why = "nothing came";
                    }
                    Err(wrong) => {
                        self.broken(wrong);
                        why = "its images have another size than before";
                    }
                },
                Delivery::Repeated => {
                    lock(&self.shared).counts.repeated += 1;
                    why = "it sends the same image again and again: it is frozen";
                }
                Delivery::Broken(wrong) => {
                    self.broken(wrong);
                    why = "what came was broken";
                }
                Delivery::Nothing => {}
            }
            if last_new.elapsed() > STALLED_AFTER {
                return Err(format!("no new frame for {:.0} s: {why}", STALLED_AFTER.as_secs_f64()));
            }
        }
        Ok(())
    }

    /// A camera that changes its resolution shows something else: cropping and scaling would hide it.
    fn checked(&mut self, image: Frames) -> Result<Frames, String> {
        let FrameShape { height, width, .. } = image.shape;
        let (rows, columns) = *self.size.get_or_insert((height, width));
        if (rows, columns) == (height, width) {
            Ok(self.fit.apply(image))
        } else {
            Err(format!("an image of {width}x{height} after images of {columns}x{rows}"))
        }
    }

    fn show(&self, image: Frames, time: Time) {
        let mut shared = lock(&self.shared);
        shared.counts.frames += 1;
        // Frames are numbered from 1; a time is never after now.
        let frame = CameraFrame {
            image: Arc::new(image),
            time: time.min(self.clock.now()),
            number: shared.counts.frames,
        };
        (shared.frame, shared.trouble) = (Some(frame), None);
    }

    fn broken(&self, why: String) {
        let mut shared = lock(&self.shared);
        shared.counts.broken += 1;
        shared.trouble = Some(CameraError::Broken { name: self.name.clone(), why });
    }

    fn unreachable(&self, why: String) {
        let (name, address) = (self.name.clone(), self.device.address());
        lock(&self.shared).trouble = Some(CameraError::Unreachable { name, address, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealClock;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

    type Script = Vec<Result<Delivery, String>>;

    /// A device whose streams are written down in a test; each opening takes the next.
    struct Written {
        streams: Receiver<Result<Script, String>>,
    }

    struct WrittenStream(std::vec::IntoIter<Result<Delivery, String>>);

    impl FrameDevice for Written {
        fn address(&self) -> String {
            "a test".into()
        }

        fn open(&mut self) -> Result<Box<dyn FrameStream>, String> {
            match self.streams.recv_timeout(READ_SLICE) {
                Ok(script) => Ok(Box::new(WrittenStream(script?.into_iter()))),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err("gone".into()),
            }
        }
    }

    impl FrameStream for WrittenStream {
        fn read(&mut self) -> Result<Delivery, String> {
            self.0.next().unwrap_or_else(|| {
                std::thread::sleep(Duration::from_millis(5));
                Ok(Delivery::Nothing)
            })
        }
    }

    fn image(side: usize, value: u8) -> Result<Delivery, String> {
        let frames = Frames::new(FrameShape::rgb(side, side), vec![value; side * side * 3]).unwrap();
        Ok(Delivery::Image(frames, Time::default()))
    }

    fn start(streams: Vec<Result<Script, String>>) -> (LiveCamera<Written>, Sender<Result<Script, String>>) {
        let (sender, receiver) = channel();
        streams.into_iter().for_each(|stream| sender.send(stream).unwrap());
        let fit = FrameFit::square(4);
        let clock = Arc::new(RealClock::new());
        (LiveCamera::start("wrist_1", Written { streams: receiver }, fit, clock).unwrap(), sender)
    }

    fn until(camera: &mut LiveCamera<Written>, is_so: impl Fn(&mut LiveCamera<Written>) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so(camera) {
            assert!(Instant::now() < deadline, "{:?} {:?}", camera.counts(), camera.trouble());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_camera_that_breaks_keeps_its_frame_and_is_opened_again() {
        let (mut camera, streams) =
            start(vec![Err("no device".into()), Ok(vec![image(8, 7), Err("unplugged".into())])]);
        until(&mut camera, |camera| {
            camera.trouble().is_some_and(|why| why.to_string().contains("unplugged"))
        });
        let kept = camera.newest().unwrap();
        assert_eq!((kept.image.pixels[0], kept.number), (7, 1));
        streams.send(Ok(vec![image(8, 9)])).unwrap();
        until(&mut camera, |camera| camera.newest().is_some_and(|frame| frame.number == 2));
        assert_eq!(camera.newest().unwrap().image.pixels, [9; 48]);
        assert_eq!((camera.counts().opened, camera.trouble()), (2, None));
    }

    #[test]
    fn frames_of_another_size_and_repeats_are_no_new_frames() {
        let script =
            vec![image(8, 1), image(6, 2), Ok(Delivery::Repeated), Ok(Delivery::Broken("half of it".into()))];
        let (mut camera, _streams) = start(vec![Ok(script)]);
        until(&mut camera, |camera| camera.counts().broken == 2);
        assert_eq!(camera.newest().unwrap().number, 1);
        assert_eq!(camera.trouble().unwrap().to_string(), "camera `wrist_1` sent a broken image: half of it");
        assert_eq!(camera.counts(), CameraCounts { frames: 1, broken: 2, repeated: 1, opened: 1 });
        until(&mut camera, |camera| {
            camera.trouble().is_some_and(|why| why.to_string().contains("no new frame for 2 s"))
        });
    }

    #[test]
    fn waiting_for_a_first_frame_ends_with_the_reason() {
        let (mut camera, _streams) = start(vec![Err("no such file".into())]);
        let error = first_frame(&mut camera, Duration::from_millis(60)).unwrap_err();
        assert_eq!(error.to_string(), "camera `wrist_1` at a test: no such file");
    }
}
