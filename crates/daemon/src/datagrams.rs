// SPDX-License-Identifier: MIT OR Apache-2.0
//! A SOCK_SEQPACKET socket that never blocks its owner: what the peer does not take at once waits in a bounded queue.
//!
//! Both of pisted's datagram protocols stand on it: the messages of traced programs (programs.rs) and those between the
//! control process and the consumer (link.rs). What the bytes mean is theirs to know.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// A connected SOCK_SEQPACKET socket with its outgoing queue.
#[derive(Debug)]
pub struct Datagrams {
    socket: Arc<OwnedFd>,
    waiting: VecDeque<Datagram>,
    waiting_bytes: usize,
    waiting_bytes_max: usize,
}

#[derive(Debug)]
struct Datagram {
    bytes: Box<[u8]>,
    descriptor: Option<Arc<OwnedFd>>,
}

impl Datagram {
    fn kept_bytes(&self) -> usize {
        size_of::<Datagram>() + self.bytes.len()
    }
}

/// What [`Datagrams::receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A datagram of `bytes` bytes, now at the start of the buffer, and the descriptor that came with it.
    Datagram {
        /// Bytes of the datagram.
        bytes: usize,
        /// The descriptor, when the caller accepts descriptors and one was sent. Close-on-exec.
        descriptor: Option<OwnedFd>,
    },
    /// The datagram was larger than the buffer; the rest of it is gone.
    Truncated,
    /// Nothing is waiting.
    Empty,
    /// The peer closed the connection.
    Closed,
}

/// Whether the receiver wants the peer's descriptors. Those that are not wanted are closed by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// At most one with each datagram.
    Accepted,
    /// None.
    Ignored,
}

impl Datagrams {
    /// Takes a connected socket; more than `waiting_bytes_max` bytes that the peer does not take are an error of `send`.
    pub fn new(socket: OwnedFd, waiting_bytes_max: usize) -> Datagrams {
        Datagrams {
            socket: Arc::new(socket),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_bytes_max,
        }
    }

    /// Sends one datagram now, or keeps it for [`Datagrams::flush`] when the peer is behind.
    ///
    /// # Errors
    /// `ErrorKind::WouldBlock` when the queue is full (nothing was queued then), else the socket's error. The connection is
    /// of no use after either.
    pub fn send(&mut self, bytes: &[u8], descriptor: Option<Arc<OwnedFd>>) -> io::Result<()> {
        if self.waiting.is_empty() {
            match send_now(self.socket.as_fd(), bytes, descriptor.as_deref()) {
                Err(Errno::AGAIN) => {}
                sent => return Ok(sent?),
            }
        }
        let datagram = Datagram {
            bytes: bytes.into(),
            descriptor,
        };
        if self.waiting_bytes + datagram.kept_bytes() > self.waiting_bytes_max {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.waiting_bytes += datagram.kept_bytes();
        self.waiting.push_back(datagram);
        Ok(())
    }

    /// Sends what waits, as far as the peer takes it.
    ///
    /// # Errors
    /// The socket's error, when the peer is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.waiting.front() {
            match send_now(self.socket.as_fd(), &first.bytes, first.descriptor.as_deref()) {
                Err(Errno::AGAIN) => return Ok(()),
                sent => sent?,
            }
            self.waiting_bytes -= first.kept_bytes();
            self.waiting.pop_front();
        }
        self.waiting.shrink_to(0);
        Ok(())
    }

    /// To be polled by a thread that has not got the rest.
    pub fn socket(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }

    /// What waits, in bytes that it takes here.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Something waits to be sent: poll the socket for writing and call [`Datagrams::flush`].
    pub fn wants_write(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Receives one datagram into `buffer`, without blocking.
    ///
    /// # Errors
    /// The socket's error. A peer that is gone is [`Received::Closed`], once everything that it sent is received.
    pub fn receive(&self, buffer: &mut [u8], descriptors: Descriptors) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = match descriptors {
            Descriptors::Accepted => RecvAncillaryBuffer::new(&mut space),
            Descriptors::Ignored => RecvAncillaryBuffer::default(),
        };
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match net::recvmsg(&self.socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
                Ok(received) => break received,
                // A peer that ended before it received everything resets the connection. The kernel says so once, and before what it sent.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(Errno::AGAIN) => return Ok(Received::Empty),
                Err(Errno::PIPE) => return Ok(Received::Closed),
                Err(error) => return Err(error.into()),
            }
        };
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Ok(Received::Truncated);
        }
        match received.bytes {
            0 => Ok(Received::Closed),
            bytes => Ok(Received::Datagram { bytes, descriptor }),
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send_now(socket: BorrowedFd<'_>, bytes: &[u8], descriptor: Option<&OwnedFd>) -> rustix::io::Result<()> {
    let descriptors = descriptor.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.as_slice().is_empty() {
        let pushed = control.push(SendAncillaryMessage::ScmRights(descriptors.as_slice()));
        assert!(pushed, "the buffer is made for one descriptor");
    }
    loop {
        match net::sendmsg(
            socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn what_a_peer_sent_before_its_end_is_received_although_it_did_not_receive_everything() {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (mut ours, mut of_peer) = (Datagrams::new(pair.0, 100), Datagrams::new(pair.1, 100));
        ours.send(b"never received", None).unwrap();
        of_peer.send(b"last words", None).unwrap();
        drop(of_peer);
        let mut buffer = [0; 100];
        let mut receive = || ours.receive(&mut buffer, Descriptors::Ignored).unwrap();
        assert!(matches!(receive(), Received::Datagram { bytes: 10, .. }));
        assert!(matches!(receive(), Received::Closed));
    }
}
