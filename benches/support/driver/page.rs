//! A page of Markdown.

use std::fmt::{Display, Write as _};

use crate::options::Common;

/// A page under construction.
pub struct Page(String);

impl Page {
    /// Begins a page with a title, a description, and the things that run in turn. If the machine was `busy`,
    /// the page warns that its figures are unreliable.
    pub fn new(title: &str, about: &str, who: &str, options: &Common, busy: bool) -> Page {
        let mut page = Page(format!("# {title}\n\n"));
        let rounds = options.rounds;
        page.paragraph(format_args!(
            "{about} Medians of {rounds} round(s), {who} in turn in each; the least and the greatest in brackets. Figures \
             of one run can be compared with each other, and with nothing else."
        ));
        if options.quick {
            page.paragraph("**Small sizes (`--quick`): these figures mean nothing.**");
        }
        if busy {
            page.paragraph("**The machine was busy: these figures mean little.**");
        }
        page
    }

    /// Adds text and an empty line.
    pub fn paragraph(&mut self, text: impl Display) {
        write!(self.0, "{text}\n\n").expect("a String takes it");
    }

    /// Adds a table with these column names and rows.
    pub fn table<R: IntoIterator<Item: Display>>(
        &mut self,
        names: impl IntoIterator<Item: Display>,
        rows: impl IntoIterator<Item = R>,
    ) {
        let columns = self.row(names);
        self.row((0..columns).map(|_| "---"));
        for row in rows {
            self.row(row);
        }
        self.0.push('\n');
    }

    /// The number of cells.
    fn row(&mut self, cells: impl IntoIterator<Item: Display>) -> usize {
        self.0.push('|');
        let mut n = 0;
        for cell in cells {
            let cell = cell.to_string().trim().replace('|', "\\|").replace('\n', " ");
            let space = if cell.is_empty() { "" } else { " " };
            write!(self.0, "{space}{cell} |").expect("a String takes it");
            n += 1;
        }
        self.0.push('\n');
        n
    }

    /// Returns the whole page.
    pub fn finish(mut self) -> String {
        self.0.truncate(self.0.trim_end().len());
        self.0 + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn tables() {
        let mut page = Page(String::new());
        page.paragraph("text");
        page.table(["", "b"], [["1", " 2 "], ["a|b", "c\nd"]]);
        assert_eq!(page.finish(), "text\n\n| | b |\n| --- | --- |\n| 1 | 2 |\n| a\\|b | c d |\n");
    }
}
