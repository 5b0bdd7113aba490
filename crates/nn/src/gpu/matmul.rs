//! Matrix products by NVIDIA's cuBLASLt.

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::CudaSlice;

use super::device::Gpu;
use super::error::GpuError;
use super::libraries::Library;
use super::memory::Address;

/// Scratch memory of matrix products; what NVIDIA advises for the largest GPUs.
const WORKSPACE: usize = 64 << 20;
/// `CUBLAS_OP_T`
const TRANSPOSED: i32 = 1;
/// Plans that are kept. Batches of new sizes need new ones.
const MAX_PLANS: usize = 512;

/// `y = x w^T`, then an epilogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matmul {
    /// `[rows, inputs]`, row after row.
    pub(crate) x: Address,
    /// `[outputs, inputs]`
    pub(crate) weight: Address,
    pub(crate) epilogue: Epilogue,
    /// `[rows, outputs]`, `stride` numbers from row to row.
    pub(crate) y: Address,
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// What follows a matrix product.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Epilogue {
    /// Nothing.
    Plain,
    /// It is added to what is there.
    Add,
    /// A bias is added.
    Bias(Address),
    /// The same, and then what is there.
    BiasAdd(Address),
    /// A bias is added, then GELU by the hyperbolic tangent.
    BiasGelu(Address),
}

impl Epilogue {
    fn bias(self) -> Option<Address> {
        match self {
            Self::Plain | Self::Add => None,
            Self::Bias(bias) | Self::BiasAdd(bias) | Self::BiasGelu(bias) => Some(bias),
        }
    }

    fn adds(self) -> bool {
        matches!(self, Self::Add | Self::BiasAdd(_))
    }

    fn to_cublas(self) -> sys::cublasLtEpilogue_t {
        use sys::cublasLtEpilogue_t as CublasEpilogue;
        match self {
            Self::Plain | Self::Add => CublasEpilogue::CUBLASLT_EPILOGUE_DEFAULT,
            Self::Bias(_) | Self::BiasAdd(_) => CublasEpilogue::CUBLASLT_EPILOGUE_BIAS,
            Self::BiasGelu(_) => CublasEpilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        }
    }
}

/// What a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MatmulShape {
    rows: usize,
    inputs: usize,
    outputs: usize,
    stride: usize,
    epilogue: u32,
    adds: bool,
}

/// A cuBLASLt plan for matrices of some shape.
struct MatmulPlan {
    operation: sys::cublasLtMatmulDesc_t,
    weight: sys::cublasLtMatrixLayout_t,
    x: sys::cublasLtMatrixLayout_t,
    y: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Drop for MatmulPlan {
    fn drop(&mut self) {
        // SAFETY: made in `plan`, and dropped once. What is in flight has its own copies.
        unsafe {
            let _ = result::destroy_matrix_layout(self.weight);
            let _ = result::destroy_matrix_layout(self.x);
            let _ = result::destroy_matrix_layout(self.y);
            let _ = result::destroy_matmul_desc(self.operation);
        }
    }
}

/// cuBLASLt, and its plans for the shapes seen so far.
pub(crate) struct Cublas {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    plans: HashMap<MatmulShape, MatmulPlan>,
}

// SAFETY: handle and plans belong to no thread, and are used by one at a time (`&mut self`).
unsafe impl Send for Cublas {}

impl Drop for Cublas {
    fn drop(&mut self) {
        self.plans.clear();
        // SAFETY: made in `new`, and dropped once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Cublas {
    pub(crate) fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        Library::CublasLt.load()?;
        let handle = result::create_handle().map_err(GpuError::failed("opening cuBLASLt"))?;
        Ok(Self { handle, workspace: gpu.alloc(WORKSPACE)?, plans: HashMap::new() })
    }

    /// Multiplies, after all that was asked for before.
    pub(crate) fn run(&mut self, gpu: &mut Gpu, what: &'static str, matmul: &Matmul) -> Result<(), GpuError> {
        let Matmul { x, weight, epilogue, y, stride, rows, inputs, outputs } = *matmul;
        if rows == 0 {
            return Ok(());
        }
        let shape = MatmulShape {
            rows,
            inputs,
            outputs,
            stride,
            epilogue: epilogue.to_cublas() as u32,
            adds: epilogue.adds(),
        };
        if !self.plans.contains_key(&shape) {
            if self.plans.len() >= MAX_PLANS {
                self.plans.clear();
            }
            self.plans.insert(shape, self.plan(shape, epilogue)?);
        }
        let plan = &self.plans[&shape];
        if let Some(bias) = epilogue.bias() {
            set_bias(plan.operation, bias)?;
        }
        let (alpha, beta) = (1.0f32, if epilogue.adds() { 1.0f32 } else { 0.0 });
        let pointer = |address: Address| address.0 as *mut c_void;
        // SAFETY: the plan was made for matrices of these sizes, and callers give addresses of such; the workspace lives as
        // long as the plans.
        unsafe {
            result::matmul(
                self.handle,
                plan.operation,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                pointer(weight),
                plan.weight,
                pointer(x),
                plan.x,
                pointer(y),
                plan.y,
                pointer(y),
                plan.y,
                &raw const plan.algorithm,
                pointer(gpu.address(&self.workspace)),
                WORKSPACE,
                gpu.stream.cu_stream().cast(),
            )
        }
        .map_err(GpuError::failed("a matrix product"))?;
        gpu.record_event(what)
    }

    /// The library takes columns for rows, so that `y^T = w x^T` is what it is asked for.
    fn plan(&self, shape: MatmulShape, epilogue: Epilogue) -> Result<MatmulPlan, GpuError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        use sys::cudaDataType::{CUDA_R_16BF, CUDA_R_32F};
        let failed = GpuError::failed("planning a matrix product");
        let plan = || {
            let MatmulShape { rows, inputs, outputs, stride, .. } = shape;
            let layout = |rows: usize, columns: usize, stride: usize| {
                result::create_matrix_layout(CUDA_R_16BF, rows as u64, columns as u64, stride as i64)
            };
            let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
            let mut plan = MatmulPlan {
                operation: result::create_matmul_desc(compute, CUDA_R_32F)?,
                weight: layout(inputs, outputs, inputs)?,
                x: layout(inputs, rows, inputs)?,
                y: layout(outputs, rows, stride)?,
                algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            };
            set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
            set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue.to_cublas())?;
            if let Some(bias) = epilogue.bias() {
                set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.0)?;
            }
            plan.algorithm = self.algorithm(&plan)?;
            Ok::<_, result::CublasError>(plan)
        };
        plan().map_err(failed)
    }

    /// What the library thinks is quickest.
    fn algorithm(&self, plan: &MatmulPlan) -> Result<sys::cublasLtMatmulAlgo_t, result::CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = result::create_matmul_pref()?;
        let workspace_bytes = Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the preference was just made and the size is read at once; the plan's parts are alive.
        let found = unsafe {
            let size = (&raw const WORKSPACE_SIZE).cast();
            result::set_matmul_pref_attribute(preference, workspace_bytes, size, size_of::<usize>()).and_then(
                |()| {
                    let MatmulPlan { operation, weight, x, y, .. } = *plan;
                    result::get_matmul_algo_heuristic(self.handle, operation, weight, x, y, y, preference)
                },
            )
        };
        // SAFETY: made above, and destroyed once.
        unsafe { result::destroy_matmul_pref(preference) }?;
        Ok(found?.algo)
    }
}

static WORKSPACE_SIZE: usize = WORKSPACE;

fn set_bias(operation: sys::cublasLtMatmulDesc_t, bias: Address) -> Result<(), GpuError> {
    let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
    set(operation, attribute, &bias.0).map_err(GpuError::failed("planning a matrix product"))
}

fn set<T>(
    operation: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> Result<(), result::CublasError> {
    // SAFETY: the operation is alive, and callers give values of the attribute's type, which are read at once.
    unsafe {
        result::set_matmul_desc_attribute(operation, attribute, (&raw const *value).cast(), size_of::<T>())
    }
}
