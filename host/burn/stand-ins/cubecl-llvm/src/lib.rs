//! Stands in for `cubecl-llvm` (below every floor), whose build fetches a compiler from outside of the crate registry.
//!
//! `cubecl-cuda` always mentions both of its ways to a kernel, and with the feature `cuda-cpp` goes by C++ and NVRTC alone. So here
//! are the names that it mentions, in the shapes that it expects, and a compiler that says so should anybody ask it. What
//! is not mentioned is not here: a version of cubecl that needs more does not build.

use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_server::compiler::CompilationError;
use cubecl_server::kernel::BufferIOAttr;

/// Versions of PTX.
pub mod nvptx {
    /// Versions of PTX.
    pub mod ptx_version {
        /// Chosen by NVRTC itself on the way that is taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct PtxVersion(());

        impl PtxVersion {
            /// None: nothing is written as PTX here.
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

/// What LLVM could lower.
pub mod shared {
    /// What LLVM could lower.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// For whom.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA.
            Nvptx,
        }

        /// Takes nothing away: it is asked only where LLVM compiles.
        pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}
    }
}

/// For whom LLVM would compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA.
    Nvptx,
}

/// What LLVM would be told.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// Of AMD.
    pub arch: Option<()>,
    /// Of NVIDIA.
    pub sm_arch: Option<SmArch>,
    /// See [`nvptx::ptx_version`].
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// How parameters are passed.
    pub grid_constants: bool,
    /// Never read: the others are filled up from a default.
    pub rest: (),
}

/// What LLVM would make.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// PTX.
    pub ptx: Vec<core::ffi::c_char>,
    /// For logs.
    pub ir: String,
    /// In bytes.
    pub shared_memory_size: usize,
    /// How buffers are used.
    pub io: Vec<BufferIOAttr>,
}

/// What LLVM would make.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// For NVIDIA.
    NvptxCode(NvptxModule),
}

/// Compiles nothing.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// For whom it does not.
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

    /// As the original.
    pub fn lang_tag(&self) -> &'static str {
        "ll"
    }
}
