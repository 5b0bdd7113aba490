//! The vision encoder on a GPU: images and states of several moments there, and what it makes of them.

use plaudit_core::FrameShape;
use plaudit_nn::dense::gpu::{
    Bytes, Floats, GpuConvEncoder, GpuKernels, GpuMlp, Ints, Params, Rows, WantedGradients, WeightGradients,
};
use plaudit_nn::gpu::GpuError;

use super::VisionEncoder;
use super::encoder::Encoder;
use crate::replay::ObsBuffer;

/// Observations of several moments (now, and next) in a GPU's memory.
#[derive(Debug)]
pub(crate) struct GpuObs {
    bytes: Bytes,
    shifts: Ints,
    centered: Floats,
    states: Floats,
    moments: usize,
    cameras: usize,
    shape: FrameShape,
    state_width: usize,
}

impl GpuObs {
    /// Room for so many observations of each moment.
    pub(crate) fn new(
        kernels: &mut GpuKernels,
        vision_encoder: &VisionEncoder,
        moments: usize,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let Some(shape) = vision_encoder.encoder.frame() else {
            return Err(GpuError::Unsupported { what: "a policy above a frozen trunk" });
        };
        let (cameras, state_width) = (vision_encoder.cameras.len(), vision_encoder.states());
        let images = moments * cameras * rows;
        Ok(Self {
            bytes: kernels.bytes(images * shape.bytes())?,
            shifts: kernels.ints(2 * images)?,
            centered: kernels.floats(images * shape.bytes())?,
            states: kernels.floats(moments * rows * state_width)?,
            moments,
            cameras,
            shape,
            state_width,
        })
    }

    /// Puts `n` observations of each moment there; `shifts` has two numbers for each image, camera by camera.
    pub(crate) fn load(
        &self,
        kernels: &mut GpuKernels,
        moments: &[&ObsBuffer],
        shifts: &[i32],
        n: usize,
    ) -> Result<(), GpuError> {
        let images = moments.iter().flat_map(|obs| &obs.images).map(|(_, _, pixels)| &pixels[..]);
        kernels.write_bytes(self.bytes, &images.collect::<Vec<_>>())?;
        let each = n * self.state_width;
        let states = moments.iter().enumerate();
        let states = states.map(|(at, obs)| (self.states.part(at * each..(at + 1) * each), &obs.states[..]));
        kernels.write_all(&states.collect::<Vec<_>>())?;
        kernels.write_ints(self.shifts, shifts)
    }

    /// Makes numbers of the images of the first moments.
    pub(crate) fn center(
        &self,
        kernels: &mut GpuKernels,
        is_shifted: bool,
        moments: usize,
        n: usize,
    ) -> Result<(), GpuError> {
        let shifts = is_shifted.then_some(self.shifts);
        kernels.center_images(self.bytes, shifts, moments * self.cameras * n, self.shape, self.centered)
    }

    /// Images from a moment on.
    fn images(&self, moment: usize, n: usize) -> Rows {
        let (stride, inner) = (self.shape.bytes(), n * self.shape.bytes());
        let outer = self.cameras * inner;
        let floats = self.centered.part(moment * outer..self.moments.max(moment) * outer);
        Rows { floats, stride, outer, inner }
    }

    /// States from a moment on.
    fn states(&self, moment: usize, n: usize) -> Rows {
        let (stride, outer) = (self.state_width, n * self.state_width);
        Rows {
            floats: self.states.part(moment * outer..self.moments.max(moment) * outer),
            stride,
            outer,
            inner: 0,
        }
    }
}

/// The encoders of all cameras and the layer of the state.
#[derive(Debug)]
pub(crate) struct GpuVisionEncoder {
    cameras: GpuConvEncoder,
    state: GpuMlp,
    /// Of one camera, and where the parameters of the state's layer begin.
    camera_len: usize,
    state_start: usize,
    state_column: usize,
}

impl GpuVisionEncoder {
    /// For so many moments of so many rows. What comes out goes to the rows of `joined`, whose outer count are moments. With
    /// `trains`, the first moment can have a backward pass.
    pub(crate) fn new(
        kernels: &mut GpuKernels,
        vision_encoder: &VisionEncoder,
        [moments, rows]: [usize; 2],
        joined: Rows,
        trains: bool,
    ) -> Result<Self, GpuError> {
        let Encoder::Learned(encoder) = &vision_encoder.encoder else {
            return Err(GpuError::Unsupported { what: "a policy above a frozen trunk" });
        };
        let cameras = vision_encoder.cameras.len();
        let state_column = vision_encoder.column(cameras).start;
        let by_camera = Rows { inner: encoder.outputs(), ..joined };
        let state = GpuMlp::new(kernels, &vision_encoder.state_proj, moments, 1, rows)?;
        Ok(Self {
            cameras: GpuConvEncoder::new(kernels, encoder, [moments, cameras, rows], by_camera, trains)?,
            state: state.with_output(joined.column(state_column)),
            camera_len: encoder.len(),
            state_start: vision_encoder.state_place().start,
            state_column,
        })
    }

    /// Encodes `moments` moments from one on.
    pub(crate) fn forward(
        &self,
        kernels: &mut GpuKernels,
        params: Floats,
        obs: &GpuObs,
        [first, moments]: [usize; 2],
        n: usize,
    ) -> Result<(), GpuError> {
        let (cameras, state) = self.params(params);
        self.cameras.forward(kernels, cameras, obs.images(first, n), moments, n)?;
        self.state.forward(kernels, state, obs.states(first, n), moments, n)
    }

    /// The gradients of the parameters, given those of what came out for the first moment, in rows of `grad`.
    #[allow(clippy::too_many_arguments)] // a pass: where, with what, of what, how many, from where, to where
    pub(crate) fn backward(
        &self,
        kernels: &mut GpuKernels,
        params: Floats,
        obs: &GpuObs,
        n: usize,
        grad: Rows,
        grads: Floats,
        add: bool,
    ) -> Result<(), GpuError> {
        let (cameras, state) = self.params(params);
        let (camera_grads, state_grads) = self.params(grads);
        let by_camera = Rows { inner: self.state_column / (self.state_start / self.camera_len), ..grad };
        let to = WeightGradients { to: camera_grads, add };
        self.cameras.backward(kernels, cameras, obs.images(0, n), n, by_camera, to)?;
        let wanted =
            WantedGradients { weights: Some(WeightGradients { to: state_grads, add }), inputs: None };
        let grad = grad.column(self.state_column);
        self.state.backward(kernels, state, obs.states(0, n), 1, n, grad, &wanted)
    }

    fn params(&self, params: Floats) -> (Params, Params) {
        let cameras = Params { floats: params.part(0..self.state_start), inner: self.camera_len };
        (cameras, Params { floats: params.part(self.state_start..params.len()), inner: 0 })
    }
}
