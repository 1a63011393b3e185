//! A drawing in SVG format, with text and a few shapes.

use std::fmt::{Display, Write as _};

/// A drawing under construction. Lengths are in pixels, from the upper left corner.
pub struct Svg(String);

impl Svg {
    /// Begins a white drawing of this size.
    pub fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg(String::new());
        svg.add(format_args!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12">"##
        ));
        svg.add(r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
        svg
    }

    /// Adds text that begins at `x`; `y` is the base line of the text.
    pub fn text(&mut self, x: f64, y: f64, text: &str) {
        self.text_with("", x, y, text);
    }

    /// Adds text with attributes, such as ` text-anchor="end"`.
    pub fn text_with(&mut self, attributes: &str, x: f64, y: f64, text: &str) {
        self.add(format_args!(r##"<text x="{x:.1}" y="{y:.1}"{attributes}>{}</text>"##, escaped(text)));
    }

    /// Adds a filled rectangle.
    pub fn bar(&mut self, x: f64, y: f64, (width, height): (f64, f64), colour: &str) {
        self.add(format_args!(
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}" fill-opacity="0.85"/>"##
        ));
    }

    /// Adds a dot with a label that a browser shows under the pointer.
    pub fn dot(&mut self, x: f64, y: f64, colour: &str, title: &str) {
        self.add(format_args!(
            r##"<circle cx="{x:.1}" cy="{y:.1}" r="5" fill="{colour}" fill-opacity="0.85"><title>{}</title></circle>"##,
            escaped(title)
        ));
    }

    /// Adds a line from left to right.
    pub fn across(&mut self, (from, to): (f64, f64), y: f64, colour: &str, width: f64) {
        self.add(format_args!(
            r##"<path d="M{from:.1} {y:.1}H{to:.1}" stroke="{colour}" stroke-width="{width}"/>"##
        ));
    }

    /// Adds a line from top to bottom.
    pub fn down(&mut self, x: f64, (from, to): (f64, f64), colour: &str, width: f64) {
        self.add(format_args!(
            r##"<path d="M{x:.1} {from:.1}V{to:.1}" stroke="{colour}" stroke-width="{width}"/>"##
        ));
    }

    /// Returns the whole document.
    pub fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    fn add(&mut self, element: impl Display) {
        writeln!(self.0, "{element}").expect("a String takes it");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::Svg;

    #[test]
    fn names_are_text() {
        let mut svg = Svg::new(10.0, 20.0);
        svg.text(1.0, 2.0, "a<b & c>");
        svg.dot(1.0, 2.0, "#000000", "<d>");
        let svg = svg.finish();
        assert!(
            svg.contains(">a&lt;b &amp; c&gt;</text>") && svg.contains("<title>&lt;d&gt;</title>"),
            "{svg}"
        );
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
