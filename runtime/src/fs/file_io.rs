//! Reading, writing and seeking in a `File`: one blocking call for each call of a trait of std, or of an
//! awaited method.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use super::{File, awaited, source};
use crate::bounded::bounded;

impl File {
    /// Reads into `buf` in a future: see [awaited](crate::fs#awaited). Returns the number of bytes, which is
    /// 0 at the end of the file, and for an empty `buf`.
    ///
    /// If the future is dropped while the call runs, the bytes are lost: the position in the file has gone
    /// on.
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
    /// let mut buf = [0; 1];
    /// assert_eq!(file.read_async(&mut buf).await?, 1);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn read_async(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_by(buf, |mut file, bytes| file.read(bytes)).await
    }

    /// Reads into `buf` by `read`.
    pub(super) async fn read_by(
        &self,
        buf: &mut [u8],
        read: impl FnOnce(&source::File, &mut [u8]) -> io::Result<usize> + Send + 'static,
    ) -> io::Result<usize> {
        let room = buf.len();
        if room == 0 {
            return Ok(0);
        }
        let call = move |file: &source::File| {
            let mut bytes = vec![0; room];
            let n = read(file, &mut bytes)?;
            bytes.truncate(n);
            Ok(bytes)
        };
        let bytes = self.io_async(call).await?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Reads to the end of the file in a future, and appends that to `buf`: see [awaited](crate::fs#awaited).
    /// Returns the number of bytes.
    ///
    /// If the call fails, or the future is dropped, nothing is appended, and the position in the file may
    /// have gone on.
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let mut bytes = Vec::new();
    /// runtime::fs::File::open_async("Cargo.toml").await?.read_to_end_async(&mut bytes).await?;
    /// assert_eq!(bytes, runtime::fs::read_async("Cargo.toml").await?);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn read_to_end_async(&self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let mut bytes = self
            .io_async(|mut file| {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            })
            .await?;
        let n = bytes.len();
        buf.append(&mut bytes);
        Ok(n)
    }

    /// Writes the first bytes of `buf` in a future: see [awaited](crate::fs#awaited). Returns how many were
    /// written.
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let path = std::env::temp_dir().join(format!("fs-file-write-{}", std::process::id()));
    /// let file = runtime::fs::File::create_async(&path).await?;
    /// assert_eq!(file.write_async(b"hello").await?, 5);
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn write_async(&self, buf: &[u8]) -> io::Result<usize> {
        let bytes = buf.to_vec();
        self.io_async(move |mut file| file.write(&bytes)).await
    }

    /// Writes all of `buf` in a future, in one call: see [awaited](crate::fs#awaited).
    ///
    /// If the call fails, a part of `buf` may have been written.
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let path = std::env::temp_dir().join(format!("fs-file-write-all-{}", std::process::id()));
    /// runtime::fs::File::create_async(&path).await?.write_all_async(b"hello").await?;
    /// assert_eq!(runtime::fs::read_async(&path).await?, b"hello");
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn write_all_async(&self, buf: &[u8]) -> io::Result<()> {
        let bytes = buf.to_vec();
        self.io_async(move |mut file| file.write_all(&bytes)).await
    }

    /// Moves the position in the file in a future, and returns the new position: see
    /// [awaited](crate::fs#awaited).
    ///
    /// ```
    /// use std::io::SeekFrom;
    /// # runtime::block_on(async {
    /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
    /// assert_eq!(file.seek_async(SeekFrom::End(0)).await?, file.metadata_async().await?.len());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn seek_async(&self, pos: SeekFrom) -> io::Result<u64> {
        self.io_async(move |mut file| file.seek(pos)).await
    }

    pub(super) async fn io_async<T: Send + 'static>(
        &self,
        call: impl FnOnce(&source::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.file.clone();
        awaited(move || call(&file)).await
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        bounded(|| (&*self.file).read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        bounded(|| (&*self.file).read_vectored(bufs))
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        bounded(|| (&*self.file).read_to_end(buf))
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        bounded(|| (&*self.file).read_to_string(buf))
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        bounded(|| (&*self.file).write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        bounded(|| (&*self.file).write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        bounded(|| (&*self.file).seek(pos))
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        (&*self).seek(pos)
    }
}
