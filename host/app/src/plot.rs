//! Curves as an SVG file.

use crate::{AppError, RequestError};
use plotters::prelude::*;
use std::path::Path;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name, for the legend.
    pub name: String,
    /// x and y, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// Pixels of an SVG plot.
const SVG: (u32, u32) = (900, 480);
/// Distinct on white for most eyes (Okabe and Ito 2008).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

/// A curve is smoothed over this share of its points: one of so many.
pub(crate) const SMOOTHING: usize = 20;

/// Moving averages, so that a noisy curve can be read.
pub fn smoothed(values: &[f64], window: usize) -> Vec<(f64, f64)> {
    let window = window.max(1);
    (0..values.len())
        .filter_map(|end| {
            let start = (end + 1).saturating_sub(window);
            let part = values.get(start..=end)?;
            Some((end as f64 + 1.0, part.iter().sum::<f64>() / part.len() as f64))
        })
        .collect()
}

/// The extension of a plot's file name.
const ENDING: &str = "svg";
/// The first bytes of a plot.
const BEGINS: &[u8] = b"<svg";

/// Refuses a file that a plot must not replace, or cannot be written to, before anything is played.
///
/// # Errors
/// The file name is not that of a plot, the file has other contents, or it or its folder cannot be written.
pub fn check(path: &Path) -> Result<(), RequestError> {
    let shown = path.display();
    if path == Path::new("-") {
        return Err(RequestError::Target("-: the drawing is written to a file; name one that ends in .svg".into()));
    }
    if path.is_dir() {
        let inside = path.join("curve").with_extension(ENDING);
        return Err(RequestError::Target(format!("{shown} is a folder; name a file in it, as {}", inside.display())));
    }
    if !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(ENDING)) {
        let named = if path.file_name().is_some() { path } else { Path::new("curve") }.with_extension(ENDING);
        return Err(RequestError::Target(format!(
            "{shown} is not the name of an SVG drawing; name it {}",
            named.display()
        )));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(RequestError::Target(format!(
            "{}: there is no such folder; make it, or name another file",
            folder.display()
        )));
    }
    let tried = if path.exists() { holds_a_drawing(path) } else { tempfile::tempfile_in(folder).map(|_| true) };
    match tried {
        Ok(true) => Ok(()),
        Ok(false) => Err(RequestError::Target(format!("{shown} exists and is not a drawing; name another file"))),
        Err(error) => Err(RequestError::Target(format!("{shown} cannot be written: {error}; name another file"))),
    }
}

/// Whether a file may be written, and contains a plot, or nothing, as after an interrupted write.
fn holds_a_drawing(path: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    // Opening a pipe would block until its other end is opened.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut begins = Vec::new();
    let file = std::fs::OpenOptions::new().read(true).append(true).open(path)?;
    file.take(BEGINS.len() as u64).read_to_end(&mut begins)?;
    Ok(begins.is_empty() || begins == BEGINS)
}

/// Writes curves into an SVG file. `levels` are horizontal lines with names.
///
/// # Errors
/// The file cannot be written.
pub fn svg(
    path: &Path,
    title: &str,
    (x_name, y_name): (&str, &str),
    curves: &[Curve],
    levels: &[(String, f64)],
) -> Result<(), AppError> {
    let drawing = draw(title, (x_name, y_name), curves, levels)
        .map_err(|why| AppError::Host(format!("{}: the plot could not be drawn: {why}", path.display())))?;
    std::fs::write(path, drawing).map_err(|error| AppError::Io { path: path.display().to_string(), error })
}

fn draw(
    title: &str,
    (x_name, y_name): (&str, &str),
    curves: &[Curve],
    levels: &[(String, f64)],
) -> Result<String, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let last = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let heights = || all().map(|(_, y)| *y).chain(levels.iter().map(|(_, y)| *y));
    let (low, high) = (heights().fold(0.0, f64::min), heights().fold(1.0, f64::max));
    let mut drawing = String::new();
    {
        let root = SVGBackend::with_string(&mut drawing, SVG).into_drawing_area();
        root.fill(&WHITE).map_err(|error| told(&error))?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..last, low..high)
            .map_err(|error| told(&error))?;
        chart.configure_mesh().x_desc(x_name).y_desc(y_name).draw().map_err(|error| told(&error))?;
        let colours = COLOURS.iter().cycle();
        for (curve, colour) in curves.iter().zip(colours.clone()) {
            let line = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2));
            let series = chart.draw_series(line).map_err(|error| told(&error))?;
            let colour = *colour;
            series
                .label(curve.name.clone())
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        for ((name, height), colour) in levels.iter().zip(colours.skip(curves.len())) {
            let line = DashedLineSeries::new([(0.0, *height), (last, *height)], 6, 4, colour.stroke_width(1));
            let series = chart.draw_series(line).map_err(|error| told(&error))?;
            let colour = *colour;
            series
                .label(format!("{name} {height:.2}"))
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()
            .map_err(|error| told(&error))?;
        root.present().map_err(|error| told(&error))?;
    }
    Ok(drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path, says: Option<&str>) {
        let why = check(path).err().map(|why| why.to_string());
        match says {
            Some(part) => assert!(why.as_ref().is_some_and(|why| why.contains(part)), "{part}: {why:?}"),
            None => assert_eq!(why, None, "{}", path.display()),
        }
    }

    #[test]
    fn a_drawing_replaces_only_drawings() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old, other, empty) = (
            folder.path().join("new.svg"),
            folder.path().join("old.SVG"),
            folder.path().join("other.svg"),
            folder.path().join("empty.svg"),
        );
        std::fs::write(&old, "<svg/>").unwrap();
        std::fs::write(&other, "a text").unwrap();
        std::fs::write(&empty, "").unwrap();
        refused(&new, None);
        assert!(!new.exists(), "the check creates no file");
        refused(&old, None);
        assert_eq!(std::fs::read(&old).unwrap(), b"<svg/>", "the check changes no file");
        refused(&empty, None);
        refused(&other, Some("exists and is not a drawing; name another file"));
    }

    #[test]
    fn invalid_targets_of_a_drawing_are_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        refused(Path::new("-"), Some("name one that ends in .svg"));
        refused(folder.path(), Some("is a folder; name a file in it, as "));
        refused(Path::new(""), Some("is not the name of an SVG drawing; name it curve.svg"));
        refused(&folder.path().join("a.png"), Some("a.svg"));
        refused(&folder.path().join("plain"), Some("plain.svg"));
        refused(&folder.path().join("nowhere/a.svg"), Some("there is no such folder; make it"));
        let named_like_a_drawing = folder.path().join("folder.svg");
        std::fs::create_dir(&named_like_a_drawing).unwrap();
        refused(&named_like_a_drawing, Some("is a folder"));
        // Even root cannot write there.
        #[cfg(target_os = "linux")]
        refused(Path::new("/proc/a.svg"), Some("cannot be written"));
        #[cfg(target_os = "linux")]
        refused(Path::new("/proc/self/status.svg"), Some("cannot be written"));
    }

    #[test]
    fn a_curve_can_be_read_in_a_browser() {
        let points = smoothed(&[0.0, 1.0, 0.0, 1.0, 1.0, 1.0], 2);
        assert_eq!(points.first(), Some(&(1.0, 0.0)));
        assert_eq!(points.last(), Some(&(6.0, 1.0)));
        let curve = Curve { name: "reward <a>".into(), points };
        let drawing = draw("t", ("iteration", "reward"), &[curve], &[("oracle".into(), 0.9)]).unwrap();
        assert!(drawing.starts_with("<svg") && drawing.contains("reward &lt;a&gt;") && drawing.contains("oracle 0.90"));
    }
}
