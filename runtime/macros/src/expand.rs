//! The function that takes the place of the one under the attribute.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ItemFn, ReturnType};

use crate::Kind;
use crate::arguments::Arguments;
use crate::function;

/// Expands an attribute. An error becomes a `compile_error!` beside a function that compiles, so it is the
/// only error.
pub(crate) fn attribute(kind: Kind, arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = Arguments::parse(kind, arguments);
    match (arguments, function::parse(kind, item.clone())) {
        (Ok(arguments), Ok(function)) => expand(kind, &arguments, &function),
        (Err(error), Ok(function)) => {
            let (error, expanded) =
                (error.to_compile_error(), expand(kind, &Arguments::default(), &function));
            quote!(#error #expanded)
        }
        (_, Err(error)) => {
            let error = error.to_compile_error();
            quote!(#error #item)
        }
    }
}

fn expand(kind: Kind, arguments: &Arguments, function: &ItemFn) -> TokenStream {
    match kind {
        Kind::Main => main(arguments, function),
        Kind::Test => test(arguments, function),
    }
}

fn main(arguments: &Arguments, function: &ItemFn) -> TokenStream {
    let builder = match arguments.has_settings() {
        true => {
            let builder = arguments.builder();
            quote!(::core::option::Option::Some(#builder))
        }
        false => quote!(::core::option::Option::None),
    };
    let (krate, entry) = (&arguments.krate, entry(arguments, function));
    let (outer, inner) = (outer(function, true), inner(function));
    quote! {
        #outer {
            #inner
            #krate::__attributes::run_main(#builder, #entry)
        }
    }
}

fn test(arguments: &Arguments, function: &ItemFn) -> TokenStream {
    // The test function of `#[should_panic]` must return `()`. If it is late, it fails by returning.
    let should_panic = function.attrs.iter().any(|attribute| function::is(attribute, "should_panic"));
    let returns = !function::returns_nothing(function);
    let end = (!returns).then(|| quote!(;));
    let (outer, inner) = (outer(function, returns), inner(function));
    let runs = match &arguments.sim {
        Some(seeds) => simulated(arguments, seeds.as_ref(), function),
        None => real(arguments, should_panic, function),
    };
    quote! {
        #[::core::prelude::v1::test]
        #outer {
            #inner
            #runs #end
        }
    }
}

/// Returns the expression that runs a test on a runtime of its own.
fn real(arguments: &Arguments, should_panic: bool, function: &ItemFn) -> TokenStream {
    let (krate, builder, entry) = (&arguments.krate, arguments.builder(), entry(arguments, function));
    let timeout = match &arguments.timeout {
        Some(timeout) => quote!(::core::option::Option::Some(#timeout)),
        None => quote!(::core::option::Option::None),
    };
    quote!(#krate::__attributes::run_test(#builder, #timeout, #should_panic, #entry))
}

/// Returns the expression that runs a test in simulations.
fn simulated(arguments: &Arguments, seeds: Option<&Expr>, function: &ItemFn) -> TokenStream {
    let (krate, builder, name) = (&arguments.krate, arguments.builder(), &function.sig.ident);
    let span = value_span(function);
    let report = quote_spanned!(span=> report);
    let seeds = seeds.map_or_else(|| quote!(#krate::__attributes::SEEDS), ToTokens::to_token_stream);
    // A future is made in each simulation, and stays on its OS thread.
    let main = match function.sig.asyncness {
        Some(_) => quote!(|| #krate::block_on_local(#name())),
        None => quote!(#name),
    };
    quote!(#krate::__attributes::run_simulated_test(#builder, #seeds, || {
        #krate::__attributes::#report(#main)
    }))
}

/// Returns the place to which an error about the type of the value points: the type.
fn value_span(function: &ItemFn) -> Span {
    match &function.sig.output {
        ReturnType::Default => function.sig.ident.span(),
        ReturnType::Type(_, returned) => returned.span(),
    }
}

/// Returns the attributes and the signature of the new function.
fn outer(function: &ItemFn, returns: bool) -> TokenStream {
    let (attributes, visibility, name) = (&function.attrs, &function.vis, &function.sig.ident);
    let output = returns.then(|| quote!(-> ::std::process::ExitCode));
    quote!(#(#attributes)* #visibility fn #name() #output)
}

/// Returns the function as it was written. The attributes are on the outer one.
fn inner(function: &ItemFn) -> TokenStream {
    let (signature, block) = (&function.sig, &function.block);
    quote!(#signature #block)
}

/// Returns the closure or the future that the runtime runs. Its value is an `ExitCode`.
fn entry(arguments: &Arguments, function: &ItemFn) -> TokenStream {
    let (krate, name) = (&arguments.krate, &function.sig.ident);
    let span = value_span(function);
    if function.sig.asyncness.is_some() {
        let report = quote_spanned!(span=> report_async);
        quote!({
            #[allow(unused_imports)]
            use #krate::__attributes::{IsLocal as _, IsTask as _};
            let make = || #krate::__attributes::#report(#name());
            (&#krate::__attributes::kind_of(&make)).kind().entry(make)
        })
    } else {
        let report = quote_spanned!(span=> report);
        quote!(|| #krate::__attributes::#report(#name))
    }
}
