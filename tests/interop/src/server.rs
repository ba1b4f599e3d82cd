//! Debian's `docker-registry`, on a port of this machine.

use anyhow::{Context as _, Result, bail};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server that ends with this value.
pub struct Server {
    child: Child,
    port: u16,
    _place: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts it, with an empty store.
    pub fn start() -> Result<Self> {
        let place = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let store = place.path().join("store").display().to_string();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {store}}}}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n"
        );
        let file = place.path().join("config.yml");
        std::fs::write(&file, config)?;
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("docker-registry cannot be started; Debian has it as a package")?;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("docker-registry ended with {status}");
            }
            std::thread::yield_now();
        }
        Ok(Self { child, port, _place: place })
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The registry, as clawhost names it.
    pub fn location(&self) -> String {
        format!("oci://{}", self.address())
    }

    /// A version, as other programs and as clawhost name it.
    pub fn image(&self, name: &str, version: &str) -> (String, String) {
        let image = format!("{}/{name}:{version}", self.address());
        (image.clone(), format!("oci://{image}"))
    }
}
