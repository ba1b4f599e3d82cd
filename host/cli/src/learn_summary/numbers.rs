//! Numbers for people.

/// A number for people: very large and very small ones as powers of ten.
pub(super) fn readable(value: f64) -> String {
    if value == 0.0 || (0.01..10_000.0).contains(&value) { format!("{value:.2}") } else { format!("{value:.0e}") }
}

/// A difference with its sign. A difference that rounds to 0 has none.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}");
    let is_nothing = text.bytes().all(|byte| b"+-0.".contains(&byte));
    if is_nothing { format!("{:.decimals$}", 0.0) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign_and_evidence_is_never_rounded_to_zero() {
        for (value, text) in
            [(0.0, "0.00"), (-0.0, "0.00"), (-0.004, "0.00"), (0.004, "0.00"), (-0.2, "-0.20"), (1.0, "+1.00")]
        {
            assert_eq!(signed(value, 2), text, "{value}");
        }
        assert_eq!([signed(-0.0004, 3), signed(-0.004, 3)], ["0.000", "-0.004"]);
        for (value, text) in
            [(0.0, "0.00"), (0.0099, "1e-2"), (1e-300, "1e-300"), (0.01, "0.01"), (20.0, "20.00"), (2e9, "2e9")]
        {
            assert_eq!(readable(value), text, "{value}");
        }
    }
}
