//! What helps people who write and run plugins (floor 4): the doctor. A library without a terminal; the program prints.
//!
//! [`doctor::examine`] looks at toolchains, the data folder and the machine, and says of each: what is there, what it costs
//! that something is missing, and how to get it. It changes nothing.

pub mod doctor;
mod folder;
mod hints;
mod machine;
mod toolchain;
