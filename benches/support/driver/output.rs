//! The result files of a driver: one name with several extensions.

use std::fs;
use std::io;
use std::path::Path;

/// Writes the page and the plot that the page shows. The name of the plot is an argument of the function that
/// makes the page.
///
/// # Errors
/// A folder or a file cannot be written.
pub fn write(out: &Path, page: impl FnOnce(&str) -> String, plot: &str) -> io::Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent)?;
    }
    let svg = out.with_added_extension("svg");
    let name = svg.file_name().unwrap_or_default().to_string_lossy();
    fs::write(out.with_added_extension("md"), page(&name))?;
    fs::write(&svg, plot)
}
