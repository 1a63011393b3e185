//! The unit tests of std's modules, unchanged. Their paths `crate::` lead to this file, and so to the std of
//! the toolchain.

#![feature(borrowed_buf_init, core_io_borrowed_buf, io_error_uncategorized, read_buf)]
#![feature(tcp_keepalive, tcp_linger, unix_socket_ancillary_data, unix_socket_peek)]
#![allow(unused, internal_features)]

pub use std::*;

/// Temporary directories, as in std's own `test_helpers`.
#[path = "@STD@/tests/common/mod.rs"]
mod test_helpers;

mod io {
    pub use std::io::*;

    mod pipe {
        #[path = "@STD@/src/io/pipe/tests.rs"]
        mod tests;
    }

    mod stdio {
        use std::io::*;
        use std::sync::{Arc, Mutex};

        #[path = "@STD@/src/io/stdio/tests.rs"]
        mod tests;
    }
}

mod net {
    pub use std::net::*;

    #[path = "@STD@/src/net/test.rs"]
    pub mod test;

    mod tcp {
        #[path = "@STD@/src/net/tcp/tests.rs"]
        mod tests;
    }

    mod udp {
        #[path = "udp.rs"]
        mod tests;
    }
}

mod process {
    pub use std::process::*;

    #[path = "@STD@/src/process/tests.rs"]
    mod tests;
}

mod thread {
    pub use std::thread::*;

    /// As the function of std, which only std's own modules see.
    fn current_os_id() -> u64 {
        // SAFETY: the call has no requirements.
        unsafe { libc::gettid() as u64 }
    }

    #[path = "@STD@/src/thread/tests.rs"]
    mod tests;
}

mod unix_net {
    pub use std::os::unix::net::*;

    #[path = "@STD@/src/os/unix/net/tests.rs"]
    mod tests;
}
