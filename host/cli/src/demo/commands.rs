//! What to do after the demo: commands that run as they stand.

use crate::shell::{program, quoted};
use std::path::Path;

/// Commands, each one line for a shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commands {
    /// Learns as the demo did, with everything recorded.
    pub(super) learn: String,
    /// Measures what was learned.
    pub(super) evaluate: String,
}

impl Commands {
    /// With these plugins, this data folder, and so many iterations of this seed, for the program as it was called.
    pub(super) fn new(plugins: &Path, data: Option<&Path>, numbers: (u64, u64)) -> Self {
        Self::of(&program(), plugins, data, numbers)
    }

    fn of(program: &str, plugins: &Path, data: Option<&Path>, (iterations, seed): (u64, u64)) -> Self {
        let program = quoted(program);
        let plugin = |name: &str| quoted(&plugins.join(name).display().to_string());
        let (shop, reward) = (plugin("env_shop.wasm"), plugin("reward_state.wasm"));
        let reflector = plugin("reflector_rules.wasm");
        let data = data.map_or(String::new(), |data| format!(" --data {}", quoted(&data.display().to_string())));
        Self {
            learn: format!(
                "{program} learn {shop} --reward {reward} --layer harness --reflector {reflector} --iterations {iterations} --seed {seed}{data}"
            ),
            evaluate: format!("{program} eval {shop} --reward {reward} --seed {seed}{data}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_plugins_and_the_data_folder_that_were_used() {
        let commands = Commands::of("clawhost", Path::new("my guests"), Some(Path::new("d")), (3, 7));
        let (shop, reward) = ("'my guests/env_shop.wasm'", "'my guests/reward_state.wasm'");
        assert_eq!(
            commands.learn,
            format!(
                "clawhost learn {shop} --reward {reward} --layer harness --reflector 'my guests/reflector_rules.wasm' --iterations 3 --seed 7 --data d"
            )
        );
        assert_eq!(commands.evaluate, format!("clawhost eval {shop} --reward {reward} --seed 7 --data d"));
        let without = Commands::of("clawhost", Path::new("g"), None, (3, 7));
        assert_eq!(without.evaluate, "clawhost eval g/env_shop.wasm --reward g/reward_state.wasm --seed 7");
    }
}
