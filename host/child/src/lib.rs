//! Child processes of this program (floor 0). Work on untrusted data that no limit of the language bounds (compilers, drivers, chat
//! templates, tokenizers) is done by a child. A child ends with its parent, works within limits of memory and processor time, and the
//! parent understands how it ended.
//!
//! The parent starts a [`ChildProgram`]. The child, first of all, calls [`end_with_parent`], and then [`bound_memory`] and
//! [`bound_processor_time`].

mod bounds;
mod end;
mod lifeline;

pub use bounds::{bound_memory, bound_processor_time};
pub use end::{How, how_it_ended};
pub use lifeline::{PARENT, end_with_parent};

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// A program that works as a child of this one, with the arguments that say on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildProgram {
    /// The program, usually this one.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl ChildProgram {
    /// A command that starts it without the environment of this process: it needs none, and the environment has keys.
    pub fn command(&self) -> Command {
        let mut command = self.command_with_environment();
        command.env_clear();
        lifeline::tie(&mut command);
        command
    }

    /// A command that starts it with the environment of this process, which drivers of devices read.
    pub fn command_with_environment(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        lifeline::tie(&mut command);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_its_parent_and_nothing_else() {
        let program = ChildProgram { program: "true".into(), arguments: vec!["a".into()] };
        let of = |command: &Command| {
            let pairs = command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
            pairs.collect::<Vec<_>>()
        };
        let tie = (OsString::from(PARENT), Some(OsString::from(std::process::id().to_string())));
        assert_eq!(of(&program.command()), std::slice::from_ref(&tie));
        assert_eq!(of(&program.command_with_environment()), [tie]);
    }
}
