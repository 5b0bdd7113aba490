//! Where the activations of a training step lie: one piece of memory, laid out before the step.
//!
//! What the backward pass needs of each layer is stored, or with recomputation only what goes into it; the rest of a layer is
//! then computed again into memory that all layers share. Norms, turned heads and products of gates are always computed again.

use super::super::super::config::{Config, TextConfig, VisionConfig};
use super::super::parameters::{Linear, Parameters};
use crate::gpu::Address;

/// What is kept of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Nothing: there is no backward pass.
    Nothing,
    /// What goes into each layer; the rest is computed again.
    LayerInputs,
    /// All that the backward pass needs.
    Everything,
}

/// Rows of logits that are there at once.
pub(super) const LOGIT_ROWS: usize = 128;

/// Sizes that matter to a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchSize {
    pub(super) tokens: usize,
    /// Tokens that have a target, or whose logits are asked for.
    pub(super) targets: usize,
    /// Patches of images.
    pub(super) patches: usize,
}

/// Gives out places, one after another.
#[derive(Debug, Default)]
pub(super) struct Room {
    next: usize,
}

/// Bytes that places are multiples of.
const ALIGNED: usize = 256;

impl Room {
    /// So many bf16 numbers.
    fn numbers(&mut self, count: usize) -> Place {
        self.bytes(count * size_of::<u16>())
    }

    fn floats(&mut self, count: usize) -> Place {
        self.bytes(count * size_of::<f32>())
    }

    fn bytes(&mut self, count: usize) -> Place {
        let place = Place(self.next);
        self.next += count.next_multiple_of(ALIGNED);
        place
    }
}

/// A place in the memory of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Place {
    pub(super) fn at(self, base: Address) -> Address {
        Address(base.0 + self.0 as u64)
    }
}

/// Columns that adapters have beside the inputs of a layer's products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LayerColumns {
    pub(super) qkv: usize,
    pub(super) o: usize,
    pub(super) gate_up: usize,
    pub(super) down: usize,
}

/// Columns of adapters in the whole network, the most of any layer; and whether the vision tower has some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) text: LayerColumns,
    /// `gate_up` are those of `fc1`, `down` those of `fc2`.
    pub(super) vision: LayerColumns,
    pub(super) merger: [usize; 2],
    pub(super) patch: usize,
    pub(super) head: usize,
    pub(super) is_vision_trained: bool,
}

impl Columns {
    pub(super) fn of(parameters: &Parameters) -> Self {
        let most =
            |layers: &mut dyn Iterator<Item = Linear>| layers.map(|layer| layer.extra).max().unwrap_or(0);
        let (layers, blocks) = (&parameters.layers, &parameters.blocks);
        let mergers = || std::iter::once(&parameters.merger).chain(&parameters.deepstack);
        let text = LayerColumns {
            qkv: most(&mut layers.iter().map(|layer| layer.qkv)),
            o: most(&mut layers.iter().map(|layer| layer.o)),
            gate_up: most(&mut layers.iter().map(|layer| layer.gate_up)),
            down: most(&mut layers.iter().map(|layer| layer.down)),
        };
        let vision = LayerColumns {
            qkv: most(&mut blocks.iter().map(|block| block.qkv)),
            o: most(&mut blocks.iter().map(|block| block.proj)),
            gate_up: most(&mut blocks.iter().map(|block| block.fc1)),
            down: most(&mut blocks.iter().map(|block| block.fc2)),
        };
        let merger =
            [most(&mut mergers().map(|merger| merger.fc1)), most(&mut mergers().map(|merger| merger.fc2))];
        let patch = parameters.patch.extra;
        let LayerColumns { qkv, o, gate_up, down } = vision;
        let is_vision_trained =
            [qkv, o, gate_up, down, merger[0], merger[1], patch].iter().any(|count| *count > 0);
        Self { text, vision, merger, patch, head: parameters.head.extra, is_vision_trained }
    }
}

/// What is stored of a layer of the language model, or a block of the vision tower.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerActivations {
    /// `[tokens, width]`, what goes into it.
    pub(super) x: Place,
    /// Queries, keys and values: of the language model before they are normalised and turned, of the tower after.
    pub(super) qkv: Place,
    /// What attention gives, and `h` of the output's adapter.
    pub(super) mixed: Place,
    /// `[tokens, heads]`
    pub(super) log_sums: Place,
    /// `x` with attention added.
    pub(super) middle: Place,
    /// Gate and up, or what goes into GELU.
    pub(super) inner: Place,
    /// `h` of adapters whose inputs are computed again.
    pub(super) h_qkv: Place,
    pub(super) h_inner: Place,
    pub(super) h_down: Place,
}

/// The activations of the language model.
#[derive(Clone, Debug)]
pub(super) struct TextActivations {
    pub(super) layers: Vec<LayerActivations>,
    /// What comes out of the last layer.
    pub(super) last: Place,
    pub(super) scratch: Scratch,
    /// `[targets, width + columns]`: last norms of tokens with targets, and their gradients.
    pub(super) head: Place,
    pub(super) head_gradient: Place,
    /// `[LOGIT_ROWS, vocabulary]`: floats, and their gradients.
    pub(super) logits: Place,
    pub(super) logit_gradient: Place,
}

/// Memory that layers share, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scratch {
    /// `x` normalised, with columns of adapters.
    pub(super) normal: Place,
    /// Queries and keys, normalised and turned.
    pub(super) turned: Place,
    /// Gates times ups (or GELU's results) with columns, and their gradients.
    pub(super) gated: Place,
    /// The gradient of `x`.
    pub(super) dx: Place,
    /// Gradients of what goes into products, with columns.
    pub(super) d_normal: Place,
    pub(super) d_mixed: Place,
    pub(super) d_qkv: Place,
    /// `[tokens, heads]`
    pub(super) products: Place,
}

/// Numbers per row in the layers of one half of the network.
#[derive(Clone, Copy, Debug)]
struct Widths {
    width: usize,
    /// Queries; queries and keys; queries, keys and values.
    q: usize,
    qk: usize,
    qkv: usize,
    heads: usize,
    /// What is stored of the feed-forward network, and what goes into its last product.
    stored_inner: usize,
    inner: usize,
    /// Whether turned queries and keys are computed again.
    turns_again: bool,
}

impl Widths {
    fn of_text(text: &TextConfig) -> Self {
        let TextConfig { width, heads, kv_heads, head_width, inner, .. } = *text;
        let (q, kv) = (heads * head_width, kv_heads * head_width);
        Self {
            width,
            q,
            qk: q + kv,
            qkv: q + 2 * kv,
            heads,
            stored_inner: 2 * inner,
            inner,
            turns_again: true,
        }
    }

    fn of_vision(vision: &VisionConfig) -> Self {
        let VisionConfig { width, heads, inner, .. } = *vision;
        let (q, qk, qkv) = (width, 2 * width, 3 * width);
        Self { width, q, qk, qkv, heads, stored_inner: inner, inner, turns_again: false }
    }

    fn layers(
        &self,
        room: &mut Room,
        rows: usize,
        columns: LayerColumns,
        keep: Keep,
        count: usize,
    ) -> Vec<LayerActivations> {
        let rest = |room: &mut Room, x: Place| LayerActivations {
            x,
            qkv: room.numbers(rows * self.qkv),
            mixed: room.numbers(rows * (self.q + columns.o)),
            log_sums: room.floats(rows * self.heads),
            middle: room.numbers(rows * self.width),
            inner: room.numbers(rows * self.stored_inner),
            h_qkv: room.numbers(rows * columns.qkv),
            h_inner: room.numbers(rows * columns.gate_up),
            h_down: room.numbers(rows * columns.down),
        };
        let x = |room: &mut Room| room.numbers(rows * self.width);
        match keep {
            Keep::Everything => (0..count)
                .map(|_| {
                    let x = x(room);
                    rest(room, x)
                })
                .collect(),
            Keep::LayerInputs => {
                let first = x(room);
                let shared = rest(room, first);
                (0..count)
                    .map(|i| LayerActivations { x: if i == 0 { first } else { x(room) }, ..shared })
                    .collect()
            }
            Keep::Nothing => {
                let both = [x(room), x(room)];
                let shared = rest(room, both[0]);
                (0..count).map(|i| LayerActivations { x: both[i % 2], ..shared }).collect()
            }
        }
    }

    fn scratch(&self, room: &mut Room, rows: usize, columns: LayerColumns, keep: Keep) -> Scratch {
        let backward = if keep == Keep::Nothing { 0 } else { rows };
        let wide = self.width + columns.qkv.max(columns.gate_up);
        Scratch {
            normal: room.numbers(rows * wide),
            turned: room.numbers(if self.turns_again { rows * self.qk } else { 0 }),
            gated: room.numbers(rows * (self.inner + columns.down)),
            dx: room.numbers(backward * self.width),
            d_normal: room.numbers(backward * wide),
            d_mixed: room.numbers(backward * (self.q + columns.o)),
            d_qkv: room.numbers(backward * self.qkv),
            products: room.floats(backward * self.heads),
        }
    }
}

impl TextActivations {
    pub(super) fn lay_out(
        room: &mut Room,
        config: &Config,
        columns: &Columns,
        size: BatchSize,
        keep: Keep,
    ) -> Self {
        let text = &config.text;
        let widths = Widths::of_text(text);
        let layers = widths.layers(room, size.tokens, columns.text, keep, text.layers);
        let last = room.numbers(size.tokens * text.width);
        let backward = usize::from(keep != Keep::Nothing);
        let head = size.targets * (text.width + columns.head);
        let logits = backward * size.targets.min(LOGIT_ROWS) * text.vocab.next_multiple_of(8);
        Self {
            layers,
            last,
            scratch: widths.scratch(room, size.tokens, columns.text, keep),
            head: room.numbers(head),
            head_gradient: room.numbers(backward * head),
            logits: room.floats(logits),
            logit_gradient: room.numbers(logits),
        }
    }
}

/// What is stored of a merger.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergerActivations {
    /// What goes into GELU.
    pub(super) inner: Place,
    pub(super) h_inner: Place,
    pub(super) h_out: Place,
}

/// The activations of the vision tower, if it is trained.
#[derive(Clone, Debug)]
pub(super) struct VisionActivations {
    /// Numbers of pixels, with columns.
    pub(super) pixels: Place,
    pub(super) blocks: Vec<LayerActivations>,
    /// What comes out of the last block.
    pub(super) last: Place,
    /// The last merger, then those of deepstack levels.
    pub(super) mergers: Vec<MergerActivations>,
    pub(super) scratch: Scratch,
    /// Rows of patches, side by side with columns and without, and their gradients.
    pub(super) merged: Place,
    pub(super) merged_inner: Place,
    pub(super) plain: Place,
    /// `[levels, visual tokens, text width]`: the gradients of visual embeddings.
    pub(super) d_visual: Place,
}

impl VisionActivations {
    /// Of all patches of a batch; groups of images of one size have their share of each place.
    pub(super) fn lay_out(
        room: &mut Room,
        config: &Config,
        columns: &Columns,
        patches: usize,
        keep: Keep,
    ) -> Self {
        let vision = &config.vision;
        let widths = Widths::of_vision(vision);
        // Mergers read what comes out of some blocks.
        let tower_keep = if keep == Keep::Nothing { Keep::LayerInputs } else { keep };
        let (rows, merged) = (patches / vision.merged(), vision.width * vision.merged());
        let blocks = widths.layers(room, patches, columns.vision, tower_keep, vision.depth);
        let merger = |room: &mut Room| MergerActivations {
            inner: room.numbers(rows * merged),
            h_inner: room.numbers(rows * columns.merger[0]),
            h_out: room.numbers(rows * columns.merger[1]),
        };
        let levels = 1 + vision.deepstack.len();
        Self {
            pixels: room.numbers(patches * (vision.patch_len() + columns.patch)),
            blocks,
            last: room.numbers(patches * vision.width),
            mergers: (0..levels).map(|_| merger(room)).collect(),
            scratch: widths.scratch(room, patches, columns.vision, keep),
            merged: room.numbers(rows * (merged + columns.merger[0])),
            merged_inner: room.numbers(rows * (merged + columns.merger[1])),
            plain: room.numbers(patches * (vision.patch_len() + columns.patch).max(vision.width)),
            d_visual: room.numbers(levels * rows * config.text.width),
        }
    }
}

/// All activations of a step.
#[derive(Clone, Debug)]
pub(super) struct Activations {
    pub(super) text: TextActivations,
    pub(super) vision: Option<VisionActivations>,
    pub(super) keep: Keep,
    /// All of it.
    pub(super) bytes: usize,
}

impl Activations {
    pub(super) fn lay_out(config: &Config, columns: &Columns, size: BatchSize, keep: Keep) -> Self {
        let mut room = Room::default();
        let text = TextActivations::lay_out(&mut room, config, columns, size, keep);
        let has_vision = columns.is_vision_trained && size.patches > 0;
        let vision =
            has_vision.then(|| VisionActivations::lay_out(&mut room, config, columns, size.patches, keep));
        Self { text, vision, keep, bytes: room.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of Qwen3-VL-4B.
    pub(in super::super) fn config() -> Config {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/qwen3_vl/model/config.json");
        let mut config = Config::read(std::path::Path::new(file)).unwrap();
        let sizes = TextConfig { vocab: 151_936, width: 2560, layers: 36, heads: 32, ..config.text };
        config.text =
            TextConfig { kv_heads: 8, head_width: 128, inner: 9728, sections: [24, 20, 20], ..sizes };
        config.vision = VisionConfig { width: 1024, depth: 24, heads: 16, inner: 4096, ..config.vision };
        config.vision.deepstack = vec![5, 11, 17];
        config
    }

    const RANK: usize = 16;

    fn columns() -> Columns {
        let text = LayerColumns { qkv: 3 * RANK, o: RANK, gate_up: 2 * RANK, down: RANK };
        Columns { text, ..Columns::default() }
    }

    fn mebibytes(windows: usize, columns: &Columns, keep: Keep) -> usize {
        let size = BatchSize { tokens: windows * 215, targets: windows * 3, patches: windows * 256 };
        Activations::lay_out(&config(), columns, size, keep).bytes >> 20
    }

    #[test]
    fn activations_take_what_their_rows_take() {
        // Of a token and layer: input and middle, queries to values, attention, gate and up, and columns of adapters, in bf16;
        // logarithms of 32 heads.
        let layer = 2 * (2 * 2560 + 6144 + 4096 + RANK + 2 * 9728 + 6 * RANK) + 4 * 32;
        let expected = (32 * 215 * 36 * layer) >> 20;
        let found = mebibytes(32, &columns(), Keep::Everything);
        assert!((expected..expected + 1024).contains(&found), "{found} MiB, of which layers take {expected}");
        let inputs = (32 * 215 * 36 * 2560 * 2) >> 20;
        let found = mebibytes(32, &columns(), Keep::LayerInputs);
        assert!((inputs..inputs + 1536).contains(&found), "{found} MiB, of which inputs take {inputs}");
    }

    #[test]
    fn recomputation_and_no_backward_pass_take_less() {
        let columns = columns();
        let [everything, inputs, nothing] =
            [Keep::Everything, Keep::LayerInputs, Keep::Nothing].map(|keep| mebibytes(8, &columns, keep));
        assert!(nothing < inputs && inputs * 4 < everything, "{nothing}, {inputs}, {everything}");
        // 8.9 GB of weights, and a card of 16 GB.
        assert!(inputs < 1024, "{inputs}");
    }

    #[test]
    fn a_frozen_tower_takes_nothing() {
        let frozen = columns();
        let vision = LayerColumns { qkv: RANK, ..LayerColumns::default() };
        let trained = Columns { vision, is_vision_trained: true, ..frozen };
        assert!(mebibytes(8, &frozen, Keep::Everything) + 500 < mebibytes(8, &trained, Keep::Everything));
    }

    #[test]
    fn places_do_not_overlap() {
        let size = BatchSize { tokens: 11, targets: 3, patches: 16 };
        let activations = Activations::lay_out(&config(), &columns(), size, Keep::Everything);
        let mut places: Vec<usize> = activations
            .text
            .layers
            .iter()
            .flat_map(|layer| [layer.x, layer.qkv, layer.mixed, layer.log_sums, layer.middle, layer.inner])
            .map(|place| place.0)
            .collect();
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), count);
        assert!(places.iter().all(|place| place % ALIGNED == 0 && *place < activations.bytes));
    }
}
