//! Where glibc keeps the list of robust locks in the record of a thread.

use netpoll::raw::call;

use super::words::read;

/// How far into the record the list may be.
const BYTES: isize = 8192;
const WORD: isize = 8;

/// Returns where the list of this thread is, from `record`: the address of its record.
///
/// # Errors
/// If the list is not in the record.
pub(super) fn offset(record: usize, record_bytes: usize) -> Result<isize, String> {
    // An emulator may not have the call.
    let found = asked(record).or_else(|| sought(record, record_bytes));
    found.ok_or_else(|| "the list of robust locks of a thread is not in its record".into())
}

/// Asks the kernel.
fn asked(record: usize) -> Option<isize> {
    let (mut list, mut length) = (0_usize, 0_usize);
    // SAFETY: the kernel writes these two words.
    let asked = unsafe { call!(libc::SYS_get_robust_list, 0, &raw mut list, &raw mut length) };
    let offset = list.wrapping_sub(record).cast_signed();
    (asked == 0 && (0..BYTES).contains(&offset)).then_some(offset)
}

/// Looks for an empty list in the record: a word that leads to itself, after another one that leads there.
/// The distance of a lock's word from its link follows, which is negative.
fn sought(record: usize, record_bytes: usize) -> Option<isize> {
    let last = record_bytes.cast_signed().min(BYTES) - 2 * WORD;
    (WORD..last).step_by(WORD as usize).find(|&at| {
        // SAFETY: the words lie in the record of this thread.
        let [last, first, distance] = [at - WORD, at, at + WORD].map(|at| unsafe { read(record, at) });
        let list = record.wrapping_add_signed(at);
        first == list && last == list && (-256..0).contains(&distance.cast_signed())
    })
}

#[cfg(test)]
mod tests {
    use super::super::arch::{base, start_of_record};
    use super::super::on_a_thread;
    use super::super::symbols::size;
    use super::*;

    #[test]
    fn a_search_finds_what_the_kernel_says() {
        let (asked, sought) = on_a_thread(|| {
            let bytes = size(c"_thread_db_sizeof_pthread")?;
            let record = base().wrapping_add_signed(start_of_record(bytes));
            Ok((asked(record), sought(record, bytes)))
        })
        .unwrap();
        assert!(sought.is_some());
        assert!(asked.is_none_or(|asked| Some(asked) == sought), "{asked:?} {sought:?}");
    }
}
