//! Which error an attribute gives for which mistake, and to which part of the source the error points.

use proc_macro2::{TokenStream, TokenTree};

use crate::{Kind, expand};

/// Expands an attribute with these sources.
fn expanded(kind: Kind, arguments: &str, item: &str) -> TokenStream {
    expand::attribute(kind, arguments.parse().unwrap(), item.parse().unwrap())
}

/// Returns the message of the expansion's `compile_error!`, and the source at the place of that error.
fn error(kind: Kind, arguments: &str, item: &str) -> Option<(String, String)> {
    let tokens: Vec<_> = expanded(kind, arguments, item).into_iter().collect();
    let at =
        tokens.iter().position(|token| matches!(token, TokenTree::Ident(name) if name == "compile_error"))?;
    let TokenTree::Group(group) = &tokens[at + 2] else { panic!("compile_error!{{..}}: {tokens:?}") };
    let message = group.stream().to_string();
    // The compiler joins the places of the macro's first and last token.
    let (first, last) = (tokens[at].span(), group.span());
    let source = first.join(last).and_then(|span| span.source_text());
    Some((message.trim_matches('"').to_string(), source.unwrap_or_default()))
}

#[track_caller]
fn refused(kind: Kind, arguments: &str, item: &str, message: &str, source: &str) {
    let (said, at) = error(kind, arguments, item).expect("an error");
    assert_eq!((said.as_str(), at.as_str()), (message, source), "{arguments} {item}");
}

const MAIN: &str = "fn main() {}";

#[test]
fn arguments_are_refused_where_they_are_wrong() {
    let all = "`procs`, `migration`, `thread_locals`, `stack_size`, `max_threads`, `blocking_threads`, `sysmon`, `thread_name`, `tokio`, ";
    let unknown = format!("`threads` is no argument of `#[runtime::main]`: it has {all}`crate`");
    refused(Kind::Main, "procs = 2, threads = 4", MAIN, &unknown, "threads");
    let unknown =
        format!("`threads` is no argument of `#[runtime::test]`: it has {all}`timeout`, `sim`, `crate`");
    refused(Kind::Test, "threads = 4", "fn works() {}", &unknown, "threads");
    refused(Kind::Main, "procs = 2, procs = 3", MAIN, "`procs` is given twice", "procs");
    refused(Kind::Main, "procs", MAIN, "`procs` has no value: write `procs = ..`", "procs");
    refused(Kind::Main, "sysmon(false)", MAIN, "`sysmon` has no value: write `sysmon = ..`", "sysmon");
    refused(Kind::Main, "procs = , sysmon = true", MAIN, "`procs` has no value: write `procs = ..`", "procs");
    refused(Kind::Main, "4", MAIN, "expected an argument, such as `procs = 4`", "4");
    refused(Kind::Main, "procs = 0", MAIN, "`procs` must be at least 1", "0");
    refused(Kind::Main, "blocking_threads = 0x0", MAIN, "`blocking_threads` must be at least 1", "0x0");
    let late = "`timeout` is an argument of `#[runtime::test]` only";
    refused(Kind::Main, "timeout = SECOND", MAIN, late, "timeout");
    let path = "expected the crate's path in quotes, such as `crate = \\\"my_runtime\\\"`";
    refused(Kind::Main, "crate = my_runtime", MAIN, path, "my_runtime");
    refused(Kind::Main, "crate = \"my runtime\"", MAIN, path, "\"my runtime\"");
}

#[test]
fn arguments_of_simulated_tests_are_refused_where_they_are_wrong() {
    let test = "fn works() {}";
    let only = "`sim` is an argument of `#[runtime::test]` only";
    refused(Kind::Main, "sim", MAIN, only, "sim");
    refused(Kind::Test, "sim = true", test, "`sim` has no value: write `sim`", "sim");
    refused(Kind::Test, "sim, sim", test, "`sim` is given twice", "sim");
    refused(Kind::Test, "sim, seeds", test, "`seeds` has no value: write `seeds = ..`", "seeds");
    refused(Kind::Test, "seeds = 0, sim", test, "`seeds` must be at least 1", "0");
    let real = "`seeds` is an argument of a simulated test: write `sim, seeds = ..`";
    refused(Kind::Test, "seeds = 10", test, real, "seeds");
    let other = "`procs` is no argument of `#[runtime::test(sim)]`: it has `seeds`, `strategy`, `faults`, `max_steps`, \
                 `threads`, `check_determinism`, `shrink`, `crate`";
    refused(Kind::Test, "procs = 2, sim", test, other, "procs");
    refused(Kind::Test, "sim, timeout = SECOND", test, &other.replace("procs", "timeout"), "timeout");
}

#[test]
fn a_simulated_test_explores() {
    let source = "async fn works() {}";
    let tokens = expanded(Kind::Test, "sim, shrink = false, crate = \"green\"", source).to_string();
    let call = "green :: __attributes :: run_simulated_test (green :: sim :: Builder :: new () . shrink (false) , \
                green :: __attributes :: SEEDS ,";
    assert!(tokens.contains(call), "{tokens}");
    let tokens = expanded(Kind::Test, "seeds = 7 * 7, sim", source).to_string();
    assert!(tokens.contains("sim :: Builder :: new () , 7 * 7 ,"), "{tokens}");
}

#[test]
fn functions_are_refused_where_they_are_wrong() {
    let name = "`#[runtime::main]` belongs on `main`: other functions call `runtime::block_on`";
    refused(Kind::Main, "", "async fn helper() {}", name, "helper");
    refused(Kind::Main, "", "struct Main;", "`#[runtime::main]` belongs on a function", "struct Main;");
    let arguments = "a function with `#[runtime::test]` takes no arguments";
    refused(Kind::Test, "", "fn works(a: u8, b: u8) {}", arguments, "a: u8, b: u8");
    let generic = "a function with `#[runtime::test]` has no type parameters";
    refused(Kind::Test, "", "fn works<T>() {}", generic, "<T>");
    let keyword = "a function with `#[runtime::main]` cannot be `unsafe`";
    refused(Kind::Main, "", "unsafe fn main() {}", keyword, "unsafe");
    let keyword = "a function with `#[runtime::main]` cannot be `const`";
    refused(Kind::Main, "", "const fn main() {}", keyword, "const");
    let foreign = "a function with `#[runtime::main]` has Rust's own calling convention";
    refused(Kind::Main, "", "extern \"C\" fn main() {}", foreign, "extern \"C\"");
    let second = "a second attribute for tests: `#[runtime::test]` is enough, remove this one";
    refused(Kind::Test, "", "#[test] fn works() {}", second, "#[test]");
    refused(Kind::Test, "", "#[tokio::test] async fn works() {}", second, "#[tokio::test]");
}

#[test]
fn after_a_wrong_argument_the_function_is_expanded_nevertheless() {
    let tokens = expanded(Kind::Main, "wrong = 1", "async fn main() { work().await }").to_string();
    assert!(tokens.contains("compile_error") && tokens.contains("run_main"), "{tokens}");
}

#[test]
fn arguments_become_calls_of_the_builder() {
    let arguments = "procs = 1 + 1, thread_name = \"a\", crate = \"other::name\"";
    let tokens = expanded(Kind::Main, arguments, MAIN).to_string();
    let builder = "other :: name :: Builder :: new () . procs (1 + 1) . thread_name (\"a\")";
    assert!(tokens.contains(builder) && !tokens.contains(":: runtime"), "{tokens}");
    assert!(!expanded(Kind::Main, "", MAIN).to_string().contains("Builder"));
}

#[test]
fn attributes_and_visibility_stay_on_the_new_function() {
    let source = "/// About.\n#[ignore = \"slow\"] pub(crate) async fn works() -> Result<(), u8> { Ok(()) }";
    let tokens = expanded(Kind::Test, "", source).to_string();
    let outer = "[ignore = \"slow\"] pub (crate) fn works () -> :: std :: process :: ExitCode {";
    let inner = "async fn works () -> Result < () , u8 > {";
    assert!(tokens.contains(outer) && tokens.contains(inner), "{tokens}");
    assert_eq!(tokens.matches("ignore").count(), 1, "{tokens}");
}
