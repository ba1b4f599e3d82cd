//! Limits of money that do not limit: a model without prices costs nothing by the gateway's counts.

use crate::background::running_gateway;
use crate::events::Warning;
use crate::gateway_file::GatewayFile;
use crate::keys::client_keys;
use crate::models::is_endpoint;
use crate::{AppError, EventSink};
use clawhost_gateway::ClientKeys;
use std::path::Path;

/// The warning that keys have a limit of US dollars, and models no prices. `None`: every limit counts.
pub(crate) fn warning(keys: &ClientKeys, models: Vec<String>) -> Option<Warning> {
    let keys: Vec<String> =
        keys.iter().filter(|key| key.usd_micros_per_day.is_some()).map(|key| key.name.clone()).collect();
    (!keys.is_empty() && !models.is_empty()).then_some(Warning::WithoutPrices { keys, models })
}

/// Emits the warning.
pub(crate) fn warn(keys: &ClientKeys, models: Vec<String>, events: &dyn EventSink) {
    if let Some(warning) = warning(keys, models) {
        events.event(crate::Event::Warning(warning));
    }
}

/// The aliases of a configuration whose models are asked over the network and have no prices.
fn of_file(file: &GatewayFile) -> Vec<String> {
    let is_endpoint = |spec: &Option<String>| spec.as_deref().is_some_and(is_endpoint);
    let unpriced = file.models.iter().filter(|(_, section)| is_endpoint(&section.model) && section.prices().is_none());
    unpriced.map(|(alias, _)| alias.clone()).collect()
}

/// Which limits of US dollars of the keys of a data folder count some models' answers as free: by the gateway that runs, or by its
/// configuration. `None`: every limit counts.
///
/// # Errors
/// The keys or the configuration cannot be read.
pub fn limits_without_prices(folder: &Path) -> Result<Option<Warning>, AppError> {
    let models = match running_gateway(folder)? {
        Some(gateway) => gateway.configuration.without_prices,
        None => of_file(&GatewayFile::of(folder)?),
    };
    Ok(warning(&client_keys(folder)?, models))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway_file::GATEWAY_FILE;
    use crate::keys::{NewKey, add_client_key};

    #[test]
    fn a_limit_of_money_names_the_models_that_it_does_not_count() {
        let check = |models: &str, usd_micros_per_day: Option<u64>, expect: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(GATEWAY_FILE), models).unwrap();
            add_client_key(folder.path(), NewKey { name: "laptop".into(), usd_micros_per_day, ..NewKey::default() })
                .unwrap();
            let found = match limits_without_prices(folder.path()).unwrap() {
                None => Vec::new(),
                Some(Warning::WithoutPrices { keys, models }) => {
                    assert_eq!(keys, ["laptop"]);
                    models
                }
                Some(other) => panic!("{other:?}"),
            };
            assert_eq!(found, expect, "{models}");
        };
        let one = "[models.a]\nmodel = \"openai:m\"\n";
        let priced = "[models.b]\nmodel = \"openai:n\"\nprice_in_per_million = 1\nprice_out_per_million = 0\n";
        let more = "[models.c]\nmodel = \"local:tiny\"\n[models.d]\nfirst_of = [\"b\", \"c\"]\n";
        check(one, Some(1), &["a"]);
        check(one, None, &[]);
        check(priced, Some(1), &[]);
        check(&format!("{one}{priced}{more}"), Some(1), &["a"]);
    }
}
