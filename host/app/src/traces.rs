//! Where a gateway sends its traces: the variables of the environment that every program with OpenTelemetry reads.

use clawhost_core::Secret;
use clawhost_gateway::TraceSettings;

/// The address of the collector. Without it nothing is exported.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Further headers of its requests.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// The name of this service.
const SERVICE: &str = "OTEL_SERVICE_NAME";
/// Turns everything off if it is `true`.
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// The name of this service by default.
const NAME: &str = "clawhost";

/// Reads them. `None`: nothing is exported.
pub(crate) fn trace_settings(variable: impl Fn(&str) -> Option<String>) -> Option<TraceSettings> {
    // An empty variable counts as none.
    let read = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if read(DISABLED).is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return None;
    }
    Some(TraceSettings {
        endpoint: read(ENDPOINT)?,
        headers: read(HEADERS).as_deref().and_then(Secret::new),
        service: read(SERVICE).unwrap_or_else(|| NAME.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_exported_if_the_environment_names_a_collector() {
        let check = |variables: &[(&str, &str)], expect: Option<(&str, &str, bool)>| {
            let find =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let found = trace_settings(find);
            let found = found.as_ref().map(|of| (of.endpoint.as_str(), of.service.as_str(), of.headers.is_some()));
            assert_eq!(found, expect, "{variables:?}");
        };
        let endpoint = (ENDPOINT, "http://127.0.0.1:4318");
        check(&[], None);
        check(&[(SERVICE, "a"), (HEADERS, "b=c")], None);
        check(&[(ENDPOINT, " ")], None);
        check(&[endpoint], Some(("http://127.0.0.1:4318", "clawhost", false)));
        check(&[endpoint, (SERVICE, "a"), (HEADERS, "b=c")], Some(("http://127.0.0.1:4318", "a", true)));
        check(&[endpoint, (DISABLED, "TRUE")], None);
    }
}
