//! Runs the basics twice, with the allocator that a feature names, and prints `ok`. The first argument is for
//! how many milliseconds the allocator is stressed.

mod basics;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(feature = "snmalloc")]
#[global_allocator]
static ALLOCATOR: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

fn main() {
    let time = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let numbers = [0; 2].map(|_| basics::all(std::time::Duration::from_millis(time)));
    println!("ok {numbers:?}");
}
