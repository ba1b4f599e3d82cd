//! Curves in a terminal.

/// Dots of a plot. A character has two by four.
const DOTS: (u32, u32) = (140, 48);

/// A curve as lines of text, if it has at least two points.
pub(crate) fn text(points: &[(f64, f64)], low: f64, high: f64) -> Option<String> {
    use textplots::{Chart, LabelBuilder as _, LabelFormat, Plot as _, Shape};
    let ((first, _), (last, _)) = (points.first()?, points.last()?);
    if points.len() < 2 {
        return None;
    }
    let points: Vec<(f32, f32)> = points.iter().map(|(x, y)| (*x as f32, *y as f32)).collect();
    let (first, last) = (*first as f32, *last as f32);
    let shape = Shape::Lines(&points);
    let mut chart = Chart::new_with_y_range(DOTS.0, DOTS.1, first, last, low as f32, high as f32);
    let chart = chart
        .lineplot(&shape)
        .x_label_format(LabelFormat::Custom(Box::new(|value| format!("{value:.0}"))))
        .y_label_format(LabelFormat::Custom(Box::new(|value| format!("{value:.2}"))));
    chart.axis();
    chart.figures();
    // Dots that are not set are a character without a glyph.
    Some(chart.to_string().replace('\u{2800}', " "))
}

/// Characters of a sparkline, by height.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A sparkline of at most `width` characters, scaled to its smallest and largest value. If there are more values, neighbours
/// are averaged. `None`: there are fewer than two values.
pub(crate) fn sparkline(values: &[f64], width: usize) -> Option<String> {
    if values.len() < 2 || width == 0 {
        return None;
    }
    let means: Vec<f64> = values
        .chunks(values.len().div_ceil(width))
        .map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64)
        .collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = (HEIGHTS.len() - 1) as f64;
    let height = |value: f64| if high > low { ((value - low) / (high - low) * top).round() } else { 0.0 };
    // NaN becomes 0.
    Some(means.iter().filter_map(|mean| HEIGHTS.get(height(*mean) as usize)).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sparkline_is_scaled_to_its_extremes_and_averages_neighbours() {
        let check = |values: &[f64], width, expect: Option<&str>| {
            assert_eq!(super::sparkline(values, width).as_deref(), expect);
        };
        check(&[0.5], 9, None);
        check(&[0.0, 1.0], 0, None);
        check(&[0.3, 0.3], 9, Some("▁▁"));
        check(&[0.0, 0.5, 1.0], 9, Some("▁▅█"));
        check(&[0.0, 0.2, 0.4, 0.6, 1.0], 3, Some("▁▄█"));
    }

    #[test]
    fn a_curve_can_be_read_in_a_terminal() {
        let points = [(1.0, 0.0), (2.0, 0.5), (6.0, 1.0)];
        let text = super::text(&points, 0.0, 1.0).unwrap();
        assert!(text.lines().count() > 8 && text.contains("1.00"), "{text}");
        assert!(super::text(&[(1.0, 0.5)], 0.0, 1.0).is_none(), "one point is no curve");
    }
}
