//! The iterators of `mpsc::Receiver`.

use super::Receiver;

/// The iterator that [`Receiver::iter`] returns.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::channel();
/// sender.send(1).unwrap();
/// drop(sender);
/// assert_eq!((&receiver).into_iter().count(), 1);
/// ```
#[derive(Debug)]
pub struct Iter<'a, T: 'a> {
    pub(super) receiver: &'a Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

/// The iterator that [`Receiver::try_iter`] returns.
///
/// ```
/// let (_sender, receiver) = runtime::sync::mpsc::channel::<u32>();
/// assert_eq!(receiver.try_iter().next(), None);
/// ```
#[derive(Debug)]
pub struct TryIter<'a, T: 'a> {
    pub(super) receiver: &'a Receiver<T>,
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

/// The iterator that [`Receiver::into_iter`] returns. It owns the receiver.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::channel();
/// runtime::spawn(move || sender.send(1).unwrap());
/// assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [1]);
/// ```
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
