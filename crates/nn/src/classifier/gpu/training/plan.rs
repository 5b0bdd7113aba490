//! The kernels of a training pass in their order: forward, the loss, backward; and where everything lies.

use super::super::super::network::{Network, Pooling};
use super::super::super::settings::Precision;
use super::super::launches::{Launches, Map, PixelKind, Step, int};
use super::head::HeadRecord;
use super::layout::Layout;
use super::trunk::TrunkRecord;
use super::weight_tiles::WeightTiles;
use crate::gpu::{Address, Arg, End, LaunchShape};

/// Where what stays from pass to pass lies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arenas {
    pub(super) parameters: Address,
    pub(super) gradients: Address,
    /// Parameters as the convolutions want them; those of single precision themselves.
    pub(super) rounded: Address,
    /// Weights with inputs and outputs in each other's place.
    pub(super) transposed: Address,
    /// Six arrays of all channels, and the running mean and variance; see [`Statistic`].
    pub(super) statistics: Address,
    /// What each byte of each colour becomes.
    pub(super) byte_table: Address,
    /// Counters of blocks that arrived; zeros between kernels.
    pub(super) arrived: Address,
}

/// The arrays of statistics.
#[derive(Clone, Copy, Debug)]
pub(super) enum Statistic {
    Mean,
    Variance,
    /// One over the root of the variance.
    Root,
    /// That times the weight.
    Scale,
    /// What the gradient of inputs consists of.
    OfInput,
    Constant,
    RunningMean,
    RunningVariance,
}

/// How many there are.
pub(super) const STATISTICS: usize = 8;

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) network: &'a Network,
    pub(super) layout: &'a Layout,
    pub(super) precision: Precision,
    pub(super) weight_tiles: WeightTiles,
    /// Rows and columns of images.
    pub(super) size: [usize; 2],
    /// Time steps, and cameras.
    pub(super) count: usize,
    pub(super) cameras: usize,
    /// Of the head, for each time step.
    pub(super) outputs: usize,
    pub(super) is_frozen: bool,
    pub(super) kind: PixelKind,
    pub(super) arenas: Arenas,
    /// Where images lie, camera after camera, and what else comes from the host ([`HostInput`]).
    pub(super) images: Address,
    pub(super) host: Address,
    /// Where there is memory.
    pub(super) base: Address,
}

/// A pass for some images.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) forward: Vec<Step>,
    pub(super) loss: Step,
    pub(super) backward: Vec<Step>,
    /// Bytes of memory, from the base on.
    pub(super) bytes: usize,
    /// Where the loss is, in a double, and the logits 16 bytes behind it, from the base on.
    pub(super) found: usize,
    pub(super) host: HostInput,
}

/// What comes from the host beside images: places in bytes.
#[derive(Clone, Debug)]
pub(super) struct HostInput {
    /// Gamma, what gradients are multiplied by, and what a good loss is called, in doubles.
    pub(super) numbers: usize,
    /// Whether the loss is a number; see `Goodness` in `training.cu`.
    pub(super) is_good: usize,
    /// A label and a weight for each image.
    pub(super) examples: usize,
    /// By each output of the head.
    pub(super) logit_gradients: usize,
    /// What is dropped: place, count, share.
    pub(super) masks: Vec<(usize, usize, f64)>,
    pub(super) bytes: usize,
}

const HOST_ALIGNMENT: usize = 256;

impl HostInput {
    fn new(count: usize, outputs: usize) -> Self {
        let mut input =
            Self { numbers: 0, is_good: 0, examples: 0, logit_gradients: 0, masks: Vec::new(), bytes: 0 };
        input.numbers = input.take(24);
        input.is_good = input.take(4);
        input.examples = input.take(count * 8);
        input.logit_gradients = input.take(count * outputs * 4);
        input
    }

    fn take(&mut self, bytes: usize) -> usize {
        let place = self.bytes;
        self.bytes = (place + bytes).next_multiple_of(HOST_ALIGNMENT);
        place
    }

    pub(super) fn mask(&mut self, count: usize, share: f64) -> usize {
        let place = self.take(count * 4);
        self.masks.push((place, count, share));
        place
    }
}

/// Memory that kernels use one after another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scratch {
    /// Sums of 64 rows.
    Sums,
    /// Sums of those.
    Partials,
    /// Gradients of weights by parts of the pixels.
    Weights,
    /// The gradient of a block's outputs.
    Gradient,
    /// Gradients of what convolutions made, in turns: others compute those of weights from them meanwhile.
    Turns(usize),
    /// The gradient of inputs by way of the shortcut.
    Shortcut,
}

/// Gradients that there is memory for; and of wide ones, those of a bottleneck's outputs, which are four times as large as the others of
/// their block.
pub(super) const TURNS: usize = 4;
const WIDE_TURNS: usize = 2;

/// One of the gradients that there is memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(usize);

impl Scratch {
    const COUNT: usize = 5 + TURNS;

    fn index(self) -> usize {
        match self {
            Self::Sums => 0,
            Self::Partials => 1,
            Self::Weights => 2,
            Self::Gradient => 3,
            Self::Shortcut => 4,
            Self::Turns(turn) => 5 + turn,
        }
    }
}

pub(super) struct Planner<'a> {
    pub(super) input: PlanInput<'a>,
    pub(super) launches: Launches,
    pub(super) host: HostInput,
    /// Where scratch memory is, and how many bytes of it are needed.
    scratch: [Address; Scratch::COUNT],
    needed: [usize; Scratch::COUNT],
    /// Whose turn it was last, among all and among wide ones, and what still reads each of them.
    turn: usize,
    wide_turn: usize,
    readers: [Option<End>; TURNS],
    /// Things that run beside the rest.
    beside: usize,
}

/// Plans a pass: once to see how much scratch memory it takes, and once with that.
pub(super) fn plan(input: PlanInput<'_>) -> Plan {
    let (_, needed) = Planner::new(input, [0; Scratch::COUNT]).run();
    Planner::new(input, needed).run().0
}

impl<'a> Planner<'a> {
    fn new(input: PlanInput<'a>, scratch: [usize; Scratch::COUNT]) -> Self {
        let mut launches = Launches::new(input.base, input.precision);
        let scratch = scratch.map(|bytes| launches.take(bytes));
        let host = HostInput::new(input.count, input.outputs);
        Self {
            input,
            launches,
            host,
            scratch,
            needed: [0; Scratch::COUNT],
            turn: 0,
            wide_turn: 0,
            readers: [None; TURNS],
            beside: 0,
        }
    }

    fn run(mut self) -> (Plan, [usize; Scratch::COUNT]) {
        let PlanInput { network, count, cameras, outputs, is_frozen, .. } = self.input;
        let found = self.launches.take(16 + count * outputs * size_of::<f32>());
        let of_trunk = cameras / network.trunks.len() * count;
        let trunks: Vec<TrunkRecord> = network
            .trunks
            .iter()
            .enumerate()
            .map(|(i, trunk)| self.trunk(trunk, i * of_trunk, of_trunk))
            .collect();
        let maps: Vec<Map> =
            (0..cameras).map(|camera| self.map_of(&trunks, camera, |trunk| trunk.output)).collect();
        let head: HeadRecord = self.head(&maps, Address(found.0 + 16));
        let forward = std::mem::take(&mut self.launches.steps);
        let loss = self.loss(found);
        self.head_gradients(&head);
        if !is_frozen {
            // A trunk at a time: its cameras' gradients, then its own.
            for (i, trunk) in trunks.iter().enumerate() {
                let gradient = self.scratch(Scratch::Gradient, trunk.largest_gradient());
                for camera in 0..cameras {
                    if self.trunk_of(camera) != i {
                        continue;
                    }
                    let map = self.map_of(&trunks, camera, |trunk| Map { at: gradient, ..trunk.output });
                    self.map_gradient(&head, camera, map);
                }
                self.trunk_gradients(trunk);
            }
            self.wait_for_all();
            self.running_statistics();
        }
        let backward = std::mem::take(&mut self.launches.steps);
        let (bytes, found) = (self.launches.used, self.launches.offset_of(found));
        (Plan { forward, loss, backward, bytes, found, host: self.host }, self.needed)
    }

    fn trunk_of(&self, camera: usize) -> usize {
        if self.input.network.trunks.len() > 1 { camera } else { 0 }
    }

    /// The feature maps of a camera: some of its trunk's.
    fn map_of(&self, trunks: &[TrunkRecord], camera: usize, map: impl Fn(&TrunkRecord) -> Map) -> Map {
        let trunk = self.trunk_of(camera);
        let map = map(&trunks[trunk]);
        let before = if trunks.len() > 1 { 0 } else { camera * self.input.count };
        let offset = before * map.pixels() * map.channels * self.launches.number_bytes();
        Map { at: Address(map.at.0 + offset as u64), images: self.input.count, ..map }
    }

    /// Scratch memory for so many bytes.
    pub(super) fn scratch(&mut self, which: Scratch, bytes: usize) -> Address {
        let needed = &mut self.needed[which.index()];
        *needed = bytes.max(*needed);
        self.scratch[which.index()]
    }

    /// Memory for the gradient of what a convolution made, which nobody reads any more; not that of `kept`, which is still needed.
    pub(super) fn next_turn(&mut self, map: Map, is_wide: bool, kept: Option<Turn>) -> (Turn, Map) {
        let (last, turns) = match is_wide {
            true => (&mut self.wide_turn, WIDE_TURNS),
            false => (&mut self.turn, TURNS),
        };
        *last = (*last + 1) % turns;
        if kept == Some(Turn(*last)) {
            *last = (*last + 1) % turns;
        }
        let turn = *last;
        if let Some(reader) = self.readers[turn].take() {
            self.launches.steps.push(Step::WaitFor(reader));
        }
        (Turn(turn), self.scratch_map(Scratch::Turns(turn), map))
    }

    /// Runs these beside what follows; they read a gradient.
    pub(super) fn run_beside(&mut self, steps: Vec<Step>, reads: Address) {
        let end = End::of(self.beside);
        self.beside += 1;
        self.launches.steps.push(Step::Beside(steps));
        for turn in 0..TURNS {
            if self.scratch[Scratch::Turns(turn).index()] == reads {
                self.readers[turn] = Some(end);
            }
        }
    }

    /// Waits for all that runs beside.
    pub(super) fn wait_for_all(&mut self) {
        if let Some(last) = self.beside.checked_sub(1) {
            self.launches.steps.push(Step::WaitFor(End::of(last)));
        }
        self.readers = [None; TURNS];
    }

    /// Scratch memory for feature maps.
    pub(super) fn scratch_map(&mut self, which: Scratch, map: Map) -> Map {
        Map { at: self.scratch(which, map.len() * self.launches.number_bytes()), ..map }
    }

    pub(super) fn parameter(&self, place: usize) -> Address {
        floats(self.input.arenas.parameters, place)
    }

    pub(super) fn gradient(&self, place: usize) -> Address {
        floats(self.input.arenas.gradients, place)
    }

    /// A number of an array that has the numbers of feature maps.
    pub(super) fn number(&self, array: Address, place: usize) -> Address {
        Address(array.0 + (place * self.launches.number_bytes()) as u64)
    }

    /// A statistic of a layer, from its first channel on.
    pub(super) fn statistic(&self, which: Statistic, channel: usize) -> Address {
        floats(self.input.arenas.statistics, which as usize * self.input.layout.channels + channel)
    }

    /// Something that comes from the host.
    pub(super) fn host_address(&self, place: usize) -> Address {
        Address(self.input.host.0 + place as u64)
    }

    /// Whether the loss is a number: what learns does nothing if not.
    pub(super) fn is_good(&self) -> Address {
        self.host_address(self.host.is_good)
    }

    /// The features that a camera has.
    pub(super) fn features_of(&self, camera: usize, map: Map) -> usize {
        match &self.input.network.poolings[camera] {
            Pooling::Mean => map.channels,
            Pooling::Spatial { project, .. } => self.linear(project).outputs,
        }
    }

    /// Cross entropy, or focal loss.
    fn loss(&mut self, found: Address) -> Step {
        let PlanInput { count, .. } = self.input;
        let args = vec![
            Arg::At(Address(found.0 + 16)),
            Arg::At(self.host_address(self.host.examples)),
            int(count),
            Arg::At(self.host_address(self.host.numbers)),
            Arg::At(self.host_address(self.host.logit_gradients)),
            Arg::At(found),
            Arg::At(self.is_good()),
        ];
        let shape = LaunchShape { blocks: [1, 1, 1], threads: 256, shared: 0 };
        Step::Kernel { kernel: "logit_loss", shape, args }
    }
}

/// So many floats further.
pub(super) fn floats(address: Address, count: usize) -> Address {
    Address(address.0 + (count * size_of::<f32>()) as u64)
}
