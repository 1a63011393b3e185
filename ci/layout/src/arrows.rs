//! Dependencies by paths.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::crates::{Crate, add_use, is_for_tests};

/// Pairs of files, of which the first depends on the second, with a name by which it does.
pub(crate) type Arrows = BTreeMap<(usize, usize), String>;

/// Returns the dependencies by paths.
pub(crate) fn imports(of: &Crate) -> Arrows {
    let mut arrows = Arrows::new();
    for (number, module) in of.modules.iter().enumerate() {
        let mut found = Paths { paths: Vec::new() };
        module.items.iter().for_each(|item| found.visit_item(item));
        for path in found.paths.iter().chain(module.uses.values()) {
            // A module is not used by itself: other paths name its items. And a variable may have its name.
            if let Some(Target::Item(file)) = resolve(of, number, path, 0)
                && file != module.file
            {
                arrows.entry((module.file, file)).or_insert_with(|| path.join("::"));
            }
        }
    }
    arrows
}

/// What a path leads to.
enum Target {
    Module(usize),
    /// An item, by its file.
    Item(usize),
}

/// A circle of re-exports ends there.
const DEEPEST: usize = 20;

/// Returns what a path in module `from` leads to. Returns `None` if it leaves the crate or is not known.
fn resolve(of: &Crate, from: usize, path: &[String], depth: usize) -> Option<Target> {
    if depth > DEEPEST {
        return None;
    }
    let mut at = from;
    let mut names = path.iter().map(String::as_str).peekable();
    match names.peek() {
        Some(&"crate") => at = 0,
        Some(&("super" | "self")) => {}
        // A name that a path begins with must be known here.
        Some(name) if is_known(of, from, name) => return walk(of, from, path, depth),
        _ => return None,
    }
    let mut taken = 0;
    while let Some(&name @ ("crate" | "super" | "self")) = names.peek() {
        if name == "super" {
            at = of.modules[at].parent?;
        }
        names.next();
        taken += 1;
    }
    walk(of, at, &path[taken..], depth)
}

fn is_known(of: &Crate, module: usize, name: &str) -> bool {
    let module = &of.modules[module];
    module.children.contains_key(name)
        || module.defined.contains(name)
        || module.uses.get(name).is_some_and(|path| path[0] != name)
}

/// Follows `path` from module `at`.
fn walk(of: &Crate, at: usize, path: &[String], depth: usize) -> Option<Target> {
    let Some((name, rest)) = path.split_first() else { return Some(Target::Module(at)) };
    let module = &of.modules[at];
    // A function may have the name of a module: what follows the name tells which is meant.
    let child = module.children.get(name).filter(|_| !(rest.is_empty() && module.defined.contains(name)));
    if let Some(&child) = child {
        return walk(of, child, rest, depth);
    }
    if module.defined.contains(name) {
        return Some(Target::Item(module.file));
    }
    if let Some(used) = module.uses.get(name).filter(|used| used.as_slice() != [name.as_str()]) {
        return match resolve(of, at, used, depth + 1)? {
            Target::Module(module) => walk(of, module, rest, depth + 1),
            item => Some(item),
        };
    }
    for glob in &module.globs {
        if let Some(Target::Module(inner)) = resolve(of, at, glob, depth + 1)
            && inner != at
            && is_known(of, inner, name)
        {
            return walk(of, inner, path, depth + 1);
        }
    }
    // Made by a macro, or an item of a trait or an enum.
    Some(Target::Item(module.file))
}

/// Collects the paths in code.
struct Paths {
    paths: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::a)` is no dependency.
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // Within a function.
        let mut scratch = crate::crates::Module::scratch();
        add_use(&mut scratch, &item.tree, &mut Vec::new());
        self.paths.extend(scratch.uses.into_values().chain(scratch.globs));
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if let syn::Item::Mod(item) = item
            && is_for_tests(&item.attrs)
        {
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        visit::visit_macro(self, item);
        paths_in(item.tokens.clone(), &mut self.paths);
    }
}

/// Collects what looks like a path in the tokens of a macro.
fn paths_in(tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    paths.extend((path.len() > 1).then(|| std::mem::take(&mut path)));
                    path.clear();
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                paths.extend((path.len() > 1).then(|| std::mem::take(&mut path)));
                path.clear();
                colons = 0;
                if let TokenTree::Group(group) = other {
                    paths_in(group.stream(), paths);
                }
            }
        }
    }
    paths.extend((path.len() > 1).then_some(path));
}
