//! Pooling and head forward, with what their gradients need kept, and backward.

use super::super::super::network::{EPSILON, Head, LayerNorm, Linear, Pooling};
use super::super::launches::{Map, RELU, TANH, int, threads};
use super::super::parameters::{Embeddings, LinearLayer, Scale};
use super::plan::{PlanInput, Planner, floats};
use crate::gpu::{Address, Arg, LaunchShape};

/// A camera's feature maps on the way to features.
#[derive(Debug)]
struct PoolingRecord {
    map: Map,
    /// The first column of its features.
    column: usize,
    spatial: Option<SpatialRecord>,
    /// Where the gradient of what was pooled will be: of features, of averages, or of embeddings.
    gradient: Address,
}

#[derive(Debug)]
struct SpatialRecord {
    embeddings: Embeddings,
    /// Averages, where positions are averaged first.
    averages: Option<Address>,
    /// What was dropped, if anything; and embeddings as the linear layer got them.
    kept: Option<Address>,
    embedded: Address,
    projected: Address,
}

/// The head as it was run.
#[derive(Debug)]
pub(super) struct HeadRecord {
    poolings: Vec<PoolingRecord>,
    features: Address,
    feature_width: usize,
    feature_gradient: Address,
    hidden: Option<HiddenRecord>,
}

#[derive(Debug)]
struct HiddenRecord {
    kept: Option<Address>,
    /// After the first layer; and as the last layer, or the normalisation, got it.
    first: Address,
    dropped: Address,
    /// After the normalisation, if there is one.
    normed: Option<Address>,
}

impl Planner<'_> {
    pub(super) fn linear(&self, layer: &Linear) -> LinearLayer {
        let layout = self.input.layout;
        let (weights, bias) = (layout.place(layer.weight), layout.place(layer.bias));
        LinearLayer {
            inputs: weights.len() / bias.len(),
            outputs: bias.len(),
            weights: self.parameter(weights.start),
            bias: self.parameter(bias.start),
        }
    }

    fn layer_norm_of(&self, norm: &LayerNorm) -> Scale {
        let [scale, shift] =
            [norm.scale, norm.shift].map(|id| self.parameter(self.input.layout.place(id).start));
        Scale { scale, shift }
    }

    /// What comes from the host to decide what is dropped of so many numbers.
    fn mask(&mut self, count: usize, share: f64) -> Option<Address> {
        (share > 0.0).then(|| {
            let place = self.host.mask(count, share);
            self.host_address(place)
        })
    }

    /// Numbers times what is kept of them; themselves if nothing is dropped.
    fn dropped(&mut self, x: Address, kept: Option<Address>, count: usize) -> Address {
        let Some(kept) = kept else { return x };
        let to = self.launches.take_floats(count);
        self.masked(x, kept, Address::NONE, to, count);
        to
    }

    fn masked(&mut self, x: Address, kept: Address, after: Address, to: Address, count: usize) {
        let mut args = [x, kept, after, to].map(Arg::At).to_vec();
        args.push(int(count));
        self.launches.run("masked", threads(count), args);
    }

    /// Feature maps of each camera to logits.
    pub(super) fn head(&mut self, maps: &[Map], logits: Address) -> HeadRecord {
        let PlanInput { network, count, .. } = self.input;
        let widths = maps.iter().enumerate().map(|(camera, map)| self.features_of(camera, *map));
        let feature_width: usize = widths.sum();
        let features = self.launches.take_floats(count * feature_width);
        let feature_gradient = self.launches.take_floats(count * feature_width);
        let (mut column, mut poolings) = (0, Vec::new());
        for (camera, map) in maps.iter().enumerate() {
            poolings.push(self.pool(camera, *map, column, floats(features, column), feature_width));
            column += self.features_of(camera, *map);
        }
        let hidden = match &network.head {
            Head::Single(layer) => {
                self.launches.linear_to(self.linear(layer), features, count, false, logits);
                None
            }
            Head::Hidden { first, dropout, last } => {
                let first = self.linear(first);
                let numbers = count * first.outputs;
                let hidden = self.launches.linear(first, features, count, true);
                let kept = self.mask(numbers, *dropout);
                let dropped = self.dropped(hidden, kept, numbers);
                self.launches.linear_to(self.linear(last), dropped, count, false, logits);
                Some(HiddenRecord { kept, first: hidden, dropped, normed: None })
            }
            Head::Normed { first, dropout, norm, last } => {
                let first = self.linear(first);
                let numbers = count * first.outputs;
                let hidden = self.launches.linear(first, features, count, false);
                let kept = self.mask(numbers, *dropout);
                let dropped = self.dropped(hidden, kept, numbers);
                let normed = self.launches.take_floats(numbers);
                let sizes = [count, first.outputs, first.outputs];
                self.launches.layer_norm(self.layer_norm_of(norm), dropped, normed, sizes, RELU);
                self.launches.linear_to(self.linear(last), normed, count, false, logits);
                Some(HiddenRecord { kept, first: hidden, dropped, normed: Some(normed) })
            }
        };
        HeadRecord { poolings, features, feature_width, feature_gradient, hidden }
    }

    fn pool(&mut self, camera: usize, map: Map, column: usize, to: Address, width: usize) -> PoolingRecord {
        let Pooling::Spatial { kernel, per_position, dropout, project, norm } =
            &self.input.network.poolings[camera]
        else {
            self.launches.average(map, to, width);
            return PoolingRecord { map, column, spatial: None, gradient: Address::NONE };
        };
        let positions = if *per_position { map.pixels() } else { 1 };
        let kernel = self.input.layout.place(*kernel);
        let embeddings = Embeddings {
            kernel: self.parameter(kernel.start),
            positions,
            blocks: kernel.len() / positions / map.channels,
            norm: self.layer_norm_of(norm),
        };
        let averages = (!per_position).then(|| {
            let averages = self.launches.take_floats(map.images * map.channels);
            self.launches.average(map, averages, map.channels);
            averages
        });
        let numbers = map.images * map.channels * embeddings.blocks;
        let plain = self.launches.take_floats(numbers);
        self.launches.embed(embeddings, averages.unwrap_or(map.at), map, *per_position, plain);
        let kept = self.mask(numbers, *dropout);
        let embedded = self.dropped(plain, kept, numbers);
        let project = self.linear(project);
        let projected = self.launches.linear(project, embedded, map.images, false);
        let sizes = [map.images, project.outputs, width];
        self.launches.layer_norm(embeddings.norm, projected, to, sizes, TANH);
        let spatial = SpatialRecord { embeddings, averages, kept, embedded, projected };
        let gradient = self.launches.take_floats(numbers);
        PoolingRecord { map, column, spatial: Some(spatial), gradient }
    }

    /// From the gradient of logits to those of all layers of the head, and of what was pooled.
    pub(super) fn head_gradients(&mut self, head: &HeadRecord) {
        let PlanInput { network, count, is_frozen, .. } = self.input;
        let from = self.host_address(self.host.logit_gradients);
        let to = head.feature_gradient;
        // A frozen trunk asks for nothing; embeddings do.
        let is_wanted = !is_frozen || head.poolings.iter().any(|pooling| pooling.spatial.is_some());
        let first = match (&network.head, &head.hidden) {
            (Head::Hidden { first, last, .. }, Some(hidden)) => {
                let numbers = count * self.linear(first).outputs;
                let back = self.launches.take_floats(numbers);
                self.linear_gradient(last, from, hidden.dropped, Some(back));
                self.masked(back, hidden.kept.unwrap_or(Address::NONE), hidden.first, back, numbers);
                Some((first, back))
            }
            (Head::Normed { first, norm, last, .. }, Some(hidden)) => {
                let width = self.linear(first).outputs;
                let normed = hidden.normed.unwrap_or(Address::NONE);
                let back = self.launches.take_floats(count * width);
                self.linear_gradient(last, from, normed, Some(back));
                let sizes = [count, width, width];
                self.layer_norm_gradient(norm, [back, normed, hidden.dropped, back], sizes, RELU);
                if let Some(kept) = hidden.kept {
                    self.masked(back, kept, Address::NONE, back, count * width);
                }
                Some((first, back))
            }
            _ => None,
        };
        match (first, &network.head) {
            (Some((layer, back)), _) => {
                self.linear_gradient(layer, back, head.features, is_wanted.then_some(to));
            }
            (None, Head::Single(layer)) => {
                self.linear_gradient(layer, from, head.features, is_wanted.then_some(to));
            }
            (None, _) => unreachable!("a hidden layer is recorded"),
        }
        for (camera, pooling) in head.poolings.iter().enumerate() {
            if let Some(spatial) = &pooling.spatial {
                self.embedding_gradients(camera, head, pooling, spatial);
            }
        }
    }

    /// Gradients of a linear layer's weights and bias, and of its inputs if wanted.
    fn linear_gradient(&mut self, layer: &Linear, gradient: Address, x: Address, to: Option<Address>) {
        let rows = self.input.count;
        let LinearLayer { weights, inputs, outputs, .. } = self.linear(layer);
        let layout = self.input.layout;
        let learned = [layer.weight, layer.bias].map(|id| self.gradient(layout.place(id).start));
        let mut args = [gradient, x, learned[0], learned[1]].map(Arg::At).to_vec();
        args.extend([rows, inputs, outputs].map(int));
        args.push(Arg::At(self.is_good()));
        self.launches.run("linear_weight_gradient", threads(outputs * (inputs + 1)), args);
        if let Some(to) = to {
            let mut args = [gradient, weights, to].map(Arg::At).to_vec();
            args.extend([rows, inputs, outputs].map(int));
            self.launches.run("linear_input_gradient", threads(rows * inputs), args);
        }
    }

    /// Through an activation and layer normalisation: gradient, outputs, inputs, and where the gradient of inputs goes. `sizes`: rows,
    /// width, and how far rows of gradient and outputs are apart.
    fn layer_norm_gradient(
        &mut self,
        norm: &LayerNorm,
        [gradient, after, x, to]: [Address; 4],
        sizes: [usize; 3],
        activation: i32,
    ) {
        let [rows, width, _] = sizes;
        let products = self.launches.take_floats(2 * rows * width);
        let Scale { scale, .. } = self.layer_norm_of(norm);
        let mut args = [gradient, after, x, scale, to, products].map(Arg::At).to_vec();
        args.extend(sizes.map(int));
        args.extend([Arg::Int(activation), Arg::Float(EPSILON as f32)]);
        self.launches.run("layer_norm_gradient", threads(rows * 32), args);
        let layout = self.input.layout;
        let learned = [norm.scale, norm.shift].map(|id| self.gradient(layout.place(id).start));
        let mut args = [products, learned[0], learned[1]].map(Arg::At).to_vec();
        args.extend([rows, width].map(int));
        args.push(Arg::At(self.is_good()));
        self.launches.run("layer_norm_parameters", threads(width), args);
    }

    /// Gradients of a camera's embeddings, and of the layer behind them; that of the embedded numbers stays for the trunk.
    fn embedding_gradients(
        &mut self,
        camera: usize,
        head: &HeadRecord,
        pooling: &PoolingRecord,
        spatial: &SpatialRecord,
    ) {
        let Pooling::Spatial { kernel, project, norm, .. } = &self.input.network.poolings[camera] else {
            return;
        };
        let PoolingRecord { map, column, gradient, .. } = pooling;
        let SpatialRecord { embeddings, averages, kept, embedded, projected } = spatial;
        let width = self.linear(project).outputs;
        let back = self.launches.take_floats(map.images * width);
        let [from, after] = [head.feature_gradient, head.features].map(|start| floats(start, *column));
        let sizes = [map.images, width, head.feature_width];
        self.layer_norm_gradient(norm, [from, after, *projected, back], sizes, TANH);
        self.linear_gradient(project, back, *embedded, Some(*gradient));
        let numbers = map.images * map.channels * embeddings.blocks;
        if let Some(kept) = kept {
            self.masked(*gradient, *kept, Address::NONE, *gradient, numbers);
        }
        let kernel_gradient = self.gradient(self.input.layout.place(*kernel).start);
        let (name, x) = match averages {
            None => ("spatial_embeddings_weights", map.at),
            Some(averages) => ("pooled_embeddings_weights", *averages),
        };
        let mut args = [*gradient, x, kernel_gradient].map(Arg::At).to_vec();
        let sizes = [map.images, embeddings.positions, map.channels, embeddings.blocks];
        args.extend(sizes.map(int));
        args.push(Arg::At(self.is_good()));
        self.launches.run(name, threads(map.channels * embeddings.positions * embeddings.blocks), args);
    }

    /// The gradient of a camera's feature maps.
    pub(super) fn map_gradient(&mut self, head: &HeadRecord, camera: usize, to: Map) {
        let PoolingRecord { map, column, spatial, gradient } = &head.poolings[camera];
        let average_gradient = |planner: &mut Self, from: Address, stride: usize| {
            let mut args = [from, to.at].map(Arg::At).to_vec();
            args.push(Arg::Count(map.len() as u64));
            args.extend([map.pixels(), map.channels, stride].map(int));
            planner.launches.run("average_gradient", LaunchShape::eights(map.len()), args);
        };
        let Some(SpatialRecord { embeddings, averages, .. }) = spatial else {
            return average_gradient(self, floats(head.feature_gradient, *column), head.feature_width);
        };
        let rows = map.images * embeddings.positions;
        let (name, target) = match averages {
            None => ("spatial_embeddings_gradient", to.at),
            Some(_) => ("pooled_embeddings_gradient", self.launches.take_floats(rows * map.channels)),
        };
        let mut args = [*gradient, embeddings.kernel, target].map(Arg::At).to_vec();
        let sizes = [map.images, embeddings.positions, map.channels, embeddings.blocks];
        args.extend(sizes.map(int));
        self.launches.run(name, threads(rows * map.channels), args);
        if averages.is_some() {
            average_gradient(self, target, map.channels);
        }
    }
}
