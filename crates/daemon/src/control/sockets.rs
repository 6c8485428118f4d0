// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unix sockets that listen in the run folder.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that the kernel keeps until they are accepted. Whoever connects comes behind all of them, also behind those of a user who
/// connects as fast as can be: so no more than can be accepted at once, in about a millisecond. With more, the next one waits in `connect`.
pub const BACKLOG: usize = 256;

/// Who may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The user who runs pisted.
    Owner,
    /// And the members of a group.
    Group(u32),
    /// Everybody.
    All,
}

/// Makes a socket that listens at `path`, in the place of what an earlier pisted left there.
///
/// # Errors
/// The path cannot be used.
pub fn listen(path: &Path, kind: SocketType, flags: SocketFlags, access: Access) -> io::Result<OwnedFd> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = net::socket_with(AddressFamily::UNIX, kind, flags | SocketFlags::CLOEXEC, None)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Nobody can connect before it listens.
    let mode = match access {
        Access::Owner => 0o600,
        // A user namespace may not have the group: then the socket is the owner's.
        Access::Group(group) => match chown(path, None, Some(group)) {
            Ok(()) => 0o660,
            Err(_) => 0o600,
        },
        Access::All => 0o666,
    };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    net::listen(&socket, BACKLOG as i32)?;
    Ok(socket)
}

/// Connects to a SOCK_SEQPACKET socket, and never waits for who listens there.
///
/// # Errors
/// Nobody listens there; or, `ErrorKind::WouldBlock`, somebody has not accepted for long.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
