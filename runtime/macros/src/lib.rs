//! The attributes `main` and `test` of the crate `runtime`, which re-exports and documents them.
//!
//! An attribute replaces a function by one that starts a runtime and runs the old function there:
//!
//! ```text
//! #[runtime::main(procs = 4)]              fn main() -> ExitCode {
//! async fn main() -> io::Result<()> {          async fn main() -> io::Result<()> { body }
//!     body                                     let builder = Builder::new().procs(4);
//! }                                            run_main(Some(builder), entry)
//!                                          }
//! ```
//!
//! The entry of a plain function is a closure that calls it, and that of an `async` function is its future. A
//! future that is not `Send` is made by a closure on the green thread, and stays there (`KindOf` in
//! `runtime/src/attributes.rs`).
//!
//! The value is turned into an `ExitCode` on the green thread. So it need not be `Send`, as std's `main` does
//! not need it.
//!
//! - `arguments`: what stands in the parentheses of the attribute.
//! - `function`: what the attribute demands of the function.
//! - `expand`: the new function.

mod arguments;
mod expand;
mod function;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Which of the attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Main,
    Test,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Main => "#[runtime::main]",
            Kind::Test => "#[runtime::test]",
        }
    }
}

#[allow(missing_docs, reason = "the crate `runtime` documents it, where its examples can run")]
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(Kind::Main, arguments.into(), item.into()).into()
}

#[allow(missing_docs, reason = "the crate `runtime` documents it, where its examples can run")]
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(Kind::Test, arguments.into(), item.into()).into()
}
