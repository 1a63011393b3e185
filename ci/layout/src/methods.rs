//! Dependencies by calls of methods of shared types: those that several files extend.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{ImplItem, Item, Type};

use crate::arrows::Arrows;
use crate::crates::{Crate, is_for_tests};

/// Methods that types of other crates have, too: a call says nothing of the type.
const OF_OTHERS: [&str; 6] = ["build", "first", "on_thread_start", "push_back", "thread_name", "write_all"];

/// Returns the files that call a method which only one other file defines.
pub(crate) fn calls(of: &Crate) -> Arrows {
    let defined = only_here(of);
    let mut arrows = Arrows::new();
    for module in &of.modules {
        let mut found = Calls(BTreeSet::new());
        module.items.iter().for_each(|item| found.visit_item(item));
        for name in found.0 {
            if let Some(&file) = defined.get(&name).filter(|&&file| file != module.file) {
                arrows.entry((module.file, file)).or_insert(name);
            }
        }
    }
    arrows
}

/// Returns the methods of shared types, each with its file. A name that several files define is left out.
fn only_here(of: &Crate) -> BTreeMap<String, usize> {
    // The files of each type, and of each name of a method; all methods of a type.
    let (mut extended, mut names) =
        (BTreeMap::<String, BTreeSet<usize>>::new(), BTreeMap::<String, BTreeSet<usize>>::new());
    let mut methods = BTreeMap::<String, BTreeSet<String>>::new();
    for module in &of.modules {
        for item in &module.items {
            let Item::Impl(item) = item else { continue };
            let Type::Path(of_type) = &*item.self_ty else { continue };
            let Some(of_type) = of_type.path.segments.last().map(|last| last.ident.to_string()) else {
                continue;
            };
            for method in &item.items {
                let ImplItem::Fn(method) = method else { continue };
                if is_for_tests(&method.attrs) || method.sig.receiver().is_none() {
                    continue;
                }
                let name = method.sig.ident.to_string();
                names.entry(name.clone()).or_default().insert(module.file);
                if item.trait_.is_none() {
                    extended.entry(of_type.clone()).or_default().insert(module.file);
                    methods.entry(of_type.clone()).or_default().insert(name);
                }
            }
        }
    }
    let shared = extended.iter().filter(|(_, files)| files.len() > 1).map(|(name, _)| name);
    let of_shared = shared.flat_map(|name| &methods[name]);
    of_shared
        .filter(|name| names[*name].len() == 1 && !OF_OTHERS.contains(&name.as_str()))
        .filter_map(|name| Some((name.clone(), *names[name].first()?)))
        .collect()
}

/// Collects the names of called methods.
struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.0.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }
}
