//! A small crate with each kind of dependency.

use std::path::PathBuf;

use crate::arrows::{self, Arrows};
use crate::crates::Crate;
use crate::methods;

const FILES: &[(&str, &str)] = &[
    ("lib.rs", "mod a; mod b; mod c; #[path = \"odd.rs\"] mod d; #[cfg(test)] mod unseen;"),
    // By a relative path, and by a re-export: the item is that of b/inner.rs.
    (
        "a.rs",
        "use super::c; use crate::b::Item; fn f(b: &super::b::B) { let _ = (c::made(), Item, b.shown()); }",
    ),
    // Extended in two files.
    ("b.rs", "mod inner; pub use inner::Item; pub struct B; impl B { pub fn own(&self) {} }"),
    ("b/inner.rs", "use super::B; pub struct Item; impl B { pub fn shown(&self) {} }"),
    // In a macro, and a variable with the name of a module.
    ("c.rs", "pub fn made() { let d = 1; println!(\"{}\", crate::d::N + d); } #[cfg(test)] use crate::a::f;"),
    ("odd.rs", "pub const N: u32 = 1; #[cfg(test)] mod tests { use crate::a::f; }"),
];

fn names(of: &Crate, arrows: &Arrows) -> Vec<String> {
    arrows.keys().map(|&(a, b)| format!("{}->{}", of.files[a].name, of.files[b].name)).collect()
}

#[test]
fn each_kind_of_dependency_is_found() {
    let folder = std::env::temp_dir().join(format!("layout-{}", std::process::id()));
    for (name, text) in FILES {
        let path: PathBuf = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let of = Crate::load(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        names(&of, &arrows::imports(&of)),
        ["a->b", "a->b/inner", "a->c", "b->b/inner", "b/inner->b", "c->odd"]
    );
    assert_eq!(names(&of, &methods::calls(&of)), ["a->b/inner"]);
}
