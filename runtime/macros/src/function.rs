//! What the attributes demand of the function.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Error, ItemFn, Result, ReturnType, Safety, Type};

use crate::Kind;

/// Parses the function under an attribute, and checks that the attribute can be on it.
pub(crate) fn parse(kind: Kind, item: TokenStream) -> Result<ItemFn> {
    let name = kind.name();
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        // If the item begins like a function, the parser's own error says what is wrong inside.
        return match syn::parse2::<syn::Item>(item.clone()) {
            Ok(other) => Err(Error::new_spanned(other, format!("`{name}` belongs on a function"))),
            Err(error) => Err(error),
        };
    };
    check(kind, &function)?;
    Ok(function)
}

fn check(kind: Kind, function: &ItemFn) -> Result<()> {
    let (name, signature) = (kind.name(), &function.sig);
    let refuse =
        |tokens: &dyn ToTokens, text: String| Err(Error::new_spanned(tokens.to_token_stream(), text));
    if kind == Kind::Main && signature.ident != "main" {
        let text = format!("`{name}` belongs on `main`: other functions call `runtime::block_on`");
        return refuse(&signature.ident, text);
    }
    if !signature.inputs.is_empty() {
        return refuse(&signature.inputs, format!("a function with `{name}` takes no arguments"));
    }
    if !signature.generics.params.is_empty() {
        return refuse(&signature.generics, format!("a function with `{name}` has no type parameters"));
    }
    if let Some(constness) = &signature.constness {
        return refuse(constness, format!("a function with `{name}` cannot be `const`"));
    }
    if let Safety::Unsafe(keyword) = &signature.safety {
        return refuse(keyword, format!("a function with `{name}` cannot be `unsafe`"));
    }
    if let Some(abi) = &signature.abi {
        return refuse(abi, format!("a function with `{name}` has Rust's own calling convention"));
    }
    if let Some(second) = function.attrs.iter().find(|attribute| is(attribute, "test")) {
        return refuse(second, format!("a second attribute for tests: `{name}` is enough, remove this one"));
    }
    Ok(())
}

/// Returns `true` if the last name of the attribute's path is `name`: `#[test]`, `#[other::test]`.
pub(crate) fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == name)
}

/// Returns `true` if the function returns `()`.
pub(crate) fn returns_nothing(function: &ItemFn) -> bool {
    match &function.sig.output {
        ReturnType::Default => true,
        ReturnType::Type(_, returned) => matches!(&**returned, Type::Tuple(tuple) if tuple.elems.is_empty()),
    }
}
