//! The networks of classifiers as ONNX operations, layer by layer. Shapes are `[n, c, h, w]`.

use plaudit_nn::Weights;
use plaudit_nn::classifier::{Arch, ClassifierSettings};

use super::OnnxError;
use super::graph::Attribute::{Float, Int, Ints, Text};
use super::graph::Graph;
use crate::card::ModelCard;

/// Added to a variance before its root is taken.
const EPSILON: f32 = 1e-5;
/// Group normalisation has this many groups.
const GROUPS: usize = 4;
/// Width of hidden layers where none is set and the architecture has one.
const DEFAULT_HIDDEN: usize = 256;
/// A mean progress closer to 0 or 1 is as good as this.
const CLOSEST: f32 = 1e-6;
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// What distinguishes one network from another.
struct Shape {
    /// Blocks of the four stages.
    blocks: [usize; 4],
    has_bottlenecks: bool,
    has_groups: bool,
    is_spatial: bool,
}

impl Shape {
    fn of(arch: Arch) -> Self {
        let (blocks, has_bottlenecks) = match arch {
            Arch::Resnet10 | Arch::Resnet10Spatial => ([1, 1, 1, 1], false),
            Arch::Resnet18 => ([2, 2, 2, 2], false),
            Arch::Resnet34 => ([3, 4, 6, 3], false),
            Arch::Resnet50 => ([3, 4, 6, 3], true),
            Arch::Resnet101 => ([3, 4, 23, 3], true),
            Arch::Resnet152 => ([3, 8, 36, 3], true),
        };
        let (has_groups, is_spatial) = match arch {
            Arch::Resnet10 => (true, false),
            Arch::Resnet10Spatial => (true, true),
            Arch::Resnet18 | Arch::Resnet34 | Arch::Resnet50 | Arch::Resnet101 | Arch::Resnet152 => {
                (false, false)
            }
        };
        Self { blocks, has_bottlenecks, has_groups, is_spatial }
    }

    fn features(&self) -> usize {
        if self.has_bottlenecks { 2048 } else { 512 }
    }
}

struct Exporter<'a> {
    settings: &'a ClassifierSettings,
    shape: Shape,
    graph: Graph<'a>,
}

/// The graph of a model, from the images of its cameras to its score.
pub(super) fn graph<'a>(card: &'a ModelCard, weights: &'a Weights) -> Result<Graph<'a>, OnnxError> {
    let settings = &card.settings;
    let mut exporter = Exporter { settings, shape: Shape::of(settings.arch), graph: Graph::new(weights) };
    let mut features = Vec::new();
    for key in &settings.image_keys {
        let images = exporter.prepared(key);
        let maps = exporter.trunk(&exporter.trunk_name(key), images)?;
        features.push(exporter.pooled(key, maps)?);
    }
    let names: Vec<&str> = features.iter().map(String::as_str).collect();
    let features = match names[..] {
        [one] => one.to_string(),
        _ => exporter.graph.node("Concat", &names, vec![("axis", Int(1))]),
    };
    let outputs = exporter.head(&features)?;
    exporter.score(&outputs, card.temperature() as f32);
    Ok(exporter.graph)
}

impl Exporter<'_> {
    /// An input of bytes, as the network wants it.
    fn prepared(&mut self, key: &str) -> String {
        let [_, height, width] = self.settings.image_size;
        let graph = &mut self.graph;
        graph.images_input(key);
        let floats = graph.node("Cast", &[key], vec![("to", Int(1))]);
        let scale = graph.floats("preprocess.scale", &[1], &[255.0]);
        let unit = graph.node("Div", &[&floats, &scale], vec![]);
        let planes = graph.node("Transpose", &[&unit], vec![("perm", Ints(vec![0, 3, 1, 2]))]);
        // All four axes: few runtimes know those of Resize by their numbers.
        let count_and_colours = graph.node("Shape", &[&planes], vec![("end", Int(2))]);
        let size = graph.ints("preprocess.size", &[height as i64, width as i64]);
        let sizes = graph.node("Concat", &[&count_and_colours, &size], vec![("axis", Int(0))]);
        let resized = graph.node(
            "Resize",
            &[&planes, "", "", &sizes],
            vec![("mode", Text("linear")), ("coordinate_transformation_mode", Text("half_pixel"))],
        );
        if !self.settings.normalize {
            return resized;
        }
        let mean = graph.floats("preprocess.mean", &[1, 3, 1, 1], &MEAN);
        let std = graph.floats("preprocess.std", &[1, 3, 1, 1], &STD);
        let centred = graph.node("Sub", &[&resized, &mean], vec![]);
        graph.node("Div", &[&centred, &std], vec![])
    }

    fn trunk_name(&self, key: &str) -> String {
        let is_shared = self.settings.image_keys.len() == 1 || self.settings.shared_trunk;
        match (self.shape.is_spatial, is_shared) {
            (true, _) => format!("encoders.{key}.resnet_backbone."),
            (false, true) => "backbone.".into(),
            (false, false) => format!("backbones.{key}."),
        }
    }

    fn trunk(&mut self, at: &str, images: String) -> Result<String, OnnxError> {
        let stem = self.conv_norm(&format!("{at}conv1"), &format!("{at}bn1"), &images, [3, 64, 7, 2])?;
        let stem = self.graph.node("Relu", &[&stem], vec![]);
        let pool = vec![
            ("kernel_shape", Ints(vec![3, 3])),
            ("strides", Ints(vec![2, 2])),
            ("pads", Ints(vec![1, 1, 1, 1])),
        ];
        let mut value = self.graph.node("MaxPool", &[&stem], pool);
        let mut channels = 64;
        for (stage, count) in self.shape.blocks.into_iter().enumerate() {
            let width = 64 << stage;
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = format!("{at}layer{}.{block}.", stage + 1);
                value = self.block(&name, value, channels, width, stride)?;
                channels = if self.shape.has_bottlenecks { 4 * width } else { width };
            }
        }
        Ok(value)
    }

    fn block(
        &mut self,
        at: &str,
        input: String,
        inputs: usize,
        width: usize,
        stride: usize,
    ) -> Result<String, OnnxError> {
        let outputs = if self.shape.has_bottlenecks { 4 * width } else { width };
        // Channels in and out, kernel and stride of each convolution of the path.
        let path: &[[usize; 4]] = match self.shape.has_bottlenecks {
            true => &[[inputs, width, 1, 1], [width, width, 3, stride], [width, outputs, 1, 1]],
            false => &[[inputs, width, 3, stride], [width, outputs, 3, 1]],
        };
        let mut value = input.clone();
        for (number, layer) in path.iter().enumerate() {
            let (conv, norm) = (format!("{at}conv{}", number + 1), format!("{at}bn{}", number + 1));
            value = self.conv_norm(&conv, &norm, &value, *layer)?;
            if number + 1 < path.len() {
                value = self.graph.node("Relu", &[&value], vec![]);
            }
        }
        let shortcut = match stride != 1 || inputs != outputs {
            true => {
                let (conv, norm) = (format!("{at}downsample.0"), format!("{at}downsample.1"));
                self.conv_norm(&conv, &norm, &input, [inputs, outputs, 1, stride])?
            }
            false => input,
        };
        let sum = self.graph.node("Add", &[&value, &shortcut], vec![]);
        Ok(self.graph.node("Relu", &[&sum], vec![]))
    }

    /// A convolution without bias, and its normalisation.
    fn conv_norm(
        &mut self,
        conv: &str,
        norm: &str,
        input: &str,
        [inputs, outputs, kernel, stride]: [usize; 4],
    ) -> Result<String, OnnxError> {
        let weight = self.graph.weight(&format!("{conv}.weight"), &[outputs, inputs, kernel, kernel])?;
        let [kernel, stride] = [kernel as i64, stride as i64];
        let attributes = vec![
            ("kernel_shape", Ints(vec![kernel; 2])),
            ("strides", Ints(vec![stride; 2])),
            ("pads", Ints(vec![kernel / 2; 4])),
        ];
        let value = self.graph.node("Conv", &[input, &weight], attributes);
        if self.shape.has_groups {
            return self.group_norm(norm, &value, outputs);
        }
        let mut parameter = |name: &str| self.graph.weight(&format!("{norm}.{name}"), &[outputs]);
        let (scale, shift) = (parameter("weight")?, parameter("bias")?);
        let (mean, variance) = (parameter("running_mean")?, parameter("running_var")?);
        let inputs = [value.as_str(), &scale, &shift, &mean, &variance];
        Ok(self.graph.node("BatchNormalization", &inputs, vec![("epsilon", Float(EPSILON))]))
    }

    /// Groups of channels, each normalised as one instance; then each channel's own scale and shift.
    fn group_norm(&mut self, norm: &str, value: &str, channels: usize) -> Result<String, OnnxError> {
        let graph = &mut self.graph;
        let groups = graph.ints("groups.shape", &[0, GROUPS as i64, -1]);
        let ones = graph.floats("groups.ones", &[GROUPS], &[1.0; GROUPS]);
        let zeros = graph.floats("groups.zeros", &[GROUPS], &[0.0; GROUPS]);
        let shape = graph.node("Shape", &[value], vec![]);
        let grouped = graph.node("Reshape", &[value, &groups], vec![]);
        let epsilon = vec![("epsilon", Float(EPSILON))];
        let normed = graph.node("InstanceNormalization", &[&grouped, &ones, &zeros], epsilon);
        let value = graph.node("Reshape", &[&normed, &shape], vec![]);
        let scale = graph.weight(&format!("{norm}.weight"), &[channels, 1, 1])?;
        let shift = graph.weight(&format!("{norm}.bias"), &[channels, 1, 1])?;
        let value = graph.node("Mul", &[&value, &scale], vec![]);
        Ok(graph.node("Add", &[&value, &shift], vec![]))
    }

    /// From a trunk's feature maps to a row of features.
    fn pooled(&mut self, key: &str, maps: String) -> Result<String, OnnxError> {
        let averaged = |graph: &mut Graph<'_>, maps: &str| graph.node("GlobalAveragePool", &[maps], vec![]);
        if !self.shape.is_spatial {
            let mean = averaged(&mut self.graph, &maps);
            return Ok(self.graph.node("Flatten", &[&mean], vec![("axis", Int(1))]));
        }
        let per_position = self.settings.use_pretrain.unwrap_or(true);
        let [_, height, width] = self.settings.image_size;
        let positions = if per_position { height.div_ceil(32) * width.div_ceil(32) } else { 1 };
        let maps = if per_position { maps } else { averaged(&mut self.graph, &maps) };
        let (channels, blocks) = (self.shape.features(), self.settings.num_spatial_blocks);
        let (at, graph) = (format!("encoders.{key}."), &mut self.graph);
        // [n, channels, 1, positions] x [channels, positions, blocks]
        let shape = graph.ints("embeddings.shape", &[0, channels as i64, 1, positions as i64]);
        let rows = graph.node("Reshape", &[&maps, &shape], vec![]);
        let kernel = graph.weight(&format!("{at}pooling_layer.kernel"), &[channels, positions, blocks])?;
        let embedded = graph.node("MatMul", &[&rows, &kernel], vec![]);
        let embedded = graph.node("Flatten", &[&embedded], vec![("axis", Int(1))]);
        let hidden = self.hidden();
        let value = self.linear(&format!("{at}mlp.0."), &embedded, channels * blocks, hidden)?;
        let value = self.layer_norm(&format!("{at}mlp.1."), &value, hidden)?;
        Ok(self.graph.node("Tanh", &[&value], vec![]))
    }

    fn hidden(&self) -> usize {
        self.settings.hidden_dim.unwrap_or(DEFAULT_HIDDEN)
    }

    fn linear(&mut self, at: &str, input: &str, inputs: usize, outputs: usize) -> Result<String, OnnxError> {
        let weight = self.graph.weight(&format!("{at}weight"), &[outputs, inputs])?;
        let bias = self.graph.weight(&format!("{at}bias"), &[outputs])?;
        Ok(self.graph.node("Gemm", &[input, &weight, &bias], vec![("transB", Int(1))]))
    }

    fn layer_norm(&mut self, at: &str, input: &str, width: usize) -> Result<String, OnnxError> {
        let scale = self.graph.weight(&format!("{at}weight"), &[width])?;
        let shift = self.graph.weight(&format!("{at}bias"), &[width])?;
        let attributes = vec![("axis", Int(-1)), ("epsilon", Float(EPSILON))];
        Ok(self.graph.node("LayerNormalization", &[input, &scale, &shift], attributes))
    }

    /// From the features of all cameras to the outputs: a logit, or one for each bin.
    fn head(&mut self, features: &str) -> Result<String, OnnxError> {
        let cameras = self.settings.image_keys.len();
        let outputs = self.settings.progress_bins.unwrap_or(1);
        let (width, hidden) = (cameras * self.shape.features(), self.hidden());
        if self.shape.is_spatial {
            let value = self.linear("classifier.0.", features, cameras * hidden, hidden)?;
            let value = self.layer_norm("classifier.2.", &value, hidden)?;
            let value = self.graph.node("Relu", &[&value], vec![]);
            return self.linear("classifier.4.", &value, hidden, outputs);
        }
        let [first, last] = match (self.shape.has_groups, self.settings.hidden_dim) {
            (true, _) => ["classifier.1.", "classifier.4."],
            (false, Some(_)) => ["backbone.fc.0.", "backbone.fc.3."],
            (false, None) => return self.linear("backbone.fc.", features, width, outputs),
        };
        let value = self.linear(first, features, width, hidden)?;
        let value = self.graph.node("Relu", &[&value], vec![]);
        self.linear(last, &value, hidden, outputs)
    }

    /// The logit and the score, each a number for each image; of a model of progress also its distribution.
    fn score(&mut self, outputs: &str, temperature: f32) {
        let graph = &mut self.graph;
        let flat = graph.ints("flat.shape", &[-1]);
        match self.settings.progress_bins {
            None => graph.node_named("Reshape", &[outputs, &flat], vec![], "logit"),
            Some(bins) => {
                graph.node_named("Softmax", &[outputs], vec![("axis", Int(1))], "distribution");
                let centres: Vec<f32> = (0..bins).map(|bin| bin as f32 / (bins - 1) as f32).collect();
                let centres = graph.floats("bins.centres", &[bins, 1], &centres);
                let mean = graph.node("MatMul", &["distribution", &centres], vec![]);
                let mean = graph.node("Reshape", &[&mean, &flat], vec![]);
                let low = graph.floats("bins.low", &[], &[CLOSEST]);
                let high = graph.floats("bins.high", &[], &[1.0 - CLOSEST]);
                let mean = graph.node("Clip", &[&mean, &low, &high], vec![]);
                let one = graph.floats("bins.one", &[1], &[1.0]);
                let rest = graph.node("Sub", &[&one, &mean], vec![]);
                let odds = graph.node("Div", &[&mean, &rest], vec![]);
                graph.node_named("Log", &[&odds], vec![], "logit");
            }
        }
        let temperature = graph.floats("temperature", &[1], &[temperature]);
        let tempered = graph.node("Div", &["logit", &temperature], vec![]);
        graph.node_named("Sigmoid", &[&tempered], vec![], "score");
        graph.output("logit", None);
        graph.output("score", None);
        if let Some(bins) = self.settings.progress_bins {
            graph.output("distribution", Some(bins));
        }
    }
}
