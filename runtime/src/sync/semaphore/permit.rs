//! Permits of a `Semaphore`, which are released when they are dropped.

use std::fmt;
use std::sync::Arc;

use super::Semaphore;

/// Permits of a [`Semaphore`], which are released when this value is dropped.
///
/// ```
/// let semaphore = runtime::sync::Semaphore::new(2);
/// let permit = semaphore.acquire_many(2).unwrap();
/// assert_eq!(semaphore.available_permits(), 0);
/// drop(permit);
/// assert_eq!(semaphore.available_permits(), 2);
/// ```
#[must_use]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    /// Merged permits may be more than one call can take.
    permits: usize,
}

impl<'a> SemaphorePermit<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, permits: u32) -> Self {
        SemaphorePermit { semaphore, permits: permits as usize }
    }

    /// Drops this value without releasing the permits: they are gone for good.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// semaphore.acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of `other` to these.
    ///
    /// # Panics
    ///
    /// Panics if `other` is of another semaphore.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let mut permit = semaphore.acquire().unwrap();
    /// permit.merge(semaphore.acquire().unwrap());
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            std::ptr::eq(self.semaphore, other.semaphore),
            "merging permits from different semaphore instances"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Splits off `n` of these permits. Returns `None` if there are fewer.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// let mut permit = semaphore.acquire_many(3).unwrap();
    /// assert_eq!(permit.split(2).unwrap().num_permits(), 2);
    /// assert!(permit.split(2).is_none());
    /// ```
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(SemaphorePermit { semaphore: self.semaphore, permits: n })
    }

    /// Returns the semaphore of these permits.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// assert_eq!(semaphore.acquire().unwrap().semaphore().available_permits(), 0);
    /// ```
    pub fn semaphore(&self) -> &'a Semaphore {
        self.semaphore
    }

    /// Returns the number of these permits.
    ///
    /// ```
    /// assert_eq!(runtime::sync::Semaphore::new(1).acquire().unwrap().num_permits(), 1);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        self.semaphore.add_permits(self.permits);
    }
}

impl fmt::Debug for SemaphorePermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit").field("permits", &self.permits).finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`] in an `Arc`, which are released when this value is dropped. They keep the
/// `Arc`.
///
/// ```
/// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
/// let permit = semaphore.clone().acquire_owned().unwrap();
/// assert!(std::sync::Arc::ptr_eq(permit.semaphore(), &semaphore));
/// ```
#[must_use]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    /// Merged permits may be more than one call can take.
    permits: usize,
}

impl OwnedSemaphorePermit {
    pub(super) fn new(semaphore: Arc<Semaphore>, permits: u32) -> Self {
        OwnedSemaphorePermit { semaphore, permits: permits as usize }
    }

    /// Drops this value without releasing the permits: they are gone for good.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// semaphore.clone().acquire_owned().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of `other` to these.
    ///
    /// # Panics
    ///
    /// Panics if `other` is of another semaphore.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// let mut permit = semaphore.clone().acquire_owned().unwrap();
    /// permit.merge(semaphore.acquire_owned().unwrap());
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "merging permits from different semaphore instances"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Splits off `n` of these permits. Returns `None` if there are fewer.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// let mut permit = semaphore.acquire_many_owned(2).unwrap();
    /// assert_eq!(permit.split(1).unwrap().num_permits(), permit.num_permits());
    /// ```
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(OwnedSemaphorePermit { semaphore: Arc::clone(&self.semaphore), permits: n })
    }

    /// Returns the semaphore of these permits.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert_eq!(semaphore.acquire_owned().unwrap().semaphore().available_permits(), 0);
    /// ```
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Returns the number of these permits.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert_eq!(semaphore.acquire_owned().unwrap().num_permits(), 1);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.add_permits(self.permits);
    }
}

impl fmt::Debug for OwnedSemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSemaphorePermit").field("permits", &self.permits).finish_non_exhaustive()
    }
}
