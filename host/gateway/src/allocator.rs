//! The memory of a process that serves for months.

/// Size in bytes from which a block has pages of its own, which the system gets back when the block is freed: larger than nearly all
/// bodies, smaller than what a dictionary is trained with.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PAGES_BYTES: i32 = 1 << 20;

/// Has the allocator give large blocks back to the system when they are freed. glibc would keep up to 64 MiB per thread: it takes a large
/// block that was freed once as a sign that there will be more of this size. For programs that serve a gateway; other systems need nothing.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    allow(unsafe_code, reason = "a setting of the C library, for which it has this function alone")
)]
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function changes a number under the allocator's own lock, and refuses what it cannot take.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES_BYTES);
    }
}
