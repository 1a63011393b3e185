//! A MariaDB server.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{folder_for, free_port, wait_for_port};

/// A MariaDB server on a free port of loopback, with its data in a temporary folder. Each user may log in
/// without a password.
#[derive(Debug)]
pub struct MariaDb {
    server: Child,
    folder: PathBuf,
    /// The port on which the server listens.
    pub port: u16,
}

impl MariaDb {
    /// Starts a server for `clients` connections and waits until the server accepts connections. Returns
    /// `None` if MariaDB is not installed.
    pub fn start(clients: usize) -> Option<Self> {
        let mut programs = ["/usr/sbin/mariadbd", "/usr/libexec/mariadbd"].iter();
        let program = programs.find(|program| Path::new(program).exists())?;
        let folder = folder_for("mariadb");
        let option = |name: &str, path: &str| format!("--{name}={}", folder.join(path).display());
        // Refused for root without this option; others run the server as themselves.
        let user = folder_belongs_to_root(&folder).then_some("--user=root");
        let mut install = Command::new("mariadb-install-db");
        install
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(user);
        // The folder for temporary files must be the server's own.
        install.arg(option("tmpdir", ""));
        let installed = install.arg(option("datadir", "data")).output().ok()?;
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let port = free_port();
        let mut server = Command::new(program);
        server.args([
            "--no-defaults",
            "--skip-grant-tables",
            "--skip-name-resolve",
            "--bind-address=127.0.0.1",
        ]);
        server.args(user).args([
            option("datadir", "data"),
            option("socket", "socket"),
            option("pid-file", "pid"),
        ]);
        server.arg(format!("--port={port}")).arg(format!("--max-connections={}", clients + 20));
        server.arg(option("tmpdir", "")).args(["--back-log=1000", "--innodb-flush-log-at-trx-commit=0"]);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mariadbd");
        let server = MariaDb { server, folder, port };
        wait_for_port(port);
        Some(server)
    }
}

fn folder_belongs_to_root(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    folder.metadata().is_ok_and(|data| data.uid() == 0)
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
