//! Rotary position embedding (RoPE, Su et al. 2021): the angles of a position.

/// Cosine and sine of the angles of one position, one pair per frequency; each is the f32 nearest to an f64 result.
pub fn angles(frequencies: &[f64], position: u32) -> impl Iterator<Item = (f32, f32)> + '_ {
    frequencies.iter().map(move |frequency| {
        // The angle is rounded to f32 first, as transformers does.
        let angle = f64::from((f64::from(position) as f32) * (*frequency as f32));
        (libm::cos(angle) as f32, libm::sin(angle) as f32)
    })
}
