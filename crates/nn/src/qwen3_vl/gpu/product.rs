//! Matrix products by NVIDIA's cuBLASLt.

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::CudaSlice;

use super::device::Gpu;
use super::error::GpuError;
use super::memory::Address;

/// Memory that products may use on the way; what NVIDIA advises for the largest GPUs.
const WORKSPACE: usize = 64 << 20;
/// `CUBLAS_OP_T`
const TRANSPOSED: i32 = 1;
/// Ways of multiplying that are kept. Batches of ever new sizes need ever new ones.
const KEPT: usize = 512;

/// `y = x w^T`, with what is done on the way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    /// `[rows, inputs]`, row after row.
    pub(super) x: Address,
    /// `[outputs, inputs]`
    pub(super) weight: Address,
    pub(super) finish: Finish,
    /// `[rows, outputs]`, `stride` numbers from row to row.
    pub(super) y: Address,
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// What is done with a product.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finish {
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

impl Finish {
    fn bias(self) -> Option<Address> {
        match self {
            Self::Plain | Self::Add => None,
            Self::Bias(bias) | Self::BiasAdd(bias) | Self::BiasGelu(bias) => Some(bias),
        }
    }

    fn adds(self) -> bool {
        matches!(self, Self::Add | Self::BiasAdd(_))
    }

    fn epilogue(self) -> sys::cublasLtEpilogue_t {
        use sys::cublasLtEpilogue_t as Epilogue;
        match self {
            Self::Plain | Self::Add => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            Self::Bias(_) | Self::BiasAdd(_) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            Self::BiasGelu(_) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        }
    }
}

/// What decides how to multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sizes {
    rows: usize,
    inputs: usize,
    outputs: usize,
    stride: usize,
    epilogue: u32,
    adds: bool,
}

/// A way of multiplying matrices of some sizes.
struct Plan {
    operation: sys::cublasLtMatmulDesc_t,
    weight: sys::cublasLtMatrixLayout_t,
    x: sys::cublasLtMatrixLayout_t,
    y: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Drop for Plan {
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

/// The product library, and how it multiplies what it met so far.
pub(super) struct Products {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    plans: HashMap<Sizes, Plan>,
}

// SAFETY: handle and plans belong to no thread, and are used by one at a time (`&mut self`).
unsafe impl Send for Products {}

impl Drop for Products {
    fn drop(&mut self) {
        self.plans.clear();
        // SAFETY: made in `new`, and dropped once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Products {
    pub(super) fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        let handle = result::create_handle().map_err(GpuError::failed("opening the product library"))?;
        Ok(Self { handle, workspace: gpu.room(WORKSPACE)?, plans: HashMap::new() })
    }

    /// Multiplies, after all that was asked for before.
    pub(super) fn run(
        &mut self,
        gpu: &mut Gpu,
        what: &'static str,
        product: &Product,
    ) -> Result<(), GpuError> {
        let Product { x, weight, finish, y, stride, rows, inputs, outputs } = *product;
        if rows == 0 {
            return Ok(());
        }
        let sizes =
            Sizes { rows, inputs, outputs, stride, epilogue: finish.epilogue() as u32, adds: finish.adds() };
        if !self.plans.contains_key(&sizes) {
            if self.plans.len() >= KEPT {
                self.plans.clear();
            }
            self.plans.insert(sizes, self.plan(sizes, finish)?);
        }
        let plan = &self.plans[&sizes];
        if let Some(bias) = finish.bias() {
            set_bias(plan.operation, bias)?;
        }
        let (alpha, beta) = (1.0f32, if finish.adds() { 1.0f32 } else { 0.0 });
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
        gpu.mark(what)
    }

    /// The library takes columns for rows, so that `y^T = w x^T` is what it is asked for.
    fn plan(&self, sizes: Sizes, finish: Finish) -> Result<Plan, GpuError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        use sys::cudaDataType::{CUDA_R_16BF, CUDA_R_32F};
        let failed = GpuError::failed("planning a matrix product");
        let plan = || {
            let Sizes { rows, inputs, outputs, stride, .. } = sizes;
            let layout = |rows: usize, columns: usize, stride: usize| {
                result::create_matrix_layout(CUDA_R_16BF, rows as u64, columns as u64, stride as i64)
            };
            let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
            let mut plan = Plan {
                operation: result::create_matmul_desc(compute, CUDA_R_32F)?,
                weight: layout(inputs, outputs, inputs)?,
                x: layout(inputs, rows, inputs)?,
                y: layout(outputs, rows, stride)?,
                algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            };
            set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
            set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &finish.epilogue())?;
            if let Some(bias) = finish.bias() {
                set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.0)?;
            }
            plan.algorithm = self.algorithm(&plan)?;
            Ok::<_, result::CublasError>(plan)
        };
        plan().map_err(failed)
    }

    /// What the library thinks is quickest.
    fn algorithm(&self, plan: &Plan) -> Result<sys::cublasLtMatmulAlgo_t, result::CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = result::create_matmul_pref()?;
        let room = Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the preference was just made and the size is read at once; the plan's parts are alive.
        let found = unsafe {
            let size = (&raw const WORKSPACE_SIZE).cast();
            result::set_matmul_pref_attribute(preference, room, size, size_of::<usize>()).and_then(|()| {
                let Plan { operation, weight, x, y, .. } = *plan;
                result::get_matmul_algo_heuristic(self.handle, operation, weight, x, y, y, preference)
            })
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
