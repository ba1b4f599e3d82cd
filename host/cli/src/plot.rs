//! Curves in a terminal.

/// Dots of a plot; a character holds two by four.
const DOTS: (u32, u32) = (140, 48);

/// A curve as lines of text; nothing for fewer than two points.
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
    Some(chart.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_curve_can_be_read_in_a_terminal() {
        let points = [(1.0, 0.0), (2.0, 0.5), (6.0, 1.0)];
        let text = super::text(&points, 0.0, 1.0).unwrap();
        assert!(text.lines().count() > 8 && text.contains("1.00"), "{text}");
        assert!(super::text(&[(1.0, 0.5)], 0.0, 1.0).is_none(), "one point is no curve");
    }
}
