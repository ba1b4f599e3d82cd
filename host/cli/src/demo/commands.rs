//! Commands to run after the demo. They can be pasted into a shell.

use crate::shell::{program, quoted};
use std::path::Path;

/// Shell commands of one line each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commands {
    /// Learns like the demo, and records everything.
    pub(super) learn: String,
    /// Measures the learned playbook.
    pub(super) evaluate: String,
}

impl Commands {
    /// Commands for this program, these plugins and this data folder. `numbers`: iterations and seed.
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
