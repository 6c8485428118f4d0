// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people's connections may take of pisted: their number, of each user, and the length of a request.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use crate::shares::{Holdings, Users};

/// Connections served at once, each by a thread.
pub const CONNECTION_COUNT_MAX: usize = 256;
/// Of one request: far more than the longest list of patterns.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The connections that are served.
#[derive(Debug, Clone)]
pub struct Slots {
    users: Users,
    taken: Arc<Mutex<Holdings>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    user: u32,
}

impl Slots {
    /// All are free.
    pub fn new(users: Users) -> Slots {
        Slots {
            users,
            taken: Arc::default(),
        }
    }

    /// Takes one for a user, if the user may have one more.
    pub fn take(&self, user: u32) -> Option<Slot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let permitted = self.users.permit(&taken, user, 1, CONNECTION_COUNT_MAX);
        permitted.then(|| {
            taken.add(user, 1);
            Slot {
                slots: self.clone(),
                user,
            }
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(self.user, 1);
    }
}

/// Reads requests, each ended by a zero byte, and refuses one that is too long before it is all in memory.
#[derive(Debug)]
pub struct Requests<R> {
    inner: R,
    /// Of the request that has begun.
    bytes: usize,
}

impl<R> Requests<R> {
    /// Requests out of a stream.
    pub fn new(inner: R) -> Requests<R> {
        Requests { inner, bytes: 0 }
    }
}

impl<R: Read> Read for Requests<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes = match buffer[..count].iter().rposition(|&byte| byte == 0) {
            Some(end) => count - end - 1,
            None => self.bytes + count,
        };
        if self.bytes > REQUEST_BYTES_MAX {
            let what = format!("a request has more than {REQUEST_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;

    use super::*;

    #[test]
    fn one_user_leaves_slots_for_others() {
        let slots = Slots::new(Users { own: 500 });
        let taken: Vec<Slot> = std::iter::from_fn(|| slots.take(1000)).collect();
        assert_eq!(taken.len(), CONNECTION_COUNT_MAX / 4);
        assert!(slots.take(1001).is_some() && slots.take(0).is_some());
        drop(taken);
        assert!(slots.take(1000).is_some());
    }

    #[test]
    fn requests_end_somewhere() {
        let short = [vec![b'x'; REQUEST_BYTES_MAX / 2], vec![0]].concat().repeat(5);
        let mut requests = io::BufReader::new(Requests::new(&*short));
        for _ in 0..5 {
            assert!(requests.read_until(0, &mut Vec::new()).is_ok());
        }
        let mut requests = io::BufReader::new(Requests::new(io::repeat(b'x')));
        let mut request = Vec::new();
        assert!(requests.read_until(0, &mut request).is_err());
        assert!(request.len() <= REQUEST_BYTES_MAX + (64 << 10));
    }
}
