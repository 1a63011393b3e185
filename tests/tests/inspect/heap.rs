//! Heap profiles: what was allocated where, what of it is in use, and what is lost. This program's global
//! allocator takes the samples, so all its tests run over it.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::alloc::System;
use std::cell::RefCell;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;

use runtime::channel::{bounded, unbounded};
use runtime::profile::{self, Heap, HeapSite, Profiled, heap, set_heap_rate};
use runtime::{Builder, ThreadLocals, debug, spawn, yield_now};
use tests::{child, on};

#[global_allocator]
static ALLOCATOR: Profiled<System> = Profiled::new(System);

const SIZE: usize = 1000;

/// Returns the sites with a function of this file. Its path may be missing.
fn sites<'h>(heap: &'h Heap, function: &str) -> Vec<&'h HeapSite> {
    let is_it = |name: &str| name.rsplit("::").next() == Some(function);
    let has = |site: &&HeapSite| site.stack.iter().any(|frame| is_it(&frame.function));
    heap.sites().iter().filter(has).collect()
}

/// Returns the sums of these sites: allocated objects and bytes, objects and bytes in use.
fn sums(heap: &Heap, function: &str) -> [u64; 4] {
    sites(heap, function).iter().fold([0; 4], |sum, site| {
        let (all, used) = (site.allocated, site.in_use);
        let more = [all.objects, all.bytes, used.objects, used.bytes];
        std::array::from_fn(|i| sum[i] + more[i])
    })
}

fn sums_now(function: &str) -> [u64; 4] {
    sums(&heap().unwrap(), function)
}

#[inline(never)]
fn block() -> Box<[u8]> {
    black_box(vec![7_u8; SIZE].into_boxed_slice())
}

#[inline(never)]
fn keeps(kept: &mut Vec<Box<[u8]>>, n: usize) {
    for _ in 0..n {
        kept.push(block());
        yield_now();
    }
}

#[inline(never)]
fn frees(n: usize) {
    for _ in 0..n {
        let block = block();
        yield_now();
        drop(black_box(block));
    }
}

/// Green threads park between an allocation and the next, and move.
fn check_two_places() {
    set_heap_rate(1);
    let place = line!() + 2;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            spawn(|| {
                let mut kept = Vec::with_capacity(50);
                keeps(&mut kept, 50);
                frees(70);
                kept
            })
        })
        .collect();
    let kept: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let heap = heap().unwrap();
    assert_eq!(sums(&heap, "keeps"), [400, 400_000, 400, 400_000], "{}", heap.folded());
    assert_eq!(sums(&heap, "frees"), [560, 560_000, 0, 0], "{}", heap.folded());
    assert_eq!(heap.lost(), 0);
    for site in sites(&heap, "keeps") {
        let at = site.spawned_at.unwrap();
        assert!(at.file.ends_with("heap.rs") && at.line.abs_diff(place) < 3, "{at}");
        let names: Vec<_> = site.stack.iter().map(|frame| &*frame.function).collect();
        assert!(
            !names.iter().any(|name| name.contains("run_m") || name.contains("Profiled"))
                && names[0].contains("alloc"),
            "{names:?}"
        );
    }
    let line = heap.folded().lines().find(|line| line.contains("keeps;")).unwrap().to_owned();
    assert!(line.starts_with("green threads spawned at ") && line.contains("block;"), "{line}");
    assert!(!heap.folded().contains("frees;"), "it has nothing in use");
    drop(kept);
    assert_eq!(sums_now("keeps"), [400, 400_000, 0, 0]);
    assert!(heap.in_use().bytes >= 400_000 && heap.allocated().objects >= 960);
}

#[test]
fn figures_of_green_threads_that_move_are_exact_with_rate_1() {
    child::passes("figures_of_green_threads_that_move_are_exact_with_rate_1", "move", || {
        on(4, check_two_places);
    });
}

#[test]
#[cfg_attr(
    not(all(target_env = "gnu", target_arch = "x86_64")),
    ignore = "no thread-locals of green threads"
)]
fn figures_are_exact_with_thread_locals_of_green_threads() {
    child::passes("figures_are_exact_with_thread_locals_of_green_threads", "own", || {
        let runtime = Builder::new().procs(4).thread_locals(ThreadLocals::OfGreenThread).build().unwrap();
        runtime.block_on(check_two_places);
    });
}

#[inline(never)]
fn hands_over() -> Vec<Box<[u8]>> {
    let mut all = Vec::with_capacity(30);
    (0..30).for_each(|_| all.push(block()));
    all
}

/// Also after the thread that has allocated has ended.
#[test]
fn what_another_os_thread_frees_is_not_in_use() {
    child::passes("what_another_os_thread_frees_is_not_in_use", "frees", || {
        set_heap_rate(1);
        let mut all = std::thread::spawn(hands_over).join().unwrap();
        // The blocks, and the vector around them.
        let vector = 30 * size_of::<Box<[u8]>>() as u64;
        assert_eq!(sums_now("hands_over"), [31, 30_000 + vector, 31, 30_000 + vector]);
        let rest = all.split_off(10);
        on(2, || spawn(|| drop(rest)).join().unwrap());
        assert_eq!(sums_now("hands_over"), [31, 30_000 + vector, 11, 10_000 + vector]);
        std::thread::spawn(|| drop(all)).join().unwrap();
        assert_eq!(sums_now("hands_over"), [31, 30_000 + vector, 0, 0]);
    });
}

#[inline(never)]
fn grows() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(100);
    bytes.resize(100, 1_u8);
    bytes.reserve_exact(900);
    bytes.resize(1000, 1);
    bytes.reserve_exact(9000);
    black_box(bytes)
}

#[inline(never)]
fn shrinks(bytes: &mut Vec<u8>) {
    bytes.shrink_to(5000);
}

#[test]
fn a_reallocation_is_a_free_and_an_allocation() {
    child::passes("a_reallocation_is_a_free_and_an_allocation", "realloc", || {
        set_heap_rate(1);
        let mut bytes = grows();
        assert_eq!(sums_now("grows"), [3, 11_100, 1, 10_000]);
        // One that fails frees nothing.
        bytes.try_reserve_exact(isize::MAX as usize / 2).unwrap_err();
        assert_eq!(sums_now("grows"), [3, 11_100, 1, 10_000]);
        shrinks(&mut bytes);
        assert_eq!((sums_now("grows"), sums_now("shrinks")), ([3, 11_100, 0, 0], [1, 5000, 1, 5000]));
        drop(bytes);
        assert_eq!(sums_now("shrinks"), [1, 5000, 0, 0]);
    });
}

#[inline(never)]
fn is_unseen() -> Box<[u8]> {
    black_box(block())
}

#[inline(never)]
fn is_seen() -> Box<[u8]> {
    black_box(block())
}

#[test]
fn rate_0_takes_no_samples_and_still_sees_frees() {
    child::passes("rate_0_takes_no_samples_and_still_sees_frees", "off", || {
        set_heap_rate(1);
        let seen = is_seen();
        set_heap_rate(0);
        let unseen = (0..100).map(|_| is_unseen()).collect::<Vec<_>>();
        assert_eq!((sums_now("is_unseen"), sums_now("is_seen")), ([0; 4], [1, 1000, 1, 1000]));
        drop((seen, unseen));
        assert_eq!((sums_now("is_unseen"), sums_now("is_seen")), ([0; 4], [1, 1000, 0, 0]));
        set_heap_rate(1);
        drop(is_unseen());
        assert_eq!(sums_now("is_unseen"), [1, 1000, 0, 0]);
    });
}

#[inline(never)]
fn fills(n: usize, to: &mut Vec<Box<[u8]>>) {
    (0..n).for_each(|i| to.push(black_box(vec![i as u8; 8].into_boxed_slice())));
}

#[test]
fn a_full_table_counts_what_it_loses() {
    child::passes("a_full_table_counts_what_it_loses", "full", || {
        set_heap_rate(1);
        let mut kept = Vec::with_capacity(70_000);
        fills(70_000, &mut kept);
        let heap = heap().unwrap();
        let [objects, bytes, in_use, _] = sums(&heap, "fills");
        // Other code has lost samples, too: what `heap` itself allocates.
        assert!(heap.lost() >= 70_000 - objects && heap.lost() > 4000, "{} {objects}", heap.lost());
        assert!((62_000..=65_536).contains(&objects), "{objects}");
        assert_eq!((bytes, in_use), (8 * objects, objects));
        let said = format!("{} samples lost: the table was full", heap.lost());
        assert!(heap.folded().contains(&said));
        assert!(heap.to_pprof().windows(said.len()).any(|bytes| bytes == said.as_bytes()));
        drop(kept);
        assert_eq!(sums_now("fills"), [objects, 8 * objects, 0, 0]);
        // There is room again.
        let lost = self::heap().unwrap().lost();
        drop(is_seen());
        assert_eq!((sums_now("is_seen"), self::heap().unwrap().lost()), ([1, 1000, 0, 0], lost));
    });
}

#[inline(never)]
fn small(n: usize) {
    (0..n).for_each(|_| drop(black_box(Box::new([1_u8; 100]))));
}

#[inline(never)]
fn large(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|_| black_box(vec![1_u8; 1 << 20])).collect()
}

#[inline(never)]
fn of_many_threads() {
    (0..400).for_each(|_| std::thread::spawn(|| small_of_thread(100)).join().unwrap());
}

#[inline(never)]
fn small_of_thread(n: usize) {
    (0..n).for_each(|_| drop(black_box(Box::new([1_u8; 100]))));
}

/// Within five standard deviations.
#[test]
fn samples_stand_for_what_is_no_sample() {
    child::passes("samples_stand_for_what_is_no_sample", "rate", || {
        set_heap_rate(4096);
        on(2, || spawn(|| small(50_000)).join().unwrap());
        let kept = large(10);
        let [objects, bytes, in_use, _] = sums_now("small");
        // 1,206 samples are expected.
        assert!(
            objects.abs_diff(50_000) < 50_000 * 14 / 100 && bytes.abs_diff(objects * 100) <= objects,
            "{objects}"
        );
        assert_eq!(in_use, 0);
        // Each of the large ones is a sample. The vector around them may be one.
        let [objects, bytes, ..] = sums_now("large");
        assert!((10..30).contains(&objects) && bytes.abs_diff(10 << 20) < 20_000, "{objects} {bytes}");
        drop(kept);
        // The first sample of a thread comes by chance, too. 98 are expected.
        set_heap_rate(40_960);
        of_many_threads();
        let [objects, ..] = sums_now("small_of_thread");
        assert!(objects.abs_diff(40_000) < 20_000, "{objects}");
    });
}

#[test]
fn a_sample_has_the_labels_of_its_green_thread() {
    child::passes("a_sample_has_the_labels_of_its_green_thread", "labels", || {
        on(2, || {
            set_heap_rate(1);
            let kept: Vec<_> = ["/a", "/b", "/a"]
                .map(|route| {
                    profile::labels(&[("route", route)], || {
                        spawn(|| {
                            let mut kept = Vec::with_capacity(5);
                            keeps(&mut kept, 5);
                            kept
                        })
                    })
                })
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect();
            let heap = heap().unwrap();
            let mut of: Vec<_> = sites(&heap, "keeps")
                .iter()
                .map(|site| (site.labels[0].1.clone(), site.in_use.objects))
                .collect();
            of.sort_unstable();
            assert_eq!(of, [("/a".into(), 10), ("/b".into(), 5)]);
            assert!(heap.folded().contains(" route=/b;"));
            drop(kept);
        });
    });
}

struct AtExit(Vec<Box<[u8]>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        allocates_at_exit(&mut self.0);
    }
}

#[inline(never)]
fn allocates_at_exit(kept: &mut Vec<Box<[u8]>>) {
    kept.push(block());
    drop(black_box(block()));
}

thread_local! {
    static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

#[test]
fn destructors_of_thread_locals_are_counted() {
    child::passes("destructors_of_thread_locals_are_counted", "exit", || {
        set_heap_rate(1);
        for _ in 0..20 {
            let sets = || AT_EXIT.set(Some(AtExit(Vec::with_capacity(1))));
            std::thread::spawn(sets).join().unwrap();
        }
        assert_eq!(sums_now("allocates_at_exit"), [40, 40_000, 0, 0]);
    });
}

#[inline(never)]
fn churns(n: usize) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = (0..n).map(|i| vec![1_u8; 1 + i % 300]).collect();
    all.iter_mut().for_each(|bytes| bytes.reserve_exact(400));
    black_box(all)
}

/// Green and OS threads allocate, reallocate and free each other's memory, while profiles are taken.
#[test]
fn nothing_is_in_use_after_all_was_freed() {
    child::passes("nothing_is_in_use_after_all_was_freed", "churn", || {
        on(4, || {
            set_heap_rate(1);
            let (give, given) = bounded(4);
            let frees: Vec<_> = (0..3)
                .map(|i| {
                    let given = given.clone();
                    let frees = move || given.iter().for_each(drop);
                    if i == 0 { Err(std::thread::spawn(frees)) } else { Ok(spawn(frees)) }
                })
                .collect();
            let churn: Vec<_> = (0..6)
                .map(|_| {
                    let give = give.clone();
                    spawn(move || (0..20).for_each(|_| give.send(churns(50)).unwrap()))
                })
                .collect();
            drop((give, given));
            heap().unwrap();
            churn.into_iter().for_each(|thread| thread.join().unwrap());
            for thread in frees {
                match thread {
                    Ok(green) => green.join().unwrap(),
                    Err(os) => runtime::blocking(|| os.join().unwrap()),
                }
            }
            let [objects, _, in_use, bytes_in_use] = sums_now("churns");
            // In each call 50 vectors that grow once, and the vector around them.
            assert_eq!((objects, in_use, bytes_in_use), (6 * 20 * 101, 0, 0));
        });
    });
}

/// Allocations of the runtime itself are samples, also on an M's own stack.
#[test]
fn the_runtime_goes_on_with_a_sample_of_each_allocation() {
    child::passes("the_runtime_goes_on_with_a_sample_of_each_allocation", "runtime", || {
        set_heap_rate(1);
        on(4, || {
            let (send, receive) = unbounded();
            let threads: Vec<_> = (0..300)
                .map(|i| {
                    let send = send.clone();
                    spawn(move || {
                        runtime::sleep(std::time::Duration::from_micros(i * 7));
                        send.send(i).unwrap();
                    })
                })
                .collect();
            drop(send);
            assert_eq!(receive.iter().sum::<u64>(), 300 * 299 / 2);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let heap = heap().unwrap();
            assert!(heap.sites().iter().any(|site| site.spawned_at.is_none()), "the scheduler has sites");
        });
    });
}

#[test]
fn the_debug_page_has_the_profile() {
    child::passes("the_debug_page_has_the_profile", "page", || {
        on(2, || {
            set_heap_rate(1);
            let mut kept = Vec::with_capacity(3);
            keeps(&mut kept, 3);
            let server = debug::serve("127.0.0.1:0").unwrap();
            let ask = |path: &str| {
                let mut stream = TcpStream::connect(server.local_addr()).unwrap();
                write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                String::from_utf8_lossy(&answer).into_owned()
            };
            runtime::blocking(|| {
                let folded = ask("/heap?format=folded");
                assert!(folded.starts_with("HTTP/1.1 200 OK\r\n"), "{folded}");
                let is_its = |line: &&str| line.contains("keeps;") && line.ends_with(" 3000");
                assert_eq!(folded.lines().filter(is_its).count(), 1, "{folded}");
                let pprof = ask("/heap");
                assert!(pprof.contains("filename=\"heap.pb\"") && pprof.contains("inuse_space"), "{pprof}");
                assert!(ask("/heap?format=json").starts_with("HTTP/1.1 400 "));
                assert!(ask("/").contains("href=\"heap\""));
            });
            drop(kept);
        });
    });
}
