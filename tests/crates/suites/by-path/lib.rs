//! This project's types by tokio's paths, for tokio's own tests. The scripts in `names` rename methods.
//!
//! Each item is this project's own, without a line of code around it. An exception are the traits of streams
//! and the macros that only poll futures: these are tokio's.

pub use ::runtime::{main, sim, spawn, task_local, test};
pub use traits::{join, pin, select, try_join};

pub mod io {
    pub use ::runtime::io::{DuplexStream, duplex};
    pub use ::runtime::net::{Interest, Ready};
    pub use traits::io::*;
}

pub mod fs {
    pub use ::runtime::fs::*;
}

pub mod net {
    pub use ::runtime::net::lookup_host_async as lookup_host;
    pub use ::runtime::net::unix::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
    pub use ::runtime::net::{TcpListener, TcpSocket, TcpStream, ToSocketAddrs, UdpSocket};
}

pub mod process {
    pub use ::runtime::process::*;
}

pub mod runtime {
    pub use ::runtime::{Builder, Handle, Runtime};
}

pub mod signal {
    pub use ::runtime::signal::ctrl_c_async as ctrl_c;
}

pub mod sync {
    pub use ::runtime::sync::*;

    /// A channel with a bound and one without have the same types here.
    pub mod mpsc {
        pub use ::runtime::channel::{
            OwnedPermit, Permit, Receiver, Receiver as UnboundedReceiver, Sender,
            Sender as UnboundedSender, WeakSender, WeakSender as WeakUnboundedSender,
            bounded as channel, unbounded as unbounded_channel,
        };

        pub mod error {
            pub use ::runtime::channel::{RecvError, SendError, TryRecvError, TrySendError};
        }
    }
}

pub mod task {
    pub use ::runtime::{spawn, yield_now_async as yield_now};
    pub use ::runtime::JoinHandle;
    pub use ::runtime::thread::{AbortHandle, JoinError, JoinSet, LocalSet, spawn_local};
    pub use ::runtime::{blocking as block_in_place, blocking_async as spawn_blocking};
}

pub mod time {
    pub use ::runtime::time::*;
    pub use ::runtime::time::{
        sleep_async as sleep, sleep_until_async as sleep_until, timeout_at_async as timeout_at,
        timeout_async as timeout,
    };

    pub mod error {
        pub use ::runtime::time::Elapsed;
    }

    /// The clock of a simulation, in which the tests run that call this, passes no time by itself.
    pub fn pause() {}

    /// In a simulation, time passes in a sleep only.
    pub use ::runtime::time::sleep_async as advance;
}
