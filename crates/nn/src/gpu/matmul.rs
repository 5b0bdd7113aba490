//! Matrix products by NVIDIA's cuBLASLt.

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::CudaSlice;

use super::device::Gpu;
use super::error::GpuError;
use super::graph::Side;
use super::libraries::Library;
use super::memory::Address;

/// Scratch memory of matrix products; what NVIDIA advises for the largest GPUs.
const WORKSPACE: usize = 64 << 20;
/// `CUBLAS_OP_T`
const TRANSPOSED: i32 = 1;
/// Plans that are kept. Batches of new sizes need new ones.
const MAX_PLANS: usize = 512;

/// A matrix of bf16 numbers, row after row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) at: Address,
    /// Numbers from row to row.
    pub(crate) stride: usize,
    /// Whether its rows are taken for columns.
    pub(crate) transposed: bool,
}

impl Matrix {
    pub(crate) fn new(at: Address, stride: usize) -> Self {
        Self { at, stride, transposed: false }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }
}

/// `out = factor * left right`, then an epilogue. Sums are floats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// `[rows, inner]`
    pub(crate) left: Matrix,
    /// `[inner, columns]`
    pub(crate) right: Matrix,
    /// Rows, columns and inner.
    pub(crate) size: [usize; 3],
    pub(crate) factor: f32,
    pub(crate) epilogue: Epilogue,
    /// What [`Epilogue::Add`] adds, laid out as the result; mostly the result itself.
    pub(crate) added: Address,
    pub(crate) out: Address,
    /// Numbers from row to row of the result.
    pub(crate) stride: usize,
    /// Whether the result is floats, and not bf16.
    pub(crate) floats: bool,
}

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
struct ProductShape {
    size: [usize; 3],
    strides: [usize; 3],
    transposed: [bool; 2],
    floats: bool,
    epilogue: u32,
    adds: bool,
    /// Bytes that all addresses are multiples of.
    alignment: u32,
}

impl ProductShape {
    fn of(product: &Product) -> Self {
        let Product { left, right, size, epilogue, added, out, stride, floats, .. } = *product;
        let addresses = left.at.0 | right.at.0 | out.0 | if epilogue.adds() { added.0 } else { 0 };
        Self {
            size,
            strides: [left.stride, right.stride, stride],
            transposed: [left.transposed, right.transposed],
            floats,
            epilogue: epilogue.to_cublas() as u32,
            adds: epilogue.adds(),
            alignment: 1 << addresses.trailing_zeros().min(MOST_ALIGNED),
        }
    }
}

/// What the library takes addresses to be multiples of unless it is told: 2 to the power of this.
const MOST_ALIGNED: u32 = 8;

/// A cuBLASLt plan for matrices of some shape.
struct MatmulPlan {
    operation: sys::cublasLtMatmulDesc_t,
    left: sys::cublasLtMatrixLayout_t,
    right: sys::cublasLtMatrixLayout_t,
    out: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Drop for MatmulPlan {
    fn drop(&mut self) {
        // SAFETY: made in `plan`, and dropped once. What is in flight has its own copies.
        unsafe {
            let _ = result::destroy_matrix_layout(self.left);
            let _ = result::destroy_matrix_layout(self.right);
            let _ = result::destroy_matrix_layout(self.out);
            let _ = result::destroy_matmul_desc(self.operation);
        }
    }
}

/// cuBLASLt, and its plans for the shapes seen so far.
pub(crate) struct Cublas {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    /// Those of products that run beside others.
    side_workspaces: [Option<CudaSlice<u8>>; Side::COUNT],
    plans: HashMap<ProductShape, MatmulPlan>,
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
        let (workspace, side_workspaces) = (gpu.alloc(WORKSPACE)?, Default::default());
        Ok(Self { handle, workspace, side_workspaces, plans: HashMap::new() })
    }

    /// Scratch memory of the order that work is in: products of two orders may run at once.
    fn workspace(&mut self, gpu: &Gpu) -> Result<Address, GpuError> {
        let Some(side) = gpu.side() else { return Ok(gpu.address(&self.workspace)) };
        let own = &mut self.side_workspaces[side.index()];
        if own.is_none() {
            *own = Some(gpu.alloc(WORKSPACE)?);
        }
        Ok(own.as_ref().map_or(Address::NONE, |own| gpu.address(own)))
    }

    /// A linear layer, after all that was asked for before.
    pub(crate) fn run(&mut self, gpu: &mut Gpu, what: &'static str, matmul: &Matmul) -> Result<(), GpuError> {
        let Matmul { x, weight, epilogue, y, stride, rows, inputs, outputs } = *matmul;
        let product = Product {
            left: Matrix::new(x, inputs),
            right: Matrix::new(weight, inputs).transposed(),
            size: [rows, outputs, inputs],
            factor: 1.0,
            epilogue,
            added: y,
            out: y,
            stride,
            floats: false,
        };
        self.multiply(gpu, what, &product)
    }

    /// Multiplies, after all that was asked for before.
    pub(crate) fn multiply(
        &mut self,
        gpu: &mut Gpu,
        what: &'static str,
        product: &Product,
    ) -> Result<(), GpuError> {
        let Product { left, right, epilogue, added, out, factor, .. } = *product;
        if product.size.contains(&0) {
            return Ok(());
        }
        let shape = ProductShape::of(product);
        if !self.plans.contains_key(&shape) {
            if self.plans.len() >= MAX_PLANS {
                self.plans.clear();
            }
            self.plans.insert(shape, self.plan(shape, epilogue)?);
        }
        let workspace = self.workspace(gpu)?;
        let plan = &self.plans[&shape];
        if let Some(bias) = epilogue.bias() {
            set_bias(plan.operation, bias)?;
        }
        let beta = if epilogue.adds() { 1.0f32 } else { 0.0 };
        let pointer = |address: Address| address.0 as *mut c_void;
        let added = if epilogue.adds() { added } else { out };
        // SAFETY: the plan was made for matrices of these sizes, and callers give addresses of such; the workspace lives as
        // long as the plans.
        unsafe {
            result::matmul(
                self.handle,
                plan.operation,
                (&raw const factor).cast(),
                (&raw const beta).cast(),
                pointer(right.at),
                plan.right,
                pointer(left.at),
                plan.left,
                pointer(added),
                plan.out,
                pointer(out),
                plan.out,
                &raw const plan.algorithm,
                pointer(workspace),
                WORKSPACE,
                gpu.stream.cu_stream().cast(),
            )
        }
        .map_err(GpuError::failed("a matrix product"))?;
        gpu.record_event(what)
    }

    /// The library takes columns for rows, so that `out^T = right^T left^T` is what it is asked for.
    fn plan(&self, shape: ProductShape, epilogue: Epilogue) -> Result<MatmulPlan, GpuError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        use sys::cudaDataType::{CUDA_R_16BF, CUDA_R_32F};
        let failed = GpuError::failed("planning a matrix product");
        let plan = || {
            let [rows, columns, inner] = shape.size;
            let layout = |[rows, columns]: [usize; 2], transposed: bool, stride: usize, floats: bool| {
                let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
                let kind = if floats { CUDA_R_32F } else { CUDA_R_16BF };
                result::create_matrix_layout(kind, columns as u64, rows as u64, stride as i64)
            };
            let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
            let mut plan = MatmulPlan {
                operation: result::create_matmul_desc(compute, CUDA_R_32F)?,
                left: layout([rows, inner], shape.transposed[0], shape.strides[0], false)?,
                right: layout([inner, columns], shape.transposed[1], shape.strides[1], false)?,
                out: layout([rows, columns], false, shape.strides[2], shape.floats)?,
                algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            };
            if shape.transposed[1] {
                set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
            }
            if shape.transposed[0] {
                set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &TRANSPOSED)?;
            }
            set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue.to_cublas())?;
            if let Some(bias) = epilogue.bias() {
                set(plan.operation, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.0)?;
            }
            plan.algorithm = self.algorithm(&plan, shape.alignment)?;
            Ok::<_, result::CublasError>(plan)
        };
        plan().map_err(failed)
    }

    /// What the library thinks is quickest for addresses that are multiples of so many bytes.
    fn algorithm(
        &self,
        plan: &MatmulPlan,
        alignment: u32,
    ) -> Result<sys::cublasLtMatmulAlgo_t, result::CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = result::create_matmul_pref()?;
        // SAFETY: the preference was just made, values are of their attributes' types and read at once; the plan's parts are alive.
        let found = unsafe {
            let size = (&raw const WORKSPACE_SIZE).cast();
            let bytes = Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let mut set = result::set_matmul_pref_attribute(preference, bytes, size, size_of::<usize>());
            for attribute in [
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
            ] {
                let value = (&raw const alignment).cast();
                set = set.and_then(|()| {
                    result::set_matmul_pref_attribute(preference, attribute, value, size_of::<u32>())
                });
            }
            set.and_then(|()| {
                let MatmulPlan { operation, left, right, out, .. } = *plan;
                result::get_matmul_algo_heuristic(self.handle, operation, right, left, out, out, preference)
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
