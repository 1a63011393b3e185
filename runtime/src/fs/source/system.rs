//! The files of the system.

#[cfg(unix)]
pub(crate) use std::os::unix::fs::{chown, lchown, symlink};

pub(crate) use std::fs::{
    DirBuilder, DirEntry, File, OpenOptions, ReadDir, canonicalize, copy, create_dir, create_dir_all, exists,
    hard_link, metadata, read, read_dir, read_link, read_to_string, remove_dir, remove_dir_all, remove_file,
    rename, set_permissions, symlink_metadata, write,
};

pub(crate) fn of_std(file: std::fs::File) -> File {
    file
}

pub(crate) fn into_std(file: File) -> std::fs::File {
    file
}
