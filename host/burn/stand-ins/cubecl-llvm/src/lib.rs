//! Replaces `cubecl-llvm` (below every floor), whose build downloads a compiler from outside of the crate registry.
//!
//! `cubecl-cuda` always refers to both of its kernel compilers, but with the feature `cuda-cpp` it uses only C++ and NVRTC. So this
//! crate has the items to which it refers, with the signatures that it expects, and a compiler that always returns an error.
//! Nothing else is here: a version of cubecl that needs more does not build.

use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_server::compiler::CompilationError;
use cubecl_server::kernel::BufferIOAttr;

/// Versions of PTX.
pub mod nvptx {
    /// Versions of PTX.
    pub mod ptx_version {
        /// The version of PTX. It is never set, because NVRTC chooses it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct PtxVersion(());

        impl PtxVersion {
            /// Always `None`, because nothing is compiled to PTX here.
            pub fn for_driver(_driver: i32) -> Option<Self> {
                None
            }
        }

        impl core::fmt::Display for PtxVersion {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("ptx")
            }
        }
    }
}

/// The features of GPUs.
pub mod shared {
    /// The features that LLVM can lower.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// The vendor of the GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA.
            Nvptx,
        }

        /// Restricts nothing, because it matters only if LLVM compiles.
        pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}
    }
}

/// The target of the LLVM compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA.
    Nvptx,
}

/// The options of the LLVM compiler.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// The architecture of an AMD GPU.
    pub arch: Option<()>,
    /// The architecture of an NVIDIA GPU.
    pub sm_arch: Option<SmArch>,
    /// See [`nvptx::ptx_version`].
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// Whether parameters are passed as grid constants.
    pub grid_constants: bool,
    /// Never read. It exists so that `..Default::default()` has an effect.
    pub rest: (),
}

/// A compiled module. It is never created.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// The text of the module, in PTX.
    pub ptx: Vec<core::ffi::c_char>,
    /// The intermediate representation, for logs.
    pub ir: String,
    /// The size of shared memory, in bytes.
    pub shared_memory_size: usize,
    /// The use of each buffer.
    pub io: Vec<BufferIOAttr>,
}

/// The output of the LLVM compiler. It is never created.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// A module for NVIDIA GPUs.
    NvptxCode(NvptxModule),
}

/// A compiler that always fails.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// Its target.
    pub target: LlvmTarget,
}

impl PlironCompiler {
    /// # Errors
    /// Always: kernels are compiled by NVRTC.
    pub fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Validation {
            reason: "LLVM is not part of this program; build it with the feature cuda-cpp of cubecl".to_owned(),
            backtrace: Default::default(),
        })
    }

    /// The tag of the language, as in the original crate.
    pub fn lang_tag(&self) -> &'static str {
        "ll"
    }
}
