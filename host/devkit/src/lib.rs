//! Tools for people who write and run plugins (floor 4): the doctor. The library prints nothing; the program does.
//!
//! [`doctor::examine`] checks toolchains, the data folder and the machine. It reports what works, what is missing, the
//! consequences, and the remedies. It changes nothing.

pub mod doctor;
mod folder;
mod hints;
mod machine;
mod toolchain;
