//! Files of the service on their way to or from a session, which count towards a tenant's quota.

use std::fs::File;
use std::io::{self, Seek as _, Write};

use belljar_sandbox::DiskSpace;

use crate::problem::{Problem, disk_full};
use crate::service::Service;
use crate::tenants::TenantName;

/// A file of the service that counts towards a tenant's quota while it grows.
pub(super) struct Spooled {
    pub(super) file: File,
    pub(super) space: DiskSpace,
}

impl Spooled {
    /// An empty one.
    pub(super) async fn new(service: &Service, tenant: &TenantName) -> Result<Self, Problem> {
        let disk = service.runs.disk(tenant).await?;
        let file = tempfile::tempfile_in(&service.spool);
        Ok(Self {
            space: disk.take(0).map_err(disk_full)?,
            file: file.map_err(|error| Problem::io("cannot store a request body", error))?,
        })
    }
}

impl Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.space.grow(bytes.len() as u64)?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same file, from its beginning.
pub(super) fn rewound(file: &File) -> Result<File, Problem> {
    let clone = || {
        let mut file = file.try_clone()?;
        file.rewind()?;
        io::Result::Ok(file)
    };
    clone().map_err(|error| Problem::io("cannot read a request body", error))
}
