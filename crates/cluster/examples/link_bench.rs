//! How fast batches of frames go to a reward worker and their scores come back: 64 frames of 128 x 128 x 3, 3.1 MB.
//!
//! ```text
//! link_bench threads            both workers in this process
//! link_bench client | reward    one of two processes that dora started (needs the feature `dora`)
//! ```
//!
//! bench/cluster/README.md has the graph, and what was measured.

#![allow(clippy::print_stdout)] // it is a program, and this is its output

#[cfg(feature = "dora")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_cluster::link::threads::Switchboard;
use plaudit_cluster::link::{Endpoint, Identity, LinkReceiver, LinkSender, StreamSettings};
use plaudit_cluster::worker::messages::ModelFacts;
use plaudit_cluster::worker::{FrameScorer, RewardWorker, ScoreClient, ServedModel};
use plaudit_core::FrameShape;

const FRAMES: usize = 64;
const SHAPE: FrameShape = FrameShape { height: 128, width: 128, channels: 3 };

/// The mean of each frame: as cheap as a model can be.
struct Mean;

impl FrameScorer for Mean {
    fn facts(&self) -> ModelFacts {
        ModelFacts { image_keys: vec!["main".into()], ..ModelFacts::default() }
    }

    fn scores(&self, pixels: &[u8], _: usize, shape: FrameShape) -> Result<(Vec<f32>, u64), String> {
        let mean = |image: &[u8]| {
            let sum: u64 = image
                .as_chunks::<16>()
                .0
                .iter()
                .map(|few| few.iter().map(|&p| u64::from(p)).sum::<u64>())
                .sum();
            sum as f32 / image.len() as f32
        };
        Ok((pixels.chunks_exact(shape.bytes()).map(mean).collect(), 1))
    }
}

fn start(name: &str, peer: &str, link: (Box<dyn LinkSender>, Box<dyn LinkReceiver>)) -> Endpoint {
    let identity =
        Identity { version: "bench".into(), peers: vec![peer.into()], settings: StreamSettings::default() };
    Endpoint::start(&identity, link.0, link.1).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn serve(endpoint: Endpoint) {
    let worker = RewardWorker {
        endpoint,
        clients: vec!["client".into()],
        model: ServedModel::Frames(&Mean),
        max_batch: FRAMES,
        should_stop: &|| false,
        on_batch: Box::new(|_, _| {}),
    };
    if let Err(error) = worker.run() {
        println!("reward: {error}");
    }
}

fn ask(endpoint: Endpoint, how: &str) {
    let patience = Duration::from_secs(60);
    let client = ScoreClient::connect(endpoint.clone(), vec!["reward".into()], patience, &|| false);
    let client = client.unwrap_or_else(|error| panic!("{error}"));
    let seconds: f64 = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(5.0);
    let pixels: Vec<u8> = (0..FRAMES * SHAPE.bytes()).map(|at| (at * 31 % 251) as u8).collect();
    let score = |batches: usize| {
        let batches = (0..batches).map(|_| (FRAMES, pixels.clone())).collect();
        client.scores(batches, 1, SHAPE).unwrap_or_else(|error| panic!("{error}"))
    };
    let (expected, _) = Mean.scores(&pixels, FRAMES, SHAPE).unwrap_or_default();
    (0..5).for_each(|_| assert_eq!(score(1).0, expected));
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed().as_secs_f64() < seconds {
        let asked = Instant::now();
        score(1);
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "RESULT {how} one at a time: {} batches, p50 {:.2} ms, p99 {:.2} ms",
        times.len(),
        at(0.5),
        at(0.99)
    );
    let (mut done, began) = (0, Instant::now());
    while began.elapsed().as_secs_f64() < seconds {
        score(16);
        done += 16;
    }
    let rate = f64::from(done) / began.elapsed().as_secs_f64();
    let gigabytes = rate * (FRAMES * SHAPE.bytes()) as f64 / 1e9;
    println!("RESULT {how} four at a time: {rate:.0} batches/s, {gigabytes:.2} GB/s");
    for (peer, counts) in endpoint.counts() {
        println!("RESULT {how} {peer}: {:?}", counts.counts);
    }
    client.finish();
}

#[cfg(feature = "dora")]
fn dora(peer: &str) -> (Box<dyn LinkSender>, Box<dyn LinkReceiver>) {
    use plaudit_cluster::link::dora::{Wiring, connect};
    let peer_name: Arc<str> = peer.into();
    let wiring = Wiring {
        outputs: [(peer_name.clone(), peer.to_string())].into(),
        inputs: [(peer.to_string(), peer_name)].into(),
    };
    let (sender, receiver, _) = connect(wiring).unwrap_or_else(|error| panic!("{error}"));
    (sender, receiver)
}

#[cfg(not(feature = "dora"))]
fn dora(_: &str) -> (Box<dyn LinkSender>, Box<dyn LinkReceiver>) {
    panic!("this was built without the feature `dora`")
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("threads") => {
            let board = Switchboard::default();
            let reward = start("reward", "client", board.connect("reward"));
            let client = start("client", "reward", board.connect("client"));
            std::thread::scope(|scope| {
                scope.spawn(|| serve(reward));
                ask(client, "threads");
            });
        }
        Some("client") => ask(start("client", "reward", dora("reward")), "dora"),
        Some("reward") => serve(start("reward", "client", dora("client"))),
        _ => println!("link_bench threads | client | reward"),
    }
}
