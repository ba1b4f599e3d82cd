//! Misuses its notes, as the action says.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment, kv};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-kv";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, action: &str, _signals: &mut Signals) -> Result<Next> {
        let said = match action {
            "a million keys" => {
                for number in 0..1_000_000 {
                    kv::set(&number.to_string(), b"x").ok();
                }
                "kept".to_owned()
            }
            "keys until it is full" => {
                let refused = (0..9_000).find_map(|number| Some((number, kv::set(&number.to_string(), b"x").err()?)));
                let keys = kv::keys("", u32::MAX)?.len();
                format!("{:?}, {keys} keys", refused.map(|(number, error)| (number, error.message().to_owned())))
            }
            "a value of 32 MiB" => format!("{:?}", kv::set("key", &vec![1; 32 << 20])),
            "a value of 1 MiB" => {
                format!("{:?}", kv::set("key", &vec![1; 1 << 20]).map_err(|error| error.message().to_owned()))
            }
            "names of files" => {
                for key in ["../../etc/passwd", "/etc/passwd", "C:\\CON", "..", "%2e%2e/x", "hostile-kv/../other"] {
                    kv::set(key, b"mine")?;
                }
                kv::keys("", 100)?.join(" ")
            }
            "names that are none" => {
                let long = "k".repeat(257);
                let errors: Vec<String> = ["", "a\0b", "a\nb", "\u{1b}[2J", &long]
                    .into_iter()
                    .map(|key| kv::set(key, b"x").err().map_or("kept".to_owned(), |error| error.message().to_owned()))
                    .collect();
                errors.join("; ")
            }
            _ => format!("{:?}", kv::keys("", 100)?),
        };
        Ok(Next::Continue(said))
    }
}

export_environment!(Guest);
