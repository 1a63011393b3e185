//! Plots in SVG format, drawn by plotters. Lengths are in pixels, from the upper left corner.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;
pub use plotters::style::text_anchor::HPos;
use plotters::style::text_anchor::{Pos, VPos};

/// A part of a drawing.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What drawing returns. An SVG document in memory never fails.
pub type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// The colour of text.
pub const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);

/// The colour of lines that help to compare.
pub const PALE: RGBColor = RGBColor(0xD8, 0xD8, 0xD8);

/// Returns the document of a white drawing of this width and height, on which `draw` has drawn.
///
/// # Panics
/// If `draw` fails.
pub fn document(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
    drawn.expect("a String takes every drawing");
    drop(area);
    svg
}

/// Returns the style of text with a height of `size`. The position of the text is at the left, in the middle
/// or at the right of it, and at half its height.
pub fn text(size: f64, at: HPos) -> TextStyle<'static> {
    // The backend for SVG divides all sizes by 1.24.
    ("sans-serif", size * 1.24).into_font().color(&INK).pos(Pos::new(at, VPos::Center))
}

/// Returns the style of bold text.
pub fn bold(size: f64, at: HPos) -> TextStyle<'static> {
    let mut style = text(size, at);
    style.font = style.font.style(FontStyle::Bold);
    style
}

/// Adds text.
///
/// # Errors
/// None: see [`Drawn`].
pub fn write(area: &Area<'_>, text: &str, at: (i32, i32), style: TextStyle<'_>) -> Drawn {
    area.draw(&Text::new(text, at, style))
}

/// Returns about how wide a text of this size is.
pub fn width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * size * 0.56).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::{HPos, document, text, write};

    #[test]
    fn names_are_text() {
        let svg = document((10, 20), |area| write(area, "a<b & c>", (1, 2), text(12.0, HPos::Left)));
        assert!(svg.contains("\na&lt;b &amp; c&gt;\n</text>"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
