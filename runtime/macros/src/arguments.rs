//! The arguments of an attribute: `name = value` or `sim`, separated by commas.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Lit, Path, Result, Token, parse_quote};

use crate::Kind;

/// The methods of `runtime::Builder` that an argument may call.
const SETTINGS: [&str; 9] = [
    "procs",
    "migration",
    "thread_locals",
    "stack_size",
    "max_threads",
    "blocking_threads",
    "sysmon",
    "thread_name",
    "tokio",
];

/// The methods of `runtime::sim::Builder` that an argument may call, of a test with `sim`.
const SIM_SETTINGS: [&str; 6] = ["strategy", "faults", "max_steps", "threads", "check_determinism", "shrink"];

/// The settings of which 0 is not allowed.
const AT_LEAST_ONE: [&str; 5] = ["procs", "max_threads", "blocking_threads", "seeds", "threads"];

/// The parsed arguments of an attribute.
pub(crate) struct Arguments {
    /// The path of the crate `runtime`.
    pub(crate) krate: Path,
    /// Methods of the builder and their argument.
    settings: Vec<Argument>,
    /// How long a test may take.
    pub(crate) timeout: Option<Expr>,
    /// Whether a test is simulated, and with how many seeds.
    pub(crate) sim: Option<Option<Expr>>,
}

/// One argument.
struct Argument {
    name: Ident,
    value: Expr,
}

/// An argument as it is written. Only `sim` has no value.
enum Written {
    Sim(Ident),
    Valued(Box<Argument>),
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(syn::Ident::peek_any) {
            return Err(input.error("expected an argument, such as `procs = 4`"));
        }
        // `crate` is a keyword.
        let name = Ident::parse_any(input)?;
        if name == "sim" {
            return match input.peek(Token![=]) {
                true => Err(Error::new(name.span(), "`sim` has no value: write `sim`")),
                false => Ok(Written::Sim(name)),
            };
        }
        if !input.peek(Token![=]) {
            return Err(Error::new(name.span(), format!("`{name}` has no value: write `{name} = ..`")));
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(Error::new(name.span(), format!("`{name}` has no value: write `{name} = ..`")));
        }
        Ok(Written::Valued(Box::new(Argument { name, value: input.parse()? })))
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Arguments { krate: parse_quote!(::runtime), settings: Vec::new(), timeout: None, sim: None }
    }
}

impl Arguments {
    /// Parses the arguments of an attribute.
    pub(crate) fn parse(kind: Kind, tokens: TokenStream) -> Result<Self> {
        let mut all = Arguments::default();
        let written = Punctuated::<Written, Token![,]>::parse_terminated.parse2(tokens)?;
        let mut names = Vec::<&Ident>::new();
        for name in written.iter().map(Written::name) {
            if names.contains(&name) {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            names.push(name);
        }
        if let Some(name) = names.iter().find(|name| **name == "sim") {
            if kind == Kind::Main {
                return Err(Error::new(name.span(), "`sim` is an argument of `#[runtime::test]` only"));
            }
            all.sim = Some(None);
        }
        for argument in written.into_iter().filter_map(Written::valued) {
            let name = argument.name.to_string();
            if all.sim.is_some() {
                all.add_simulated(&name, argument)
            } else {
                all.add(kind, &name, argument)
            }?;
        }
        Ok(all)
    }

    fn add_simulated(&mut self, name: &str, argument: Argument) -> Result<()> {
        match name {
            "crate" => self.krate = path(&argument.value)?,
            "seeds" => self.sim = Some(Some(checked(argument)?.value)),
            _ if SIM_SETTINGS.contains(&name) => self.settings.push(checked(argument)?),
            _ => {
                let settings = SIM_SETTINGS.map(|name| format!("`{name}`")).join(", ");
                let text = format!(
                    "`{name}` is no argument of `#[runtime::test(sim)]`: it has `seeds`, {settings}, `crate`"
                );
                return Err(Error::new(argument.name.span(), text));
            }
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, name: &str, argument: Argument) -> Result<()> {
        match name {
            "crate" => self.krate = path(&argument.value)?,
            "timeout" if kind == Kind::Test => self.timeout = Some(argument.value),
            "timeout" => {
                let text = "`timeout` is an argument of `#[runtime::test]` only";
                return Err(Error::new(argument.name.span(), text));
            }
            _ if SETTINGS.contains(&name) => self.settings.push(checked(argument)?),
            _ if kind == Kind::Test
                && (name == "seeds" || SIM_SETTINGS.contains(&name))
                && name != "threads" =>
            {
                let text = format!("`{name}` is an argument of a simulated test: write `sim, {name} = ..`");
                return Err(Error::new(argument.name.span(), text));
            }
            _ => return Err(Error::new(argument.name.span(), unknown(kind, name))),
        }
        Ok(())
    }

    /// Returns `true` if the attribute sets something of the runtime.
    pub(crate) fn has_settings(&self) -> bool {
        !self.settings.is_empty()
    }

    /// Returns an expression that makes the builder, of a runtime or of a simulation.
    pub(crate) fn builder(&self) -> TokenStream {
        let krate = &self.krate;
        let krate = if self.sim.is_some() { quote!(#krate::sim) } else { quote!(#krate) };
        let (names, values) =
            self.settings.iter().map(|set| (&set.name, &set.value)).unzip::<_, _, Vec<_>, Vec<_>>();
        quote!(#krate::Builder::new() #(.#names(#values))*)
    }
}

impl Written {
    fn name(&self) -> &Ident {
        match self {
            Written::Sim(name) => name,
            Written::Valued(argument) => &argument.name,
        }
    }

    fn valued(self) -> Option<Argument> {
        match self {
            Written::Sim(_) => None,
            Written::Valued(argument) => Some(*argument),
        }
    }
}

/// Refuses a setting of 0 where the builder would refuse it at run time.
fn checked(argument: Argument) -> Result<Argument> {
    if AT_LEAST_ONE.iter().any(|name| argument.name == name)
        && let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = &argument.value
        && number.base10_parse::<u128>().is_ok_and(|number| number == 0)
    {
        return Err(Error::new(number.span(), format!("`{}` must be at least 1", argument.name)));
    }
    Ok(argument)
}

/// Returns the path that a string literal contains.
fn path(value: &Expr) -> Result<Path> {
    let text = "expected the crate's path in quotes, such as `crate = \"my_runtime\"`";
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => {
            literal.parse_with(Path::parse_mod_style).map_err(|_| Error::new(literal.span(), text))
        }
        other => Err(Error::new_spanned(other, text)),
    }
}

fn unknown(kind: Kind, name: &str) -> String {
    let timeout = if kind == Kind::Test { "`timeout`, `sim`, " } else { "" };
    let settings = SETTINGS.map(|name| format!("`{name}`")).join(", ");
    format!("`{name}` is no argument of `{}`: it has {settings}, {timeout}`crate`", kind.name())
}
