//! `Receiver::recv_many`: several messages by one call.

use super::receiver::Receiver;

impl<T> Receiver<T> {
    /// Receives messages, at most `limit`, and adds them to `buffer`. Waits until there is one, and then takes
    /// what is there.
    ///
    /// Returns the number of messages. It is 0 if `limit` is 0, or if the channel is empty and disconnected.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No message is lost.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// (0..5).for_each(|n| s.send(n).unwrap());
    /// drop(s);
    /// let mut batch = Vec::new();
    /// assert_eq!(r.recv_many(&mut batch, 3), 3);
    /// assert_eq!(r.recv_many(&mut batch, 3), 2);
    /// assert_eq!(r.recv_many(&mut batch, 3), 0);
    /// assert_eq!(batch, [0, 1, 2, 3, 4]);
    /// ```
    pub fn recv_many(&self, buffer: &mut Vec<T>, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        match self.recv() {
            Ok(first) => self.take_more(first, buffer, limit),
            Err(_) => 0,
        }
    }

    /// Receives messages as [`recv_many`](Receiver::recv_many) does, in a future.
    ///
    /// If the future is dropped before it is ready, no message is lost.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(2);
    /// runtime::spawn(move || (0..5).for_each(|n| s.send(n).unwrap()));
    /// let all = runtime::block_on(async {
    ///     let mut all = Vec::new();
    ///     while r.recv_many_async(&mut all, 10).await > 0 {}
    ///     all
    /// });
    /// assert_eq!(all, [0, 1, 2, 3, 4]);
    /// ```
    #[cfg(not(loom))]
    pub async fn recv_many_async(&self, buffer: &mut Vec<T>, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        match self.recv_async().await {
            Ok(first) => self.take_more(first, buffer, limit),
            Err(_) => 0,
        }
    }

    /// Adds `first` to the buffer, and the messages behind it that are there. Returns how many it added.
    fn take_more(&self, first: T, buffer: &mut Vec<T>, limit: usize) -> usize {
        let before = buffer.len();
        buffer.push(first);
        buffer.extend(self.try_iter().take(limit - 1));
        buffer.len() - before
    }
}
