//! Videos written beside the work that makes their images.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Canvas, Video, VideoError, VideoFile};

/// How often and how long the work had to wait because videos are written more slowly than images come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// Times that the queue was full.
    pub count: u64,
    /// Time spent waiting for it, altogether.
    pub waited: Duration,
}

/// A command for the thread.
enum Job {
    Create(PathBuf, f64),
    Image(Canvas, f64),
    Finish,
}

/// A thread that writes videos from a queue of bounded length. A full queue makes the sender wait: no image is lost.
pub(super) struct VideoThread {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Result<VideoFile, VideoError>>,
    thread: Option<JoinHandle<()>>,
    stalls: Stalls,
}

impl VideoThread {
    /// Starts the thread; `queue` images may wait for it.
    pub(super) fn start(queue: usize) -> Result<Self, VideoError> {
        let (jobs, work) = sync_channel(queue.max(1));
        let (report, done) = channel();
        let thread = std::thread::Builder::new().name("video".into()).spawn(move || run(&work, &report));
        let thread = Some(thread.map_err(|_| VideoError::Thread)?);
        Ok(Self { jobs: Some(jobs), done, thread, stalls: Stalls::default() })
    }

    pub(super) fn create(&mut self, path: PathBuf, fps: f64) -> Result<(), VideoError> {
        self.send(Job::Create(path, fps))
    }

    pub(super) fn push(&mut self, image: Canvas, secs: f64) -> Result<(), VideoError> {
        self.send(Job::Image(image, secs))
    }

    pub(super) fn finish(&mut self) -> Result<(), VideoError> {
        self.send(Job::Finish)
    }

    pub(super) fn stalls(&self) -> Stalls {
        self.stalls
    }

    /// Videos that are done by now.
    pub(super) fn done(&self) -> impl Iterator<Item = Result<VideoFile, VideoError>> {
        self.done.try_iter()
    }

    fn send(&mut self, job: Job) -> Result<(), VideoError> {
        let jobs = self.jobs.as_ref().ok_or(VideoError::Thread)?;
        match jobs.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(VideoError::Thread),
            Err(TrySendError::Full(job)) => {
                let began = Instant::now();
                let sent = jobs.send(job).map_err(|_| VideoError::Thread);
                self.stalls.count += 1;
                self.stalls.waited += began.elapsed();
                sent
            }
        }
    }

    /// Waits until everything that was sent is written. A video that was not finished is given up.
    pub(super) fn wait(&mut self) -> Result<(), VideoError> {
        self.jobs = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(VideoError::Thread),
            _ => Ok(()),
        }
    }
}

impl Drop for VideoThread {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

/// Writes until nobody sends any more. After an error, the rest of that video is ignored.
fn run(work: &Receiver<Job>, report: &Sender<Result<VideoFile, VideoError>>) {
    let mut video: Option<Video> = None;
    for job in work {
        let result = match job {
            Job::Create(path, fps) => Video::create(&path, fps).map(|new| {
                video = Some(new);
                None
            }),
            Job::Image(image, secs) => match &mut video {
                Some(video) => video.push_for(&image, secs).map(|()| None),
                None => Ok(None),
            },
            Job::Finish => video.take().map(Video::finish).transpose(),
        };
        if result.is_err() {
            video = None;
        }
        if let Some(news) = result.transpose() {
            // Nobody may be listening any more.
            let _ = report.send(news);
        }
    }
}
